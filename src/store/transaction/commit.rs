//! The commit of a transaction: validate, publish, announce, release.
//!
//! A [`Transaction`] that has run is [`Validated`], then [`Visible`], and then announced to
//! subscribers. Its lock is released last, when it is dropped.
//!
//! Transactions on nodes hold locks on different nodes and commit beside each other. They publish
//! in the order in which they lock the mutex `publishing`, not in the order of their grants.

use std::sync::Arc;

use super::{Remembered, Transaction};
use crate::codes::CodedError;
use crate::document::{Change, Changes, Selection};
use crate::lock::WaitsAs;
use crate::store::durable::Durability;
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
    /// Publishes the changes as the next version, sends the event and releases the lock.
    ///
    /// A transaction without changes makes no version and no event.
    ///
    /// # Errors
    ///
    /// [`CommitError`]: the document would violate the store's schema, the lock was revoked, or the
    /// transaction was lent to the code that commits it. The transaction is rolled back then. Other
    /// variants concern transactions on nodes, leases, idempotency keys and inboxes.
    ///
    /// In a [durable](crate::durable) store it waits for the journal after the release, as the
    /// options of the store say.
    pub fn commit(self) -> Result<TransactionResult, CommitError> {
        self.commit_acknowledged(None)
    }

    /// Commits as [`commit`](Self::commit) does, and sets when it returns in a
    /// [durable](crate::durable) store.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, durable::Durability};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let store = DataStore::open(folder.path().join("notes.doclock"))?;
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// let result = transaction.commit_with(Durability::Later)?;
    /// assert_eq!(store.wait_durable(result.version, None)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit_with(self, durability: Durability) -> Result<TransactionResult, CommitError> {
        self.commit_acknowledged(Some(durability))
    }

    /// Commits as [`commit`](Self::commit) does. In a [durable](crate::durable) store, the task
    /// waits for the journal without blocking its thread.
    ///
    /// The future publishes the changes when it is first polled. If it is dropped before that, the
    /// transaction is rolled back. If it is dropped later, the commit stays, and becomes durable
    /// with the next write.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub async fn commit_async(mut self) -> Result<TransactionResult, CommitError> {
        let result = self.publish_observed()?;
        let store = self.store().clone();
        let mut observed = std::mem::take(self.observed());
        drop(self);
        let acknowledged = store.acknowledge_as(WaitsAs::Task, &result, None).await;
        observed.acknowledge(acknowledged)?;
        Ok(result)
    }

    fn commit_acknowledged(
        mut self,
        durability: Option<Durability>,
    ) -> Result<TransactionResult, CommitError> {
        if !self.store().is_durable() {
            return self.publish_observed();
        }
        let result = self.publish_observed()?;
        let store = self.store().clone();
        let mut observed = std::mem::take(self.observed());
        drop(self);
        observed.acknowledge(store.acknowledge(&result, durability))?;
        Ok(result)
    }

    fn publish_observed(&mut self) -> Result<TransactionResult, CommitError> {
        let outcome = self.publish_and([None, None], |_| ());
        let noted = outcome.as_ref().map_err(CommitError::code);
        self.held.observed.ended(noted);
        outcome
    }

    /// Protects the grant from revocation until the transaction ends.
    ///
    /// # Errors
    ///
    /// As [`check_grant`](Self::check_grant).
    #[inline]
    fn seal(&self) -> Result<(), CommitError> {
        match self.store().0.lock.seal(self.held.grant) {
            true => Ok(()),
            false => Err(self.grant_ended()),
        }
    }

    /// Checks that the grant still holds. If it is a grant of the document lock, no other
    /// transaction was published since this one began. Beside one of nodes, others may have been.
    ///
    /// # Errors
    ///
    /// [`CommitError::Revoked`], or [`CommitError::GrantEnded`].
    pub(crate) fn check_grant(&self) -> Result<(), CommitError> {
        match self.store().0.lock.is_granted(self.held.grant) {
            true => Ok(()),
            false => Err(self.grant_ended()),
        }
    }

    #[cold]
    fn grant_ended(&self) -> CommitError {
        let (id, owner) = (self.lock_id(), self.owner.clone());
        let holder = self.store().current_lock().map(Box::new);
        match self.held.grant.limited {
            true => CommitError::Revoked { id, owner, holder },
            false => CommitError::GrantEnded { id, owner, holder },
        }
    }

    /// Validates it, publishes it and announces it, with the selections of the submitter before and
    /// after. Calls `then` under the lock, with the result, before subscribers can read of it. The
    /// lock is released afterwards.
    // Generic in the error, so that the caller's outcome is built in its final place.
    pub(crate) fn publish_and<E: From<CommitError>>(
        &mut self,
        selections: [Option<Selection>; 2],
        then: impl FnOnce(&TransactionResult),
    ) -> Result<TransactionResult, E> {
        // Transactions on nodes publish one after the other, each after it has validated its reads.
        // One that holds the document lock is alone.
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
        let (conditions, undone, reversed) = match &mut transaction.rare {
            Some(rare) => {
                let reversed = rare.reversed.take();
                (&mut rare.conditions, &mut rare.undone, reversed)
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
            // The next version: no other transaction is published meanwhile.
            version: result.version + u64::from(result.changed),
            repeated: true,
            ..result.clone()
        };
        let digest = self.digest;
        (self.key.clone(), Arc::new(Receipt { digest, result }))
    }
}
