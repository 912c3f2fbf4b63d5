//! Turns: after a refused request for nodes, transactions that are retried run one at a time.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::id::OwnerId;
use crate::lock::{
    AcquireOptions, FifoLock, LockGuard, LockName, Refused, Registrable, WaiterKind,
};
use crate::store::DataStore;

/// The turns of a store. A transaction holds the lock in its turn.
#[derive(Debug)]
pub(in crate::store) struct Turns {
    lock: FifoLock,
    /// How many transactions still have turns after the last refusal.
    left: AtomicU32,
    _named: LockName,
}

impl Turns {
    /// How many transactions have turns after a refusal.
    ///
    /// Where transactions always refuse each other, most of them are in turns. Where they rarely
    /// do, turns end within a tenth of a second.
    const AFTER_REFUSAL: u32 = 4096;

    fn of(store: &DataStore) -> Self {
        // By the system's clock: the pauses between attempts are, too.
        let lock = FifoLock::new();
        let name = format!("turns of retries in {}", store.0.name);
        Self {
            _named: lock.primitive().named(name.into()),
            lock,
            left: AtomicU32::new(0),
        }
    }

    /// Waits for a turn. `None` if it took too long, or the transaction needs none.
    fn wait(
        &self,
        was_refused: bool,
        owner: &OwnerId,
        options: AcquireOptions,
    ) -> Option<LockGuard> {
        let left = || self.left.load(Ordering::Relaxed);
        if left() == 0 && !was_refused {
            return None;
        }
        let turn = self.lock.request(owner.clone()).options(options).wait();
        let turn = turn.ok()?;
        // If a refusal sets it meanwhile, either value is right.
        let left = left();
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        (left > 0 || was_refused).then_some(turn)
    }
}

/// The longest wait for a turn, and the longest pause between two attempts.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_micros(12_800);

/// What a thread knows of the transaction that it retries.
#[derive(Debug, Default)]
struct Retried {
    /// Whether a request was refused since it last waited for its turn.
    was_refused: bool,
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
        let was_refused = retried(|it| mem::take(&mut it.was_refused)) == Some(true);
        let turns = match was_refused {
            true => Some(self.turns()),
            false => self.turns_if_any(),
        };
        if let Some(turns) = turns {
            let options = options.of_wait_before(self.0.lock.timeout(), LONGEST_PAUSE);
            let turn = turns.wait(was_refused, owner, options);
            retried(|it| it.turn = turn.map(|turn| (Arc::clone(turns), turn)));
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
        if waits_as == WaiterKind::Thread && retried(|it| it.was_refused = true).is_some() {
            let left = &self.turns().left;
            left.store(Turns::AFTER_REFUSAL, Ordering::Relaxed);
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

    /// Returns whether the next attempt waits for its turn, because a request was refused in the
    /// last one, which had none. If not, a turn ends now.
    pub(crate) fn waits_for_turn_next(&self) -> bool {
        let failed = retried(|it| (it.was_refused, it.turn.take()));
        failed.is_some_and(|(was_refused, turn)| was_refused && turn.is_none())
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
