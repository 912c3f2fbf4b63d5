//! Transactions that are made to fail after some successful operations, so there are changes to
//! roll back.

use std::panic::{PanicHookInfo, set_hook, take_hook};

use doclock::dsl::{
    add_child, create, delete_node, delete_text_range, element, insert_text, move_node, op,
    remove_child, set_text, text_node,
};
use doclock::{
    Draft, NodeId, Snapshot, View,
    document::EditError,
    transaction::{Operation, OperationError, TransactionError},
};

use crate::random::Random;
use crate::walk::TEXT;

const REASON: &str = "this transaction was made to fail";

/// Why the last operation fails.
#[derive(Clone, Copy, Debug)]
enum Impossible {
    TextRange,
    ChildIndex,
    MissingNode,
    DeletedNode,
    Cycle,
    NotAChild,
    IdTaken,
    RootDeleted,
    Failing,
    Panicking,
}

/// How a transaction is made to fail.
///
/// The failure depends only on a node that the transaction itself creates, or on the root. So other
/// editors cannot affect it.
#[derive(Debug)]
pub struct Doom {
    why: Impossible,
    /// The index of the failing operation.
    index: usize,
    /// A node that the transaction creates, and that must never become visible.
    pub scratch: NodeId,
}

impl Doom {
    /// Appends a failing operation to these operations.
    pub fn after(
        operations: Vec<Operation>,
        scratch: String,
        document: &Snapshot,
        random: &mut Random,
    ) -> (Vec<Operation>, Self) {
        use Impossible::*;
        let why = random.pick([
            TextRange,
            ChildIndex,
            MissingNode,
            DeletedNode,
            Cycle,
            NotAChild,
            IdTaken,
            RootDeleted,
            Failing,
            Panicking,
        ]);
        let text = NodeId::from(format!("{scratch}-text"));
        let missing = NodeId::from(format!("{scratch}-missing"));
        let scratch = NodeId::from(scratch);
        let root = document.root().unwrap_or(&missing);

        let note = text_node(TEXT, "Not to be seen").with_id(&text);
        let mut operations = operations;
        operations.push(create(element("paragraph", [note]).with_id(&scratch)));
        operations.extend(match why {
            TextRange => vec![delete_text_range(4, 4000).on(&text)],
            ChildIndex => vec![add_child(element("paragraph", []), 2).on(&scratch)],
            MissingNode => vec![set_text("nothing").on(&missing)],
            DeletedNode => vec![delete_node().on(&text), insert_text(0, "late").on(&text)],
            Cycle => vec![move_node(&text, 0).on(&scratch)],
            NotAChild => vec![remove_child(&scratch).on(&text)],
            IdTaken => vec![create(element("paragraph", []).with_id(&text))],
            RootDeleted => vec![delete_node().on(root)],
            Failing => vec![op(|_: &mut Draft| Err(REASON))],
            Panicking => vec![op(|_: &mut Draft| -> Result<(), EditError> {
                panic!("{REASON}")
            })],
        });
        let index = operations.iter().map(steps).sum::<usize>() - 1;
        let doom = Self {
            why,
            index,
            scratch,
        };
        (operations, doom)
    }

    /// Whether this is the expected error.
    pub fn is_met_by(&self, error: &TransactionError) -> bool {
        let TransactionError::Operation { index, cause, .. } = error else {
            return false;
        };
        *index == self.index && self.expects(cause)
    }

    fn expects(&self, cause: &OperationError) -> bool {
        use Impossible::*;
        match cause {
            OperationError::Failed(error) => {
                matches!(self.why, Failing) && error.to_string() == REASON
            }
            OperationError::Panicked(payload) => {
                matches!(self.why, Panicking) && payload.message().as_deref() == Some(REASON)
            }
            OperationError::Edit(error) => matches!(
                (self.why, error),
                (TextRange, EditError::TextOutOfRange { end: 4000, .. })
                    | (ChildIndex, EditError::IndexOutOfRange { index: 2, .. })
                    | (MissingNode, EditError::NodeNotFound { .. })
                    | (DeletedNode, EditError::NodeDeleted { .. })
                    | (Cycle, EditError::Cycle { .. })
                    | (NotAChild, EditError::NotAChild { .. })
                    | (IdTaken, EditError::IdTaken { .. })
                    | (RootDeleted, EditError::RootDeleted { .. })
            ),
            _ => false,
        }
    }

    /// Whether the transaction failed before the failing operation.
    pub fn is_ahead_of(&self, error: &TransactionError) -> bool {
        matches!(error, TransactionError::Operation { index, .. } if *index < self.index)
    }
}

/// The number of indexes that an operation takes in errors.
fn steps(operation: &Operation) -> usize {
    match operation {
        Operation::Control { operations, .. } => operations.len(),
        _ => 1,
    }
}

/// Suppresses the reports of planned panics.
pub fn silence_planned_panics() {
    let report = take_hook();
    set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        let message = panic.payload().downcast_ref::<String>();
        if message.is_none_or(|message| message != REASON) {
            report(panic);
        }
    }));
}
