//! Reading the state of a keyed lock.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use super::KeyedLock;
use super::shards::{KeyedGuard, KeyedShards, ShardMutex};
use super::stats::KeyedStats;
use crate::registrable::{BUSY_AFTER, Inspected, Primitive, PrimitiveState, Registrable};
use crate::sync::Mutex;
use crate::{LockInfo, QueueEntry};

impl<K, V> KeyedLock<K, V> {
    /// Returns the number of active keys. Reads the shards one after the other.
    pub fn active_keys_count(&self) -> usize {
        let sizes = self.0.each().map(|shard| shard.lock().sizes());
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
        for shard in self.0.each().map(Mutex::lock) {
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
        let stats = self.0.stats(|shard| Some(shard.lock()));
        stats.expect("each shard was waited for")
    }
}

impl<K, V> KeyedShards<K, V> {
    /// Returns the sums over all shards. `None` if one cannot be locked.
    fn stats<'a>(
        &'a self,
        lock: impl Fn(&'a ShardMutex<K, V>) -> Option<KeyedGuard<'a, K, V>>,
    ) -> Option<KeyedStats> {
        let mut stats = KeyedStats::default();
        for shard in self.each() {
            stats.add(&*lock(shard)?);
        }
        [stats.wait, stats.hold] = self.metrics.lock().summaries(&stats);
        Some(stats)
    }
}

impl<K: Send + 'static, V: Send + 'static> Inspected for KeyedShards<K, V> {
    /// A shard stays locked for long if code of a user compares or clones a key there.
    fn inspect(self: Arc<Self>) -> PrimitiveState {
        let stats = self.stats(|shard| shard.lock_within(BUSY_AFTER));
        stats.map_or(PrimitiveState::Busy, PrimitiveState::Keyed)
    }
}

impl<K: Send + 'static, V: Send + 'static> Registrable for KeyedLock<K, V> {
    fn primitive(&self) -> Primitive {
        Primitive::new(&self.0)
    }
}

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
