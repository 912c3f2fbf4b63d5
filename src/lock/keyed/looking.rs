//! Looking at a keyed lock from outside.

use std::borrow::Borrow;
use std::hash::Hash;

use super::KeyedLock;
use super::stats::{Counts, KeyedStats};
use crate::lock::discard::Discard;
use crate::lock::{LockInfo, QueueEntry};
use crate::sync::key_code;

impl<K, V> KeyedLock<K, V> {
    /// How many keys are active. Looks at all shards, one after the other.
    pub fn active_keys_count(&self) -> usize {
        let sizes = self.0.each().map(|shard| shard.sizes());
        sizes.map(|[active, ..]| active).sum()
    }

    /// The keys that are active, in no order.
    ///
    /// Looks at the shards one after the other: keys that are active all the while are listed,
    /// those that become active or idle meanwhile may be.
    ///
    /// # Panics
    ///
    /// If cloning a key panics, or uses a keyed lock or a limiter: keys are cloned while a part of
    /// the table is locked.
    pub fn active_keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        // Copies that were made before one panics are dropped without a mutex.
        let mut keys = Vec::new();
        for shard in self.0.each() {
            for entry in shard.entries() {
                keys.push(Discard::new(key_code::run(|| entry.key.clone())));
            }
        }
        keys.into_iter().map(Discard::into_inner).collect()
    }

    /// Figures and sizes, over all keys.
    ///
    /// ```
    /// use doclock::lock::keyed::KeyedLock;
    ///
    /// let accounts: KeyedLock<u64> = KeyedLock::new();
    /// for account in 0..1000 {
    ///     accounts.execute_exclusive(&account, || ())?;
    /// }
    /// let stats = accounts.stats();
    /// assert_eq!((stats.total_acquisitions, stats.total_releases), (1000, 1000));
    /// assert_eq!((stats.active_keys, stats.queue_length), (0, 0));
    /// println!("{stats}");
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn stats(&self) -> KeyedStats {
        let mut counts = Counts::default();
        let mut sizes = [0; 3];
        for shard in self.0.each() {
            counts += shard.book.counts;
            for (sum, size) in sizes.iter_mut().zip(shard.sizes()) {
                *sum += size;
            }
        }
        let [wait, hold] = self.0.figures.lock().summaries(&counts);
        let [active_keys, queue_length, capacity] = sizes;
        KeyedStats {
            total_acquisitions: counts.acquisitions,
            total_releases: counts.releases,
            total_joins: counts.joins,
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

impl<K: Eq + Hash, V> KeyedLock<K, V> {
    /// Whether somebody executes a task for this key, or is about to. A look at one moment: to skip
    /// what is being done already without racing others, ask with
    /// [`no_wait`](crate::lock::AcquireOptions::no_wait).
    ///
    /// ```
    /// use doclock::lock::keyed::KeyedLock;
    ///
    /// let accounts: KeyedLock<String, bool> = KeyedLock::new();
    /// assert!(!accounts.is_active_key("ann"));
    /// let was_active = accounts.execute_exclusive("ann", || accounts.is_active_key("ann"))?;
    /// assert!(was_active && !accounts.is_active_key("ann"));
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn is_active_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (hash, shard) = self.0.look_up(key);
        shard.find_key(hash, key).is_some()
    }

    /// Who holds a key, and for what.
    pub fn current<Q>(&self, key: &Q) -> Option<LockInfo>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (hash, mut shard) = self.0.look_up(key);
        let now = self.0.clock.now();
        Some(shard.active_key(hash, key)?.current(now))
    }

    /// How many wait for their turn at a key.
    pub fn queue_length<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (hash, shard) = self.0.look_up(key);
        shard
            .find_key(hash, key)
            .map_or(0, |entry| entry.holder.waiting())
    }

    /// Who waits for their turn at a key, in order.
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
