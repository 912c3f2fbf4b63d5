//! Reading a document: the same questions to a snapshot and to an open transaction.

use super::{EditError, Node};
use crate::id::NodeId;

/// Something that shows a document.
///
/// A [`Snapshot`](super::Snapshot) shows one committed version, an open [`Transaction`](crate::Transaction) its
/// base with its own changes.
pub trait View {
    /// The node with this id.
    fn node(&self, id: &NodeId) -> Option<&Node>;

    /// The root of the document, if one was set.
    fn root(&self) -> Option<&NodeId>;

    /// All nodes, attached or not, in no particular order.
    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_>;

    /// Whether there is a node with this id.
    fn contains(&self, id: &NodeId) -> bool {
        self.node(id).is_some()
    }

    /// The parent of a node; `None` where it has none or does not exist.
    fn parent(&self, id: &NodeId) -> Option<&NodeId> {
        self.node(id)?.parent()
    }

    /// The children of a node, in order; none where it does not exist.
    fn children(&self, id: &NodeId) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        let node = self.node(id);
        let ids = node.into_iter().flat_map(|node| node.children().iter());
        ids.filter_map(|child| self.node(child))
    }

    /// The parent, its parent and so on up to the top.
    fn ancestors(&self, id: &NodeId) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        let parent = |node: &Node| self.node(node.parent()?);
        std::iter::successors(self.node(id).and_then(parent), move |node| parent(node))
    }

    /// The node and all below it, in document order; nothing where it does not exist.
    fn descendants(&self, id: &NodeId) -> Descendants<'_, Self>
    where
        Self: Sized,
    {
        Descendants {
            view: self,
            ahead: self.node(id).into_iter().collect(),
        }
    }

    /// The error that says that a node is missing.
    #[doc(hidden)]
    fn missing(&self, id: &NodeId) -> EditError {
        EditError::NodeNotFound { id: id.clone() }
    }
}

/// A node and all below it, in document order. Keeps its own stack, so any depth will do.
#[derive(Debug)]
pub struct Descendants<'a, V> {
    view: &'a V,
    ahead: Vec<&'a Node>,
}

impl<'a, V: View> Iterator for Descendants<'a, V> {
    type Item = &'a Node;

    fn next(&mut self) -> Option<&'a Node> {
        let node = self.ahead.pop()?;
        let children = node.children().iter().rev();
        self.ahead
            .extend(children.filter_map(|child| self.view.node(child)));
        Some(node)
    }
}
