//! FIFO locks for threads: ids or guards, timeouts, cancellation, priorities, statistics.
//!
//! **Use it** for the options ([`AcquireOptions`]), errors ([`LockError`]) and statistics
//! ([`LockStats`]) of a store's lock, and for locks without a store: [`FifoLock`], one lock for
//! each key ([`keyed`]), a bound on calls in flight ([`limiter`]). **Do not use it** to protect
//! data that is locked for nanoseconds, with no need for an order: an unfair mutex is faster there.
//!
//! ```
//! use std::time::Duration;
//!
//! use doclock::lock::{AcquireOptions, FifoLock, LockError};
//!
//! let printer = FifoLock::new();
//! let guard = printer.lock("report")?;
//!
//! let other = printer.clone();
//! let waiter = std::thread::spawn(move || {
//!     let patience = AcquireOptions::new().timeout(Duration::from_millis(10));
//!     other.lock_with("letter", patience).map(drop)
//! });
//! let error = waiter.join().unwrap().unwrap_err();
//! assert!(matches!(error, LockError::Timeout(_)));
//! assert!(error.to_string().contains("report"), "{error}");
//! drop(guard);
//! # Ok::<(), LockError>(())
//! ```
//!
//! In the crate, the rules of the queue are in the pure module `queue`. This module adds threads
//! that sleep, clocks, cancellation, metrics and errors.

mod batch;
mod brief_holds;
mod cancel;
mod diagnostics;
mod discard;
mod dump;
mod error;
mod evidence;
mod fifo;
mod guard;
mod info;
mod inspect;
mod keeper;
pub mod keyed;
pub mod limiter;
pub mod node;
mod options;
mod pace;
mod parker;
mod receive;
mod recording;
mod report;
mod request;
mod revocation;
mod samples;
mod sampling;
mod shared;
mod since;
mod state;
mod stats;
mod timeline;
mod wait;
mod wake_chain;
mod word;

pub use crate::queue::{LockMode, Priority};
pub use cancel::CancelToken;
pub use diagnostics::{
    HeldLock, LockCounters, LockDiagnostics, RequestKind, WaiterKind, WaitingRequest,
};
pub use dump::LockDump;
pub use error::{CancelEvidence, JoinError, LockError, ReleaseError, TimeoutEvidence};
pub use fifo::{FifoLock, ReleaseOutcome};
pub use guard::LockGuard;
pub use info::{CallSite, LockInfo, QueueEntry};
pub(crate) use inspect::Primitive;
pub use inspect::{PrimitiveState, Registrable};
use node::{Deadlock, NodeWait};
pub(crate) use node::{Granule, Scope, Tree};
pub use options::{AcquireOptions, LockOptions};
pub use report::{LockReport, SlowRequest};
pub use revocation::Revocation;
pub use stats::{DurationSummary, LockStats};
pub use timeline::{Timeline, TimelineEntry, TimelineOutcome};

pub(crate) use batch::BatchLimit;
pub(crate) use fifo::Answer;
pub(crate) use keeper::{Keeper, Kept};
pub(crate) use parker::{Mailbox, Rest, TaskWaiter, Waiter};
pub(crate) use receive::{Received, receive};
pub(crate) use request::{Asker, QueuedWork};
pub(crate) use samples::Samples;
pub(crate) use wait::{WaitsAs, blocking};
pub(crate) use wake_chain::WakeChain;

use crate::id::{FencingToken, LockId};

/// A held lock as data: its id and its fencing token.
///
/// A thread that publishes under a lock needs no more than this, wherever the state of the lock
/// lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) token: FencingToken,
    // The two parts of the id, so that the flag fits into the padding: every waiting request has
    // room for a grant.
    number: u64,
    lock: u32,
    /// Whether the grant can be revoked before its release.
    pub(crate) limited: bool,
}

impl Grant {
    /// Returns a placeholder that no lock has granted.
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

    /// Returns the id of the granted request.
    #[inline(always)]
    pub(crate) fn id(&self) -> LockId {
        LockId {
            number: self.number,
            lock: self.lock,
        }
    }
}
