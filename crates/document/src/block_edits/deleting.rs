//! Deletes characters from one node to another.

use std::collections::HashSet;

use super::{BlockEdits, are_alike, is_text_block, place_of, reselect};
use crate::steps::steps;
use crate::{
    ChildPosition, EditError, Node, NodeId, Position, Selection, TextSelection, View, cost, plan,
    walk,
};

/// Deletes what is between two positions in different nodes, the first before the second.
pub fn delete_range<E: BlockEdits>(
    on: &mut E,
    start: &Position,
    end: &Position,
) -> Result<(), EditError> {
    let deletion = RangeDeletion::new(on, start, end)?;
    deletion.select_its_start(on)?;
    for id in &deletion.whole {
        on.delete_node(id)?;
    }
    let len = plan::find(on, &start.node_id)?.text().len();
    on.replace(&start.node_id, start.offset, len, String::new())?;
    if !deletion.last_goes {
        on.replace(&end.node_id, 0, end.offset, String::new())?;
    }
    deletion.close(on)
}

/// The nodes between two nodes, and how they are closed up.
struct RangeDeletion<'a> {
    start: &'a Position,
    end: &'a Position,
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
    fn new(
        on: &impl BlockEdits,
        start: &'a Position,
        end: &'a Position,
    ) -> Result<Self, EditError> {
        let first = plan::find(on, &start.node_id)?;
        let last = plan::find(on, &end.node_id)?;
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
        let last_left = end.offset < last.text().len() || !last.children().is_empty();
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
            start,
            end,
            whole,
            around_last,
            last_goes,
            join,
            nested,
            merge_blocks,
        })
    }

    /// A position in a deleted node moves to the start of the range, as in deleted characters.
    fn select_its_start(&self, on: &mut impl BlockEdits) -> Result<(), EditError> {
        let whole: HashSet<&NodeId> = self.whole.iter().collect();
        on.spend_steps(&|on| {
            let ends = match on.selected() {
                Some(Selection::Text(TextSelection { anchor, focus, .. })) => [anchor, focus],
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
            goes.then(|| self.start.clone())
        })
    }

    /// Joins the remains on both sides, and deletes empty nodes.
    fn close(mut self, on: &mut impl BlockEdits) -> Result<(), EditError> {
        let (first, last) = (&self.start.node_id, &self.end.node_id);
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
                    on.move_to(id, first, nth)?;
                }
                move_behind(on, first, std::slice::from_ref(last))?;
            }
            _ => move_behind(on, first, &moving)?,
        }
        if self.join {
            on.join(first, last)?;
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
            on.delete_node(&id)?;
        }
        for id in &self.around_last {
            {
                let len = plan::find(on, id)?.text().len();
                on.replace(id, 0, len, String::new())?;
            };
        }
        Ok(())
    }
}

fn children(view: &impl View, id: &NodeId) -> Result<Vec<NodeId>, EditError> {
    Ok(plan::find(view, id)?.children().iter().cloned().collect())
}

/// Attaches nodes that come after another right after it, in order.
fn move_behind(on: &mut impl BlockEdits, id: &NodeId, nodes: &[NodeId]) -> Result<(), EditError> {
    if nodes.is_empty() {
        return Ok(());
    }
    let ChildPosition { parent, index } = place_of(on, id)?;
    for (nth, node) in nodes.iter().enumerate() {
        on.move_to(node, &parent, index + 1 + nth)?;
    }
    Ok(())
}
