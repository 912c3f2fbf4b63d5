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
//! use doclock_locks::{AcquireOptions, FifoLock, LockError};
//!
//! let printer = FifoLock::new();
//! let guard = printer.lock("report")?;
//!
//! let other = printer.clone();
//! let waiter = std::thread::spawn(move || {
//!     let patience = AcquireOptions::new().timeout(Duration::from_millis(10));
//!     other.request("letter").options(patience).wait().map(drop)
//! });
//! let error = waiter.join().unwrap().unwrap_err();
//! assert!(matches!(error, LockError::Timeout(_)));
//! assert!(error.to_string().contains("report"), "{error}");
//! drop(guard);
//! # Ok::<(), LockError>(())
//! ```
//!
//! The pure module `queue` has the rules. The locks add threads, clocks, cancellation and errors.

mod cancel;
mod diagnostics;
mod error;
mod fifo;
mod holder_word;
mod info;
pub mod keyed;
pub mod limiter;
pub mod node;
mod options;
mod pending;
mod queue;
mod report;
mod sampling;
mod shared;
mod state;
mod stats;
mod steps;
mod timeline;

// What only `internal` shows.
#[allow(missing_docs, missing_debug_implementations)]
mod batch;
#[allow(missing_docs, missing_debug_implementations)]
mod keeper;
#[allow(missing_docs, missing_debug_implementations)]
#[allow(clippy::new_without_default)]
mod mailbox;
#[allow(missing_docs, missing_debug_implementations)]
mod request;
#[allow(missing_docs, missing_debug_implementations)]
mod wait;

use doclock_common::{
    Samples, brief, caught, hashing, id, key_table, last, millis, nanos, packed, show, shrink,
    sync, threads, wake_chain,
};

pub use crate::queue::{LockMode, Priority};
pub use cancel::CancelToken;
pub use diagnostics::{
    HeldLock, LockReport, PrimitiveState, Registrable, RequestKind, WaiterKind, WaitingRequest,
};
#[doc(inline)]
pub use doclock_common::codes;
#[doc(inline)]
pub use doclock_common::id::{FencingToken, LockId, NodeId, OwnerId, ParseIdError};
#[doc(inline)]
pub use doclock_common::time;
#[doc(inline)]
pub use doclock_common::{CallSite, DurationSummary, ThreadInfo};
pub use error::{CancelEvidence, JoinError, LockError, ReleaseError, TimeoutEvidence};
pub use fifo::{FifoLock, LockGuard, ReleaseOutcome};
pub use info::{LockInfo, QueueEntry};
use node::{Deadlock, NodeWait};
pub use options::{AcquireOptions, LockOptions};
pub use pending::PendingRequest;
#[doc(hidden)]
pub use pending::{LockRequest, NodesInstead, RequestContext};
pub use report::{SlowReport, SlowRequest};
pub use stats::{LockCounters, LockStats, RequestStats, Revocation};
pub use timeline::{Timeline, TimelineEntry, TimelineOutcome};

pub(crate) use request::Requester;
pub(crate) use wait::blocking;

/// What the document store needs beside the interface. It can change in any version.
#[doc(hidden)]
pub mod internal {
    pub use crate::Grant;
    pub use crate::batch::BatchLimit;
    pub use crate::diagnostics::Primitive;
    pub use crate::fifo::Answer;
    pub use crate::info::RevokedFor;
    pub use crate::keeper::{Keeper, KeeperSlot, Kept, LeftWork};
    pub use crate::mailbox::{Mailbox, Rest};
    pub use crate::node::Refused;
    pub use crate::node::scope::{Granule, Tree};
    pub use crate::queue::Rights;
    pub use crate::report::ReportObserver;
    pub use crate::request::{QueuedWork, Requester};
    pub use crate::shared::WeakLock;
    pub use crate::threads::LockName;
    pub use crate::wait::{Look, Reason, Wait, WaitDeadline, WaitQueue, blocking};
    pub use crate::wake_chain::{Sleeper, WakeChain};
}

/// A held lock as data: its id and its fencing token.
///
/// All that a thread needs which publishes under a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Grant {
    pub token: FencingToken,
    // The parts of the id, apart for the flag: every waiting request has room for a grant.
    number: u64,
    lock: u32,
    /// Whether the grant can be revoked before its release.
    pub limited: bool,
}

impl Default for Grant {
    /// Returns a placeholder that no lock has granted.
    fn default() -> Self {
        Self::new(LockId { number: 0, lock: 0 }, FencingToken(0), false)
    }
}

impl Grant {
    #[inline(always)]
    fn new(id: LockId, token: FencingToken, limited: bool) -> Self {
        Self {
            token,
            number: id.number,
            lock: id.lock,
            limited,
        }
    }

    /// Returns the id of the granted request.
    #[inline(always)]
    pub fn id(&self) -> LockId {
        LockId::new(self.number, self.lock)
    }
}

/// The README, whose example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
