//! Carrying operations out.

use std::panic::{AssertUnwindSafe, catch_unwind};

use smol_str::SmolStr;

use super::error::{OperationError, PanicPayload};
use super::{Child, NodeOperation, Operation, TransactionError};
use crate::document::{Change, EditError, Node};
use crate::id::NodeId;
use crate::store::{ExecutedOperation, Transaction};

/// Runs operations in the order given. Stops at the first that fails and says which it was.
pub(super) fn run(
    operations: Vec<Operation>,
    transaction: &mut Transaction,
) -> Result<(), TransactionError> {
    let mut runner = Runner {
        transaction,
        index: 0,
    };
    for operation in operations {
        match operation {
            Operation::Create { node } => {
                runner.step("create", None, |transaction| {
                    transaction.create(node).map(drop)
                })?;
            }
            Operation::On { node_id, operation } => runner.step_on(node_id, operation)?,
            Operation::Control {
                node_id,
                operations,
            } => {
                for operation in operations {
                    runner.step_on(node_id.clone(), operation)?;
                }
            }
            Operation::Call(code) => runner.step("op", None, |transaction| {
                // Whatever state a panic leaves behind is the transaction's, which is rolled back unseen.
                match catch_unwind(AssertUnwindSafe(|| code.call(transaction))) {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) => Err(error.into()),
                    Err(payload) => Err(OperationError::Panicked(PanicPayload::new(payload))),
                }
            })?,
        }
    }
    Ok(())
}

struct Runner<'a> {
    transaction: &'a mut Transaction,
    /// How many operations have been carried out, those in a `control` counted one by one.
    index: usize,
}

impl Runner<'_> {
    fn step_on(&mut self, id: NodeId, operation: NodeOperation) -> Result<(), TransactionError> {
        let name = operation.name();
        self.step(name, Some(id.clone()), |transaction| {
            edit(transaction, &id, operation)
        })
    }

    fn step<E: Into<OperationError>>(
        &mut self,
        name: &'static str,
        node_id: Option<NodeId>,
        step: impl FnOnce(&mut Transaction) -> Result<(), E>,
    ) -> Result<(), TransactionError> {
        let before = self.transaction.changes().len();
        match step(self.transaction) {
            Ok(()) => {
                let created = created(&self.transaction.changes()[before..]);
                self.transaction.record(ExecutedOperation {
                    name: SmolStr::new_static(name),
                    node_id,
                    created,
                });
                self.index += 1;
                Ok(())
            }
            Err(cause) => Err(TransactionError::Operation {
                index: self.index,
                name,
                node_id,
                cause: cause.into(),
            }),
        }
    }
}

fn edit(
    transaction: &mut Transaction,
    id: &NodeId,
    operation: NodeOperation,
) -> Result<(), EditError> {
    match operation {
        NodeOperation::Delete {} => transaction.delete(id),
        NodeOperation::AddChild { child, index } => match child {
            Child::New(node) => transaction.insert(node, id, index).map(drop),
            Child::Existing(child) => transaction.move_node(&child, id, index),
        },
        NodeOperation::RemoveChild { child_id } => transaction.remove_child(id, &child_id),
        NodeOperation::MoveNode { parent_id, index } => {
            transaction.move_node(id, &parent_id, index)
        }
        NodeOperation::SetText { text } => transaction.set_text(id, text),
        NodeOperation::InsertText { offset, text } => transaction.insert_text(id, offset, text),
        NodeOperation::DeleteTextRange { start, end } => transaction.delete_text(id, start..end),
        NodeOperation::ReplaceText { start, end, text } => {
            transaction.replace_text(id, start..end, text)
        }
        NodeOperation::SetAttrs { attrs } => transaction.set_attrs(id, attrs),
    }
}

fn created(changes: &[Change]) -> Vec<NodeId> {
    let inserted = changes.iter().flat_map(|change| match change {
        Change::InsertSubtree { nodes, .. } => nodes.as_slice(),
        _ => &[],
    });
    inserted.map(|node| Node::id(node).clone()).collect()
}
