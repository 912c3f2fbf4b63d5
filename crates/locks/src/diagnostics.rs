//! Holders and waiters of a lock, which of them wait for which, and the registered lock types.

use std::collections::HashSet;
use std::fmt;
use std::ops::Not;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;
use smol_str::SmolStr;

use super::keyed::{HeldKey, KeyedStats};
use super::limiter::LimiterSnapshot;
use super::node::{NodeWait, RefusedDeadlock};
use super::shared::LockShared;
use super::state::{MembersPage, PAGE};
use super::{FifoLock, LockInfo, QueueEntry, RequestStats};
use crate::brief::Brief;
use crate::caught::dispose;
use crate::id::{LockId, NodeId};
use crate::millis;
use crate::queue::{LockMode, Priority};
use crate::show::list;
use crate::stats::is_zero;
use crate::threads::{LockName, ThreadInfo};

/// The holders and the waiters of a lock, and which of them wait for which.
///
/// The counters, the first 32 holders and the first 32 waiters are of one moment. The rest is read
/// page by page, so that a long queue blocks no request: some of it may have left or joined since.
/// A request that waits during the whole read is listed once and in order.
///
/// Serializes in camelCase, durations in milliseconds. Prints a line for each holder and waiter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockReport {
    /// The holder, or the holders of nodes in the order of their requests.
    pub holders: Vec<HeldLock>,
    /// What has closed the lock: its queue waits. A store closes its lock while a lossless
    /// subscriber (`lossless subscriber`) has too much to read, or the journal (`disk`) too much to
    /// write. The time counts from then on, or from the end of the last hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<LockInfo>,
    /// The requests that wait for nodes, in the order of their first requests, then those in the
    /// queue of the lock, in the order in which they would be granted.
    pub waiters: Vec<WaitingRequest>,
    /// The requests for the whole lock.
    pub document: RequestStats,
    /// The requests for nodes.
    pub nodes: RequestStats,
    /// The last [`RefusedDeadlock::LISTED`] refused cycles of requests for nodes, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deadlocks: Vec<RefusedDeadlock>,
}

impl LockReport {
    /// Returns a line for each holder, one for what closes the lock, and one for each waiter.
    #[doc(hidden)]
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let free = self.holders.is_empty().then(|| "held by no owner".into());
        let holders = self.holders.iter().map(|held| format!("held by {held}"));
        let closed = self.closed_by.iter().map(|by| format!("closed by {by}"));
        let waiters = self.waiters.iter().map(ToString::to_string);
        holders.chain(free).chain(closed).chain(waiters)
    }
}

impl fmt::Display for LockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = self.waiters.is_empty().then(|| "no request waits".into());
        let lines: Vec<_> = self.lines().chain(none).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// A grant of a lock, or of nodes.
///
/// Serializes in camelCase, with the fields of the holder beside the others. Prints as a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HeldLock {
    /// The grant and its owner.
    #[serde(flatten)]
    pub holder: LockInfo,
    /// Whether a transaction is open under the grant. Then the id of the grant does not release it.
    #[serde(skip_serializing_if = "Not::not")]
    pub in_transaction: bool,
    /// The thread that began the transaction under it, or else that requested it. `None` for the
    /// request of a task, for a grant that is held by its id, and for a thread that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadInfo>,
    /// Whether that thread has ended.
    #[serde(skip_serializing_if = "Not::not")]
    pub thread_ended: bool,
    /// The hold limit of the grant.
    #[serde(with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub hold_limit: Option<Duration>,
    /// At most [`HeldLock::LISTED`] of the nodes, without intentions. Empty for the whole lock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<(NodeId, LockMode)>,
    /// How many nodes are locked, with any intentions on ancestors. Zero for the whole lock.
    #[serde(skip_serializing_if = "is_zero")]
    pub node_count: usize,
    /// Whether it is a grant of nodes, also of none.
    #[serde(skip)]
    #[doc(hidden)]
    pub is_of_nodes: bool,
}

impl HeldLock {
    /// How many nodes of a grant or a request are listed at most.
    pub const LISTED: usize = 16;
}

impl fmt::Display for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = |(id, mode): &(NodeId, LockMode)| format!("{} ({mode})", Brief(id));
        self.holder.fmt(f)?;
        list(f, ": ", self.nodes.iter().map(node))
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RequestKind {
    /// A guard or an id.
    Lock,
    /// A transaction that its thread or task makes.
    Transaction,
    /// An operation batch, which the holder of the lock may run.
    Batch,
}

/// What waits for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WaiterKind {
    // Code that waits as a thread is never pending, and `blocking` runs it.
    /// A blocked thread.
    Thread,
    /// A task of an executor.
    Task,
}

/// A request that waits, with what it waits for.
///
/// Serializes in camelCase, with the fields of the request beside the others. Prints as a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WaitingRequest {
    /// The request, with its position in the queue of the lock, or in the longest of its nodes.
    #[serde(flatten)]
    pub request: QueueEntry,
    /// What the request is for.
    pub kind: RequestKind,
    /// Whether a thread or a task waits.
    pub waits_as: WaiterKind,
    /// The thread that waits. `None` for a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadInfo>,
    /// The priority of the request. Later requests of a higher priority overtake it, up to a bound.
    pub priority: Priority,
    /// The time until the wait times out; zero if that is due. `None` for a wait without a limit.
    #[serde(with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub time_left: Option<Duration>,
    /// The first [`HeldLock::LISTED`] of the nodes for which it waits. Empty for the whole lock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<NodeWait>,
    /// For how many nodes it waits, with intentions on their ancestors. Zero for the whole lock.
    #[serde(skip_serializing_if = "is_zero")]
    pub node_count: usize,
    /// At most [`WaitingRequest::BLOCKERS`] of the grants and requests for which it waits. First
    /// the grants: the holder of the lock, all holders of nodes if it waits for the whole lock, or
    /// those in a conflicting mode. Of its queue only the request directly ahead.
    pub blocked_by: Vec<LockId>,
}

impl WaitingRequest {
    /// How many grants and requests `blocked_by` lists at most.
    pub const BLOCKERS: usize = 8;
}

impl fmt::Display for WaitingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)?;
        list(f, " for ", &self.waits_for)?;
        let behind = self.blocked_by.iter();
        list(f, " behind ", behind.filter(|_| !self.waits_for.is_empty()))
    }
}

impl Inspected for LockShared {
    fn inspect(self: Arc<Self>) -> PrimitiveState {
        PrimitiveState::Lock(Box::new(FifoLock(self).diagnostics()))
    }
}

impl Registrable for FifoLock {
    fn primitive(&self) -> Primitive {
        Primitive::new(&self.0)
    }
}

impl FifoLock {
    /// Returns the holders and the waiters, and which wait for which. Never blocks; the lock stays
    /// usable.
    ///
    /// ```
    /// use doclock_locks::FifoLock;
    ///
    /// let lock = FifoLock::new();
    /// let id = lock.acquire_lock("report")?;
    /// std::thread::scope(|threads| {
    ///     threads.spawn(|| lock.lock("letter").map(drop));
    ///     while lock.queue_length() == 0 {
    ///         std::thread::yield_now();
    ///     }
    ///     let diagnostics = lock.diagnostics();
    ///     assert_eq!(diagnostics.holders[0].holder.owner_id.as_str(), "report");
    ///     assert_eq!(diagnostics.waiters[0].blocked_by, [id]);
    ///     lock.release_lock(id)
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diagnostics(&self) -> LockReport {
        let mut ahead = None;
        let ((report, first), queued) = self.0.read_queue(
            |state| (state.totals(), state.members_page(None)),
            |state, at| {
                let waiting = state.waits_in_queue(at, ahead);
                ahead = Some(waiting.request.lock_id);
                waiting
            },
        );
        let (holders, mut waiters) = self.all_members(first);
        if queued.len() > PAGE {
            // Requests that have left the queue between two pages wait for their nodes.
            waiters.extend(self.members().1);
        }
        waiters.extend(queued);
        let mut listed = HashSet::new();
        waiters.retain(|waits| listed.insert(waits.request.lock_id));
        LockReport {
            holders,
            waiters,
            ..report
        }
    }

    /// Returns the holders of nodes, and the requests that wait for nodes. Read page by page.
    #[doc(hidden)]
    pub fn members(&self) -> (Vec<HeldLock>, Vec<WaitingRequest>) {
        let first = self.0.step_fair(|state| state.members_page(None));
        let (mut holders, waiters) = self.all_members(first);
        holders.retain(|held| held.is_of_nodes);
        (holders, waiters)
    }

    /// Reads the rest of the members page by page.
    fn all_members(&self, first: MembersPage) -> (Vec<HeldLock>, Vec<WaitingRequest>) {
        let (mut holders, mut waiters, mut next) = first;
        while next.is_some() {
            let (more, waiting, after) = self.0.step_fair(|state| state.members_page(next));
            holders.extend(more);
            waiters.extend(waiting);
            next = after;
        }
        (holders, waiters)
    }
}

/// A lock type that a store can show in its diagnostics; see `DataStore::register`.
///
/// It is implemented for [`FifoLock`](super::FifoLock), [`KeyedLock`](super::keyed::KeyedLock),
/// [`InFlightLimiter`](super::limiter::InFlightLimiter) and `DataStore`, and for no other type.
pub trait Registrable {
    /// Returns a handle that does not keep the primitive. Only this crate makes one.
    #[doc(hidden)]
    fn primitive(&self) -> Primitive;
}

/// Reads the state of a lock type. No panic of a key gets out.
pub(super) trait Inspected: Send + Sync {
    fn inspect(self: Arc<Self>) -> PrimitiveState;
}

/// How long to wait for a mutex under which code of users compares or clones a key.
pub(super) const BUSY_AFTER: Duration = Duration::from_millis(10);

/// How many keys of a lock type are listed at most.
pub(super) const KEYS: usize = 64;

/// A lock type that this handle does not keep.
#[derive(Clone, Debug)]
pub struct Primitive(Weak<dyn Inspected>);

impl Primitive {
    pub(super) fn new<T: Inspected + 'static>(shared: &Arc<T>) -> Self {
        let shared = Arc::downgrade(shared);
        Self(shared)
    }

    /// Names it for the threads that wait in it, until the name is dropped.
    pub fn named(&self, name: SmolStr) -> LockName {
        LockName::new(self.place(), name)
    }

    /// Returns the address, which threads note that wait in it.
    pub fn place(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Whether the primitive still exists.
    pub fn exists(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Whether both are handles of one primitive.
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0.as_ptr(), other.0.as_ptr())
    }

    /// Reads the state, if the primitive still exists. It may be dropped here, with users' keys.
    pub fn inspect(&self) -> Option<PrimitiveState> {
        let shared = self.0.upgrade()?;
        let state = Arc::clone(&shared).inspect();
        dispose(shared);
        Some(state)
    }
}

/// The state of a registered lock type.
///
/// Serializes in camelCase, as an object with the field `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[non_exhaustive]
pub enum PrimitiveState {
    /// A lock in FIFO order.
    Lock(Box<LockReport>),
    /// A keyed lock.
    #[non_exhaustive]
    Keyed {
        /// The metrics and sizes.
        #[serde(flatten)]
        stats: Box<KeyedStats>,
        /// At most 64 active keys: those with waiters, then those held longest as far as known.
        held: Vec<HeldKey>,
    },
    /// A limiter, with at most 64 of its keys: those for which calls wait first, then those in use
    /// with the fewest free slots. Keys are shown as [`Debug`](fmt::Debug) prints them.
    Limiter(Box<LimiterSnapshot<String>>),
    /// A keyed lock or a limiter that was not read in 10 ms, because `Eq` or `Clone` of a key runs.
    Busy,
}
