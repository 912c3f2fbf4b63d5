//! The clipboard and the selection.

use crate::document::Fragment;
use crate::transaction::{NodeOperation, TextSpan};

/// Copies characters, and all nodes between the first and the last, to the clipboard, clipped at
/// both ends. The document is unchanged. An empty range leaves the clipboard unchanged.
pub fn copy_range(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::Copy {
        start,
        end,
        end_node_id,
    }
}

/// Copies a range to the clipboard, then deletes it: [`copy_range`], then
/// [`delete_range`](super::delete_range).
pub fn cut_range(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::Cut {
        start,
        end,
        end_node_id,
    }
}

/// Inserts the contents of the clipboard, under new ids, before the character at `offset`. An empty
/// clipboard is an error.
///
/// Text is inserted between the halves of the text node, and is joined with each half that has the
/// same type and attributes. Blocks are inserted between the halves of the node's block. A first or
/// last block that was clipped when it was copied is joined with the half next to it, if both have
/// the same type or both contain only text.
///
/// A node without children counts as text. The block is the node's parent, if that has a parent, no
/// text of its own, and only children without children. Otherwise the block is the node itself. An
/// empty half is not created: a block pasted into an empty paragraph replaces it, unless the two
/// are joined. A node without text counts as an empty text only if the pasted nodes of its type
/// have text, because other nodes, such as images, have no text either. A caret at the offset moves
/// to the end of the pasted content.
pub fn paste(offset: usize) -> NodeOperation {
    NodeOperation::Paste {
        offset,
        fragment: None,
    }
}

/// Inserts a given fragment instead of the clipboard, as [`paste`] does.
pub fn paste_fragment(offset: usize, fragment: Fragment) -> NodeOperation {
    NodeOperation::Paste {
        offset,
        fragment: Some(fragment),
    }
}

/// Selects the node as a whole.
pub fn select_node() -> NodeOperation {
    NodeOperation::SelectNode {}
}

/// Selects characters.
pub fn select_range(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::SelectRange {
        start,
        end,
        end_node_id,
    }
}
