//! Where nodes are.

use super::refs;
use crate::document::NodeSpec;
use crate::transaction::{Child, NodeOperation, NodeRef};

/// Deletes the node with all below it.
pub fn delete_node() -> NodeOperation {
    NodeOperation::Delete {}
}

/// Attaches a child at an index, or at the end for `None`: a new node, or one that exists, which
/// leaves the place where it was.
pub fn add_child(child: impl Into<Child>, index: impl Into<Option<usize>>) -> NodeOperation {
    NodeOperation::AddChild {
        child: child.into(),
        index: index.into(),
    }
}

/// Detaches a child; it stays in the store, attached nowhere.
pub fn remove_child(child_id: impl Into<NodeRef>) -> NodeOperation {
    NodeOperation::RemoveChild {
        child_id: child_id.into(),
    }
}

/// Detaches children; they stay in the store, attached nowhere. One that is named twice, or is no
/// child of the node, is an error.
pub fn remove_children<R: Into<NodeRef>>(child_ids: impl IntoIterator<Item = R>) -> NodeOperation {
    NodeOperation::RemoveChildren {
        child_ids: refs(child_ids),
    }
}

/// Attaches the node under another, where it then has the index, or is the last for `None`.
pub fn move_node(parent_id: impl Into<NodeRef>, index: impl Into<Option<usize>>) -> NodeOperation {
    NodeOperation::MoveNode {
        parent_id: parent_id.into(),
        index: index.into(),
    }
}

/// Attaches children of the node under another (or elsewhere under the same), one behind the other
/// in the order given, so that the first then has the index, or all are at the end for `None`. One
/// that is named twice, or is no child of the node, is an error.
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

/// Changes places with the previous sibling. The first of its siblings stays where it is; a node
/// without a parent is an error.
pub fn move_block_up() -> NodeOperation {
    NodeOperation::MoveBlockUp {}
}

/// Changes places with the next sibling. The last of its siblings stays where it is; a node without
/// a parent is an error.
pub fn move_block_down() -> NodeOperation {
    NodeOperation::MoveBlockDown {}
}

/// Brings the children into another order. Each child has to be named once, and nothing else. As
/// few of them as possible are moved.
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

/// Creates a copy of the node without its children: type, attributes, text and marks under a new
/// id. It comes to stand right behind the original; [`copy_node_to`] says where else. The copy of a
/// node without a parent has none.
pub fn copy_node() -> NodeOperation {
    NodeOperation::CopyNode {
        parent_id: None,
        index: None,
    }
}

/// As [`copy_node`], with the copy under another node at an index, or at the end for `None`.
pub fn copy_node_to(
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    NodeOperation::CopyNode {
        parent_id: Some(parent_id.into()),
        index: index.into(),
    }
}

/// Creates a copy of the node and of all below it, under new ids. It comes to stand right behind
/// the original; [`clone_node_with_children_to`] says where else. The copy of a node without a
/// parent has none.
pub fn clone_node_with_children() -> NodeOperation {
    NodeOperation::CloneNodeWithChildren {
        parent_id: None,
        index: None,
    }
}

/// As [`clone_node_with_children`], with the copy under another node at an index, or at the end for
/// `None`. That may be the node itself or one below it.
pub fn clone_node_with_children_to(
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    NodeOperation::CloneNodeWithChildren {
        parent_id: Some(parent_id.into()),
        index: index.into(),
    }
}

/// Puts a new node in the place of the node, which becomes its last child. Around a node without a
/// parent the new one has none either. The root cannot be wrapped.
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
/// assert_eq!(page.parent(&"line".into()), Some(&"quote".into()));
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn wrap_node(node: NodeSpec) -> NodeOperation {
    NodeOperation::WrapNode { node }
}

/// Takes the node out of its parent and puts it in the parent's place among the parent's siblings:
/// before the parent if it was the first child, behind it if it was the last, between its two
/// halves otherwise, the first of which keeps the parent's text. The only child comes to stand
/// instead of the parent, which goes, or behind it if it has text. A node without a grandparent is
/// an error.
pub fn lift_node() -> NodeOperation {
    NodeOperation::LiftNode {}
}

/// Puts the node at the end of its previous sibling: into that sibling's last child if it is of the
/// same type as the node's parent, and not of the node's own (a nested list goes on), else right
/// into the sibling. The first of its siblings stays where it is; a node without a parent is an
/// error. For nested lists see [`indent_node_in`].
pub fn indent_node() -> NodeOperation {
    NodeOperation::IndentNode { container: None }
}

/// As [`indent_node`]; where there is no nested list that goes on, the node is put into a new one,
/// `container`. One of its type goes on, too, if nested lists are of another type than those around
/// them.
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
/// assert_eq!(page.parent(&"nested".into()), Some(&"one".into()));
/// assert_eq!(page.node(&"nested".into()).unwrap().children().len(), 2);
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn indent_node_in(container: NodeSpec) -> NodeOperation {
    NodeOperation::IndentNode {
        container: Some(container),
    }
}

/// The reverse of [`indent_node`]: the node leaves its parent and comes to stand right behind it;
/// or, where the parent's parent is of the node's own type and the parent is not (an item in a
/// nested list), right behind that one. The siblings that came after the node go with it as its
/// last children; where they were in a nested list, in one of the same type and attributes, or in
/// that of the same type with which the node ends already. A nested list that is left empty goes. A
/// node without a grandparent is an error, and so is an item of a nested list if the item around it
/// has no parent.
pub fn outdent_node() -> NodeOperation {
    NodeOperation::OutdentNode {}
}
