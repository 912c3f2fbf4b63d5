//! Characters from one node to another.

use std::cmp::Ordering;
use std::ops::Range;

use super::Edited;
use super::fitting::fits;
use crate::document::fit::FitEdit;
use crate::document::{
    ChildPosition, EditError, Limit, Node, Position, Selection, TextSelection, block_edits, cost,
    plan, table, walk,
};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::error::OperationError;
use crate::transaction::operation::NodeRef;
use crate::transaction::run;

/// Characters between two checked positions, the first not after the second.
#[derive(Clone, Debug)]
pub(super) struct CheckedRange {
    pub(super) start: Position,
    pub(super) end: Position,
}

impl CheckedRange {
    /// The characters of each node, in document order. Nodes without any are left out.
    pub(super) fn pieces(&self, on: &Draft) -> Result<Vec<(NodeId, Range<usize>)>, EditError> {
        let visit =
            |node: &Node| on.spend(Limit::Steps, |_| cost::NODE + cost::marks(node.marks()));
        let (start, end) = (&self.start, &self.end);
        // Its position in the document does not matter.
        if start.node_id == end.node_id {
            let piece = (start.node_id.clone(), start.offset..end.offset);
            visit(plan::find(on, &piece.0)?)?;
            return Ok(Vec::from_iter((start.offset < end.offset).then_some(piece)));
        }
        let mut pieces = Vec::new();
        for node in walk::between(on, &self.start.node_id, &self.end.node_id) {
            visit(node)?;
            let id = node.id();
            let start = match *id == self.start.node_id {
                true => self.start.offset,
                false => 0,
            };
            let end = match *id == self.end.node_id {
                true => self.end.offset,
                false => node.text().len(),
            };
            if start < end {
                pieces.push((id.clone(), start..end));
            }
        }
        Ok(pieces)
    }
}

pub(super) fn resolve(
    on: &Draft,
    id: &NodeId,
    start: usize,
    end: Option<usize>,
    end_node: Option<&NodeRef>,
) -> Result<CheckedRange, OperationError> {
    let first = plan::find(on, id)?;
    let end_id = end_node.map(|node| run::resolve(on, node)).transpose()?;
    let last = plan::find(on, end_id.as_ref().unwrap_or(id))?;
    // Within one node the error names both ends, across nodes only the invalid one.
    let (first_range, last_range) = match end {
        Some(end) if first.id() == last.id() => (start..end, start..end),
        Some(end) => (start..start, end..end),
        None => (start..start, 0..0),
    };
    let end = end.unwrap_or(last.text().len());
    for (node, offset, range) in [(first, start, first_range), (last, end, last_range)] {
        if offset > node.text().len() {
            return Err(plan::out_of_range(node, &range).into());
        }
    }
    let order = order(on, first, last)?.ok_or_else(|| EditError::DifferentTrees {
        one: first.id().clone(),
        other: last.id().clone(),
    })?;
    let order = order.then(start.cmp(&end));
    let start = Position::new(first.id().clone(), start);
    let end = Position::new(last.id().clone(), end);
    match order {
        Ordering::Greater => Err(OperationError::RangeReversed { start, end }),
        _ => Ok(CheckedRange { start, end }),
    }
}

/// The order of two nodes in the document; `None` if they are in different trees.
pub(super) fn order(on: &Draft, one: &Node, other: &Node) -> Result<Option<Ordering>, EditError> {
    if one.id() == other.id() {
        return Ok(Some(Ordering::Equal));
    }
    let fork = walk::fork(on, one, other);
    on.spend(Limit::Steps, |_| fork.as_ref().map_or(0, walk::Fork::steps))?;
    Ok(fork.map(|fork| fork.order(on)))
}

/// Where a node is attached; `None` if it has no parent.
pub(super) fn attached_at(on: &Draft, id: &NodeId) -> Result<Option<ChildPosition>, EditError> {
    let node = plan::find(on, id)?;
    on.spend_search(id)?;
    Ok(plan::place(on, node))
}

/// Where a node is attached. A node without a parent is an error.
pub(super) fn place_of(on: &Draft, id: &NodeId) -> Result<ChildPosition, EditError> {
    attached_at(on, id)?.ok_or_else(|| EditError::NoParent { id: id.clone() })
}

/// Moves those ends of the selected text that have a new position.
pub(super) fn reselect(
    on: &mut Draft,
    other_place: impl Fn(&Draft, &Position) -> Option<Position>,
) -> Edited {
    let Some(Selection::Text(TextSelection { anchor, focus, .. })) = on.selection() else {
        return Ok(());
    };
    let place = |end: &Position| other_place(on, end).unwrap_or_else(|| end.clone());
    let selection = Selection::new(place(anchor), place(focus));
    Ok(on.select(selection)?)
}

/// Empties the cells that a range is over. What is left of the range then is the caret.
pub(super) fn emptied_cells(
    on: &mut Draft,
    mut over: CheckedRange,
) -> Result<CheckedRange, EditError> {
    let schema = on.shared_schema();
    table::clear_between(on, schema.as_deref(), &mut over.start, &mut over.end)?;
    Ok(over)
}

pub(super) fn delete_range(on: &mut Draft, over: &CheckedRange) -> Edited {
    let CheckedRange { start, end } = over;
    if start.node_id == end.node_id {
        return Ok(on.delete_text(&start.node_id, start.offset..end.offset)?);
    }
    match fits(on, over, &FitEdit::Delete)? {
        true => Ok(()),
        false => Ok(block_edits::delete_range(on, start, end)?),
    }
}
