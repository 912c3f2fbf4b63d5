//! The shards of a keyed lock, and those who wait at them.

use std::borrow::Borrow;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use super::KeyedOptions;
use super::active::Active;
use super::entry::{Hold, Stand};
use super::execution::Ending;
use super::shard::{Parting, Shard, Waited};
use super::stats::Figures;
use crate::caught::catch;
use crate::id::{LockId, random_session};
use crate::lock::request::{Asker, Errand, Outcome, Request, Waiting};
use crate::lock::state::Next;
use crate::lock::tempo::Tempo;
use crate::lock::wait::{self, Line, Reason, Wait};
use crate::lock::{AcquireOptions, CancelToken, LockError};
use crate::sync::{Mutex, MutexGuard, rank, thread_number};
use crate::time::{Clock, Deadline};

/// Enough for threads to seldom meet at one. In a model two, so that they do.
pub(super) const SHARDS: usize = if cfg!(loom) { 2 } else { 64 };

#[cfg(not(loom))]
type Hashing = foldhash::fast::RandomState;
/// In a model each execution has the keys in the same shards.
#[cfg(loom)]
type Hashing = foldhash::fast::FixedState;

pub(super) struct Shared<K, V> {
    shards: Box<[Apart<K, V>]>,
    hashing: Hashing,
    /// Which lock this is, in its ids.
    lock: u32,
    pub(super) clock: Clock,
    wait_limit: Option<Duration>,
    queue_bound: Option<usize>,
    pub(super) figures: Mutex<{ rank::FIGURES }, Figures>,
}

/// On cache lines of its own, so that threads at different shards do not wait for each other's caches.
#[repr(align(128))]
struct Apart<K, V>(Mutex<{ rank::LOCK }, Shard<K, V>>);

/// The turn of somebody who asked.
pub(super) struct Place<K, V> {
    pub(super) hold: Hold,
    /// What comes before it.
    pub(super) waits: Option<Box<Waits<K, V>>>,
}

/// A place in line for a turn, with its limit.
pub(super) struct Waits<K, V> {
    standing: Standing<K, V, Infallible>,
    deadline: Limit,
}

pub(super) type Limit = Option<(Duration, Deadline)>;

impl<K, V> Shared<K, V> {
    pub(super) fn new(options: KeyedOptions) -> Self {
        let lock = random_session();
        let clock = options.clock;
        let shards = (0..SHARDS).map(|index| {
            let tempo = Tempo::of_a_share(&clock, SHARDS as u32);
            Apart(Mutex::new(Shard::new(lock, index, SHARDS, tempo)))
        });
        Self {
            shards: shards.collect(),
            hashing: Hashing::default(),
            lock,
            wait_limit: options.wait_limit,
            queue_bound: options.queue_bound,
            figures: Mutex::default(),
            clock,
        }
    }

    /// The hash of a key, and its shard.
    pub(super) fn look_up<Q: Hash + ?Sized>(
        &self,
        key: &Q,
    ) -> (u64, MutexGuard<'_, { rank::LOCK }, Shard<K, V>>) {
        let hash = self.hashing.hash_one(key);
        (hash, self.shard(hash))
    }

    /// The shard of a key. The bits that choose it are none of those by which its table finds it: the lowest, and the highest seven.
    #[inline(always)]
    pub(super) fn shard(&self, hash: u64) -> MutexGuard<'_, { rank::LOCK }, Shard<K, V>> {
        let index = (hash >> 40) as usize % SHARDS;
        self.shards[index].0.lock()
    }

    /// All shards, one after the other.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, { rank::LOCK }, Shard<K, V>>> {
        self.shards.iter().map(|shard| shard.0.lock())
    }

    fn shard_of(&self, stand: Stand) -> MutexGuard<'_, { rank::LOCK }, Shard<K, V>> {
        match stand {
            Stand::Turn(spot, _) | Stand::Join(spot, _) => self.shard(spot.hash),
            Stand::Drain { shard, .. } => self.shards[shard].0.lock(),
        }
    }

    // --- Waiting ---

    /// How long a request waits that is made in this way.
    pub(super) fn limit(&self, options: &AcquireOptions) -> Option<Duration> {
        options.limit(self.wait_limit)
    }

    /// That limit, and when it will have passed if it begins now.
    pub(super) fn deadline(&self, options: &AcquireOptions) -> Limit {
        let limit = self.limit(options)?;
        Some((limit, self.clock.deadline(limit)?))
    }

    /// A turn at a key, or a place in line for it. Who only reserves a turn may do so from within another at the same key, because
    /// it does not wait there for itself.
    #[inline(always)]
    pub(super) fn ask<Q>(
        self: &Arc<Self>,
        key: &Q,
        asker: &Asker<'_>,
        options: &AcquireOptions,
        reserves: bool,
    ) -> Result<Place<K, V>, LockError>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hashing.hash_one(key);
        // The token's mutex is not taken under the shard's.
        let is_cancelled = options
            .cancel
            .as_ref()
            .is_some_and(CancelToken::is_cancelled);
        let mut shard = self.shard(hash);
        if is_cancelled {
            return Err(shard.refuse_cancelled(asker));
        }
        match shard.try_take(hash, key, asker, &self.clock) {
            Ok(hold) => Ok(Place { hold, waits: None }),
            Err(active) => self.join_line(active, asker, options, reserves),
        }
    }

    #[cold]
    fn join_line(
        self: &Arc<Self>,
        mut active: Active<'_, K, V>,
        asker: &Asker<'_>,
        options: &AcquireOptions,
        reserves: bool,
    ) -> Result<Place<K, V>, LockError> {
        let now = self.clock.now();
        if !reserves {
            active.refuse_reentry(asker, now)?;
        }
        let limit = self.limit(options);
        let bounds = [options.queue_bound, self.queue_bound];
        let bound = bounds.into_iter().flatten().min();
        active.refuse_waiting(asker, limit, bound, now)?;
        let request = Arc::new(Request::new(asker, None));
        // The deadline comes first: whoever sees the request in the line may count on its limit running.
        let deadline = self.deadline(options);
        let (stand, hold) = active.join_line(request.clone(), now);
        let looks = active.book.pace.looks(limit);
        let standing = Standing::new(self, stand, request, looks);
        let waits = Some(Box::new(Waits { standing, deadline }));
        Ok(Place { hold, waits })
    }

    /// Takes a waiter out of its line, if it still stands there, without telling it.
    fn leave(&self, stand: Stand) {
        self.shard_of(stand).leave(stand);
    }

    /// Joins those who wait for all who are there now. Refused for a thread that is there itself.
    pub(super) fn join_drains(
        self: &Arc<Self>,
        asker: &Asker<'_>,
    ) -> Result<Vec<Standing<K, V, Infallible>>, LockError> {
        let mut standing = Vec::new();
        for mut shard in self.each() {
            let now = self.clock.now();
            shard.refuse_drain(asker, now)?;
            let request = Arc::new(Request::new(asker, None));
            let stand = shard.join_drain(request.clone(), now);
            standing.extend(stand.map(|stand| Standing::new(self, stand, request, 0)));
        }
        Ok(standing)
    }

    // --- Executing ---

    /// Executes a task under a hold, and ends that.
    #[inline(always)]
    pub(super) fn execute(&self, hold: Hold, task: impl FnOnce() -> V) -> V {
        // Nobody sees what a panic leaves behind before it goes on.
        match catch(task) {
            Ok(value) => {
                self.end(hold, &Ending::Done(&value));
                value
            }
            Err(panic) => {
                self.end(hold, &Ending::Panicked(&panic));
                panic.resume()
            }
        }
    }

    #[inline(always)]
    pub(super) fn end(&self, hold: Hold, ending: &Ending<'_, V>) {
        let parting = self.shard(hold.spot.hash).end(hold, &self.clock);
        if let Some(parting) = parting {
            self.part(parting, ending);
        }
    }

    /// Does what is left to be done, with no mutex held.
    #[inline(always)]
    fn part(&self, parting: Parting<K, V>, ending: &Ending<'_, V>) {
        let Parting { gone, held, waited } = parting;
        if held.is_some() || waited.is_some() {
            self.tell(held, waited, ending);
        }
        drop(gone);
    }

    #[cold]
    fn tell(
        &self,
        held: Option<(Duration, u64)>,
        waited: Option<Box<Waited<V>>>,
        ending: &Ending<'_, V>,
    ) {
        let wait = waited.as_ref().and_then(|waited| waited.wait);
        let joined = waited.map(|waited| {
            waited.told.into_iter().for_each(Next::deliver);
            (waited.task, waited.joiners)
        });
        self.figures.lock().record(held, wait);
        if let Some((task, joiners)) = joined {
            // Those who have left meanwhile leave their clones behind, and dropping these is code of users. So nobody is let go
            // of before everybody was told.
            for joiner in &joiners {
                joiner.share(&task, ending);
            }
        }
    }

    pub(super) fn id(&self, hold: Hold) -> LockId {
        let (number, lock) = (hold.number, self.lock);
        LockId { number, lock }
    }

    /// Ties a hold to the thread that is about to execute its task.
    pub(super) fn tie(&self, hold: Hold) {
        if let Some(active) = self.shard(hold.spot.hash).active(hold.spot) {
            active.entry.holder.claim.thread = thread_number();
        }
    }
}

impl<K: Send + 'static, V: 'static> Line for Shared<K, V> {
    type Ticket = Stand;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn withdraw(&self, stand: Stand, reason: Reason) {
        let told = {
            let mut shard = self.shard_of(stand);
            let now = self.clock.now();
            shard.withdraw(stand, reason, now)
        };
        if let Some(next) = told {
            next.deliver();
        }
    }
}

/// A request that stands in a line, and leaves it when this is dropped.
pub(super) struct Standing<K, V, W: Errand> {
    shared: Arc<Shared<K, V>>,
    request: Arc<Request<W>>,
    stand: Stand,
    looks: u32,
    /// Whether it is yet to learn what becomes of it.
    stands: bool,
}

impl<K, V, W: Errand> Standing<K, V, W> {
    pub(super) fn new(
        shared: &Arc<Shared<K, V>>,
        stand: Stand,
        request: Arc<Request<W>>,
        looks: u32,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            request,
            stand,
            looks,
            stands: true,
        }
    }

    pub(super) fn deadline(&self, options: &AcquireOptions) -> Limit {
        self.shared.deadline(options)
    }

    /// Refuses to wait for the calling thread.
    pub(super) fn refuse_self(&self) -> Result<(), LockError> {
        let asker = Asker {
            thread: thread_number(),
            ..self.request.asker()
        };
        let mut shard = self.shared.shard_of(self.stand);
        let now = self.shared.clock.now();
        shard.refuse_self(self.stand, &asker, now)
    }
}

impl<K: Send + 'static, V: 'static, W: Errand> Standing<K, V, W> {
    pub(super) fn wait(
        mut self,
        deadline: Limit,
        cancel: Option<&CancelToken>,
    ) -> Outcome<W::Reply> {
        self.stands = false;
        let wait = Wait {
            ticket: self.stand,
            deadline,
            alarm: None,
            looks: self.looks,
        };
        wait::wait(&self.shared, &self.request, cancel, wait)
    }
}

impl<K: Send + 'static, V: 'static> Waits<K, V> {
    pub(super) fn refuse_self(&self) -> Result<(), LockError> {
        self.standing.refuse_self()
    }

    pub(super) fn wait(self, cancel: Option<&CancelToken>) -> Result<(), LockError> {
        self.standing.wait_for_grant(self.deadline, cancel)
    }
}

impl<K: Send + 'static, V: 'static> Standing<K, V, Infallible> {
    pub(super) fn wait_for_grant(
        self,
        deadline: Limit,
        cancel: Option<&CancelToken>,
    ) -> Result<(), LockError> {
        match self.wait(deadline, cancel) {
            Outcome::Granted(_) => Ok(()),
            Outcome::Failed(error) => Err(*error),
            Outcome::Done(never) => match never {},
            Outcome::Panicked(panic) => panic.resume(),
        }
    }
}

impl<K, V, W: Errand> Drop for Standing<K, V, W> {
    fn drop(&mut self) {
        if self.stands {
            self.shared.leave(self.stand);
        }
    }
}
