//! Marks.

use serde_json::Value;
use smol_str::SmolStr;

use super::map;
use crate::document::{Attributes, Mark};
use crate::transaction::{NodeOperation, TextSpan};

/// Marks characters, in all nodes from the first to the last. A mark of the same kind with other
/// attributes ends where the new mark begins.
///
/// Under a [schema](crate::schema::MarkType::excludes), the marks that the new one excludes end
/// there as well, and texts that may not have the mark are left out.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*, transaction::TextSpan};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [
///     create(element("paragraph", [
///         text_node("text", "one ").with_id("a"),
///         text_node("text", "two").with_id("b"),
///     ])),
///     apply_mark("bold", TextSpan::to(2, "b", 1)).on("a"),
///     remove_mark("bold", ..1).on("b"),
/// ])
/// .commit()?;
/// let snapshot = editor.store().snapshot();
/// assert_eq!(snapshot.node("a").unwrap().marks().len(), 1);
/// assert!(snapshot.node("b").unwrap().marks().is_empty());
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn apply_mark(kind: impl Into<SmolStr>, extent: impl Into<TextSpan>) -> NodeOperation {
    apply_mark_with(kind, Attributes::default(), extent)
}

/// Marks characters with attributes, for example the target of a link. Otherwise as [`apply_mark`].
pub fn apply_mark_with(
    kind: impl Into<SmolStr>,
    attributes: impl Into<Attributes>,
    extent: impl Into<TextSpan>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::ApplyMark {
        mark: kind.into(),
        attributes: attributes.into(),
        start,
        end,
        end_node_id,
    }
}

/// Removes the marks of a kind, with any attributes, from characters in all nodes from the first to
/// the last. Removal from the middle of a mark leaves two marks. The mark of a
/// [leaf](crate::schema::MarkType::leaf) stays.
pub fn remove_mark(kind: impl Into<SmolStr>, extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::RemoveMark {
        mark: kind.into(),
        start,
        end,
        end_node_id,
    }
}

/// Toggles a mark: [`remove_mark`] if all the characters have a mark of the kind, otherwise
/// [`apply_mark`].
pub fn toggle_mark(kind: impl Into<SmolStr>, extent: impl Into<TextSpan>) -> NodeOperation {
    toggle_mark_with(kind, Attributes::default(), extent)
}

/// Toggles a mark, as [`toggle_mark`] does, and sets attributes where it applies the mark.
pub fn toggle_mark_with(
    kind: impl Into<SmolStr>,
    attributes: impl Into<Attributes>,
    extent: impl Into<TextSpan>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::ToggleMark {
        mark: kind.into(),
        attributes: attributes.into(),
        start,
        end,
        end_node_id,
    }
}

/// Sets attributes of the marks of a kind where they cover the characters. Other attributes are
/// kept, and `null` removes one. The parts of such a mark outside the characters are unchanged. It
/// is an error if there is no such mark.
pub fn update_mark<K: Into<String>>(
    kind: impl Into<SmolStr>,
    attributes: impl IntoIterator<Item = (K, Value)>,
    extent: impl Into<TextSpan>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::UpdateMark {
        mark: kind.into(),
        attributes: map(attributes),
        start,
        end,
        end_node_id,
    }
}

/// Replaces the marks of the node. The new marks are normalized; a mark without a range covers the
/// whole text. The mark of a [leaf](crate::schema::MarkType::leaf) stays, unless a new one stands
/// for a leaf there.
pub fn set_marks(marks: impl IntoIterator<Item = Mark>) -> NodeOperation {
    NodeOperation::SetMarks {
        marks: marks.into_iter().collect(),
    }
}

/// Removes all marks from characters in all nodes from the first to the last, but for those of
/// [leaves](crate::schema::MarkType::leaf).
pub fn clear_formatting(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::ClearFormatting {
        start,
        end,
        end_node_id,
    }
}
