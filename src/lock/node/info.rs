//! Who has locked which nodes and who waits for some, as a person would be told.

use std::fmt;

use serde::Serialize;

use super::NodeWait;
use crate::brief::Brief;
use crate::id::{LockId, NodeId};
use crate::lock::info::Millis;
use crate::lock::stats::write_counts;
use crate::lock::{DurationSummary, LockInfo, QueueEntry};
use crate::queue::LockMode;

/// Somebody who has locked nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeHolder {
    /// Who it is.
    #[serde(flatten)]
    pub holder: LockInfo,
    /// What it has locked, in no particular order. Intentions on the nodes above are listed too,
    /// once others lock nodes at the same time.
    pub nodes: Vec<(NodeId, LockMode)>,
}

impl fmt::Display for NodeHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.holder)?;
        for (nth, (id, mode)) in self.nodes.iter().enumerate() {
            let lead = if nth == 0 { ": " } else { ", " };
            write!(f, "{lead}{} ({mode})", Brief(id))?;
        }
        Ok(())
    }
}

/// Somebody who waits for nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeWaiter {
    /// Who it is, and its place in the longest of the lines in which it stands.
    #[serde(flatten)]
    pub request: QueueEntry,
    /// What it waits for.
    pub waits_for: Vec<NodeWait>,
    /// Whom it waits for: those that have what it wants, and those that asked for it before.
    pub behind: Vec<LockId>,
}

impl fmt::Display for NodeWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.request)?;
        for (nth, wait) in self.waits_for.iter().enumerate() {
            let lead = if nth == 0 { " for " } else { ", " };
            write!(f, "{lead}{wait}")?;
        }
        for (nth, id) in self.behind.iter().enumerate() {
            let lead = if nth == 0 { " behind " } else { ", " };
            write!(f, "{lead}{id}")?;
        }
        Ok(())
    }
}

/// The figures of a store's node locks and their state, all of one moment.
///
/// A request counts once, however many nodes it is for. Serializes in camelCase with durations in
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeLockStats {
    /// Owners that were granted all nodes that they began with.
    pub total_acquisitions: u64,
    /// Owners that gave back all that they had.
    pub total_releases: u64,
    /// Requests that gave up when their timeout passed.
    pub total_timeouts: u64,
    /// Requests that a token withdrew or refused.
    pub total_cancellations: u64,
    /// Requests turned away because too many waited.
    pub total_rejections: u64,
    /// Requests refused because their own thread held the lock.
    pub total_refusals: u64,
    /// Owners from whom all was taken back.
    pub total_revocations: u64,
    /// Requests for more nodes that would have closed a circle; the next is part of it.
    pub total_deadlocks: u64,
    /// Requests for the upgrade of a lock that somebody else had asked to upgrade before.
    pub total_upgrade_conflicts: u64,
    /// Wait of the granted requests, from asking to grant; zero for those granted at once.
    pub wait: DurationSummary,
    /// For how long owners had nodes locked. Measured as
    /// [`LockStats::hold`](crate::lock::LockStats::hold) is.
    pub hold: DurationSummary,
    /// How many owners have nodes locked now.
    pub holders: usize,
    /// How many requests wait for nodes now, not counting those that wait for the global lock
    /// first.
    pub waiting: usize,
    /// For how many nodes the table has an entry now. None for an owner who is alone.
    pub entries: usize,
}

impl fmt::Display for NodeLockStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("acquisitions", self.total_acquisitions),
            ("releases", self.total_releases),
            ("timeouts", self.total_timeouts),
            ("cancellations", self.total_cancellations),
            ("rejections", self.total_rejections),
            ("refusals", self.total_refusals),
            ("revocations", self.total_revocations),
            ("deadlocks", self.total_deadlocks),
            ("  of upgrades", self.total_upgrade_conflicts),
            ("holders now", self.holders as u64),
            ("waiting now", self.waiting as u64),
            ("entries now", self.entries as u64),
        ];
        write_counts(f, &counts)?;
        for (name, summary) in [("wait", &self.wait), ("hold", &self.hold)] {
            let [mean, worst, max] = [summary.mean, summary.p999, summary.max].map(Millis);
            writeln!(f, "{name:<14}mean {mean}, p99.9 {worst}, max {max}")?;
        }
        Ok(())
    }
}
