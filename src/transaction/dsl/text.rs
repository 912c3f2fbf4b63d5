//! Text within nodes and across them.

use std::ops::{Bound, RangeBounds};

use smol_str::SmolStr;

use crate::transaction::{NodeOperation, Pattern, TextSpan};

/// Replaces the whole text. Its marks go with the old text. The same text changes nothing, not even
/// the marks.
pub fn set_text(text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::SetText { text: text.into() }
}

/// Inserts characters before the one at `offset`.
pub fn insert_text(offset: usize, text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::InsertText {
        offset,
        text: text.into(),
    }
}

/// Deletes the characters from `start` up to, not including, `end`.
pub fn delete_text_range(start: usize, end: usize) -> NodeOperation {
    NodeOperation::DeleteTextRange { start, end }
}

/// Deletes characters from the node up to another, as backspace does with a selection: the ends of
/// the two texts and all that lies between them go. What stands in the second node's block from
/// that node on comes into the first one's, the two text nodes become one if type and attributes
/// agree, and blocks that are left empty go.
///
/// A block here is a node that has nothing but nodes without children in it, and no text of its
/// own. Where the two nodes do not both stand in one, the second comes to the first only if they
/// become one. A place in what went is then where the first node's characters went.
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
/// assert_eq!(page.node(&"a".into()).unwrap().text(), &"one five");
/// assert_eq!(page.node(&"page".into()).unwrap().children().len(), 1);
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

/// Replaces the characters from `start` up to, not including, `end`.
pub fn replace_text(start: usize, end: usize, text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::ReplaceText {
        start,
        end,
        text: text.into(),
    }
}

/// Replaces each match of a [`Pattern`] in the node's text. `$1` or `${name}` in the replacement
/// stand for what a group matched, `$$` for a dollar. A pattern that cannot be used is an error,
/// and so is one whose search or whose output is larger than its bounds. Each match is replaced as
/// by [`replace_text`], so marks around it stay.
pub fn replace_pattern(
    pattern: impl Into<Pattern>,
    replacement: impl Into<String>,
) -> NodeOperation {
    NodeOperation::ReplacePattern {
        pattern: pattern.into(),
        replacement: replacement.into(),
    }
}

/// Puts text before and behind characters of the node: `wrap_text("**", "**", 2..6)`. What is
/// selected of the characters stays selected, without what is put around them.
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

/// The reverse of [`wrap_text`]: the characters have to begin with `before` and end with `after`,
/// which are deleted. If they do not, that is an error.
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

/// Inserts text at the beginning of each line that the characters reach into, but not of empty
/// ones. A line ends with `\n`; one that has nothing but `\r` before it is empty, too. No
/// characters reach into the line where they would be.
pub fn indent_text(indent: impl Into<SmolStr>, range: impl RangeBounds<usize>) -> NodeOperation {
    let (start, end) = bounds(&range);
    NodeOperation::IndentText {
        indent: indent.into(),
        start,
        end,
    }
}

/// Deletes text at the beginning of each line that the characters reach into and that begins with
/// it. For lines see [`indent_text`].
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
