//! Read access to a document, for snapshots and open transactions.

use std::cmp::Ordering;

use serde_json::Value;

use super::query::{self, SiblingPosition};
use super::{EditError, Node, NodeSpec, Position, walk};
use crate::id::{AsNodeId, NodeId};

/// Read access to a document.
///
/// A [`Snapshot`](super::Snapshot) shows one committed version. An open
/// `doclock::Transaction` shows its base version with its own changes.
///
/// *Document order* is the order of reading: a node, then its children with their subtrees, in
/// order. A lookup by id is fast. The position among siblings takes logarithmic time; the first
/// lookup in a long list reads all of it. To visit all nodes use
/// [`descendants`](Self::descendants). Any depth is safe. An id can be given as a [`NodeId`] or as
/// its text.
///
/// ```
/// use doclock::{DataStore, View, document::NodeSpec};
///
/// let store = DataStore::new();
/// let mut transaction = store.begin("ann")?;
/// let item = |text| NodeSpec::new("item").with_text(text);
/// let list = transaction.create(NodeSpec::new("list").with_children([item("one"), item("two")]))?;
///
/// let two = transaction.find_by_text(&list, "tw").next().unwrap();
/// assert_eq!(transaction.index_in_parent(two.id()), Some(1));
/// assert_eq!(transaction.previous_sibling(two.id()).unwrap().text(), &"one");
/// assert_eq!(transaction.text_of(&list)?, "onetwo");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait View {
    /// Returns the node with this id.
    fn node(&self, id: impl AsNodeId) -> Option<&Node>;

    /// Returns the root of the document, if one was set.
    fn root(&self) -> Option<&NodeId>;

    /// Iterates over all nodes, attached or detached, in no particular order.
    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_>;

    /// Returns whether a node with this id exists.
    fn contains(&self, id: impl AsNodeId) -> bool {
        self.node(id).is_some()
    }

    /// Returns the parent of a node; `None` if it has none or does not exist.
    fn parent(&self, id: impl AsNodeId) -> Option<&NodeId> {
        self.node(id)?.parent()
    }

    /// Iterates over the children of a node, in order. There are none if the node does not exist.
    fn children(&self, id: impl AsNodeId) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        let node = self.node(id);
        let ids = node.into_iter().flat_map(|node| node.children().iter());
        ids.filter_map(|child| self.node(child))
    }

    /// Iterates over the ancestors of a node, from its parent up to the top.
    fn ancestors(&self, id: impl AsNodeId) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        let parent = |node: &Node| self.node(node.parent()?);
        std::iter::successors(self.node(id).and_then(parent), move |node| parent(node))
    }

    /// Iterates over the node and its descendants, in document order. There are none if the node
    /// does not exist.
    fn descendants(&self, id: impl AsNodeId) -> Descendants<'_, Self>
    where
        Self: Sized,
    {
        Descendants::new(self, self.node(id).into_iter().collect())
    }

    // --- Neighbours of a node ---

    /// Iterates over the siblings of the node, in order. There are none if the node has no parent
    /// or does not exist.
    fn siblings(&self, id: impl AsNodeId) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        let own = self.node(id);
        let parent = own.and_then(Node::parent);
        let listed = parent.into_iter().flat_map(|parent| self.children(parent));
        listed.filter(move |node| own.is_none_or(|own| node.id() != own.id()))
    }

    /// Returns the index of the node among the children of its parent; `None` if it has no parent
    /// or does not exist.
    fn index_in_parent(&self, id: impl AsNodeId) -> Option<usize>
    where
        Self: Sized,
    {
        SiblingPosition::of(self, self.node(id)?).map(|position| position.index)
    }

    /// Returns the next sibling.
    fn next_sibling(&self, id: impl AsNodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        SiblingPosition::of(self, self.node(id)?)?.next(self)
    }

    /// Returns the previous sibling.
    fn previous_sibling(&self, id: impl AsNodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        SiblingPosition::of(self, self.node(id)?)?.previous(self)
    }

    /// Returns the next node in document order: the first child, or else the next sibling of the
    /// node or of the nearest ancestor that has one. Returns `None` at the end of the tree.
    fn next(&self, id: impl AsNodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        query::next(self, self.node(id)?)
    }

    /// Returns the previous node in document order: the [last descendant](Self::last_descendant) of
    /// the previous sibling, or else the parent. Returns `None` at the top of the tree.
    fn previous(&self, id: impl AsNodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        let node = self.node(id)?;
        match self.previous_sibling(node.id()) {
            Some(sibling) => self.last_descendant(sibling.id()),
            None => self.node(node.parent()?),
        }
    }

    /// Returns the last node of the subtree in document order.
    fn last_descendant(&self, id: impl AsNodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        let last_child = |node: &&Node| self.node(node.children().iter().next_back()?);
        std::iter::successors(self.node(id), last_child).last()
    }

    // --- Finding ---

    /// Finds the nodes of a subtree for which `predicate` holds, in document order.
    ///
    /// To search the whole store with detached nodes, use [`nodes`](Self::nodes) and `filter`.
    fn find(
        &self,
        top: impl AsNodeId,
        predicate: impl FnMut(&&Node) -> bool,
    ) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        self.descendants(top).filter(predicate)
    }

    /// Finds the nodes of a subtree that have this type, in document order.
    fn find_by_type(&self, top: impl AsNodeId, kind: &str) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        self.find(top, move |node| node.kind() == kind)
    }

    /// Finds the nodes of a subtree whose attribute `key` has this value, in document order.
    fn find_by_attribute(
        &self,
        top: impl AsNodeId,
        key: &str,
        value: &Value,
    ) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        self.find(top, move |node| node.attributes().get(key) == Some(value))
    }

    /// Finds the nodes of a subtree whose own text contains `needle`, in document order. A match
    /// that crosses nodes is not found.
    fn find_by_text(&self, top: impl AsNodeId, needle: &str) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        self.find(top, move |node| query::contains(node.text(), needle))
    }

    // --- Two nodes, two positions ---

    /// Returns whether `ancestor` is an ancestor of the node. No node is its own ancestor.
    fn is_ancestor(&self, ancestor: impl AsNodeId, id: impl AsNodeId) -> bool
    where
        Self: Sized,
    {
        let ancestor = ancestor.as_node_id();
        self.ancestors(id).any(|node| *node.id() == *ancestor)
    }

    /// Returns the lowest common ancestor of two nodes, which may be one of them; `None` if they
    /// are in different trees or do not exist.
    fn common_ancestor(&self, one: impl AsNodeId, other: impl AsNodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        let (one, other) = (self.node(one)?, self.node(other)?);
        walk::fork(self, one, other).map(|fork| fork.common)
    }

    /// Compares two positions by document order. The text of a node comes before its children.
    ///
    /// ```
    /// use doclock::{DataStore, View, document::{NodeSpec, Position}};
    /// use std::cmp::Ordering;
    ///
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// let texts = ["one", "two"].map(|text| NodeSpec::new("text").with_text(text).with_id(text));
    /// transaction.create(NodeSpec::new("paragraph").with_children(texts))?;
    /// let order = transaction.compare_positions(&Position::new("one", 3), &Position::new("two", 0))?;
    /// assert_eq!(order, Ordering::Less);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`EditError`]: a node does not exist, an offset is greater than the length of its text, or
    /// the two positions are in different trees.
    fn compare_positions(&self, one: &Position, other: &Position) -> Result<Ordering, EditError>
    where
        Self: Sized,
    {
        query::compare_positions(self, one, other)
    }

    // --- Text ---

    /// Concatenates the texts of a subtree, in document order, without separators.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    fn text_of(&self, id: impl AsNodeId) -> Result<String, EditError>
    where
        Self: Sized,
    {
        query::text_of(self, &id.as_node_id())
    }

    /// Concatenates the characters between two positions, in document order, without separators.
    /// The two positions may be given in either order.
    ///
    /// ```
    /// use doclock::{DataStore, View, document::{NodeSpec, Position}};
    ///
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// let texts = ["one", "two"].map(|text| NodeSpec::new("text").with_text(text).with_id(text));
    /// transaction.create(NodeSpec::new("paragraph").with_children(texts))?;
    /// let text = transaction.text_between(&Position::new("one", 1), &Position::new("two", 2))?;
    /// assert_eq!(text, "netw");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`compare_positions`](Self::compare_positions).
    fn text_between(&self, one: &Position, other: &Position) -> Result<String, EditError>
    where
        Self: Sized,
    {
        query::text_between(self, one, other)
    }

    // --- Conversion ---

    /// Returns the subtree as a description with ids, which would create it again. Its JSON is the
    /// nested form of the subtree ([`NodeSpec::to_json`]).
    ///
    /// ```
    /// use doclock::{DataStore, View, document::NodeSpec};
    ///
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// let text = NodeSpec::new("text").with_text("Hi");
    /// let paragraph = NodeSpec::new("paragraph").with_children([text]);
    /// let id = transaction.create(paragraph.clone())?;
    /// let spec = transaction.to_spec(&id)?;
    /// assert_eq!(spec.without_ids(), paragraph);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    fn to_spec(&self, id: impl AsNodeId) -> Result<NodeSpec, EditError>
    where
        Self: Sized,
    {
        query::to_spec(self, &id.as_node_id())
    }

    /// The node with this id, whose stored form is not read: a transaction notes no read of it.
    #[doc(hidden)]
    fn glimpse(&self, id: &NodeId) -> Option<&Node> {
        self.node(id)
    }

    /// The error for a missing node.
    #[doc(hidden)]
    fn missing(&self, id: &NodeId) -> EditError {
        EditError::NodeNotFound { id: id.clone() }
    }
}

/// An iterator over a subtree in document order. It keeps its own stack, so any depth is safe.
#[derive(Debug)]
pub struct Descendants<'a, V> {
    view: &'a V,
    ahead: Vec<&'a Node>,
}

impl<'a, V> Descendants<'a, V> {
    /// The nodes of a stack, the last first, each followed by its descendants.
    pub(super) fn new(view: &'a V, ahead: Vec<&'a Node>) -> Self {
        Self { view, ahead }
    }
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
