//! Points in a transaction to which it can return.

use std::sync::Arc;

use super::{Draft, OptionalFields};
use crate::caught::catch;
use crate::codes::codes;
use crate::document::{self, Fragment};
use crate::id::TransactionId;

/// A point in a transaction to which it can return. See [`Draft::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    transaction: TransactionId,
    number: u64,
}

/// A savepoint that cannot be returned to.
///
/// The savepoint is in one of these states:
///
/// - It was made after a savepoint that was returned to.
/// - It was made in an [`attempt`](Draft::attempt) that is over.
/// - It is older than the running attempt or operation.
/// - It belongs to another transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transaction {transaction} cannot return to savepoint {number}")]
#[non_exhaustive]
pub struct SavepointError {
    /// The transaction of the savepoint.
    pub transaction: TransactionId,
    /// The number of the savepoint, counted from one.
    pub number: u64,
}

codes! { SavepointError {
    Self { transaction, number } => "savepointGone", 500;
}}

/// The state of a transaction at a savepoint.
pub(in crate::store) struct SavepointState {
    overlay: document::OverlaySavepoint,
    /// The version of the base. On nodes, it advances.
    version: u64,
    operations: usize,
    aliases: usize,
    conditions: usize,
    clipboard: Option<Arc<Fragment>>,
    is_no_typing: bool,
    savepoints: usize,
}

/// # Savepoints
impl Draft {
    /// Makes a savepoint, to which [`rollback_to`](Self::rollback_to) can return.
    ///
    /// It costs only its own memory.
    ///
    /// ```
    /// use doclock::{DataStore, View, document::NodeSpec};
    ///
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// let outer = transaction.savepoint();
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// let inner = transaction.savepoint();
    /// transaction.rollback_to(outer)?;
    /// assert_eq!(transaction.nodes().count(), 1);
    /// assert!(transaction.rollback_to(inner).is_err(), "it lay behind the other");
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        let state = self.state();
        let optional = self.optional_mut();
        optional.saved += 1;
        let number = optional.saved;
        optional.savepoints.push((number, state));
        Savepoint {
            transaction: self.id,
            number,
        }
    }

    pub(in crate::store) fn state(&self) -> SavepointState {
        let optional = self.optional.as_deref();
        SavepointState {
            overlay: self.overlay.savepoint(),
            version: self.base().version(),
            operations: self.operations.len(),
            aliases: optional.map_or(0, |optional| optional.aliases.len()),
            conditions: self.conditions.len(),
            clipboard: optional.and_then(|optional| optional.clipboard.clone()),
            is_no_typing: self.is_no_typing(),
            savepoints: optional.map_or(0, |optional| optional.savepoints.len()),
        }
    }

    pub(in crate::store) fn return_to(&mut self, state: &SavepointState) {
        let ids = &self.document.ids;
        self.overlay.return_to(&state.overlay, ids);
        self.move_selection_from(state.version);
        self.operations.truncate(state.operations);
        self.conditions.truncate(state.conditions);
        if let Some(optional) = &mut self.optional {
            optional.aliases.truncate(state.aliases);
            optional.clipboard.clone_from(&state.clipboard);
            optional.is_no_typing = state.is_no_typing;
            optional.savepoints.truncate(state.savepoints);
        }
    }

    /// Undoes everything since a savepoint, exactly, at a cost in proportion to the undone work.
    ///
    /// The savepoint stays and can be returned to again. Savepoints that were made after it are
    /// gone. Within an [`attempt`](Self::attempt), and within code that
    /// [`run`](crate::transaction::RunOperations::run) runs, only savepoints that were made there
    /// can be returned to.
    ///
    /// # Errors
    ///
    /// [`SavepointError`]: the savepoint is gone, out of reach, or belongs to another transaction.
    /// Nothing is undone then.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), SavepointError> {
        let gone = SavepointError {
            transaction: savepoint.transaction,
            number: savepoint.number,
        };
        let Some(optional) = self
            .optional
            .as_mut()
            .filter(|_| self.id == savepoint.transaction)
        else {
            return Err(gone);
        };
        let mut numbers = optional.savepoints.iter().map(|(number, _)| *number);
        let at = numbers.position(|number| number == savepoint.number);
        let Some(at) = at.filter(|&at| at >= optional.out_of_reach) else {
            return Err(gone);
        };
        optional.savepoints.truncate(at + 1);
        let Some((number, state)) = optional.savepoints.pop() else {
            return Err(gone);
        };
        self.return_to(&state);
        self.optional_mut().savepoints.push((number, state));
        Ok(())
    }

    /// Runs `code`, and undoes its edits if it fails or panics. Attempts nest.
    ///
    /// ```
    /// use doclock::{DataStore, View, document::{EditError, NodeSpec}};
    ///
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// let failed = transaction.attempt(|transaction| {
    ///     transaction.create(NodeSpec::new("paragraph"))?;
    ///     transaction.delete("nowhere")
    /// });
    /// assert!(matches!(failed, Err(EditError::NodeNotFound { .. })));
    /// assert_eq!(transaction.nodes().count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of `code`.
    pub fn attempt<T, E>(&mut self, code: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let identity = self.identity();
        let saved = self
            .optional
            .as_ref()
            .map_or(0, |optional| optional.savepoints.len());
        let done = self.all_or_nothing(code)?;
        let is_same = self.identity() == identity;
        if let Some(optional) = self.optional.as_mut().filter(|_| is_same) {
            optional.savepoints.truncate(saved);
        }
        Ok(done)
    }

    /// Runs `code`, and undoes all its edits unless it succeeds (T8).
    pub(crate) fn all_or_nothing<T, E>(
        &mut self,
        code: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let identity = self.identity();
        let begin = self.state();
        let out_of_reach = self.put_out_of_reach(begin.savepoints);
        self.attempts += 1;
        let outcome = catch(|| code(self));
        // Code can put another draft in its place. That one has other savepoints.
        if self.identity() == identity {
            if !matches!(outcome, Ok(Ok(_))) {
                self.return_to(&begin);
            }
            self.put_out_of_reach(out_of_reach);
            self.attempts -= 1;
        }
        outcome.unwrap_or_else(|panic| panic.resume())
    }

    /// The id with the address of the document: ids are unique within a store only.
    fn identity(&self) -> (TransactionId, *const ()) {
        (self.id, Arc::as_ptr(&self.document).cast())
    }

    /// Puts the first `savepoints` savepoints out of reach. Returns how many were out of reach
    /// before.
    fn put_out_of_reach(&mut self, savepoints: usize) -> usize {
        let reach = |optional: &mut Box<OptionalFields>| {
            std::mem::replace(&mut optional.out_of_reach, savepoints)
        };
        self.optional.as_mut().map_or(0, reach)
    }
}
