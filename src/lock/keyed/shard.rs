//! What the mutex of one shard guards: the keys of it that are active, and what is counted.
//!
//! Time comes in as an argument and outcomes go out as return values; nothing here sleeps or wakes.
//! No code of users runs here but the comparison of keys that have one hash ([`Entry::is`]), before
//! anything is changed.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use super::active::Active;
use super::entry::{Entry, Hold, Holder, Spot, Stand, Turn, Waiter};
use super::execution::{Ended, Joiner};
use super::generations::{Generations, Gone};
use super::stats::Counts;
use crate::id::{FencingToken, LockId};
use crate::lock::discard::Discard;
use crate::lock::error::CancelEvidence;
use crate::lock::pace::Pace;
use crate::lock::request::{Asker, Outcome, Waiting};
use crate::lock::state::Next;
use crate::lock::tempo::{Measured, Tempo};
use crate::lock::{Grant, LockError};
use crate::queue::{Priority, Queue};
use crate::time::{Clock, Timestamp};

pub(super) struct Shard<K, V> {
    entries: HashTable<Entry<K, V>>,
    /// Of the key that was idle last, to be used for the next.
    spare: Option<Box<Holder<V>>>,
    pub(super) book: Book,
}

/// All of a shard that belongs to no key.
pub(super) struct Book {
    /// Which lock this is, in its ids.
    pub(super) lock: u32,
    index: u32,
    shards: u32,
    requests: u64,
    /// How often a thread found the mutex taken, while there is no other shard.
    pub(super) met: u32,
    pub(super) there: Generations,
    /// Who waits for all who are there; since somebody did.
    pub(super) drains: Option<Box<Queue<Gone, Waiter<dyn Waiting>>>>,
    tempo: Tempo,
    pub(super) pace: Pace,
    pub(super) counts: Counts,
}

/// What the end of a hold leaves to be done when the mutex is free again.
pub(super) struct Parting<K, V> {
    /// The key, if it is idle. Dropping it is code of users.
    pub(super) gone: Option<Discard<K>>,
    /// How long it was held, and for how many holds that stands.
    pub(super) held: Option<(Duration, u64)>,
    /// What is only there where somebody waited.
    pub(super) waited: Option<Box<Waited<V>>>,
}

pub(super) struct Waited<V> {
    /// How long the next holder did.
    pub(super) wait: Option<Duration>,
    /// The next holder comes first, then those who waited for all who were there once, of whom this
    /// was the last.
    pub(super) told: Vec<Next>,
    /// Who joined, and what.
    pub(super) joiners: Vec<Arc<dyn Joiner<V>>>,
    pub(super) task: Ended,
}

impl<K, V> Shard<K, V> {
    /// A table keeps room for so many keys once it had it. The first shard, which is all that most
    /// locks need, keeps the least.
    fn kept(&self) -> usize {
        match self.book.index + 1 == self.book.shards {
            true => 3,
            false => 14,
        }
    }

    /// One of so many shards, whose requests are numbered from there on.
    pub(super) fn new(lock: u32, [index, shards]: [u32; 2], requests: u64, tempo: Tempo) -> Self {
        Self {
            entries: HashTable::new(),
            spare: None,
            book: Book {
                lock,
                index,
                shards,
                requests,
                met: 0,
                there: Generations::default(),
                drains: None,
                tempo,
                pace: Pace::default(),
                counts: Counts::default(),
            },
        }
    }

    #[cold]
    fn nobody() -> Box<Holder<V>> {
        Box::new(Holder::nobody())
    }

    // --- Asking ---

    /// Makes whoever asks the holder of a key that is idle, and takes the copy of the key. Of one
    /// that is not, there is what can be done with it.
    #[inline(always)]
    pub(super) fn try_take<Q>(
        &mut self,
        hash: u64,
        key: &Q,
        copy: &mut Discard<K>,
        asker: &Asker<'_>,
        clock: &Clock,
    ) -> Result<Hold, Active<'_, K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let is_key = |entry: &Entry<K, V>| entry.is(hash, key);
        let slot = self.entries.entry(hash, is_key, |entry| entry.spot.hash);
        let vacant = match slot {
            Slot::Occupied(occupied) => {
                let entry = occupied.into_mut();
                let book = &mut self.book;
                return Err(Active { entry, book });
            }
            Slot::Vacant(vacant) => vacant,
        };
        let key = copy.take();
        let book = &mut self.book;
        let number = book.next_number();
        let began = number;
        let spot = Spot { hash, began };
        book.counts.acquisitions += 1;
        let generation = book.there.arrive();
        let measured = book.tempo.measure(|| clock.now());
        let mut holder = self.spare.take().unwrap_or_else(Self::nobody);
        holder.begin(number, generation, asker, measured);
        vacant.insert(Entry { spot, key, holder });
        Ok(Hold { spot, number })
    }

    pub(super) fn refuse_cancelled(&mut self, asker: &Asker<'_>) -> LockError {
        self.book.counts.cancellations += 1;
        LockError::Cancelled(Box::new(CancelEvidence::before_joining(asker.owner)))
    }

    /// Joins those who wait for all who are there. `None` when nobody is.
    pub(super) fn join_drain(
        &mut self,
        request: Arc<dyn Waiting>,
        now: Timestamp,
    ) -> Option<Stand> {
        let generation = self.book.there.close()?;
        let waiter = Waiter {
            number: self.book.next_number(),
            since: now,
            request,
        };
        for entry in &mut self.entries {
            entry.holder.since.observe(now);
        }
        let oldest = self.book.there.oldest();
        let drains = self.book.drains.get_or_insert_with(|| {
            let mut drains = Queue::new(Gone::default(), 0);
            drains.give_back(&oldest);
            Box::new(drains)
        });
        Some(Stand::Drain {
            shard: self.book.index as usize,
            generation,
            ticket: drains.join(generation, Priority::Normal, waiter),
        })
    }

    /// Refuses to have a thread wait for all who are there if it is there itself.
    pub(super) fn refuse_drain(
        &mut self,
        asker: &Asker<'_>,
        now: Timestamp,
    ) -> Result<(), LockError> {
        for entry in &mut self.entries {
            let book = &mut self.book;
            Active { entry, book }.refuse_reentry(asker, now)?;
        }
        Ok(())
    }

    // --- Ending ---

    /// Ends a hold; the next in line holds the key in the same step, or the key is idle and gone.
    #[inline(always)]
    pub(super) fn end(&mut self, hold: Hold, clock: &Clock) -> Option<Parting<K, V>> {
        let is_spot = |entry: &Entry<K, V>| entry.spot == hold.spot;
        let mut found = self.entries.find_entry(hold.spot.hash, is_spot).ok()?;
        let holder = &mut *found.get_mut().holder;
        if holder.number != hold.number {
            return None;
        }
        let book = &mut self.book;
        book.counts.releases += 1;
        // Whoever waits has looked when the hold began, so this is known where it matters.
        let measured = holder.since.known().map(|known| (known, clock.now()));
        let held = measured.map(|((since, weight), now)| (now - since, weight));
        if let Some((held, _)) = held {
            book.pace.take_in(held);
        }
        let is_last = book.there.leave(holder.generation);
        let mut waited = None;
        let mut is_idle = true;
        if is_last || holder.lines.is_some() {
            let now = measured.map_or_else(Timestamp::default, |(_, now)| now);
            let news = book.part(holder, now, is_last);
            is_idle = news.wait.is_none();
            waited = Some(news);
        }
        let mut gone = None;
        if is_idle {
            let (Entry { key, holder, .. }, _) = found.remove();
            self.keep(holder);
            self.fit();
            gone = Some(Discard::new(key));
        }
        Some(Parting { gone, held, waited })
    }

    /// Keeps what can be used again.
    #[inline(always)]
    fn keep(&mut self, mut holder: Box<Holder<V>>) {
        holder.clear();
        self.spare = Some(holder);
    }

    /// Gives memory back once seven eighths of it are unused: as many keys again have to come, or
    /// three quarters of them to go, before it is allocated anew.
    #[inline(always)]
    fn fit(&mut self) {
        let capacity = self.entries.capacity();
        if capacity > self.kept() && self.entries.len() <= capacity / 8 {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        let room = self.kept().max(self.entries.len() * 2);
        self.entries.shrink_to(room, |entry| entry.spot.hash);
    }

    // --- Looking ---

    /// Whether it is the shard of this index, and none of its active keys has such a hash.
    #[inline(always)]
    pub(super) fn is_last_of(&self, index: usize, belongs: impl Fn(u64) -> bool) -> bool {
        self.book.index as usize == index
            && !self.entries.iter().any(|entry| belongs(entry.spot.hash))
    }

    pub(super) fn find(&self, spot: Spot) -> Option<&Entry<K, V>> {
        self.entries.find(spot.hash, |entry| entry.spot == spot)
    }

    pub(super) fn find_key<Q>(&self, hash: u64, key: &Q) -> Option<&Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.entries.find(hash, |entry| entry.is(hash, key))
    }

    pub(super) fn active(&mut self, spot: Spot) -> Option<Active<'_, K, V>> {
        let is_spot = |entry: &Entry<K, V>| entry.spot == spot;
        let entry = self.entries.find_mut(spot.hash, is_spot)?;
        let book = &mut self.book;
        Some(Active { entry, book })
    }

    pub(super) fn active_key<Q>(&mut self, hash: u64, key: &Q) -> Option<Active<'_, K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let is_key = |entry: &Entry<K, V>| entry.is(hash, key);
        let entry = self.entries.find_mut(hash, is_key)?;
        let book = &mut self.book;
        Some(Active { entry, book })
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<K, V>> {
        self.entries.iter()
    }

    /// How many keys are active, how many requests wait for a turn, and for how many keys there is
    /// room.
    pub(super) fn sizes(&self) -> [usize; 3] {
        let active = self.entries.len();
        let waiting = self.book.there.len().saturating_sub(active);
        [active, waiting, self.entries.capacity()]
    }
}

impl Book {
    /// Numbers rise, and no two shards give the same.
    #[inline(always)]
    pub(super) fn next_number(&mut self) -> u64 {
        self.requests += 1;
        self.requests * u64::from(self.shards) + u64::from(self.index)
    }

    /// The figures have just taken their time.
    pub(super) fn pardon(&mut self) {
        self.tempo.pardon();
    }

    /// How many requests were numbered.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// Has the next request numbered higher than any of another shard that has numbered so many.
    pub(super) fn follow(&mut self, requests: u64) {
        self.requests = self.requests.max(requests);
    }

    pub(super) fn id(&self, number: u64) -> LockId {
        let lock = self.lock;
        LockId { number, lock }
    }

    /// Hands a key on, and parts with those who waited for its holder to be done.
    #[cold]
    fn part<V>(&mut self, holder: &mut Holder<V>, now: Timestamp, is_last: bool) -> Box<Waited<V>> {
        let mut news = Box::new(Waited {
            wait: None,
            told: Vec::new(),
            joiners: Vec::new(),
            task: Ended {
                id: self.id(holder.number),
                owner: holder.claim.owner.clone(),
                label: holder.claim.label.clone(),
            },
        });
        if let Some(lines) = &mut holder.lines {
            news.joiners = lines.part();
            if let Some(Turn { waiter, generation }) = lines.without_combining() {
                self.counts.acquisitions += 1;
                news.wait = Some(now - waiter.since);
                let asker = waiter.request.asker();
                holder.begin(waiter.number, generation, &asker, Some(Measured::once(now)));
                let granted = Outcome::Granted(holder.grant(self.lock));
                news.told.push(Next::Tell(waiter.request, granted));
            }
        }
        if is_last {
            news.told.extend(self.pass());
        }
        news
    }

    /// Who waited for those who are gone now.
    pub(super) fn pass(&mut self) -> Vec<Next> {
        let mut told = Vec::new();
        if let Some(drains) = &mut self.drains {
            drains.give_back(&self.there.oldest());
            while let Some(Waiter {
                number, request, ..
            }) = drains.next()
            {
                let id = LockId {
                    number,
                    lock: self.lock,
                };
                let grant = Grant::new(id, FencingToken(number), false);
                told.push(Next::Tell(request, Outcome::Granted(grant)));
            }
        }
        told
    }
}
