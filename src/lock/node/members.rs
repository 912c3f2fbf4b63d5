//! Those who share a lock because they want nodes only.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Granule;
use crate::lock::Grant;
use crate::lock::request::{Claim, Waiting};
use crate::lock::state::WaitId;
use crate::lock::stats::Recorder;
use crate::queue::LockTable;
use crate::time::{Deadline, Timestamp};

#[derive(Default)]
pub(in crate::lock) struct Members {
    pub(in crate::lock) table: LockTable<Granule>,
    /// By the numbers of their requests, hence in the order in which they asked.
    pub(in crate::lock) list: BTreeMap<u64, Member>,
    /// How many of them wait for nodes.
    pub(in crate::lock) waiting: usize,
    pub(in crate::lock) figures: Recorder,
    pub(in crate::lock) deadlocks: u64,
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
    pub(in crate::lock) claim: Claim,
    /// Nothing until all that it began with was granted.
    pub(in crate::lock) grant: Option<Grant>,
    /// When that was; until then, when it was admitted.
    pub(in crate::lock) since: Timestamp,
    pub(in crate::lock) exact: bool,
    /// When others may take back what it has.
    pub(in crate::lock) overdue: Option<Deadline>,
    /// It publishes, and cannot be revoked until it is done.
    pub(in crate::lock) sealed: bool,
    pub(in crate::lock) asking: Option<Asking>,
}

/// A request for nodes that waits.
pub(in crate::lock) struct Asking {
    pub(in crate::lock) wait: WaitId,
    pub(in crate::lock) request: Arc<dyn Waiting>,
    pub(in crate::lock) since: Timestamp,
}
