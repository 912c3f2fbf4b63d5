//! FIFO locks: the package `doclock-locks`, with the options ([`AcquireOptions`]), errors
//! ([`LockError`]) and statistics ([`LockStats`]) of a store's lock.

#[doc(inline)]
pub use doclock_locks::{
    AcquireOptions, CallSite, CancelEvidence, CancelToken, DurationSummary, FifoLock, HeldLock,
    JoinError, LockCounters, LockError, LockGuard, LockInfo, LockMode, LockOptions, LockReport,
    LockStats, PendingRequest, PrimitiveState, Priority, QueueEntry, Registrable, ReleaseError,
    ReleaseOutcome, RequestKind, RequestStats, Revocation, SlowReport, SlowRequest, ThreadInfo,
    Timeline, TimelineEntry, TimelineOutcome, TimeoutEvidence, WaiterKind, WaitingRequest, keyed,
    limiter, node,
};

pub(crate) use doclock_common::Samples;
pub(crate) use doclock_locks::internal::{
    Answer, BatchLimit, Grant, Granule, KeeperSlot, LeftWork, LockName, Look, Mailbox, Primitive,
    QueuedWork, Reason, Refused, ReportObserver, Requester, Rest, RevokedFor, Rights, Tree, Wait,
    WaitDeadline, WaitQueue, WakeChain, WeakLock, blocking,
};
pub(crate) use doclock_locks::node::Scope;
pub(crate) use doclock_locks::{LockRequest, NodesInstead, RequestContext};
