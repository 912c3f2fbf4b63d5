//! How a transaction ended.

use crate::store::TransactionResult;

/// How a transaction ended, in the words of spans and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionOutcome {
    Committed,
    NothingChanged,
    Repeated,
    RolledBack,
    Failed,
    Panicked,
    Revoked,
    TimedOut,
    Cancelled,
}

impl TransactionOutcome {
    #[cfg(feature = "metrics")]
    pub(super) const ALL: [Self; 9] = [
        Self::Committed,
        Self::NothingChanged,
        Self::Repeated,
        Self::RolledBack,
        Self::Failed,
        Self::Panicked,
        Self::Revoked,
        Self::TimedOut,
        Self::Cancelled,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::NothingChanged => "nothing_changed",
            Self::Repeated => "repeated",
            Self::RolledBack => "rolled_back",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
            Self::Revoked => "revoked",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
        }
    }

    fn of_result(result: &TransactionResult) -> Self {
        match result {
            TransactionResult { repeated: true, .. } => Self::Repeated,
            TransactionResult { changed: true, .. } => Self::Committed,
            _ => Self::NothingChanged,
        }
    }

    fn of_code(code: &'static str) -> Self {
        match code {
            "lockTimeout" => Self::TimedOut,
            "lockCancelled" => Self::Cancelled,
            "commitRevoked" | "lockRevoked" => Self::Revoked,
            "codePanicked" | "beforeHookPanicked" => Self::Panicked,
            _ => Self::Failed,
        }
    }
}

/// An outcome with the details that a span has.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutcomeDetails {
    pub(super) outcome: TransactionOutcome,
    /// The code of the error, if there was one.
    #[cfg(feature = "tracing")]
    pub(super) code: Option<&'static str>,
    #[cfg(feature = "tracing")]
    pub(super) version: Option<u64>,
    /// How many operations of a batch were executed.
    #[cfg(feature = "tracing")]
    pub(super) operations: Option<usize>,
}

impl From<TransactionOutcome> for OutcomeDetails {
    fn from(outcome: TransactionOutcome) -> Self {
        Self {
            outcome,
            #[cfg(feature = "tracing")]
            code: None,
            #[cfg(feature = "tracing")]
            version: None,
            #[cfg(feature = "tracing")]
            operations: None,
        }
    }
}

impl From<Result<&TransactionResult, &'static str>> for OutcomeDetails {
    #[inline]
    fn from(result: Result<&TransactionResult, &'static str>) -> Self {
        match result {
            Ok(result) => Self {
                #[cfg(feature = "tracing")]
                version: Some(result.version),
                #[cfg(feature = "tracing")]
                operations: Some(result.operations.len()),
                ..TransactionOutcome::of_result(result).into()
            },
            Err(code) => Self {
                #[cfg(feature = "tracing")]
                code: Some(code),
                ..TransactionOutcome::of_code(code).into()
            },
        }
    }
}
