//! Locks that a thread waits for, in the order in which the threads asked.
//!
//! [`FifoLock`] is the global lock of a store. The rules of the line live in the pure `queue` room; this room
//! adds what the outside world brings in: threads that sleep, clocks, cancellation, figures and errors.

mod batch;
mod cancel;
mod discard;
mod dump;
mod error;
mod evidence;
mod fifo;
mod guard;
mod info;
mod keyed;
mod limiter;
mod node;
mod options;
mod pace;
mod parker;
mod receive;
mod relay;
mod request;
mod samples;
mod shared;
mod since;
mod state;
mod stats;
mod tempo;
mod wait;
mod word;

pub use cancel::CancelToken;
pub use dump::LockDump;
pub use error::{CancelEvidence, JoinError, LockError, ReleaseError, TimeoutEvidence};
pub use fifo::{FifoLock, ReleaseOutcome};
pub use guard::LockGuard;
pub use info::{CallSite, LockInfo, QueueEntry};
pub use keyed::{Execution, ExecutionError, KeyedLock, KeyedOptions, KeyedStats, TaskPanic, Turn};
pub use limiter::{
    Aimd, Call, CallEvidence, InFlightLimiter, KeySnapshot, LimiterError, LimiterFigures,
    LimiterKey, LimiterOptions, LimiterSnapshot, Load, Permit, Signal,
};
pub use node::{Deadlock, DeadlockLink, NodeHolder, NodeLockStats, NodeWait, NodeWaiter, Scope};
pub(crate) use node::{Granule, Tree};
pub use options::AcquireOptions;
pub use stats::{DurationSummary, LockStats};

pub(crate) use batch::BatchLimit;
pub(crate) use fifo::Answer;
pub(crate) use info::millis;
pub(crate) use receive::{Received, receive};
pub(crate) use request::{Asker, Errand};
pub(crate) use samples::Samples;
pub(crate) use shared::LockSettings;

use crate::id::{FencingToken, LockId};

/// A held lock as data: its id, and the token that rises with every grant.
///
/// Whoever publishes under a lock needs no more than this, wherever the lock's truth lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) token: FencingToken,
    // The parts of the id apart, so that the flag lies in the gap: every request that waits has room for a grant.
    number: u64,
    lock: u32,
    /// Whether it can be taken back before it is released.
    pub(crate) limited: bool,
}

impl Grant {
    /// One that no lock has given.
    pub(crate) fn none() -> Self {
        Self::new(LockId { number: 0, lock: 0 }, FencingToken(0), false)
    }

    #[inline(always)]
    fn new(id: LockId, token: FencingToken, limited: bool) -> Self {
        let LockId { number, lock } = id;
        Self {
            token,
            number,
            lock,
            limited,
        }
    }

    /// The id of the request that was granted.
    #[inline(always)]
    pub(crate) fn id(&self) -> LockId {
        LockId {
            number: self.number,
            lock: self.lock,
        }
    }
}
