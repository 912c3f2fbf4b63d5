//! The errors of locks, which have their codes in the package of the locks.

use super::{CodedError, Retry};
use crate::id::ParseIdError;
use crate::lock::keyed::{ExecutionError, TaskPanic};
use crate::lock::limiter::LimiterError;
use crate::lock::node::Deadlock;
use crate::lock::{CancelEvidence, JoinError, LockError, ReleaseError, TimeoutEvidence};

macro_rules! coded {
    ($($error:ty),* $(,)?) => {$(
        impl CodedError for $error {
            fn code(&self) -> &'static str {
                Self::code(self)
            }

            fn retry(&self) -> Retry {
                Self::retry(self)
            }

            fn http_status(&self) -> u16 {
                Self::http_status(self)
            }
        }
    )*};
}

coded! {
    CancelEvidence,
    Deadlock,
    ExecutionError,
    JoinError,
    LimiterError,
    LockError,
    ParseIdError,
    ReleaseError,
    TaskPanic,
    TimeoutEvidence,
}
