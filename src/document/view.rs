//! Reading a document: the same questions to a snapshot and to an open transaction.

use std::cmp::Ordering;

use serde_json::Value;

use super::query::{self, Siblings};
use super::{EditError, Node, NodeSpec, Position, walk};
use crate::id::NodeId;

/// Something that shows a document.
///
/// A [`Snapshot`](super::Snapshot) shows one committed version, an open
/// [`Transaction`](crate::Transaction) its base with its own changes.
///
/// *Document order* is the order of reading: a node, then what is below it, child by child. A node
/// is found by its id at once; its place among its siblings is found by looking along them, so
/// whoever wants all nodes takes [`descendants`](Self::descendants) instead of asking for the next
/// of each. Any depth will do.
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
        Descendants::new(self, self.node(id).into_iter().collect())
    }

    // --- Next to a node ---

    /// The other children of the node's parent, in order; none where it has no parent or does not
    /// exist.
    fn siblings(&self, id: &NodeId) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        let parent = self.node(id).and_then(Node::parent);
        let listed = parent.into_iter().flat_map(|parent| self.children(parent));
        listed.filter(move |node| node.id() != id)
    }

    /// Which child of its parent the node is, counted from zero; `None` where it has no parent or
    /// does not exist.
    fn index_in_parent(&self, id: &NodeId) -> Option<usize>
    where
        Self: Sized,
    {
        Siblings::of(self, self.node(id)?).map(|siblings| siblings.index)
    }

    /// The child of the same parent that comes next.
    fn next_sibling(&self, id: &NodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        Siblings::of(self, self.node(id)?)?.next(self)
    }

    /// The child of the same parent that comes before.
    fn previous_sibling(&self, id: &NodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        Siblings::of(self, self.node(id)?)?.previous(self)
    }

    /// The node that comes next in document order: the first child, or else the next sibling of the
    /// node or of the nearest ancestor that has one. `None` at the end of the tree.
    fn next(&self, id: &NodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        query::next(self, self.node(id)?)
    }

    /// The node that comes before in document order: the [last](Self::last_descendant) below the
    /// previous sibling, or else the parent. `None` at the top of the tree.
    fn previous(&self, id: &NodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        match self.previous_sibling(id) {
            Some(sibling) => self.last_descendant(sibling.id()),
            None => self.node(self.parent(id)?),
        }
    }

    /// The last of the node and all below it, in document order.
    fn last_descendant(&self, id: &NodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        let last_child = |node: &&Node| self.node(node.children().iter().next_back()?);
        std::iter::successors(self.node(id), last_child).last()
    }

    // --- Finding ---

    /// Those of a node and all below it for which `predicate` holds, in document order.
    ///
    /// The whole store, detached nodes included, is searched with [`nodes`](Self::nodes) and
    /// `filter`.
    fn find(
        &self,
        top: &NodeId,
        predicate: impl FnMut(&&Node) -> bool,
    ) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        self.descendants(top).filter(predicate)
    }

    /// Those of a node and all below it that are of this type, in document order.
    fn find_by_type(&self, top: &NodeId, kind: &str) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        self.find(top, move |node| node.kind() == kind)
    }

    /// Those of a node and all below it whose attribute `key` has this value, in document order.
    fn find_by_attribute(
        &self,
        top: &NodeId,
        key: &str,
        value: &Value,
    ) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        self.find(top, move |node| node.attributes().get(key) == Some(value))
    }

    /// Those of a node and all below it whose own text contains `needle`, in document order. Words
    /// that go on from one node to the next are not found.
    fn find_by_text(&self, top: &NodeId, needle: &str) -> impl Iterator<Item = &Node>
    where
        Self: Sized,
    {
        self.find(top, move |node| query::contains(node.text(), needle))
    }

    // --- Two nodes, two positions ---

    /// Whether `ancestor` lies above the node. No node lies above itself.
    fn is_ancestor(&self, ancestor: &NodeId, id: &NodeId) -> bool
    where
        Self: Sized,
    {
        self.ancestors(id).any(|above| above.id() == ancestor)
    }

    /// The innermost node that has both at or below it; `None` where they are in different trees,
    /// or do not exist.
    fn common_ancestor(&self, one: &NodeId, other: &NodeId) -> Option<&Node>
    where
        Self: Sized,
    {
        let (one, other) = (self.node(one)?, self.node(other)?);
        walk::fork(self, one, other).map(|fork| fork.common)
    }

    /// Which of two positions comes first in the document. The text of a node comes before its
    /// children.
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
    /// [`EditError`]: a node does not exist, an offset is greater than the length of its text, the two are in
    /// different trees.
    fn compare_positions(&self, one: &Position, other: &Position) -> Result<Ordering, EditError>
    where
        Self: Sized,
    {
        query::compare_positions(self, one, other)
    }

    // --- Text ---

    /// The texts of the node and all below it, in document order, with nothing between them.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    fn text_of(&self, id: &NodeId) -> Result<String, EditError>
    where
        Self: Sized,
    {
        query::text_of(self, id)
    }

    /// The characters between two positions, in document order, with nothing between those of
    /// different nodes. It does not matter which of the two is given first.
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
    /// Those of [`compare_positions`](Self::compare_positions).
    fn text_between(&self, one: &Position, other: &Position) -> Result<String, EditError>
    where
        Self: Sized,
    {
        query::text_between(self, one, other)
    }

    // --- As a value ---

    /// The node with all below it as a value, with ids: what would create it again. Its JSON is the
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
    fn to_spec(&self, id: &NodeId) -> Result<NodeSpec, EditError>
    where
        Self: Sized,
    {
        query::to_spec(self, id)
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

impl<'a, V> Descendants<'a, V> {
    /// The nodes of a stack, the last first, each followed by those below it.
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
