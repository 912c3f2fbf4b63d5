//! The metrics of a keyed lock.

use std::fmt;

use serde::Serialize;

use super::shard::Shard;
use crate::stats::{write_counts, write_durations};
use crate::{DurationSummary, LockCounters};

/// The metrics and the size of a [`KeyedLock`](super::KeyedLock), over all keys.
///
/// The shards are read one after the other, so an event meanwhile counts in some and not in others.
/// Serializes in camelCase with durations in milliseconds. [`Display`](fmt::Display) prints a
/// table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeyedStats {
    /// The counters, which are also fields of this value: of turns that began and ended, whether or
    /// not their task panicked, and of requests of any kind that got none. No turn is revoked.
    #[serde(flatten)]
    pub counters: LockCounters,
    /// The number of requests to share the result of a running task.
    pub total_joins: u64,
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
        let [active, waiting, capacity] = shard.sizes();
        let (own, counts) = (&mut self.counters, &shard.state.counts);
        own.total_acquisitions += counts.total_acquisitions;
        own.total_releases += counts.total_releases;
        own.total_timeouts += counts.total_timeouts;
        own.total_cancellations += counts.total_cancellations;
        own.total_rejections += counts.total_rejections;
        own.total_refusals += counts.total_refusals;
        self.total_joins += shard.state.joins;
        self.active_keys += active;
        self.queue_length += waiting;
        self.capacity += capacity;
    }
}

impl fmt::Display for KeyedStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = [
            ("joins", self.total_joins),
            ("active keys", self.active_keys as u64),
            ("waiting now", self.queue_length as u64),
        ];
        write_counts(f, self, &others)?;
        write_durations(f, &self.wait, &self.hold)
    }
}
