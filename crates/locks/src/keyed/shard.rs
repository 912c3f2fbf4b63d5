//! The data behind the mutex of one shard: its active keys and its counters.
//!
//! Time comes in as an argument and outcomes go out as return values; nothing here sleeps or wakes.
//! The only code of users that runs here is the comparison of keys with the same hash, before any
//! change.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use super::entry::{Active, ActiveKey, Drain, Hold, KeyHolder, KeyedPosition};
use super::execution::{EndedTask, Joiner};
use super::shards::SHARDS;
use crate::diagnostics::KEYS;
use crate::error::TimeoutEvidence;
use crate::id::{FencingToken, LockId, OwnerId};
use crate::key_table::{KeyId, KeyTable};
use crate::request::{Answer, Requester, Waiter, Waiting};
use crate::sampling::{HoldStart, Pace, Sampling};
use crate::time::{Clock, MonotonicTime};
use crate::wait::Reason;
use crate::{Grant, LockCounters, LockError, shrink};

pub(super) struct Shard<K, V> {
    entries: KeyTable<K, KeyHolder<V>>,
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
    /// The table keeps room for this many keys.
    const KEPT: usize = 3;

    pub(super) fn new(lock: u32, index: usize, sampling: Sampling) -> Self {
        Self {
            entries: KeyTable::new(Self::KEPT),
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

    // --- Requests ---

    /// Grants an idle key to the request, and takes the copy of the key. For an active key, returns
    /// its id.
    #[inline(always)]
    pub(super) fn try_take<Q>(
        &mut self,
        hash: u64,
        key: &Q,
        copy: &mut Option<K>,
        requester: &Requester<'_>,
        clock: &Clock,
    ) -> Result<Hold, KeyId>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let state = &mut self.state;
        let found = self.entries.find_or_add(
            hash,
            copy,
            |own, _| own.borrow() == key,
            || Some(state.next_number()),
            KeyHolder::default,
        );
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

    /// Joins the waits for all present requests. `None` when there are none. Refuses a thread that
    /// has one of them itself.
    pub(super) fn join_drain(
        &mut self,
        request: Arc<dyn Waiting>,
        requester: &Requester<'_>,
        now: MonotonicTime,
    ) -> Result<Option<KeyedPosition>, LockError> {
        let state = &mut self.state;
        for entry in self.entries.iter_mut() {
            entry.state.since.observe(now);
            Active { entry, state }.refuse_reentry(requester.owner, requester.thread, now)?;
        }
        if state.present == 0 {
            return Ok(None);
        }
        let waiter = state.waiter(request, now);
        let number = waiter.number;
        let left = state.present - state.waited_for;
        state.waited_for = state.present;
        state.drains.push_back(Drain { waiter, left });
        Ok(Some(KeyedPosition::Drain(number)))
    }

    // --- Ending ---

    /// Ends a hold: grants the key to the next request in the same step, or removes the idle key.
    #[inline(always)]
    pub(super) fn end(&mut self, hold: Hold, clock: &Clock) -> Option<EndedHold<K, V>> {
        let state = &mut self.state;
        let mut ended = None;
        let gone = self.entries.remove_if(hold.key, |entry| {
            let holder = &mut entry.state;
            if holder.grant != hold.number {
                return false;
            }
            state.counts.total_releases += 1;
            // A waiter has read the clock when its wait began, so the start is known where it
            // matters.
            let measured = holder.since.known().map(|known| (known, clock.now()));
            let held = measured.map(|((since, weight), now)| (now - since, weight));
            if let Some((held, _)) = held {
                state.pace.take_in(held);
            }
            let is_last = state.leave(hold.number);
            let mut waited = None;
            let mut is_idle = true;
            if is_last || holder.more.is_some() {
                let now = measured.map_or_else(MonotonicTime::default, |(_, now)| now);
                let answered = state.hand_over(holder, now);
                is_idle = answered.wait.is_none();
                waited = Some(answered);
            }
            if is_idle {
                holder.clear();
            }
            ended = Some((held, waited));
            is_idle
        });
        let (held, waited) = ended?;
        Some(EndedHold { gone, held, waited })
    }

    // --- Inspection ---

    pub(super) fn find_key<Q>(&self, hash: u64, key: &Q) -> Option<&ActiveKey<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.entries.find(hash, |own| own.borrow() == key)
    }

    pub(super) fn active(&mut self, key: KeyId) -> Option<Active<'_, K, V>> {
        let entry = self.entries.get_mut(key)?;
        let state = &mut self.state;
        Some(Active { entry, state })
    }

    pub(super) fn active_key<Q>(&mut self, hash: u64, key: &Q) -> Option<Active<'_, K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let id = self.find_key(hash, key)?.id;
        self.active(id)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &ActiveKey<K, V>> {
        self.entries.iter()
    }

    /// Visits the first active keys, as [`PrimitiveState::Keyed`](crate::PrimitiveState) has them.
    pub(super) fn first_keys(&mut self, mut visit: impl FnMut(Active<'_, K, V>)) {
        let state = &mut self.state;
        let mut entries: Vec<_> = self.entries.iter_mut().collect();
        shrink::to_first(&mut entries, KEYS, |it| {
            (it.state.waiting() == 0, it.state.grant)
        });
        for entry in entries {
            visit(Active { entry, state });
        }
    }

    /// Returns the number of active keys, the number of waiting requests, and for how many keys
    /// there is room.
    pub(super) fn sizes(&self) -> [usize; 3] {
        let [active, capacity] = self.entries.sizes();
        let waiting = self.state.present.saturating_sub(active);
        [active, waiting, capacity]
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
                let first = self.entries().min_by_key(|entry| entry.state.grant)?;
                (first.id, ahead, 0)
            }
        };
        let mut active = self.active(key)?;
        let waiting = active.entry.state.waiting();
        let ahead = active.queue(now).take(listed).collect();
        let holder = active.current(now);
        let waiter = self.take_out(waiting_at)?;
        let counts = &mut self.state.counts;
        let error = match reason {
            Reason::Expired(limit) if limit.is_zero() => LockError::WouldBlock {
                owner: waiter.source().owner.clone(),
                holder: Box::new(holder),
                waiting,
            },
            _ => {
                match reason {
                    Reason::Expired(_) => counts.total_timeouts += 1,
                    Reason::Cancelled => counts.total_cancellations += 1,
                }
                let evidence = waiter.evidence(self.state.lock, position, holder, now);
                TimeoutEvidence { ahead, ..evidence }.because(reason)
            }
        };
        Some((waiter.request, Err(Box::new(error))))
    }

    pub(super) fn each_waiting(&self, mut visit: impl FnMut(KeyedPosition, &dyn Waiting)) {
        let queues = self.entries().map(|entry| (entry.id, &entry.state.more));
        for (id, queues) in queues.filter_map(|(id, queues)| Some((id, queues.as_ref()?))) {
            for (ticket, waiter) in queues.turns.iter(None) {
                visit(KeyedPosition::Turn(id, ticket), &*waiter.request);
            }
            for (ticket, waiter) in queues.joins.iter(None) {
                visit(KeyedPosition::Join(id, ticket), &*waiter.request);
            }
        }
        for Drain { waiter, .. } in &self.state.drains {
            visit(KeyedPosition::Drain(waiter.number), &*waiter.request);
        }
    }

    /// Refuses a request that waits already, and waits for its own thread.
    pub(super) fn refuse_self(
        &mut self,
        waiting_at: KeyedPosition,
        (owner, thread): (&OwnerId, u64),
        now: MonotonicTime,
    ) -> Result<(), LockError> {
        let waits = self.position(waiting_at).is_some();
        let active = match waiting_at {
            KeyedPosition::Turn(key, _) | KeyedPosition::Join(key, _) if waits => self.active(key),
            _ => None,
        };
        let refuse = |mut active: Active<'_, K, V>| active.refuse_reentry(owner, thread, now);
        active
            .map_or(Ok(()), refuse)
            .inspect_err(|_| drop(self.take_out(waiting_at)))
    }

    /// Returns the number of requests that must end before this one; `None` when it no longer
    /// waits.
    fn position(&self, waiting_at: KeyedPosition) -> Option<usize> {
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
