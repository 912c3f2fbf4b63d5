//! One node of a document.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use super::{Attributes, Cut, Marks, Text};
use crate::id::NodeId;

/// A node: an id, a type, attributes, a text with marks, children in order, and the parent that lists it.
///
/// Serializes in camelCase with the children and the parent as ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Node {
    pub(super) id: NodeId,
    #[serde(rename = "type")]
    pub(super) kind: SmolStr,
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub(super) attributes: Attributes,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(super) text: Text,
    #[serde(default, skip_serializing_if = "Marks::is_empty")]
    pub(super) marks: Marks,
    #[serde(default, skip_serializing_if = "Children::is_empty")]
    pub(super) children: Children,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<NodeId>,
}

impl Node {
    /// The id.
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// The type: `paragraph`, `inline-text` and so on.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Behind all of its text and children.
    pub(super) fn end(&self) -> Cut {
        Cut {
            text: self.text.len(),
            children: self.children.len(),
        }
    }

    /// The text; empty where there is none.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// The marks over the text.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// The children, in order.
    pub fn children(&self) -> &Children {
        &self.children
    }

    /// The parent; `None` for the root and for a node that is attached nowhere.
    pub fn parent(&self) -> Option<&NodeId> {
        self.parent.as_ref()
    }
}

/// The ids of a node's children, in order.
///
/// A persistent vector: adding one among a hundred thousand copies a logarithm of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Children(Option<Arc<im::Vector<NodeId>>>);

impl Children {
    /// How many children.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |children| children.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The child at an index.
    pub fn get(&self, index: usize) -> Option<&NodeId> {
        self.0.as_ref()?.get(index)
    }

    /// The children from first to last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &NodeId> {
        self.0.iter().flat_map(|children| children.iter())
    }

    /// The index of a child. Looks at one after the other.
    pub fn position(&self, child: &NodeId) -> Option<usize> {
        let mut before = 0;
        // Leaf by leaf: a step from one slice to the next costs more than one within it.
        for leaf in self.0.as_ref()?.leaves() {
            match leaf.iter().position(|one| one == child) {
                Some(at) => return Some(before + at),
                None => before += leaf.len(),
            }
        }
        None
    }

    pub(super) fn insert(&mut self, index: usize, child: NodeId) {
        let children = Arc::make_mut(self.0.get_or_insert_default());
        // At the ends there is no need to take the tree apart.
        match index {
            0 => children.push_front(child),
            end if end == children.len() => children.push_back(child),
            index => children.insert(index, child),
        }
    }

    /// Cuts off the children from `index` on, which the caller has found to be within the list.
    pub(super) fn split_off(&mut self, index: usize) -> Self {
        let Some(children) = &mut self.0 else {
            return Self::default();
        };
        let tail = Arc::make_mut(children).split_off(index);
        if children.is_empty() {
            self.0 = None;
        }
        Self((!tail.is_empty()).then(|| Arc::new(tail)))
    }

    /// Adds other children at the end.
    pub(super) fn append(&mut self, other: &Self) {
        if let Some(other) = &other.0 {
            Arc::make_mut(self.0.get_or_insert_default()).append(im::Vector::clone(other));
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        if let Some(children) = &mut self.0 {
            let children = Arc::make_mut(children);
            match index {
                0 => drop(children.pop_front()),
                last if last + 1 == children.len() => drop(children.pop_back()),
                index => drop(children.remove(index)),
            }
            if children.is_empty() {
                self.0 = None;
            }
        }
    }
}

impl FromIterator<NodeId> for Children {
    fn from_iter<I: IntoIterator<Item = NodeId>>(ids: I) -> Self {
        let ids: im::Vector<_> = ids.into_iter().collect();
        Self((!ids.is_empty()).then(|| Arc::new(ids)))
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Children {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Children {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<NodeId>::deserialize(deserializer).map(Self::from_iter)
    }
}
