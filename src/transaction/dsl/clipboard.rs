//! The clipboard and the selection.

use crate::document::Fragment;
use crate::transaction::{NodeOperation, TextSpan};

/// Copies characters, and all that lies between the first and the last, to the clipboard, clipped
/// at both ends. Changes nothing in the document. An empty range leaves the clipboard as it is.
pub fn copy_range(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::Copy {
        start,
        end,
        end_node_id,
    }
}

/// [`copy_range`], then [`delete_range`](super::delete_range).
pub fn cut_range(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::Cut {
        start,
        end,
        end_node_id,
    }
}

/// Inserts what is on the clipboard, under new ids, before the character at `offset`. An empty
/// clipboard is an error.
///
/// Text is inserted between the halves of the text node, and joined with them where type and
/// attributes agree. Blocks are inserted between the halves of the node's block; a first or last
/// one that was clipped when it was copied goes on with the half beside it, if the two are of one
/// type or both hold text only.
///
/// Text is what has no children. The block is the node's parent, if that has a parent and nothing
/// but nodes without children in it, and no text of its own; otherwise it is the node itself. Where
/// a half would be empty, there is none: what is pasted into an empty paragraph takes its place,
/// unless it goes on with it. A node without text counts as an empty text only if nodes of its type
/// have text in what is pasted, because others, as images, have none either. A caret at the place
/// ends up behind what was pasted.
pub fn paste(offset: usize) -> NodeOperation {
    NodeOperation::Paste {
        offset,
        fragment: None,
    }
}

/// As [`paste`], with something else than what is on the clipboard.
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
