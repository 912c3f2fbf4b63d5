//! How a transaction ended.

use crate::store::TransactionResult;

/// How a transaction ended, in the words of spans and metrics.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::EnumCount, strum::VariantArray, strum::IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Outcome {
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

impl Outcome {
    pub(super) fn name(self) -> &'static str {
        self.into()
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

/// An outcome with its details.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "tracing"),
    expect(dead_code, reason = "metrics have no details")
)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// The code of the error, if there was one.
    pub(super) code: Option<&'static str>,
    pub(super) version: Option<u64>,
    /// How many operations of a batch were executed.
    pub(super) operations: Option<usize>,
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            code: None,
            version: None,
            operations: None,
        }
    }
}

impl From<Result<&TransactionResult, &'static str>> for Ended {
    #[inline]
    fn from(result: Result<&TransactionResult, &'static str>) -> Self {
        match result {
            Ok(result) => Self {
                version: Some(result.version),
                operations: Some(result.operations.len()),
                ..Outcome::of_result(result).into()
            },
            Err(code) => Self {
                code: Some(code),
                ..Outcome::of_code(code).into()
            },
        }
    }
}
