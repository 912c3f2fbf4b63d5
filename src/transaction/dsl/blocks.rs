//! Splitting and joining.

use smol_str::SmolStr;

use crate::document::NodeSpec;
use crate::transaction::{NodeOperation, NodeRef};

/// Cuts a text node in two before the character at `offset`. The text from there on goes to a new
/// node right behind it, with the same type and attributes and with the marks over it; children
/// stay. A node without a parent is an error.
pub fn split_text_node(offset: usize) -> NodeOperation {
    NodeOperation::SplitTextNode { offset }
}

/// Joins the node and its next sibling, which goes: its text with the marks over it, and its
/// children, come behind those of the node. Both have to be of the same type; the attributes of the
/// node stay.
pub fn merge_text_nodes(other_id: impl Into<NodeRef>) -> NodeOperation {
    NodeOperation::MergeTextNodes {
        other_id: other_id.into(),
    }
}

/// Cuts a block in two before the child at `index`. The children from there on go to a new node
/// right behind it, with the same type and attributes; text stays. A node without a parent is an
/// error.
pub fn split_block_node(index: usize) -> NodeOperation {
    NodeOperation::SplitBlockNode { index }
}

/// Joins the block and its next sibling, which goes; its children become the last of the block, its
/// text the end of that of the block. The types may differ; type and attributes of the block stay.
pub fn merge_block_nodes(other_id: impl Into<NodeRef>) -> NodeOperation {
    NodeOperation::MergeBlockNodes {
        other_id: other_id.into(),
    }
}

/// Joins those children of the node that stand next to each other, have text, no children, the same
/// type and the same attributes. A child without text joins with such a neighbour, too. The first
/// of those that are joined stays.
pub fn auto_merge_text_nodes() -> NodeOperation {
    NodeOperation::AutoMergeTextNodes {}
}

/// Begins a new block at a place in the text of a node, as the enter key does: the text node is cut
/// there, and its parent is cut behind the first half, so that the second half is the first child
/// of the new block. Children of the text node, which stand behind its text, go with the second
/// half. The new block has the parent's attributes and is of its type; [`insert_paragraph_of`] says
/// of which else. A node without a grandparent is an error.
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
/// assert_eq!(page.node(&"page".into()).unwrap().children().len(), 2);
/// assert_eq!(page.node(&"text".into()).unwrap().text(), &"one");
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn insert_paragraph(offset: usize) -> NodeOperation {
    NodeOperation::InsertParagraph { offset, kind: None }
}

/// As [`insert_paragraph`], with a type for the new block.
pub fn insert_paragraph_of(offset: usize, kind: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::InsertParagraph {
        offset,
        kind: Some(kind.into()),
    }
}

/// Begins a new list item at a place in the text of a node: all from the text node up to the
/// nearest node that is of the type `item_type`, itself or around it, is cut there. So what stands
/// behind the place in the item goes with the new one, a nested list too. No such node is an error,
/// and so is one without a parent.
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
/// assert_eq!(editor.store().snapshot().node(&"list".into()).unwrap().children().len(), 2);
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn split_list_item(offset: usize, item_type: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::SplitListItem {
        offset,
        item_type: item_type.into(),
    }
}

/// Puts a new list in the place of the node, and the node into an item of it:
/// `wrap_in_list(element("list", []), element("list-item", []))`. What the two bring along comes
/// before it. Around a node without a parent the list has none either. The root cannot be put into
/// a list.
pub fn wrap_in_list(list: NodeSpec, item: NodeSpec) -> NodeOperation {
    NodeOperation::WrapInList {
        list,
        item,
        last_id: None,
    }
}

/// As [`wrap_in_list`], with the siblings from the node up to another, each in an item of its own.
/// If that is no sibling, or one that comes before the node, that is an error.
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
