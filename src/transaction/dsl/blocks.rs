//! Splitting and joining.

use smol_str::SmolStr;

use crate::document::NodeSpec;
use crate::transaction::{NodeOperation, NodeRef};

/// Splits a text node before the character at `offset`. The text from there on, with its marks,
/// moves to a new node right after it, of the same type and with the same attributes. The children
/// stay in the first node. A node without a parent is an error.
pub fn split_text_node(offset: usize) -> NodeOperation {
    NodeOperation::SplitTextNode { offset }
}

/// Joins the node and its next sibling, which is deleted. The sibling's text, with its marks, is
/// appended to the text of the node, and its children to those of the node. Both nodes must have
/// the same type. The node keeps its attributes.
pub fn merge_text_nodes(other_id: impl Into<NodeRef>) -> NodeOperation {
    NodeOperation::MergeTextNodes {
        other_id: other_id.into(),
    }
}

/// Splits a block before the child at `index`. The children from there on move to a new node right
/// after it, of the same type and with the same attributes. The text stays in the first node. A
/// node without a parent is an error.
pub fn split_block_node(index: usize) -> NodeOperation {
    NodeOperation::SplitBlockNode { index }
}

/// Joins the block and its next sibling, which is deleted. The sibling's children are appended to
/// those of the block, and its text to that of the block. The types may differ: the block keeps its
/// type and attributes.
pub fn merge_block_nodes(other_id: impl Into<NodeRef>) -> NodeOperation {
    NodeOperation::MergeBlockNodes {
        other_id: other_id.into(),
    }
}

/// Joins adjacent children of the node that have text, no children, the same type and the same
/// attributes. A child without text is joined with such a neighbour, too. The first node of each
/// joined run stays.
pub fn auto_merge_text_nodes() -> NodeOperation {
    NodeOperation::AutoMergeTextNodes {}
}

/// Begins a new block at an offset in the text of a node, as the Enter key does. The text node is
/// split there, and its parent is split after the first half, so the second half becomes the first
/// child of the new block. Children of the text node, which come after its text, move with the
/// second half. The new block has the attributes and the type of the parent;
/// [`insert_paragraph_of`] sets another type. A node without a grandparent is an error.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let line = element("paragraph", [text_node("text", "onetwo").with_id("text")]);
/// transaction(&editor, [
///     create(element("page", [line]).with_id("page")),
///     insert_paragraph(3).on("text"),
/// ])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.node("page").unwrap().children().len(), 2);
/// assert_eq!(page.node("text").unwrap().text(), &"one");
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn insert_paragraph(offset: usize) -> NodeOperation {
    NodeOperation::InsertParagraph { offset, kind: None }
}

/// Begins a new block of another type: [`insert_paragraph`] with a type.
pub fn insert_paragraph_of(offset: usize, kind: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::InsertParagraph {
        offset,
        kind: Some(kind.into()),
    }
}

/// Begins a new list item at an offset in the text of a node. The item is the node itself or its
/// nearest ancestor that has the type `item_type`. All nodes from the text node up to the item are
/// split there, so everything after the offset in the item moves to the new one, including a nested
/// list. It is an error if there is no such node, or if the item has no parent.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let item = element("item", [element("paragraph", [text_node("text", "onetwo").with_id("text")])]);
/// transaction(&editor, [
///     create(element("list", [item]).with_id("list")),
///     split_list_item(3, "item").on("text"),
/// ])
/// .commit()?;
/// assert_eq!(editor.store().snapshot().node("list").unwrap().children().len(), 2);
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn split_list_item(offset: usize, item_type: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::SplitListItem {
        offset,
        item_type: item_type.into(),
    }
}

/// Replaces the node with a new list and moves the node into an item of that list:
/// `wrap_in_list(element("list", []), element("list-item", []))`. Children that the list and the
/// item have already come before it. If the node has no parent, the list has none either. The root
/// cannot be wrapped.
pub fn wrap_in_list(list: NodeSpec, item: NodeSpec) -> NodeOperation {
    NodeOperation::WrapInList {
        list,
        item,
        last_id: None,
    }
}

/// Wraps the siblings from the node up to another in a list, as [`wrap_in_list`] does. Each sibling
/// gets its own item. It is an error if `last_id` is no sibling or comes before the node.
pub fn wrap_in_list_up_to(
    last_id: impl Into<NodeRef>,
    list: NodeSpec,
    item: NodeSpec,
) -> NodeOperation {
    NodeOperation::WrapInList {
        list,
        item,
        last_id: Some(last_id.into()),
    }
}
