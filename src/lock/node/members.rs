//! The requests that share a lock because they are for nodes only.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Deadlock, Granule};
use crate::lock::Grant;
use crate::lock::request::{RequestSource, Waiting};
use crate::lock::revocation::LastRevocations;
use crate::lock::state::{Overdue, WaitId};
use crate::lock::stats::Recorder;
use crate::queue::LockTable;
use crate::time::Timestamp;

#[derive(Default)]
pub(in crate::lock) struct Members {
    pub(in crate::lock) table: LockTable<Granule>,
    /// By the numbers of their requests, hence in FIFO order.
    pub(in crate::lock) list: BTreeMap<u64, Member>,
    /// How many of them wait for nodes.
    pub(in crate::lock) waiting: usize,
    pub(in crate::lock) metrics: Recorder,
    pub(in crate::lock) last_revocations: LastRevocations,
    pub(in crate::lock) deadlocks: u64,
    /// The last refused cycles, each with the moment of the refusal.
    pub(in crate::lock) last_deadlocks: VecDeque<(Deadlock, Timestamp)>,
    pub(in crate::lock) upgrade_conflicts: u64,
}

impl Members {
    /// Whether a member is still in this wait.
    pub(in crate::lock) fn is_in_wait(&self, number: u64, wait: WaitId) -> bool {
        let asking = self
            .list
            .get(&number)
            .and_then(|member| member.asking.as_ref());
        asking.is_some_and(|asking| asking.wait == wait)
    }
}

pub(in crate::lock) struct Member {
    pub(in crate::lock) claim: RequestSource,
    /// `None` until the whole first request is granted.
    pub(in crate::lock) grant: Option<Grant>,
    /// When the first request was granted; until then, when the member was admitted.
    pub(in crate::lock) since: Timestamp,
    pub(in crate::lock) exact: bool,
    /// When its grant can be revoked.
    pub(in crate::lock) overdue: Option<Overdue>,
    /// Its transaction publishes, so it cannot be revoked until that ends.
    pub(in crate::lock) sealed: bool,
    pub(in crate::lock) asking: Option<Asking>,
    /// When its first request was made.
    pub(in crate::lock) requested: Timestamp,
    /// Whether its hold was reported.
    pub(in crate::lock) is_reported: Cell<bool>,
}

/// A request for nodes that waits.
pub(in crate::lock) struct Asking {
    pub(in crate::lock) wait: WaitId,
    pub(in crate::lock) request: Arc<dyn Waiting>,
    pub(in crate::lock) since: Timestamp,
    /// Whether its wait was reported.
    pub(in crate::lock) is_reported: Cell<bool>,
}
