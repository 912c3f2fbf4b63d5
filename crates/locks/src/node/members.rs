//! The requests that share a lock because they are for nodes only.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Deadlock, Granule};
use crate::Grant;
use crate::queue::LockTable;
use crate::request::{RequestSource, Waiting};
use crate::revocation::LastRevocations;
use crate::state::{Overdue, WaitId};
use crate::stats::Recorder;
use crate::time::MonotonicTime;

#[derive(Default)]
pub(crate) struct Members {
    pub(crate) table: LockTable<Granule>,
    /// By the numbers of their requests, hence in FIFO order.
    pub(crate) list: BTreeMap<u64, Member>,
    /// How many of them wait for nodes.
    pub(crate) waiting: usize,
    pub(crate) metrics: Recorder,
    pub(crate) last_revocations: LastRevocations,
    pub(crate) deadlocks: u64,
    /// The last refused cycles, each with the moment of the refusal.
    pub(crate) last_deadlocks: VecDeque<(Deadlock, MonotonicTime)>,
    pub(crate) upgrade_conflicts: u64,
}

impl Members {
    /// Whether a member is still in this wait.
    pub(crate) fn is_in_wait(&self, number: u64, wait: WaitId) -> bool {
        let asking = self
            .list
            .get(&number)
            .and_then(|member| member.asking.as_ref());
        asking.is_some_and(|asking| asking.wait == wait)
    }
}

pub(crate) struct Member {
    pub(crate) source: RequestSource,
    /// `None` until the whole first request is granted.
    pub(crate) grant: Option<Grant>,
    /// When the first request was granted; until then, when the member was admitted.
    pub(crate) since: MonotonicTime,
    pub(crate) exact: bool,
    /// When its grant can be revoked.
    pub(crate) overdue: Option<Overdue>,
    /// Its transaction publishes, so it cannot be revoked until that ends.
    pub(crate) sealed: bool,
    pub(crate) asking: Option<Asking>,
    /// When its first request was made.
    pub(crate) requested: MonotonicTime,
    /// Whether its hold was reported.
    pub(crate) is_reported: Cell<bool>,
}

/// A request for nodes that waits.
pub(crate) struct Asking {
    pub(crate) wait: WaitId,
    pub(crate) request: Arc<dyn Waiting>,
    pub(crate) since: MonotonicTime,
    /// Whether its wait was reported.
    pub(crate) is_reported: Cell<bool>,
}
