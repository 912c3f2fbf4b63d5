//! The errors of all layers, by which an error of any type is recognized.
//!
//! The only place that knows all layers: an operation, a hook or a handler returns an error of any
//! type, and whether it may be repeated is decided by the error inside.

use std::error::Error;
use std::{io, iter};

use super::{Coded, CodedError, Retry};
use crate::document::schema::{AttributeFault, ExpressionError, SchemaError, SchemaViolation};
use crate::document::{
    EditError, IntegrityError, JsonError, LimitExceeded, OffsetError, UndoConflict,
};
use crate::durable::{
    DurabilityError, JournalError, OpenError, ReplicaError, TakeoverError, VersionError,
};
use crate::events::MissingCommits;
use crate::history::UndoError;
use crate::id::ParseIdError;
use crate::inbox::{InboxInUse, Interruption};
use crate::lease::{LeaseError, LeaseLost};
use crate::lock::keyed::{ExecutionError, TaskPanic};
use crate::lock::limiter::LimiterError;
use crate::lock::node::Deadlock;
use crate::lock::{CancelEvidence, JoinError, LockError, ReleaseError, TimeoutEvidence};
use crate::pool::PoolError;
use crate::store::{AliasError, CommitError, SavepointError};
use crate::transaction::{
    HookFailure, IdempotencyMismatch, OperationError, PatternError, Refusal, ScriptError,
    TransactionError,
};

/// Lists the errors of this crate, first those of the locks and of documents: their codes are in
/// their packages, which do not know the trait.
macro_rules! errors {
    ([$($lower:ty),* $(,)?] $($error:ty),* $(,)?) => {
        $(impl CodedError for $lower {
            fn code(&self) -> &'static str {
                Self::code(self)
            }

            fn retry(&self) -> Retry {
                Self::retry(self)
            }

            fn http_status(&self) -> u16 {
                Self::http_status(self)
            }
        })*

        errors!($($lower,)* $($error),*);
    };
    ($($error:ty),*) => {
        /// The error as one of this crate, if it is one.
        fn as_coded<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn CodedError> {
            $(
                if let Some(error) = error.downcast_ref::<$error>() {
                    return Some(error);
                }
            )*
            None
        }

        /// Returns the code that is written so, if an error of this crate has it.
        ///
        /// For an error that another process has sent as JSON: [`code`](CodedError::code) returns
        /// a name that lives as long as the program.
        ///
        /// ```
        /// assert_eq!(doclock::codes::known("lockTimeout"), Some("lockTimeout"));
        /// assert_eq!(doclock::codes::known("anything"), None);
        /// ```
        pub fn known(code: &str) -> Option<&'static str> {
            $(
                if let Some(known) = code_of::<$error>(code) {
                    return Some(known);
                }
            )*
            None
        }
    };
}

errors! {
    [
        AttributeFault,
        CancelEvidence,
        Deadlock,
        EditError,
        ExecutionError,
        ExpressionError,
        IntegrityError,
        JoinError,
        JsonError,
        LimitExceeded,
        LimiterError,
        LockError,
        OffsetError,
        ParseIdError,
        PatternError,
        ReleaseError,
        SchemaError,
        SchemaViolation,
        TaskPanic,
        TimeoutEvidence,
        UndoConflict,
    ]
    AliasError,
    CommitError,
    DurabilityError,
    HookFailure,
    IdempotencyMismatch,
    InboxInUse,
    Interruption,
    JournalError,
    LeaseError,
    LeaseLost,
    MissingCommits,
    OpenError,
    OperationError,
    PoolError,
    Refusal,
    ReplicaError,
    SavepointError,
    ScriptError,
    TakeoverError,
    TransactionError,
    UndoError,
    VersionError,
}

fn code_of<E: Coded>(code: &str) -> Option<&'static str> {
    let codes = E::KINDS.iter().flatten().map(|kind| kind.code);
    codes.into_iter().find(|known| *known == code)
}

/// The errors of this crate among the error and the chain of its sources.
pub(super) fn coded<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a dyn CodedError> {
    /// An error may name itself as its source.
    const LONGEST_CHAIN: usize = 64;
    iter::successors(Some(error), |&error| inner(error))
        .take(LONGEST_CHAIN)
        .filter_map(as_coded)
}

/// The verdict on an error of any type: the best one of all errors of this crate in it.
pub(crate) fn retry_of(error: &(dyn Error + 'static)) -> Retry {
    let verdicts = coded(error).map(CodedError::retry);
    verdicts.max().unwrap_or_default()
}

/// The error inside another. [`io::Error`] returns as its source the source of the error that it
/// wraps, not that error.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
