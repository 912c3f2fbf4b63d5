//! Lending a transaction to code of a user, by a mutable reference.
//!
//! The code can put another transaction in its place. So a lent transaction cannot be committed,
//! wherever it is moved, and after the code it must be where it was.

use std::sync::Arc;

use super::Transaction;
use crate::caught::catch;
use crate::codes::codes;
use crate::id::TransactionId;

/// An error: code moved a transaction out of the reference by which it was lent.
///
/// The transaction can no longer be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "transaction {transaction} was moved out of the code that it was lent to, and can no longer be committed"
)]
#[non_exhaustive]
pub struct TakenOut {
    /// The transaction.
    pub transaction: TransactionId,
}

codes! { TakenOut {
    Self { transaction } => "transactionTakenOut", 500;
}}

impl Transaction {
    /// Runs code of a user on the transaction. A panic propagates.
    ///
    /// Also returns [`TakenOut`] if the code has put another transaction in the place of this one.
    /// The other transaction is in that place then.
    pub(crate) fn lend<T>(
        &mut self,
        code: impl FnOnce(&mut Self) -> T,
    ) -> (T, Result<(), TakenOut>) {
        let transaction = self.id;
        let identity = self.identity();
        let was_lent = std::mem::replace(&mut self.lent, true);
        let outcome = catch(|| code(self));
        let is_there = self.identity() == identity;
        if is_there {
            self.lent = was_lent;
        }
        match outcome {
            Ok(value) => (
                value,
                is_there.then_some(()).ok_or(TakenOut { transaction }),
            ),
            Err(panic) => panic.resume(),
        }
    }

    /// The id with the address of the store, because ids are unique within a store only. The
    /// lender's handle of the store keeps the address in use.
    pub(super) fn identity(&self) -> (TransactionId, *const ()) {
        (self.id, Arc::as_ptr(&self.held.store.0).cast())
    }

    pub(super) fn check_not_lent(&self) -> Result<(), TakenOut> {
        let transaction = self.id;
        (!self.lent).then_some(()).ok_or(TakenOut { transaction })
    }
}

#[cfg(test)]
mod tests {
    use crate::document::NodeSpec;
    use crate::store::{CommitError, DataStore};

    /// Only a defect of the store itself ends the grant of an open transaction that has no hold
    /// limit.
    #[test]
    fn a_transaction_without_a_valid_grant_is_not_published() {
        let store = DataStore::new();
        let mut transaction = store.begin("ann").unwrap();
        transaction.create(NodeSpec::new("x")).unwrap();
        store.0.lock.part_from_grant(transaction.lock_id());
        let next = store.lock("ben").unwrap();
        let lock = transaction.lock_id();
        match transaction.commit().unwrap_err() {
            CommitError::GrantEnded { id, holder, .. } => {
                assert_eq!((id, holder.unwrap().owner_id.as_str()), (lock, "ben"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(store.version(), 0);
        drop(next);
    }
}
