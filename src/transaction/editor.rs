//! An editor session: a store, an owner, a selection, a clipboard and a history.

use std::fmt;
use std::panic::Location;

use smol_str::SmolStr;

use super::history::{Direction, History};
use super::manager::Submission;
use super::session::OwnedSession;
use super::{
    HistoryOptions, Hooks, IntoOperations, TransactionError, TransactionManager, TransactionResult,
    UndoError,
};
use crate::document::{EditError, Fragment, Limits, Selection};
use crate::id::OwnerId;
use crate::lock::{AcquireOptions, Asker};
use crate::store::{DataStore, EndedBy, ExecutedOperation};

/// Edits a store on behalf of an owner, and keeps the selection, clipboard and history of that
/// owner.
///
/// The selection moves with the changes of all editors. An edit of the editor can be undone and
/// redone, even after other editors have changed the document.
///
/// ```
/// use doclock::{DataStore, Editor, document::Selection, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(text_node("inline-text", "Hello").with_id("text"))]).commit()?;
/// editor.select(Selection::caret("text", 5))?;
/// let result = transaction(&editor, [insert_text(5, " World").on("text")]).commit()?;
/// assert_eq!(result.selection_after, Some(Selection::caret("text", 11)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Editor {
    manager: TransactionManager,
    session: OwnedSession,
}

impl Editor {
    /// Creates an editor with no selection and an empty history.
    pub fn new(store: DataStore, owner: impl Into<OwnerId>) -> Self {
        Self {
            session: OwnedSession::take(store.clone()),
            manager: TransactionManager::for_owner(store, owner),
        }
    }

    /// Replaces the history with an empty one that has these options.
    #[must_use]
    pub fn with_history(self, options: HistoryOptions) -> Self {
        let before = std::mem::replace(&mut self.session.state().history, History::new(options));
        drop(before);
        self
    }

    /// Replaces the hooks of the editor.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self {
            manager: self.manager.with_hooks(hooks),
            ..self
        }
    }

    /// Sets limits for the resources that each transaction may use: see
    /// [`TransactionManager::with_limits`]. Undo and redo are not limited.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self {
            manager: self.manager.with_limits(limits),
            ..self
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &DataStore {
        self.manager.store()
    }

    /// Returns the owner of the editor.
    pub fn owner(&self) -> &OwnerId {
        self.manager.owner()
    }

    /// Returns the selection.
    pub fn selection(&self) -> Option<Selection> {
        self.session.state().selection.clone()
    }

    /// Sets or clears the selection, in the latest version of the document.
    ///
    /// # Errors
    ///
    /// [`EditError`]: a node does not exist, or an offset is greater than the length of its text.
    /// The selection is unchanged then.
    pub fn select(&self, selection: impl Into<Option<Selection>>) -> Result<(), EditError> {
        let selection = selection.into();
        loop {
            let document = self.store().snapshot();
            if let Some(selection) = &selection {
                selection.check(&document)?;
            }
            let mut state = self.session.state();
            // A commit that the session has not seen yet would have moved the selection.
            if state.version <= document.version() {
                state.version = document.version();
                state.selection = selection;
                return Ok(());
            }
        }
    }

    /// Returns the clipboard.
    pub fn clipboard(&self) -> Option<Fragment> {
        self.session.state().clipboard.clone()
    }

    /// Sets or clears the clipboard.
    pub fn set_clipboard(&self, fragment: impl Into<Option<Fragment>>) {
        self.session.state().clipboard = fragment.into();
    }

    /// Waits for the lock, runs the operations in the order given, and commits. Like
    /// [`TransactionManager::execute`]; the result includes the selection before and after.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; neither the document nor the selection is changed then.
    #[track_caller]
    pub fn execute(
        &self,
        operations: impl IntoOperations,
    ) -> Result<TransactionResult, TransactionError> {
        self.execute_with(operations, AcquireOptions::new())
    }

    /// Runs the operations as [`execute`](Self::execute) does, with options for the lock request.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; neither the document nor the selection is changed then.
    #[track_caller]
    pub fn execute_with(
        &self,
        operations: impl IntoOperations,
        options: AcquireOptions,
    ) -> Result<TransactionResult, TransactionError> {
        self.submit(Submission::new(operations), &options)
    }

    #[track_caller]
    pub(super) fn submit(
        &self,
        submission: Submission,
        options: &AcquireOptions,
    ) -> Result<TransactionResult, TransactionError> {
        let session = Some(&*self.session);
        let mut outcome = self
            .manager
            .run(submission, options, Location::caller(), session);
        self.session.drop_removed();
        if let Ok(result) = &mut outcome
            && result.operations.is_empty()
            && !result.repeated
        {
            result.selection_before = self.selection();
            result.selection_after.clone_from(&result.selection_before);
        }
        outcome
    }
}

/// # Undo and redo
///
/// The history belongs to the editor. It contains the commits of this editor as entries. A
/// transaction is one entry, unless it joins the previous one: text typed or deleted without a
/// pause, edits while a [`group`](Editor::group) is open, and edits that are [merged
/// into](crate::history::HistoryMode::MergedInto) an earlier entry.
///
/// An undo changes only what its entry changed. Later edits by other editors are kept, and
/// positions move with them. If such an edit makes the undo impossible, or the undo would revert
/// such an edit, the undo returns a [`UndoConflict`](crate::document::UndoConflict) and changes
/// nothing.
impl Editor {
    /// Waits for the lock and undoes the latest entry of the history, in a transaction of its own.
    /// The selection is restored to what it was before the entry.
    ///
    /// After-hooks run for it. Before-hooks do not, because there are no operations to rewrite.
    ///
    /// If no other editor changed the same nodes, the document is restored exactly, including ids.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, dsl::*};
    ///
    /// let store = DataStore::new();
    /// let (ann, bob) = (Editor::new(store.clone(), "ann"), Editor::new(store.clone(), "bob"));
    /// transaction(&ann, [create(text_node("inline-text", "world").with_id("t"))]).commit()?;
    /// transaction(&ann, [insert_text(5, "!").on("t")]).commit()?;
    /// transaction(&bob, [insert_text(0, "Hello ").on("t")]).commit()?;
    /// ann.undo()?;
    /// assert_eq!(store.snapshot().node("t").unwrap().text(), &"Hello world");
    /// assert_eq!(
    ///     ann.undo().unwrap_err().to_string(),
    ///     "the entry can no longer be undone: node t was changed, or something below it, by bob in version 3",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UndoError`]; neither the document nor the history is changed then.
    #[track_caller]
    pub fn undo(&self) -> Result<TransactionResult, UndoError> {
        self.undo_with(AcquireOptions::new())
    }

    /// Undoes the latest entry as [`undo`](Self::undo) does, with options for the lock request.
    ///
    /// # Errors
    ///
    /// [`UndoError`]; neither the document nor the history is changed then.
    #[track_caller]
    pub fn undo_with(&self, options: AcquireOptions) -> Result<TransactionResult, UndoError> {
        self.go(Direction::Undo, options)
    }

    /// Waits for the lock and redoes the entry that was undone last. Any other edit of the editor
    /// clears the entries that can be redone.
    ///
    /// # Errors
    ///
    /// [`UndoError`]; neither the document nor the history is changed then.
    #[track_caller]
    pub fn redo(&self) -> Result<TransactionResult, UndoError> {
        self.redo_with(AcquireOptions::new())
    }

    /// Redoes an entry as [`redo`](Self::redo) does, with options for the lock request.
    ///
    /// # Errors
    ///
    /// [`UndoError`]; neither the document nor the history is changed then.
    #[track_caller]
    pub fn redo_with(&self, options: AcquireOptions) -> Result<TransactionResult, UndoError> {
        self.go(Direction::Redo, options)
    }

    #[track_caller]
    fn go(
        &self,
        direction: Direction,
        options: AcquireOptions,
    ) -> Result<TransactionResult, UndoError> {
        let (name, nothing) = match direction {
            Direction::Undo => ("undo", UndoError::NothingToUndo),
            Direction::Redo => ("redo", UndoError::NothingToRedo),
        };
        if self.session.state().history.depth(direction) == 0 {
            return Err(nothing);
        }
        let name = SmolStr::new_static(name);
        let asker = options.asker(self.owner(), Location::caller(), true);
        let asker = Asker {
            label: asker.label.or(Some(&name)),
            ..asker
        };
        let grant = self.store().fifo().grant(&asker, &options)?;
        let owner = self.owner().clone();
        // Dropped after the transaction, hence without the lock: it may hold the last reference to
        // the code of its entry.
        let topmost;
        let mut transaction = self
            .store()
            .begin_granted(grant, owner, EndedBy::Transaction);
        let before = self.session.prepare(&mut transaction).before;
        topmost = self.session.state().history.topmost(direction);
        let Some(topmost) = &topmost else {
            return Err(nothing);
        };
        // The document and the entry match if the grant is still valid: no other commit happened in
        // between.
        transaction.check_grant()?;
        // The session's mutex is free here: the code of an inverse may read the selection.
        let rewound = match topmost.rewind(&mut transaction) {
            Ok(rewound) => rewound,
            Err(failure) => {
                // A revoked holder sees later commits; the cause of its failure is the revocation.
                transaction.check_grant()?;
                return Err(self.session.state().history.explain(direction, failure));
            }
        };
        transaction.record(ExecutedOperation::named(name));
        transaction.undoes(topmost.versions());
        let after = transaction.selection().cloned();
        let published = transaction.publish_and(|version, changes| {
            let mut state = self.session.state();
            state.selection.clone_from(&after);
            state.version = version;
            let changes = std::mem::take(changes);
            state.history.settle(topmost, version, changes, rewound);
        });
        let result = published
            .map(|published| TransactionResult::new(&mut transaction, published, before, after));
        drop(transaction);
        self.session.drop_removed();
        let mut result = result?;
        self.manager.follow(&mut result);
        Ok(result)
    }

    /// Returns whether the history has an entry to undo.
    pub fn can_undo(&self) -> bool {
        self.undo_depth() > 0
    }

    /// Returns whether the history has an entry to redo.
    pub fn can_redo(&self) -> bool {
        self.redo_depth() > 0
    }

    /// Returns how many entries can be undone.
    pub fn undo_depth(&self) -> usize {
        self.session.state().history.depth(Direction::Undo)
    }

    /// Returns how many entries can be redone.
    pub fn redo_depth(&self) -> usize {
        self.session.state().history.depth(Direction::Redo)
    }

    /// Discards the latest entry without undoing it, and returns whether there was one. This makes
    /// the earlier entries available if the latest one can no longer be undone.
    pub fn discard_undo(&self) -> bool {
        self.discard(Direction::Undo)
    }

    /// Discards the entry that [`redo`](Self::redo) would redo next, and returns whether there was
    /// one.
    pub fn discard_redo(&self) -> bool {
        self.discard(Direction::Redo)
    }

    fn discard(&self, direction: Direction) -> bool {
        let mut state = self.session.state();
        let discarded = state.history.discard(direction);
        drop(state);
        self.session.drop_removed();
        discarded
    }

    /// Clears the history.
    pub fn clear_history(&self) {
        let mut state = self.session.state();
        state.history.clear();
        drop(state);
        self.session.drop_removed();
    }

    /// Opens a group: all commits of the editor until the group is dropped form one entry. Groups
    /// nest; only the outermost has an effect.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// let group = editor.group();
    /// for _ in 0..3 {
    ///     transaction(&editor, [create(element("paragraph", []))]).commit()?;
    /// }
    /// drop(group);
    /// editor.undo()?;
    /// assert!(editor.store().snapshot().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(&self) -> EditGroup<'_> {
        self.open_group(None)
    }

    /// Opens a group as [`group`](Self::group) does, and names its entry. Later transactions can be
    /// [merged](crate::history::HistoryMode::MergedInto) into a named entry.
    pub fn group_named(&self, name: impl Into<SmolStr>) -> EditGroup<'_> {
        self.open_group(Some(name.into()))
    }

    fn open_group(&self, name: Option<SmolStr>) -> EditGroup<'_> {
        self.session.state().history.open_group(name);
        EditGroup { editor: self }
    }
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Editor")
            .field("owner", self.owner())
            .field("selection", &self.selection())
            .field("undo", &self.undo_depth())
            .field("redo", &self.redo_depth())
            .finish()
    }
}

/// An open group: until it is dropped, all commits of its editor form one entry of the history.
#[derive(Debug)]
#[must_use = "the group ends when it is dropped"]
pub struct EditGroup<'a> {
    editor: &'a Editor,
}

impl Drop for EditGroup<'_> {
    fn drop(&mut self) {
        self.editor.session.state().history.close_group();
    }
}
