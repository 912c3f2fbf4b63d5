//! Operations on the text of one node or of a range of nodes.

use std::ops::{Bound, RangeBounds};

use smol_str::SmolStr;

use crate::transaction::{NodeOperation, Pattern, TextSpan};

/// Replaces the whole text and removes its marks. If the text is the same, nothing changes, not
/// even the marks.
pub fn set_text(text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::SetText { text: text.into() }
}

/// Inserts characters before the character at `offset`.
pub fn insert_text(offset: usize, text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::InsertText {
        offset,
        text: text.into(),
    }
}

/// Deletes the characters from `start` to `end`, exclusive.
pub fn delete_text_range(start: usize, end: usize) -> NodeOperation {
    NodeOperation::DeleteTextRange { start, end }
}

/// Deletes characters from the node up to another, as Backspace does with a selection. The ends of
/// the two texts and all nodes between them are deleted. The rest of the second node's block, from
/// that node on, moves into the block of the first. The two text nodes are joined if they have the
/// same type and attributes. Blocks that are left empty are deleted.
///
/// A block here is a node that has no text of its own and only children without children. If the
/// two nodes are not both in a block, the second node moves to the first only if the two are
/// joined. A position in a deleted node moves to where the deleted characters of the first node
/// were.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*, transaction::TextSpan};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(element("page", [
///     element("paragraph", [text_node("text", "one two").with_id("a")]),
///     element("paragraph", [text_node("text", "three")]),
///     element("paragraph", [text_node("text", "four five").with_id("b")]),
/// ]).with_id("page")), delete_range(TextSpan::to(4, "b", 5)).on("a")])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.node("a").unwrap().text(), &"one five");
/// assert_eq!(page.node("page").unwrap().children().len(), 1);
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn delete_range(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::DeleteRange {
        start,
        end,
        end_node_id,
    }
}

/// Replaces the characters from `start` to `end`, exclusive.
pub fn replace_text(start: usize, end: usize, text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::ReplaceText {
        start,
        end,
        text: text.into(),
    }
}

/// Replaces each match of a [`Pattern`] in the node's text. In the replacement, `$1` or `${name}`
/// stands for the text that a group matched, and `$$` for a dollar sign. It is an error if the
/// pattern is invalid, or if its search or its output exceeds its limits. Each match is replaced as
/// by [`replace_text`], so marks around it are kept.
pub fn replace_pattern(
    pattern: impl Into<Pattern>,
    replacement: impl Into<String>,
) -> NodeOperation {
    NodeOperation::ReplacePattern {
        pattern: pattern.into(),
        replacement: replacement.into(),
    }
}

/// Inserts text before and after characters of the node: `wrap_text("**", "**", 2..6)`. Selected
/// characters stay selected, without the inserted text.
pub fn wrap_text(
    before: impl Into<SmolStr>,
    after: impl Into<SmolStr>,
    range: impl RangeBounds<usize>,
) -> NodeOperation {
    let (start, end) = bounds(&range);
    NodeOperation::Wrap {
        before: before.into(),
        after: after.into(),
        start,
        end,
    }
}

/// Reverses [`wrap_text`]: deletes `before` at the start of the characters and `after` at their
/// end. It is an error if the characters do not begin with `before` and end with `after`.
pub fn unwrap_text(
    before: impl Into<SmolStr>,
    after: impl Into<SmolStr>,
    range: impl RangeBounds<usize>,
) -> NodeOperation {
    let (start, end) = bounds(&range);
    NodeOperation::Unwrap {
        before: before.into(),
        after: after.into(),
        start,
        end,
    }
}

/// Inserts text at the beginning of each line that the characters reach into, except empty lines. A
/// line ends with `\n`; a line that contains only `\r` is empty, too. An empty range reaches into
/// the line that contains it.
pub fn indent_text(indent: impl Into<SmolStr>, range: impl RangeBounds<usize>) -> NodeOperation {
    let (start, end) = bounds(&range);
    NodeOperation::IndentText {
        indent: indent.into(),
        start,
        end,
    }
}

/// Deletes text at the beginning of each line that the characters reach into, if the line begins
/// with it. [`indent_text`] defines these lines.
pub fn outdent_text(indent: impl Into<SmolStr>, range: impl RangeBounds<usize>) -> NodeOperation {
    let (start, end) = bounds(&range);
    NodeOperation::OutdentText {
        indent: indent.into(),
        start,
        end,
    }
}

/// The first character and the one behind the last; `None` for the end of the text.
fn bounds(range: &impl RangeBounds<usize>) -> (usize, Option<usize>) {
    let start = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => Some(last.saturating_add(1)),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => None,
    };
    (start, end)
}
