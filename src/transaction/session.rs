//! The session of an editor: its selection, clipboard and history.

use std::ops::Deref;
use std::sync::Arc;

use super::history::{Edit, History};
use super::{Callback, HistoryMode, TransactionError, TransactionResult};
use crate::document::{Fragment, Selection};
use crate::store::{DataStore, Observer, ObserverId, Transaction, Witnessed};
use crate::sync::{Mutex, MutexGuard, rank};

/// A handle of an editor session. Clones share the session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    shared: Arc<SharedSession>,
    id: ObserverId,
}

/// Owns the session of an editor. Its drop drops the contents of the session in this thread, with
/// no lock held: the history contains code of users.
#[derive(Debug)]
pub(super) struct OwnedSession {
    session: Session,
    store: DataStore,
}

/// A thread that waits for the store's lock does not hold its mutex.
#[derive(Debug, Default)]
struct SharedSession(Mutex<{ rank::SESSION }, SessionState>);

#[derive(Debug, Default)]
pub(super) struct SessionState {
    pub(super) selection: Option<Selection>,
    /// The document version of the selection.
    pub(super) version: u64,
    pub(super) clipboard: Option<Fragment>,
    pub(super) history: History,
}

impl Observer for SharedSession {
    fn committed(&self, commit: &Witnessed<'_>) {
        let mut state = self.0.lock();
        // The selection may have been made in this version already.
        if commit.version > state.version {
            let selection = state.selection.take();
            state.selection = selection.and_then(|selection| selection.after_all(commit.changes));
            state.version = commit.version;
        }
        state.history.observe_other(commit);
    }
}

impl OwnedSession {
    /// Opens an empty session that observes other editors' commits.
    pub(super) fn take(store: DataStore) -> Self {
        let shared = Arc::new(SharedSession::default());
        let id = store.observe(shared.clone());
        Self {
            session: Session { shared, id },
            store,
        }
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
        self.store.stop_observing(self.session.id);
        let contents = std::mem::take(&mut *self.state());
        drop(contents);
    }
}

impl Session {
    pub(super) fn state(&self) -> MutexGuard<'_, { rank::SESSION }, SessionState> {
        self.shared.0.lock()
    }

    /// Drops entries that left the history. Call it with no lock held: their drop runs code of
    /// users.
    pub(super) fn drop_removed(&self) {
        let gone = self.state().history.take_gone();
        drop(gone);
    }

    /// Called with the store's lock held, so no other commit moves the selection from here on.
    pub(super) fn prepare(&self, transaction: &mut Transaction) -> Prepared<'_> {
        let state = self.state();
        transaction.begin_for(self.id, state.selection.clone());
        transaction.set_clipboard(state.clipboard.clone());
        let before = transaction.selection().cloned();
        Prepared {
            session: self,
            before,
        }
    }
}

/// A transaction with the editor's selection and clipboard.
pub(super) struct Prepared<'a> {
    session: &'a Session,
    /// The selection before the first operation.
    pub(super) before: Option<Selection>,
}

impl Prepared<'_> {
    /// Commits the transaction, which ran a batch with these inverses.
    pub(super) fn commit(
        self,
        transaction: &mut Transaction,
        inverses: Vec<Callback>,
        in_history: HistoryMode,
    ) -> Result<TransactionResult, TransactionError> {
        let Self { session, before } = self;
        let after = transaction.selection().cloned();
        let clipboard = transaction.clipboard().cloned();
        let at = transaction.now();
        transaction.remember_selections([&before, &after]);
        let published = transaction.publish_and(|version, changes| {
            let mut state = session.state();
            state.selection.clone_from(&after);
            state.version = version;
            state.clipboard = clipboard;
            let edit = Edit {
                changes: std::mem::take(changes),
                inverses,
                before: before.clone(),
                after: after.clone(),
                at,
                version,
            };
            state.history.record(edit, in_history);
        })?;
        Ok(TransactionResult::new(
            transaction,
            published,
            before,
            after,
        ))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{OnceLock, Weak};

    use super::*;
    use crate::transaction::Editor;
    use crate::transaction::dsl::*;

    /// Selects the end of the text while a commit of another editor is published.
    #[derive(Default)]
    struct Selector(OnceLock<Weak<Editor>>);

    impl Observer for Selector {
        fn committed(&self, _: &Witnessed<'_>) {
            if let Some(editor) = self.0.get().and_then(Weak::upgrade) {
                editor.select(Selection::caret("t", 2)).unwrap();
            }
        }
    }

    /// A selection made between publication and notification is already in the new version: the
    /// notification does not move it again.
    #[test]
    fn undo_03_a_selection_made_before_the_notification_of_its_version_is_kept() {
        let store = DataStore::new();
        let selector = Arc::new(Selector::default());
        // Observers are notified in order of registration.
        store.observe(selector.clone());
        let ann = Arc::new(Editor::new(store.clone(), "ann"));
        let bob = Editor::new(store, "bob");
        let node = text_node("text", "-").with_id("t");
        bob.execute(create(node)).unwrap();
        selector.0.set(Arc::downgrade(&ann)).unwrap();
        bob.execute(insert_text(0, "b").on("t")).unwrap();
        assert_eq!(ann.selection(), Some(Selection::caret("t", 2)));
    }
}
