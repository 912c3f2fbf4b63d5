//! The requests that share a lock because they are for nodes only.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::node::Deadlock;
use crate::queue::LockTable;

#[derive(Default)]
pub(super) struct Members {
    pub(super) table: LockTable<Granule>,
    /// By the numbers of their requests, hence in FIFO order.
    pub(super) list: BTreeMap<u64, Member>,
    /// How many of them wait for nodes.
    pub(super) waiting: usize,
    pub(super) metrics: Recorder,
    pub(super) last_revocations: LastRevocations,
    pub(super) deadlocks: u64,
    /// The last refused cycles, each with the moment of the refusal.
    pub(super) last_deadlocks: VecDeque<(Deadlock, MonotonicTime)>,
    pub(super) upgrade_conflicts: u64,
}

/// A request for nodes that was admitted: it holds nodes, or waits for some, or both.
pub(super) struct Member {
    /// Granted when the whole first request is. Until then it begins at the admission.
    pub(super) hold: LockHolder,
    /// Its request, if it waits.
    pub(super) asking: Option<LockWaiter>,
}

impl LockState {
    /// Returns the requests that wait for nodes.
    pub(crate) fn waiters_for_nodes(&self) -> impl Iterator<Item = &LockWaiter> {
        let members = self.nodes.iter().flat_map(|nodes| nodes.list.values());
        members.filter_map(|member| member.asking.as_ref())
    }
}

impl Members {
    /// Whether a member is still in this wait.
    pub(super) fn is_in_wait(&self, number: u64, wait: WaitId) -> bool {
        let asking = self
            .list
            .get(&number)
            .and_then(|member| member.asking.as_ref());
        asking.is_some_and(|asking| asking.wait == wait)
    }

    /// Returns the members that hold nodes.
    pub(super) fn holds(&self) -> impl Iterator<Item = &LockHolder> {
        let holds = self.list.values().map(|member| &member.hold);
        holds.filter(|hold| hold.is_granted())
    }
}
