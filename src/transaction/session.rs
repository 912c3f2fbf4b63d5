//! The session of an editor: its selection, clipboard and history.
//!
//! It follows the document from its first use on. Before that there is nothing of it that a commit
//! of others could move, so these commits need no record for it.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use slotmap::Key;

use super::history::{Direction, History, UndoScope};
use super::{TransactionError, TransactionResult};
use crate::document::{Change, EditError, Fragment, Selection, Snapshot};
use crate::id::OwnerId;
use crate::store::{DataStore, Draft, FollowerId, FromSession, LaterCommits, Publication};
use crate::sync::{Mutex, MutexGuard, rank};

/// A handle of an editor session. Clones share the session.
#[derive(Clone, Debug)]
pub(super) struct Session(Arc<SharedSession>);

#[derive(Debug)]
struct SharedSession {
    owner: OwnerId,
    /// Set at the first use, while the state is locked.
    id: OnceLock<FollowerId>,
    /// A thread that waits for the store's lock does not hold its mutex, and no code of users runs
    /// under it.
    state: Mutex<{ rank::SESSION }, SessionState>,
    /// The version up to which selection and history have followed the document, or
    /// [`UNUSED`](Self::UNUSED). Written only while the state is locked.
    cursor: AtomicU64,
    /// Whether entries have left the history and are to be dropped.
    has_removed: AtomicBool,
}

impl SharedSession {
    /// The cursor before the first use.
    const UNUSED: u64 = u64::MAX;
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
    /// How often it was set.
    selected: u64,
    pub(super) clipboard: Option<Fragment>,
    pub(super) history: History,
}

impl OwnedSession {
    /// Opens an empty session.
    pub(super) fn open(store: DataStore, owner: OwnerId) -> Self {
        let session = Session(Arc::new(SharedSession {
            owner,
            id: OnceLock::new(),
            state: Mutex::default(),
            cursor: AtomicU64::new(SharedSession::UNUSED),
            has_removed: AtomicBool::new(false),
        }));
        Self { session, store }
    }

    /// The session, after it has caught up with the latest version, which is returned too.
    pub(super) fn latest(&self) -> (LockedState<'_>, Snapshot) {
        if self.is_far_behind() {
            self.store.merge_older_commits();
        }
        let mut state = self.state();
        let document = self.catch_up(&mut state, &self.store);
        (state, document)
    }

    /// Whether it should catch up before the next edit, which would do so with the store's lock
    /// held.
    pub(super) fn is_far_behind(&self) -> bool {
        self.store.is_far_behind(self.cursor())
    }

    /// Ends the run of a batch: drops what has left the history, with no lock held.
    #[inline]
    pub(super) fn leave(&self, outcome: &mut Result<TransactionResult, TransactionError>) {
        // Few edits remove an entry.
        if self.0.has_removed.load(Ordering::Relaxed) {
            self.drop_removed();
        }
        if let Ok(result) = outcome
            && result.operations.is_empty()
            && !result.repeated
        {
            result.selection_before = self.selection();
            result.selection_after.clone_from(&result.selection_before);
        }
    }

    /// Catches up if it is far behind, and records the queued commits if the next undo or redo
    /// needs that. It holds no lock meanwhile.
    pub(super) fn approach_undo(&self, direction: Direction, scope: &UndoScope) {
        if self.is_far_behind() {
            drop(self.latest());
        }
        let next = self.state().history.next_unit(direction);
        // Which entry is the next one in a scope is not known yet.
        let next = next.filter(|_| scope.is_all());
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
            state.selection = selection.map(Selection::normal);
            state.selected += 1;
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
        let mut state = self.state();
        let contents = std::mem::take(&mut *state);
        // A batch that another thread still runs does not begin to follow any more.
        let id = *self.session.0.id.get_or_init(FollowerId::default);
        drop(state);
        if !id.is_null() {
            self.store.stop_following(id);
        }
        drop(contents);
    }
}

impl Session {
    /// Its id among the followers of the document, or that of none if it was never used.
    pub(super) fn id(&self) -> FollowerId {
        self.0.id.get().copied().unwrap_or_default()
    }

    pub(super) fn state(&self) -> LockedState<'_> {
        self.0.state.lock()
    }

    fn cursor(&self) -> u64 {
        self.0.cursor.load(Ordering::Relaxed)
    }

    /// Takes in the commits of others since the session was used last. Returns the latest version.
    fn catch_up(&self, state: &mut SessionState, store: &DataStore) -> Snapshot {
        let document = store.snapshot();
        if document.version() == self.cursor() {
            return document;
        }
        drop(document);
        let (document, later) = match self.0.id.get() {
            Some(id) => store.later_commits(*id, self.cursor()),
            None => {
                let (id, document) = store.follow(&self.0.owner);
                self.0.id.get_or_init(|| id);
                (document, LaterCommits::default())
            }
        };
        let cursor = document.version();
        self.0.cursor.store(cursor, Ordering::Relaxed);
        if let Some(selection) = &mut state.selection {
            later.move_selection(selection);
        }
        if !later.is_empty() {
            state.history.follow_others(&later);
        }
        document
    }

    /// Drops entries that left the history. Call it with no lock held: their drop runs code of
    /// users.
    pub(super) fn drop_removed(&self) {
        self.0.has_removed.store(false, Ordering::Relaxed);
        let gone = self.state().history.take_gone();
        drop(gone);
    }

    /// Gives a draft the selection and the clipboard. Called with the store's lock held, so no
    /// other commit moves the selection from here on. The session stays locked until the commit if
    /// the transaction `is_brief`: it runs few operations, and no code of users.
    #[inline(always)]
    pub(super) fn turn(
        &self,
        store: &DataStore,
        draft: &mut Draft,
        is_brief: bool,
    ) -> SessionTurn<'_> {
        let mut state = self.state();
        if draft.base().version() != self.cursor() {
            self.catch_up(&mut state, store);
        }
        draft.begin_with_selection(state.selection.clone());
        if state.clipboard.is_some() {
            draft.set_clipboard(state.clipboard.clone());
        }
        SessionTurn {
            session: self,
            before: draft.selection_for_session().cloned(),
            state: is_brief.then_some(state),
        }
    }

    /// What a draft on nodes has from the session.
    pub(super) fn for_nodes(&self, store: &DataStore) -> FromSession {
        let mut state = self.state();
        FromSession::of(store, &self.0.owner, || {
            let document = self.catch_up(&mut state, store);
            let (selection, clipboard) = (state.selection.clone(), state.clipboard.clone());
            (document, selection, state.selected, clipboard)
        })
    }

    /// Begins the publication of a draft on nodes, with the session locked. The caller excludes all
    /// other commits. The selection is that of the session, which moves with the edits of the
    /// draft, unless the draft has set one since the session was given one.
    pub(super) fn turn_on_nodes(&self, store: &DataStore, draft: &mut Draft) -> SessionTurn<'_> {
        // An error is that of the publication, too.
        let is_valid = draft.validate_reads().is_ok();
        let mut state = self.state();
        let document = self.catch_up(&mut state, store);
        let is_set = draft.changes().iter().any(|it| !it.is_of_the_document());
        let is_kept = |from: &FromSession| from.selected == state.selected;
        let after = match is_set && draft.of_session().is_some_and(is_kept) {
            true => draft.selection().cloned(),
            false => {
                let mut selection = state.selection.clone();
                if let Some(selection) = &mut selection {
                    selection.follow(&Change::sequence_edits(draft.changes()));
                    if draft.changes().iter().any(Change::is_of_the_document) {
                        selection.clear_marks();
                    }
                }
                selection
            }
        };
        if is_valid {
            // Checked there: its nodes can be gone.
            draft.begin_with_selection(after);
        }
        let before = state.selection.clone();
        SessionTurn {
            session: self,
            before: before.filter(|selection| selection.check(&document).is_ok()),
            state: Some(state),
        }
    }
}

/// The session of an editor in one of its transactions.
pub(super) struct SessionTurn<'a> {
    session: &'a Session,
    /// The selection before the first operation.
    before: Option<Selection>,
    /// `None` while code of users may run, or many operations.
    state: Option<LockedState<'a>>,
}

impl SessionTurn<'_> {
    /// The session, locked until the end of the turn. A subscriber that reads the selection of the
    /// editor finds the commit in it.
    #[inline]
    pub(super) fn state(&mut self) -> &mut SessionState {
        self.state.get_or_insert_with(|| self.session.state())
    }

    /// The version that its commit makes: no other one is published meanwhile.
    #[inline]
    pub(super) fn next_version(&self) -> u64 {
        self.session.cursor() + 1
    }

    /// Says whose commit it is, with the selections before and after it.
    #[inline(always)]
    pub(super) fn sign(&mut self, publication: &mut Publication<'_>, draft: &Draft) {
        publication.session = Some(self.session.id());
        publication.selections = [self.before.take(), draft.selection_for_session().cloned()];
    }

    /// The session has made this commit.
    #[inline(always)]
    pub(super) fn follow(&mut self, result: &TransactionResult) -> &mut SessionState {
        let shared = &self.session.0;
        shared.cursor.store(result.version, Ordering::Relaxed);
        let state = self.state();
        state.selection.clone_from(&result.selection_after);
        state
    }

    /// Ends it, after its commit is in the history, which has `removed` entries.
    #[inline]
    pub(super) fn end(self, removed: bool) {
        self.session.0.has_removed.store(removed, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/unit/session.rs"]
mod tests;
