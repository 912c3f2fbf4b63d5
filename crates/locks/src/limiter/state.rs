//! The data behind the mutex of an [`InFlightLimiter`](super::InFlightLimiter): a queue for each
//! key, and the queue of keys.
//!
//! Time comes in as an argument and outcomes go out as return values; nothing here sleeps or wakes.
//! Code of users runs here where a key is looked up (`Eq`, of keys with the same hash) and where
//! one is listed (`Clone`), before any change. Slots are returned by number, so no code of a key
//! can fail then.
//!
//! `docs/invariants/limiter.md` has what holds whenever the mutex is free: B1 to B10.

use std::panic::Location;

use super::metrics::CallMetrics;
use super::options::{Adaptive, KeyLimit};
use super::*;
use crate::diagnostics::KEYS;
use crate::key_table::{KeyEntry, KeyId, KeyTable};
use crate::mailbox::Mailbox;
use crate::queue::{Priority, Queue, Slots, Ticket};
use crate::sampling::{HoldStart, Sampling};
use crate::time::MonotonicTime;
use crate::wait::WaitDeadline;
use crate::{shrink, threads};

pub(super) struct LimiterState<K: LimiterKey> {
    /// With room for 14 keys that is kept, and the memory of one.
    keys: KeyTable<K, KeyState<K>, 14, 1>,
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

/// The position of a waiting call: its key, and its ticket in the queue of that.
pub(super) type CallTicket = (KeyId, Ticket);

/// The calls to answer, with their verdicts.
pub(super) type Answers<K> = Vec<(Arc<CallMailbox<K>>, Result<Granted, LeftCall>)>;

/// What a step leaves to do after the release of the mutex: the answers, then the drop of a key
/// that is idle now, which is code of users.
pub(super) type AfterUnlock<K> = (Option<Answers<K>>, Option<K>);

/// The line that requested slots, and the number of the thread; zero for a task.
pub(super) type Caller = (&'static Location<'static>, u64);

/// Returns the number of the next key that comes into use.
fn next(added: &mut u64) -> u64 {
    *added += 1;
    *added
}

impl<K: LimiterKey> LimiterState<K> {
    /// Each key of `rules` is there once.
    pub(super) fn new(
        default_limit: usize,
        global_limit: Option<usize>,
        rules: Vec<(K, KeyLimit)>,
        clock: &Clock,
    ) -> Self {
        let mut keys = KeyTable::default();
        let added = rules.len() as u64;
        for ((key, rule), number) in rules.into_iter().zip(0..) {
            let (limit, adaptive, sampling) = match rule {
                KeyLimit::Fixed(limit) => (limit, None, Sampling::new(clock)),
                KeyLimit::Adaptive(rules) => (
                    rules.start.clamp(rules.least, rules.most),
                    Some(Adaptive::new(rules)),
                    Sampling::of_each(),
                ),
            };
            let metrics = CallMetrics::new(sampling);
            let own = Some(Box::new(OwnQueue { metrics, adaptive }));
            let (hash, number) = (Secret.hash_one(&key), || Some(number));
            let new = || KeyState::new(limit, own);
            keys.find_or_add(hash, &mut Some(key), |_, _| false, number, new);
        }
        Self {
            keys,
            added,
            default_limit,
            turns: Queue::new(Slots::new(global_limit.unwrap_or(usize::MAX)), 0),
            global_limit,
            others: CallMetrics::new(Sampling::new(clock)),
        }
    }

    // --- Requests ---

    /// Returns the most slots that a call may take: the lowest limit.
    pub(super) fn most(&self, key: &K, hash: u64) -> usize {
        let own = self.find(key, hash).map(KeyState::least_limit);
        own.unwrap_or(self.default_limit)
            .min(self.turns.slots().limit())
    }

    /// Takes slots at once, if they are free, no waiting call precedes, and the limit is never
    /// lower. Takes the key out of `key` if it comes into use.
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
        let is = |own: &K, key: &Option<K>| Some(own) == key.as_ref();
        let new = || KeyState::new(limit, None);
        let (entry, _) = self.keys.find_or_add(hash, key, is, number, new)?;
        let (key, state) = (entry.id, &mut entry.state);
        if weight > state.least_limit() || !state.queue.try_take(weight) {
            return None;
        }
        if !self.turns.try_take(weight) {
            // No call waits for this key, so this makes room for none.
            state.queue.give_back(weight);
            return None;
        }
        let metrics = state.metrics(&mut self.others);
        metrics.counts.acquired += 1;
        let began = metrics.sampling.measure(|| clock.now());
        Some(state.grant(key, weight, caller, began))
    }

    /// Joins the queue of a key, after [`try_take`](Self::try_take) has declined. The weight is no
    /// more than [`most`](Self::most). Takes the key out of `key` if it comes into use.
    pub(super) fn join(
        &mut self,
        key: &mut Option<K>,
        hash: u64,
        call: WaitingCall<K>,
    ) -> CallTicket {
        let number = || Some(next(&mut self.added));
        let is = |own: &K, key: &Option<K>| Some(own) == key.as_ref();
        let new = || KeyState::new(self.default_limit, None);
        let found = self.keys.find_or_add(hash, key, is, number, new);
        let (entry, _) = found.expect("it was added");
        let (key, state) = (entry.id, &mut entry.state);
        state.observe(call.since);
        let ticket = state.queue.join(call.weight, Priority::Normal, call);
        self.update_turn(key);
        (key, ticket)
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
        (key, ticket): CallTicket,
        reason: Reason,
        now: MonotonicTime,
    ) -> AfterUnlock<K> {
        let load = self.load_of(self.keys.get(key).map(|entry| &entry.state));
        let Some(KeyEntry { state, .. }) = self.keys.get_mut(key) else {
            return AfterUnlock::default();
        };
        let ahead = state.queue.ahead_of(ticket);
        let Some((ahead, waiter)) = ahead.zip(state.queue.withdraw(ticket)) else {
            return AfterUnlock::default();
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
        let over = state.is_over();
        let left = (waiter.mailbox, Err(Box::new((reason, evidence))));
        let answers = Some(self.serve(key, now, vec![left]));
        let gone = over.then(|| self.keys.remove_if(key, |_| true));
        (answers, gone.flatten())
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
    ) -> AfterUnlock<K> {
        let Granted { key, began, .. } = granted;
        let Some(KeyEntry { state, .. }) = self.keys.get_mut(key) else {
            debug_assert!(false, "a key is kept while it has slots out");
            return AfterUnlock::default();
        };
        let waited_for = !self.turns.is_empty() || !state.queue.is_empty();
        let now = match began.is_known() || waited_for {
            true => clock.now(),
            false => MonotonicTime::default(),
        };
        let metrics = state.metrics(&mut self.others);
        metrics.ended += 1;
        metrics.counts.cancelled_running += u64::from(cancelled);
        if let Some((at, weight)) = began.known() {
            metrics.latency.record(now - at, weight);
        }
        let adaptive = state.own.as_mut().and_then(|own| own.adaptive.as_mut());
        if let (Some(adaptive), Some((began, _))) = (adaptive, began.known()) {
            let limit = adaptive.learn([began, now], whole, state.queue.slots());
            state.queue.set_limit(limit);
        }
        if granted.is_on_record {
            state.permit = None;
        }
        state.queue.give_back(granted.weight);
        self.turns.give_back(granted.weight);
        let over = state.is_over();
        let answers = waited_for.then(|| self.serve(key, now, Vec::new()));
        let gone = over.then(|| self.keys.remove_if(key, |_| true));
        (answers, gone.flatten())
    }

    // --- Turns ---

    /// Restores B3 after a change of the queue or limit of a key.
    fn update_turn(&mut self, id: KeyId) {
        let Some(KeyEntry { state, .. }) = self.keys.get_mut(id) else {
            return;
        };
        let capacity = state.queue.slots();
        let head = state.queue.head();
        let demand = head.filter(|&weight| capacity.fits(weight));
        if state.turn.map(|(_, weight)| weight) == demand {
            return;
        }
        if let Some(turn) = state.turn.take() {
            self.turns.withdraw(turn.0);
        }
        let join = |weight| (self.turns.join(weight, Priority::Normal, id), weight);
        state.turn = demand.map(join);
    }

    /// Restores B3 and B4 after a change at a key: grants to keys in turn while the first fits.
    fn serve(&mut self, changed: KeyId, now: MonotonicTime, mut answers: Answers<K>) -> Answers<K> {
        self.update_turn(changed);
        while let Some(id) = self.turns.next() {
            let Some(KeyEntry { state, .. }) = self.keys.get_mut(id) else {
                debug_assert!(false, "a key is kept while a call waits for it");
                continue;
            };
            state.turn = None;
            let Some(waiter) = state.queue.next() else {
                debug_assert!(false, "the head of a key's queue fits its limit (B3)");
                continue;
            };
            let metrics = state.metrics(&mut self.others);
            metrics.counts.acquired += 1;
            metrics
                .wait
                .record_wait(now - waiter.since, &mut metrics.latency);
            let began = HoldStart::now(now);
            let granted = state.grant(id, waiter.weight, waiter.caller, began);
            answers.push((waiter.mailbox, Ok(granted)));
            self.update_turn(id);
        }
        answers
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
                visit((entry.id, ticket), waiter.task);
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

struct KeyState<K: LimiterKey> {
    queue: Queue<WaitingCall<K>>,
    /// Its ticket in the queue of keys, and its demand there.
    turn: Option<(Ticket, usize)>,
    /// One of the permits that are held: who requested it, and its start as far as it is known.
    permit: Option<(Caller, HoldStart)>,
    /// Set for a key that was configured by name.
    own: Option<Box<OwnQueue>>,
}

struct OwnQueue {
    metrics: CallMetrics,
    adaptive: Option<Adaptive>,
}

impl<K: LimiterKey> KeyState<K> {
    fn new(limit: usize, own: Option<Box<OwnQueue>>) -> Self {
        Self {
            queue: Queue::new(Slots::new(limit), 0),
            turn: None,
            permit: None,
            own,
        }
    }

    /// Whether the key is idle and was not configured by name.
    fn is_over(&self) -> bool {
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
        let ((call_site, thread), began) = self.permit.as_mut()?;
        began.observe(now);
        Some(PermitSnapshot {
            held_for: began.lasted(now),
            at_least: !began.exact,
            call_site: (*call_site).into(),
            thread: threads::describe(*thread),
        })
    }

    /// Returns the lowest number of slots that the limit can fall to.
    fn least_limit(&self) -> usize {
        let adaptive = self.own.as_ref().and_then(|own| own.adaptive.as_ref());
        adaptive.map_or(self.queue.slots().limit(), |adaptive| adaptive.rules.least)
    }

    fn metrics<'a>(&'a mut self, others: &'a mut CallMetrics) -> &'a mut CallMetrics {
        match &mut self.own {
            Some(own) => &mut own.metrics,
            None => others,
        }
    }
}
