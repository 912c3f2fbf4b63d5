//! Metrics of a lock and of its nodes, with the last revoked holders and refused cycles.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::info::RevokedFor;
use super::keyed::KeyedStats;
use super::{Deadlock, DurationSummary, LockInfo, QueueEntry, Samples};
use crate::last::Last;
use crate::millis;
use crate::show::{Millis, write_durations};
use crate::time::MonotonicTime;

/// How requests for a lock ended since it was created, or its metrics were reset.
///
/// [`LockStats`], [`RequestStats`] and `KeyedStats` dereference to it. Serializes in camelCase.
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
    /// The number of requests that a token cancelled or refused, or whose future was dropped while
    /// it waited.
    pub total_cancellations: u64,
    /// The number of requests that a full queue rejected.
    pub total_rejections: u64,
    /// The number of requests that would have waited for their own thread, and were refused.
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

deref_to_counters! { LockCounters: LockStats, RequestStats, KeyedStats }

/// Counters and samples since the lock was created or its metrics were reset.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) counts: LockCounters,
    pub(super) durations: Durations,
    pub(super) revocations: Last<Revocation, MonotonicTime, { Revocation::LISTED }>,
}

impl Recorder {
    pub(super) fn stats(&self, now: MonotonicTime) -> RequestStats {
        let mut stats = RequestStats::default();
        for (revocation, revoked_for) in self.revocations.list(now) {
            let revocation = revocation.clone();
            stats.last_revocations.push(Revocation {
                revoked_for,
                ..revocation
            });
        }
        stats.counters = self.counts;
        [stats.wait, stats.hold] = self.durations.summaries(&self.counts);
        stats
    }
}

/// The measured waits and holds.
#[derive(Debug, Default)]
pub(super) struct Durations {
    wait: Samples,
    hold: Samples,
}

impl Durations {
    pub(super) fn record_wait(&mut self, waited: Duration) {
        self.wait.record_wait(waited, &mut self.hold);
    }

    pub(super) fn record_hold(&mut self, held: Duration, weight: u16) {
        self.hold.record(held, weight);
    }

    /// Summarizes the waits of granted requests, including immediate grants, and the holds.
    pub(super) fn summaries(&self, counts: &LockCounters) -> [DurationSummary; 2] {
        let grants = counts.total_acquisitions;
        let at_once = grants.saturating_sub(self.wait.count());
        let ended = counts.total_releases + counts.total_revocations;
        [
            self.wait.summary(grants, at_once),
            self.hold.summary(ended, 0),
        ]
    }
}

/// The metrics and the state of a lock, all of one moment except a long [`queue`](Self::queue).
///
/// Serializes in camelCase with durations in milliseconds. [`Display`](fmt::Display) is a table.
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
    /// Of the holds that began without a wait, one in 64 is measured and counts for all. A hold is
    /// also measured if its request waited, or from when another request waited for it or a thread
    /// inspected it. With a timeline, reports of long holds or a manual clock, each is measured.
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

impl fmt::Display for LockStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_counts(f, self, &[("waiting now", self.queue_length as u64)])?;
        write_durations(f, &self.wait, &self.hold)?;
        match &self.current_lock {
            Some(holder) => write!(f, "\nheld by       {holder}")?,
            None => f.write_str("\nheld by       no owner")?,
        }
        write_revocations(f, &self.last_revocations)
    }
}

/// A holder that was revoked because it exceeded its hold limit while requests waited.
///
/// It stays in the statistics even if its thread never returns. Serializes in camelCase, with the
/// fields of the holder beside the others, and durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Revocation {
    /// The holder at the moment of its revocation.
    #[serde(flatten)]
    pub holder: LockInfo,
    /// The hold limit that it exceeded.
    #[serde(with = "millis::duration")]
    pub hold_limit: Duration,
    /// The request for which it was revoked: the first of those that it delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiter: Option<Box<QueueEntry>>,
    /// The time since its revocation, by the store's clock.
    #[serde(with = "millis::duration")]
    pub revoked_for: Duration,
}

impl Revocation {
    /// How many revocations the statistics list: the last ones.
    pub const LISTED: usize = 16;
}

impl fmt::Display for Revocation {
    /// Formats in one line: `lock-3-x9 of ann (import) from src/main.rs:7:13, held for 1001ms, hold
    /// limit 1000ms, revoked 12ms ago for lock-4-x9 of bob from …, which had waited for 990ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, ago) = (Millis(self.hold_limit), Millis(self.revoked_for));
        write!(f, "{}, hold limit {limit}, revoked {ago} ago", self.holder)?;
        RevokedFor(&self.waiter).fmt(f)
    }
}

/// How requests for a whole lock, or for nodes, ended, waited and held, and what they do now, all
/// of one moment. A request for any number of nodes counts once, as do its release and revocation.
///
/// Serializes in camelCase with durations in milliseconds, and prints as a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RequestStats {
    /// The counters, which are also fields of this value.
    #[serde(flatten)]
    pub counters: LockCounters,
    /// The last revoked holders, oldest first: at most [`Revocation::LISTED`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_revocations: Vec<Revocation>,
    /// The number of requests that would have closed a cycle of waits, with upgrade conflicts.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_deadlocks: u64,
    /// The number of requests for an upgrade that another owner had already requested.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_upgrade_conflicts: u64,
    /// The wait of the granted requests, from request to grant; zero for an immediate grant.
    pub wait: DurationSummary,
    /// The hold of the grants that ended. Measured as [`LockStats::hold`] is.
    pub hold: DurationSummary,
    /// The number of owners that hold now.
    pub holders: usize,
    /// The number of requests that wait now in the queue of the lock, or for nodes. A request for
    /// nodes counts in the queue of the lock while it is there.
    pub waiting: usize,
    /// The number of nodes in the table now. The nodes of a single owner need no entry there.
    #[serde(skip_serializing_if = "is_zero")]
    pub entries: u64,
}

impl fmt::Display for RequestStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = [
            ("deadlocks", self.total_deadlocks),
            ("  of upgrades", self.total_upgrade_conflicts),
            ("holders now", self.holders as u64),
            ("waiting now", self.waiting as u64),
            ("entries now", self.entries),
        ];
        write_counts(f, self, &others)?;
        write_durations(f, &self.wait, &self.hold)?;
        write_revocations(f, &self.last_revocations)
    }
}

pub(super) fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

fn write_revocations(f: &mut fmt::Formatter<'_>, revocations: &[Revocation]) -> fmt::Result {
    let mut revocations = revocations.iter();
    revocations.try_for_each(|revocation| write!(f, "\nrevoked       {revocation}"))
}

/// A cycle that a refused request would have closed, also if the program ignores its error.
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
