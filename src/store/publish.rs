//! The published state, and how a transaction becomes part of it.

use std::sync::Arc;

use smol_str::SmolStr;

use super::claims::Inboxes;
use super::receipts::Receipts;
use super::{CommitError, CommitRecord, DataStore, FollowerId, Receipt};
use crate::document::{Overlay, Snapshot};

/// The published state. Under one mutex, so that a transaction appears in one step with its receipt
/// and the effects of its conditions.
pub(crate) struct Published {
    /// The last version.
    pub(super) snapshot: Snapshot,
    pub(super) receipts: Receipts,
    /// How many transactions have begun.
    pub(super) transactions: u64,
    pub(super) inboxes: Inboxes,
}

/// A condition that must hold when a transaction is published, with an effect that appears together
/// with it.
pub(crate) trait CommitCondition: Send + Sync {
    /// Whether it holds. Nothing is published between this and [`fulfil`](CommitCondition::fulfil).
    fn check(&self, published: &Published) -> Result<(), CommitError>;

    /// Publishes its effect. All conditions of the transaction hold.
    fn apply(&mut self, published: &mut Published);
}

/// The conditions of one transaction.
pub(super) type CommitConditions = Vec<Box<dyn CommitCondition>>;

/// Up to this many nodes are folded in while readers wait, which takes microseconds. More nodes are
/// folded into a copy beside the published version.
const FOLD_IN_PLACE: usize = 64;

/// An idempotency key with the receipt for its repetitions.
pub(super) type KeyedReceipt = (SmolStr, Arc<Receipt>);

impl Published {
    pub(super) fn new(remembered_keys: usize) -> Self {
        Self {
            snapshot: Snapshot::default(),
            receipts: Receipts::new(remembered_keys),
            transactions: 0,
            inboxes: Inboxes::default(),
        }
    }

    fn check(&self, conditions: &CommitConditions) -> Result<(), CommitError> {
        conditions
            .iter()
            .try_for_each(|condition| condition.check(self))
    }

    /// Publishes everything of a transaction but its changes.
    #[must_use = "freed under the mutex, it would hold up readers"]
    fn accompany(
        &mut self,
        receipt: Option<&KeyedReceipt>,
        conditions: &mut CommitConditions,
    ) -> Option<Arc<Receipt>> {
        for condition in conditions {
            condition.apply(self);
        }
        let (key, receipt) = receipt?;
        self.receipts.keep(key, receipt)
    }
}

impl DataStore {
    /// Makes an overlay the next version, with its receipt and conditions, and returns the
    /// version's number. Publishes nothing if a condition does not hold.
    ///
    /// If anyone but `origin` follows the document, `record` makes the record of the commit, with
    /// or without the result for subscribers. The log is locked meanwhile, so version and record
    /// appear in one step for every follower.
    pub(super) fn publish(
        &self,
        overlay: &mut Overlay,
        receipt: Option<&KeyedReceipt>,
        conditions: &mut CommitConditions,
        origin: Option<FollowerId>,
        record: impl FnOnce(u64, bool) -> CommitRecord,
    ) -> Result<u64, CommitError> {
        // Declared before the guards, hence dropped after them: no thread waits while old values
        // are freed.
        let (_forgotten, _before);
        let next = (overlay.weight() > FOLD_IN_PLACE).then(|| {
            // The caller holds the lock, so no other commit comes in between.
            let mut next = self.snapshot();
            overlay.fold_into(&mut next);
            next
        });
        let (log, mut published) = self.lock_for_commit(origin);
        published.check(conditions)?;
        match next {
            None => overlay.fold_into(&mut published.snapshot),
            Some(mut next) => {
                // Leases need no lock, so some may have been taken or renewed since.
                next.keep_leases_of(&published.snapshot);
                _before = std::mem::replace(&mut published.snapshot, next);
            }
        }
        _forgotten = published.accompany(receipt, conditions);
        let version = published.snapshot.version();
        drop(published);
        if let Some(log) = log {
            self.0
                .log
                .push(log, |for_subscribers| record(version, for_subscribers));
        }
        Ok(version)
    }

    /// Publishes the receipt and conditions of a transaction that changed nothing.
    pub(super) fn publish_conditions(
        &self,
        receipt: Option<&KeyedReceipt>,
        conditions: &mut CommitConditions,
    ) -> Result<(), CommitError> {
        if receipt.is_none() && conditions.is_empty() {
            return Ok(());
        }
        let mut published = self.0.published.lock();
        published.check(conditions)?;
        let forgotten = published.accompany(receipt, conditions);
        drop(published);
        drop(forgotten);
        Ok(())
    }

    /// The result of the first transaction with this key, as long as the store remembers the key.
    pub(crate) fn receipt(&self, key: &str) -> Option<Arc<Receipt>> {
        self.0.published.lock().receipts.get(key)
    }
}
