//! The state that all handles of a pool share, and what keeps its counts right: a use of a
//! document, a claimed slot, a wait for a slot.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

use super::closer::CloserSignal;
use super::options::PoolOptions;
use super::slots::{SlotPermit, Slots};
use super::table::{Opened, Removed, SlotUse, Table};
use super::{Opening, PoolError};
use crate::DataStore;
use crate::caught::{catch, dispose};
use crate::durable::DurabilityError;
use crate::lock::keyed::{KeyedLock, KeyedOptions};
use crate::lock::limiter::LimiterOptions;
use crate::sync::{Mutex, assert_unlocked, rank};
use crate::time::MonotonicTime;

/// The code that opens a document.
pub(super) type Opener<T> = dyn Fn(&Opening<'_>) -> OpenerResult<T> + Send + Sync;

pub(super) type OpenerResult<T> = Result<(DataStore, T), Box<dyn std::error::Error + Send + Sync>>;

/// The owner under which the pool itself closes documents.
const CLOSER: &str = "closer";

std::thread_local! {
    /// Whether the thread closes a document of a pool.
    static CLOSES: Cell<bool> = const { Cell::new(false) };
}

pub(super) struct Shared<T> {
    pub(super) table: Mutex<{ rank::POOL }, Table<T>>,
    /// Held by the request that opens or closes a document, or waits for a slot to open it.
    pub(super) names: KeyedLock<SmolStr>,
    /// Held while the pool closes an idle document. No request waits with such a key, only for the
    /// end of the close. So the closer waits for no request, not even for one of a task that is not
    /// polled.
    pub(super) closes: KeyedLock<SmolStr>,
    pub(super) slots: Slots,
    pub(super) options: PoolOptions,
    pub(super) closer: Arc<CloserSignal>,
    opener: Box<Opener<T>>,
}

impl<T> Shared<T> {
    pub(super) fn new(options: PoolOptions, opener: Box<Opener<T>>) -> Self {
        let keyed = || {
            let keyed = KeyedOptions::new().clock(options.clock.clone());
            let bounded = options
                .queue_bound
                .map(|bound| keyed.clone().queue_bound(bound));
            KeyedLock::with_options(bounded.unwrap_or(keyed))
        };
        let slots = LimiterOptions::new(options.most_open).clock(options.clock.clone());
        let bounded = options
            .queue_bound
            .map(|bound| slots.clone().queue_bound(bound));
        let closer = Arc::default();
        options.clock.listen(&closer);
        Self {
            table: Mutex::new(Table::new(options.most_open)),
            names: keyed(),
            closes: KeyedLock::with_options(KeyedOptions::new().clock(options.clock.clone())),
            slots: Slots::with_options(bounded.unwrap_or(slots)),
            closer,
            options,
            opener,
        }
    }

    pub(super) fn now(&self) -> MonotonicTime {
        self.options.clock.now()
    }

    /// Begins a use of a document, if it is open and accepts commits.
    pub(super) fn begin_use(self: &Arc<Self>, name: &str) -> Option<Use<T>> {
        let opened = self.table.lock().begin_use(name)?;
        Some(self.use_of(opened))
    }

    fn use_of(self: &Arc<Self>, opened: Arc<Opened<T>>) -> Use<T> {
        Use {
            shared: Arc::clone(self),
            opened: Some(opened),
        }
    }

    // --- Opening ---

    /// Opens a document with a claimed slot, in the calling thread. `before` is a store of the
    /// document that accepts no commits; it is closed first.
    pub(super) fn open(
        self: &Arc<Self>,
        opening: &Opening<'_>,
        before: Option<Arc<Opened<T>>>,
        slot: ClaimedSlot<T>,
    ) -> Result<Use<T>, PoolError> {
        if let Some(before) = before {
            // Its commits have returned the error of the journal already.
            let _ = self.close_store(before);
        }
        assert_unlocked("an opener is called");
        let name = opening.name;
        let opened = (self.opener)(opening).map_err(|error| PoolError::of_opener(name, error))?;
        let (permit, now) = (slot.into_permit(), self.now());
        let opened = self.table.lock().insert(opening.name, opened, permit, now);
        Ok(self.use_of(opened))
    }

    /// Counts the slot that a request has waited for.
    pub(super) fn claim(
        self: &Arc<Self>,
        mut wait: SlotWait<T>,
        permit: SlotPermit,
    ) -> ClaimedSlot<T> {
        self.table.lock().claim(wait.in_close);
        wait.is_over = true;
        self.claimed(permit, None)
    }

    /// The slot of a document that left the table.
    pub(super) fn claimed(
        self: &Arc<Self>,
        permit: SlotPermit,
        closing: Option<SlotUse>,
    ) -> ClaimedSlot<T> {
        ClaimedSlot {
            shared: Arc::clone(self),
            permit: Some(permit),
            closing,
        }
    }

    // --- Closing ---

    /// Closes a document that left the table to be closed, and then returns its slot.
    pub(super) fn close(self: &Arc<Self>, removed: Removed<T>) -> Result<(), DurabilityError> {
        let slot = self.claimed(removed.permit, Some(SlotUse::Returned));
        let closed = self.close_store(removed.opened);
        drop(slot);
        closed
    }

    /// Closes a store and drops what is beside it. Code of users runs, and a panic of it is caught:
    /// it belongs to no caller of the pool.
    fn close_store(&self, opened: Arc<Opened<T>>) -> Result<(), DurabilityError> {
        assert_unlocked("a store is closed");
        let outer = CLOSES.replace(true);
        let closed = match opened.store.close() {
            // A store in memory has nothing to write.
            Ok(_) | Err(DurabilityError::NotDurable) => Ok(()),
            Err(error) => Err(error),
        };
        if let (Err(error), Some(report)) = (&closed, &self.options.on_close_error) {
            drop(catch(|| report(&opened.name, error)));
        }
        dispose(opened);
        CLOSES.set(outer);
        closed
    }

    /// Closes the longest idle document in the calling thread, unless requests wait for its slot.
    /// Returns the slot.
    pub(super) fn take_idle_slot(self: &Arc<Self>) -> Option<ClaimedSlot<T>> {
        let (name, _) = self.table.lock().longest_idle()?;
        let is_free = |table: &Table<T>, _| !table.has_waits();
        // The failure was reported, and is not of the document for which the slot is.
        let keep = |slot: ClaimedSlot<T>, _| slot.keep();
        match self.close_idle_with(&name, SlotUse::Kept, is_free, keep) {
            CloseAttempt::Closed(slot) => Some(slot),
            CloseAttempt::NotIdle | CloseAttempt::Nested => None,
        }
    }

    /// Closes an idle document in the calling thread, if that still has to happen, and returns its
    /// slot.
    pub(super) fn close_idle_one(
        self: &Arc<Self>,
        name: &SmolStr,
        is_due: impl FnOnce(&Table<T>, MonotonicTime) -> bool,
    ) -> CloseAttempt<Result<(), DurabilityError>> {
        self.close_idle_with(name, SlotUse::Returned, is_due, |slot, closed| {
            drop(slot);
            closed
        })
    }

    /// Closes an idle document in the calling thread, if that still has to happen. Before the close
    /// counts as ended, `then` gets the slot.
    fn close_idle_with<R>(
        self: &Arc<Self>,
        name: &SmolStr,
        slot_use: SlotUse,
        is_due: impl FnOnce(&Table<T>, MonotonicTime) -> bool,
        then: impl FnOnce(ClaimedSlot<T>, Result<(), DurabilityError>) -> R,
    ) -> CloseAttempt<R> {
        let Ok(turn) = self.closes.request(name, CLOSER).no_timeout().wait() else {
            // Code that runs during a close of this document requests another close of it.
            return CloseAttempt::Nested;
        };
        let Some(removed) = self.table.lock().remove_idle(name, slot_use, is_due) else {
            return CloseAttempt::NotIdle;
        };
        let slot = self.claimed(removed.permit, Some(slot_use));
        let mut closed = None;
        let _ = turn.execute(|| closed = Some(then(slot, self.close_store(removed.opened))));
        CloseAttempt::Closed(closed.expect("the turn has waited already"))
    }

    /// Closes the documents that had their last use so long ago. Returns how many, and the first
    /// failure. Also waits for the closes of the pool that run already.
    pub(super) fn close_idle(self: &Arc<Self>, unused: Duration) -> Result<usize, PoolError> {
        let now = self.now();
        // Documents that become idle meanwhile are not closed, so that it comes to an end.
        let is_due = |last_use: MonotonicTime| last_use <= now && now - last_use >= unused;
        let (mut count, mut first) = (0, None);
        loop {
            let idle = self.table.lock().longest_idle();
            let Some((name, _)) = idle.filter(|(_, last_use)| is_due(*last_use)) else {
                break;
            };
            match self.close_idle_one(&name, |_, last_use| is_due(last_use)) {
                CloseAttempt::NotIdle => {}
                CloseAttempt::Nested => break,
                CloseAttempt::Closed(closed) => {
                    count += 1;
                    let name = name.to_string();
                    let failed = closed.err().map(|cause| PoolError::Close { name, cause });
                    first = first.or(failed);
                }
            }
        }
        // The thread of a close would wait for itself.
        let _ = self.closes.wait_for_all_existing_tasks();
        first.map_or(Ok(count), Err)
    }

    /// Closes all documents. Called when no handle of the pool is left, so none is in use. Only
    /// opens and closes whose future was dropped can still run: it waits for these.
    pub(super) fn close_all(self: &Arc<Self>) {
        let _ = self.names.wait_for_all_existing_tasks();
        loop {
            let name = self.table.lock().any_name();
            let Some(name) = name else {
                break;
            };
            if matches!(
                self.close_idle_one(&name, |_, _| true),
                CloseAttempt::Nested
            ) {
                break;
            }
        }
        let _ = self.closes.wait_for_all_existing_tasks();
        self.closer.call();
    }
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Counts a request that is about to request a slot. If it `may_wait` and an idle document has
    /// to make room, calls the closer.
    ///
    /// # Errors
    ///
    /// The machine starts no thread for the closer.
    pub(super) fn begin_wait(self: &Arc<Self>, may_wait: bool) -> io::Result<SlotWait<T>> {
        // The threads of a model are one.
        let in_close = CLOSES.get() && !cfg!(loom);
        let mut table = self.table.lock();
        table.begin_wait(in_close);
        let lacks_slots = may_wait && table.lacks_slots();
        let started = lacks_slots.then(|| self.start_closer(&mut table));
        drop(table);
        let wait = SlotWait {
            shared: Arc::clone(self),
            in_close,
            is_over: false,
        };
        if let Some(started) = started {
            started?;
            self.closer.call();
        }
        Ok(wait)
    }

    /// Starts the closer for documents that become idle. If no thread can be started, the next open
    /// tries again.
    pub(super) fn watch_idle(self: &Arc<Self>) {
        if self.options.idle_after.is_some() {
            let _ = self.start_closer(&mut self.table.lock());
        }
    }
}

/// How an attempt to close an idle document ended.
pub(super) enum CloseAttempt<R> {
    Closed(R),
    /// It is in use again, or closed already.
    NotIdle,
    /// The calling thread closes it already.
    Nested,
}

/// A use of an open document, which is not closed while this exists.
pub(super) struct Use<T> {
    shared: Arc<Shared<T>>,
    /// Set until the drop.
    opened: Option<Arc<Opened<T>>>,
}

impl<T> Use<T> {
    pub(super) fn opened(&self) -> &Opened<T> {
        self.opened.as_ref().expect("it is set until the drop")
    }
}

impl<T> Clone for Use<T> {
    fn clone(&self) -> Self {
        let opened = self.opened.clone().expect("it is set until the drop");
        self.shared.table.lock().repeat_use(&opened);
        self.shared.use_of(opened)
    }
}

impl<T> Drop for Use<T> {
    fn drop(&mut self) {
        let Some(opened) = self.opened.take() else {
            return;
        };
        let (name, number) = (opened.name.clone(), opened.number);
        // Dropped before the use ends, so that the closer drops what is beside the store.
        dispose(opened);
        let shared = &self.shared;
        let now = shared.now();
        let mut table = shared.table.lock();
        let is_idle = table.end_use(&name, number, now);
        // The closer sleeps until the document that is idle for the longest time is due.
        let watches = shared.options.idle_after.is_some() && table.has_one_idle();
        let calls = is_idle && (table.lacks_slots() || watches);
        drop(table);
        if calls {
            shared.closer.call();
        }
    }
}

/// A slot that a request has, or a document that is being opened or closed. Dropping it returns the
/// slot.
pub(super) struct ClaimedSlot<T> {
    shared: Arc<Shared<T>>,
    /// Set until the slot passes on.
    permit: Option<SlotPermit>,
    /// Where it goes when its document is closed, while that is being done.
    closing: Option<SlotUse>,
}

impl<T> ClaimedSlot<T> {
    /// Passes the slot on to a document in the table.
    fn into_permit(mut self) -> SlotPermit {
        self.permit
            .take()
            .expect("it is set until the slot passes on")
    }

    /// Keeps the slot of a closed document for a request.
    fn keep(mut self) -> Self {
        self.shared.table.lock().keep_slot();
        self.closing = None;
        self
    }
}

impl<T> Drop for ClaimedSlot<T> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.shared.table.lock().unclaim(self.closing);
            drop(permit);
        }
    }
}

/// A request that waits for a slot, as the table counts it.
pub(super) struct SlotWait<T> {
    shared: Arc<Shared<T>>,
    in_close: bool,
    is_over: bool,
}

impl<T> Drop for SlotWait<T> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.table.lock().end_wait(self.in_close);
        }
    }
}
