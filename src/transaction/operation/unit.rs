//! Positions in UTF-16 units, converted to scalar values before an operation runs.

use super::list::Edited;
use crate::document::{EditError, Limit, Mark, NodeSpec, OffsetError, Text, cost, plan};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::operation::NodeRef;
use crate::transaction::run::resolve;

/// Converts the marks of a new subtree, each in the text that its node comes with.
pub(super) fn of_new_node(on: &mut Draft, node: &mut NodeSpec) -> Edited {
    spend(on, 2 * node.mark_count())?;
    Ok(node.marks_to_scalars()?)
}

/// Converts marks in the new text of a node, or in its current text if there is no new one.
pub(super) fn of_marks(
    on: &mut Draft,
    id: &NodeId,
    text: Option<&str>,
    marks: &mut [Mark],
) -> Edited {
    spend(on, 2 * marks.len())?;
    let new = text.map(Text::from);
    let text = match &new {
        Some(text) => text,
        None => plan::find(on, id)?.text(),
    };
    Ok(text.marks_to_scalars(Some(id), marks)?)
}

pub(super) fn of_extent(
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

pub(super) fn of_range(on: &mut Draft, id: &NodeId, start: &mut usize, end: &mut usize) -> Edited {
    let range = *start..*end;
    let range = in_text(on, id, 2, |text| text.scalar_range(range))?;
    (*start, *end) = (range.start, range.end);
    Ok(())
}

pub(super) fn of_offset(on: &mut Draft, id: &NodeId, offset: &mut usize) -> Edited {
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
