//! The data behind the mutex of one shard: its active keys with their holders and waiters, and its
//! counters.
//!
//! Time comes in as an argument and outcomes go out as return values; nothing here sleeps or wakes.
//! The only code of users that runs here is the comparison of keys with the same hash, before any
//! change.

use std::collections::VecDeque;
use std::{iter, mem};

use super::execution::EndedTask;
use super::shards::SHARDS;
use super::*;
use crate::error::TimeoutEvidence;
use crate::id::FencingToken;
use crate::key_table::{KeyEntry, KeyTable};
use crate::queue::WaitList;
use crate::request::{Answer, Holder};
use crate::sampling::{HoldStart, Pace};
use crate::time::MonotonicTime;

pub(super) struct Shard<K, V> {
    /// With room for three keys that is kept, and the memory of one.
    pub(super) entries: KeyTable<K, KeyHolder<V>, 3, 1>,
    pub(super) state: ShardState,
}

/// The data of a shard that belongs to no key.
pub(super) struct ShardState {
    /// The lock's number, a part of its ids.
    pub(super) lock: u32,
    number: u64,
    /// How many requests hold a key or wait for one.
    pub(super) present: usize,
    /// The waits for all present requests, oldest first. Each waits for all that the one before it
    /// waits for.
    pub(super) drains: VecDeque<Drain>,
    /// For how many requests they wait.
    waited_for: usize,
    sampling: Sampling,
    pub(super) pace: Pace,
    pub(super) counts: LockCounters,
    pub(super) joins: u64,
}

/// The holder of a key, with the number of its request and the queues of the key. The first waiter
/// sets these. They are kept until the key is idle, because tickets name positions in them.
pub(super) type KeyHolder<V> = Holder<Option<Box<KeyQueues<V>>>, u64>;

/// The two queues of a key: requests for the key, and requests for the result of its task. The end
/// of a task grants the first request of the one, and answers all requests of the other.
pub(super) struct KeyQueues<V> {
    pub(super) turns: WaitList<Waiter>,
    pub(super) joins: WaitList<Waiter<dyn Joiner<V>>>,
}

/// A wait for all requests of a shard that have a lower number.
pub(super) struct Drain {
    pub(super) waiter: Waiter,
    /// How many of them have not left, and have a higher number than the wait for all before this.
    pub(super) left: usize,
}

/// The rest of ending a hold, after the release of the mutex.
pub(super) struct EndedHold<K, V> {
    /// The key, if it is idle. Dropping it is code of users.
    pub(super) gone: Option<K>,
    /// The length of the hold, and how many holds that sample stands for.
    pub(super) held: Option<(Duration, u16)>,
    /// Set only if a request waited.
    pub(super) waited: Option<Box<AnsweredRequests<V>>>,
}

pub(super) struct AnsweredRequests<V> {
    /// The wait of the next holder.
    pub(super) wait: Option<Duration>,
    /// The next holder, then the waits for all requests of which this was the last.
    pub(super) answers: Vec<Answer>,
    pub(super) joiners: Vec<Arc<dyn Joiner<V>>>,
    pub(super) task: EndedTask,
}

impl<K, V> Shard<K, V> {
    pub(super) fn new(lock: u32, index: usize, sampling: Sampling) -> Self {
        Self {
            entries: KeyTable::default(),
            state: ShardState {
                lock,
                number: index as u64,
                present: 0,
                drains: VecDeque::new(),
                waited_for: 0,
                sampling,
                pace: Pace::default(),
                counts: LockCounters::default(),
                joins: 0,
            },
        }
    }

    /// Grants an idle key to the request, and takes the copy of the key. For an active key, returns
    /// its id.
    #[inline(always)]
    pub(super) fn try_take<Q: Eq + ?Sized>(
        &mut self,
        hash: u64,
        key: &Q,
        copy: &mut Option<K>,
        requester: &Requester<'_>,
        clock: &Clock,
    ) -> Result<Hold, KeyId>
    where
        K: Borrow<Q>,
    {
        let state = &mut self.state;
        let is = |own: &K, _: &Option<K>| own.borrow() == key;
        let (number, vacant) = (|| Some(state.next_number()), KeyHolder::default);
        let found = self.entries.find_or_add(hash, copy, is, number, vacant);
        let (entry, added) = found.expect("it was added");
        let key @ KeyId { number, .. } = entry.id;
        if !added {
            return Err(key);
        }
        state.counts.total_acquisitions += 1;
        state.present += 1;
        let since = state.sampling.measure(|| clock.now());
        entry.state.begin(number, requester, since);
        Ok(Hold { key, number })
    }

    /// Ends a hold: grants the key to the next request in the same step, or removes the idle key.
    #[inline(always)]
    pub(super) fn end(&mut self, hold: Hold, clock: &Clock) -> EndedHold<K, V> {
        let state = &mut self.state;
        let (mut held, mut waited) = (None, None);
        let gone = self.entries.remove_if(hold.key, |entry| {
            let holder = &mut entry.state;
            if holder.grant != hold.number {
                return false;
            }
            state.counts.total_releases += 1;
            // A waiter has read the clock when its wait began, so the start is known where it
            // matters.
            let measured = holder.since.known().map(|known| (known, clock.now()));
            held = measured.map(|((since, weight), now)| (now - since, weight));
            if let Some((held, _)) = held {
                state.pace.take_in(held);
            }
            let is_last = state.leave(hold.number);
            let mut is_idle = true;
            if is_last || holder.more.is_some() {
                let now = measured.map_or_else(MonotonicTime::default, |(_, now)| now);
                let answered = state.hand_over(holder, now);
                is_idle = answered.wait.is_none();
                waited = Some(answered);
            }
            if is_idle {
                // The entry is kept without what owns memory.
                if holder.more.is_some() {
                    holder.more = None;
                }
                holder.source.forget();
            }
            is_idle
        });
        EndedHold { gone, held, waited }
    }

    pub(super) fn active(&mut self, key: KeyId) -> Option<Active<'_, K, V>> {
        let entry = self.entries.get_mut(key)?;
        let state = &mut self.state;
        Some(Active { entry, state })
    }
}

impl<V> KeyHolder<V> {
    /// Makes the request the holder. Its source is written in place, see
    /// [`RequestSource::assign`].
    #[inline(always)]
    pub(super) fn begin(&mut self, number: u64, requester: &Requester<'_>, since: HoldStart) {
        self.grant = number;
        self.source.assign(requester);
        self.since = since;
    }

    pub(super) fn queues(&mut self) -> &mut KeyQueues<V> {
        // No request overtakes another.
        self.more.get_or_insert_with(|| {
            Box::new(KeyQueues {
                turns: WaitList::new(0),
                joins: WaitList::new(0),
            })
        })
    }

    pub(super) fn waiting(&self) -> usize {
        self.more.as_ref().map_or(0, |queues| queues.turns.len())
    }
}

/// A key that is held, with its holder and its waiters.
pub(super) struct Active<'a, K, V> {
    pub(super) entry: &'a mut KeyEntry<K, KeyHolder<V>>,
    pub(super) state: &'a mut ShardState,
}

impl<K, V> Active<'_, K, V> {
    /// Refuses a request that would wait for its own thread.
    pub(super) fn refuse_reentry(
        &mut self,
        owner: &OwnerId,
        thread: u64,
        now: MonotonicTime,
    ) -> Result<(), LockError> {
        if thread == 0 || self.entry.state.source.thread != thread {
            return Ok(());
        }
        self.state.counts.total_refusals += 1;
        Err(LockError::Reentrant {
            owner: owner.clone(),
            holder: Box::new(self.current(now)),
        })
    }

    /// Describes a request that waits. The hold of the holder is measured from here on.
    pub(super) fn waiter<R: ?Sized>(&mut self, request: Arc<R>, now: MonotonicTime) -> Waiter<R> {
        self.entry.state.since.observe(now);
        self.state.waiter(request, now)
    }

    /// Returns the holder of the key. The hold is measured from here on.
    pub(super) fn current(&mut self, now: MonotonicTime) -> LockInfo {
        let holder = &mut self.entry.state;
        holder.since.observe(now);
        holder.info_of(self.state.grant(holder.grant), now)
    }

    pub(super) fn queue(&self, now: MonotonicTime) -> impl Iterator<Item = QueueEntry> {
        let queues = self.entry.state.more.iter();
        let turns = queues.flat_map(|queues| queues.turns.iter(None)).zip(1..);
        turns.map(move |((_, waiter), position)| waiter.entry(self.state.lock, position, now))
    }
}

impl ShardState {
    /// Returns a rising number that no other shard returns.
    #[inline(always)]
    pub(super) fn next_number(&mut self) -> u64 {
        self.number += SHARDS as u64;
        self.number
    }

    pub(super) fn waiter<R: ?Sized>(&mut self, request: Arc<R>, since: MonotonicTime) -> Waiter<R> {
        Waiter {
            number: self.next_number(),
            since,
            more: (),
            request,
        }
    }

    /// Returns the grant of a request. Grants of one key have rising numbers.
    #[inline(always)]
    pub(super) fn grant(&self, number: u64) -> Grant {
        let lock = self.lock;
        Grant::new(LockId { number, lock }, FencingToken(number), false)
    }

    /// Grants the key to the next waiter, and returns the waits that the end of this hold answers.
    #[cold]
    fn hand_over<V>(
        &mut self,
        holder: &mut KeyHolder<V>,
        now: MonotonicTime,
    ) -> Box<AnsweredRequests<V>> {
        let mut answered = Box::new(AnsweredRequests {
            wait: None,
            answers: Vec::new(),
            joiners: Vec::new(),
            task: (self.grant(holder.grant).id(), holder.source.clone()),
        });
        if let Some(queues) = &mut holder.more {
            // Later requests for a result wait for that of the next task.
            let joiners = iter::from_fn(|| queues.joins.pop());
            answered.joiners = joiners.map(|waiter| waiter.request).collect();
            if let Some(waiter) = queues.turns.pop() {
                self.counts.total_acquisitions += 1;
                answered.wait = Some(now - waiter.since);
                let requester = waiter.source().requester();
                holder.begin(waiter.number, &requester, HoldStart::now(now));
                holder.source.untaken = waiter.request.head().task().is_some();
                let granted = Ok(self.grant(waiter.number));
                answered.answers.push((waiter.request, granted));
            }
        }
        while let Some(number) = self.drained()
            && let Some(waiter) = self.take_drain(number)
        {
            let grant = self.grant(number);
            answered.answers.push((waiter.request, Ok(grant)));
        }
        answered
    }

    /// Joins the waits for all present requests.
    pub(super) fn join_drain(
        &mut self,
        request: Arc<dyn Waiting>,
        now: MonotonicTime,
    ) -> KeyedPosition {
        let waiter = self.waiter(request, now);
        let number = waiter.number;
        let left = self.present - mem::replace(&mut self.waited_for, self.present);
        self.drains.push_back(Drain { waiter, left });
        KeyedPosition::Drain(number)
    }

    /// Where the wait for all with this number is, or would be.
    fn find_drain(&self, number: u64) -> Result<usize, usize> {
        self.drains
            .binary_search_by_key(&number, |drain| drain.waiter.number)
    }

    /// Takes out a wait for all. The one behind it also waits for its requests.
    fn take_drain(&mut self, number: u64) -> Option<Waiter> {
        let at = self.find_drain(number).ok()?;
        let Drain { waiter, left } = self.drains.remove(at)?;
        match self.drains.get_mut(at) {
            Some(next) => next.left += left,
            None => self.waited_for -= left,
        }
        if self.drains.is_empty() {
            self.drains = VecDeque::new();
        }
        Some(waiter)
    }

    /// Counts out a request. Returns whether a wait for all ends with that.
    #[inline(always)]
    pub(super) fn leave(&mut self, number: u64) -> bool {
        self.present -= 1;
        if self.drains.is_empty() {
            return false;
        }
        if let Err(first) = self.find_drain(number)
            && let Some(drain) = self.drains.get_mut(first)
        {
            drain.left -= 1;
            self.waited_for -= 1;
        }
        self.drained().is_some()
    }

    /// The first wait for all, if all that it waits for have left.
    #[inline(always)]
    fn drained(&self) -> Option<u64> {
        let first = self.drains.front().filter(|drain| drain.left == 0)?;
        Some(first.waiter.number)
    }
}

impl<K, V> Shard<K, V> {
    /// Removes a waiter from its queue and fails its request. Does nothing when it has already left
    /// the queue: then the earlier outcome counts.
    pub(super) fn withdraw(
        &mut self,
        waiting_at: KeyedPosition,
        reason: Reason,
        now: MonotonicTime,
    ) -> Option<Answer> {
        let ahead = self.position(waiting_at)?;
        let (key, position, listed) = match waiting_at {
            KeyedPosition::Turn(key, _) => (key, ahead + 1, ahead.min(reason.listed())),
            // All joined requests are answered together.
            KeyedPosition::Join(key, _) => (key, 1, 0),
            KeyedPosition::Drain(_) => {
                let first = self.entries.iter().min_by_key(|entry| entry.state.grant)?;
                (first.id, ahead, 0)
            }
        };
        let mut active = self.active(key)?;
        let waiting = active.entry.state.waiting();
        let ahead = active.queue(now).take(listed).collect();
        let holder = active.current(now);
        let waiter = self.take_out(waiting_at)?;
        let evidence = waiter.evidence(self.state.lock, position, holder, now);
        let evidence = TimeoutEvidence { ahead, ..evidence };
        let counts = &mut self.state.counts;
        match reason {
            Reason::Expired(limit) if limit.is_zero() => {
                let (owner, holder) = (evidence.owner, Box::new(evidence.holder));
                let error = LockError::WouldBlock {
                    owner,
                    holder,
                    waiting,
                };
                return Some((waiter.request, Err(Box::new(error))));
            }
            Reason::Expired(_) => counts.total_timeouts += 1,
            Reason::Cancelled => counts.total_cancellations += 1,
        }
        Some((waiter.request, Err(Box::new(evidence.because(reason)))))
    }

    /// Returns the number of requests that must end before this one; `None` when it no longer
    /// waits.
    pub(super) fn position(&self, waiting_at: KeyedPosition) -> Option<usize> {
        let queues = |key| self.entries.get(key)?.state.more.as_ref();
        match waiting_at {
            KeyedPosition::Turn(key, ticket) => queues(key)?.turns.ahead_of(ticket),
            KeyedPosition::Join(key, ticket) => queues(key)?.joins.ahead_of(ticket),
            KeyedPosition::Drain(number) => {
                let at = self.state.find_drain(number).ok()?;
                Some(self.state.drains.range(..=at).map(|drain| drain.left).sum())
            }
        }
    }

    /// Removes a waiter from its queue if it is still there, without answering it. No other waiter
    /// needs an answer: a wait for all also waits for every request ahead in this queue.
    pub(super) fn take_out(&mut self, waiting_at: KeyedPosition) -> Option<Waiter> {
        match waiting_at {
            KeyedPosition::Turn(key, ticket) => {
                let turns = &mut self.active(key)?.entry.state.more.as_mut()?.turns;
                let waiter = turns.remove(ticket)?;
                let last = self.state.leave(waiter.number);
                debug_assert!(!last, "the holder came before it");
                Some(waiter)
            }
            KeyedPosition::Join(key, ticket) => {
                let joins = &mut self.active(key)?.entry.state.more.as_mut()?.joins;
                let joiner = joins.remove(ticket)?;
                Some(Waiter {
                    number: joiner.number,
                    since: joiner.since,
                    more: (),
                    request: joiner.request,
                })
            }
            KeyedPosition::Drain(number) => self.state.take_drain(number),
        }
    }
}
