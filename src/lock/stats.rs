//! Figures of a lock: counts, and the distributions of wait and hold.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::info::millis;
use super::samples::Samples;
use super::{LockInfo, QueueEntry};

/// Counts and samples since the lock was made or its figures were reset.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) acquisitions: u64,
    pub(super) releases: u64,
    pub(super) timeouts: u64,
    pub(super) cancellations: u64,
    pub(super) rejections: u64,
    pub(super) refusals: u64,
    pub(super) revocations: u64,
    pub(super) wait: Samples,
    pub(super) hold: Samples,
}

/// A distribution of durations.
///
/// The count is exact, and so are the mean and the maximum of what was measured; percentiles of it
/// are within one per cent (an HDR histogram with two significant digits; what is longer than an
/// hour counts there as an hour). [`LockStats`] tells what is measured. All are zero while there is
/// no sample. Serializes in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DurationSummary {
    /// How many samples.
    pub count: u64,
    /// Their arithmetic mean.
    #[serde(serialize_with = "millis::duration")]
    pub mean: Duration,
    /// Half of them are no longer than this.
    #[serde(serialize_with = "millis::duration")]
    pub p50: Duration,
    /// 95 % of them are no longer than this.
    #[serde(serialize_with = "millis::duration")]
    pub p95: Duration,
    /// 99 % of them are no longer than this.
    #[serde(serialize_with = "millis::duration")]
    pub p99: Duration,
    /// 99.9 % of them are no longer than this.
    #[serde(serialize_with = "millis::duration")]
    pub p999: Duration,
    /// The longest.
    #[serde(serialize_with = "millis::duration")]
    pub max: Duration,
}

/// The figures of a lock and its state, all of one moment but for a long [`queue`](Self::queue).
///
/// Serializes in camelCase with durations in milliseconds. [`Display`](fmt::Display) prints a
/// table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockStats {
    /// Grants.
    pub total_acquisitions: u64,
    /// Grants given back.
    pub total_releases: u64,
    /// Requests that gave up when their timeout passed.
    pub total_timeouts: u64,
    /// Requests that a token withdrew or refused.
    pub total_cancellations: u64,
    /// Requests turned away from a full queue.
    pub total_rejections: u64,
    /// Requests refused because their own thread held the lock.
    pub total_refusals: u64,
    /// Grants taken back from a holder. Stays zero for a lock without a limit on holding.
    pub total_revocations: u64,
    /// Mean wait of the granted requests; the same as `wait.mean`.
    #[serde(serialize_with = "millis::duration")]
    pub average_wait_time: Duration,
    /// Wait of the granted requests, from asking to grant; zero for those granted at once.
    pub wait: DurationSummary,
    /// Hold of the grants that ended, from grant to release or revocation.
    ///
    /// Every hold is measured, unless the lock is taken again and again within microseconds and
    /// nobody waits: then one in 64 is, and stands for all of them. One that somebody had to wait
    /// for or looked at is measured in any case, from that moment on.
    pub hold: DurationSummary,
    /// How many wait now.
    pub queue_length: usize,
    /// Whether somebody holds now.
    pub is_locked: bool,
    /// Who holds now.
    pub current_lock: Option<LockInfo>,
    /// Who waits, in order. The first 32 are of the same moment as all else; who comes after them
    /// is noted down a little later, when some may have left and others joined.
    pub queue: Vec<QueueEntry>,
}

impl Recorder {
    /// Of the granted requests, those granted at once included.
    pub(super) fn wait_summary(&self) -> DurationSummary {
        let waited = self.wait.count().min(self.acquisitions);
        self.wait
            .summary(self.acquisitions, self.acquisitions - waited)
    }

    pub(super) fn hold_summary(&self) -> DurationSummary {
        self.hold.summary(self.releases + self.revocations, 0)
    }

    pub(super) fn stats(&self, current_lock: Option<LockInfo>, queue_length: usize) -> LockStats {
        let wait = self.wait_summary();
        LockStats {
            total_acquisitions: self.acquisitions,
            total_releases: self.releases,
            total_timeouts: self.timeouts,
            total_cancellations: self.cancellations,
            total_rejections: self.rejections,
            total_refusals: self.refusals,
            total_revocations: self.revocations,
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

/// A line for each count.
pub(super) fn write_counts(f: &mut fmt::Formatter<'_>, counts: &[(&str, u64)]) -> fmt::Result {
    counts
        .iter()
        .try_for_each(|(name, count)| writeln!(f, "{name:<14}{count:>12}"))
}

/// A table of waits and holds, without the end of its last line.
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
            Some(holder) => write!(f, "held by       {holder}"),
            None => f.write_str("held by       nobody"),
        }
    }
}
