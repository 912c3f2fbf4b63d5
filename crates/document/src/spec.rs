//! Descriptions of new nodes.

mod json;
mod nested;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use smol_str::SmolStr;

use super::mark::Mark;
use super::plan::{find, marks_for, reserve};
use super::{Attributes, EditError, Node, Text, View, value};
use crate::hashing::Secret;
use crate::id::{NodeId, NodeIds};
use crate::steps::steps;

pub use json::JsonError;

/// Describes a new node with its subtree.
///
/// ```
/// use doclock::document::{Mark, NodeSpec};
///
/// let spec = NodeSpec::new("paragraph").with_id("intro").with_children([
///     NodeSpec::new("inline-text").with_text("Hello").with_marks([Mark::new("bold", 0..5)]),
/// ]);
/// assert_eq!(spec.len(), 2);
/// ```
///
/// In JSON all fields but the type are optional: `{"type": "paragraph", "id": "intro",
/// "attributes": {}, "text": "", "marks": [], "children": []}`. With serde, nodes nest about 60
/// levels deep: the arrays and objects that serde writes or reads for a node nest at most 119 deep,
/// including the values of attributes. With [`to_json`](Self::to_json) and
/// [`from_json`](Self::from_json), depth is unlimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Each node after its descendants, so wrapping a deep subtree costs nothing and dropping it
    /// needs no stack. The last is the top. The smaller of two siblings is moved to the larger one,
    /// at its front or its end, so a node moves at most once each time the tree doubles.
    pub(super) nodes: VecDeque<SpecNode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpecNode {
    pub(super) id: Option<NodeId>,
    pub(super) kind: SmolStr,
    pub(super) attributes: Attributes,
    pub(super) text: Text,
    pub(super) marks: Vec<Mark>,
    pub(super) children: usize,
}

impl SpecNode {
    fn copy_of(node: &Node, children: usize) -> Self {
        Self {
            id: None,
            kind: node.kind.clone(),
            attributes: node.attributes.clone(),
            text: node.text.clone(),
            marks: node.marks.iter().cloned().collect(),
            children,
        }
    }
}

impl NodeSpec {
    /// Creates an empty node of a type.
    pub fn new(kind: impl Into<SmolStr>) -> Self {
        Self {
            nodes: VecDeque::from([SpecNode {
                id: None,
                kind: kind.into(),
                attributes: Attributes::default(),
                text: Text::default(),
                marks: Vec::new(),
                children: 0,
            }]),
        }
    }

    /// Sets a custom id for the node. By default the store generates the id.
    #[must_use]
    pub fn with_id(self, id: impl Into<NodeId>) -> Self {
        self.with(|top| top.id = Some(id.into()))
    }

    /// Sets the attributes of the node, replacing all of them.
    #[must_use]
    pub fn with_attributes(self, attributes: impl Into<Attributes>) -> Self {
        self.with(|top| top.attributes = attributes.into())
    }

    /// Sets the text of the node.
    #[must_use]
    pub fn with_text(self, text: impl Into<Text>) -> Self {
        self.with(|top| top.text = text.into())
    }

    /// Sets the marks of the node's text.
    #[must_use]
    pub fn with_marks(self, marks: impl IntoIterator<Item = Mark>) -> Self {
        self.with(|top| top.marks = marks.into_iter().collect())
    }

    /// Appends children to the node.
    #[must_use]
    pub fn with_children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        let Some(mut top) = self.nodes.pop_back() else {
            return self;
        };
        for mut child in children {
            top.children += 1;
            steps(self.nodes.len().min(child.nodes.len()));
            if self.nodes.len() >= child.nodes.len() {
                self.nodes.append(&mut child.nodes);
            } else {
                let before = std::mem::replace(&mut self.nodes, child.nodes);
                let before = before.into_iter().rev();
                before.for_each(|node| self.nodes.push_front(node));
            }
        }
        self.nodes.push_back(top);
        self
    }

    /// A copy of an existing node without ids; with its subtree if `deep` is set.
    #[doc(hidden)]
    pub fn copy_of<V: View>(view: &V, id: &NodeId, deep: bool) -> Result<Self, EditError> {
        match deep {
            true => view.to_spec(id).map(Self::without_ids),
            false => Ok(Self {
                nodes: VecDeque::from([SpecNode::copy_of(find(view, id)?, 0)]),
            }),
        }
    }

    /// Returns the type of the node.
    ///
    /// ```
    /// use doclock::document::{Mark, NodeSpec};
    ///
    /// let text = NodeSpec::new("text").with_id("t").with_text("Hello");
    /// let text = text.with_marks([Mark::new("bold", 0..2)]);
    /// assert_eq!((text.kind(), text.id()), ("text", Some(&"t".into())));
    /// assert_eq!((text.text(), text.marks().len()), (&"Hello".into(), 1));
    ///
    /// let page = NodeSpec::new("page").with_attributes([("lang", "en".into())]);
    /// let page = page.with_children([text.clone(), NodeSpec::new("rule")]);
    /// assert_eq!(page.attributes().get("lang"), Some(&"en".into()));
    /// assert_eq!(page.into_children(), [text, NodeSpec::new("rule")]);
    /// ```
    pub fn kind(&self) -> &str {
        &self.top().kind
    }

    /// Returns the id that was given to the node.
    pub fn id(&self) -> Option<&NodeId> {
        self.top().id.as_ref()
    }

    /// Returns the attributes of the node.
    pub fn attributes(&self) -> &Attributes {
        &self.top().attributes
    }

    /// Returns the text of the node.
    pub fn text(&self) -> &Text {
        &self.top().text
    }

    /// Returns the marks of the node's text, as they were given: in no order, and some perhaps over
    /// the same characters.
    pub fn marks(&self) -> &[Mark] {
        &self.top().marks
    }

    /// Returns the children of the node, each with its subtree. Takes time in proportion to the
    /// number of nodes.
    pub fn into_children(mut self) -> Vec<Self> {
        let mut children = Vec::with_capacity(self.top().children);
        self.nodes.pop_back();
        while !self.nodes.is_empty() {
            // Each node comes after its subtree: the last child begins where all are accounted for.
            let (mut start, mut missing) = (self.nodes.len(), 1);
            while missing > 0 {
                start -= 1;
                missing += self.nodes[start].children;
                missing -= 1;
            }
            children.push(Self {
                nodes: self.nodes.split_off(start),
            });
        }
        children.reverse();
        children
    }

    fn top(&self) -> &SpecNode {
        self.nodes.back().expect("a spec has its top")
    }

    /// Removes all ids, so the store generates new ones.
    #[must_use]
    pub fn without_ids(mut self) -> Self {
        self.nodes.iter_mut().for_each(|node| node.id = None);
        self
    }

    /// The number of marks of its nodes.
    #[doc(hidden)]
    pub fn mark_count(&self) -> usize {
        self.nodes.iter().map(|node| node.marks.len()).sum()
    }

    /// Converts the ranges of all marks, each in the text of its node, from UTF-16 units to scalar
    /// values.
    #[doc(hidden)]
    pub fn marks_to_scalars(&mut self) -> Result<(), EditError> {
        let mut nodes = self.nodes.iter_mut();
        nodes.try_for_each(|node| {
            let id = node.id.as_ref();
            node.text.marks_to_scalars(id, &mut node.marks)
        })
    }

    /// From these nodes, each after its descendants.
    pub(super) fn of_nodes<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let spec = |node: &Node| SpecNode {
            id: Some(node.id.clone()),
            ..SpecNode::copy_of(node, node.children.len())
        };
        Self {
            nodes: nodes.into_iter().map(spec).collect(),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut SpecNode)) -> Self {
        if let Some(top) = self.nodes.back_mut() {
            change(top);
        }
        self
    }

    /// Returns the number of nodes, including the top.
    #[expect(clippy::len_without_is_empty, reason = "there is always the top")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The number of levels: one without children.
    pub(crate) fn height(&self) -> usize {
        // The descendants of a node are complete when the node follows.
        let mut tops: Vec<usize> = Vec::new();
        for spec in &self.nodes {
            let below = tops.drain(tops.len() - spec.children..).max();
            tops.push(1 + below.unwrap_or(0));
        }
        tops.pop().unwrap_or(0)
    }

    /// The custom ids.
    #[doc(hidden)]
    pub fn given_ids(&self) -> HashSet<NodeId, Secret> {
        let ids = self.nodes.iter().filter_map(|spec| spec.id.clone());
        ids.collect()
    }

    /// The nodes themselves in document order, with ids, attached to `parent`.
    #[doc(hidden)]
    pub fn into_nodes(
        self,
        parent: Option<&NodeId>,
        ids: &NodeIds,
    ) -> Result<Vec<Arc<Node>>, EditError> {
        let shape = self.shape();
        let order = shape.document_order();
        let mut given = vec![None; self.nodes.len()];
        // No custom id may be generated for another node of the same subtree.
        let mut named = self.nodes.iter().filter_map(|spec| spec.id.as_ref());
        named.try_for_each(|id| reserve(id, ids))?;
        for &at in &order {
            let id = match &self.nodes[at].id {
                Some(id) => id.clone(),
                None => ids.generate().ok_or(EditError::IdsExhausted)?,
            };
            given[at] = Some(id);
        }
        let id_of = |at: usize| given[at].clone().unwrap_or_else(|| NodeId::from(""));

        let mut specs: Vec<_> = self.nodes.into_iter().map(Some).collect();
        let node = |at: usize| {
            let spec = specs[at].take()?;
            let id = id_of(at);
            let marks = value::check_node(&id, &spec.attributes)
                .and_then(|()| marks_for(&id, spec.marks, spec.text.len()));
            Some(marks.map(|marks| {
                Arc::new(Node {
                    kind: spec.kind,
                    attributes: spec.attributes,
                    text: spec.text,
                    marks,
                    children: shape.children[at].iter().map(|&at| id_of(at)).collect(),
                    parent: match shape.parent[at] {
                        Some(above) => Some(id_of(above)),
                        None => parent.cloned(),
                    },
                    place: Default::default(),
                    id,
                })
            }))
        };
        order.into_iter().filter_map(node).collect()
    }

    fn shape(&self) -> Shape {
        let mut shape = Shape {
            parent: vec![None; self.nodes.len()],
            children: vec![Vec::new(); self.nodes.len()],
        };
        // A node comes after its descendants, so its children are the last nodes without a parent.
        let mut tops: Vec<usize> = Vec::new();
        for (at, spec) in self.nodes.iter().enumerate() {
            let children = tops.split_off(tops.len() - spec.children);
            for &child in &children {
                shape.parent[child] = Some(at);
            }
            shape.children[at] = children;
            tops.push(at);
        }
        shape
    }
}

/// The tree structure, by position in the list of a [`NodeSpec`].
struct Shape {
    parent: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
}

impl Shape {
    fn top(&self) -> usize {
        self.children.len() - 1
    }

    fn document_order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.children.len());
        let mut ahead = vec![self.top()];
        while let Some(at) = ahead.pop() {
            order.push(at);
            ahead.extend(self.children[at].iter().rev());
        }
        order
    }
}
