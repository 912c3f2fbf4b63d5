//! Somebody who edits: a store, an owner, a selection, a history.

use std::fmt;
use std::panic::Location;

use smol_str::SmolStr;

use super::desk::OwnSeat;
use super::history::{Direction, History};
use super::manager::Submission;
use super::{
    HistoryOptions, Hooks, IntoOperations, TransactionError, TransactionManager, TransactionResult,
    UndoError,
};
use crate::document::{EditError, Fragment, Limits, Selection};
use crate::id::OwnerId;
use crate::lock::{AcquireOptions, Asker};
use crate::store::{DataStore, EndedBy, ExecutedOperation};

/// Edits a store on behalf of an owner, and keeps what that owner has selected, copied and done.
///
/// The selection moves along with what is changed, by whomever. What the editor does can be undone
/// and redone, also after others have changed the document.
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
    seat: OwnSeat,
}

impl Editor {
    /// An editor with nothing selected and nothing done.
    pub fn new(store: DataStore, owner: impl Into<OwnerId>) -> Self {
        Self {
            seat: OwnSeat::take(store.clone()),
            manager: TransactionManager::for_owner(store, owner),
        }
    }

    /// The same editor with an empty history that is kept in this way.
    #[must_use]
    pub fn with_history(self, options: HistoryOptions) -> Self {
        let before = std::mem::replace(&mut self.seat.desk().history, History::new(options));
        drop(before);
        self
    }

    /// The same with these hooks in the place of those that it has.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self {
            manager: self.manager.with_hooks(hooks),
            ..self
        }
    }

    /// The same with limits for what each transaction makes large: see
    /// [`TransactionManager::with_limits`]. Undo and redo have none.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self {
            manager: self.manager.with_limits(limits),
            ..self
        }
    }

    /// The store.
    pub fn store(&self) -> &DataStore {
        self.manager.store()
    }

    /// On whose behalf.
    pub fn owner(&self) -> &OwnerId {
        self.manager.owner()
    }

    /// What is selected.
    pub fn selection(&self) -> Option<Selection> {
        self.seat.desk().selection.clone()
    }

    /// Selects something in the last version of the document, or nothing.
    ///
    /// # Errors
    ///
    /// [`EditError`]: a node does not exist, an offset is greater than the length of its text. What
    /// was selected stays so.
    pub fn select(&self, selection: impl Into<Option<Selection>>) -> Result<(), EditError> {
        let selection = selection.into();
        loop {
            let document = self.store().snapshot();
            if let Some(selection) = &selection {
                selection.check(&document)?;
            }
            let mut state = self.seat.desk();
            // Unless it missed a commit meanwhile, which would have moved it.
            if state.version <= document.version() {
                state.version = document.version();
                state.selection = selection;
                return Ok(());
            }
        }
    }

    /// What was copied last.
    pub fn clipboard(&self) -> Option<Fragment> {
        self.seat.desk().clipboard.clone()
    }

    /// Puts something on the clipboard, or clears it.
    pub fn set_clipboard(&self, fragment: impl Into<Option<Fragment>>) {
        self.seat.desk().clipboard = fragment.into();
    }

    /// Waits for the lock, runs the operations in the order given, and commits. As
    /// [`TransactionManager::execute`], with the selection before and after in the result.
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

    /// As [`execute`](Self::execute), with options for the wait.
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
        let seat = Some(&*self.seat);
        let mut outcome = self
            .manager
            .run(submission, options, Location::caller(), seat);
        self.seat.clear_away();
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
/// The history belongs to the editor. It has what this editor committed, in entries; a transaction
/// is one, unless it joins the one before it: what is typed or deleted without a pause, what is
/// done while a [`group`](Editor::group) is open, what is
/// [merged into](crate::history::HistoryMode::MergedInto) an earlier one.
///
/// Undoing changes only what the entry changed. What others did since stays: places move along with
/// it, and where it makes the undo impossible, or would itself be undone, that is a
/// [`Conflict`](crate::document::Conflict), and nothing is changed.
impl Editor {
    /// Waits for the lock and undoes the latest entry of the history, as a transaction of its own.
    /// The selection is what it was before the entry.
    ///
    /// After-hooks see it; before-hooks do not, as there are no operations that they could rewrite.
    ///
    /// Where nobody else changed the same nodes, the document is afterwards exactly what it was
    /// before the entry, ids included.
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
    /// assert_eq!(store.snapshot().node(&"t".into()).unwrap().text(), &"Hello world");
    /// assert_eq!(
    ///     ann.undo().unwrap_err().to_string(),
    ///     "it can no longer be undone: node t was changed, or something below it, by bob in version 3",
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

    /// As [`undo`](Self::undo), with options for the wait.
    ///
    /// # Errors
    ///
    /// [`UndoError`]; neither the document nor the history is changed then.
    #[track_caller]
    pub fn undo_with(&self, options: AcquireOptions) -> Result<TransactionResult, UndoError> {
        self.go(Direction::Undo, options)
    }

    /// Waits for the lock and redoes what was undone last. Anything else that the editor does
    /// meanwhile takes away what could be redone.
    ///
    /// # Errors
    ///
    /// [`UndoError`]; neither the document nor the history is changed then.
    #[track_caller]
    pub fn redo(&self) -> Result<TransactionResult, UndoError> {
        self.redo_with(AcquireOptions::new())
    }

    /// As [`redo`](Self::redo), with options for the wait.
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
        if self.seat.desk().history.depth(direction) == 0 {
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
        // Dropped after the transaction, hence when the lock is released: it may be the last to
        // have the code of its entry.
        let topmost;
        let mut transaction = self
            .store()
            .begin_granted(grant, owner, EndedBy::Transaction);
        let before = self.seat.prepare(&mut transaction).before;
        topmost = self.seat.desk().history.topmost(direction);
        let Some(topmost) = &topmost else {
            return Err(nothing);
        };
        // Document and entry belong together if the grant holds still: then no other commit came in
        // between.
        transaction.check_grant()?;
        // The session's mutex is free meanwhile, because the code of an inverse may ask for the
        // selection.
        let rewound = match topmost.rewind(&mut transaction) {
            Ok(rewound) => rewound,
            Err(failure) => {
                // A holder that was revoked finds what was committed since; that is not why it
                // failed.
                transaction.check_grant()?;
                return Err(self.seat.desk().history.explain(direction, failure));
            }
        };
        transaction.record(ExecutedOperation::named(name));
        transaction.undoes(topmost.versions());
        let after = transaction.selection().cloned();
        let published = transaction.publish_and(|version, changes| {
            let mut state = self.seat.desk();
            state.selection.clone_from(&after);
            state.version = version;
            let changes = std::mem::take(changes);
            state.history.settle(topmost, version, changes, rewound);
        });
        let result = published
            .map(|published| TransactionResult::new(&mut transaction, published, before, after));
        drop(transaction);
        self.seat.clear_away();
        let mut result = result?;
        self.manager.follow(&mut result);
        Ok(result)
    }

    /// Whether there is something to undo.
    pub fn can_undo(&self) -> bool {
        self.undo_depth() > 0
    }

    /// Whether there is something to redo.
    pub fn can_redo(&self) -> bool {
        self.redo_depth() > 0
    }

    /// How many entries can be undone.
    pub fn undo_depth(&self) -> usize {
        self.seat.desk().history.depth(Direction::Undo)
    }

    /// How many entries can be redone.
    pub fn redo_depth(&self) -> usize {
        self.seat.desk().history.depth(Direction::Redo)
    }

    /// Forgets the latest entry without undoing it: one that can no longer be undone, so that those
    /// before it can. Tells whether there was one.
    pub fn discard_undo(&self) -> bool {
        self.discard(Direction::Undo)
    }

    /// As [`discard_undo`](Self::discard_undo), for what would be redone next.
    pub fn discard_redo(&self) -> bool {
        self.discard(Direction::Redo)
    }

    fn discard(&self, direction: Direction) -> bool {
        let mut state = self.seat.desk();
        let discarded = state.history.discard(direction);
        drop(state);
        self.seat.clear_away();
        discarded
    }

    /// Forgets the whole history.
    pub fn clear_history(&self) {
        let mut state = self.seat.desk();
        state.history.clear();
        drop(state);
        self.seat.clear_away();
    }

    /// Opens a group: all that the editor commits until the group is dropped is one entry. Groups
    /// nest; the outermost counts.
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

    /// As [`group`](Self::group), with a name for the entry, into which later transactions can be
    /// [merged](crate::history::HistoryMode::MergedInto).
    pub fn group_named(&self, name: impl Into<SmolStr>) -> EditGroup<'_> {
        self.open_group(Some(name.into()))
    }

    fn open_group(&self, name: Option<SmolStr>) -> EditGroup<'_> {
        self.seat.desk().history.open_group(name);
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

/// While it lives, what its editor commits is one entry of the history.
#[derive(Debug)]
#[must_use = "the group ends when it is dropped"]
pub struct EditGroup<'a> {
    editor: &'a Editor,
}

impl Drop for EditGroup<'_> {
    fn drop(&mut self) {
        self.editor.seat.desk().history.close_group();
    }
}
