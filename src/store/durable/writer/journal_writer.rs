//! Writes to the journal: blocks of commits, and checkpoints.

use super::serve::panicked;
use super::{CloseReport, SharedWriter, SinceCheckpoint, WriterStart};
use crate::caught::catch;
use crate::document::Snapshot;
use crate::store::durable::format::{BlockId, Checksum, HEAD, LogBlock, StoredHead, encode, entry};
use crate::store::durable::{Journal, JournalError, JournalWrite};
use crate::store::log::{JournalReader, UnwrittenCommits};
use crate::sync::yield_now;

/// The journal, with what its next write depends on. One thread at a time has it.
pub(super) struct JournalWriter {
    journal: Box<dyn Journal>,
    reads_receipts: bool,
    commits: JournalReader,
    head: StoredHead,
    since: SinceCheckpoint,
    /// The checksum of the last block.
    last_block: Option<Checksum>,
    /// The document of the last block.
    document: Snapshot,
    checkpoint_after: usize,
    kept_log: usize,
    /// How many calls were answered since the thread last let them commit.
    answered: u64,
    pub(super) report: CloseReport,
}

/// From so many entries on a checkpoint is written, because commits wait for it.
const MOST_ENTRIES: usize = 1024;

impl JournalWriter {
    pub(super) fn new(start: WriterStart, commits: JournalReader) -> Self {
        let WriterStart {
            journal,
            head,
            since,
            last_block,
            checkpoint_after,
            kept_log,
            ..
        } = start;
        let (_, document) = commits.read();
        Self {
            // One that panics may read them.
            reads_receipts: catch(|| journal.reads_receipts()).unwrap_or(true),
            journal,
            commits,
            head,
            since,
            last_block,
            document,
            checkpoint_after,
            kept_log,
            answered: 0,
            report: CloseReport::default(),
        }
    }

    /// Writes all commits and a last checkpoint, if it changes anything. No more commits come.
    pub(super) fn close(&mut self, shared: &SharedWriter) -> Result<(), JournalError> {
        self.write_all(shared)?;
        if self.since.changes(self.kept_log) {
            self.checkpoint()?;
        }
        catch(|| self.journal.close()).unwrap_or_else(|panic| Err(panicked(panic.message())))
    }

    /// Writes until there is nothing to write.
    pub(super) fn write_all(&mut self, shared: &SharedWriter) -> Result<(), JournalError> {
        loop {
            shared.set_sleeping(false);
            self.checkpoint_if_due()?;
            while self.write_new(shared)? {
                self.checkpoint_if_due()?;
                self.let_others_commit();
            }
            shared.set_sleeping(true);
            // A commit since then calls the thread.
            if !self.write_new(shared)? {
                self.commits.free_unneeded();
                return Ok(());
            }
        }
    }

    /// Writes all commits and notes that there are, in one step. Returns whether there were any.
    pub(super) fn write_new(&mut self, shared: &SharedWriter) -> Result<bool, JournalError> {
        let (UnwrittenCommits { commits, steps }, document) = self.commits.read();
        let (notes, noted) = shared.take_notes(document.version());
        let count = commits.len() as u64;
        let block = LogBlock {
            commits,
            steps,
            notes,
        };
        if block.commits.is_empty() && block.notes.is_empty() {
            return Ok(false);
        }
        let bytes = encode(&block)?;
        let id = BlockId::of(self.since.next_block(), &bytes);
        let receipts = match self.reads_receipts {
            true => block.receipts().collect(),
            false => Vec::new(),
        };
        self.write(&JournalWrite {
            block: Some((id.number, bytes)),
            version: document.version(),
            receipts,
            ..JournalWrite::default()
        })?;
        self.report.commits += count;
        self.report.writes += u64::from(count > 0);
        self.answered += shared.advance(document.clone(), noted);
        let LogBlock { commits, notes, .. } = block;
        self.since.add_block(&commits, notes, id.bytes);
        self.last_block = Some(id.checksum);
        // The log has them until they are durable, so this thread frees none of them.
        drop(commits);
        self.commits.note_durable(document.version());
        self.document = document;
        Ok(true)
    }

    /// Lets the threads run that the last write has answered, as long as they commit: so the next
    /// write has their next commits too.
    fn let_others_commit(&mut self) {
        /// So many looks find no further commit before the next write begins.
        const LOOKS: u32 = 128;
        let answered = std::mem::take(&mut self.answered);
        let (first, mut newest) = (self.document.version(), self.document.version());
        let mut looks = 0;
        while looks < LOOKS && newest < first + answered {
            yield_now();
            let before = std::mem::replace(&mut newest, self.commits.newest());
            looks = if newest > before { 0 } else { looks + 1 };
        }
    }

    /// Whether a checkpoint is to be written.
    pub(super) fn is_due(&self) -> bool {
        self.since.bytes > self.checkpoint_after || self.since.entries() > MOST_ENTRIES
    }

    fn checkpoint_if_due(&mut self) -> Result<(), JournalError> {
        if self.is_due() {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Writes what was touched since the last checkpoint, and removes the blocks that this makes
    /// unnecessary.
    fn checkpoint(&mut self) -> Result<(), JournalError> {
        self.head.document = self.document.head();
        self.head.next_block = self.since.next_block();
        self.head.last_block = self.last_block;
        let (mut entries, removed_through) =
            self.since.checkpoint(&self.document, self.kept_log)?;
        entries.push(entry(HEAD.to_owned(), Some(&self.head))?);
        self.write(&JournalWrite {
            entries,
            removed_through,
            version: self.document.version(),
            ..JournalWrite::default()
        })?;
        self.since.begin_anew(removed_through);
        self.report.checkpoints += 1;
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        catch(|| self.journal.write(write)).unwrap_or_else(|panic| Err(panicked(panic.message())))
    }
}
