//! What the next checkpoint has to write, and which blocks it makes unnecessary.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::document::{Snapshot, View};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::store::TransactionResult;
use crate::store::durable::JournalError;
use crate::store::durable::format::{CheckpointEntry, entry, node_key, note_key};
use crate::store::notes::{Note, NoteChange, NoteKey};

type NodeIdSet = HashSet<NodeId, Secret>;

/// What was written to the log since the last checkpoint.
pub(in crate::store::durable) struct SinceCheckpoint {
    /// The nodes that were touched.
    nodes: NodeIdSet,
    /// Nodes whose children may have got another parent.
    parents: NodeIdSet,
    /// The notes that were changed.
    notes: HashMap<NoteKey, Option<Note>, Secret>,
    next_block: u64,
    /// The size of the blocks.
    pub(super) bytes: usize,
    /// The numbers and sizes of the blocks before, which are kept.
    kept: VecDeque<(u64, usize)>,
    /// The numbers and sizes of the blocks since.
    blocks: VecDeque<(u64, usize)>,
}

impl SinceCheckpoint {
    /// Nothing yet. The next block has this number.
    pub(in crate::store::durable) fn new(next_block: u64) -> Self {
        Self {
            nodes: HashSet::default(),
            parents: HashSet::default(),
            notes: HashMap::default(),
            next_block,
            bytes: 0,
            kept: VecDeque::new(),
            blocks: VecDeque::new(),
        }
    }

    /// The number of the next block.
    pub(in crate::store::durable) fn next_block(&self) -> u64 {
        self.next_block
    }

    /// Adds a block that the checkpoint has, and that is kept.
    pub(in crate::store::durable) fn add_kept_block(&mut self, number: u64, bytes: usize) {
        self.kept.push_back((number, bytes));
    }

    /// Adds the next block.
    pub(in crate::store::durable) fn add_block(
        &mut self,
        commits: &[Arc<TransactionResult>],
        notes: Vec<NoteChange>,
        bytes: usize,
    ) {
        let Self { nodes, parents, .. } = self;
        let add = |set: &mut NodeIdSet, id: &NodeId| {
            if !set.contains(id) {
                set.insert(id.clone());
            }
        };
        for change in commits.iter().flat_map(|commit| commit.changes.iter()) {
            change.each_stored_node(|id| add(nodes, id), |id| add(parents, id));
        }
        self.notes
            .extend(notes.into_iter().map(NoteChange::into_parts));
        self.blocks.push_back((self.next_block, bytes));
        self.next_block += 1;
        self.bytes += bytes;
    }

    /// Notes that these notes are forgotten.
    pub(in crate::store::durable) fn forget(&mut self, keys: Vec<NoteKey>) {
        let forgotten = keys.into_iter().map(|key| (key, None));
        self.notes.extend(forgotten);
    }

    /// How many entries a checkpoint would write, about.
    pub(super) fn entries(&self) -> usize {
        self.nodes.len() + self.notes.len()
    }

    /// Whether a checkpoint that keeps so many bytes of blocks would change anything.
    pub(super) fn changes(&self, kept: usize) -> bool {
        let before: usize = self.kept.iter().map(|(_, bytes)| bytes).sum();
        !self.blocks.is_empty() || self.entries() > 0 || before > kept
    }

    /// The entries of the checkpoint of a document, and the blocks that it removes, so that so many
    /// bytes of them are kept.
    pub(super) fn checkpoint(
        &mut self,
        document: &Snapshot,
        kept: usize,
    ) -> Result<(Vec<CheckpointEntry>, Option<u64>), JournalError> {
        let mut entries = Vec::with_capacity(self.entries());
        let children = self.parents.iter().flat_map(|id| document.children(id));
        let children = children.map(|child| child.id());
        let touched: HashSet<&NodeId, Secret> = children.chain(&self.nodes).collect();
        for id in touched {
            entries.push(entry(node_key(id), document.node(id))?);
        }
        // A lease that has ended leaves the file when the store forgets it. The calendar does not
        // decide that here: it may be ahead for a while.
        for (key, note) in &self.notes {
            entries.push(entry(note_key(key)?, note.as_ref())?);
        }
        let mut bytes = self.bytes + self.kept.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let mut removed = None;
        for (number, size) in self.kept.iter().chain(&self.blocks) {
            if bytes <= kept {
                break;
            }
            bytes -= size;
            removed = Some(*number);
        }
        Ok((entries, removed))
    }

    /// Begins anew, after a checkpoint that removed these blocks.
    pub(super) fn begin_anew(&mut self, removed: Option<u64>) {
        self.nodes.clear();
        self.parents.clear();
        self.notes.clear();
        self.kept.append(&mut self.blocks);
        self.kept
            .retain(|(number, _)| removed.is_none_or(|removed| *number > removed));
        self.bytes = 0;
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/durable_writer_since_checkpoint.rs"]
mod tests;
