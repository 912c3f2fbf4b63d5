//! Positions in UTF-16 units, converted to scalar values before an operation runs.

use super::{Edited, resolve};
use crate::document::{EditError, Limit, Mark, NodeSpec, OffsetError, Text, cost, plan};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::operation::{Child, NodeOperation, NodeRef};

/// Converts all positions of an operation on a node, each in the current text of its node.
///
/// Without a wildcard, so the compiler demands a decision for each new operation.
pub(in crate::transaction) fn to_scalars(
    on: &mut Draft,
    id: &NodeId,
    operation: &mut NodeOperation,
) -> Edited {
    use NodeOperation as Do;
    match operation {
        Do::InsertText { offset, .. }
        | Do::SplitTextNode { offset }
        | Do::InsertParagraph { offset, .. }
        | Do::SplitListItem { offset, .. } => of_offset(on, id, offset),
        Do::DeleteTextRange { start, end } | Do::ReplaceText { start, end, .. } => {
            of_range(on, id, start, end)
        }
        Do::Wrap { start, end, .. }
        | Do::Unwrap { start, end, .. }
        | Do::IndentText { start, end, .. }
        | Do::OutdentText { start, end, .. } => of_extent(on, id, start, end.as_mut(), None),
        Do::DeleteRange {
            start,
            end,
            end_node_id,
        }
        | Do::ApplyMark {
            start,
            end,
            end_node_id,
            ..
        }
        | Do::RemoveMark {
            start,
            end,
            end_node_id,
            ..
        }
        | Do::ToggleMark {
            start,
            end,
            end_node_id,
            ..
        }
        | Do::UpdateMark {
            start,
            end,
            end_node_id,
            ..
        }
        | Do::ClearFormatting {
            start,
            end,
            end_node_id,
        }
        | Do::Copy {
            start,
            end,
            end_node_id,
        }
        | Do::Cut {
            start,
            end,
            end_node_id,
        }
        | Do::SelectRange {
            start,
            end,
            end_node_id,
        } => of_extent(on, id, start, end.as_mut(), end_node_id.as_ref()),

        Do::SetMarks { marks } => of_marks(on, id, None, marks),
        Do::Update { text, marks, .. } => match marks {
            Some(marks) => of_marks(on, id, text.as_deref(), marks),
            None => Ok(()),
        },

        Do::AddChild {
            child: Child::New(node),
            ..
        }
        | Do::WrapNode { node } => of_new_node(on, node),
        Do::IndentNode { container } => match container {
            Some(container) => of_new_node(on, container),
            None => Ok(()),
        },
        Do::WrapInList { list, item, .. } => {
            of_new_node(on, list)?;
            of_new_node(on, item)
        }
        Do::Paste { offset, fragment } => {
            of_offset(on, id, offset)?;
            let nodes = fragment.iter_mut().flat_map(|fragment| &mut fragment.nodes);
            nodes.into_iter().try_for_each(|node| of_new_node(on, node))
        }

        Do::Named { operation, .. } => to_scalars(on, id, operation),

        Do::Delete {}
        | Do::AddChild {
            child: Child::Existing(_),
            ..
        }
        | Do::RemoveChild { .. }
        | Do::RemoveChildren { .. }
        | Do::MoveNode { .. }
        | Do::MoveChildren { .. }
        | Do::MoveBlockUp {}
        | Do::MoveBlockDown {}
        | Do::ReorderChildren { .. }
        | Do::CopyNode { .. }
        | Do::CloneNodeWithChildren { .. }
        | Do::LiftNode {}
        | Do::OutdentNode {}
        | Do::SetText { .. }
        | Do::ReplacePattern { .. }
        | Do::MergeTextNodes { .. }
        | Do::SplitBlockNode { .. }
        | Do::MergeBlockNodes { .. }
        | Do::AutoMergeTextNodes {}
        | Do::SetAttrs { .. }
        | Do::RemoveAttrs { .. }
        | Do::TransformNode { .. }
        | Do::SetRoot {}
        | Do::SelectNode {} => Ok(()),
    }
}

/// Converts the marks of a new subtree, each in the text that its node comes with.
pub(in crate::transaction) fn of_new_node(on: &mut Draft, node: &mut NodeSpec) -> Edited {
    spend(on, 2 * node.mark_count())?;
    Ok(node.marks_to_scalars()?)
}

/// Converts marks in the new text of a node, or in its current text if there is no new one.
fn of_marks(on: &mut Draft, id: &NodeId, text: Option<&str>, marks: &mut [Mark]) -> Edited {
    spend(on, 2 * marks.len())?;
    let new = text.map(Text::from);
    let text = match &new {
        Some(text) => text,
        None => plan::find(on, id)?.text(),
    };
    Ok(text.marks_to_scalars(Some(id), marks)?)
}

fn of_extent(
    on: &mut Draft,
    id: &NodeId,
    start: &mut usize,
    end: Option<&mut usize>,
    end_node: Option<&NodeRef>,
) -> Edited {
    let end_id = end_node.map(|node| resolve(on, node)).transpose()?;
    match (end, end_id.filter(|end_id| end_id != id)) {
        (Some(end), None) => of_range(on, id, start, end),
        (Some(end), Some(end_id)) => {
            of_offset(on, id, start)?;
            of_offset(on, &end_id, end)
        }
        (None, _) => of_offset(on, id, start),
    }
}

fn of_range(on: &mut Draft, id: &NodeId, start: &mut usize, end: &mut usize) -> Edited {
    let range = *start..*end;
    let range = in_text(on, id, 2, |text| text.scalar_range(range))?;
    (*start, *end) = (range.start, range.end);
    Ok(())
}

fn of_offset(on: &mut Draft, id: &NodeId, offset: &mut usize) -> Edited {
    *offset = in_text(on, id, 1, |text| text.scalar_offset(*offset))?;
    Ok(())
}

fn in_text<T>(
    on: &mut Draft,
    id: &NodeId,
    offsets: usize,
    convert: impl FnOnce(&Text) -> Result<T, OffsetError>,
) -> Result<T, EditError> {
    spend(on, offsets)?;
    let text = plan::find(on, id)?.text();
    convert(text).map_err(|cause| EditError::offset(id.clone(), cause))
}

fn spend(on: &mut Draft, offsets: usize) -> Result<(), EditError> {
    on.spend(Limit::Steps, |_| cost::CONVERTED * offsets)
}
