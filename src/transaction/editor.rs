//! Somebody who edits: a store, an owner, a selection.

use super::manager::Submission;
use super::{Hooks, IntoOperations, TransactionError, TransactionManager, TransactionResult};
use crate::document::Selection;
use crate::id::OwnerId;
use crate::lock::AcquireOptions;
use crate::store::DataStore;
use crate::sync::Mutex;

/// Edits a store on behalf of an owner, and keeps what that owner has selected.
///
/// The selection moves along with the text that the editor's own transactions change. Those of other editors do
/// not move it yet.
///
/// ```
/// use doclock::{DataStore, Editor, Selection, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(text_node("inline-text", "Hello").with_id("text"))]).commit()?;
/// editor.select(Selection::caret("text", 5));
/// let result = transaction(&editor, [insert_text(5, " World").on("text")]).commit()?;
/// assert_eq!(result.selection_after, Some(Selection::caret("text", 11)));
/// # Ok::<(), doclock::TransactionError>(())
/// ```
#[derive(Debug)]
pub struct Editor {
    manager: TransactionManager,
    selection: Mutex<Option<Selection>>,
}

impl Editor {
    /// An editor with nothing selected.
    pub fn new(store: DataStore, owner: impl Into<OwnerId>) -> Self {
        Self {
            manager: TransactionManager::for_owner(store, owner),
            selection: Mutex::new(None),
        }
    }

    /// The same with these hooks in the place of those that it has.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self {
            manager: self.manager.with_hooks(hooks),
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
        self.selection.lock().clone()
    }

    /// Selects something, or nothing.
    pub fn select(&self, selection: impl Into<Option<Selection>>) {
        *self.selection.lock() = selection.into();
    }

    /// Waits for the lock, runs the operations in the order given, and commits. As
    /// [`TransactionManager::execute`], with the selection before and after in the result.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; neither the document nor the selection is changed then.
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
    pub fn execute_with(
        &self,
        operations: impl IntoOperations,
        options: AcquireOptions,
    ) -> Result<TransactionResult, TransactionError> {
        self.submit(Submission::new(operations, options))
    }

    pub(super) fn submit(
        &self,
        submission: Submission,
    ) -> Result<TransactionResult, TransactionError> {
        let finish = |mut transaction: crate::Transaction| {
            // Taken while the lock is held, so that selections follow in the order of the commits.
            let mut selection = self.selection.lock();
            let before = selection.clone();
            let changes = transaction.changes();
            let after = before.clone().and_then(|before| before.after_all(changes));
            transaction.remember_selections([before.clone(), after.clone()]);
            let committed = transaction.commit()?;
            *selection = after;
            Ok(TransactionResult {
                selection_before: before,
                selection_after: selection.clone(),
                ..committed.into()
            })
        };
        let mut result = self.manager.run(submission, finish)?;
        if result.operations.is_empty() && !result.repeated {
            result.selection_before = self.selection();
            result.selection_after = result.selection_before.clone();
        }
        Ok(result)
    }
}
