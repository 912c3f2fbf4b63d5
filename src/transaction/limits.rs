//! Limits of operation batches: the size of a batch is checked before the lock is requested, and
//! the work of each operation before it runs.

use super::operation::{Child, NodeOperation, NodeRef, Operation};
use super::{OperationError, TransactionError};
use crate::document::{Budget, Fragment, Limit, LimitExceeded, Limits, View, cost};
use crate::id::NodeId;

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
                let within = one_more(budget).and_then(|()| on_node(budget, operation));
                at_operation(within, index, operation.name(), Some(node_id))
            });
        }
        Operation::Create { node, .. } => one_more(budget).and_then(|()| budget.spec(node)),
        Operation::On {
            node_id: id,
            operation,
            ..
        } => {
            node_id = Some(id);
            one_more(budget).and_then(|()| on_node(budget, operation))
        }
        Operation::SetSelection { .. }
        | Operation::ClearSelection
        | Operation::IfUnchanged { .. }
        | Operation::RequireLease { .. }
        | Operation::Call(_) => one_more(budget),
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

fn on_node(budget: &Budget, operation: &NodeOperation) -> Result<(), LimitExceeded> {
    use NodeOperation as Do;
    let text = |text: &str| budget.text(text.len(), text.chars().count());
    match operation {
        Do::SetText { text: inserted }
        | Do::InsertText { text: inserted, .. }
        | Do::ReplaceText { text: inserted, .. } => text(inserted),
        Do::ReplacePattern { replacement, .. } => text(replacement),
        Do::IndentText { indent, .. } | Do::OutdentText { indent, .. } => text(indent),
        Do::Wrap { before, after, .. } | Do::Unwrap { before, after, .. } => {
            text(before)?;
            text(after)
        }

        Do::AddChild {
            child: Child::New(node),
            ..
        }
        | Do::WrapNode { node } => budget.spec(node),
        Do::IndentNode { container } => container.iter().try_for_each(|node| budget.spec(node)),
        Do::WrapInList { list, item, .. } => {
            budget.spec(list)?;
            budget.spec(item)
        }
        Do::Paste {
            fragment: Some(Fragment { nodes, .. }),
            ..
        } => nodes.iter().try_for_each(|node| budget.spec(node)),

        Do::InsertParagraph { kind, .. } => kind.iter().try_for_each(|kind| budget.name(kind)),
        Do::SplitListItem { item_type, .. } => budget.name(item_type),

        Do::ApplyMark {
            mark, attributes, ..
        }
        | Do::ToggleMark {
            mark, attributes, ..
        } => {
            budget.name(mark)?;
            budget.attributes(attributes)
        }
        Do::UpdateMark {
            mark, attributes, ..
        } => {
            budget.name(mark)?;
            budget.patch(attributes)
        }
        Do::SetMarks { marks } => budget.marks(marks),

        Do::SetAttrs { attrs } => budget.patch(attrs),
        Do::RemoveAttrs { keys } => keys.iter().try_for_each(|key| budget.name(key)),
        Do::Update {
            attrs,
            text: inserted,
            marks,
        } => {
            inserted.iter().try_for_each(|inserted| text(inserted))?;
            budget.patch(attrs)?;
            marks.iter().try_for_each(|marks| budget.marks(marks))
        }
        Do::TransformNode { kind, attrs } => {
            budget.name(kind)?;
            budget.patch(attrs)
        }

        Do::RemoveChildren { child_ids }
        | Do::MoveChildren { child_ids, .. }
        | Do::ReorderChildren { child_ids } => budget.spend(Limit::Steps, child_ids.len()),

        Do::Named { alias, operation } => {
            budget.name(alias)?;
            on_node(budget, operation)
        }

        Do::Delete {}
        | Do::AddChild { .. }
        | Do::RemoveChild { .. }
        | Do::MoveNode { .. }
        | Do::MoveBlockUp {}
        | Do::MoveBlockDown {}
        | Do::CopyNode { .. }
        | Do::CloneNodeWithChildren { .. }
        | Do::LiftNode {}
        | Do::OutdentNode {}
        | Do::DeleteTextRange { .. }
        | Do::DeleteRange { .. }
        | Do::SplitTextNode { .. }
        | Do::MergeTextNodes { .. }
        | Do::SplitBlockNode { .. }
        | Do::MergeBlockNodes { .. }
        | Do::AutoMergeTextNodes {}
        | Do::RemoveMark { .. }
        | Do::ClearFormatting { .. }
        | Do::SetRoot {}
        | Do::Copy { .. }
        | Do::Cut { .. }
        | Do::Paste { .. }
        | Do::SelectNode {}
        | Do::SelectRange { .. } => Ok(()),
    }
}

/// Counts the steps of an operation itself, and of the text that it reads as a whole. It counts
/// anything else when it reads it.
pub(super) fn steps_to_look(on: &impl View, id: &NodeId, operation: &NodeOperation) -> usize {
    use NodeOperation as Do;
    match operation {
        Do::ReplacePattern { .. } | Do::IndentText { .. } | Do::OutdentText { .. } => {
            1 + on.node(id).map_or(0, |node| node.text().bytes()) / cost::BYTES
        }
        Do::Named { operation, .. } => steps_to_look(on, id, operation),
        _ => 1,
    }
}
