//! Replays a stored document: reads the parts of its checkpoint and its blocks, assembles the
//! checkpoint, and repeats the later commits.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem;
use std::thread;

use doclock_common::helper::Helper;
use doclock_common::pairs::Pairs;

use super::format::{
    BlockId, Checksum, EntryKind, HEAD, LogBlock, StoredHead, Unreadable, check_block, decode,
    note_key,
};
use super::unloaded::{LoadAfter, NodeIdSet};
use super::writer::SinceCheckpoint;
use super::{JournalError, OpenError, OpenProgress, StoredPart};
use crate::brief::Brief;
use crate::document::{Node, NodeTable, Snapshot, Tokens};
use crate::id::{FencingToken, NodeId, random_session};
use crate::steps::step;
use crate::store::TransactionResult;
use crate::store::log::CommitRecords;
use crate::store::notes::{Note, NoteKey};

/// So many bytes of nodes are decoded together, in a second thread if there are more of them.
const TOGETHER: usize = 128 << 10;

/// How far the tokens and lock ids of an open are above those of the one before, in bits.
pub(super) const TOKENS_OF_AN_OPEN: u32 = FencingToken::COUNTER_BITS;

/// The parts of a document, as they are loaded.
#[derive(Default)]
pub(super) struct LoadedParts {
    has_head: bool,
    head: Option<StoredHead>,
    nodes: NodeTable,
    notes: HashMap<NoteKey, Note>,
    /// The numbers and sizes of the blocks that the checkpoint has.
    kept: Vec<(u64, usize)>,
    /// The blocks after the checkpoint.
    blocks: Vec<(BlockId, LogBlock)>,
    log: StoredLog,
}

/// The commits of the stored blocks.
#[derive(Default)]
pub(super) struct StoredLog {
    last: Option<u64>,
    /// The latest ones, as many as the store keeps.
    pub(super) records: CommitRecords,
    /// How many bytes the store keeps.
    limit: usize,
}

impl StoredLog {
    /// Adds the commits of a block, which follow those before.
    fn add(&mut self, block: &LogBlock) -> Result<(), JournalError> {
        for commit in &block.commits {
            let (version, last) = (commit.version, self.last.replace(commit.version));
            if version == 0 {
                return Err(JournalError::corrupt("a commit has version 0"));
            }
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
pub(super) struct StoredDocument {
    /// Whether no document is stored yet.
    pub(super) is_new: bool,
    pub(super) head: StoredHead,
    /// The document of the last version.
    pub(super) document: Snapshot,
    pub(super) tokens: Tokens,
    pub(super) notes: HashMap<NoteKey, Note>,
    pub(super) log: StoredLog,
    /// The numbers and sizes of the blocks that the checkpoint has.
    kept: VecDeque<(u64, usize)>,
    /// The blocks after the checkpoint.
    blocks: VecDeque<(BlockId, LogBlock)>,
}

impl LoadedParts {
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
        let mut noted = |added: Result<(), Unreadable>| {
            added.map_err(|error| {
                unreadable = Some(error);
                JournalError::corrupt("")
            })
        };
        let result = thread::scope(|scope| {
            let mut stored = Pairs::default();
            let mut helper = Helper::new(scope, decode_nodes);
            load(&mut |part| {
                noted(match part {
                    StoredPart::Entry { key, bytes } if is_node(key) => {
                        stored.add(key, bytes);
                        let full = (stored.bytes() >= TOGETHER).then(|| mem::take(&mut stored));
                        let decoded = full.and_then(|full| helper.add(full));
                        decoded.map_or(Ok(()), |nodes| loaded.insert(nodes, progress))
                    }
                    part => loaded.add(part).map_err(|error| error.of(part)),
                })
            })?;
            let last = helper.add(stored);
            let mut rest = last.into_iter().chain(helper.finish());
            rest.try_for_each(|nodes| noted(loaded.insert(nodes, progress)))
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

    /// Reads the head, and the blocks after the checkpoint.
    pub(super) fn read_log(load_after: &mut LoadAfter<'_>) -> Result<Self, OpenError> {
        let mut loaded = Self::default();
        let mut read = |block: u64| {
            let mut unreadable = None;
            let result = load_after(block, HEAD, &mut |part| {
                loaded.add(part).map_err(|error| {
                    unreadable = Some(error.of(part));
                    JournalError::corrupt("")
                })
            });
            match unreadable {
                Some(error) => Err(OpenError::from(error)),
                None => Ok(result.map(|()| loaded.head.as_ref().map(|head| head.next_block))?),
            }
        };
        if let Some(next) = read(u64::MAX)? {
            read(next - 1)?;
        }
        Ok(loaded)
    }

    /// Repeats the commits after the checkpoint on the nodes that they touch, which `node` reads of
    /// it. Returns these nodes, and the ids of all touched ones. `None` if no document is stored.
    pub(super) fn replay_touched(
        mut self,
        node: impl FnMut(&NodeId) -> Result<Option<Node>, OpenError>,
    ) -> Result<Option<(Snapshot, NodeIdSet)>, OpenError> {
        let Some(head) = self.head.take() else {
            return Ok(None);
        };
        let commits = self.blocks.iter().flat_map(|(_, block)| &block.commits);
        let changes = commits.flat_map(|commit| commit.changes.iter());
        let (touched, ids) = Snapshot::assemble_touched(head.document.clone(), changes, node)?;
        let stored = self.replay(head, touched, &|_| {})?;
        Ok(Some((stored.document, ids)))
    }

    /// Whether no document is stored yet.
    pub(super) fn is_new(&self) -> bool {
        !self.has_head
    }

    fn insert(
        &mut self,
        nodes: Result<Vec<Node>, Unreadable>,
        progress: &dyn Fn(OpenProgress),
    ) -> Result<(), Unreadable> {
        for node in nodes? {
            self.nodes.insert(node).map_err(Unreadable::corrupt)?;
            if self.nodes.len().is_multiple_of(1024) {
                progress(OpenProgress::Nodes(self.nodes.len()));
            }
        }
        Ok(())
    }

    /// Adds a part that is no node.
    fn add(&mut self, part: StoredPart<'_>) -> Result<(), Unreadable> {
        match part {
            StoredPart::Entry { key, bytes } => match EntryKind::of(key) {
                Some(EntryKind::Head) => {
                    self.head = Some(decode(bytes)?);
                    self.has_head = true;
                }
                Some(EntryKind::Note) => {
                    let note: Note = decode(bytes)?;
                    let own = note_key(&note.key()).map_err(Unreadable::Corrupt)?;
                    check_key(own == key)?;
                    self.notes.insert(note.key(), note);
                }
                Some(EntryKind::Node) | None => {
                    return Err(Unreadable::corrupt("its key is unknown"));
                }
            },
            StoredPart::Block { number, bytes } => {
                let (id, block) = (BlockId::of(number, bytes), decode::<LogBlock>(bytes)?);
                check_block(number).map_err(Unreadable::corrupt)?;
                let first = self.head.as_ref().map_or(0, |head| head.next_block);
                if number >= first {
                    self.blocks.push((id, block));
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
        let nodes = mem::take(&mut self.nodes);
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
                    last_block: None,
                    document,
                };
                Ok((head, beginning))
            }
            None => Err(corrupt("the head is missing")),
        }
    }

    /// Repeats the commits after a checkpoint.
    pub(super) fn replay(
        self,
        head: StoredHead,
        checkpoint: Snapshot,
        progress: &dyn Fn(OpenProgress),
    ) -> Result<StoredDocument, OpenError> {
        if let Some(last) = self.log.last
            && last != checkpoint.version()
        {
            return Err(corrupt(format_args!(
                "the kept blocks end with version {last}, and the checkpoint has version {}",
                checkpoint.version()
            )));
        }
        let mut stored = StoredDocument {
            is_new: self.is_new(),
            document: checkpoint,
            tokens: head.document.tokens,
            notes: self.notes,
            log: self.log,
            kept: self.kept.into(),
            blocks: VecDeque::with_capacity(self.blocks.len()),
            head,
        };
        let mut repeated = 0;
        for (id, block) in self.blocks {
            stored.replay_block(id.number, &block, || {
                repeated += 1;
                if repeated % 1024 == 0 {
                    progress(OpenProgress::Commits(repeated));
                }
            })?;
            stored.add(id, block)?;
        }
        progress(OpenProgress::Commits(repeated));
        for note in stored.notes.values() {
            check_receipt(note, stored.document.version())?;
        }
        Ok(stored)
    }
}

impl StoredDocument {
    /// The number of the next block.
    pub(super) fn next_block(&self) -> u64 {
        match self.blocks.back() {
            Some((id, _)) => id.number.saturating_add(1),
            None => self.head.next_block,
        }
    }

    /// The checksum of the last block.
    pub(super) fn last_block(&self) -> Option<Checksum> {
        match self.blocks.back() {
            Some((id, _)) => Some(id.checksum),
            None => self.head.last_block,
        }
    }

    /// The checksum of a block that the document has, unless it is before the last one of the
    /// checkpoint.
    pub(super) fn checksum(&self, number: u64) -> Option<Checksum> {
        if number.checked_add(1) == Some(self.head.next_block) {
            return self.head.last_block;
        }
        let at = self.blocks.partition_point(|(id, _)| id.number < number);
        let (id, _) = self.blocks.get(at)?;
        (id.number == number).then_some(id.checksum)
    }

    /// How many blocks there are after the checkpoint.
    pub(super) fn blocks_since(&self) -> usize {
        self.blocks.len()
    }

    /// Repeats the commits of the next block, and calls `repeated` after each. After an error the
    /// document has a part of them.
    pub(super) fn replay_block(
        &mut self,
        number: u64,
        block: &LogBlock,
        mut repeated: impl FnMut(),
    ) -> Result<(), OpenError> {
        let next = self.next_block();
        if number != next {
            return Err(corrupt(format_args!(
                "block {next} is missing: block {number} follows"
            )));
        }
        for commit in &block.commits {
            replay_commit(&mut self.document, commit)?;
            repeated();
        }
        Ok(())
    }

    /// Adds a block whose commits were repeated.
    pub(super) fn add(&mut self, id: BlockId, block: LogBlock) -> Result<(), JournalError> {
        // First, because it can fail.
        self.log.add(&block)?;
        block.note_in(&mut self.tokens, &mut self.notes);
        self.blocks.push_back((id, block));
        Ok(())
    }

    /// The version that the document had before a block, from that of the checkpoint on.
    pub(super) fn version_before(&self, number: u64) -> u64 {
        let later = self.blocks.iter().rev();
        let later = later.take_while(|(id, _)| id.number >= number);
        let commits = later.map(|(_, block)| block.commits.len() as u64);
        self.document.version() - commits.sum::<u64>()
    }

    /// Continues after a later checkpoint, which has blocks that were added. Of the blocks before
    /// it, so many bytes stay apart, and the older ones count as one.
    pub(super) fn continue_after_checkpoint(&mut self, head: StoredHead, apart: usize) {
        let Self { kept, blocks, .. } = self;
        let until = blocks.partition_point(|(id, _)| id.number < head.next_block);
        let checkpointed = blocks.drain(..until);
        kept.extend(checkpointed.map(|(id, _)| (id.number, id.bytes)));
        let mut newest = 0_usize;
        let is_old = |(_, bytes): &(u64, usize)| {
            newest = newest.saturating_add(*bytes);
            newest > apart
        };
        let old = kept.iter().rev().position(is_old);
        if let Some(old) = old {
            let old = kept.drain(..kept.len() - old);
            let merged =
                old.reduce(|(_, sum), (number, bytes)| (number, sum.saturating_add(bytes)));
            merged
                .into_iter()
                .for_each(|merged| kept.push_front(merged));
        }
        let Tokens { lock, lease, claim } = &mut self.tokens;
        let later = &head.document.tokens;
        *lock = later.lock.max(*lock);
        *lease = later.lease.max(*lease);
        *claim = later.claim.max(*claim);
        self.head = head;
    }

    /// What the next checkpoint has to write.
    pub(super) fn since_checkpoint(&mut self) -> SinceCheckpoint {
        let mut since = SinceCheckpoint::new(self.head.next_block);
        for (number, bytes) in mem::take(&mut self.kept) {
            since.add_kept_block(number, bytes);
        }
        for (id, block) in mem::take(&mut self.blocks) {
            since.add_block(&block.commits, block.notes, id.bytes);
        }
        since
    }
}

/// Decodes nodes of a checkpoint by their keys.
fn decode_nodes(stored: Pairs) -> Result<Vec<Node>, Unreadable> {
    let decoded = stored.iter().map(|(key, bytes)| decode_node(key, bytes));
    decoded.collect()
}

pub(super) fn decode_node(key: &str, bytes: &[u8]) -> Result<Node, Unreadable> {
    step();
    let decoded = decode(bytes).and_then(|node: Node| {
        check_key(is_key_of_node(key, &node))?;
        Ok(node)
    });
    decoded.map_err(|error| error.of(StoredPart::Entry { key, bytes }))
}

/// Whether an entry with this key is a node.
fn is_node(key: &str) -> bool {
    EntryKind::of(key) == Some(EntryKind::Node)
}

/// Whether the key of an entry is that of its node.
fn is_key_of_node(key: &str, node: &Node) -> bool {
    let id = key.split_once('/').and_then(|(_, id)| id.parse().ok());
    id.is_some_and(|id: NodeId| id == *node.id())
}

/// Checks the key of an entry. A checkpoint would leave an entry under another key as it is.
fn check_key(is_own: bool) -> Result<(), Unreadable> {
    let message = "it has the value of another key";
    is_own
        .then_some(())
        .ok_or_else(|| Unreadable::corrupt(message))
}

/// Checks that a note is no receipt of a later version than the document. A repetition would wait
/// for that version.
pub(super) fn check_receipt(note: &Note, version: u64) -> Result<(), OpenError> {
    match note {
        Note::Receipt(note) if note.receipt.result.version > version => {
            let key = Brief(&note.key);
            Err(corrupt(format_args!(
                "the receipt of key {key:?} is of a later version than the document"
            )))
        }
        _ => Ok(()),
    }
}

pub(super) fn corrupt(message: impl fmt::Display) -> OpenError {
    OpenError::Corrupt(JournalError::corrupt(message))
}

/// Repeats a commit, through the checks of each change.
pub(super) fn replay_commit(
    snapshot: &mut Snapshot,
    commit: &TransactionResult,
) -> Result<(), OpenError> {
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
