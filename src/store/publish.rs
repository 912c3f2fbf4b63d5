//! How a transaction becomes the published version, with what it leaves beside the document.

use std::sync::Arc;

use smol_str::SmolStr;

use super::claims::Inboxes;
use super::receipts::Receipts;
use super::{CommitError, CommitRecord, DataStore, FollowerId, Receipt};
use crate::document::{Overlay, Snapshot};
use crate::sync::{MutexGuard, rank};

/// What transactions leave beside the document. It is locked while a transaction is published that
/// adds to it, so that both appear in one step. Readers of the document do not wait for it.
pub(crate) struct Bookkeeping {
    pub(super) receipts: Receipts,
    pub(super) inboxes: Inboxes,
}

/// A condition that must hold when a transaction is published, with an effect that appears together
/// with it.
pub(crate) trait CommitCondition: Send + Sync {
    /// Whether it holds for the last version and the bookkeeping. Both are locked, and the
    /// transaction is published at once.
    fn check(&self, last: &Snapshot, bookkeeping: &Bookkeeping) -> Result<(), CommitError>;

    /// Adds its effect. All conditions of the transaction hold.
    fn apply(&mut self, bookkeeping: &mut Bookkeeping);
}

/// The conditions of one transaction.
pub(super) type CommitConditions = Vec<Box<dyn CommitCondition>>;

/// Up to this many nodes are folded in while readers wait, which takes microseconds. More nodes are
/// folded into a copy beside the published version.
const FOLD_IN_PLACE: usize = 64;

/// An idempotency key with the receipt for its repetitions.
pub(super) type KeyedReceipt = (SmolStr, Arc<Receipt>);

impl Bookkeeping {
    pub(super) fn new(remembered_keys: usize) -> Self {
        Self {
            receipts: Receipts::new(remembered_keys),
            inboxes: Inboxes::default(),
        }
    }

    fn check(
        &self,
        last: &Snapshot,
        receipt: Option<&KeyedReceipt>,
        conditions: &CommitConditions,
    ) -> Result<(), CommitError> {
        match receipt {
            // Only by another transaction on nodes: under the document lock the key was free.
            Some((key, _)) if self.receipts.get(key).is_some() => {
                Err(CommitError::Repeated { key: key.clone() })
            }
            _ => conditions
                .iter()
                .try_for_each(|condition| condition.check(last, self)),
        }
    }

    /// Adds what a transaction leaves beside its changes.
    #[must_use = "freed under the mutex, it would hold up others"]
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
    #[inline]
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
        let mut bookkeeping = self.bookkeeping_for(receipt, conditions);
        let (log, mut published) = self.lock_for_commit(origin);
        if let Some(refusal) = self.0.writer.as_ref().and_then(|writer| writer.refusal()) {
            return Err(refusal);
        }
        if let Some(bookkeeping) = &bookkeeping {
            bookkeeping.check(&published, receipt, conditions)?;
        }
        match next {
            None => overlay.fold_into(&mut published),
            Some(mut next) => {
                // Leases need no lock, so some may have been taken or renewed since.
                next.keep_leases_of(&published);
                _before = std::mem::replace(&mut *published, next);
            }
        }
        published.set_numbering(self.0.numbers.so_far(&self.0.ids));
        let version = published.version();
        drop(published);
        _forgotten = bookkeeping
            .as_mut()
            .map(|bookkeeping| bookkeeping.accompany(receipt, conditions));
        drop(bookkeeping);
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
        let Some(mut bookkeeping) = self.bookkeeping_for(receipt, conditions) else {
            return Ok(());
        };
        bookkeeping.check(&self.0.published.lock(), receipt, conditions)?;
        let forgotten = bookkeeping.accompany(receipt, conditions);
        drop(bookkeeping);
        drop(forgotten);
        Ok(())
    }

    /// Locks the bookkeeping if the transaction needs it.
    fn bookkeeping_for(
        &self,
        receipt: Option<&KeyedReceipt>,
        conditions: &CommitConditions,
    ) -> Option<MutexGuard<'_, { rank::BOOKKEEPING }, Bookkeeping>> {
        let needs = receipt.is_some() || !conditions.is_empty();
        needs.then(|| self.0.bookkeeping.lock())
    }

    /// The result of the first transaction with this key, as long as the store remembers the key.
    pub(crate) fn receipt(&self, key: &str) -> Option<Arc<Receipt>> {
        self.0.bookkeeping.lock().receipts.get(key)
    }
}
