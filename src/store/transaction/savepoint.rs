//! Moments within a transaction to which it can return.

use std::sync::Arc;

use super::Transaction;
use crate::document::{self, Fragment};
use crate::id::TransactionId;

/// A moment within a transaction. See [`Transaction::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    transaction: TransactionId,
    number: u64,
}

/// A savepoint that cannot be returned to: it lay behind one that was returned to, or in an
/// [`attempt`](Transaction::attempt) that is over, or belongs to another transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("savepoint {number} of transaction {transaction} is gone")]
#[non_exhaustive]
pub struct SavepointError {
    /// Whose savepoint it is.
    pub transaction: TransactionId,
    /// Which one, counted from one.
    pub number: u64,
}

/// What a transaction was at a savepoint.
pub(super) struct State {
    overlay: document::Savepoint,
    operations: usize,
    aliases: usize,
    terms: usize,
    clipboard: Option<Arc<Fragment>>,
}

/// # Savepoints
impl Transaction {
    /// A moment to which [`rollback_to`](Self::rollback_to) can return. Costs what was changed so far.
    ///
    /// ```
    /// use doclock::{DataStore, NodeSpec, View};
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
        let overlay = self.overlay.savepoint();
        let operations = self.operations.len();
        let aside = self.aside_mut();
        aside.saved += 1;
        let number = aside.saved;
        let state = State {
            overlay,
            operations,
            aliases: aside.aliases.len(),
            terms: aside.terms.len(),
            clipboard: aside.clipboard.clone(),
        };
        aside.savepoints.push((number, state));
        Savepoint {
            transaction: self.id,
            number,
        }
    }

    /// Undoes what was done since a savepoint, exactly. The savepoint stays and can be returned to again; those
    /// that were made after it are gone.
    ///
    /// # Errors
    ///
    /// [`SavepointError`]: the savepoint is gone, or that of another transaction. Nothing is undone then.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), SavepointError> {
        let gone = SavepointError {
            transaction: savepoint.transaction,
            number: savepoint.number,
        };
        let Some(aside) = self
            .aside
            .as_mut()
            .filter(|_| self.id == savepoint.transaction)
        else {
            return Err(gone);
        };
        let mut numbers = aside.savepoints.iter().map(|(number, _)| *number);
        let Some(at) = numbers.position(|number| number == savepoint.number) else {
            return Err(gone);
        };
        aside.savepoints.truncate(at + 1);
        let (_, state) = &aside.savepoints[at];
        self.overlay.return_to(&state.overlay);
        self.operations.truncate(state.operations);
        aside.aliases.truncate(state.aliases);
        aside.terms.truncate(state.terms);
        aside.clipboard.clone_from(&state.clipboard);
        Ok(())
    }

    /// Runs `code` and undoes what it did if it fails. Nests.
    ///
    /// ```
    /// use doclock::{DataStore, EditError, NodeSpec, View};
    ///
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// let failed = transaction.attempt(|transaction| {
    ///     transaction.create(NodeSpec::new("paragraph"))?;
    ///     transaction.delete(&"nowhere".into())
    /// });
    /// assert!(matches!(failed, Err(EditError::NodeNotFound { .. })));
    /// assert_eq!(transaction.nodes().count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `code`.
    pub fn attempt<T, E>(&mut self, code: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let savepoint = self.savepoint();
        let (result, lent) = self.lend(code);
        if lent.is_err() {
            // The transaction was moved out, and cannot be committed any more.
            return result;
        }
        if result.is_err() {
            // Only what `code` did can have taken the savepoint away: a return to one before it, which undid all.
            let _ = self.rollback_to(savepoint);
        }
        self.aside_mut()
            .savepoints
            .retain(|(number, _)| *number < savepoint.number);
        result
    }
}
