//! The binary form of notes.

use std::sync::Arc;

use super::commits::{read_commit, write_commit};
use super::{Read, Record, RecordReader, RecordWriter, Written};
use crate::store::TransactionResult;
use crate::store::durable::format::StoredHead;
use crate::store::notes::{Note, NoteChange, ReceiptNote};
use crate::store::receipts::{BatchDigest, Receipt};

impl Record for StoredHead {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        to.serialized(self)
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        from.deserialized()
    }
}

const FORGOTTEN: u64 = 0;
const RECEIPT: u64 = 1;
const EVENT: u64 = 2;
const WATERMARK: u64 = 3;
const LEASE: u64 = 4;

impl Record for Note {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        to.note(self, &[])
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        let fields = from.fields(2..=6)?;
        let kind = from.number()?;
        from.note(kind, fields, &[])
    }
}

impl<'a> RecordWriter<'a> {
    /// Writes a note of a block with these commits.
    pub(super) fn note_change(
        &mut self,
        change: &'a NoteChange,
        commits: &'a [Arc<TransactionResult>],
    ) -> Written {
        match change {
            NoteChange::Kept(note) => self.note(note, commits),
            NoteChange::Forgotten(key) => {
                self.list(2)?;
                self.number(FORGOTTEN)?;
                self.serialized(key)
            }
        }
    }

    fn note(&mut self, note: &'a Note, commits: &'a [Arc<TransactionResult>]) -> Written {
        self.list(match note {
            Note::Receipt(_) => 6,
            Note::Event(_) | Note::Watermark(_) | Note::Lease(_) => 2,
        })?;
        match note {
            Note::Receipt(note) => {
                let Receipt { digest, result } = &*note.receipt;
                self.number(RECEIPT)?;
                self.name(&note.key)?;
                self.number(note.number)?;
                self.number((digest.0 >> u64::BITS) as u64)?;
                self.number(digest.0 as u64)?;
                match self.commit_of(result, commits) {
                    Some(index) => self.number(index as u64),
                    None => write_commit(self, result, None),
                }
            }
            Note::Event(note) => self.number(EVENT).and_then(|()| self.serialized(note)),
            Note::Watermark(note) => self.number(WATERMARK).and_then(|()| self.serialized(note)),
            Note::Lease(note) => self.number(LEASE).and_then(|()| self.serialized(note)),
        }
    }

    /// The index of the commit of whose receipt this is the result. Each commit is taken once at
    /// most, so that a short part cannot be read as many long results.
    fn commit_of(
        &mut self,
        result: &TransactionResult,
        commits: &[Arc<TransactionResult>],
    ) -> Option<usize> {
        let index = commits.binary_search_by_key(&result.version, |commit| commit.version);
        let index = index.ok().filter(|index| *index >= self.next_receipt)?;
        if *result != receipt_of(&commits[index]) {
            return None;
        }
        self.next_receipt = index + 1;
        Some(index)
    }
}

impl RecordReader<'_> {
    /// Reads a note of a block with these commits.
    pub(super) fn note_change(&mut self, commits: &[Arc<TransactionResult>]) -> Read<NoteChange> {
        let fields = self.fields(2..=6)?;
        match self.number()? {
            FORGOTTEN if fields == 2 => self.deserialized().map(NoteChange::Forgotten),
            kind => self.note(kind, fields, commits).map(NoteChange::Kept),
        }
    }

    fn note(&mut self, kind: u64, fields: u64, commits: &[Arc<TransactionResult>]) -> Read<Note> {
        match (kind, fields) {
            (RECEIPT, 6) => self.receipt(commits).map(Note::Receipt),
            (EVENT, 2) => self.deserialized().map(Note::Event),
            (WATERMARK, 2) => self.deserialized().map(Note::Watermark),
            (LEASE, 2) => self.deserialized().map(Note::Lease),
            _ => Err(self.error(format_args!("no note {kind} has {fields} items"))),
        }
    }

    fn receipt(&mut self, commits: &[Arc<TransactionResult>]) -> Read<ReceiptNote> {
        let (key, number) = (self.name()?, self.number()?);
        let (high, low) = (self.number()?, self.number()?);
        let result = match self.is_list()? {
            true => read_commit(self)?.0,
            false => {
                let index = self.index()?;
                let commit = commits.get(index).filter(|_| index >= self.next_receipt);
                let Some(commit) = commit else {
                    let message = format_args!("commit {index} has no receipt here");
                    return Err(self.error(message));
                };
                self.next_receipt = index + 1;
                receipt_of(commit)
            }
        };
        let digest = BatchDigest(u128::from(high) << u64::BITS | u128::from(low));
        let receipt = Arc::new(Receipt { digest, result });
        Ok(ReceiptNote {
            key,
            number,
            receipt,
        })
    }
}

/// The result in the receipt of a commit.
fn receipt_of(commit: &TransactionResult) -> TransactionResult {
    TransactionResult {
        repeated: true,
        changes: Default::default(),
        ..commit.clone()
    }
}
