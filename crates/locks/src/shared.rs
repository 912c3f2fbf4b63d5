//! What all handles of a lock share: its word and its state, and the protocol between the two.

use std::sync::{Arc, Weak};
// Not the model's type: the value takes part in no race.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::batch::BatchLimit;
use super::fifo::FifoLock;
use super::holder_word::{HeldWord, Word};
use super::keeper::{Keeper, KeeperSlot, KeeperThread};
use super::node::Scope;
use super::options::RequestLimit;
use super::report::ReportChannel;
use super::request::Waiting;
use super::sampling::HoldStart;
use super::state::{AfterUnlock, LockState, Overdue, PAGE, QueuedAt, RequestPosition};
use super::wait::{HowToWait, Look, Reason, Wait, WaitQueue, WaiterKind, call_keeper};
use super::wake_chain::WakeChain;
use super::{AcquireOptions, Grant};
use crate::id::LockId;
use crate::packed::PackedDuration;
use crate::sync::{Mutex, MutexGuard, rank, unlock_fair};
use crate::time::{Clock, Deadline};

/// In this order, from the beginning of a cache line: what a request uses is side by side, because
/// requesting and granting threads take these lines from each other's processor in turn.
#[repr(C, align(64))]
pub(super) struct LockShared {
    pub(super) word: Word,
    pub(super) state: Mutex<{ rank::LOCK }, LockState>,
    /// The [packed](PackedDuration) timeout of requests that set none, read without the mutex. From
    /// here on rarely written.
    pub(super) timeout: AtomicU64,
    /// The number of requests that may wait.
    pub(super) queue_bound: usize,
    /// The lock's number, a part of its ids.
    pub(super) lock: u32,
    pub(super) clock: Clock,
    pub(super) batch: BatchLimit,
    pub(super) wake_chain: WakeChain<dyn Waiting>,
    pub(super) keeper: KeeperSlot,
    /// `None` if the lock makes no reports.
    pub(super) reports: Option<Arc<ReportChannel>>,
    /// Itself, for work that the keeper does.
    pub(super) this: Weak<Self>,
}

type StateGuard<'a> = MutexGuard<'a, { rank::LOCK }, LockState>;

impl LockShared {
    pub(super) fn how_to_wait(&self, options: &AcquireOptions) -> HowToWait {
        options.how_to_wait(self.timeout(), self.queue_bound, &self.clock)
    }

    pub(super) fn how_to_wait_until(
        &self,
        options: &AcquireOptions,
        deadline: impl FnOnce(Duration) -> Option<Deadline>,
    ) -> HowToWait {
        options.how_to_wait_until(self.timeout(), self.queue_bound, deadline)
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        PackedDuration::unpack(self.timeout.load(Ordering::Relaxed))
    }

    pub(super) fn wait_as(
        &self,
        state: &mut LockState,
        waiting_at: RequestPosition,
        waits_as: WaiterKind,
        how: HowToWait,
    ) -> Wait<RequestPosition> {
        let planned = state.next_look;
        if let Some(deadline) = waits_as.ended_by_keeper(how.deadline) {
            state.tasks_wait = true;
            state.look_no_later_than(deadline);
        }
        if state.had_limits
            && let Some(due) = state.due_for(waiting_at)
        {
            // The keeper finds which hold is already overdue.
            state.look_no_later_than(due);
        }
        if state.observed.is_some() {
            state.begin_episode();
        }
        Wait {
            ticket: waiting_at,
            deadline: how.deadline,
            spins: state.pace.spins(how.limit()),
            keeper_looks: (state.next_look < planned).then_some(state.next_look),
        }
    }

    /// Takes a step, and delivers the outcomes of other requests when the mutex is free again.
    pub(super) fn step<T>(&self, step: impl FnOnce(&mut LockState) -> T) -> T {
        self.step_and(LockState::read_clock, step, false)
    }

    /// Takes a step that reads the clock only if `is_timed` returns so.
    #[inline(always)]
    pub(super) fn step_if_timed<T>(
        &self,
        is_timed: impl FnOnce(&LockState) -> bool,
        step: impl FnOnce(&mut LockState) -> T,
    ) -> T {
        let begin = |state: &mut LockState, clock: &Clock| {
            state.is_timed = false;
            if is_timed(state) {
                state.read_clock(clock);
            }
        };
        self.step_and(begin, step, false)
    }

    /// Takes a step that changes no hold or wait, or finds itself when the keeper looks next. A
    /// thread that waits for the state gets it next, before this one can lock it again.
    pub(super) fn step_fair<T>(&self, step: impl FnOnce(&mut LockState) -> T) -> T {
        self.step_and(LockState::read_clock, step, true)
    }

    /// Reads the requests in the queue, in order and each with its position, page by page: the lock
    /// stays usable. The first page is of the moment of `first`, whose result is returned too.
    pub(super) fn read_queue<T, I>(
        &self,
        first: impl FnOnce(&mut LockState) -> T,
        mut item: impl FnMut(&LockState, QueuedAt<'_>) -> I,
    ) -> (T, Vec<I>) {
        let mut listed = 0;
        let mut page = |state: &LockState, after| {
            let (page, next) = state.queue.page(after, PAGE);
            let page = page.into_iter().map(|(ticket, waiter)| {
                listed += 1;
                item(state, (ticket, waiter, listed))
            });
            (page.collect::<Vec<_>>(), next)
        };
        let (result, (mut list, mut next)) =
            self.step_fair(|state| (first(state), page(state, None)));
        while next.is_some() {
            let (items, after) = self.step_fair(|state| page(state, next));
            // Without the mutex, because a long list may move.
            list.extend(items);
            next = after;
        }
        (result, list)
    }

    #[inline(always)]
    fn step_and<T>(
        &self,
        begin: impl FnOnce(&mut LockState, &Clock),
        step: impl FnOnce(&mut LockState) -> T,
        is_fair: bool,
    ) -> T {
        let mut state = self.state.lock();
        // Pins the holder: no other thread changes the word while the mutex is locked.
        if state.shown.ends_apart() {
            state.shown = self.word.pin(state.shown);
            if state.shown == HeldWord::FREE {
                state.settle();
            }
        }
        begin(&mut state, &self.clock);
        let result = step(&mut state);
        if !is_fair
            && state.observed.is_some()
            && let Some(deadline) = state.watch_slow()
        {
            state.outbox.push(AfterUnlock::Look(deadline));
        }
        let held = state.held();
        if held != state.shown {
            state.shown = held;
            self.word.set(held);
        }
        let outbox = (!state.outbox.is_empty()).then(|| std::mem::take(&mut state.outbox));
        match is_fair {
            true => unlock_fair(state),
            false => drop(state),
        }
        let outbox = outbox.into_iter().flatten();
        outbox.for_each(|next| self.deliver(next));
        result
    }

    pub(super) fn deliver(&self, next: AfterUnlock) {
        match next {
            // No thread that serves tasks may be made to do this.
            AfterUnlock::Leave(request, grant) => {
                let Some(lock) = self.this.upgrade().map(FifoLock) else {
                    return debug_assert!(false, "a request keeps its lock");
                };
                let work = move |thread: &mut KeeperThread| lock.carry_out(request, grant, thread);
                Keeper::of_process().take_over(Box::new(work));
            }
            AfterUnlock::Report(report) => {
                if let Some(reports) = &self.reports {
                    reports.publish(*report);
                }
            }
            // Without it, no request waits.
            AfterUnlock::Look(deadline) => {
                let this = self.this.upgrade();
                this.iter().for_each(|this| call_keeper(this, deadline));
            }
            AfterUnlock::Answer(request, outcome) => request.deliver(outcome),
            AfterUnlock::Serve(request, grant) => request.deliver(Ok(grant)),
        }
    }

    /// Locks the state if the lock is free, and stays free while the guard lives.
    #[inline(always)]
    pub(super) fn lock_if_free(&self) -> Option<StateGuard<'_>> {
        if !self.word.is_free() {
            return None;
        }
        let state = self.state.lock();
        self.word.is_free().then_some(state)
    }

    /// Takes a step that may grant the lock, and wakes the waiters when the mutex is free again.
    #[inline(never)]
    pub(super) fn hand_on(&self, step: impl FnOnce(&mut LockState) -> Option<AfterUnlock>) {
        if let Some(next) = self.step(step) {
            self.deliver(next);
        }
    }

    /// As [`hand_on`](Self::hand_on), for the end of this hold.
    #[inline(never)]
    pub(super) fn hand_on_from(
        &self,
        id: LockId,
        step: impl FnOnce(&mut LockState) -> Option<AfterUnlock>,
    ) {
        let begin = |state: &mut LockState, clock: &Clock| state.begin_end(id, clock);
        if let Some(next) = self.step_and(begin, step, false) {
            self.deliver(next);
        }
    }

    /// Grants the free lock to the request that has written its source.
    #[inline(always)]
    pub(super) fn take(
        &self,
        state: &mut LockState,
        hold_limit: RequestLimit,
        scope: impl FnOnce() -> Option<Scope>,
    ) -> Grant {
        let (since, overdue) = match state.limit_of(hold_limit) {
            None => (state.sampling.measure(|| self.clock.now()), None),
            Some(limit) => {
                let now = self.clock.now();
                (HoldStart::now(now), Overdue::after(limit, now))
            }
        };
        let grant = state.take(scope, since, overdue);
        let transaction = state.source().transaction;
        state.shown = HeldWord::by(grant.number, transaction, since.is_known());
        self.word.set(state.shown);
        grant
    }

    /// Ends a hold for which no request waits and which is not measured.
    #[inline(always)]
    pub(super) fn release(&self, LockId { number, lock }: LockId, transaction: bool) -> bool {
        lock == self.lock && self.word.release(HeldWord::by(number, transaction, false))
    }
}

/// A handle that does not keep its lock.
#[derive(Clone, Debug)]
pub struct WeakLock(pub(super) Weak<LockShared>);

impl WeakLock {
    /// Returns the lock, if it still exists.
    pub fn upgrade(&self) -> Option<FifoLock> {
        self.0.upgrade().map(FifoLock)
    }
}

impl WaitQueue for LockShared {
    type Ticket = RequestPosition;

    fn waits_for(waiting_at: RequestPosition) -> u64 {
        waiting_at.number
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn withdraw(&self, waiting_at: RequestPosition, reason: Reason) {
        self.step(|state| state.withdraw(waiting_at, reason));
    }

    fn keeper(&self) -> &KeeperSlot {
        &self.keeper
    }

    fn abandon(&self, waiting_at: RequestPosition) {
        // Dropped when the mutex is free.
        let _request = self.step(|state| state.abandon(waiting_at));
    }

    fn check_waits_and_holds(&self, look: &mut Look<'_, RequestPosition>) {
        let mut state = self.state.lock();
        let next = state.next_look;
        if self.clock.until(next).is_some() {
            return look.again_at(next);
        }
        #[cfg(test)]
        {
            state.looks += 1;
        }
        // What joins from here on sets both again, and so does what is found.
        state.next_look = Deadline::NEVER;
        let tasks_wait = std::mem::take(&mut state.tasks_wait);
        drop(state);
        let has_passed = |overdue| self.clock.until(overdue).is_none();
        let mut left = None;
        let waits = self.step_fair(|state| {
            state.revoke_overdue(has_passed);
            state.look_at_slow(&mut left)
        });
        if tasks_wait || waits.is_some() {
            let (_, reports) = self.read_queue(
                |_| (),
                |state, (ticket, waiter, position)| {
                    waiter.look_at(Some(ticket), look);
                    state.look_at_wait((waiter, position), waits?, &mut left)
                },
            );
            let reports = reports.into_iter().flatten();
            reports.for_each(|report| self.deliver(report));
        }
        // After the queue: a request that leaves it meanwhile waits for its nodes.
        self.step_fair(|state| {
            let waiters = state.waiters_for_nodes();
            waiters.for_each(|waiter| waiter.look_at(None, look));
            if let Some(first) = look.first_deadline() {
                state.tasks_wait = true;
                state.look_no_later_than(first);
            }
            left.and_then(|left| state.look_within(left));
            look.again_at(state.next_look);
        });
    }

    fn cannot_look(&self) {
        let mut state = self.state.lock();
        let next = state.next_look;
        if !self.keeper.is_served() {
            state.next_look = Deadline::NEVER;
        }
        drop(state);
        // Another request may have called the keeper in vain, because this one was to do so.
        self.keeper.expect(next);
    }
}
