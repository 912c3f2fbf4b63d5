//! Execution of operations.

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::error::{OperationError, PanicPayload};
use super::operation::{
    Callback, DocumentTarget, IntoOperations, NodeOperation, NodeRef, Operation, OperationOn,
};
use super::{TransactionError, limits};
use crate::caught::catch;
use crate::document::{Change, EditError, Limit, Node, Overlay, SharedList, TextUnit, View};
use crate::id::NodeId;
use crate::store::{AliasError, Draft, ExecutedOperation};

/// Runs operations in a [`Draft`], or in a [`Transaction`](crate::Transaction), which has one.
pub trait RunOperations {
    /// Runs operations as part of this transaction, in the order given. An operation that fails
    /// changes nothing, and the error names it. The changes of the operations before it are kept,
    /// unless [`attempt`](Draft::attempt) undoes them.
    ///
    /// So a custom operation is a function that runs others:
    ///
    /// ```
    /// use doclock::{DataStore, Draft, Editor, View, dsl::*, transaction::TransactionError};
    ///
    /// /// A heading and a paragraph below it.
    /// fn section(title: &'static str) -> impl Fn(&mut Draft) -> Result<(), TransactionError> {
    ///     move |draft| draft.run([
    ///         create(element("section", [])).named("section"),
    ///         add_child(text_node("heading", title), None).on(alias("section")),
    ///         add_child(text_node("paragraph", ""), None).on(alias("section")),
    ///     ])
    /// }
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// transaction(&editor, [op(section("Introduction"))]).commit()?;
    /// assert_eq!(editor.store().snapshot().len(), 3);
    /// # Ok::<(), TransactionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`TransactionError::Operation`], with the index in this batch.
    fn run(&mut self, operations: impl IntoOperations) -> Result<(), TransactionError>;
}

impl RunOperations for Draft {
    fn run(&mut self, operations: impl IntoOperations) -> Result<(), TransactionError> {
        let operations = operations.into_operations();
        if let Some(limits) = self.limits() {
            limits::check(limits, &operations)?;
        }
        if operations.len() > 1 {
            make_room(self, operations.len());
        }
        let mut index = 0;
        operations.into_iter().try_for_each(|operation| {
            self.all_or_nothing(|draft| {
                let index = &mut index;
                OperationRunner { draft, index }.run(operation)
            })
        })
    }
}

/// Runs an operation batch whose transaction is dropped on failure, so no single operation is
/// undone. Drains the batch; its memory stays with the caller.
pub(super) fn run_batch(
    draft: &mut Draft,
    operations: &mut OperationBatch,
) -> Result<(), TransactionError> {
    if operations.len() > 1 {
        make_room(draft, operations.len());
    }
    let mut runner = OperationRunner {
        draft,
        index: &mut 0,
    };
    let mut operations = operations.drain(..);
    operations.try_for_each(|operation| runner.run(operation))
}

/// Makes room for several operations. The first one of a draft makes room for itself.
fn make_room(draft: &mut Draft, operations: usize) {
    if !draft.has_room_for_operations() {
        draft.record_in(SharedList::with_room(operations));
    }
}

/// An operation batch in execution. A single operation is stored inline.
pub(super) type OperationBatch = SmallVec<[Operation; 1]>;

struct OperationRunner<'a> {
    draft: &'a mut Draft,
    /// How many operations have run; each in a `control` counts.
    index: &'a mut usize,
}

impl OperationRunner<'_> {
    fn run(&mut self, operation: Operation) -> Result<(), TransactionError> {
        let name = operation.name();
        match operation {
            Operation::On {
                node_id: node,
                operation: NodeOperation::Named { alias, operation },
                unit,
            } => self.name_first(name, alias, |runner| {
                runner.run(Operation::On {
                    node_id: node,
                    operation: *operation,
                    unit,
                })
            }),
            Operation::On {
                node_id: node,
                operation,
                unit,
            } => {
                let id = match node {
                    NodeRef::Id(id) => id,
                    alias => match resolve(self.draft, &alias) {
                        Ok(id) => id,
                        Err(cause) => return Err(self.failed(name, None, cause)),
                    },
                };
                self.step(name, id, operation, unit, Some)
            }
            Operation::Control {
                node_id,
                operations,
                unit,
            } => operations.into_iter().try_for_each(|operation| {
                self.run(Operation::On {
                    node_id: node_id.clone(),
                    operation,
                    unit,
                })
            }),
            Operation::OnDocument { operation, unit } => {
                self.step(name, DocumentTarget, operation, unit, |_| None)
            }
            Operation::Named { alias, operation } => {
                self.name_first(name, alias, |runner| runner.run(*operation))
            }
            Operation::Call(code) => self.step(name, DocumentTarget, code, None, |_| None),
        }
    }

    /// Names the first node that is created.
    fn name_first(
        &mut self,
        name: &'static str,
        alias: SmolStr,
        run: impl FnOnce(&mut Self) -> Result<(), TransactionError>,
    ) -> Result<(), TransactionError> {
        let begin = *self.index;
        let before = self.draft.executed().len();
        run(self)?;
        let executed = self.draft.executed().get(before..).unwrap_or_default();
        let first = executed.iter().flat_map(|done| &done.created).next();
        let named = match first.cloned() {
            Some(id) => self.draft.name_node(alias, id),
            None => Err(AliasError::NothingCreated { alias }),
        };
        if named.is_err() {
            // It concerns the operation that has just run.
            *self.index = begin.max(self.index.saturating_sub(1));
        }
        named.map_err(|error| self.failed(name, None, error.into()))
    }

    /// Runs an operation on its target. `node_id` makes the node in its result or error of it.
    fn step<Target>(
        &mut self,
        name: &'static str,
        target: Target,
        operation: impl OperationOn<Target> + Clone,
        unit: Option<TextUnit>,
        node_id: impl FnOnce(Target) -> Option<NodeId>,
    ) -> Result<(), TransactionError> {
        if self.draft.limits().is_some()
            && let Err(cause) = self.count_one(|on| operation.steps(on, &target))
        {
            return Err(self.failed(name, node_id(target), cause.into()));
        }
        let before = self.draft.changes().len();
        let outcome = if self.draft.is_on_nodes() && !operation.is_code() {
            let run = |on: &mut Draft| run_in_unit(on, &target, operation.clone(), unit);
            self.draft.run_on_nodes(&run)
        } else if unit.is_some() {
            run_in_unit(self.draft, &target, operation, unit)
        } else {
            operation.run(self.draft, &target)
        };
        if let Err(cause) = outcome {
            return Err(self.failed(name, node_id(target), cause));
        }
        // The operation is recorded with what it created. Most create nothing.
        let changes = self.draft.changes().get(before..).unwrap_or_default();
        let created = match changes.iter().any(Change::creates) {
            true => created(self.draft, changes),
            false => Vec::new(),
        };
        self.draft.record(ExecutedOperation {
            name: SmolStr::new_static(name),
            node_id: node_id(target),
            created,
        });
        *self.index += 1;
        Ok(())
    }

    /// Counts an operation, and what it reads, against the limits.
    fn count_one(&self, steps: impl FnOnce(&Overlay) -> usize) -> Result<(), EditError> {
        self.draft.spend(Limit::Operations, |_| 1)?;
        self.draft.spend(Limit::Steps, steps)
    }

    fn failed(
        &self,
        name: &'static str,
        node_id: Option<NodeId>,
        cause: OperationError,
    ) -> TransactionError {
        TransactionError::Operation {
            index: *self.index,
            name,
            node_id,
            cause,
        }
    }
}

/// Runs an operation whose positions count a unit.
fn run_in_unit<Target>(
    draft: &mut Draft,
    target: &Target,
    mut operation: impl OperationOn<Target>,
    unit: Option<TextUnit>,
) -> Result<(), OperationError> {
    if let Some(TextUnit::Utf16) = unit {
        operation.to_scalars(draft, target)?;
    }
    operation.run(draft, target)
}

/// The node that the reference names.
pub(super) fn resolve(draft: &Draft, node: &NodeRef) -> Result<NodeId, OperationError> {
    Ok(match node {
        NodeRef::Id(id) => id.clone(),
        NodeRef::Alias(named) => draft.named(&named.alias)?.clone(),
    })
}

/// Runs code. A panic becomes an error: any state that it leaves is in the transaction, which is
/// rolled back.
pub(super) fn call(code: &Callback, draft: &mut Draft) -> Result<(), OperationError> {
    match catch(|| code.call(draft)) {
        Ok(result) => Ok(result?),
        Err(panic) => Err(OperationError::Panicked(PanicPayload::new(panic))),
    }
}

/// The inserted nodes in document order, then the right halves of splits, the outermost first:
/// splits proceed from the inside outwards. Temporary nodes may no longer exist at the end.
fn created(draft: &Draft, changes: &[Change]) -> Vec<NodeId> {
    let inserted = changes.iter().flat_map(|change| match change {
        Change::InsertSubtree { nodes, .. } => nodes.as_slice(),
        _ => &[],
    });
    let halves = changes.iter().rev().filter_map(|change| match change {
        Change::SplitNode { right, .. } => Some(&right.id),
        _ => None,
    });
    let inserted = inserted.map(|node| Node::id(node));
    let created = inserted.chain(halves);
    created.filter(|id| draft.contains(id)).cloned().collect()
}
