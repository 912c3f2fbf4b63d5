//! Reports each transaction to `tracing` and `metrics`, from its request to its end.
//!
//! An [`ObservedTransaction`] begins with the request. It notes the grant and the end under the
//! lock, which calls no code of users. Its drop reports, so it is dropped when the lock is free:
//! with the frame of the call, or with the transaction. Without both features it is empty and does
//! nothing.

use std::fmt;

use super::{CommitError, DataStore, Transaction};
use crate::codes::CodedError;
use crate::lock::{LockError, Requester};

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(any(feature = "tracing", feature = "metrics")))]
mod off;
#[cfg(any(feature = "tracing", feature = "metrics"))]
mod on;
#[cfg(any(feature = "tracing", feature = "metrics"))]
mod outcome;
#[cfg(any(feature = "tracing", feature = "metrics"))]
mod reports;
#[cfg(feature = "tracing")]
mod span;

#[cfg(not(any(feature = "tracing", feature = "metrics")))]
pub(crate) use off::ObservedTransaction;
#[cfg(not(any(feature = "tracing", feature = "metrics")))]
pub(super) use off::{Observer, report_observer};
#[cfg(any(feature = "tracing", feature = "metrics"))]
pub(crate) use on::ObservedTransaction;
#[cfg(any(feature = "tracing", feature = "metrics"))]
pub(super) use on::Observer;
#[cfg(any(feature = "tracing", feature = "metrics"))]
pub(super) use reports::report_observer;

/// How a transaction was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionKind {
    Batch,
    ByHand,
    Undo,
    Redo,
    OnNodes,
}

impl TransactionKind {
    #[cfg(feature = "tracing")]
    fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::ByHand => "by_hand",
            Self::Undo => "undo",
            Self::Redo => "redo",
            Self::OnNodes => "on_nodes",
        }
    }
}

impl DataStore {
    /// Begins to observe a transaction whose request is about to be made.
    #[inline]
    pub(crate) fn observe(
        &self,
        kind: TransactionKind,
        requester: &Requester<'_>,
    ) -> ObservedTransaction {
        self.0.observer.observe(self.name(), kind, requester)
    }
}

impl ObservedTransaction {
    /// Notes that the request was granted, or ended without a grant.
    #[inline(always)]
    pub(crate) fn grant<T>(&mut self, granted: Result<T, LockError>) -> Result<T, LockError> {
        let granted = self.or_refused(granted)?;
        self.granted();
        Ok(granted)
    }

    /// Notes the end of a request that is refused.
    #[inline(always)]
    pub(crate) fn or_refused<T>(&mut self, asked: Result<T, LockError>) -> Result<T, LockError> {
        asked.inspect_err(|error| self.ended(Err(error.code())))
    }

    /// Notes the same, and leaves the rest to the transaction.
    pub(super) fn begin(
        mut self,
        begun: Result<Transaction, LockError>,
    ) -> Result<Transaction, LockError> {
        let mut transaction = self.grant(begun)?;
        transaction.observe_as(self);
        Ok(transaction)
    }

    /// Corrects the outcome of a commit that may not be durable.
    #[inline(always)]
    pub(crate) fn acknowledge(
        &mut self,
        acknowledged: Result<(), CommitError>,
    ) -> Result<(), CommitError> {
        acknowledged.inspect_err(|error| self.ended(Err(error.code())))
    }
}

impl fmt::Debug for ObservedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedTransaction")
            .finish_non_exhaustive()
    }
}
