//! Locks that a thread waits for, in the order in which the threads asked.
//!
//! [`FifoLock`] is the global lock of a store. The rules of the line live in the pure `queue` room; this room
//! adds what the outside world brings in: threads that sleep, clocks, cancellation, figures and errors.

mod cancel;
mod error;
mod fifo;
mod guard;
mod info;
mod options;
mod parker;
mod state;
mod stats;

pub use cancel::CancelToken;
pub use error::{CancelEvidence, JoinError, LockError, ReleaseError, TimeoutEvidence};
pub use fifo::{FifoLock, Released};
pub use guard::LockGuard;
pub use info::{LockInfo, QueueEntry};
pub use options::AcquireOptions;
pub use stats::{DurationSummary, LockStats};

pub(crate) use fifo::LockSettings;

use crate::id::{FencingToken, LockId};

/// A held lock as data: its id, and the token that rises with every grant.
///
/// Whoever publishes under a lock needs no more than this, wherever the lock's truth lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) id: LockId,
    pub(crate) token: FencingToken,
}
