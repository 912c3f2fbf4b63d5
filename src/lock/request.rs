//! One waiting request: who asks, what is to be done, and how it is told what became of it.
//!
//! What a lock needs to know of who waits is [`Waiting`], so an asynchronous waker could stand here
//! as well, if it goes on with a [relay](super::relay) from where it is woken and not from where it
//! is polled. A request has its own mutex: a woken thread need not touch the lock's again.

use std::convert::Infallible;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};

use smol_str::SmolStr;

use super::parker::{Parker, Waiter};
use super::{Grant, LockError};
use crate::caught::{CaughtPanic, catch};
use crate::id::OwnerId;
use crate::sync::{Condvar, Hint, Mutex, rank, thread_number};
use crate::time::{Clock, Deadline, TimeListener};

/// Who asks, as the caller says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) owner: &'a OwnerId,
    pub(crate) label: Option<&'a SmolStr>,
    pub(crate) call_site: &'static Location<'static>,
    /// The thread that must not hold the lock already, because it would wait for itself; zero for
    /// none.
    pub(crate) thread: u64,
    /// Whether the grant is bound to that thread. A grant that is released by its id is not.
    pub(crate) bound: bool,
    /// Whether the grant goes to a transaction, which alone may end it.
    pub(crate) transaction: bool,
}

impl Asker<'_> {
    /// The same request, whose grant is bound to no thread.
    #[inline]
    pub(super) fn unbound(self) -> Self {
        Self {
            bound: false,
            ..self
        }
    }

    /// The thread that would wait for itself if it asked again under the grant; zero for none.
    #[inline]
    fn holding_thread(&self) -> u64 {
        if self.bound { self.thread } else { 0 }
    }
}

/// Who asks, as the lock keeps it, in the part that is the same before and after the grant.
///
/// In this order: what a request looks at comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Claim {
    pub(super) thread: u64,
    pub(super) transaction: bool,
    pub(super) call_site: &'static Location<'static>,
    pub(super) owner: OwnerId,
    pub(super) label: Option<SmolStr>,
}

impl Claim {
    pub(super) fn nobody() -> Self {
        Self {
            owner: OwnerId::default(),
            label: None,
            call_site: Location::caller(),
            thread: 0,
            transaction: false,
        }
    }

    /// Whoever asks, if it asks again.
    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker {
            owner: &self.owner,
            label: self.label.as_ref(),
            call_site: self.call_site,
            thread: self.thread,
            bound: true,
            transaction: self.transaction,
        }
    }

    /// Makes it the claim of whoever asks. What is written goes to its place at once: a copy on the
    /// way would stall the processor, which reads back wide what was written narrow.
    #[inline(always)]
    pub(super) fn assign(&mut self, asker: &Asker<'_>) {
        self.owner = asker.owner.clone();
        match (&mut self.label, asker.label) {
            (None, None) => {}
            (Some(own), Some(label)) => *own = label.clone(),
            (own, label) => *own = label.cloned(),
        }
        self.call_site = asker.call_site;
        self.thread = asker.holding_thread();
        self.transaction = asker.transaction;
    }

    /// As [`Claim::assign`], for the calling thread, of whom no more is known.
    #[inline(always)]
    pub(super) fn assign_plainly(
        &mut self,
        owner: OwnerId,
        call_site: &'static Location<'static>,
        bound: bool,
    ) {
        self.owner = owner;
        if self.label.is_some() {
            self.label = None;
        }
        self.call_site = call_site;
        self.thread = if bound { thread_number() } else { 0 };
        self.transaction = false;
    }

    /// Lets go of what it keeps elsewhere in memory.
    #[inline(always)]
    pub(super) fn forget(&mut self) {
        self.owner = OwnerId::default();
        if self.label.is_some() {
            self.label = None;
        }
    }
}

/// Work under a lock. If it is for any thread, the holder of the lock can do it when it is its
/// turn.
pub(crate) trait Errand: Send + 'static {
    /// What becomes of it.
    type Reply: Send + 'static;

    /// Whether a thread may do it that did not ask for it.
    fn is_for_any_thread(&self) -> bool;

    /// Whether it is done in no time, whatever others do meanwhile: it runs no code of users.
    fn is_brief(&self) -> bool;

    /// Does it, once, under a grant that the caller ends. What is left of it goes back to who
    /// asked: memory that one thread allocates and another frees costs both of them more than a
    /// short errand does.
    fn run(&mut self, grant: Grant) -> Self::Reply;
}

/// No work: who asks wants the lock itself.
impl Errand for Infallible {
    type Reply = Infallible;

    fn is_for_any_thread(&self) -> bool {
        match *self {}
    }

    fn is_brief(&self) -> bool {
        match *self {}
    }

    fn run(&mut self, _: Grant) -> Infallible {
        *self
    }
}

/// What a waiting request is told, exactly once.
#[derive(Debug)]
pub(super) enum Outcome<R> {
    /// It holds the lock, and does its work itself.
    Granted(Grant),
    /// It left the line without a grant.
    Failed(Box<LockError>),
    /// Its work was done by another thread.
    Done(R),
    /// Its work was done by another thread until it panicked.
    Panicked(CaughtPanic),
}

/// A grant, or why there is none: what the lock itself has to tell.
pub(super) type Verdict = Outcome<Infallible>;

impl Verdict {
    fn of<R>(self) -> Outcome<R> {
        match self {
            Self::Granted(grant) => Outcome::Granted(grant),
            Self::Failed(error) => Outcome::Failed(error),
            Self::Done(never) => match never {},
            Self::Panicked(panic) => Outcome::Panicked(panic),
        }
    }
}

/// A request as the line knows it.
pub(super) trait Waiting: Send + Sync {
    fn asker(&self) -> Asker<'_>;

    /// Whether whoever holds the lock can do its work.
    fn is_errand(&self) -> bool;

    /// Whether its work is done in no time.
    fn is_brief(&self) -> bool;

    /// Tells the waiter. To be called once, and without the lock's mutex; instead of
    /// [`Waiting::serve`].
    fn tell(&self, verdict: Verdict);

    /// Does the waiter's work in the calling thread, and leaves word of what became of it. A panic
    /// is told as well. Returns whether the waiter sleeps and has yet to be woken.
    #[must_use]
    fn serve(&self, grant: Grant) -> bool;

    /// Has the waiter look at the limit on holding from now on. It may have been told an outcome
    /// meanwhile.
    fn call_to_watch(&self);

    /// Wakes a waiter for whom word was left, and has it go on with the relay, which it must.
    /// `false` if it has awoken by itself.
    #[must_use]
    fn wake(&self) -> bool;
}

/// A request with a thread that waits for it.
///
/// Ten thousand may wait, so what it is made of lies side by side, the flags in what would else be
/// a gap.
pub(super) struct Request<W: Errand> {
    owner: OwnerId,
    label: Option<SmolStr>,
    call_site: &'static Location<'static>,
    thread: u64,
    slot: Mutex<{ rank::REQUEST }, Slot<W>>,
    changed: Condvar,
    transaction: bool,
    errand: bool,
    brief: bool,
    /// Read and written under the slot's mutex alone.
    asleep: AtomicBool,
    told: Hint,
    /// Whether it was woken from a [relay](super::relay). Written under the slot's mutex, to
    /// somebody who sleeps.
    relayed: AtomicBool,
    /// Whether it was called to watch and has yet to look. Read and written under the slot's mutex
    /// alone.
    called: AtomicBool,
}

struct Slot<W: Errand> {
    /// Until somebody takes it to do it, and what is left of it afterwards.
    work: Option<W>,
    /// From when it is told until the waiter has heard it.
    outcome: Option<Outcome<W::Reply>>,
}

impl<W: Errand> Request<W> {
    pub(super) fn new(asker: &Asker<'_>, work: Option<W>) -> Self {
        Self {
            owner: asker.owner.clone(),
            label: asker.label.cloned(),
            call_site: asker.call_site,
            thread: asker.holding_thread(),
            transaction: asker.transaction,
            errand: work.as_ref().is_some_and(W::is_for_any_thread),
            brief: work.as_ref().is_some_and(W::is_brief),
            slot: Mutex::new(Slot {
                work,
                outcome: None,
            }),
            asleep: AtomicBool::new(false),
            changed: Condvar::default(),
            told: Hint::default(),
            relayed: AtomicBool::new(false),
            called: AtomicBool::new(false),
        }
    }

    /// Whether it was woken from a relay, and is to go on with it.
    pub(super) fn was_relayed(&self) -> bool {
        self.relayed.load(Ordering::Relaxed)
    }

    /// Takes the work, to do it, or what is left of it.
    pub(super) fn take_work(&self) -> Option<W> {
        self.slot.lock().work.take()
    }

    /// Leaves word. Returns whether the waiter sleeps.
    pub(super) fn leave(&self, outcome: Outcome<W::Reply>) -> bool {
        self.leave_with(outcome, None)
    }

    fn leave_with(&self, outcome: Outcome<W::Reply>, spent: Option<W>) -> bool {
        self.parker().leave(|slot| {
            debug_assert!(slot.outcome.is_none(), "told twice");
            slot.outcome = Some(outcome);
            if spent.is_some() {
                slot.work = spent;
            }
        })
    }

    /// Wakes the waiter, if it sleeps.
    pub(super) fn notify(&self) {
        self.changed.notify_one();
    }

    fn parker(&self) -> Parker<'_, Slot<W>> {
        Parker {
            slot: &self.slot,
            changed: &self.changed,
            asleep: &self.asleep,
            told: &self.told,
        }
    }
}

impl<W: Errand> Waiter for Request<W> {
    type Outcome = Outcome<W::Reply>;

    fn wait_until(
        &self,
        looks: u32,
        clock: &Clock,
        deadline: Option<Deadline>,
    ) -> Option<Outcome<W::Reply>> {
        let take = |slot: &mut Slot<W>| match slot.outcome.take() {
            Some(outcome) => Some(Some(outcome)),
            None => self.called.swap(false, Ordering::Relaxed).then_some(None),
        };
        let taken = self.parker().wait_until(looks, clock, deadline, take);
        taken.flatten()
    }
}

impl<W: Errand> Waiting for Request<W> {
    fn asker(&self) -> Asker<'_> {
        Asker {
            owner: &self.owner,
            label: self.label.as_ref(),
            call_site: self.call_site,
            thread: self.thread,
            bound: true,
            transaction: self.transaction,
        }
    }

    fn is_errand(&self) -> bool {
        self.errand
    }

    fn is_brief(&self) -> bool {
        self.brief
    }

    fn tell(&self, verdict: Verdict) {
        if self.leave(verdict.of()) {
            self.notify();
        }
    }

    fn serve(&self, grant: Grant) -> bool {
        let Some(mut work) = self.take_work() else {
            debug_assert!(false, "only errands are served, and those once");
            return false;
        };
        // Nobody sees what a panic leaves behind: the work owns all that it changes before it is
        // done, and is not done again.
        let outcome = match catch(|| work.run(grant)) {
            Ok(reply) => Outcome::Done(reply),
            Err(panic) => Outcome::Panicked(panic),
        };
        self.leave_with(outcome, Some(work))
    }

    fn call_to_watch(&self) {
        if self
            .parker()
            .leave(|_| self.called.store(true, Ordering::Relaxed))
        {
            self.notify();
        }
    }

    fn wake(&self) -> bool {
        let slot = self.slot.lock();
        let asleep = self.asleep.load(Ordering::Relaxed);
        if asleep {
            self.relayed.store(true, Ordering::Relaxed);
        }
        drop(slot);
        if asleep {
            self.notify();
        }
        asleep
    }
}

impl<W: Errand> TimeListener for Request<W> {
    fn time_advanced(&self) {
        self.parker().look_again();
    }
}
