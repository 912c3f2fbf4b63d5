//! How a draft becomes the published version, in one step with its receipt and conditions.
//!
//! [`DataStore::publish`] does it from top to bottom: it checks the draft, seals the grant, makes
//! the next version, and lets others read of it. Transactions on nodes commit beside each other,
//! and publish one after the other (`publish_queue.rs`).

use std::sync::Arc;

use smol_str::SmolStr;

use super::inbox::event_table::{EventNote, Inboxes};
use super::lease::table::LeaseTable;
use super::notes::{Note, NoteChange, NoteKey, ReceiptNote, StoredNotes};
use super::receipts::{KeptReceipt, Receipts};
use super::{
    BatchDigest, CommitError, DataStore, Draft, FollowerId, Receipt, ReversedEntry,
    TransactionResult,
};
use crate::document::{
    Change, Changes, EditUnit, Overlay, Position, Selection, SharedList, Snapshot,
};
use crate::id::{OwnerId, TransactionId};
use crate::lock::Grant;
use crate::store::calendar::Calendar;

/// What a store has published: the last version, and the leases, which need no version. One mutex
/// has both, so the commit of a transaction that requires a lease appears while the lease lasts.
pub(crate) struct PublishedState {
    pub(super) document: Snapshot,
    pub(super) leases: LeaseTable,
}

impl PublishedState {
    /// A document that is opened. The owners of its leases had them from another store, so only
    /// their tokens continue.
    pub(super) fn new(document: Snapshot) -> Self {
        let leases = LeaseTable::after(document.numbering().lease_token);
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
pub(super) const FOLD_IN_PLACE: usize = 64;

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

/// A grant, and the only draft that can be published under it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldGrant {
    pub(crate) grant: Grant,
    pub(super) draft: TransactionId,
    /// Whether it is a grant of nodes.
    pub(super) on_nodes: bool,
}

/// What a commit says besides the edits of its draft.
#[derive(Default)]
pub(crate) struct Publication<'u> {
    pub(crate) owner: OwnerId,
    /// The idempotency key that has no receipt yet, with the digest of the batch.
    pub(crate) once: Option<(SmolStr, BatchDigest)>,
    /// The versions of the commits that it undoes or redoes: see [`undone`].
    pub(crate) undone: Vec<u64>,
    /// The session that submits it, which need not read it.
    pub(crate) session: Option<FollowerId>,
    /// The selections of the session before and after it.
    pub(crate) selections: [Option<Selection>; 2],
    /// Whether the history of the session has it.
    pub(crate) in_history: bool,
    /// What is undone together with it.
    pub(crate) unit: Option<&'u Arc<EditUnit>>,
    /// What it undoes or redoes.
    pub(crate) reversal: Reversal,
}

/// Which units a commit undoes or redoes.
#[derive(Default)]
pub(crate) struct Reversal {
    /// Whether recorded units went out of effect or into effect.
    pub(crate) is_recorded: bool,
    /// The unit, if all of its commits wait to be recorded, and whether it is to be in effect.
    pub(crate) newest: Option<(Arc<EditUnit>, bool)>,
    /// The units, if the versions do not tell them.
    pub(crate) entry: Option<Arc<ReversedEntry>>,
}

impl Reversal {
    /// Whether it undoes or redoes anything that has a unit.
    fn is_any(&self) -> bool {
        self.is_recorded || self.newest.is_some()
    }
}

impl Publication<'_> {
    /// A commit of an owner, outside of a session.
    #[inline(always)]
    pub(crate) fn by(owner: &OwnerId) -> Self {
        Self {
            owner: owner.clone(),
            ..Self::default()
        }
    }
}

/// The versions of the commits that a commit undoes. Without any, it undoes something that its
/// changes do not tell: code ran that is an inverse.
pub(crate) fn undone(mut versions: Vec<u64>) -> Vec<u64> {
    if versions.is_empty() {
        // No commit has this version.
        versions.push(0);
    }
    versions
}

impl DataStore {
    /// Publishes a draft under its grant, and leaves it without changes. Its receipt and the
    /// effects of its conditions are published with it, or nothing is. Followers read of it in the
    /// same step, and the threads of subscribers are woken. The grant stays held, and cannot be
    /// revoked any more.
    ///
    /// No other draft is published meanwhile: the caller holds the document lock or, on nodes, the
    /// lock `publishing`.
    ///
    /// # Errors
    ///
    /// [`CommitError::ForeignDraft`]: the draft is not the one that was made under the grant.
    // Generic in the error, so that the caller's outcome is built in its final place.
    pub(crate) fn publish<E: From<CommitError>>(
        &self,
        held: HeldGrant,
        draft: &mut Draft,
        mut publication: Publication<'_>,
    ) -> Result<TransactionResult, E> {
        let grant = self.validate(held, draft, &publication.owner)?;
        let once = publication.once.take();
        let [selection_before, selection_after] = std::mem::take(&mut publication.selections);
        let changed = draft.changes().iter().any(Change::is_of_the_document);
        let first_place = match publication.reversal.is_any() {
            true => first_place(&draft.overlay),
            false => None,
        };
        let mut result = TransactionResult {
            transaction_id: draft.id(),
            version: draft.base().version(),
            changed,
            owner: std::mem::take(&mut publication.owner),
            fencing_token: grant.token,
            idempotency_key: once.as_ref().map(|(key, _)| key.clone()),
            operations: draft.take_executed(),
            changes: Changes::default(),
            selection_before,
            selection_after,
            first_place,
            repeated: false,
            hook_failures: SharedList::default(),
        };
        let receipt = once.map(|(key, digest)| keyed_receipt(key, digest, &result));
        let mut conditions = draft.take_conditions();
        if !changed {
            if receipt.is_some() || !conditions.is_empty() {
                self.publish_conditions(receipt.as_ref(), &mut conditions)?;
            }
            return Ok(result);
        }
        result.changes = draft.overlay.take_changes();
        let announces;
        let commit = (&result, &publication);
        (result.version, announces) =
            self.make_version(draft, receipt.as_ref(), &mut conditions, commit)?;
        if let Some((unit, in_effect)) = &publication.reversal.newest {
            self.apply_published_newest(unit, *in_effect, &result.changes);
        }
        if announces {
            self.announce(&result);
        }
        Ok(result)
    }

    /// Whether a draft is the one that was made under a grant. It is not if code that had it by
    /// reference has put another one in its place, or if it was elsewhere when an attempt in it
    /// failed.
    pub(crate) fn is_own(&self, held: HeldGrant, draft: &Draft) -> bool {
        draft.id == held.draft && !draft.is_torn() && Arc::ptr_eq(&draft.document, &self.0.document)
    }

    /// Checks that a draft is the one that was made under a grant, its reads, and the schema. Then
    /// protects the grant from revocation until its end. Returns it: it may have got more nodes.
    #[inline]
    fn validate(
        &self,
        held: HeldGrant,
        draft: &mut Draft,
        owner: &OwnerId,
    ) -> Result<Grant, CommitError> {
        if !self.is_own(held, draft) {
            return Err(draft.foreign());
        }
        let (grant, reads) = match draft.is_on_nodes() {
            true => (draft.grant().unwrap_or(held.grant), draft.validate_reads()),
            false => (held.grant, Ok(())),
        };
        if reads.is_ok() && draft.schema().is_some() {
            draft.check_schema()?;
        }
        // A revoked transaction also reads the edits of later holders; they are not the cause.
        if !self.0.lock.seal(grant) {
            return Err(self.grant_ended(grant, owner));
        }
        reads.map(|()| grant)
    }

    /// Checks that a grant still holds. If it is a grant of the document lock, no other transaction
    /// was published since it began. Beside one of nodes, others may have been.
    ///
    /// # Errors
    ///
    /// [`CommitError::Revoked`], or [`CommitError::GrantEnded`].
    pub(crate) fn check_grant(&self, grant: Grant, owner: &OwnerId) -> Result<(), CommitError> {
        match self.0.lock.is_granted(grant) {
            true => Ok(()),
            false => Err(self.grant_ended(grant, owner)),
        }
    }

    #[cold]
    fn grant_ended(&self, grant: Grant, owner: &OwnerId) -> CommitError {
        let (id, owner) = (grant.id(), owner.clone());
        let holder = self.current_lock().map(Box::new);
        match grant.limited {
            true => CommitError::Revoked {
                id,
                owner,
                waiter: self.0.lock.revoked_for(id),
                holder,
            },
            false => CommitError::GrantEnded { id, owner, holder },
        }
    }

    /// Makes a draft the next version, with its receipt and conditions. Returns the version's
    /// number, and whether it is to be announced. Publishes nothing if a condition does not hold.
    ///
    /// The log is locked meanwhile if anyone follows the document, so version and record appear in
    /// one step for every follower.
    #[inline]
    fn make_version(
        &self,
        draft: &mut Draft,
        receipt: Option<&KeyedReceipt>,
        conditions: &mut CommitConditions,
        (result, publication): (&TransactionResult, &Publication<'_>),
    ) -> Result<(u64, bool), CommitError> {
        // Declared before the guards, hence dropped after them: no thread waits while old values
        // are freed.
        let (_forgotten, _before);
        let next = match draft.overlay.weight() > FOLD_IN_PLACE {
            // No other commit comes in between: the caller excludes them.
            true => {
                let mut next = self.snapshot();
                if draft.base().version() != next.version() {
                    return Err(draft.foreign());
                }
                draft.overlay.fold_into(&mut next);
                Some(next)
            }
            false => None,
        };
        let needs_bookkeeping = receipt.is_some() || !conditions.is_empty();
        let mut bookkeeping = needs_bookkeeping.then(|| self.0.bookkeeping.lock());
        let mut log = self.0.log.is_followed().then(|| self.0.log.records.lock());
        let mut published = self.0.document.published.lock();
        if log.is_none() && self.0.log.is_followed() {
            // A follower came before the published state was locked. The log is locked first.
            drop(published);
            log = Some(self.0.log.records.lock());
            published = self.0.document.published.lock();
        }
        self.check_writable()?;
        if let Some(bookkeeping) = &bookkeeping {
            bookkeeping.check(&published, receipt, conditions)?;
        }
        if next.is_none() {
            if draft.base().version() != published.version() {
                return Err(draft.foreign());
            }
            draft.overlay.release_base();
        }
        if published.document.is_pinned() {
            self.note_pinned(&published.document);
        }
        match next {
            None => draft.overlay.fold_into(&mut published.document),
            Some(next) => _before = std::mem::replace(&mut published.document, next),
        }
        // For a store that continues with the document.
        let lease_token = published.leases.last_token();
        let numbering = self.0.numbers.so_far(lease_token, &self.0.document.ids);
        published.document.set_numbering(numbering);
        let version = published.version();
        drop(published);
        _forgotten = bookkeeping.as_mut().and_then(|bookkeeping| {
            let (notes, forgotten) = bookkeeping.apply(receipt, conditions);
            self.store_notes_of(version, notes);
            forgotten
        });
        drop(bookkeeping);
        let announces = log.is_some_and(|log| {
            let details = draft.overlay.take_details();
            self.0.log.push(log, version, result, details, publication)
        });
        Ok((version, announces))
    }

    /// Publishes the receipt and conditions of a transaction that changed nothing.
    fn publish_conditions(
        &self,
        receipt: Option<&KeyedReceipt>,
        conditions: &mut CommitConditions,
    ) -> Result<(), CommitError> {
        let mut bookkeeping = self.0.bookkeeping.lock();
        // With the log locked, no close comes in between.
        let log = self.0.log.records.lock();
        let published = self.0.document.published.lock();
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

    /// The result of the first transaction with this key, as long as the store remembers the key.
    pub(crate) fn receipt(&self, key: &str) -> Option<Arc<Receipt>> {
        self.0.bookkeeping.lock().receipts.get(key)
    }
}

/// The first place that an undo or a redo changes, with its changes made.
#[cold]
fn first_place(on: &Overlay) -> Option<Box<Position>> {
    on.changes().first_place(on).map(Box::new)
}

/// The receipt for repetitions of a transaction with this result.
fn keyed_receipt(key: SmolStr, digest: BatchDigest, result: &TransactionResult) -> KeyedReceipt {
    let result = TransactionResult {
        // The next version: no other transaction is published meanwhile.
        version: result.version + u64::from(result.changed),
        repeated: true,
        ..result.clone()
    };
    (key, Arc::new(Receipt { digest, result }))
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/unit/publish.rs"]
mod tests;
