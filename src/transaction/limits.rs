//! Limits of operation batches: the size of a batch is checked before the lock is requested, and
//! the work of each operation before it runs.

use super::idempotency::IdempotentBatch;
use super::operation::{NodeRef, Operation, OperationOn};
use super::{OperationError, TransactionError};
use crate::document::{Budget, Limit, LimitExceeded, Limits};

/// Checks the size of the operations: their number, and the nodes, names, values and texts in them.
///
/// # Errors
///
/// [`TransactionError::Operation`], with the first operation that exceeds a limit.
pub(super) fn check(limits: &Limits, operations: &[Operation]) -> Result<(), TransactionError> {
    let budget = Budget::new(limits.clone());
    let mut index = 0;
    for operation in operations {
        check_one(&budget, &mut index, operation)?;
    }
    Ok(())
}

/// Checks the idempotency key of a client.
pub(super) fn check_key(limits: &Limits, once: &IdempotentBatch) -> Result<(), LimitExceeded> {
    limits.check(Limit::NameBytes, once.key.len())
}

fn check_one(
    budget: &Budget,
    index: &mut usize,
    operation: &Operation,
) -> Result<(), TransactionError> {
    let name = operation.name();
    let mut node_id = None;
    let within = match operation {
        Operation::Named { alias, operation } => {
            check_one(budget, index, operation)?;
            *index -= 1;
            budget.name(alias)
        }
        Operation::Control {
            node_id,
            operations,
            ..
        } => {
            return operations.iter().try_for_each(|operation| {
                let within = one_more(budget).and_then(|()| operation.size(budget));
                at_operation(within, index, operation.name(), Some(node_id))
            });
        }
        Operation::OnDocument { operation, .. } => {
            one_more(budget).and_then(|()| operation.size(budget))
        }
        Operation::On {
            node_id: id,
            operation,
            ..
        } => {
            node_id = Some(id);
            one_more(budget).and_then(|()| operation.size(budget))
        }
        Operation::Call(code) => one_more(budget).and_then(|()| code.size(budget)),
    };
    at_operation(within, index, name, node_id)
}

fn one_more(budget: &Budget) -> Result<(), LimitExceeded> {
    budget.spend(Limit::Operations, 1)
}

/// Adds the index of the operation to its error, and counts the operation.
fn at_operation(
    within: Result<(), LimitExceeded>,
    index: &mut usize,
    name: &'static str,
    node: Option<&NodeRef>,
) -> Result<(), TransactionError> {
    let at = *index;
    *index += 1;
    within.map_err(|exceeded| TransactionError::Operation {
        index: at,
        name,
        node_id: match node {
            Some(NodeRef::Id(id)) => Some(id.clone()),
            _ => None,
        },
        cause: OperationError::Edit(exceeded.into()),
    })
}
