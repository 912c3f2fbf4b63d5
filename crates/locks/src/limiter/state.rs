//! The data behind the mutex of an [`InFlightLimiter`](super::InFlightLimiter): a queue for each
//! key, and the queue of keys.
//!
//! Time comes in as an argument and outcomes go out as return values; nothing here sleeps or wakes.
//! Code of users runs here where a key is looked up (`Eq`, of keys with the same hash) and where
//! one is listed (`Clone`), before any change. Slots are returned by number, so no code of a key
//! can fail then.
//!
//! Invariants, whenever the mutex is free:
//!
//! 1. A grant leaves the taken slots of its key within the limit at that moment. The slots of all
//!    keys together never exceed the global limit.
//! 2. Of one key, calls are granted in the order in which they joined.
//! 3. A key is in the queue of keys if and only if a call waits for it and the head of its queue
//!    fits its own limit. Its demand there is that of the head.
//! 4. If the queue of keys is not empty, its head does not fit the global limit. So without a
//!    global limit the queue of keys is empty.
//! 5. A key that is idle and was not configured by name is not kept.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::metrics::{CallMetrics, KeySnapshot, LimiterCounters, LimiterSnapshot, PermitSnapshot};
use super::options::{Adaptive, KeyLimit};
use super::{CallEvidence, LimiterKey, LimiterLoad, Permit};
use crate::RequestContext;
use crate::diagnostics::KEYS;
use crate::key_table::{KeyEntry, KeyId, KeyTable};
use crate::mailbox::Mailbox;
use crate::queue::{Priority, Queue, Slots, Ticket};
use crate::sampling::{HoldStart, Sampling};
use crate::shrink;
use crate::threads;
use crate::time::{Clock, MonotonicTime};
use crate::wait::{Reason, WaitDeadline};

pub(super) struct LimiterState<K: LimiterKey> {
    keys: KeyTable<K, KeyState<K>>,
    added: u64,
    /// Of keys that were not configured by name.
    default_limit: usize,
    /// The queue of keys in front of the global limit. A key that was served joins again at the
    /// end, which makes it a round robin.
    turns: Queue<KeyId>,
    global_limit: Option<usize>,
    /// Of the keys that were not configured by name.
    others: CallMetrics,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    key: KeyId,
    pub(super) weight: usize,
    /// The start of the call.
    began: HoldStart,
    is_on_record: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallTicket {
    pub(super) key: KeyId,
    ticket: Ticket,
}

pub(super) type CallOutcome = Result<Granted, LeftCall>;

/// The work to do after the release of the mutex.
#[must_use]
pub(super) struct AfterLimiterUnlock<K: LimiterKey> {
    /// The calls to answer, with their verdicts.
    pub(super) answers: Vec<(Arc<CallMailbox<K>>, CallOutcome)>,
    /// A key that is idle now. Dropping it is code of users, so it comes last.
    pub(super) gone: Option<K>,
}

impl<K: LimiterKey> Default for AfterLimiterUnlock<K> {
    fn default() -> Self {
        Self {
            answers: Vec::new(),
            gone: None,
        }
    }
}

/// Who requested slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    call_site: &'static Location<'static>,
    /// The number of the thread; zero for a task.
    thread: u64,
}

impl Caller {
    #[inline]
    pub(super) fn of(context: &RequestContext) -> Self {
        Self {
            call_site: context.call_site,
            thread: context.waits_as.thread(),
        }
    }
}

/// Whether the key of an entry is this one.
fn is_named<K: PartialEq>(own: &K, key: &Option<K>) -> bool {
    Some(own) == key.as_ref()
}

/// Returns the number of the next key that comes into use.
fn next(added: &mut u64) -> u64 {
    *added += 1;
    *added
}

impl<K: LimiterKey> LimiterState<K> {
    /// The table keeps room for this many keys.
    const KEPT: usize = 14;

    pub(super) fn new(default_limit: usize, global_limit: Option<usize>, clock: &Clock) -> Self {
        let global = Slots::new(global_limit.unwrap_or(usize::MAX));
        Self {
            keys: KeyTable::new(Self::KEPT),
            added: 0,
            default_limit,
            turns: Queue::new(global, 0),
            global_limit,
            others: CallMetrics::new(Sampling::new(clock)),
        }
    }

    pub(super) fn configure(&mut self, key: K, hash: u64, rule: KeyLimit, clock: &Clock) {
        let (limit, adaptive, sampling) = match rule {
            KeyLimit::Fixed(limit) => (limit, None, Sampling::new(clock)),
            KeyLimit::Adaptive(rules) => {
                let adaptive = Adaptive::new(rules);
                (adaptive.limit(), Some(adaptive), Sampling::of_each())
            }
        };
        let metrics = CallMetrics::new(sampling);
        let own = Box::new(OwnQueue { metrics, adaptive });
        let (mut key, number) = (Some(key), self.added);
        self.added += 1;
        let new = || KeyState::new(limit, Some(own));
        // Each key is configured once.
        self.keys
            .find_or_add(hash, &mut key, |_, _| false, || Some(number), new);
    }

    // --- Requests ---

    /// Returns the most slots that a call may take: the lowest limit.
    pub(super) fn most(&self, key: &K, hash: u64) -> usize {
        let own = self
            .find(key, hash)
            .map_or(self.default_limit, KeyState::least_limit);
        own.min(self.turns.slots().limit())
    }

    /// Takes slots at once, if they are free, no waiting call precedes, and the limit is never
    /// lower. Takes the key out of `name` if it comes into use.
    #[inline(always)]
    pub(super) fn try_take(
        &mut self,
        key: &mut Option<K>,
        hash: u64,
        weight: usize,
        caller: Caller,
        clock: &Clock,
    ) -> Option<Granted> {
        let limit = self.default_limit;
        let number = || {
            let free = self.turns.is_empty() && self.turns.slots().fits(weight);
            (free && weight <= limit).then(|| next(&mut self.added))
        };
        let new = || KeyState::new(limit, None);
        let found = self.keys.find_or_add(hash, key, is_named, number, new);
        let (entry, _) = found?;
        let (key, state) = (entry.id, &mut entry.state);
        if weight > state.least_limit() || !state.queue.try_take(weight) {
            return None;
        }
        if !self.turns.try_take(weight) {
            // No call waits for this key, so this makes room for none.
            state.queue.give_back(weight);
            return None;
        }
        let began = state.metrics(&mut self.others).begin(clock);
        Some(state.grant(key, weight, caller, began))
    }

    /// Joins the queue of a key. Takes the key out of `name` if it comes into use. Called only
    /// after [`LimiterState::try_take`] has declined, and with no more than [`LimiterState::most`].
    pub(super) fn join(
        &mut self,
        key: &mut Option<K>,
        hash: u64,
        call: WaitingCall<K>,
    ) -> CallTicket {
        let number = || Some(next(&mut self.added));
        let new = || KeyState::new(self.default_limit, None);
        let found = self.keys.find_or_add(hash, key, is_named, number, new);
        let (entry, _) = found.expect("it was added");
        let (key, state) = (entry.id, &mut entry.state);
        state.observe(call.since);
        let ticket = state.queue.join(call.weight, Priority::Normal, call);
        self.update_turn(key);
        CallTicket { key, ticket }
    }

    /// Counts a call that ends without having joined a queue, and returns the load of its key.
    pub(super) fn turn_away(
        &mut self,
        key: &K,
        hash: u64,
        count: impl FnOnce(&mut LimiterCounters),
    ) -> LimiterLoad {
        let entry = self.keys.find(hash, |own| own == key).map(|entry| entry.id);
        let metrics = match entry.and_then(|id| self.keys.get_mut(id)) {
            Some(entry) => entry.state.metrics(&mut self.others),
            None => &mut self.others,
        };
        count(&mut metrics.counts);
        self.load(key, hash)
    }

    // --- Ending ---

    /// Removes a call from its queue. Does nothing when it has already left the queue, with an
    /// answer.
    pub(super) fn withdraw(
        &mut self,
        position: CallTicket,
        reason: Reason,
        now: MonotonicTime,
        next: &mut AfterLimiterUnlock<K>,
    ) {
        let CallTicket { key, ticket } = position;
        let load = self.load_of(self.keys.get(key).map(|entry| &entry.state));
        let Some(KeyEntry { state, .. }) = self.keys.get_mut(key) else {
            return;
        };
        let ahead = state.queue.ahead_of(ticket);
        let Some((ahead, waiter)) = ahead.zip(state.queue.withdraw(ticket)) else {
            return;
        };
        let counts = &mut state.metrics(&mut self.others).counts;
        let (count, least) = match reason {
            // The timeout begins just before the request joins the queue.
            Reason::Expired(limit) => (&mut counts.timed_out, limit),
            Reason::Cancelled => (&mut counts.cancelled, Duration::ZERO),
        };
        *count += 1;
        let evidence = CallEvidence {
            key: String::new(),
            weight: waiter.weight,
            waited: (now - waiter.since).max(least),
            position: Some(ahead + 1),
            load,
        };
        let left = Box::new((reason, evidence));
        next.answers.push((waiter.mailbox, Err(left)));
        let over = state.is_over();
        self.update_turn(key);
        self.serve(now, next);
        if over {
            next.gone = self.keys.remove_if(key, |_| true);
        }
    }

    /// Returns slots; a call that fits now gets them in the same step. `whole` means that the call
    /// ran to its own end.
    #[inline(always)]
    pub(super) fn give_back(
        &mut self,
        granted: Granted,
        clock: &Clock,
        whole: bool,
        cancelled: bool,
        next: &mut AfterLimiterUnlock<K>,
    ) {
        let Granted { key, began, .. } = granted;
        let Some(KeyEntry { state, .. }) = self.keys.get_mut(key) else {
            debug_assert!(false, "a key is kept while it has slots out");
            return;
        };
        let waited_for = !self.turns.is_empty() || !state.queue.is_empty();
        let now = match began.is_known() || waited_for {
            true => clock.now(),
            false => MonotonicTime::default(),
        };
        state.metrics(&mut self.others).end(began, now, cancelled);
        state.learn(began, now, whole);
        if granted.is_on_record {
            state.permit = None;
        }
        state.queue.give_back(granted.weight);
        self.turns.give_back(granted.weight);
        let over = state.is_over();
        if waited_for {
            self.update_turn(key);
            self.serve(now, next);
        }
        if over {
            next.gone = self.keys.remove_if(key, |_| true);
        }
    }

    // --- Turns ---

    /// Restores invariant 3 after a change of the queue or limit of a key.
    fn update_turn(&mut self, id: KeyId) {
        let Some(KeyEntry { state, .. }) = self.keys.get_mut(id) else {
            return;
        };
        let capacity = state.queue.slots();
        let head = state.queue.head();
        let demand = head.filter(|&weight| capacity.fits(weight));
        if state.turn.as_ref().map(|turn| turn.weight) == demand {
            return;
        }
        if let Some(turn) = state.turn.take() {
            self.turns.withdraw(turn.ticket);
        }
        state.turn = demand.map(|weight| KeyTicket {
            ticket: self.turns.join(weight, Priority::Normal, id),
            weight,
        });
    }

    /// Restores invariant 4: grants to keys in turn while the first fits.
    fn serve(&mut self, now: MonotonicTime, next: &mut AfterLimiterUnlock<K>) {
        while let Some(id) = self.turns.next() {
            let Some(KeyEntry { state, .. }) = self.keys.get_mut(id) else {
                debug_assert!(false, "a key is kept while a call waits for it");
                continue;
            };
            state.turn = None;
            let Some(waiter) = state.queue.next() else {
                debug_assert!(false, "the head of a key's queue fits its limit (3)");
                continue;
            };
            let metrics = state.metrics(&mut self.others);
            metrics.begin_after(now - waiter.since);
            let began = HoldStart::now(now);
            let granted = state.grant(id, waiter.weight, waiter.caller, began);
            next.answers.push((waiter.mailbox, Ok(granted)));
            self.update_turn(id);
        }
    }

    // --- Inspection ---

    pub(super) fn load(&self, key: &K, hash: u64) -> LimiterLoad {
        self.load_of(self.find(key, hash))
    }

    fn find(&self, key: &K, hash: u64) -> Option<&KeyState<K>> {
        let entry = self.keys.find(hash, |own| own == key)?;
        Some(&entry.state)
    }

    fn load_of(&self, state: Option<&KeyState<K>>) -> LimiterLoad {
        let slots = state.map(|state| state.queue.slots());
        LimiterLoad {
            in_flight: slots.map_or(0, Slots::taken),
            limit: slots.map_or(self.default_limit, Slots::limit),
            queued: state.map_or(0, |state| state.queue.len()),
            total_in_flight: self.turns.slots().taken(),
            global_limit: self.global_limit,
        }
    }

    /// Writes the keys to `keys`: all in their order, or the `fullest`. If a copy panics, the
    /// caller drops the earlier copies without the mutex.
    pub(super) fn snapshot<Q>(
        &mut self,
        fullest: bool,
        mut copy: impl FnMut(&K) -> Q,
        keys: &mut Vec<KeySnapshot<Q>>,
        now: MonotonicTime,
    ) -> LimiterSnapshot<Q> {
        let mut entries: Vec<_> = self.keys.iter_mut().collect();
        let queued = entries.iter().map(|entry| entry.state.queue.len()).sum();
        let own = entries.iter().filter_map(|entry| entry.state.own.as_ref());
        let all = own.map(|own| &own.metrics).chain([&self.others]);
        let total = CallMetrics::sum(all);
        match fullest {
            false => entries.sort_unstable_by_key(|entry| entry.id.number),
            true => shrink::to_first(&mut entries, KEYS, |entry| {
                let (queue, slots) = (&entry.state.queue, entry.state.queue.slots());
                let free = slots.limit().saturating_sub(slots.taken());
                (queue.is_empty(), slots.taken() == 0, free, entry.id.number)
            }),
        }
        for entry in entries {
            keys.push(KeySnapshot {
                permit: entry.state.observe(now),
                key: copy(entry.key()),
                number: entry.id.number,
                limit: entry.state.queue.slots().limit(),
                in_flight: entry.state.queue.slots().taken(),
                queued: entry.state.queue.len(),
                metrics: entry.state.own.as_ref().map(|own| own.metrics.show()),
            });
        }
        LimiterSnapshot {
            in_flight: self.turns.slots().taken(),
            global_limit: self.global_limit,
            queued,
            total: total.show(),
            keys: Vec::new(),
        }
    }

    pub(super) fn each_waiting(&self, mut visit: impl FnMut(CallTicket, Option<WaitDeadline>)) {
        for entry in self.keys.iter() {
            for (ticket, waiter) in entry.state.queue.waiting() {
                let key = entry.id;
                visit(CallTicket { key, ticket }, waiter.task);
            }
        }
    }
}

/// A call in the queue of its key.
pub(super) struct WaitingCall<K: LimiterKey> {
    pub(super) weight: usize,
    pub(super) caller: Caller,
    pub(super) since: MonotonicTime,
    pub(super) mailbox: Arc<CallMailbox<K>>,
    /// The timeout of a task, or that it has none. `None` for a thread.
    pub(super) task: Option<WaitDeadline>,
}

/// The mailbox through which a waiting call gets its slots. They are returned if the call is gone.
pub(super) type CallMailbox<K> = Mailbox<Result<Permit<K>, LeftCall>>;

/// Why a call left the queue without slots, and the state that it observed, without its key.
pub(super) type LeftCall = Box<(Reason, CallEvidence)>;

pub(super) struct KeyState<K: LimiterKey> {
    pub(super) queue: Queue<WaitingCall<K>>,
    pub(super) turn: Option<KeyTicket>,
    /// One of the permits that are held: who requested it, and its start as far as it is known.
    permit: Option<(Caller, HoldStart)>,
    /// Set for a key that was configured by name.
    pub(super) own: Option<Box<OwnQueue>>,
}

/// The ticket of a key in the queue of keys, and its demand there.
pub(super) struct KeyTicket {
    pub(super) ticket: Ticket,
    pub(super) weight: usize,
}

pub(super) struct OwnQueue {
    pub(super) metrics: CallMetrics,
    pub(super) adaptive: Option<Adaptive>,
}

impl<K: LimiterKey> KeyState<K> {
    pub(super) fn new(limit: usize, own: Option<Box<OwnQueue>>) -> Self {
        Self {
            queue: Queue::new(Slots::new(limit), 0),
            turn: None,
            permit: None,
            own,
        }
    }

    /// Whether the key is idle and was not configured by name.
    pub(super) fn is_over(&self) -> bool {
        self.own.is_none() && self.queue.is_empty() && self.queue.slots().taken() == 0
    }

    /// Grants slots. Records the permit, unless another one is on record: a full key has one there.
    fn grant(&mut self, key: KeyId, weight: usize, caller: Caller, began: HoldStart) -> Granted {
        let is_on_record = self.permit.is_none();
        self.permit.get_or_insert((caller, began));
        Granted {
            key,
            weight,
            began,
            is_on_record,
        }
    }

    /// Returns the permit on record. Its hold is measured from here on, if it was not before.
    fn observe(&mut self, now: MonotonicTime) -> Option<PermitSnapshot> {
        let (caller, began) = self.permit.as_mut()?;
        began.observe(now);
        Some(PermitSnapshot {
            held_for: began.lasted(now),
            at_least: !began.exact,
            call_site: caller.call_site.into(),
            thread: threads::describe(caller.thread),
        })
    }

    /// Returns the lowest number of slots that the limit can fall to.
    pub(super) fn least_limit(&self) -> usize {
        let adaptive = self.own.as_ref().and_then(|own| own.adaptive.as_ref());
        adaptive.map_or(self.queue.slots().limit(), Adaptive::least)
    }

    pub(super) fn metrics<'a>(&'a mut self, others: &'a mut CallMetrics) -> &'a mut CallMetrics {
        match &mut self.own {
            Some(own) => &mut own.metrics,
            None => others,
        }
    }

    /// Updates an adaptive limit with a call that returns its slots.
    #[inline(always)]
    pub(super) fn learn(&mut self, began: HoldStart, ended: MonotonicTime, whole: bool) {
        let own = self.own.as_mut();
        let adaptive = own.and_then(|own| own.adaptive.as_mut());
        if let (Some(adaptive), Some((began, _))) = (adaptive, began.known()) {
            let in_flight = self.queue.slots().taken();
            adaptive.take_in([began, ended], whole, in_flight);
            self.queue.set_limit(adaptive.limit());
        }
    }
}
