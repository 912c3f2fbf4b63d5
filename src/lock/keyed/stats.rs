//! Figures of a keyed lock.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;

use crate::lock::DurationSummary;
use crate::lock::Samples;
use crate::lock::stats::{write_counts, write_durations};

/// What one shard counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) acquisitions: u64,
    pub(super) releases: u64,
    pub(super) joins: u64,
    pub(super) timeouts: u64,
    pub(super) cancellations: u64,
    pub(super) rejections: u64,
    pub(super) refusals: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.acquisitions += other.acquisitions;
        self.releases += other.releases;
        self.joins += other.joins;
        self.timeouts += other.timeouts;
        self.cancellations += other.cancellations;
        self.rejections += other.rejections;
        self.refusals += other.refusals;
    }
}

/// What was measured, of all keys.
#[derive(Debug, Default)]
pub(super) struct Figures {
    wait: Samples,
    hold: Samples,
}

impl Figures {
    /// Whether that took long.
    pub(super) fn record(&mut self, held: Option<(Duration, u64)>, wait: Option<Duration>) -> bool {
        let long = held.is_some_and(|(held, weight)| self.hold.record(held, weight));
        if let Some(wait) = wait {
            self.wait.record_wait(wait, &mut self.hold);
        }
        long
    }

    /// Takes in what is measured fast from here on, in more memory.
    pub(super) fn expect_many(&mut self) {
        self.wait.unfold();
        self.hold.unfold();
    }

    /// The distributions of waits and of holds.
    pub(super) fn summaries(&self, counts: &Counts) -> [DurationSummary; 2] {
        let waits = self.wait.count();
        let grants = counts.acquisitions.max(waits);
        [
            self.wait.summary(grants, grants - waits),
            self.hold.summary(counts.releases, 0),
        ]
    }
}

/// The figures of a [`KeyedLock`](super::KeyedLock) and its size, over all keys.
///
/// The keys lie in shards, which are looked at one after the other: what happens meanwhile is in
/// the figures of some and not of others. Serializes in camelCase with durations in milliseconds.
/// [`Display`](fmt::Display) prints a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeyedStats {
    /// Turns that began.
    pub total_acquisitions: u64,
    /// Turns that ended, whether or not their task panicked.
    pub total_releases: u64,
    /// Requests to share the result of a running task.
    pub total_joins: u64,
    /// Requests that gave up when their timeout passed, of whatever kind.
    pub total_timeouts: u64,
    /// Requests that a token withdrew or refused, of whatever kind.
    pub total_cancellations: u64,
    /// Requests turned away from a full line.
    pub total_rejections: u64,
    /// Requests refused because they would have waited for their own thread.
    pub total_refusals: u64,
    /// Wait of the turns that began, from asking to grant; zero for those granted at once.
    pub wait: DurationSummary,
    /// How long keys were held for one task.
    ///
    /// Every hold is measured, unless the keys of its shard are taken again and again at a rate
    /// that comes to one in two microseconds for all shards together: then one in 64 is, and stands
    /// for all of them. One that somebody had to wait for or looked at is measured in any case,
    /// from that moment on.
    pub hold: DurationSummary,
    /// How many keys are active.
    pub active_keys: usize,
    /// How many requests wait for their turn, at whatever key.
    pub queue_length: usize,
    /// For how many active keys there is room without allocating. Follows `active_keys` down when
    /// most of it is unused.
    pub capacity: usize,
}

impl fmt::Display for KeyedStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("acquisitions", self.total_acquisitions),
            ("releases", self.total_releases),
            ("joins", self.total_joins),
            ("timeouts", self.total_timeouts),
            ("cancellations", self.total_cancellations),
            ("rejections", self.total_rejections),
            ("refusals", self.total_refusals),
            ("active keys", self.active_keys as u64),
            ("waiting now", self.queue_length as u64),
        ];
        write_counts(f, &counts)?;
        write_durations(f, &self.wait, &self.hold)
    }
}
