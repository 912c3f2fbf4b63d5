//! Characters from one node to another.

use super::Edited;
use crate::document::{Position, View, plan};
use crate::id::NodeId;
use crate::store::Transaction;
use crate::transaction::error::OperationError;
use crate::transaction::operation::NodeRef;

/// Characters between two places that were found to exist, the first not behind the second.
#[derive(Clone, Debug)]
pub(super) struct Over {
    pub(super) start: Position,
    pub(super) end: Position,
}

pub(super) fn resolve(
    on: &Transaction,
    id: &NodeId,
    start: usize,
    end: Option<usize>,
    end_node: Option<&NodeRef>,
) -> Result<Over, OperationError> {
    todo!()
}

pub(super) fn delete_range(on: &mut Transaction, over: &Over) -> Edited {
    todo!()
}
