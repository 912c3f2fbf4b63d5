//! What all handles of a lock have in common: its word and its state, and how the two are kept in
//! step.

#[cfg(loom)]
use std::sync::Arc;
// Not a model's: what it says takes part in no race.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Grant;
use super::batch::BatchLimit;
use super::node::Scope;
use super::relay::Relay;
use super::state::{Moment, Next, Stand, State};
use super::tempo::Measured;
use super::wait::{Line, Reason, Wait};
use super::word::{Held, Word};
use crate::id::LockId;
#[cfg(loom)]
use crate::id::OwnerId;
use crate::sync::{Mutex, MutexGuard, rank, unlock_fair};
use crate::time::{Clock, Deadline};

/// In this order, from the beginning of a cache line: the word, the mutex and what a request reads
/// and writes of the state lie side by side. Who asks and who grants take these lines from each
/// other's processor, one after the other.
#[repr(C, align(64))]
pub(super) struct Shared {
    pub(super) word: Word,
    pub(super) state: Mutex<{ rank::LOCK }, State>,
    /// From here on read only, but for what is rare.
    pub(super) timeout: WaitLimit,
    /// Which lock this is, in its ids.
    pub(super) lock: u32,
    pub(super) clock: Clock,
    pub(super) batch: BatchLimit,
    pub(super) relay: Relay,
}

impl Shared {
    /// A limit with when it will have passed. One of zero is none to wait for.
    pub(super) fn deadline(&self, limit: Option<Duration>) -> Option<(Duration, Deadline)> {
        let limit = limit.filter(|limit| !limit.is_zero())?;
        Some((limit, self.clock.deadline(limit)?))
    }

    /// How a request waits that stands there.
    pub(super) fn wait_as(
        &self,
        state: &mut State,
        stand: Stand,
        deadline: Option<(Duration, Deadline)>,
        now: Moment,
    ) -> Wait<Stand> {
        Wait {
            ticket: stand,
            deadline,
            alarm: state.enlist(stand, now),
            looks: state.pace.looks(deadline.map(|(limit, _)| limit)),
        }
    }

    /// The state with the holder pinned: nobody changes the word until the mutex is free again.
    pub(super) fn enter(&self) -> (MutexGuard<'_, { rank::LOCK }, State>, Moment) {
        let mut state = self.state.lock();
        if let Some(held) = state.shown
            && !held.is_pinned()
        {
            if self.word.pin() {
                state.shown = Some(held.pinned());
            } else {
                state.shown = None;
                state.settle();
            }
        }
        // Read under the mutex, here and everywhere: nobody holds since a moment when somebody else
        // did.
        let now = Moment {
            at: self.clock.now(),
            overdue: state
                .hold_limit
                .get()
                .and_then(|limit| self.clock.deadline(limit)),
        };
        state.observe(now.at);
        (state, now)
    }

    /// Takes a step, and tells whom it concerns beside the caller when the mutex is free again.
    pub(super) fn step<T>(&self, step: impl FnOnce(&mut State, Moment) -> T) -> T {
        self.step_and(step, drop)
    }

    /// As [`step`](Self::step), and a thread that waits for the state meanwhile has it next, before
    /// this one comes again.
    pub(super) fn step_in_turn<T>(&self, step: impl FnOnce(&mut State, Moment) -> T) -> T {
        self.step_and(step, unlock_fair)
    }

    #[inline(always)]
    fn step_and<'s, T>(
        &'s self,
        step: impl FnOnce(&mut State, Moment) -> T,
        let_go: impl FnOnce(MutexGuard<'s, { rank::LOCK }, State>),
    ) -> T {
        let (mut state, now) = self.enter();
        let result = step(&mut state, now);
        state.pass_watch_on(now);
        let held = state.held();
        if held != state.shown {
            self.show(&mut state, held);
        }
        let outbox = match state.outbox.is_empty() {
            true => None,
            false => Some(std::mem::take(&mut state.outbox)),
        };
        let_go(state);
        outbox.into_iter().flatten().for_each(Next::deliver);
        result
    }

    #[inline(always)]
    pub(super) fn show(&self, state: &mut State, held: Option<Held>) {
        state.shown = held;
        self.word.set(held);
    }

    /// The state, if nobody holds, nor can before it is let go of. `None` says only that somebody
    /// held a moment ago.
    #[inline(always)]
    pub(super) fn lock_if_free(&self) -> Option<MutexGuard<'_, { rank::LOCK }, State>> {
        if !self.word.is_free() {
            return None;
        }
        let state = self.state.lock();
        self.is_free(&state).then_some(state)
    }

    /// Whether nobody holds, and nobody can before the mutex is free again.
    #[inline(always)]
    fn is_free(&self, state: &State) -> bool {
        match state.shown {
            None => true,
            Some(held) => !held.is_pinned() && self.word.is_free(),
        }
    }

    /// Takes a step that may hand the lock on, and wakes whom that concerns when the mutex is free
    /// again.
    pub(super) fn hand_on(&self, step: impl FnOnce(&mut State, Moment) -> Option<Next>) {
        if let Some(next) = self.step(step) {
            next.deliver();
        }
    }

    /// Takes the lock for whoever wrote its claim. Nobody holds it.
    #[inline(always)]
    pub(super) fn take(&self, state: &mut State, scope: impl FnOnce() -> Option<Scope>) -> Grant {
        let (measured, overdue) = match state.hold_limit.get() {
            None => (state.tempo.measure(|| self.clock.now()), None),
            Some(limit) => (
                Some(Measured::once(self.clock.now())),
                self.clock.deadline(limit),
            ),
        };
        let grant = state.take(scope, measured, overdue);
        let held = state.held();
        self.show(state, held);
        grant
    }

    /// Ends a hold for which nobody waits and which nobody measures.
    #[inline(always)]
    pub(super) fn release(&self, id: LockId, transaction: bool) -> bool {
        id.lock == self.lock && self.word.release(id, transaction)
    }

    /// Looks on behalf of all that wait, and returns when this one is to look again.
    pub(super) fn look_if(
        &self,
        stand: Stand,
        has_passed: impl Fn(Deadline) -> bool,
    ) -> Option<Deadline> {
        self.step(|state, now| state.look(stand, now, has_passed))
    }

    /// The code that `owner` runs when the limit of its present wait has passed.
    #[cfg(loom)]
    pub(super) fn expiry(self: &Arc<Self>, owner: &OwnerId) -> Option<Box<dyn FnOnce()>> {
        let stand = self.state.lock().stand_of(owner)?;
        let shared = Arc::clone(self);
        Some(Box::new(move || {
            shared.withdraw(stand, Reason::Expired(Duration::ZERO));
        }))
    }

    /// Lets the limit on holding pass for all whom any request waits for, if a waiter watches.
    #[cfg(loom)]
    pub(super) fn expire_hold(&self) {
        let watcher = self.state.lock().first_watcher();
        if let Some(stand) = watcher {
            self.look_if(stand, |_| true);
        }
    }
}

/// How long requests wait that do not say. Read without the mutex, so that deadlines need not be
/// worked out under it.
pub(super) struct WaitLimit(AtomicU64);

impl WaitLimit {
    const NONE: u64 = u64::MAX;

    pub(super) fn new(limit: Option<Duration>) -> Self {
        let this = Self(AtomicU64::new(Self::NONE));
        this.set(limit);
        this
    }

    pub(super) fn get(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos != Self::NONE).then(|| Duration::from_nanos(nanos))
    }

    /// One of more than five hundred years is none.
    pub(super) fn set(&self, limit: Option<Duration>) {
        let nanos = limit.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
        self.0.store(nanos.unwrap_or(Self::NONE), Ordering::Relaxed);
    }
}

impl Line for Shared {
    type Ticket = Stand;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn withdraw(&self, stand: Stand, reason: Reason) {
        self.step(|state, now| state.withdraw(stand, reason, now));
    }

    fn look(&self, stand: Stand) -> Option<Deadline> {
        self.look_if(stand, |overdue| self.clock.until(overdue).is_none())
    }
}
