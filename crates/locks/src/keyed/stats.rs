//! The metrics of a keyed lock.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::shard::Shard;
use crate::stats::{write_counts, write_durations};
use crate::{DurationSummary, Samples};

/// The measured durations, of all keys.
#[derive(Debug, Default)]
pub(super) struct KeyedDurations {
    wait: Samples,
    hold: Samples,
}

impl KeyedDurations {
    pub(super) fn record(&mut self, held: Option<(Duration, u16)>, wait: Option<Duration>) {
        if let Some((held, weight)) = held {
            self.hold.record(held, weight);
        }
        if let Some(wait) = wait {
            self.wait.record_wait(wait, &mut self.hold);
        }
    }

    /// Adds the distributions of waits and of holds to the counts.
    pub(super) fn summarize(&self, stats: &mut KeyedStats) {
        let waits = self.wait.count();
        let grants = stats.total_acquisitions.max(waits);
        stats.wait = self.wait.summary(grants, grants - waits);
        stats.hold = self.hold.summary(stats.total_releases, 0);
    }
}

/// The metrics and the size of a [`KeyedLock`](super::KeyedLock), over all keys.
///
/// The shards are read one after the other, so an event meanwhile counts in some and not in others.
/// Serializes in camelCase with durations in milliseconds. [`Display`](fmt::Display) prints a
/// table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeyedStats {
    /// The number of turns that began.
    pub total_acquisitions: u64,
    /// The number of turns that ended, whether or not their task panicked.
    pub total_releases: u64,
    /// The number of requests to share the result of a running task.
    pub total_joins: u64,
    /// The number of requests of any kind that timed out.
    pub total_timeouts: u64,
    /// The number of requests of any kind that a token cancelled or refused, or whose future was
    /// dropped while it waited.
    pub total_cancellations: u64,
    /// The number of requests that a full queue rejected.
    pub total_rejections: u64,
    /// The number of requests that were refused because they would have waited for their own
    /// thread.
    pub total_refusals: u64,
    /// The wait of the turns that began, from request to grant; zero for an immediate grant.
    pub wait: DurationSummary,
    /// How long keys were held for one task.
    ///
    /// Of the holds that began without a wait, one in 64 is measured and counts for all of them. A
    /// hold is also measured if its request waited, or if another request waited for it or a thread
    /// inspected it: from that moment on. A manual clock measures every hold.
    pub hold: DurationSummary,
    /// The number of active keys.
    pub active_keys: usize,
    /// The number of requests that wait for their turn, at all keys.
    pub queue_length: usize,
    /// For how many active keys there is room without allocating. Follows `active_keys` down when
    /// most of it is unused.
    pub capacity: usize,
}

impl KeyedStats {
    pub(super) fn add<K, V>(&mut self, shard: &Shard<K, V>) {
        let counts = &shard.state.counts;
        let [active, waiting, capacity] = shard.sizes();
        self.total_acquisitions += counts.acquisitions;
        self.total_releases += counts.releases;
        self.total_joins += shard.state.joins;
        self.total_timeouts += counts.timeouts;
        self.total_cancellations += counts.cancellations;
        self.total_rejections += counts.rejections;
        self.total_refusals += counts.refusals;
        self.active_keys += active;
        self.queue_length += waiting;
        self.capacity += capacity;
    }
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
