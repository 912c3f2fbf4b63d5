//! The metrics of node locks.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::Deadlock;
use crate::info::Millis;
use crate::millis;
use crate::stats::write_counts;
use crate::{DurationSummary, LockCounters, Revocation};

/// The metrics and the state of a store's node locks, all of one moment.
///
/// A request counts once, however many nodes it is for. Serializes in camelCase with durations in
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeLockStats {
    /// The counters, which are also fields of this value. A grant is that of all nodes of the first
    /// request of an owner; its release and its revocation are of all nodes of the owner.
    #[serde(flatten)]
    pub counters: LockCounters,
    /// The last revoked owners, oldest first: at most [`Revocation::LISTED`].
    pub last_revocations: Vec<Revocation>,
    /// The number of requests for more nodes that would have closed a cycle. Includes upgrade
    /// conflicts.
    pub total_deadlocks: u64,
    /// The number of requests for an upgrade that another owner had already requested.
    pub total_upgrade_conflicts: u64,
    /// The last refused cycles, oldest first: at most [`RefusedDeadlock::LISTED`].
    pub last_deadlocks: Vec<RefusedDeadlock>,
    /// The wait of the granted requests, from request to grant; zero for an immediate grant.
    pub wait: DurationSummary,
    /// How long owners had nodes locked. Measured as
    /// [`LockStats::hold`](crate::LockStats::hold) is.
    pub hold: DurationSummary,
    /// The number of owners that have nodes locked now.
    pub holders: usize,
    /// The number of requests that wait for nodes now. Requests that still wait for the document
    /// lock do not count.
    pub waiting: usize,
    /// The number of nodes that have an entry in the table now. The nodes of a single owner need
    /// none.
    pub entries: usize,
}

/// A cycle that a refused request would have closed. It stays in the statistics, also if the
/// program ignores the error of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RefusedDeadlock {
    /// The cycle.
    pub deadlock: Deadlock,
    /// The time since the refusal, by the store's clock.
    #[serde(with = "millis::duration")]
    pub refused_for: Duration,
}

impl RefusedDeadlock {
    /// How many cycles the statistics list: the last ones.
    pub const LISTED: usize = 4;
}

impl fmt::Display for RefusedDeadlock {
    /// Formats as the [`Deadlock`] and the time since its refusal, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, refused {} ago",
            self.deadlock,
            Millis(self.refused_for)
        )
    }
}

impl fmt::Display for NodeLockStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = [
            ("deadlocks", self.total_deadlocks),
            ("  of upgrades", self.total_upgrade_conflicts),
            ("holders now", self.holders as u64),
            ("waiting now", self.waiting as u64),
            ("entries now", self.entries as u64),
        ];
        write_counts(f, self, &others)?;
        for (name, summary) in [("wait", &self.wait), ("hold", &self.hold)] {
            let [mean, worst, max] = [summary.mean, summary.p999, summary.max].map(Millis);
            writeln!(f, "{name:<14}mean {mean}, p99.9 {worst}, max {max}")?;
        }
        self.last_revocations
            .iter()
            .try_for_each(|revocation| writeln!(f, "revoked       {revocation}"))?;
        self.last_deadlocks
            .iter()
            .try_for_each(|refused| writeln!(f, "deadlock      {refused}"))
    }
}
