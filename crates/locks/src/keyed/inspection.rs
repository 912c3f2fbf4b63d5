//! Reading the state of a keyed lock.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use super::KeyedLock;
use super::shard::Shard;
use super::shared::KeyedShared;
use super::stats::KeyedStats;
use crate::inspect::{BUSY_AFTER, Inspected, Primitive, PrimitiveState, Registrable, Sealed};
use crate::{LockCounters, LockInfo, QueueEntry};

impl<K, V> KeyedLock<K, V> {
    /// Returns the number of active keys. Reads the shards one after the other.
    pub fn active_keys_count(&self) -> usize {
        let sizes = self.0.each().map(|shard| shard.sizes());
        sizes.map(|[active, ..]| active).sum()
    }

    /// Returns the active keys, in no particular order.
    ///
    /// Reads the shards one after the other. Keys that are active during the whole call are listed;
    /// keys that become active or idle meanwhile may be.
    ///
    /// # Panics
    ///
    /// If cloning a key panics.
    pub fn active_keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        // If a clone panics, the clones before it are dropped without a mutex.
        let mut keys = Vec::new();
        for shard in self.0.each() {
            for entry in shard.entries() {
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
        let mut sums = ShardSums::default();
        self.0.each().for_each(|shard| sums.add(&shard));
        self.0.stats_of(sums)
    }
}

/// The sums over some shards.
#[derive(Default)]
struct ShardSums {
    counts: LockCounters,
    joins: u64,
    sizes: [usize; 3],
}

impl ShardSums {
    fn add<K, V>(&mut self, shard: &Shard<K, V>) {
        self.counts += shard.state.counts;
        self.joins += shard.state.joins;
        for (sum, size) in self.sizes.iter_mut().zip(shard.sizes()) {
            *sum += size;
        }
    }
}

impl<K, V> KeyedShared<K, V> {
    fn stats_of(&self, sums: ShardSums) -> KeyedStats {
        let ShardSums {
            counts,
            joins,
            sizes,
        } = sums;
        let [wait, hold] = self.metrics.lock().summaries(&counts);
        let [active_keys, queue_length, capacity] = sizes;
        KeyedStats {
            total_acquisitions: counts.acquisitions,
            total_releases: counts.releases,
            total_joins: joins,
            total_timeouts: counts.timeouts,
            total_cancellations: counts.cancellations,
            total_rejections: counts.rejections,
            total_refusals: counts.refusals,
            wait,
            hold,
            active_keys,
            queue_length,
            capacity,
        }
    }
}

impl<K: Send + 'static, V: Send + 'static> Inspected for KeyedShared<K, V> {
    fn inspect(self: Arc<Self>) -> PrimitiveState {
        let mut sums = ShardSums::default();
        for shard in self.each_within(BUSY_AFTER) {
            match shard {
                Some(shard) => sums.add(&shard),
                None => return PrimitiveState::Busy,
            }
        }
        PrimitiveState::Keyed(self.stats_of(sums))
    }
}

impl<K: Send + 'static, V: Send + 'static> Sealed for KeyedLock<K, V> {
    fn primitive(&self) -> Primitive {
        Primitive::new(&self.0)
    }
}

impl<K: Send + 'static, V: Send + 'static> Registrable for KeyedLock<K, V> {}

impl<K: Eq + Hash, V> KeyedLock<K, V> {
    /// Returns whether a task for this key is executed or about to be executed, as of one moment.
    /// To skip work that is already running without a race, use a request with
    /// [`no_wait`](crate::AcquireOptions::no_wait).
    ///
    /// ```
    /// use doclock_locks::keyed::KeyedLock;
    ///
    /// let accounts: KeyedLock<String, bool> = KeyedLock::new();
    /// assert!(!accounts.is_active_key("ann"));
    /// let was_active = accounts.execute_exclusive("ann", || accounts.is_active_key("ann"))?;
    /// assert!(was_active && !accounts.is_active_key("ann"));
    /// # Ok::<(), doclock_locks::LockError>(())
    /// ```
    pub fn is_active_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (hash, shard) = self.0.look_up(key);
        shard.find_key(hash, key).is_some()
    }

    /// Returns the holder of a key.
    pub fn current<Q>(&self, key: &Q) -> Option<LockInfo>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (hash, mut shard) = self.0.look_up(key);
        let now = self.0.clock.now();
        Some(shard.active_key(hash, key)?.current(now))
    }

    /// Returns the number of requests that wait for a key.
    pub fn queue_length<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (hash, shard) = self.0.look_up(key);
        shard
            .find_key(hash, key)
            .map_or(0, |entry| entry.state.waiting())
    }

    /// Returns the requests that wait for a key, in queue order.
    pub fn queue_info<Q>(&self, key: &Q) -> Vec<QueueEntry>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (hash, mut shard) = self.0.look_up(key);
        let now = self.0.clock.now();
        let active = shard.active_key(hash, key);
        active.map_or_else(Vec::new, |active| active.queue(now).collect())
    }
}
