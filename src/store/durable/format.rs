//! The stored form of entries and blocks: a byte for the format, a checksum, and the content. It is
//! [binary](super::record) in what is written now, and JSON in what earlier versions wrote.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::record::{Record, RecordReader, RecordWriter};
use super::{JournalError, OpenError, StoredPart, WrittenReceipt};
use crate::brief::Brief;
use crate::document::{AssemblyError, DocumentHead, Node, Tokens, check_room};
use crate::id::{FencingToken, NodeId};
use crate::store::TransactionResult;
use crate::store::log::{CommitRecord, HistoryStep};
use crate::store::notes::{Note, NoteChange, NoteKey};

/// The number of the form that is written. Another form has another number.
pub(super) const FORMAT: u8 = 2;

/// The number of the form in JSON, which is read only.
const JSON: u8 = 1;

/// The largest number of an open, and so the largest [epoch](super::Journal::epoch): 2²⁸ - 1.
///
/// A fencing token of 64 bits has the number above 36 bits that count grants. From number 2²⁷ on,
/// an exported [`Snapshot`](crate::Snapshot) cannot be loaded: its tokens leave too little room.
pub const LARGEST_EPOCH: u64 = (1 << (u64::BITS - FencingToken::COUNTER_BITS)) - 1;

/// The head of a stored document.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StoredHead {
    /// How often the document was opened.
    pub(super) opens: u64,
    /// The session of the first open. Later opens count from it.
    pub(super) first_session: u32,
    /// The number of the first block that the checkpoint does not have.
    pub(super) next_block: u64,
    /// The checksum of the last block that the checkpoint has, also if it is removed. So a replica
    /// finds that another block has its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_block: Option<Checksum>,
    /// The document of the checkpoint, without its nodes.
    pub(super) document: DocumentHead,
}

/// What one write adds to the log: the commits of consecutive versions, and the notes that were
/// made meanwhile.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogBlock {
    pub(super) commits: Vec<Arc<TransactionResult>>,
    /// Which of the commits are in the histories of their editors.
    #[serde(default)]
    pub(super) steps: Vec<HistoryStep>,
    pub(super) notes: Vec<NoteChange>,
}

impl LogBlock {
    /// The commits, as the log of a store has them.
    pub(super) fn records(&self) -> impl Iterator<Item = CommitRecord> {
        let mut steps = self.steps.iter().peekable();
        self.commits.iter().map(move |commit| {
            let step = steps.next_if(|(version, _)| *version == commit.version);
            CommitRecord::stored(Arc::clone(commit), step.cloned())
        })
    }

    /// Notes the tokens of its commits, and makes its changes of the notes.
    pub(super) fn note_in(&self, tokens: &mut Tokens, notes: &mut HashMap<NoteKey, Note>) {
        for commit in &self.commits {
            tokens.raise_lock(commit.fencing_token.get());
        }
        for change in self.notes.iter().cloned() {
            match change.into_parts() {
                (key, Some(note)) => drop(notes.insert(key, note)),
                (key, None) => drop(notes.remove(&key)),
            }
        }
    }

    /// The receipts among the notes, for a journal.
    pub(super) fn receipts(&self) -> impl Iterator<Item = WrittenReceipt> {
        self.notes.iter().filter_map(|note| match note {
            NoteChange::Kept(Note::Receipt(note)) => Some(note.written()),
            _ => None,
        })
    }
}

/// The checksum in the bytes of a part.
pub(super) type Checksum = [u8; 4];

/// Identifies a block by its number and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockId {
    pub(super) number: u64,
    /// How many bytes it has.
    pub(super) bytes: usize,
    pub(super) checksum: Checksum,
}

impl BlockId {
    pub(super) fn of(number: u64, bytes: &[u8]) -> Self {
        Self {
            number,
            bytes: bytes.len(),
            checksum: bytes
                .get(1..)
                .and_then(|it| it.first_chunk())
                .copied()
                .unwrap_or_default(),
        }
    }
}

/// The key of an entry of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Head,
    Node,
    Note,
}

pub(super) const HEAD: &str = "head";

pub(super) fn node_key(id: &NodeId) -> String {
    format!("node/{id}")
}

/// An entry of a checkpoint by its key; `None` for a removed one.
pub(super) type CheckpointEntry = (String, Option<Vec<u8>>);

pub(super) fn entry<T: Record>(
    key: String,
    value: Option<&T>,
) -> Result<CheckpointEntry, JournalError> {
    Ok((key, value.map(encode).transpose()?))
}

pub(super) fn note_key(key: &NoteKey) -> Result<String, JournalError> {
    let key = serde_json::to_string(key).map_err(JournalError::corrupt)?;
    Ok(format!("note/{key}"))
}

impl EntryKind {
    /// The kind of an entry with this key.
    pub(super) fn of(key: &str) -> Option<Self> {
        match key.split_once('/') {
            None => (key == HEAD).then_some(Self::Head),
            Some(("node", _)) => Some(Self::Node),
            Some(("note", _)) => Some(Self::Note),
            Some(_) => None,
        }
    }
}

impl StoredHead {
    /// Counts one more open, which has the epoch of its journal or the next number. Returns its
    /// session: a new one, of which no node has an id.
    pub(super) fn count_open(
        &mut self,
        epoch: Option<u64>,
        has_nodes: impl Fn(u32) -> bool,
    ) -> Result<u32, OpenError> {
        // Odd, so 2³² opens have different sessions; large, so other stores of the process, whose
        // sessions are consecutive, have others.
        const STEP: u32 = 0x9E37_79B9;
        let mut number = epoch.unwrap_or_default();
        loop {
            number = number.max(self.opens.saturating_add(1));
            if number > LARGEST_EPOCH {
                return Err(OpenError::EpochTooLarge {
                    epoch: number,
                    largest: LARGEST_EPOCH,
                });
            }
            self.opens = number;
            let steps = STEP.wrapping_mul(self.opens as u32);
            let session = self.first_session.wrapping_add(steps);
            if session != 0 && !has_nodes(session) {
                return Ok(session);
            }
        }
    }
}

/// Why stored bytes cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// They have a later format.
    Newer(u8),
    Corrupt(JournalError),
}

impl Unreadable {
    pub(super) fn corrupt(message: impl std::fmt::Display) -> Self {
        Self::Corrupt(JournalError::corrupt(message))
    }

    /// Names the part that cannot be read.
    pub(super) fn of(self, part: StoredPart<'_>) -> Self {
        let Self::Corrupt(JournalError { message, .. }) = self else {
            return self;
        };
        Self::corrupt(match part {
            StoredPart::Entry { key, .. } => format!("entry {:?}: {message}", Brief(key)),
            StoredPart::Block { number, .. } => format!("block {number}: {message}"),
        })
    }
}

fn checksum(format: u8, content: &[u8]) -> Checksum {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[format]);
    hasher.update(content);
    hasher.finalize().to_le_bytes()
}

/// How many bytes the format and the checksum take.
const HEAD_BYTES: usize = 1 + size_of::<Checksum>();

pub(super) fn encode<T: Record>(value: &T) -> Result<Vec<u8>, JournalError> {
    /// The record of a keystroke needs no more.
    const ROOM: usize = 128;
    let mut bytes = Vec::with_capacity(ROOM);
    bytes.extend([FORMAT, 0, 0, 0, 0]);
    let mut writer = RecordWriter::after(bytes);
    value.write(&mut writer).map_err(JournalError::corrupt)?;
    let mut bytes = writer.into_bytes();
    let sum = checksum(FORMAT, &bytes[HEAD_BYTES..]);
    bytes[1..HEAD_BYTES].copy_from_slice(&sum);
    Ok(bytes)
}

/// Something stored, as it is read.
pub(super) trait StoredForm: DeserializeOwned + Record {
    /// Checks what its type does not: that a store can continue all of its numbers.
    fn check(&self) -> Result<(), AssemblyError> {
        Ok(())
    }
}

impl StoredForm for Node {}

impl StoredForm for StoredHead {
    fn check(&self) -> Result<(), AssemblyError> {
        check_block(self.next_block)?;
        self.document.check(LARGEST_STORED)
    }
}

impl StoredForm for LogBlock {
    fn check(&self) -> Result<(), AssemblyError> {
        for commit in &self.commits {
            check_token(commit.fencing_token)?;
        }
        let kept = |note: &NoteChange| match note {
            NoteChange::Kept(note) => note.check(),
            NoteChange::Forgotten(_) => Ok(()),
        };
        self.notes.iter().try_for_each(kept)
    }
}

impl StoredForm for Note {
    fn check(&self) -> Result<(), AssemblyError> {
        match self {
            Self::Lease(note) => check_token(note.token),
            // Their numbers decide only which of them is forgotten first.
            Self::Receipt(_) | Self::Event(_) | Self::Watermark(_) => Ok(()),
        }
    }
}

/// The largest number that is read, more than can be imported: a store continues after those of its
/// import. Half of the tokens of the last open can follow.
const LARGEST_STORED: u64 = u64::MAX - (1 << (FencingToken::COUNTER_BITS - 1));

fn check_token(token: FencingToken) -> Result<(), AssemblyError> {
    check_room("token", token.get(), LARGEST_STORED)
}

/// Checks the number of a block. The first one has number 1.
pub(super) fn check_block(number: u64) -> Result<(), AssemblyError> {
    match number {
        0 => Err(AssemblyError::Zero {
            what: "number of a block",
        }),
        _ => check_room("number of a block", number, LARGEST_STORED),
    }
}

pub(super) fn decode<T: StoredForm>(bytes: &[u8]) -> Result<T, Unreadable> {
    let Some((&[format, ref sum @ ..], content)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        let message = format_args!("{} bytes are too few", bytes.len());
        return Err(Unreadable::corrupt(message));
    };
    if checksum(format, content) != *sum {
        return Err(Unreadable::corrupt("a checksum is wrong"));
    }
    let read: T = match format {
        JSON => serde_json::from_slice(content).map_err(Unreadable::corrupt)?,
        FORMAT => read(content).map_err(Unreadable::corrupt)?,
        _ => return Err(Unreadable::Newer(format)),
    };
    read.check().map_err(Unreadable::corrupt)?;
    Ok(read)
}

/// Reads a value in the binary form.
fn read<T: Record>(content: &[u8]) -> Result<T, minicbor::decode::Error> {
    let mut reader = RecordReader::new(content);
    let value = T::read(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

#[cfg(all(test, not(loom)))]
#[path = "../../../tests/unit/durable_format.rs"]
mod tests;
