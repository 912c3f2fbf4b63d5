//! Reading the state and the metrics of a keyed lock.

use std::fmt::Debug;

use serde::Serialize;

use super::shards::{KeyedGuard, ShardMutex};
use super::*;
use crate::caught::{dispose, shown};
use crate::diagnostics::{BUSY_AFTER, Inspected, KEYS, Primitive, PrimitiveState, Registrable};
use crate::show::write_durations;
use crate::stats::{is_zero, write_counts};
use crate::{DurationSummary, ThreadInfo, shrink, threads};

impl<K, V> KeyedLock<K, V> {
    /// Returns the number of active keys. Reads the shards one after the other.
    pub fn active_keys_count(&self) -> usize {
        let sizes = self.0.each().map(|shard| shard.lock().entries.sizes());
        sizes.map(|[active, _]| active).sum()
    }

    /// Returns the active keys, in no particular order. A panic of the clone of a key resumes here.
    ///
    /// Reads the shards one after the other. Keys that are active during the whole call are listed;
    /// keys that become active or idle meanwhile may be.
    pub fn active_keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        // If a clone panics, the clones before it are dropped without a mutex.
        let mut keys = Vec::new();
        for shard in self.0.each().map(Mutex::lock) {
            for entry in shard.entries.iter() {
                keys.push(entry.key().clone());
            }
        }
        keys
    }

    /// Returns metrics and sizes, over all keys.
    ///
    /// ```
    /// use doclock_locks::keyed::KeyedLock;
    ///
    /// let accounts: KeyedLock<u64> = KeyedLock::new();
    /// for account in 0..1000 {
    ///     accounts.execute_exclusive(&account, || ())?;
    /// }
    /// let stats = accounts.stats();
    /// assert_eq!((stats.total_acquisitions, stats.total_releases), (1000, 1000));
    /// assert_eq!((stats.active_keys, stats.queue_length), (0, 0));
    /// println!("{stats}");
    /// # Ok::<(), doclock_locks::LockError>(())
    /// ```
    pub fn stats(&self) -> KeyedStats {
        let stats = self.0.stats(|shard| Some(shard.lock()));
        stats.expect("each shard was waited for")
    }
}

impl<K, V> KeyedShards<K, V> {
    /// Returns the sums over all shards. `None` if one cannot be locked.
    fn stats<'a>(
        &'a self,
        mut lock: impl FnMut(&'a ShardMutex<K, V>) -> Option<KeyedGuard<'a, K, V>>,
    ) -> Option<KeyedStats> {
        let mut stats = KeyedStats::default();
        for shard in self.each() {
            let shard = lock(shard)?;
            let [active, capacity] = shard.entries.sizes();
            let (state, sum) = (&shard.state, &mut stats.counters);
            sum.total_acquisitions += state.counts.total_acquisitions;
            sum.total_releases += state.counts.total_releases;
            sum.total_timeouts += state.counts.total_timeouts;
            sum.total_cancellations += state.counts.total_cancellations;
            sum.total_rejections += state.counts.total_rejections;
            sum.total_refusals += state.counts.total_refusals;
            stats.total_joins += state.joins;
            stats.active_keys += active;
            stats.queue_length += state.present.saturating_sub(active);
            stats.draining = stats.draining.max(state.drains.len());
            stats.capacity += capacity;
        }
        [stats.wait, stats.hold] = self.metrics.lock().summaries(&stats);
        Some(stats)
    }
}

impl<K: Clone + Debug + Send + 'static, V: Send + 'static> Inspected for KeyedShards<K, V> {
    /// A shard stays locked for long if code of a user compares or clones a key there.
    fn inspect(self: Arc<Self>) -> PrimitiveState {
        let mut rows = Vec::new();
        let stats = self.stats(|shard| {
            let (mut shard, now) = (shard.lock_within(BUSY_AFTER)?, self.clock.now());
            let Shard { entries, state } = &mut *shard;
            let mut entries: Vec<_> = entries.iter_mut().collect();
            shrink::to_first(&mut entries, KEYS, |it| {
                (it.state.waiting() == 0, it.state.grant)
            });
            for entry in entries {
                let mut active = Active { entry, state };
                let copy = catch(|| active.entry.key().clone());
                let row = HeldKey {
                    key: String::new(),
                    number: active.entry.id.number,
                    waiting: active.entry.state.waiting(),
                    thread: threads::describe(active.entry.state.source.thread),
                    holder: active.current(now),
                    first_waiter: active.queue(now).next(),
                };
                rows.push((row, copy));
            }
            Some(shard)
        });
        rows.sort_by_key(|(row, _)| (row.waiting == 0, std::cmp::Reverse(row.holder.held_for)));
        let mut held = Vec::new();
        for (row, copy) in rows {
            match stats.is_some() && held.len() < KEYS {
                true => held.push(HeldKey {
                    key: shown(copy),
                    ..row
                }),
                false => dispose(copy),
            }
        }
        let state = |stats| PrimitiveState::Keyed { stats, held };
        stats.map(Box::new).map_or(PrimitiveState::Busy, state)
    }
}

impl<K: Clone + Debug + Send + 'static, V: Send + 'static> Registrable for KeyedLock<K, V> {
    fn primitive(&self) -> Primitive {
        Primitive::new(&self.0)
    }
}

impl<K: Eq + Hash, V> KeyedLock<K, V> {
    /// Returns whether a task for this key is executed or about to be executed, as of one moment.
    /// To skip work that is already running without a race, use a request with
    /// [`no_wait`](crate::AcquireOptions::no_wait).
    pub fn is_active_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.read(key, |_| ()).is_some()
    }

    /// Returns the holder of a key.
    pub fn current<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<LockInfo>
    where
        K: Borrow<Q>,
    {
        let now = || self.0.clock.now();
        self.0.read(key, |mut active| active.current(now()))
    }

    /// Returns the number of requests that wait for a key.
    pub fn queue_length<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let waiting = self.0.read(key, |active| active.entry.state.waiting());
        waiting.unwrap_or(0)
    }

    /// Returns the requests that wait for a key, in queue order.
    pub fn queue_info<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Vec<QueueEntry>
    where
        K: Borrow<Q>,
    {
        let now = || self.0.clock.now();
        let queue = self.0.read(key, |active| active.queue(now()).collect());
        queue.unwrap_or_default()
    }
}

/// A key that is held. Serializes in camelCase, with the fields of the holder beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HeldKey {
    /// The key, as [`Debug`](fmt::Debug) prints it.
    pub key: String,
    #[serde(skip)]
    #[doc(hidden)]
    pub number: u64,
    /// The holder of the key.
    #[serde(flatten)]
    pub holder: LockInfo,
    /// The thread that executes the task, or waited for the key. `None` for a task of an executor,
    /// for a reserved turn that no thread executes yet, and for a thread that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadInfo>,
    /// The number of requests that wait for their turn at the key.
    pub waiting: usize,
    /// The request at the head of the queue, which waits longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_waiter: Option<QueueEntry>,
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
    /// The counters, which are also fields of this value: of turns that began and ended, whether or
    /// not their task panicked, and of requests of any kind that got none. No turn is revoked.
    #[serde(flatten)]
    pub counters: LockCounters,
    /// The number of requests to share the result of a running task.
    pub total_joins: u64,
    /// The wait of the turns that began, from request to grant; zero for an immediate grant.
    pub wait: DurationSummary,
    /// How long keys were held for one task. Measured as
    /// [`LockStats::hold`](crate::LockStats::hold) is.
    pub hold: DurationSummary,
    /// The number of active keys.
    pub active_keys: usize,
    /// The number of requests that wait for their turn, at all keys.
    pub queue_length: usize,
    /// How many calls wait for the end of all present tasks, at least: the most in one shard.
    #[serde(skip_serializing_if = "is_zero")]
    pub draining: usize,
    /// For how many active keys there is room without allocating. Follows `active_keys` down when
    /// most of it is unused.
    pub capacity: usize,
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
