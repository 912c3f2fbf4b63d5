//! A stored document, as it is read: its checkpoint, the later commits, and the log.

use std::collections::HashMap;
use std::fmt;

use super::form::{Block, EntryKind, StoredHead, Unreadable, decode};
use super::writer::SinceCheckpoint;
use super::{JournalError, OpenError, OpenProgress, StoredPart};
use crate::brief::Brief;
use crate::document::{NodeTable, Snapshot, Tokens};
use crate::id::{FencingToken, random_session};
use crate::store::TransactionResult;
use crate::store::log::Records;
use crate::store::notes::{Note, NoteKey};

/// How far the tokens and lock ids of an open are above those of the one before, in bits.
pub(super) const TOKENS_OF_AN_OPEN: u32 = FencingToken::COUNTER_BITS;

/// The parts of a document, as they are loaded.
#[derive(Default)]
pub(super) struct Loaded {
    head: Option<StoredHead>,
    nodes: NodeTable,
    notes: HashMap<NoteKey, Note>,
    /// The numbers and sizes of the blocks that the checkpoint has.
    kept: Vec<(u64, usize)>,
    /// The blocks after the checkpoint, with their numbers and sizes.
    blocks: Vec<(u64, usize, Block)>,
    log: StoredLog,
}

/// The commits of the stored blocks.
#[derive(Default)]
pub(super) struct StoredLog {
    last: Option<u64>,
    /// The latest ones, as many as the store keeps.
    pub(super) records: Records,
    /// How many bytes the store keeps.
    limit: usize,
}

impl StoredLog {
    /// Adds the commits of a block, which follow those before.
    fn add(&mut self, block: &Block) -> Result<(), JournalError> {
        for commit in &block.commits {
            let (version, last) = (commit.version, self.last.replace(commit.version));
            if last.is_some_and(|last| last.checked_add(1) != Some(version)) {
                let message = format_args!(
                    "version {version} follows version {}",
                    last.unwrap_or_default()
                );
                return Err(JournalError::corrupt(message));
            }
        }
        if self.limit > 0 {
            let records = block.records();
            records.for_each(|record| self.records.keep(record, self.limit));
        }
        Ok(())
    }
}

/// A document with its later commits repeated.
pub(super) struct Stored {
    pub(super) head: StoredHead,
    /// The document of the last version.
    pub(super) document: Snapshot,
    pub(super) tokens: Tokens,
    pub(super) notes: HashMap<NoteKey, Note>,
    pub(super) since: SinceCheckpoint,
    pub(super) log: StoredLog,
}

impl Loaded {
    /// Reads all parts, which `load` passes on, and the latest commits up to so many bytes.
    pub(super) fn read(
        kept_commits: usize,
        progress: &dyn Fn(OpenProgress),
        load: impl FnOnce(
            &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
        ) -> Result<(), JournalError>,
    ) -> Result<Self, OpenError> {
        let mut loaded = Self::default();
        loaded.log.limit = kept_commits;
        let mut unreadable = None;
        let stop = JournalError::corrupt("");
        let result = load(&mut |part| {
            loaded.add(part, progress).map_err(|error| {
                unreadable = Some(error);
                stop.clone()
            })
        });
        match (unreadable, result) {
            (Some(error), _) => Err(error.into()),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(())) => {
                progress(OpenProgress::Nodes(loaded.nodes.len()));
                Ok(loaded)
            }
        }
    }

    /// Whether no document is stored yet.
    pub(super) fn is_new(&self) -> bool {
        self.head.is_none()
    }

    fn add(
        &mut self,
        part: StoredPart<'_>,
        progress: &dyn Fn(OpenProgress),
    ) -> Result<(), Unreadable> {
        match part {
            StoredPart::Entry { key, bytes } => match EntryKind::of(key) {
                Some(EntryKind::Head) => self.head = Some(decode(bytes)?),
                Some(EntryKind::Node) => {
                    let inserted = self.nodes.insert(decode(bytes)?);
                    inserted.map_err(Unreadable::corrupt)?;
                    if self.nodes.len().is_multiple_of(1024) {
                        progress(OpenProgress::Nodes(self.nodes.len()));
                    }
                }
                Some(EntryKind::Note) => {
                    let note: Note = decode(bytes)?;
                    self.notes.insert(note.key(), note);
                }
                None => {
                    let message = format_args!("there is an unknown entry {:?}", Brief(key));
                    return Err(Unreadable::corrupt(message));
                }
            },
            StoredPart::Block { number, bytes } => {
                let block: Block = decode(bytes)?;
                let first = self.head.as_ref().map_or(0, |head| head.next_block);
                if number >= first {
                    self.blocks.push((number, bytes.len(), block));
                    return Ok(());
                }
                self.log.add(&block).map_err(Unreadable::Corrupt)?;
                self.kept.push((number, bytes.len()));
            }
        }
        Ok(())
    }
    /// Makes the document of the checkpoint, and its head; a new document begins with `beginning`.
    pub(super) fn assemble(
        &mut self,
        beginning: Snapshot,
    ) -> Result<(StoredHead, Snapshot), OpenError> {
        let nodes = std::mem::take(&mut self.nodes);
        match self.head.take() {
            Some(head) => {
                let document = Snapshot::assemble(head.document.clone(), nodes)?;
                Ok((head, document))
            }
            None if nodes.len() == 0 && self.notes.is_empty() && self.blocks.is_empty() => {
                let document = beginning.head();
                let head = StoredHead {
                    // Those of an imported document reach as far as its tokens.
                    opens: document.tokens.largest() >> TOKENS_OF_AN_OPEN,
                    first_session: random_session(),
                    next_block: 1,
                    document,
                };
                Ok((head, beginning))
            }
            None => Err(corrupt("the head is missing")),
        }
    }

    /// Repeats the commits after a checkpoint.
    pub(super) fn repeat(
        self,
        head: StoredHead,
        checkpoint: Snapshot,
        progress: &dyn Fn(OpenProgress),
    ) -> Result<Stored, OpenError> {
        let Self {
            mut notes,
            kept,
            blocks,
            mut log,
            ..
        } = self;
        let mut document = checkpoint;
        let mut tokens = head.document.tokens;
        let mut since = SinceCheckpoint::new(head.next_block);
        notes.values().for_each(|note| since.note_stored(note));
        if let Some(last) = log.last
            && last != document.version()
        {
            return Err(corrupt(format_args!(
                "the kept blocks end with version {last}, and the checkpoint has version {}",
                document.version()
            )));
        }
        for (number, bytes) in kept {
            since.note_kept(number, bytes);
        }
        let mut repeated = 0;
        for (number, bytes, block) in blocks {
            if number != since.next_block() {
                return Err(corrupt(format_args!(
                    "block {} is missing: block {number} follows",
                    since.next_block()
                )));
            }
            for commit in &block.commits {
                repeat(&mut document, commit)?;
                tokens.note(commit.fencing_token.get());
                repeated += 1;
                if repeated % 1024 == 0 {
                    progress(OpenProgress::Commits(repeated));
                }
            }
            for change in block.notes.iter().cloned() {
                match change.into_parts() {
                    (key, Some(note)) => drop(notes.insert(key, note)),
                    (key, None) => drop(notes.remove(&key)),
                }
            }
            log.add(&block)?;
            since.note(&block.commits, block.notes, bytes);
        }
        progress(OpenProgress::Commits(repeated));
        for note in notes.values() {
            if let Note::Receipt(note) = note
                && note.receipt.result.version > document.version()
            {
                // A repetition would wait for that version.
                let key = Brief(&note.key);
                return Err(corrupt(format_args!(
                    "the receipt of key {key:?} is of a later version than the document"
                )));
            }
        }
        Ok(Stored {
            head,
            document,
            tokens,
            notes,
            since,
            log,
        })
    }
}

pub(super) fn corrupt(message: impl fmt::Display) -> OpenError {
    OpenError::Corrupt(JournalError::corrupt(message))
}

/// Repeats a commit, through the checks of each change.
pub(super) fn repeat(snapshot: &mut Snapshot, commit: &TransactionResult) -> Result<(), OpenError> {
    let (version, next) = (commit.version, snapshot.version() + 1);
    if version != next {
        return Err(corrupt(format_args!(
            "the commit of version {next} is missing: version {version} follows"
        )));
    }
    snapshot.repeat(&commit.changes).map_err(|error| {
        corrupt(format_args!(
            "the commit of version {version} cannot be repeated: {error}"
        ))
    })
}
