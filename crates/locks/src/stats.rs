//! Metrics of a lock: counters, and the distributions of waits and holds.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::info::millis;
use super::samples::Samples;
use super::{LockCounters, LockInfo, QueueEntry, Revocation};

/// Counters and samples since the lock was created or its metrics were reset.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) counts: LockCounters,
    pub(super) wait: Samples,
    pub(super) hold: Samples,
}

/// A distribution of durations.
///
/// The count is exact, and so are the mean and the maximum of the measured samples. A percentile
/// exceeds a sample by at most 1/128, less than one per cent. Until the first request waits,
/// percentiles are those of the last 128 measured samples; then of all later ones too.
/// [`LockStats`] documents what is measured. All values are zero while there is no sample.
/// Serializes in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DurationSummary {
    /// The number of samples.
    pub count: u64,
    /// The arithmetic mean.
    #[serde(serialize_with = "millis::duration")]
    pub mean: Duration,
    /// The median.
    #[serde(serialize_with = "millis::duration")]
    pub p50: Duration,
    /// The 95th percentile.
    #[serde(serialize_with = "millis::duration")]
    pub p95: Duration,
    /// The 99th percentile.
    #[serde(serialize_with = "millis::duration")]
    pub p99: Duration,
    /// The 99.9th percentile.
    #[serde(serialize_with = "millis::duration")]
    pub p999: Duration,
    /// The maximum.
    #[serde(serialize_with = "millis::duration")]
    pub max: Duration,
}

/// The metrics and the state of a lock, all of one moment except a long [`queue`](Self::queue).
///
/// Serializes in camelCase with durations in milliseconds. [`Display`](fmt::Display) prints a
/// table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockStats {
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
    /// The number of requests that were refused because their own thread held the lock.
    pub total_refusals: u64,
    /// The number of revoked grants. Stays zero for a lock without a hold limit.
    pub total_revocations: u64,
    /// The last revoked holders, oldest first: at most [`Revocation::LISTED`]. A holder stays
    /// listed after it has returned, and also if it never returns.
    pub last_revocations: Vec<Revocation>,
    /// The mean wait of the granted requests; the same as `wait.mean`.
    #[serde(serialize_with = "millis::duration")]
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

impl Recorder {
    /// Summarizes the waits of granted requests, including immediate grants.
    pub(super) fn wait_summary(&self) -> DurationSummary {
        let grants = self.counts.acquisitions;
        let waited = self.wait.count().min(grants);
        self.wait.summary(grants, grants - waited)
    }

    pub(super) fn hold_summary(&self) -> DurationSummary {
        let LockCounters {
            releases,
            revocations,
            ..
        } = self.counts;
        self.hold.summary(releases + revocations, 0)
    }

    pub(super) fn stats(
        &self,
        current_lock: Option<LockInfo>,
        queue_length: usize,
        last_revocations: Vec<Revocation>,
    ) -> LockStats {
        let wait = self.wait_summary();
        LockStats {
            total_acquisitions: self.counts.acquisitions,
            total_releases: self.counts.releases,
            total_timeouts: self.counts.timeouts,
            total_cancellations: self.counts.cancellations,
            total_rejections: self.counts.rejections,
            total_refusals: self.counts.refusals,
            total_revocations: self.counts.revocations,
            last_revocations,
            average_wait_time: wait.mean,
            wait,
            hold: self.hold_summary(),
            queue_length,
            is_locked: current_lock.is_some(),
            current_lock,
            queue: Vec::new(),
        }
    }
}

/// Writes a line for each counter.
pub(super) fn write_counts(f: &mut fmt::Formatter<'_>, counts: &[(&str, u64)]) -> fmt::Result {
    counts
        .iter()
        .try_for_each(|(name, count)| writeln!(f, "{name:<14}{count:>12}"))
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
        let counts = [
            ("acquisitions", self.total_acquisitions),
            ("releases", self.total_releases),
            ("timeouts", self.total_timeouts),
            ("cancellations", self.total_cancellations),
            ("rejections", self.total_rejections),
            ("refusals", self.total_refusals),
            ("revocations", self.total_revocations),
            ("waiting now", self.queue_length as u64),
        ];
        write_counts(f, &counts)?;
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
