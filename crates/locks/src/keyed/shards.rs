//! The shards of a keyed lock, and what a request finds there.

use std::hash::BuildHasher;

use super::request::TurnWait;
use super::*;
use crate::hashing::Secret;
use crate::id::random_session;
use crate::stats::Durations;
use crate::sync::{MutexGuard, rank};
use crate::wait::HowToWait;

/// Enough that threads seldom meet at one. Two in a model, so that they do meet.
pub(super) const SHARDS: usize = if cfg!(loom) { 2 } else { 16 };

/// The keys of a lock, each in the shard that its hash names.
pub(super) struct KeyedShards<K, V> {
    shards: Box<[PaddedShard<K, V>; SHARDS]>,
    /// The lock's number, a part of its ids.
    pub(super) lock: u32,
    pub(super) clock: Clock,
    timeout: Option<Duration>,
    queue_bound: usize,
    pub(super) metrics: Mutex<{ rank::METRICS }, Durations>,
    pub(super) keeper: KeeperSlot,
}

/// On cache lines of its own, so that threads at different shards do not contend for one.
#[repr(align(128))]
struct PaddedShard<K, V>(ShardMutex<K, V>);

pub(super) type ShardMutex<K, V> = Mutex<{ rank::KEYS }, Shard<K, V>>;

pub(super) type KeyedGuard<'a, K, V> = MutexGuard<'a, { rank::KEYS }, Shard<K, V>>;

impl<K, V> KeyedShards<K, V> {
    pub(super) fn new(options: KeyedOptions) -> Self {
        let lock = random_session();
        let clock = options.clock;
        let shard = |index| {
            let sampling = Sampling::new(&clock);
            PaddedShard(Mutex::new(Shard::new(lock, index, sampling)))
        };
        Self {
            shards: Box::new(std::array::from_fn(shard)),
            lock,
            timeout: options.timeout,
            queue_bound: options.queue_bound.unwrap_or(usize::MAX),
            metrics: Mutex::default(),
            keeper: KeeperSlot::default(),
            clock,
        }
    }

    /// Returns the hash of a key, and its shard. The bits that select the shard are none of those
    /// by which its table finds the key: the lowest, and the highest seven.
    #[inline(always)]
    pub(super) fn look_up<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> (u64, KeyedGuard<'_, K, V>)
    where
        K: Borrow<Q>,
    {
        let hash = Secret.hash_one(key);
        (hash, self.shards[(hash >> 40) as usize % SHARDS].0.lock())
    }

    /// Reads a key, if it is active.
    pub(super) fn read<Q: Eq + Hash + ?Sized, T>(
        &self,
        key: &Q,
        read: impl FnOnce(Active<'_, K, V>) -> T,
    ) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let (hash, mut shard) = self.look_up(key);
        let id = shard.entries.find(hash, |own| own.borrow() == key)?.id;
        shard.active(id).map(read)
    }

    /// Returns the shard that issued this number.
    #[inline(always)]
    pub(super) fn shard_with(&self, number: u64) -> KeyedGuard<'_, K, V> {
        self.shards[number as usize % SHARDS].0.lock()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &ShardMutex<K, V>> {
        self.shards.iter().map(|shard| &shard.0)
    }

    pub(super) fn shard_of(&self, waiting_at: KeyedPosition) -> KeyedGuard<'_, K, V> {
        self.shard_with(match waiting_at {
            KeyedPosition::Turn(key, _) | KeyedPosition::Join(key, _) => key.number,
            KeyedPosition::Drain(number) => number,
        })
    }

    pub(super) fn how_to_wait(&self, options: &AcquireOptions) -> HowToWait {
        options.how_to_wait(self.timeout, self.queue_bound, &self.clock)
    }
}

impl<K: 'static, V: 'static> KeyedShards<K, V> {
    /// Grants an idle key. For an active one, returns a queue position if the request `waits`.
    #[inline(always)]
    pub(super) fn ask<Q: Eq + Hash + ToOwned<Owned = K> + ?Sized>(
        self: &Arc<Self>,
        key: &Q,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        waits: bool,
    ) -> Result<Option<Reservation<K, V>>, LockError>
    where
        K: Borrow<Q>,
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
        let (hold, waits) = match shard.try_take(hash, key, &mut copy, requester, &self.clock) {
            Ok(hold) => {
                drop(shard);
                (hold, None)
            }
            Err(key) if waits => self.join_queue(shard, key, requester, options)?,
            Err(_) => return Ok(None),
        };
        let turn = Reservation {
            shared: Arc::clone(self),
            hold,
            waits,
            thread: requester.thread,
            is_used: false,
        };
        // If the drop of the copy panics, the turn is given up.
        drop(copy);
        Ok(Some(turn))
    }

    #[cold]
    fn join_queue(
        self: &Arc<Self>,
        mut shard: KeyedGuard<'_, K, V>,
        key: KeyId,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<(Hold, TurnWait<K, V>), LockError> {
        let mut active = shard.active(key).expect("it was just found");
        let now = self.clock.now();
        active.refuse_reentry(requester.owner, requester.thread, now)?;
        // The timeout begins first: threads that see the request in the queue rely on that.
        let how = self.how_to_wait(options);
        let waiting = active.entry.state.waiting();
        if !how.may_wait(waiting) {
            let holder = how.is_at_once().then(|| Box::new(active.current(now)));
            let counts = &mut active.state.counts;
            return Err(how.refuse(requester.owner, waiting, holder, counts));
        }
        let request = Arc::new(Request::new(requester, None, None));
        let waiter: Waiter = active.waiter(request.clone(), now);
        let number = waiter.number;
        active.state.present += 1;
        let turns = &mut active.entry.state.queues().turns;
        let waiting_at = KeyedPosition::Turn(key, turns.join(Priority::Normal, waiter));
        let spins = active.state.pace.spins(how.limit());
        let waits = KeyedRequest::new(self, waiting_at, request, spins);
        let waits = Box::new(waits.until(how.deadline, options));
        Ok((Hold { key, number }, Some(waits)))
    }

    /// Joins the waits for all present requests. Refuses a thread that has such a request itself.
    pub(super) fn join_drains(
        self: &Arc<Self>,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<Vec<KeyedRequest<K, V, Infallible>>, LockError> {
        let (deadline, mut queued) = (self.how_to_wait(options).deadline, Vec::new());
        for mut shard in self.each().map(Mutex::lock) {
            let (Shard { entries, state }, now) = (&mut *shard, self.clock.now());
            for entry in entries.iter_mut() {
                entry.state.since.observe(now);
                Active { entry, state }.refuse_reentry(requester.owner, requester.thread, now)?;
            }
            if state.present > 0 {
                let request = Arc::new(Request::new(requester, None, None));
                let waiting_at = state.join_drain(request.clone(), now);
                let waits = KeyedRequest::new(self, waiting_at, request, 0);
                queued.push(waits.until(deadline, options));
            }
        }
        Ok(queued)
    }
}
