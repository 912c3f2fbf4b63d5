//! Edits of blocks under a schema, which fit their result into it.

use std::cmp::Ordering;

use super::range::{self, CheckedRange};
use crate::document::block_edits::BlockEdits;
use crate::document::fit::{self, FitEdit};
use crate::document::{
    Attributes, EditError, Limit, Mark, NodeSpec, Position, Selection, SplitPoint, Value, cost,
    plan,
};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::error::OperationError;

impl BlockEdits for Draft {
    fn insert_node(
        &mut self,
        spec: NodeSpec,
        parent: &NodeId,
        index: usize,
    ) -> Result<NodeId, EditError> {
        self.insert(spec, parent, index)
    }

    fn delete_node(&mut self, id: &NodeId) -> Result<(), EditError> {
        self.delete(id)
    }

    fn move_to(&mut self, id: &NodeId, parent: &NodeId, index: usize) -> Result<(), EditError> {
        self.move_node(id, parent, index)
    }

    fn split(&mut self, id: &NodeId, at: SplitPoint) -> Result<NodeId, EditError> {
        self.split_node(id, at, None)
    }

    fn join(&mut self, id: &NodeId, right: &NodeId) -> Result<(), EditError> {
        self.join_nodes(id, right)
    }

    fn replace(
        &mut self,
        id: &NodeId,
        start: usize,
        end: usize,
        text: String,
    ) -> Result<(), EditError> {
        self.replace_text(id, start..end, text)
    }

    fn set_all_marks(&mut self, id: &NodeId, marks: Vec<Mark>) -> Result<(), EditError> {
        self.set_marks(id, marks)
    }

    fn set_kind(&mut self, id: &NodeId, kind: &str) -> Result<(), EditError> {
        self.set_type(id, kind)
    }

    fn patch(&mut self, id: &NodeId, attributes: Vec<(String, Value)>) -> Result<(), EditError> {
        self.set_attrs(id, attributes)
    }

    fn selected(&self) -> Option<&Selection> {
        self.selection()
    }

    fn select_text(&mut self, selection: Selection) -> Result<(), EditError> {
        self.select(selection)
    }

    fn spend_steps(&self, count: &dyn Fn(&Self) -> usize) -> Result<(), EditError> {
        self.spend(Limit::Steps, |_| count(self))
    }
}

/// Runs an edit between two positions. Returns `false` if the store has no schema, or if the
/// positions are in no text block of it. Then the operation does as without a schema.
pub(super) fn fits(
    on: &mut Draft,
    over: &CheckedRange,
    edit: &FitEdit<'_>,
) -> Result<bool, OperationError> {
    let Some(schema) = on.shared_schema() else {
        return Ok(false);
    };
    Ok(fit::edit(on, &schema, &over.start, &over.end, edit)?)
}

/// Like [`fits`], for the blocks from one up to another.
pub(super) fn fits_blocks(
    on: &mut Draft,
    first: &NodeId,
    last: Option<&NodeId>,
    edit: &FitEdit<'_>,
) -> Result<bool, OperationError> {
    if on.schema().is_none() {
        return Ok(false);
    }
    let last = last.unwrap_or(first);
    let order = range::order(on, plan::find(on, first)?, plan::find(on, last)?)?;
    if order.is_none_or(Ordering::is_gt) {
        let (id, last) = (first.clone(), last.clone());
        return Err(OperationError::NotBehind { id, last });
    }
    let over = CheckedRange {
        start: Position::new(first_text(on, first)?, 0),
        end: Position::new(first_text(on, last)?, 0),
    };
    fits(on, &over, edit)
}

/// Like [`fits`], for a node itself.
pub(super) fn fits_block(
    on: &mut Draft,
    id: &NodeId,
    edit: &FitEdit<'_>,
) -> Result<bool, OperationError> {
    let at = Position::new(id.clone(), 0);
    let end = at.clone();
    fits(on, &CheckedRange { start: at, end }, edit)
}

/// The first descendant without children.
pub(super) fn first_text(on: &Draft, id: &NodeId) -> Result<NodeId, EditError> {
    let mut node = plan::find(on, id)?;
    while let Some(child) = node.children().get(0) {
        on.spend(Limit::Steps, |_| cost::LOOKED_UP)?;
        node = plan::find(on, child)?;
    }
    Ok(node.id().clone())
}

/// Whether a node is a text block, or in the line of one, under a schema.
pub(super) fn is_text(on: &Draft, id: &NodeId) -> Result<bool, EditError> {
    let node = plan::find(on, id)?;
    let schema = on.schema();
    Ok(schema.is_some_and(|schema| schema.has_line(node.kind())))
}

/// Whether nodes of a type are text blocks, under a schema.
pub(super) fn is_text_block(on: &Draft, kind: &str) -> bool {
    let schema = on.schema();
    schema.is_some_and(|schema| schema.has_line(kind) && !schema.is_in_line(kind))
}

/// The type and the attributes of a described node, if it has nothing else.
pub(super) fn plain(spec: &NodeSpec) -> Option<(&str, &Attributes)> {
    let bare = spec.len() == 1 && spec.id().is_none() && spec.text().is_empty();
    bare.then(|| (spec.kind(), spec.attributes()))
}
