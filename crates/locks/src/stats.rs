//! Metrics of a lock: counters, and the distributions of waits and holds.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::keyed::KeyedStats;
use super::node::NodeLockStats;
use super::{DurationSummary, LockInfo, QueueEntry, Revocation, Samples};
use crate::millis;

/// How requests for a lock ended since it was created, or its metrics were reset.
///
/// [`LockStats`], [`NodeLockStats`](super::node::NodeLockStats) and
/// [`KeyedStats`](super::keyed::KeyedStats) dereference to it. Serializes in camelCase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockCounters {
    /// The number of grants.
    pub total_acquisitions: u64,
    /// The number of released grants.
    pub total_releases: u64,
    /// The number of requests that timed out.
    pub total_timeouts: u64,
    /// The number of requests that a token cancelled or refused, or whose future was dropped
    /// while it waited.
    pub total_cancellations: u64,
    /// The number of requests that a full queue rejected.
    pub total_rejections: u64,
    /// The number of requests that were refused because they would have waited for their own
    /// thread.
    pub total_refusals: u64,
    /// The number of revoked grants. Stays zero for a lock without a hold limit.
    pub total_revocations: u64,
}

/// Lets statistics show their counters as fields of their own.
macro_rules! deref_to_counters {
    ($counters:ty: $($stats:ty),*) => {$(
        impl std::ops::Deref for $stats {
            type Target = $counters;

            fn deref(&self) -> &$counters {
                &self.counters
            }
        }
    )*};
}

pub(super) use deref_to_counters;

deref_to_counters! { LockCounters: LockStats, KeyedStats, NodeLockStats }

/// Counters and samples since the lock was created or its metrics were reset.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) counts: LockCounters,
    pub(super) durations: Durations,
}

impl Recorder {
    /// Summarizes the waits and the holds.
    pub(super) fn summaries(&self) -> [DurationSummary; 2] {
        self.durations.summaries(&self.counts)
    }
}

/// The measured waits and holds.
#[derive(Debug, Default)]
pub(super) struct Durations {
    wait: Samples,
    hold: Samples,
}

impl Durations {
    /// Records the wait of a request that holds now.
    pub(super) fn record_wait(&mut self, waited: Duration) {
        self.wait.record_wait(waited, &mut self.hold);
    }

    /// Records a hold that stands for `weight` of them.
    pub(super) fn record_hold(&mut self, held: Duration, weight: u16) {
        self.hold.record(held, weight);
    }

    /// Summarizes the waits of granted requests, including immediate grants, and the holds.
    pub(super) fn summaries(&self, counts: &LockCounters) -> [DurationSummary; 2] {
        let grants = counts.total_acquisitions;
        let waited = self.wait.count().min(grants);
        let ended = counts.total_releases + counts.total_revocations;
        [
            self.wait.summary(grants, grants - waited),
            self.hold.summary(ended, 0),
        ]
    }
}

/// The metrics and the state of a lock, all of one moment except a long [`queue`](Self::queue).
///
/// Serializes in camelCase with durations in milliseconds. [`Display`](fmt::Display) prints a
/// table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockStats {
    /// The counters, which are also fields of this value.
    #[serde(flatten)]
    pub counters: LockCounters,
    /// The last revoked holders, oldest first: at most [`Revocation::LISTED`]. A holder stays
    /// listed after it has returned, and also if it never returns.
    pub last_revocations: Vec<Revocation>,
    /// The mean wait of the granted requests; the same as `wait.mean`.
    #[serde(with = "millis::duration")]
    pub average_wait_time: Duration,
    /// The wait of the granted requests, from request to grant; zero for an immediate grant.
    pub wait: DurationSummary,
    /// The hold of the grants that ended, from grant to release or revocation.
    ///
    /// Of the holds that began without a wait, one in 64 is measured and counts for all of them. A
    /// hold is also measured if its request waited, or if another request waited for it or a thread
    /// inspected it: from that moment on. With a timeline, reports of long holds or a manual clock,
    /// every hold is measured.
    pub hold: DurationSummary,
    /// The number of requests that wait now.
    pub queue_length: usize,
    /// Whether the lock is held now.
    pub is_locked: bool,
    /// The present holder.
    pub current_lock: Option<LockInfo>,
    /// The waiting requests in queue order. The first 32 are of the same moment as the other
    /// fields. The rest is read a little later, when requests may have left or joined.
    pub queue: Vec<QueueEntry>,
}

/// Writes a line for each counter, and for each of the others.
pub(super) fn write_counts(
    f: &mut fmt::Formatter<'_>,
    counters: &LockCounters,
    others: &[(&str, u64)],
) -> fmt::Result {
    let counts = [
        ("acquisitions", counters.total_acquisitions),
        ("releases", counters.total_releases),
        ("timeouts", counters.total_timeouts),
        ("cancellations", counters.total_cancellations),
        ("rejections", counters.total_rejections),
        ("refusals", counters.total_refusals),
        ("revocations", counters.total_revocations),
    ];
    let mut counts = counts.iter().chain(others);
    counts.try_for_each(|(name, count)| writeln!(f, "{name:<14}{count:>12}"))
}

/// Writes a table of waits and holds, without the last line break.
pub(super) fn write_durations(
    f: &mut fmt::Formatter<'_>,
    wait: &DurationSummary,
    hold: &DurationSummary,
) -> fmt::Result {
    write!(f, "{:<14}", "")?;
    for name in ["mean", "p50", "p95", "p99", "p99.9", "max"] {
        write!(f, "{name:>12}")?;
    }
    for (name, summary) in [("wait", wait), ("hold", hold)] {
        write!(f, "\n{name:<14}")?;
        let columns = [
            summary.mean,
            summary.p50,
            summary.p95,
            summary.p99,
            summary.p999,
            summary.max,
        ];
        for duration in columns {
            write!(f, "{:>12}", format!("{duration:.1?}"))?;
        }
    }
    Ok(())
}

impl fmt::Display for LockStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = ("waiting now", self.queue_length as u64);
        write_counts(f, self, &[waiting])?;
        write_durations(f, &self.wait, &self.hold)?;
        writeln!(f)?;
        match &self.current_lock {
            Some(holder) => write!(f, "held by       {holder}")?,
            None => f.write_str("held by       no owner")?,
        }
        self.last_revocations
            .iter()
            .try_for_each(|revocation| write!(f, "\nrevoked       {revocation}"))
    }
}
