//! What a store keeps beside the nodes, in the form in which a journal stores it.
//!
//! A note is a receipt, an event of an inbox, the watermark of an inbox, or a lease. It is stored
//! together with the commit that it belongs to, or alone if it belongs to none.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::DataStore;
use super::durable::WrittenReceipt;
use super::inbox::event_table::EventNote;
use super::lease::table::Holding;
use super::lease::{LeaseTarget, LeaseTargets};
use super::receipts::Receipt;
#[cfg(feature = "redb")]
use crate::document::Snapshot;
use crate::id::{FencingToken, OwnerId};
use crate::store::calendar::{Calendar, Date};
use crate::time::MonotonicTime;

/// A stored note.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Note {
    Receipt(ReceiptNote),
    Event(EventNote),
    Watermark(WatermarkNote),
    Lease(LeaseNote),
}

/// Identifies a note.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum NoteKey {
    /// An idempotency key.
    Receipt(SmolStr),
    /// The name of an inbox, and the id of an event.
    Event(SmolStr, SmolStr),
    /// The name of an inbox, and the number of a dead letter without an event id.
    Letter(SmolStr, u64),
    /// The name of an inbox.
    Watermark(SmolStr),
    Lease(FencingToken),
}

/// A note that is new or has changed, or one that is forgotten.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum NoteChange {
    Kept(Note),
    Forgotten(NoteKey),
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ReceiptNote {
    pub(super) key: SmolStr,
    /// Later receipts have greater numbers.
    pub(super) number: u64,
    pub(super) receipt: Arc<Receipt>,
}

/// The newest time of sending of all events that an inbox has forgotten.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatermarkNote {
    pub(super) inbox: SmolStr,
    pub(super) sent_at: Date,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LeaseNote {
    targets: LeaseTargets,
    owner: OwnerId,
    pub(super) token: FencingToken,
    pub(super) ends: Date,
    /// How long it lasts, in nanoseconds from when it was taken or renewed.
    lasts: u64,
}

impl Note {
    pub(super) fn key(&self) -> NoteKey {
        match self {
            Self::Receipt(receipt) => NoteKey::Receipt(receipt.key.clone()),
            Self::Event(event) => event.key(),
            Self::Watermark(watermark) => NoteKey::Watermark(watermark.inbox.clone()),
            Self::Lease(lease) => NoteKey::Lease(lease.token),
        }
    }
}

impl NoteChange {
    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let strings = match self {
            Self::Kept(Note::Receipt(note)) => note.key.len() + note.receipt.result.bytes(),
            Self::Kept(Note::Event(note)) => note.bytes(),
            Self::Kept(Note::Watermark(note)) => note.inbox.len(),
            Self::Kept(Note::Lease(note)) => {
                let targets = note.targets.iter().map(LeaseTarget::bytes);
                note.owner.as_str().len() + targets.sum::<usize>()
            }
            Self::Forgotten(key) => match key {
                NoteKey::Receipt(name) | NoteKey::Letter(name, _) | NoteKey::Watermark(name) => {
                    name.len()
                }
                NoteKey::Event(inbox, id) => inbox.len() + id.len(),
                NoteKey::Lease(_) => 0,
            },
        };
        size_of::<Self>() + strings
    }

    /// The key, and the note unless it is forgotten.
    pub(super) fn into_parts(self) -> (NoteKey, Option<Note>) {
        match self {
            Self::Kept(note) => (note.key(), Some(note)),
            Self::Forgotten(key) => (key, None),
        }
    }
}

impl ReceiptNote {
    /// The receipt, for a journal.
    pub(super) fn written(&self) -> WrittenReceipt {
        let Receipt { digest, result } = &*self.receipt;
        WrittenReceipt {
            key: self.key.clone(),
            digest: digest.0,
            result: result.clone(),
        }
    }
}

impl LeaseNote {
    /// The note of a lease that was taken or renewed now.
    fn new(holding: &Holding, now: MonotonicTime) -> Self {
        Self {
            targets: holding.targets.clone(),
            owner: holding.owner.clone(),
            token: holding.token,
            ends: Date(holding.expiry.date),
            lasts: holding.expiry.left(now).as_nanos() as u64,
        }
    }

    /// The lease, or its token if it has ended.
    fn restored(self, calendar: &Calendar) -> Result<Holding, FencingToken> {
        let lasts = Duration::from_nanos(self.lasts);
        let expiry = calendar.expiry(self.ends, lasts).ok_or(self.token)?;
        Ok(Holding {
            targets: self.targets,
            owner: self.owner,
            token: self.token,
            expiry,
        })
    }
}

/// The notes with which a store is opened.
#[derive(Default)]
pub(super) struct StoredNotes {
    pub(super) receipts: Vec<ReceiptNote>,
    pub(super) events: Vec<EventNote>,
    pub(super) watermarks: Vec<WatermarkNote>,
    pub(super) leases: Vec<LeaseNote>,
}

impl FromIterator<Note> for StoredNotes {
    fn from_iter<I: IntoIterator<Item = Note>>(notes: I) -> Self {
        let mut by_kind = Self::default();
        for note in notes {
            match note {
                Note::Receipt(receipt) => by_kind.receipts.push(receipt),
                Note::Event(event) => by_kind.events.push(event),
                Note::Watermark(watermark) => by_kind.watermarks.push(watermark),
                Note::Lease(lease) => by_kind.leases.push(lease),
            }
        }
        by_kind
    }
}

impl DataStore {
    /// Stores notes of the present version. Called with the bookkeeping locked, so that the notes
    /// of one key are stored in their order. Returns whether there were any: then the writer is to
    /// be [called](Self::call_writer) afterwards.
    pub(super) fn store_notes(&self, notes: Vec<NoteChange>) -> bool {
        let has_notes = !notes.is_empty();
        if has_notes {
            self.store_notes_of(self.version(), notes);
        }
        has_notes
    }

    /// Stores notes with the commit that made this version, or after it.
    pub(super) fn store_notes_of(&self, version: u64, notes: Vec<NoteChange>) {
        if !notes.is_empty()
            && let Some(writer) = &self.0.writer
        {
            writer.add_notes(version, notes);
        }
    }

    /// Stores a lease that was taken or renewed. Called with the published version locked.
    pub(super) fn store_lease(&self, version: u64, holding: &Holding, now: MonotonicTime) {
        if self.is_durable() {
            let note = Note::Lease(LeaseNote::new(holding, now));
            self.store_notes_of(version, vec![NoteChange::Kept(note)]);
        }
    }

    /// Stores that leases have ended, whose tokens never return.
    pub(super) fn store_ends(&self, version: u64, tokens: impl Iterator<Item = FencingToken>) {
        if self.is_durable() {
            let ended = tokens.map(|token| NoteChange::Forgotten(NoteKey::Lease(token)));
            self.store_notes_of(version, ended.collect());
        }
    }

    /// The document with all notes, as of one moment.
    #[cfg(feature = "redb")]
    pub(super) fn with_all_notes(&self) -> (Snapshot, Vec<NoteChange>) {
        let now = self.monotonic();
        // Commits with receipts and events of inboxes wait, so both are of one moment.
        let bookkeeping = self.0.bookkeeping.lock();
        let published = self.0.document.published.lock();
        let (document, leases) = (published.document.clone(), published.leases.clone());
        drop(published);
        let mut notes = bookkeeping.inboxes.notes(now);
        let receipts = bookkeeping.receipts.notes();
        notes.extend(receipts.map(|note| NoteChange::Kept(Note::Receipt(note))));
        drop(bookkeeping);
        let leases = leases.valid(now);
        let leases = leases.map(|holding| Note::Lease(LeaseNote::new(holding, now)));
        notes.extend(leases.map(NoteChange::Kept));
        (document, notes)
    }

    /// Lets a durable store write the notes that were stored. Called with no mutex locked.
    pub(super) fn call_writer(&self) {
        if let Some(writer) = &self.0.writer {
            writer.call();
        }
    }

    /// Lets a durable store write what there is, and waits for nothing.
    pub(crate) fn wake_writer(&self) {
        if let Some(writer) = &self.0.writer {
            writer.wake();
        }
    }

    /// Restores stored notes, before anyone else has the store. Returns the keys of those that need
    /// not be stored any more.
    pub(super) fn restore(&self, mut notes: StoredNotes) -> Vec<NoteKey> {
        let calendar = Calendar::at(self.monotonic());
        let mut forgotten = Vec::new();
        let mut published = self.0.document.published.lock();
        // A later lease shows that an earlier one on its targets has ended.
        notes.leases.sort_unstable_by_key(|lease| lease.token);
        for lease in std::mem::take(&mut notes.leases) {
            match lease.restored(&calendar) {
                Ok(holding) => published.leases.restore(holding),
                Err(token) => forgotten.push(NoteKey::Lease(token)),
            }
        }
        published.note_lease_token();
        drop(published);
        let last_token = self.0.numbers.claim_token();
        let mut bookkeeping = self.0.bookkeeping.lock();
        forgotten.append(&mut bookkeeping.restore(notes, last_token, &calendar));
        forgotten
    }
}
