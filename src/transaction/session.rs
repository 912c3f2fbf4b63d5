//! The session of an editor: its selection, clipboard and history.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::TransactionResult;
use super::history::{Direction, Entering, History};
use crate::document::{EditError, Fragment, Selection, Snapshot};
use crate::id::OwnerId;
use crate::store::{CommitError, DataStore, FollowerId, Transaction};
use crate::sync::{Mutex, MutexGuard, rank};

/// A handle of an editor session. Clones share the session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    shared: Arc<SharedSession>,
    id: FollowerId,
}

#[derive(Debug)]
struct SharedSession {
    /// A thread that waits for the store's lock does not hold its mutex, and no code of users runs
    /// under it.
    state: Mutex<{ rank::SESSION }, SessionState>,
    /// The version up to which selection and history have followed the document. Written only while
    /// the state is locked.
    cursor: AtomicU64,
    /// Whether entries have left the history and are to be dropped.
    has_removed: AtomicBool,
}

/// Owns the session of an editor. Its drop drops the contents of the session in this thread, with
/// no lock held: the history contains code of users.
#[derive(Debug)]
pub(super) struct OwnedSession {
    session: Session,
    store: DataStore,
}

type LockedState<'a> = MutexGuard<'a, { rank::SESSION }, SessionState>;

#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// The selection, whether its nodes exist or not.
    selection: Option<Selection>,
    pub(super) clipboard: Option<Fragment>,
    pub(super) history: History,
}

impl OwnedSession {
    /// Opens an empty session that follows the commits of others.
    pub(super) fn take(store: DataStore, owner: &OwnerId) -> Self {
        let (id, cursor) = store.follow(owner);
        let shared = Arc::new(SharedSession {
            state: Mutex::default(),
            cursor: AtomicU64::new(cursor),
            has_removed: AtomicBool::new(false),
        });
        Self {
            session: Session { shared, id },
            store,
        }
    }

    /// The session, after it has caught up with the latest version, which is returned too.
    pub(super) fn latest(&self) -> (LockedState<'_>, Snapshot) {
        self.store.merge_for(self.cursor());
        self.caught_up()
    }

    fn caught_up(&self) -> (LockedState<'_>, Snapshot) {
        let mut state = self.state();
        let document = self.catch_up(&mut state, &self.store);
        (state, document)
    }

    /// Catches up if it is far behind. Otherwise the next edit would do so, and hold the store's
    /// lock meanwhile.
    pub(super) fn approach(&self) {
        if self.store.merge_for(self.cursor()) {
            drop(self.caught_up());
        }
    }

    /// Does what [`approach`](Self::approach) does, and records the queued commits if the next undo
    /// or redo needs that. It holds no lock meanwhile.
    pub(super) fn approach_undo(&self, direction: Direction) {
        self.approach();
        let next = self.state().history.next_unit(direction);
        self.store
            .prepare_undo(next.as_ref(), direction == Direction::Redo);
    }

    /// The selection in the latest version, if its nodes exist there.
    pub(super) fn selection(&self) -> Option<Selection> {
        let (state, document) = self.latest();
        let selection = state.selection.clone();
        drop(state);
        selection.filter(|selection| selection.check(&document).is_ok())
    }

    /// Sets the selection in the latest version, if it is one there.
    pub(super) fn select(&self, selection: Option<Selection>) -> Result<(), EditError> {
        let (mut state, document) = self.latest();
        let checked = selection.as_ref().map_or(Ok(()), |it| it.check(&document));
        if checked.is_ok() {
            state.selection = selection;
        }
        drop(state);
        checked
    }
}

impl Deref for OwnedSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Drop for OwnedSession {
    fn drop(&mut self) {
        self.store.stop_following(self.session.id);
        let contents = std::mem::take(&mut *self.state());
        drop(contents);
    }
}

impl Session {
    pub(super) fn id(&self) -> FollowerId {
        self.id
    }

    pub(super) fn state(&self) -> LockedState<'_> {
        self.shared.state.lock()
    }

    fn cursor(&self) -> u64 {
        self.shared.cursor.load(Ordering::Relaxed)
    }

    /// Takes in the commits of others since the session was used last. Returns the latest version.
    fn catch_up(&self, state: &mut SessionState, store: &DataStore) -> Snapshot {
        let document = store.snapshot();
        if document.version() == self.cursor() {
            return document;
        }
        drop(document);
        let (document, later) = store.later_commits(self.id, self.cursor());
        self.shared
            .cursor
            .store(document.version(), Ordering::Relaxed);
        if let Some(selection) = &mut state.selection {
            for stretch in &later.stretches {
                stretch.move_selection(selection);
            }
            selection.follow(later.apart.iter().flat_map(|commit| &commit.edits));
        }
        document
    }

    /// Does what [`drop_removed`](Self::drop_removed) does, after an edit of this thread or of the
    /// combiner. Few edits remove an entry.
    pub(super) fn drop_if_removed(&self) {
        if self.shared.has_removed.load(Ordering::Relaxed) {
            self.drop_removed();
        }
    }

    /// Drops entries that left the history. Call it with no lock held: their drop runs code of
    /// users.
    pub(super) fn drop_removed(&self) {
        self.shared.has_removed.store(false, Ordering::Relaxed);
        let gone = self.state().history.take_gone();
        drop(gone);
    }

    /// Gives a transaction the selection and the clipboard. Called with the store's lock held, so
    /// no other commit moves the selection from here on.
    fn lend_to(&self, transaction: &mut Transaction) -> LockedState<'_> {
        let mut state = self.state();
        if transaction.base().version() != self.cursor() {
            self.catch_up(&mut state, transaction.store());
        }
        transaction.begin_for(self.id, state.selection.clone());
        transaction.set_clipboard(state.clipboard.clone());
        state
    }
}

/// A transaction that is ready to run, for an editor session if there is one.
pub(super) struct Prepared<'a> {
    pub(super) transaction: &'a mut Transaction,
    lender: Option<Lender<'a>>,
}

/// The session that a transaction runs for.
struct Lender<'a> {
    session: &'a Session,
    /// The selection before the first operation.
    before: Option<Selection>,
    /// `None` if code of users may run before the commit, or many operations.
    state: Option<LockedState<'a>>,
}

impl<'a> Prepared<'a> {
    /// Prepares a transaction under its grant. The session stays locked until the commit if the
    /// transaction runs no code of users and is brief.
    #[inline(always)]
    pub(super) fn new(
        transaction: &'a mut Transaction,
        session: Option<&'a Session>,
        is_brief: bool,
    ) -> Self {
        let lender = session.map(|session| {
            let state = session.lend_to(transaction);
            Lender {
                session,
                before: transaction.selection().cloned(),
                state: is_brief.then_some(state),
            }
        });
        Self {
            transaction,
            lender,
        }
    }

    /// Commits the transaction. In the session it calls `enter` before the commit, to decide where
    /// it goes in the history, and `then` with the result and that decision.
    #[inline(always)]
    pub(super) fn commit<E: From<CommitError>>(
        self,
        enter: impl FnOnce(&SessionState, &Transaction) -> Option<Entering>,
        then: impl FnOnce(&mut SessionState, &TransactionResult, Option<Entering>),
    ) -> Result<TransactionResult, E> {
        let Self {
            transaction,
            lender,
        } = self;
        let Some(Lender {
            session,
            before,
            state,
        }) = lender
        else {
            return transaction.publish_and([None, None], |_| ());
        };
        let after = transaction.selection().cloned();
        let mut state = state.unwrap_or_else(|| session.state());
        let entering = enter(&state, transaction);
        if let Some(entering) = &entering {
            transaction.set_unit(Arc::clone(entering.unit()));
        }
        // A subscriber that reads the selection of the editor finds this commit in it.
        transaction.publish_and([before, after], |result| {
            state.selection.clone_from(&result.selection_after);
            let shared = &session.shared;
            shared.cursor.store(result.version, Ordering::Relaxed);
            then(&mut state, result, entering);
            let has_removed = state.history.has_removed();
            shared.has_removed.store(has_removed, Ordering::Relaxed);
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
