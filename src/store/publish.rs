//! How a transaction becomes the published version, in one step with its receipt and conditions.
//!
//! Which transaction is published next is decided in `transaction/commit.rs`.

use std::sync::Arc;

use smol_str::SmolStr;

use super::inbox::event_table::{EventNote, Inboxes};
use super::lease::table::Leases;
use super::log::ToRecord;
use super::notes::{Note, NoteChange, NoteKey, ReceiptNote, StoredNotes};
use super::numbers::Numbers;
use super::receipts::{KeptReceipt, Receipts};
use super::{CommitError, CommitRecord, DataStore, Receipt};
use crate::document::{Overlay, Snapshot};
use crate::id::NodeIds;
use crate::store::calendar::Calendar;
use crate::sync::{MutexGuard, rank};

/// What a store has published: the last version, and the leases, which need no version. One mutex
/// has both, so the commit of a transaction that requires a lease appears while the lease lasts.
pub(crate) struct PublishedState {
    pub(super) document: Snapshot,
    pub(super) leases: Leases,
}

impl PublishedState {
    /// A document that is opened. The owners of its leases had them from another store, so only
    /// their tokens continue.
    pub(super) fn new(document: Snapshot) -> Self {
        let leases = Leases::after(document.numbering().lease_token);
        Self { document, leases }
    }

    pub(super) fn version(&self) -> u64 {
        self.document.version()
    }

    /// Notes in the document that leases have been granted, so that a store which continues with a
    /// snapshot repeats none of their tokens. Copies the document, in O(1), if it is shared.
    pub(super) fn note_lease_token(&mut self) {
        let mut numbering = self.document.numbering();
        numbering.lease_token = self.leases.last_token();
        self.document.set_numbering(numbering);
    }

    /// Notes the numberings in the document, for the store that continues with it.
    pub(super) fn number(&mut self, numbers: &Numbers, ids: &NodeIds) {
        let numbering = numbers.so_far(self.leases.last_token(), ids);
        self.document.set_numbering(numbering);
    }
}

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
    fn check(&self, last: &PublishedState, bookkeeping: &Bookkeeping) -> Result<(), CommitError>;

    /// Adds its effect, and returns what a journal has to store. All conditions of the transaction
    /// hold.
    fn apply(&mut self, bookkeeping: &mut Bookkeeping) -> Vec<NoteChange>;
}

/// The conditions of one transaction.
pub(super) type CommitConditions = Vec<Box<dyn CommitCondition>>;

/// Up to this many nodes are folded in while readers wait, which takes microseconds. More nodes are
/// folded into a copy beside the published version.
const FOLD_IN_PLACE: usize = 64;

/// An idempotency key with the receipt for its repetitions.
pub(super) type KeyedReceipt = (SmolStr, Arc<Receipt>);

impl Bookkeeping {
    /// `is_stored` is whether a journal stores it.
    pub(super) fn new(remembered_keys: usize, is_stored: bool) -> Self {
        Self {
            receipts: Receipts::new(remembered_keys),
            inboxes: Inboxes::new(is_stored),
        }
    }

    fn check(
        &self,
        last: &PublishedState,
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

    /// Adds the receipt and the effects of the conditions of a transaction. Returns what a journal
    /// has to store, and the receipt that is forgotten.
    #[must_use = "freed under the mutex, it would hold up others"]
    fn apply(
        &mut self,
        receipt: Option<&KeyedReceipt>,
        conditions: &mut CommitConditions,
    ) -> (Vec<NoteChange>, Option<Arc<Receipt>>) {
        let mut notes = Vec::new();
        for condition in conditions {
            notes.append(&mut condition.apply(self));
        }
        let kept = receipt.and_then(|(key, receipt)| self.receipts.keep(key, receipt));
        let (Some((key, receipt)), Some(KeptReceipt { number, forgotten })) = (receipt, kept)
        else {
            return (notes, None);
        };
        let (forgotten_key, forgotten) = forgotten.unzip();
        if self.inboxes.are_stored {
            let note = Note::Receipt(ReceiptNote {
                key: key.clone(),
                number,
                receipt: Arc::clone(receipt),
            });
            notes.push(NoteChange::Kept(note));
            notes.extend(forgotten_key.map(|key| NoteChange::Forgotten(NoteKey::Receipt(key))));
        }
        (notes, forgotten)
    }

    /// Restores what a journal has stored. Returns the keys of receipts that are too many.
    pub(super) fn restore(
        &mut self,
        notes: StoredNotes,
        last_token: u64,
        calendar: &Calendar,
    ) -> Vec<NoteKey> {
        let StoredNotes {
            receipts,
            mut events,
            watermarks,
            ..
        } = notes;
        // The oldest first, as they were done.
        events.sort_by_key(EventNote::done_at);
        for event in events {
            self.inboxes.restore(event, last_token, calendar);
        }
        for watermark in watermarks {
            self.inboxes.restore_watermark(watermark, last_token);
        }
        self.receipts.restore(receipts)
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
        commit: ToRecord<'_>,
        record: impl FnOnce(u64, bool) -> CommitRecord,
    ) -> Result<u64, CommitError> {
        // Declared before the guards, hence dropped after them: no thread waits while old values
        // are freed.
        let (_forgotten, _before);
        let next = (overlay.weight() > FOLD_IN_PLACE).then(|| {
            // The caller holds the document lock or, on nodes, the mutex `publishing`: no other
            // commit comes in between.
            let mut next = self.snapshot();
            overlay.fold_into(&mut next);
            next
        });
        let mut bookkeeping = self.bookkeeping_for(receipt, conditions);
        let (log, mut published) = self.lock_for_commit();
        self.check_writable()?;
        if let Some(bookkeeping) = &bookkeeping {
            bookkeeping.check(&published, receipt, conditions)?;
        }
        match next {
            None => {
                overlay.release_base();
                self.note_pinned(&published.document);
                overlay.fold_into(&mut published.document);
            }
            Some(next) => {
                self.note_pinned(&published.document);
                _before = std::mem::replace(&mut published.document, next);
            }
        }
        published.number(&self.0.numbers, &self.0.ids);
        let version = published.version();
        drop(published);
        _forgotten = bookkeeping.as_mut().and_then(|bookkeeping| {
            let (notes, forgotten) = bookkeeping.apply(receipt, conditions);
            self.store_notes_of(version, notes);
            forgotten
        });
        drop(bookkeeping);
        if let Some(log) = log {
            let record = |for_subscribers| record(version, for_subscribers);
            self.0.log.push(log, version, commit, record);
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
        // With the log locked, no close comes in between.
        let (log, published) = self.lock_for_commit();
        self.check_writable()?;
        bookkeeping.check(&published, receipt, conditions)?;
        let version = published.version();
        drop(published);
        let (notes, forgotten) = bookkeeping.apply(receipt, conditions);
        self.store_notes_of(version, notes);
        drop((log, bookkeeping));
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::store::durable::{DurableOptions, Forgetful};

    /// Checks that no close comes between the check and the effect.
    struct Guarded(DataStore);

    impl CommitCondition for Guarded {
        fn check(&self, _: &PublishedState, _: &Bookkeeping) -> Result<(), CommitError> {
            Ok(())
        }

        fn apply(&mut self, _: &mut Bookkeeping) -> Vec<NoteChange> {
            assert!(self.0.log_is_locked(), "a close could come in between");
            Vec::new()
        }
    }

    #[test]
    fn no_close_comes_between_the_check_and_the_effect_of_a_transaction() {
        let store = DataStore::open_journal(Forgetful, DurableOptions::new()).unwrap();
        for changes in [false, true] {
            let mut transaction = store.begin("ann").unwrap();
            if changes {
                transaction
                    .create(crate::document::NodeSpec::new("x"))
                    .unwrap();
            }
            transaction.on_condition(Box::new(Guarded(store.clone())));
            transaction.commit().unwrap();
        }
    }
}
