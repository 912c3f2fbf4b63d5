//! What the test files share: images of documents, a plain reference for them, and random edits.
//!
//! [`RefDoc`] does with maps, vectors and strings what the library does with overlays, ropes and changes. It
//! keeps marks character by character, so that their normal form follows from nothing but what is marked.

#![allow(dead_code, reason = "every test file uses its part of this room")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use doclock::{
    DataStore, EditError, Mark, Node, NodeId, NodeOperation, NodeSpec, Operation, StoreOptions,
    Transaction, View, check, dsl,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Map, Value, json};

/// The session of every store here, so that a test can write down ids that look like the store's own.
pub(crate) const SESSION: u32 = 7;

/// How long to wait for what comes at once unless it never comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn store() -> DataStore {
    DataStore::with_options(StoreOptions::new().session(SESSION))
}

pub(crate) fn id(text: &str) -> NodeId {
    NodeId::from(text)
}

/// Commits what `edit` does.
pub(crate) fn commit(store: &DataStore, edit: impl FnOnce(&mut Transaction)) -> doclock::Committed {
    let mut transaction = store.begin("test").unwrap();
    edit(&mut transaction);
    transaction.commit().unwrap()
}

/// A document down to the last bit: the root and all nodes, sorted by id, as JSON.
pub(crate) fn image(view: &impl View) -> String {
    let mut nodes: Vec<&Node> = view.nodes().collect();
    nodes.sort_by_key(|node| node.id().to_string());
    serde_json::to_string(&(view.root(), nodes)).unwrap()
}

pub(crate) fn text(view: &impl View, of: &str) -> String {
    view.node(&id(of)).unwrap().text().to_string()
}

pub(crate) fn children(view: &impl View, of: &str) -> Vec<String> {
    let of = id(of);
    let children = view.children(&of);
    children.map(|node| node.id().to_string()).collect()
}

/// A mark as start, end and kind.
pub(crate) fn marks(view: &impl View, of: &str) -> Vec<(usize, usize, String)> {
    let marks = view.node(&id(of)).unwrap().marks().iter();
    marks
        .map(|mark| {
            let range = mark.range.clone().expect("a mark of a node has a range");
            (range.start, range.end, mark.kind.to_string())
        })
        .collect()
}

/// So many cases; where one fails, its seed is printed and kept beside the test file.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

// --- The reference ---

/// What a mark says: its kind, and its attributes as JSON.
pub(crate) type Style = (String, String);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RefNode {
    pub(crate) kind: String,
    pub(crate) attributes: BTreeMap<String, Value>,
    pub(crate) text: String,
    /// What marks say of each character.
    pub(crate) styles: Vec<BTreeSet<Style>>,
    pub(crate) children: Vec<String>,
    pub(crate) parent: Option<String>,
}

/// A document, plainly.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefDoc {
    pub(crate) nodes: BTreeMap<String, RefNode>,
    pub(crate) root: Option<String>,
    /// The ids of all nodes that were ever created here, in order; one that the store is to generate is `?n`.
    pub(crate) created: Vec<String>,
}

/// The edit is not allowed. The reference may be half changed.
#[derive(Debug)]
pub(crate) struct Refused;

type Refusable = Result<(), Refused>;

fn unless(refused: bool) -> Refusable {
    if refused { Err(Refused) } else { Ok(()) }
}

impl RefNode {
    fn len(&self) -> usize {
        self.styles.len()
    }

    fn splice(&mut self, range: Range<usize>, inserted: &str) -> Refusable {
        unless(range.start > range.end || range.end > self.len())?;
        let mut chars: Vec<char> = self.text.chars().collect();
        if chars[range.clone()].iter().copied().eq(inserted.chars()) {
            return Ok(());
        }
        // New characters get what goes on from the one before them, through those they replace, to the one
        // behind them.
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

    /// Start, end and style of every stretch of characters that one style goes through.
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

/// Whether the id stands for one that the store will generate.
fn is_unknown(id: &str) -> bool {
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

    /// The node and all below it, the parents before their children.
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

    /// Whether there are nodes whose ids are not known yet.
    pub(crate) fn has_unknown(&self) -> bool {
        self.nodes.keys().any(|id| is_unknown(id))
    }

    /// Puts the ids that the store gave in the place of the unknown ones.
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

    /// Says where a document differs from this one, or from a sound one.
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

// --- Edits ---

/// A node to be created, as the reference and the library both understand it.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) attrs: Vec<(String, Value)>,
    pub(crate) text: String,
    pub(crate) marks: Vec<RefMark>,
    pub(crate) children: Vec<Spec>,
}

#[derive(Clone, Debug)]
pub(crate) struct RefMark {
    pub(crate) kind: String,
    pub(crate) range: Option<Range<usize>>,
    pub(crate) attrs: Map<String, Value>,
}

impl RefMark {
    fn style(&self) -> Style {
        (
            self.kind.clone(),
            Value::from(self.attrs.clone()).to_string(),
        )
    }

    fn mark(&self) -> Mark {
        let mark = match &self.range {
            Some(range) => Mark::new(self.kind.as_str(), range.clone()),
            None => Mark::whole(self.kind.as_str()),
        };
        mark.with_attributes(
            self.attrs
                .clone()
                .into_iter()
                .collect::<doclock::Attributes>(),
        )
    }
}

impl Spec {
    fn node(&self) -> NodeSpec {
        let attrs = self.attrs.iter().cloned();
        let spec = NodeSpec::new(self.kind.as_str())
            .with_attributes(attrs.collect::<doclock::Attributes>())
            .with_text(self.text.as_str())
            .with_marks(self.marks.iter().map(RefMark::mark))
            .with_children(self.children.iter().map(Spec::node));
        match &self.id {
            Some(id) => spec.with_id(id.as_str()),
            None => spec,
        }
    }
}

/// Whatever can be done to a document: the operations of the DSL and, through code, what only a transaction has.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Create(Spec),
    /// Under this parent, at this index.
    AddNew(Spec, String, Option<usize>),
    /// This child, under this parent, at this index.
    AddExisting(String, String, Option<usize>),
    Delete(String),
    /// This child, from this parent.
    RemoveChild(String, String),
    /// This node, under this parent, at this index.
    Move(String, String, Option<usize>),
    SetText(String, String),
    InsertText(String, usize, String),
    DeleteText(String, Range<usize>),
    ReplaceText(String, Range<usize>, String),
    SetAttrs(String, Vec<(String, Value)>),
    SetMarks(String, Vec<RefMark>),
    SetRoot(Option<String>),
    Control(String, Vec<Action>),
    Call(Vec<Action>),
}

impl Action {
    /// The edit as an operation.
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Create(spec) => dsl::create(spec.node()),
            Self::Control(id, actions) => {
                let operations = actions.iter().map(|action| action.on_node().unwrap().1);
                dsl::control(id.as_str(), operations)
            }
            Self::SetMarks(..) | Self::SetRoot(_) | Self::Call(_) => {
                let action = self.clone();
                dsl::op(move |transaction| action.perform(transaction))
            }
            _ => {
                let (id, operation) = self.on_node().unwrap();
                operation.on(id.as_str())
            }
        }
    }

    /// The edit as something done to a node, if it is.
    fn on_node(&self) -> Option<(&String, NodeOperation)> {
        Some(match self {
            Self::AddNew(spec, to, index) => (to, dsl::add_child(spec.node(), *index)),
            Self::AddExisting(child, to, index) => (to, dsl::add_child(child.as_str(), *index)),
            Self::Delete(id) => (id, dsl::delete()),
            Self::RemoveChild(child, from) => (from, dsl::remove_child(child.as_str())),
            Self::Move(id, to, index) => (id, dsl::move_node(to.as_str(), *index)),
            Self::SetText(id, text) => (id, dsl::set_text(text.as_str())),
            Self::InsertText(id, at, text) => (id, dsl::insert_text(*at, text.as_str())),
            Self::DeleteText(id, range) => (id, dsl::delete_text_range(range.start, range.end)),
            Self::ReplaceText(id, range, text) => {
                let operation = dsl::replace_text(range.start, range.end, text.as_str());
                (id, operation)
            }
            Self::SetAttrs(id, attrs) => (id, dsl::set_attrs(attrs.iter().cloned())),
            Self::Create(_)
            | Self::SetMarks(..)
            | Self::SetRoot(_)
            | Self::Control(..)
            | Self::Call(_) => return None,
        })
    }

    /// How many operations a list counts for it.
    pub(crate) fn operations(&self) -> usize {
        match self {
            Self::Control(_, actions) => actions.len(),
            _ => 1,
        }
    }

    /// The edit by the methods of a transaction.
    pub(crate) fn perform(&self, on: &mut Transaction) -> Result<(), EditError> {
        match self {
            Self::Create(spec) => on.create(spec.node()).map(drop),
            Self::AddNew(spec, to, index) => on.insert(spec.node(), &id(to), *index).map(drop),
            Self::AddExisting(node, to, index) | Self::Move(node, to, index) => {
                on.move_node(&id(node), &id(to), *index)
            }
            Self::Delete(node) => on.delete(&id(node)),
            Self::RemoveChild(child, from) => on.remove_child(&id(from), &id(child)),
            Self::SetText(node, text) => on.set_text(&id(node), text.as_str()),
            Self::InsertText(node, at, text) => on.insert_text(&id(node), *at, text.as_str()),
            Self::DeleteText(node, range) => on.delete_text(&id(node), range.clone()),
            Self::ReplaceText(node, range, text) => {
                on.replace_text(&id(node), range.clone(), text.as_str())
            }
            Self::SetAttrs(node, attrs) => on.set_attrs(&id(node), attrs.iter().cloned()),
            Self::SetMarks(node, marks) => on.set_marks(&id(node), marks.iter().map(RefMark::mark)),
            Self::SetRoot(node) => on.set_root(node.as_deref().map(id).as_ref()),
            Self::Control(_, actions) | Self::Call(actions) => {
                actions.iter().try_for_each(|action| action.perform(on))
            }
        }
    }

    /// The names of the methods that [`Action::perform`] calls.
    pub(crate) fn methods(&self) -> Vec<&'static str> {
        let name = match self {
            Self::Create(_) => "create",
            Self::AddNew(..) => "insert",
            Self::AddExisting(..) | Self::Move(..) => "move_node",
            Self::Delete(_) => "delete",
            Self::RemoveChild(..) => "remove_child",
            Self::SetText(..) => "set_text",
            Self::InsertText(..) => "insert_text",
            Self::DeleteText(..) => "delete_text",
            Self::ReplaceText(..) => "replace_text",
            Self::SetAttrs(..) => "set_attrs",
            Self::SetMarks(..) => "set_marks",
            Self::SetRoot(_) => "set_root",
            Self::Control(_, actions) | Self::Call(actions) => {
                return actions.iter().flat_map(Self::methods).collect();
            }
        };
        vec![name]
    }
}

/// The kinds of [`Action`], to be drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    AddNew,
    AddExisting,
    Delete,
    RemoveChild,
    Move,
    SetText,
    InsertText,
    DeleteText,
    ReplaceText,
    SetAttrs,
    SetMarks,
    SetRoot,
    Control,
    Call,
}

impl Kind {
    /// All of them; what makes nodes comes more often than what deletes them.
    const DRAWN: [Self; 18] = [
        Self::Create,
        Self::AddNew,
        Self::AddNew,
        Self::AddNew,
        Self::AddExisting,
        Self::Delete,
        Self::RemoveChild,
        Self::Move,
        Self::SetText,
        Self::InsertText,
        Self::InsertText,
        Self::DeleteText,
        Self::ReplaceText,
        Self::SetAttrs,
        Self::SetMarks,
        Self::SetRoot,
        Self::Control,
        Self::Call,
    ];
}

/// An edit that is not yet tied to a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(Kind::DRAWN.to_vec());
    (kind, any::<u64>()).prop_map(|(kind, seed)| Step { kind, seed })
}

pub(crate) fn steps(
    count: impl Into<prop::collection::SizeRange>,
) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), count)
}

/// The edits that these steps come to, one after the other, on a document like `on`. All of them are possible.
pub(crate) fn possible(steps: &[Step], on: &RefDoc) -> Vec<Action> {
    aimed(steps, on, Aim::Named)
}

/// The edits that these steps come to. What is impossible is left out, unless they are to be wild.
pub(crate) fn aimed(steps: &[Step], on: &RefDoc, aim: Aim) -> Vec<Action> {
    let mut on = on.clone();
    let choose = |step: &Step| {
        let action = Chooser::new(&on, step.seed, aim).action(step.kind);
        let mut after = on.clone();
        match after.apply(&action) {
            Ok(()) => on = after,
            Err(Refused) if aim == Aim::Wild => {}
            Err(Refused) => return None,
        }
        Some(action)
    };
    steps.iter().filter_map(choose).collect()
}

/// How an edit is aimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// At what there is; every node that it creates has a name.
    Named,
    /// At what there is; the store generates some of the ids.
    Unnamed,
    /// Now and then at what there is not.
    Wild,
}

/// Numbers that follow from a seed (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// Changes one thing somewhere in a JSON value.
pub(crate) fn spoil(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Array(items) if !items.is_empty() && !dice.one_in(8) => {
            let at = dice.below(items.len());
            match dice.below(8) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                2 => items.swap(0, at),
                _ => spoil(&mut items[at], dice),
            }
        }
        Value::Object(fields) if !fields.is_empty() && !dice.one_in(8) => {
            let key = fields.keys().nth(dice.below(fields.len())).cloned();
            let key = key.unwrap_or_default();
            if dice.one_in(8) {
                fields.remove(&key);
            } else {
                spoil(&mut fields[&key], dice);
            }
        }
        _ => {
            let all = [
                json!(null),
                json!(0),
                json!(1),
                json!(usize::MAX),
                json!(-1.5),
                json!(true),
                json!(""),
                json!("a"),
                json!("b"),
                json!([]),
                json!({}),
            ];
            *value = all[dice.below(all.len())].clone();
        }
    }
}

/// Draws the particulars of an edit.
pub(crate) struct Chooser<'a> {
    on: &'a RefDoc,
    dice: Dice,
    aim: Aim,
}

const NAMES: [&str; 16] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "ä", "漢", "🦀", "0", "8:1", "7:x", "7:100000",
    "7:200000",
];

impl<'a> Chooser<'a> {
    pub(crate) fn new(on: &'a RefDoc, seed: u64, aim: Aim) -> Self {
        Self {
            on,
            dice: Dice(seed),
            aim,
        }
    }

    pub(crate) fn action(&mut self, kind: Kind) -> Action {
        let id = self.target();
        match kind {
            Kind::Create => Action::Create(self.spec()),
            Kind::AddNew => {
                let index = self.index(&id);
                Action::AddNew(self.spec(), id, index)
            }
            Kind::AddExisting => {
                let index = self.index(&id);
                Action::AddExisting(self.target(), id, index)
            }
            Kind::Move => {
                let index = self.index(&id);
                Action::Move(self.target(), id, index)
            }
            Kind::Delete => Action::Delete(id),
            Kind::RemoveChild => {
                let node = self.on.nodes.get(&id);
                let parent = node.and_then(|node| node.parent.clone());
                let parent = parent.filter(|parent| !is_unknown(parent) && !self.strays());
                Action::RemoveChild(id, parent.unwrap_or_else(|| self.target()))
            }
            Kind::SetText => Action::SetText(id, self.text()),
            Kind::InsertText => {
                let at = self.range(&id).start;
                Action::InsertText(id, at, self.text())
            }
            Kind::DeleteText => {
                let range = self.range(&id);
                Action::DeleteText(id, range)
            }
            Kind::ReplaceText => {
                let range = self.range(&id);
                Action::ReplaceText(id, range, self.text())
            }
            Kind::SetAttrs => Action::SetAttrs(id, self.attrs()),
            Kind::SetMarks => {
                let len = self.on.nodes.get(&id).map_or(0, RefNode::len);
                Action::SetMarks(id, self.marks(len))
            }
            Kind::SetRoot => Action::SetRoot((!self.dice.one_in(4)).then_some(id)),
            Kind::Control => {
                let actions = (0..self.dice.below(4)).map(|_| self.on(&id)).collect();
                Action::Control(id, actions)
            }
            Kind::Call => {
                let kinds = [
                    Kind::InsertText,
                    Kind::AddNew,
                    Kind::SetMarks,
                    Kind::SetRoot,
                ];
                let actions = (0..self.dice.below(3)).map(|_| {
                    let kind = kinds[self.dice.below(kinds.len())];
                    self.action(kind)
                });
                Action::Call(actions.collect())
            }
        }
    }

    /// Something that can stand in a `control` of this node.
    fn on(&mut self, id: &str) -> Action {
        let id = id.to_owned();
        match self.dice.below(4) {
            0 => Action::SetText(id, self.text()),
            1 => Action::InsertText(id, 0, self.text()),
            2 => Action::SetAttrs(id, self.attrs()),
            _ => Action::AddNew(self.spec(), id, Some(0)),
        }
    }

    fn strays(&mut self) -> bool {
        self.aim == Aim::Wild && self.dice.one_in(12)
    }

    fn target(&mut self) -> String {
        let known: Vec<&String> = self.on.nodes.keys().filter(|id| !is_unknown(id)).collect();
        let strays = self.strays();
        if strays || known.is_empty() {
            // Behind the last name there is the empty one.
            let name = self.dice.below(NAMES.len() + usize::from(strays));
            return (*NAMES.get(name).unwrap_or(&"")).to_owned();
        }
        known[self.dice.below(known.len())].clone()
    }

    fn index(&mut self, parent: &str) -> Option<usize> {
        if self.strays() {
            return Some(usize::MAX - self.dice.below(2));
        }
        let len = self
            .on
            .nodes
            .get(parent)
            .map_or(0, |node| node.children.len());
        (!self.dice.one_in(3)).then(|| self.dice.below(len + 1))
    }

    fn range(&mut self, id: &str) -> Range<usize> {
        let len = self.on.nodes.get(id).map_or(0, RefNode::len);
        let (one, other) = (self.dice.below(len + 1), self.dice.below(len + 1));
        if self.strays() {
            let far = if self.dice.one_in(2) {
                len + 1
            } else {
                usize::MAX
            };
            return if self.dice.one_in(2) {
                one..far
            } else {
                far..far
            };
        }
        if self.strays() {
            one.max(other)..one.min(other)
        } else {
            one.min(other)..one.max(other)
        }
    }

    fn text(&mut self) -> String {
        const CHARS: [char; 8] = ['a', 'b', ' ', 'ß', '漢', '\n', '\r', '🦀'];
        // Now and then long enough for the text to be kept otherwise than short text is.
        let len = if self.dice.one_in(12) {
            150 + self.dice.below(300)
        } else {
            self.dice.below(7)
        };
        (0..len)
            .map(|_| CHARS[self.dice.below(CHARS.len())])
            .collect()
    }

    fn attrs(&mut self) -> Vec<(String, Value)> {
        let mut keys = vec!["x", "y", "ключ"];
        (0..self.dice.below(4))
            .map(|_| {
                let key = keys.swap_remove(self.dice.below(keys.len()));
                let values = [
                    json!(null),
                    json!(1),
                    json!("1"),
                    json!([1.5, {"k": null}]),
                    json!(false),
                ];
                (
                    key.to_owned(),
                    values[self.dice.below(values.len())].clone(),
                )
            })
            .collect()
    }

    fn marks(&mut self, len: usize) -> Vec<RefMark> {
        (0..self.dice.below(5))
            .map(|_| {
                let (one, other) = (self.dice.below(len + 1), self.dice.below(len + 1));
                let end = one.max(other) + usize::from(self.strays());
                let attrs = match self.dice.below(3) {
                    0 => Map::new(),
                    n => Map::from_iter([("href".to_owned(), json!(n))]),
                };
                RefMark {
                    kind: ["bold", "link"][self.dice.below(2)].to_owned(),
                    range: (!self.dice.one_in(6)).then_some(one.min(other)..end),
                    attrs,
                }
            })
            .collect()
    }

    fn spec(&mut self) -> Spec {
        let mut free: Vec<&str> = NAMES.to_vec();
        if !self.strays() {
            free.retain(|name| !self.on.nodes.contains_key(*name));
        }
        self.spec_of(&mut free, 3)
    }

    fn spec_of(&mut self, free: &mut Vec<&str>, levels: usize) -> Spec {
        let named = self.aim != Aim::Unnamed || self.dice.one_in(2);
        let id = if named && !free.is_empty() {
            Some(free.swap_remove(self.dice.below(free.len())).to_owned())
        } else if self.aim == Aim::Unnamed {
            None
        } else {
            // Names have run out; this one is as good and not in use yet.
            Some(format!("n{}", self.dice.next()))
        };
        let text = if self.dice.one_in(2) {
            self.text()
        } else {
            String::new()
        };
        let children = if levels > 1 { self.dice.below(3) } else { 0 };
        Spec {
            id,
            kind: ["paragraph", "item"][self.dice.below(2)].to_owned(),
            attrs: self.attrs(),
            marks: self.marks(text.chars().count()),
            text,
            children: (0..children)
                .map(|_| self.spec_of(free, levels - 1))
                .collect(),
        }
    }
}
