//! The last stages of a transaction: validate, publish, announce, release.
//!
//! A [`Transaction`] that has run is [`Validated`], then [`Visible`], and then announced to
//! subscribers. Its lock is released last, when it is dropped.

use std::sync::Arc;

use super::{Remembered, Transaction};
use crate::document::{Change, Changes, Selection};
use crate::store::log::ToRecord;
use crate::store::publish::{CommitConditions, KeyedReceipt};
use crate::store::{CommitEdits, CommitError, CommitRecord, DataStore, Receipt, TransactionResult};

/// A transaction whose reads and nodes are valid, and whose grant cannot be revoked any more.
struct Validated<'t>(&'t mut Transaction);

/// A transaction whose version all readers see, before subscribers can read of it.
struct Visible<'t> {
    store: &'t DataStore,
    result: TransactionResult,
}

impl Transaction {
    /// Validates it, publishes it and announces it, with the selections of the submitter before and
    /// after. Calls `then` under the lock, with the result, before subscribers can read of it. The
    /// lock is released afterwards.
    // Generic in the error, so that the caller's outcome is built in its final place.
    pub(crate) fn publish_and<E: From<CommitError>>(
        &mut self,
        selections: [Option<Selection>; 2],
        then: impl FnOnce(&TransactionResult),
    ) -> Result<TransactionResult, E> {
        // Transactions on nodes publish one after the other; one on the whole document runs alone.
        let shared = self.nodes.is_some().then(|| self.held.store.clone());
        let _publishing = shared.as_ref().map(|store| store.0.publishing.lock());
        let published = self.validated()?.publish(selections)?;
        then(&published.result);
        published.announce();
        Ok(published.result)
    }

    fn validated(&mut self) -> Result<Validated<'_>, CommitError> {
        self.check_not_lent()?;
        if let Err(error) = self.validate_reads() {
            // A revoked transaction also reads the edits of later holders; they are not the cause.
            self.seal()?;
            return Err(error);
        }
        self.check_schema()?;
        self.seal()?;
        Ok(Validated(self))
    }
}

impl<'t> Validated<'t> {
    /// Publishes it with its receipt and the effects of its conditions, or nothing.
    #[inline(always)]
    fn publish(
        self,
        [selection_before, selection_after]: [Option<Selection>; 2],
    ) -> Result<Visible<'t>, CommitError> {
        let Self(transaction) = self;
        let changed = transaction.changes().iter().any(Change::is_of_the_document);
        let mut result = TransactionResult {
            transaction_id: transaction.id(),
            version: transaction.base().version(),
            changed,
            owner: transaction.owner.clone(),
            fencing_token: transaction.held.grant.token,
            idempotency_key: transaction.receipt.as_ref().map(|it| it.key.clone()),
            operations: std::mem::take(&mut transaction.operations),
            changes: Changes::default(),
            selection_before,
            selection_after,
            repeated: false,
            hook_failures: Vec::new(),
        };
        let receipt = transaction
            .receipt
            .as_deref()
            .map(|kept| kept.receipt(&result));
        let store = &transaction.held.store;
        let mut none = (CommitConditions::new(), Vec::new());
        let (conditions, undone, reversed) = match &mut transaction.aside {
            Some(aside) => {
                let reversed = aside.reversed.take();
                (&mut aside.conditions, &mut aside.undone, reversed)
            }
            None => (&mut none.0, &mut none.1, None),
        };
        if !changed {
            store.publish_conditions(receipt.as_ref(), conditions)?;
            return Ok(Visible { store, result });
        }
        result.changes = transaction.overlay.take_changes();
        let details = transaction.overlay.take_details();
        let unit = transaction.unit.take();
        let (reversed_unit, is_undo) = (transaction.reversed_unit.take(), transaction.is_undo);
        let (overlay, origin) = (&mut transaction.overlay, transaction.origin);
        let in_history = transaction.in_history && origin.is_some();
        let selections = [&result.selection_before, &result.selection_after];
        let commit = ToRecord {
            changes: &result.changes,
            details,
            unit: unit.as_ref(),
            selections: selections.map(|it| it.as_ref().filter(|_| unit.is_some())),
            origin,
            is_undo,
            reversed_unit: reversed_unit.as_ref(),
        };
        let record = |version, for_subscribers: bool| CommitRecord {
            edits: CommitEdits {
                version,
                edits: Change::sequence_edits(&result.changes),
                undone: std::mem::take(undone).into(),
            },
            owner: transaction.owner.clone(),
            in_history,
            origin,
            // Only kept commits lead to the history of a later session.
            unit: unit.as_ref().filter(|_| store.keeps_commits()).cloned(),
            reversed: reversed.clone(),
            commit: for_subscribers.then(|| {
                Arc::new(TransactionResult {
                    version,
                    ..result.clone()
                })
            }),
        };
        let receipt = receipt.as_ref();
        result.version = store.publish(overlay, receipt, conditions, commit, record)?;
        if let Some((unit, in_effect)) = &reversed_unit {
            store.apply_published_newest(unit, *in_effect, &result.changes);
        }
        Ok(Visible { store, result })
    }
}

impl Visible<'_> {
    /// Lets subscribers read of it.
    #[inline(always)]
    fn announce(&self) {
        if self.result.changed {
            self.store.announce(&self.result);
        }
    }
}

impl Remembered {
    /// The receipt for repetitions of a transaction with this result.
    fn receipt(&self, result: &TransactionResult) -> KeyedReceipt {
        let result = TransactionResult {
            // The next version: only the holder of the lock publishes.
            version: result.version + u64::from(result.changed),
            repeated: true,
            ..result.clone()
        };
        let digest = self.digest;
        (self.key.clone(), Arc::new(Receipt { digest, result }))
    }
}
