//! Turns: after a refused request for nodes, transactions that are retried run one at a time.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::id::OwnerId;
use crate::lock::{
    AcquireOptions, FifoLock, LockGuard, LockName, Refused, Registrable, WaiterKind,
};
use crate::store::DataStore;
use crate::time::{Clock, MonotonicTime};

/// The turns of a store. A transaction holds the lock in its turn.
#[derive(Debug)]
pub(in crate::store) struct Turns {
    lock: FifoLock,
    clock: Clock,
    made: MonotonicTime,
    /// Until when transactions have turns, in microseconds since this was made.
    until: AtomicU64,
    _named: LockName,
}

impl Turns {
    /// How long transactions have turns after a refusal.
    ///
    /// Where transactions always refuse each other, most of them are in turns. Where they rarely
    /// do, turns end soon.
    const AFTER_REFUSAL: Duration = Duration::from_millis(100);

    fn of(store: &DataStore) -> Self {
        // By the system's clock: the pauses between attempts are, too.
        let lock = FifoLock::new();
        let clock = store.0.lock.clock().clone();
        let name = format!("turns of retries in {}", store.0.name);
        Self {
            _named: lock.primitive().named(name.into()),
            lock,
            made: clock.now(),
            clock,
            until: AtomicU64::new(0),
        }
    }

    fn are_taken(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until > 0 && self.clock.now() - self.made < Duration::from_micros(until)
    }

    fn begin(&self) {
        let until = (self.clock.now() - self.made).saturating_add(Self::AFTER_REFUSAL);
        let until = u64::try_from(until.as_micros()).unwrap_or(u64::MAX);
        self.until.fetch_max(until, Ordering::Relaxed);
    }

    /// Waits for a turn. `None` if that took too long, or the transaction needs none.
    fn wait(
        &self,
        was_refused: bool,
        owner: &OwnerId,
        options: AcquireOptions,
    ) -> Option<LockGuard> {
        let needs_turn = || was_refused || self.are_taken();
        if !needs_turn() {
            return None;
        }
        let turn = self.lock.request(owner.clone()).options(options).wait();
        turn.ok().filter(|_| needs_turn())
    }
}

/// The longest wait for a turn, and the longest pause between two attempts.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_micros(12_800);

/// What a thread knows of the transaction that it retries.
#[derive(Debug, Default)]
struct Retried {
    /// The turns of the store that refused a request since the transaction last had a turn.
    refused_by: Option<Arc<Turns>>,
    /// Whether an attempt ended without a pause since then.
    is_next: bool,
    turn: Option<(Arc<Turns>, LockGuard)>,
}

std::thread_local! {
    static RETRIED: RefCell<Option<Retried>> = const { RefCell::new(None) };
}

/// Runs code with the transaction that the calling thread retries. `None` without one.
fn retried<T>(code: impl FnOnce(&mut Retried) -> T) -> Option<T> {
    let code = |it: &RefCell<Option<Retried>>| it.borrow_mut().as_mut().map(code);
    // A thread that ends may have nothing any more.
    RETRIED.try_with(code).ok().flatten()
}

impl DataStore {
    fn turns(&self) -> &Arc<Turns> {
        let parts = self.0.log.lazy.get_or_make();
        parts.turns.get_or_init(|| Arc::new(Turns::of(self)))
    }

    fn turns_if_any(&self) -> Option<&Arc<Turns>> {
        self.0.log.lazy.get()?.turns.get()
    }

    /// Waits for the turn of a transaction that the calling thread retries, before its first
    /// request for nodes: no longer than that request may wait. Tasks have no turns.
    #[inline]
    pub(super) fn wait_for_turn(
        &self,
        waits_as: WaiterKind,
        owner: &OwnerId,
        options: &AcquireOptions,
    ) {
        if waits_as == WaiterKind::Thread && retried(|it| it.turn.is_none()) == Some(true) {
            self.wait_for_turn_of_retried(owner, options);
        }
    }

    #[cold]
    fn wait_for_turn_of_retried(&self, owner: &OwnerId, options: &AcquireOptions) {
        let refused_by = retried(|it| it.refused_by.clone()).flatten();
        let Some(turns) = self.turns_if_any() else {
            return;
        };
        let was_refused = refused_by.map(|it| Arc::ptr_eq(&it, turns));
        if was_refused == Some(false) {
            // It has only one turn, and needs that of the other store.
            return;
        }
        let options = options.of_wait_before(self.0.lock.timeout(), LONGEST_PAUSE);
        let turn = turns.wait(was_refused.is_some(), owner, options);
        if let Some(turn) = turn {
            retried(|it| {
                *it = Retried {
                    turn: Some((Arc::clone(turns), turn)),
                    ..Retried::default()
                }
            });
        }
    }

    /// Returns which request is refused if one of the calling thread closes a cycle of waits.
    pub(super) fn refused(&self, waits_as: WaiterKind) -> Refused {
        let has_turn = |it: &mut Retried| {
            let turn = it.turn.as_ref().zip(self.turns_if_any());
            turn.is_some_and(|((of, _), turns)| Arc::ptr_eq(of, turns))
        };
        match waits_as == WaiterKind::Thread && retried(has_turn) == Some(true) {
            true => Refused::Another,
            false => Refused::Itself,
        }
    }

    /// Notes that a request for nodes of the calling thread was refused.
    pub(super) fn note_refusal(&self, waits_as: WaiterKind) {
        if waits_as == WaiterKind::Thread && retried(|_| ()).is_some() {
            let turns = self.turns();
            turns.begin();
            drop(retried(|it| it.refused_by.replace(Arc::clone(turns))));
        }
    }

    /// Whether a transaction has its turn.
    #[cfg(test)]
    pub(crate) fn a_turn_is_taken(&self) -> bool {
        self.turns_if_any()
            .is_some_and(|turns| turns.lock.is_locked())
    }

    /// How many transactions wait for their turns.
    #[cfg(test)]
    pub(crate) fn waiting_for_turns(&self) -> usize {
        self.turns_if_any()
            .map_or(0, |turns| turns.lock.queue_length())
    }

    /// Lets time pass after the last refusal.
    #[cfg(test)]
    pub(crate) fn end_turns(&self) {
        let turns = self.turns_if_any();
        turns
            .into_iter()
            .for_each(|turns| turns.until.store(0, Ordering::Relaxed));
    }
}

/// Code of the calling thread that retries a transaction. The turn that this has ends with the
/// outermost such code, also after a panic.
pub(crate) struct Retrying {
    is_outermost: bool,
}

impl Retrying {
    pub(crate) fn begin() -> Self {
        let begin = |it: &RefCell<Option<Retried>>| {
            let mut retried = it.borrow_mut();
            let is_outermost = retried.is_none();
            retried.get_or_insert_default();
            is_outermost
        };
        let is_outermost = RETRIED.try_with(begin).unwrap_or(false);
        Self { is_outermost }
    }

    /// Returns whether the next attempt begins without a pause: a request was refused in the last
    /// one, which had no turn, so it waits for its turn. Otherwise, a turn ends, unless it is that
    /// of code around this.
    pub(crate) fn needs_no_pause(&self) -> bool {
        let failed = |it: &mut Retried| {
            let needs_no_pause = it.refused_by.is_some() && it.turn.is_none() && !it.is_next;
            it.is_next = it.refused_by.is_some();
            (needs_no_pause, it.turn.take_if(|_| self.is_outermost))
        };
        retried(failed).is_some_and(|(needs_no_pause, _)| needs_no_pause)
    }
}

impl Drop for Retrying {
    fn drop(&mut self) {
        if self.is_outermost {
            drop(RETRIED.try_with(RefCell::take));
        }
    }
}

#[cfg(loom)]
impl super::NodeGuard {
    /// Locks more nodes as a transaction in its turn: models share the variables of their thread.
    #[doc(hidden)]
    pub fn extend_in_turn(&mut self, scope: super::Scope) -> Result<(), super::LockError> {
        let (lock, options) = (&self.store.0.lock, AcquireOptions::new());
        let asked = lock.extend_nodes(
            WaiterKind::Thread,
            self.grant,
            &options,
            &scope,
            &self.store,
            Refused::Another,
        );
        self.grant = crate::lock::blocking(asked)?;
        Ok(())
    }
}
