//! The shards of a keyed lock, and what a request finds there.

use std::borrow::Borrow;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::iter;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::KeyedOptions;
use super::entry::{Hold, KeyedPosition};
use super::queued::KeyedRequest;
use super::reservation::Reservation;
use super::shard::Shard;
use crate::hashing::Secret;
use crate::id::random_session;
use crate::keeper::KeeperSlot;
use crate::key_table::KeyId;
use crate::options;
use crate::request::{Request, Requester};
use crate::sampling::Sampling;
use crate::stats::Durations;
use crate::sync::{AtomicU64, Mutex, MutexGuard, rank};
use crate::time::Clock;
use crate::wait::WaitDeadline;
use crate::{AcquireOptions, LockError};

/// Enough that threads seldom meet at one. Two in a model, so that they do meet.
pub(super) const SHARDS: usize = if cfg!(loom) { 2 } else { 64 };

/// After this many meetings of threads at the first shard, the others are made.
const MEETINGS: u32 = 8;

/// All keys are in the first shard until threads meet there. Then the others are made, and each key
/// moves to its own shard when it becomes active the next time.
///
/// K10. A key is active in one shard at most. Under the mutex of the first shard, keys are
/// added to it only while there is no other. So a thread that finds a key active there, or does not
/// find it and goes on to its own shard, is at the right shard.
pub(super) struct KeyedShards<K, V> {
    /// A bit for each of the other shards: whether keys of that shard may still be active in the
    /// first.
    gathered: AtomicU64,
    /// Made under the mutex of the first shard.
    pub(super) others: OnceLock<Box<[PaddedShard<K, V>; SHARDS]>>,
    /// The lock's number, a part of its ids.
    pub(super) lock: u32,
    pub(super) clock: Clock,
    timeout: Option<options::PackedDuration>,
    queue_bound: usize,
    pub(super) metrics: Mutex<{ rank::METRICS }, Durations>,
    pub(super) keeper: KeeperSlot,
    first: ShardMutex<K, V>,
}

/// On cache lines of its own, so that threads at different shards do not contend for one.
#[repr(align(128))]
pub(super) struct PaddedShard<K, V>(ShardMutex<K, V>);

pub(super) type ShardMutex<K, V> = Mutex<{ rank::KEYS }, Shard<K, V>>;

pub(super) type KeyedGuard<'a, K, V> = MutexGuard<'a, { rank::KEYS }, Shard<K, V>>;

/// What a request finds. The guard comes first: the copy of the key is dropped without the mutex.
enum Asked<'a, K, V> {
    Granted(Hold),
    Active {
        shard: KeyedGuard<'a, K, V>,
        key: KeyId,
        copy: Option<K>,
    },
}

/// The turn of a request, and its wait if it waits.
pub(super) struct KeyedWait<K: 'static, V: 'static> {
    pub(super) hold: Hold,
    /// Set while the request waits.
    pub(super) waits: Option<Box<KeyedRequest<K, V, Infallible>>>,
}

impl<K, V> KeyedShards<K, V> {
    pub(super) fn new(options: KeyedOptions) -> Self {
        let lock = random_session();
        let clock = options.clock;
        let first = Shard::new(lock, Self::numbering(SHARDS), 0, Sampling::new(&clock));
        Self {
            gathered: AtomicU64::new(u64::MAX),
            others: OnceLock::new(),
            lock,
            timeout: options.timeout.and_then(options::PackedDuration::new),
            queue_bound: options.queue_bound.unwrap_or(usize::MAX),
            metrics: Mutex::default(),
            keeper: KeeperSlot::default(),
            clock,
            first: Mutex::new(first),
        }
    }

    /// Returns the shard's index among all; the first shard has the last index.
    fn numbering(index: usize) -> [u32; 2] {
        [index as u32, SHARDS as u32 + 1]
    }

    /// Returns the shard of a key. The bits that select it are none of those by which its table
    /// finds it: the lowest, and the highest seven.
    #[inline(always)]
    pub(super) fn index(hash: u64) -> usize {
        (hash >> 40) as usize % SHARDS
    }

    /// Returns the hash of a key, and its shard.
    #[inline(always)]
    pub(super) fn look_up<Q>(&self, key: &Q) -> (u64, KeyedGuard<'_, K, V>)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let hash = Secret.hash_one(key);
        let index = Self::index(hash);
        let gathered = self.gathered.load(Ordering::Acquire) & (1 << index) != 0;
        let shard = match self.others.get() {
            Some(others) if !gathered => others[index].0.lock(),
            _ => self.look_up_in_first(hash, key),
        };
        (hash, shard)
    }

    fn look_up_in_first<Q>(&self, hash: u64, key: &Q) -> KeyedGuard<'_, K, V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let first = self.lock_first();
        let Some(others) = self.others.get() else {
            return first;
        };
        if first.find_key(hash, key).is_some() {
            return first;
        }
        // Tokens of one key rise, in whichever shard it is.
        let requests = first.state.requests;
        drop(first);
        let mut shard = others[Self::index(hash)].0.lock();
        shard.state.follow(requests);
        shard
    }

    /// Locks the first shard. Makes the others if threads meet too often here.
    #[inline]
    fn lock_first(&self) -> KeyedGuard<'_, K, V> {
        self.first.try_lock().unwrap_or_else(|| self.meet())
    }

    #[cold]
    fn meet(&self) -> KeyedGuard<'_, K, V> {
        let mut first = self.first.lock();
        if self.others.get().is_none() {
            first.state.meetings += 1;
            if first.state.meetings >= MEETINGS {
                self.spread(&first);
            }
        }
        first
    }

    /// Makes the other shards.
    pub(super) fn spread(&self, first: &Shard<K, V>) {
        let requests = first.state.requests;
        let others = std::array::from_fn(|index| {
            let sampling = Sampling::new(&self.clock);
            let shard = Shard::new(self.lock, Self::numbering(index), requests, sampling);
            PaddedShard(Mutex::new(shard))
        });
        let made = self.others.set(Box::new(others));
        debug_assert!(made.is_ok(), "looked up under the same mutex");
        let active = first.entries().map(|entry| Self::index(entry.id.hash));
        let gathered = active.fold(0, |bits, index| bits | 1 << index);
        self.gathered.store(gathered, Ordering::Release);
    }

    #[cfg(loom)]
    pub(super) fn spread_now(&self) {
        let first = self.first.lock();
        self.spread(&first);
    }

    /// Records that a key of the first shard is idle; its requests are numbered up to `requests`
    /// now. If it was the last of its own shard, threads no longer look in the first.
    #[cold]
    pub(super) fn leave_first(&self, hash: u64, requests: u64) {
        let index = Self::index(hash);
        if let Some(others) = self.others.get() {
            others[index].0.lock().state.follow(requests);
            self.gathered.fetch_and(!(1 << index), Ordering::AcqRel);
        }
    }

    /// Returns the shard that issued this number.
    #[inline(always)]
    pub(super) fn shard_with(&self, number: u64) -> KeyedGuard<'_, K, V> {
        match self.others.get() {
            Some(_) => self.shard_at((number % (SHARDS as u64 + 1)) as usize),
            None => self.lock_first(),
        }
    }

    fn shard_at(&self, index: usize) -> KeyedGuard<'_, K, V> {
        match self.others.get() {
            Some(others) if index < SHARDS => others[index].0.lock(),
            _ => self.lock_first(),
        }
    }

    /// Returns all shards that there are, the first one first.
    pub(super) fn each(&self) -> impl Iterator<Item = &ShardMutex<K, V>> {
        let others = iter::once_with(|| self.others.get()).flatten();
        let others = others.flat_map(|others| others.iter());
        iter::once(&self.first).chain(others.map(|shard| &shard.0))
    }

    pub(super) fn shard_of(&self, waiting_at: KeyedPosition) -> KeyedGuard<'_, K, V> {
        match waiting_at {
            KeyedPosition::Turn(key, _) | KeyedPosition::Join(key, _) => {
                self.shard_with(key.number)
            }
            KeyedPosition::Drain { shard, .. } => self.shard_at(shard),
        }
    }

    // --- Waiting ---

    /// Returns the timeout of a request with these options.
    pub(super) fn limit(&self, options: &AcquireOptions) -> Option<Duration> {
        options.limit(self.timeout.map(options::PackedDuration::get))
    }

    /// Returns that timeout with its deadline, if it begins now.
    pub(super) fn deadline(&self, options: &AcquireOptions) -> WaitDeadline {
        let limit = self.limit(options)?;
        Some((limit, self.clock.deadline(limit)?))
    }
}

impl<K: 'static, V: 'static> KeyedShards<K, V> {
    /// Grants an idle key. For an active one, returns all that a wait needs.
    #[inline(always)]
    fn try_ask<Q>(
        &self,
        key: &Q,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<Asked<'_, K, V>, LockError>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        // The token's mutex is not locked under the shard's.
        let is_cancelled = options.is_cancelled();
        // Copied, and dropped if unused, without the shard's mutex.
        let mut copy = (!is_cancelled).then(|| key.to_owned());
        let (hash, mut shard) = self.look_up(key);
        if is_cancelled {
            shard.state.counts.total_cancellations += 1;
            return Err(LockError::cancelled(requester.owner));
        }
        match shard.try_take(hash, key, &mut copy, requester, &self.clock) {
            Ok(hold) => Ok(Asked::Granted(hold)),
            Err(key) => Ok(Asked::Active { shard, key, copy }),
        }
    }

    /// Grants an idle key. `None` if the key is active.
    pub(super) fn try_grant<Q>(
        &self,
        key: &Q,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<Option<Hold>, LockError>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        match self.try_ask(key, requester, options)? {
            Asked::Granted(hold) => Ok(Some(hold)),
            Asked::Active { .. } => Ok(None),
        }
    }

    /// Returns a turn at a key, or a queue position for it. A thread may reserve a turn while it
    /// executes another at the same key, because a reservation does not wait.
    #[inline(always)]
    pub(super) fn ask<Q>(
        self: &Arc<Self>,
        key: &Q,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        reserves: bool,
    ) -> Result<KeyedWait<K, V>, LockError>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        match self.try_ask(key, requester, options)? {
            Asked::Granted(hold) => Ok(KeyedWait { hold, waits: None }),
            Asked::Active { shard, key, copy } => {
                let position = self.join_queue(shard, key, requester, options, reserves)?;
                // If the drop of the copy panics, the turn is given up.
                let turn = Reservation::new(self, position, None, 0);
                drop(copy);
                Ok(turn.into_place())
            }
        }
    }

    #[cold]
    fn join_queue(
        self: &Arc<Self>,
        mut shard: KeyedGuard<'_, K, V>,
        key: KeyId,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        reserves: bool,
    ) -> Result<KeyedWait<K, V>, LockError> {
        let mut active = shard.active(key).expect("it was just found");
        let now = self.clock.now();
        if !reserves {
            active.refuse_reentry(requester, now)?;
        }
        let limit = self.limit(options);
        let bound = options.queue_bound.unwrap_or(usize::MAX);
        let bound = bound.min(self.queue_bound);
        active.refuse_waiting(requester, limit, bound, now)?;
        let request = Arc::new(Request::new(requester, None));
        // The deadline comes first: threads that see the request in the queue rely on a running
        // timeout.
        let deadline = self.deadline(options);
        let (waiting_at, hold) = active.join_queue(request.clone(), now);
        let spins = active.state.pace.spins(limit);
        let queued = KeyedRequest::new(self, waiting_at, request, spins, deadline);
        let waits = Some(Box::new(queued));
        Ok(KeyedWait { hold, waits })
    }

    /// Joins the waits for all present requests. Refuses a thread that has such a request itself.
    pub(super) fn join_drains(
        self: &Arc<Self>,
        requester: &Requester<'_>,
        deadline: WaitDeadline,
    ) -> Result<Vec<KeyedRequest<K, V, Infallible>>, LockError> {
        let mut queued = Vec::new();
        for mut shard in self.each().map(Mutex::lock) {
            let request = Arc::new(Request::new(requester, None));
            let waiting_at = shard.join_drain(request.clone(), requester, self.clock.now())?;
            let waits = |waiting_at| KeyedRequest::new(self, waiting_at, request, 0, deadline);
            queued.extend(waiting_at.map(waits));
        }
        Ok(queued)
    }
}
