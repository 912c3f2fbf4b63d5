//! A plain reference for documents, with maps, vectors and strings instead of overlays, ropes and
//! changes. It stores marks per character, so their normal form follows from the marked characters.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use doclock::{
    NodeId, View,
    document::{Mark, Node, check},
};
use serde_json::Value;

use super::{Action, RefMark, Spec, children};

/// The style of a mark: its kind, and its attributes as JSON.
pub(crate) type Style = (String, String);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RefNode {
    pub(crate) kind: String,
    pub(crate) attributes: BTreeMap<String, Value>,
    pub(crate) text: String,
    /// The styles of each character.
    pub(crate) styles: Vec<BTreeSet<Style>>,
    pub(crate) children: Vec<String>,
    pub(crate) parent: Option<String>,
}

/// A plain document.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefDoc {
    pub(crate) nodes: BTreeMap<String, RefNode>,
    pub(crate) root: Option<String>,
    /// The ids of all nodes created here, in order; an id that the store generates is `?n`.
    pub(crate) created: Vec<String>,
}

/// The edit is impossible. The reference may be partly changed.
#[derive(Debug)]
pub(crate) struct Refused;

type Refusable = Result<(), Refused>;

fn unless(refused: bool) -> Refusable {
    if refused { Err(Refused) } else { Ok(()) }
}

impl RefNode {
    pub(super) fn len(&self) -> usize {
        self.styles.len()
    }

    fn splice(&mut self, range: Range<usize>, inserted: &str) -> Refusable {
        unless(range.start > range.end || range.end > self.len())?;
        let mut chars: Vec<char> = self.text.chars().collect();
        if chars[range.clone()].iter().copied().eq(inserted.chars()) {
            return Ok(());
        }
        // New characters get the marks that cover both the previous and the next character.
        let around = match range.start.checked_sub(1) {
            Some(before) if range.end < self.len() => self.styles[before..=range.end]
                .iter()
                .cloned()
                .reduce(|one, other| &one & &other)
                .unwrap_or_default(),
            _ => BTreeSet::new(),
        };
        let added = inserted.chars().map(|_| around.clone());
        self.styles.splice(range.clone(), added);
        chars.splice(range, inserted.chars());
        self.text = chars.into_iter().collect();
        Ok(())
    }

    fn set_marks(&mut self, marks: &[RefMark]) -> Refusable {
        let mut styles = vec![BTreeSet::new(); self.len()];
        for mark in marks {
            let range = mark.range.clone().unwrap_or(0..self.len());
            unless(range.start > range.end || range.end > self.len())?;
            for of_one in &mut styles[range] {
                of_one.insert(mark.style());
            }
        }
        self.styles = styles;
        Ok(())
    }

    fn set_attrs(&mut self, attrs: &[(String, Value)]) {
        for (key, value) in attrs {
            if value.is_null() {
                self.attributes.remove(key);
            } else {
                self.attributes.insert(key.clone(), value.clone());
            }
        }
    }

    /// Start, end and style of every run of characters with one style.
    fn marks(&self) -> Vec<(usize, usize, Style)> {
        let all: BTreeSet<&Style> = self.styles.iter().flatten().collect();
        let mut marks = Vec::new();
        for style in all {
            let mut start = None;
            for at in 0..=self.len() {
                let marked = self.styles.get(at).is_some_and(|here| here.contains(style));
                match (start, marked) {
                    (None, true) => start = Some(at),
                    (Some(from), false) => {
                        marks.push((from, at, style.clone()));
                        start = None;
                    }
                    _ => {}
                }
            }
        }
        marks.sort();
        marks
    }
}

/// Whether the id stands for a generated one.
pub(super) fn is_unknown(id: &str) -> bool {
    id.starts_with('?')
}

impl RefDoc {
    pub(crate) fn apply(&mut self, action: &Action) -> Refusable {
        match action {
            Action::Create(spec) => self.insert(spec, None),
            Action::AddNew(spec, parent, index) => self.insert(spec, Some((parent, *index))),
            Action::AddExisting(id, parent, index) | Action::Move(id, parent, index) => {
                self.attach(id, parent, *index)
            }
            Action::Delete(id) => {
                self.node(id)?;
                unless(self.root.as_ref() == Some(id))?;
                self.detach(id);
                for id in self.subtree(id) {
                    self.nodes.remove(&id);
                }
                Ok(())
            }
            Action::RemoveChild(child, parent) => {
                unless(!self.node(parent)?.children.contains(child))?;
                self.detach(child);
                Ok(())
            }
            Action::SetText(id, text) => {
                let node = self.node(id)?;
                node.splice(0..node.len(), text)
            }
            Action::InsertText(id, at, text) => self.node(id)?.splice(*at..*at, text),
            Action::DeleteText(id, range) => self.node(id)?.splice(range.clone(), ""),
            Action::ReplaceText(id, range, text) => self.node(id)?.splice(range.clone(), text),
            Action::SetAttrs(id, attrs) => {
                self.node(id)?.set_attrs(attrs);
                Ok(())
            }
            Action::SetMarks(id, marks) => self.node(id)?.set_marks(marks),
            Action::SetRoot(id) => {
                if let Some(id) = id {
                    unless(self.node(id)?.parent.is_some())?;
                }
                self.root.clone_from(id);
                Ok(())
            }
            Action::Control(_, actions) | Action::Call(actions) => {
                actions.iter().try_for_each(|action| self.apply(action))
            }
        }
    }

    fn node(&mut self, id: &str) -> Result<&mut RefNode, Refused> {
        self.nodes.get_mut(id).ok_or(Refused)
    }

    /// The subtree of the node, parents before their children.
    pub(crate) fn subtree(&self, id: &str) -> Vec<String> {
        let mut ids = vec![id.to_owned()];
        let mut next = 0;
        while let Some(id) = ids.get(next) {
            ids.extend(self.nodes[id].children.clone());
            next += 1;
        }
        ids
    }

    fn insert(&mut self, spec: &Spec, at: Option<(&String, Option<usize>)>) -> Refusable {
        if let Some((parent, index)) = at {
            let len = self.node(parent)?.children.len();
            unless(index.is_some_and(|index| index > len))?;
        }
        let top = self.insert_below(spec, at.map(|(parent, _)| parent.clone()))?;
        if let Some((parent, index)) = at {
            let children = &mut self.node(parent)?.children;
            children.insert(index.unwrap_or(children.len()), top);
        }
        Ok(())
    }

    fn insert_below(&mut self, spec: &Spec, parent: Option<String>) -> Result<String, Refused> {
        let generated = format!("?{}", self.created.len());
        let id = spec.id.clone().unwrap_or(generated);
        unless(id.is_empty() || self.nodes.contains_key(&id))?;
        self.created.push(id.clone());
        let mut node = RefNode {
            kind: spec.kind.clone(),
            attributes: BTreeMap::new(),
            text: spec.text.clone(),
            styles: vec![BTreeSet::new(); spec.text.chars().count()],
            children: Vec::new(),
            parent,
        };
        node.set_attrs(&spec.attrs);
        node.set_marks(&spec.marks)?;
        self.nodes.insert(id.clone(), node);
        for child in &spec.children {
            let child = self.insert_below(child, Some(id.clone()))?;
            self.node(&id)?.children.push(child);
        }
        Ok(id)
    }

    fn attach(&mut self, id: &str, parent: &str, index: Option<usize>) -> Refusable {
        self.node(parent)?;
        self.node(id)?;
        unless(self.root.as_deref() == Some(id))?;
        unless(self.subtree(id).iter().any(|below| below == parent))?;
        self.detach(id);
        let children = &mut self.node(parent)?.children;
        let index = index.unwrap_or(children.len());
        unless(index > children.len())?;
        children.insert(index, id.to_owned());
        self.node(id)?.parent = Some(parent.to_owned());
        Ok(())
    }

    fn detach(&mut self, id: &str) {
        if let Some(parent) = self.nodes.get_mut(id).and_then(|node| node.parent.take()) {
            let children = &mut self.nodes.get_mut(&parent).unwrap().children;
            children.retain(|child| child != id);
        }
    }

    /// Whether there are nodes with unknown ids.
    pub(crate) fn has_unknown(&self) -> bool {
        self.nodes.keys().any(|id| is_unknown(id))
    }

    /// Replaces the unknown ids with the generated ones.
    pub(crate) fn learn(&mut self, given: &[String]) -> Result<(), String> {
        if self.created.len() != given.len() {
            return Err(format!("{given:?} were created, not {:?}", self.created));
        }
        let names: BTreeMap<String, String> =
            self.created.drain(..).zip(given.iter().cloned()).collect();
        if let Some((id, given)) = names
            .iter()
            .find(|(id, given)| !is_unknown(id) && id != given)
        {
            return Err(format!("{given} was created, not {id}"));
        }
        let rename = |id: &String| {
            names
                .get(id)
                .filter(|_| is_unknown(id))
                .unwrap_or(id)
                .clone()
        };
        let nodes = std::mem::take(&mut self.nodes).into_iter();
        self.nodes = nodes
            .map(|(id, mut node)| {
                node.children = node.children.iter().map(rename).collect();
                node.parent = node.parent.as_ref().map(rename);
                (rename(&id), node)
            })
            .collect();
        self.root = self.root.as_ref().map(rename);
        Ok(())
    }

    /// Reports the difference of a document from this one, or its invalidity.
    pub(crate) fn compare(&self, view: &impl View) -> Result<(), String> {
        check(view).map_err(|fault| fault.to_string())?;
        let differs = |what: &str, found: String, expected: String| match found == expected {
            true => Ok(()),
            false => Err(format!("{what} is {found}, not {expected}")),
        };
        let root = view.root().map(NodeId::to_string);
        differs("root", format!("{root:?}"), format!("{:?}", self.root))?;
        let found: BTreeSet<String> = view.nodes().map(|node| node.id().to_string()).collect();
        let expected: BTreeSet<String> = self.nodes.keys().cloned().collect();
        differs("scan", format!("{found:?}"), format!("{expected:?}"))?;
        let count = view.nodes().count();
        differs("count", count.to_string(), expected.len().to_string())?;
        for (id, expected) in &self.nodes {
            let node_id = NodeId::from(id.as_str());
            let node = view.node(&node_id).ok_or(format!("{id} is missing"))?;
            let parent = view.parent(&node_id).map(NodeId::to_string);
            let children: Vec<String> = children(view, id);
            let attributes: BTreeMap<String, Value> = node
                .attributes()
                .iter()
                .map(|(key, value)| (key.to_string(), value.clone()))
                .collect();
            let found = (node.kind(), attributes, parent, children);
            let plain = (
                expected.kind.as_str(),
                expected.attributes.clone(),
                expected.parent.clone(),
                expected.children.clone(),
            );
            differs(id, format!("{found:?}"), format!("{plain:?}"))?;
            differs(id, node.text().to_string(), expected.text.clone())?;
            let length = node.text().len().to_string();
            differs(id, length, expected.len().to_string())?;
            let marks = format!("{:?}", styled(node)?);
            differs(id, marks, format!("{:?}", expected.marks()))?;
        }
        Ok(())
    }
}

/// The marks of a node in the form of the reference.
fn styled(node: &Node) -> Result<Vec<(usize, usize, Style)>, String> {
    let marks: Vec<&Mark> = node.marks().iter().collect();
    let key = |mark: &&Mark| {
        let range = mark.range.clone().unwrap_or(0..0);
        (range.start, range.end, mark.kind.clone())
    };
    if !marks.is_sorted_by_key(key) {
        return Err(format!("the marks of {} are not sorted", node.id()));
    }
    let mut styled: Vec<_> = marks
        .iter()
        .map(|mark| {
            let (start, end, kind) = key(mark);
            let attributes = serde_json::to_string(&mark.attributes).unwrap();
            (start, end, (kind.to_string(), attributes))
        })
        .collect();
    styled.sort();
    Ok(styled)
}
