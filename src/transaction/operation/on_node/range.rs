//! Characters from one node to another.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;

use super::Edited;
use super::fitting::fits;
use crate::document::fit::FitEdit;
use crate::document::{
    ChildPosition, EditError, Limit, Node, Position, Selection, TextSelection, View, cost, plan,
    walk,
};
use crate::id::NodeId;
use crate::steps::steps;
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
    let order = match first.id() == last.id() {
        true => Some(Ordering::Equal),
        false => {
            let fork = walk::fork(on, first, last);
            on.spend(Limit::Steps, |_| fork.as_ref().map_or(0, walk::Fork::steps))?;
            fork.map(|fork| fork.order(on))
        }
    };
    let order = order.ok_or_else(|| EditError::DifferentTrees {
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

/// Whether the node's children are pieces of its text: it has childless children and no text of its
/// own.
pub(super) fn is_text_block(on: &Draft, node: &Node) -> Result<bool, EditError> {
    if !node.text().is_empty() || node.children().is_empty() {
        return Ok(false);
    }
    all_children(on, node.id(), |child| child.children().is_empty())
}

/// Whether all children of a node are like this. Visits those before the first that is not.
pub(super) fn all_children(
    on: &Draft,
    id: &NodeId,
    are: impl Fn(&Node) -> bool,
) -> Result<bool, EditError> {
    for child in on.children(id) {
        on.spend(Limit::Steps, |_| cost::LOOKED_UP)?;
        if !are(child) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two nodes are of the same type and have the same attributes.
pub(super) fn are_alike(on: &Draft, one: &Node, other: &Node) -> Result<bool, EditError> {
    on.spend(Limit::Steps, |_| one.attributes().steps())?;
    Ok(one.kind() == other.kind() && one.attributes() == other.attributes())
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
    let Some(Selection::Text(TextSelection { anchor, focus })) = on.selection() else {
        return Ok(());
    };
    let place = |end: &Position| other_place(on, end).unwrap_or_else(|| end.clone());
    let selection = Selection::new(place(anchor), place(focus));
    Ok(on.select(selection)?)
}

fn children(view: &impl View, id: &NodeId) -> Result<Vec<NodeId>, EditError> {
    Ok(plan::find(view, id)?.children().iter().cloned().collect())
}

/// Attaches nodes that come after another right after it, in order.
fn move_behind(on: &mut Draft, id: &NodeId, nodes: &[NodeId]) -> Edited {
    if nodes.is_empty() {
        return Ok(());
    }
    let ChildPosition { parent, index } = place_of(on, id)?;
    for (nth, node) in nodes.iter().enumerate() {
        on.move_node(node, &parent, index + 1 + nth)?;
    }
    Ok(())
}

pub(super) fn delete_range(on: &mut Draft, over: &CheckedRange) -> Edited {
    let CheckedRange { start, end } = over;
    if start.node_id == end.node_id {
        return Ok(on.delete_text(&start.node_id, start.offset..end.offset)?);
    }
    if fits(on, over, &FitEdit::Delete)? {
        return Ok(());
    }
    let deletion = RangeDeletion::new(on, over)?;
    deletion.select_its_start(on)?;
    for id in &deletion.whole {
        on.delete(id)?;
    }
    let len = plan::find(on, &start.node_id)?.text().len();
    on.delete_text(&start.node_id, start.offset..len)?;
    if !deletion.last_goes {
        on.delete_text(&end.node_id, 0..end.offset)?;
    }
    deletion.close(on)
}

/// The nodes between two nodes, and how they are closed up.
struct RangeDeletion<'a> {
    over: &'a CheckedRange,
    /// The roots of deleted subtrees; includes the last node if nothing of it remains.
    whole: Vec<NodeId>,
    /// The ancestors of the last node that begin in the range and end after it, outermost first.
    around_last: Vec<NodeId>,
    last_goes: bool,
    /// Whether the two nodes are joined.
    join: bool,
    /// Whether the last node is a descendant of the first.
    nested: bool,
    /// Whether the rest of the last node's parent moves after the first node's text.
    merge_blocks: bool,
}

impl<'a> RangeDeletion<'a> {
    fn new(on: &Draft, over: &'a CheckedRange) -> Result<Self, OperationError> {
        let first = plan::find(on, &over.start.node_id)?;
        let last = plan::find(on, &over.end.node_id)?;
        // Their number is counted with the range.
        let ancestors: HashSet<&NodeId> = on.ancestors(last.id()).map(Node::id).collect();
        let nested = ancestors.contains(first.id());
        let (mut whole, mut around_last) = (Vec::new(), Vec::new());
        let mut between = walk::Walk::from(on, first.id());
        between.next();
        while let Some(node) = between.next().filter(|node| node.id() != last.id()) {
            if ancestors.contains(node.id()) {
                around_last.push(node.id().clone());
            } else {
                whole.push(node.id().clone());
                between.skip_below();
            }
        }

        // A node joins its sibling, and the root of a tree has none.
        let join = are_alike(on, first, last)? && first.parent().is_some();
        let last_left = over.end.offset < last.text().len() || !last.children().is_empty();
        let last_goes = !join && !last_left;
        whole.extend(last_goes.then(|| last.id().clone()));
        let in_text_block = |node: &Node| {
            let parent = node.parent().and_then(|parent| on.node(parent));
            parent.map_or(Ok(false), |parent| is_text_block(on, parent))
        };
        // Visits all children of both, so it comes last.
        let merge_blocks = !around_last.is_empty()
            && (join || !nested && in_text_block(first)? && in_text_block(last)?);
        Ok(Self {
            over,
            whole,
            around_last,
            last_goes,
            join,
            nested,
            merge_blocks,
        })
    }

    /// A position in a deleted node moves to the start of the range, as in deleted characters.
    fn select_its_start(&self, on: &mut Draft) -> Edited {
        let whole: HashSet<&NodeId> = self.whole.iter().collect();
        on.spend(Limit::Steps, |on| {
            let ends = match on.selection() {
                Some(Selection::Text(TextSelection { anchor, focus })) => [anchor, focus],
                _ => return 0,
            };
            let looked_at = |end: &Position| on.ancestors(&end.node_id).count();
            let around = self.around_last.len() + ends.map(looked_at).iter().sum::<usize>();
            self.whole.len() + cost::LOOKED_UP * around
        })?;
        reselect(on, |on, Position { node_id, .. }| {
            let goes = self.around_last.contains(node_id)
                || whole.contains(node_id)
                || on.ancestors(node_id).any(|node| whole.contains(node.id()));
            steps(self.around_last.len());
            goes.then(|| self.over.start.clone())
        })
    }

    /// Joins the remains on both sides, and deletes empty nodes.
    fn close(mut self, on: &mut Draft) -> Edited {
        let (first, last) = (&self.over.start.node_id, &self.over.end.node_id);
        if self.nested && self.join {
            // When the last node joins the first, its descendants stay before the nodes that follow
            // it.
            move_behind(on, last, &children(on, last)?)?;
        }
        let moving = match self.around_last.last() {
            Some(block) if self.merge_blocks => children(on, block)?,
            _ if self.join => vec![last.clone()],
            _ => Vec::new(),
        };
        match moving.split_first() {
            Some((last, behind)) if self.nested => {
                for (nth, id) in behind.iter().enumerate() {
                    on.move_node(id, first, nth)?;
                }
                move_behind(on, first, std::slice::from_ref(last))?;
            }
            _ => move_behind(on, first, &moving)?,
        }
        if self.join {
            on.join_nodes(first, last)?;
        }

        let mut empty = None;
        while let Some(id) = self.around_last.pop() {
            let mut left = plan::find(on, &id)?.children().iter();
            if left.any(|child| Some(child) != empty.as_ref()) {
                self.around_last.push(id);
                break;
            }
            empty = Some(id);
        }
        if let Some(id) = empty {
            on.delete(&id)?;
        }
        for id in &self.around_last {
            on.set_text(id, "")?;
        }
        Ok(())
    }
}
