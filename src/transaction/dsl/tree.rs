//! Operations on the tree of nodes.

use super::refs;
use crate::document::NodeSpec;
use crate::transaction::{Child, NodeOperation, NodeRef};

/// Deletes the node with its subtree.
pub fn delete_node() -> NodeOperation {
    NodeOperation::Delete {}
}

/// Attaches a child at an index, or as the last child for `None`. The child is a new node or an
/// existing one, which leaves its old position.
pub fn add_child(child: impl Into<Child>, index: impl Into<Option<usize>>) -> NodeOperation {
    NodeOperation::AddChild {
        child: child.into(),
        index: index.into(),
    }
}

/// Detaches a child. It stays in the store without a parent.
pub fn remove_child(child_id: impl Into<NodeRef>) -> NodeOperation {
    NodeOperation::RemoveChild {
        child_id: child_id.into(),
    }
}

/// Detaches children. They stay in the store without a parent. It is an error if a node is named
/// twice or is no child of the node.
pub fn remove_children<R: Into<NodeRef>>(child_ids: impl IntoIterator<Item = R>) -> NodeOperation {
    NodeOperation::RemoveChildren {
        child_ids: refs(child_ids),
    }
}

/// Moves the node under another. The node then has the index, or is the last child for `None`.
pub fn move_node(parent_id: impl Into<NodeRef>, index: impl Into<Option<usize>>) -> NodeOperation {
    NodeOperation::MoveNode {
        parent_id: parent_id.into(),
        index: index.into(),
    }
}

/// Moves children of the node to another parent, or within the same one, in the order given. The
/// first of them then has the index; for `None` they are the last children. It is an error if a
/// node is named twice or is no child of the node.
pub fn move_children<R: Into<NodeRef>>(
    child_ids: impl IntoIterator<Item = R>,
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    NodeOperation::MoveChildren {
        child_ids: refs(child_ids),
        parent_id: parent_id.into(),
        index: index.into(),
    }
}

/// Swaps the node and its previous sibling. The first sibling does not move. A node without a
/// parent is an error.
pub fn move_block_up() -> NodeOperation {
    NodeOperation::MoveBlockUp {}
}

/// Swaps the node and its next sibling. The last sibling does not move. A node without a parent is
/// an error.
pub fn move_block_down() -> NodeOperation {
    NodeOperation::MoveBlockDown {}
}

/// Reorders the children of the node. The new order must name each child exactly once and no other
/// node. The operation moves as few children as possible.
///
/// ```
/// use doclock::{DataStore, Editor, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let items = ["a", "b", "c"].map(|id| element("item", []).with_id(id));
/// transaction(&editor, [create(element("list", items).with_id("list"))]).commit()?;
/// transaction(&editor, [reorder_children(["c", "a", "b"]).on("list")]).commit()?;
/// let error = transaction(&editor, [reorder_children(["a", "b"]).on("list")]).commit().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "operation 0 (reorderChildren on node list): \
///      node c is a child of list, but the new order leaves it out",
/// );
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn reorder_children<R: Into<NodeRef>>(child_ids: impl IntoIterator<Item = R>) -> NodeOperation {
    NodeOperation::ReorderChildren {
        child_ids: refs(child_ids),
    }
}

/// Copies the node without its children: the copy has the type, attributes, text and marks, and a
/// new id. It becomes the next sibling of the original; [`copy_node_to`] sets another position. The
/// copy of a node without a parent has no parent.
pub fn copy_node() -> NodeOperation {
    NodeOperation::CopyNode {
        parent_id: None,
        index: None,
    }
}

/// Copies the node as [`copy_node`] does, to another parent at an index, or as the last child for
/// `None`.
pub fn copy_node_to(
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    NodeOperation::CopyNode {
        parent_id: Some(parent_id.into()),
        index: index.into(),
    }
}

/// Copies the node with its subtree, under new ids. The copy becomes the next sibling of the
/// original; [`clone_node_with_children_to`] sets another position. The copy of a node without a
/// parent has no parent.
pub fn clone_node_with_children() -> NodeOperation {
    NodeOperation::CloneNodeWithChildren {
        parent_id: None,
        index: None,
    }
}

/// Copies the node as [`clone_node_with_children`] does, to another parent at an index, or as the
/// last child for `None`. The parent may be the node itself or one of its descendants.
pub fn clone_node_with_children_to(
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    NodeOperation::CloneNodeWithChildren {
        parent_id: Some(parent_id.into()),
        index: index.into(),
    }
}

/// Replaces the node with a new one and makes the node its last child. If the node has no parent,
/// the new one has none either. The root cannot be wrapped.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [
///     create(element("page", [text_node("paragraph", "To be").with_id("line")])),
///     wrap_node(element("quote", []).with_id("quote")).on("line"),
/// ])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.parent("line"), Some(&"quote".into()));
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn wrap_node(node: NodeSpec) -> NodeOperation {
    NodeOperation::WrapNode { node }
}

/// Moves the node out of its parent, to a position among the siblings of the parent. The first
/// child moves before the parent and the last one after it. For another child, the parent is split,
/// and the node moves between the halves; the first half keeps the parent's text. An only child
/// replaces the parent, which is deleted; if the parent has text, the child moves after it instead.
/// A node without a grandparent is an error.
pub fn lift_node() -> NodeOperation {
    NodeOperation::LiftNode {}
}

/// Moves the node to the end of its previous sibling. If the sibling's last child has the same type
/// as the node's parent, and not the node's own type, the node moves into that child (it extends a
/// nested list). Otherwise it moves directly into the sibling. The first sibling does not move. A
/// node without a parent is an error. For nested lists see [`indent_node_in`].
pub fn indent_node() -> NodeOperation {
    NodeOperation::IndentNode { container: None }
}

/// Indents the node as [`indent_node`] does; if there is no nested list to extend, it moves the
/// node into a new one, `container`. A nested list of the same type as `container` is extended,
/// too, which matters if nested lists have another type than the outer one.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let items = ["one", "two", "three"].map(|id| text_node("item", id).with_id(id));
/// transaction(&editor, [
///     create(element("list", items).with_id("list")),
///     indent_node_in(element("list", []).with_id("nested")).on("two"),
///     indent_node_in(element("list", [])).on("three"),
/// ])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.parent("nested"), Some(&"one".into()));
/// assert_eq!(page.node("nested").unwrap().children().len(), 2);
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn indent_node_in(container: NodeSpec) -> NodeOperation {
    NodeOperation::IndentNode {
        container: Some(container),
    }
}

/// Reverses [`indent_node`]: the node becomes the next sibling of its parent. For an item of a
/// nested list, whose grandparent has the node's own type and whose parent does not, the node
/// becomes the next sibling of the grandparent instead. The siblings after the node move with it
/// and become its last children. If they were in a nested list, they move into a list of the same
/// type and attributes, or into a list of that type that is already the last child of the node. A
/// nested list that is left empty is deleted. A node without a grandparent is an error, and so is
/// an item of a nested list whose outer item has no parent.
pub fn outdent_node() -> NodeOperation {
    NodeOperation::OutdentNode {}
}
