//! A copy of a durable document that follows the journal of its owner.

mod error;

use std::fmt;
use std::sync::Arc;

pub use error::{ReplicaError, TakeoverError};

use super::format::{BlockId, HEAD, LogBlock, StoredHead, Unreadable, decode};
use super::open::{NumberedOpen, guarded, load, open_unguarded};
use super::replay::{StoredDocument, check_receipt};
use super::unloaded::BeforeLoad;
use super::{DurableOptions, Journal, JournalError, OpenError, StoredPart};
use crate::caught::catch;
use crate::document::Snapshot;
use crate::store::notes::NoteChange;
use crate::store::{DataStore, TransactionResult};

/// A copy of a durable document that follows the journal of its owner, for example on another
/// machine.
///
/// A replica is loaded from the journal once. Then it applies the blocks that the owner writes,
/// through the same checks as an open. It only reads: it is no store, and takes no locks. When its
/// process becomes the owner, it [continues as a store](Self::into_store) without loading again.
///
/// The blocks reach it in one of two ways:
///
/// - The program reads them, and calls [`apply`](Self::apply) with each. The number of
///   [`last_block`](Self::last_block) tells where to go on.
/// - [`catch_up`](Self::catch_up) reads them from the journal.
///
/// A replica keeps the blocks since the last checkpoint that it knows, as the next owner needs
/// them. Only `catch_up` learns of later checkpoints, so a program should call it now and then.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
///
/// use doclock::durable::{
///     DurableOptions, Journal, JournalError, JournalWrite, Replica, StoredPart,
/// };
/// use doclock::{DataStore, TransactionManager, View, dsl::*};
///
/// /// A journal that two processes could share.
/// #[derive(Clone, Default)]
/// struct Shared(Arc<Mutex<(BTreeMap<String, Vec<u8>>, BTreeMap<u64, Vec<u8>>)>>);
///
/// impl Journal for Shared {
///     fn load(
///         &mut self,
///         part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
///     ) -> Result<(), JournalError> {
///         let (entries, blocks) = &*self.0.lock().unwrap();
///         for (key, bytes) in entries {
///             part(StoredPart::Entry { key, bytes })?;
///         }
///         for (&number, bytes) in blocks {
///             part(StoredPart::Block { number, bytes })?;
///         }
///         Ok(())
///     }
///
///     fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
///         let (entries, blocks) = &mut *self.0.lock().unwrap();
///         for (key, entry) in write.entries.clone() {
///             match entry {
///                 Some(entry) => entries.insert(key, entry),
///                 None => entries.remove(&key),
///             };
///         }
///         blocks.extend(write.block.clone());
///         let removed = write.removed_through;
///         blocks.retain(|number, _| removed.is_none_or(|removed| *number > removed));
///         Ok(())
///     }
/// }
///
/// let mut journal = Shared::default();
/// let options = DurableOptions::new();
/// let owner = DataStore::open_journal(journal.clone(), options.clone())?;
///
/// // In another process.
/// let mut replica = Replica::load(&mut journal, &options)?;
/// assert_eq!((replica.version(), replica.last_block()), (0, None));
///
/// let manager = TransactionManager::new(owner.clone());
/// manager.execute(create(text_node("paragraph", "one").with_id("p")))?;
/// replica.catch_up(&mut journal, |applied| {
///     assert_eq!(applied.commits[0].version, 1);
/// })?;
/// assert_eq!(replica.snapshot().node("p").unwrap().text(), &"one");
///
/// // The owner ends, and the other process goes on.
/// drop((owner, manager));
/// let store = replica.into_store(journal, options)?;
/// let manager = TransactionManager::new(store.clone());
/// manager.execute(set_text("two").on("p"))?;
/// assert_eq!(store.durable_snapshot().map(|it| it.version()), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replica {
    stored: StoredDocument,
    options: DurableOptions,
}

/// A block that [`Replica::apply`] was called with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppliedBlock {
    /// The number of the block.
    pub number: u64,
    /// Whether the replica had the block already, so that nothing was done.
    pub skipped: bool,
    /// The version of the replica after it.
    pub version: u64,
    /// The commits that were applied, in order. Empty for a block that was skipped, or that records
    /// something else: a lease, or the receipt of a transaction without changes.
    pub commits: Vec<Arc<TransactionResult>>,
}

impl Replica {
    /// Loads what a journal has stored, and writes nothing.
    ///
    /// Blocks until all parts are read and checked as by an open. If no document is stored yet, the
    /// replica [is new](Self::is_new). The options that matter are [`progress`], [`keep_log`] and
    /// [`kept_commits`]: with these two, the latest commits are kept for the store that the replica
    /// may become.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    ///
    /// [`progress`]: DurableOptions::progress
    /// [`keep_log`]: DurableOptions::keep_log
    /// [`kept_commits`]: crate::StoreOptions::kept_commits
    pub fn load(journal: &mut dyn Journal, options: &DurableOptions) -> Result<Self, OpenError> {
        let mut options = options.clone();
        options.document = None;
        let stored = guarded(Arc::clone(&options.progress), |progress| {
            let options = DurableOptions {
                progress,
                ..options.clone()
            };
            load(journal, &options, None)
        })?;
        Ok(Self { stored, options })
    }

    /// Returns whether no document was stored when the replica was loaded. Such a replica applies
    /// no blocks: [`catch_up`](Self::catch_up) or [`load`](Self::load) find out whether there is a
    /// document now.
    pub fn is_new(&self) -> bool {
        self.stored.is_new
    }

    /// Returns the version of the document. Zero for a replica that [is new](Self::is_new).
    pub fn version(&self) -> u64 {
        self.stored.document.version()
    }

    /// Returns the document, after all commits of the last block that was applied. It names its
    /// version. Takes O(1), and the snapshot stays as it is.
    pub fn snapshot(&self) -> Snapshot {
        self.stored.document.clone()
    }

    /// Returns the number of the last block that was applied or loaded, which later blocks follow.
    /// `None` if there was none yet.
    pub fn last_block(&self) -> Option<u64> {
        let last = self.stored.next_block().saturating_sub(1);
        (last > 0).then_some(last)
    }

    /// Applies the next block: all of it or, after an error, nothing.
    ///
    /// A block that the replica has already is skipped.
    ///
    /// # Errors
    ///
    /// [`ReplicaError`]. With [`Damaged`](ReplicaError::Damaged) the block may be read again. With
    /// [`MissingBlock`](ReplicaError::MissingBlock) the blocks in between are applied first, or the
    /// replica is loaded again if the journal no longer has them.
    pub fn apply(&mut self, number: u64, bytes: &[u8]) -> Result<AppliedBlock, ReplicaError> {
        if self.stored.is_new {
            return Err(ReplicaError::New);
        }
        let (id, expected) = (BlockId::of(number, bytes), self.stored.next_block());
        if number < expected {
            return self.skip(id);
        }
        if number > expected {
            return Err(self.missing(number));
        }
        let before = self.stored.document.clone();
        let applied = catch(|| self.apply_next(id, bytes)).unwrap_or_else(|panic| {
            let message = panic.message().unwrap_or("the repetition panicked");
            Err(ReplicaError::damaged(
                number,
                JournalError::corrupt(message),
            ))
        });
        if applied.is_err() {
            self.stored.document = before;
        }
        applied
    }

    fn skip(&self, id: BlockId) -> Result<AppliedBlock, ReplicaError> {
        let known = self.stored.checksum(id.number);
        if known.is_some_and(|known| known != id.checksum) {
            return Err(ReplicaError::Differs { block: id.number });
        }
        Ok(AppliedBlock {
            number: id.number,
            skipped: true,
            version: self.version(),
            commits: Vec::new(),
        })
    }

    /// After an error, the document may have a part of the commits.
    fn apply_next(&mut self, id: BlockId, bytes: &[u8]) -> Result<AppliedBlock, ReplicaError> {
        let number = id.number;
        let block: LogBlock = decode(bytes).map_err(|error| match error {
            Unreadable::Newer(found) => ReplicaError::newer(number, found),
            Unreadable::Corrupt(cause) => ReplicaError::damaged(number, cause),
        })?;
        let versions = block.commits.iter().map(|commit| commit.version);
        let expected = (self.version()..).skip(1);
        if let Some((version, expected)) = versions.zip(expected).find(|(a, b)| a != b) {
            return Err(ReplicaError::MissingVersion {
                block: number,
                version,
                expected,
            });
        }
        let damaged = |error| match error {
            OpenError::Corrupt(cause) => ReplicaError::damaged(number, cause),
            error => ReplicaError::damaged(number, JournalError::corrupt(error)),
        };
        let stored = &mut self.stored;
        stored
            .replay_block(number, &block, || {})
            .map_err(damaged)?;
        for note in &block.notes {
            if let NoteChange::Kept(note) = note {
                check_receipt(note, stored.document.version()).map_err(damaged)?;
            }
        }
        let commits = block.commits.clone();
        let added = stored.add(id, block);
        added.map_err(|cause| ReplicaError::damaged(number, cause))?;
        Ok(AppliedBlock {
            number,
            skipped: false,
            version: self.version(),
            commits,
        })
    }

    fn missing(&self, block: u64) -> ReplicaError {
        ReplicaError::MissingBlock {
            block,
            expected: self.stored.next_block(),
            version: self.version(),
        }
    }

    /// Applies all later blocks of the journal, and calls `applied` after each. The callback runs
    /// while the journal loads, so it must not use the journal.
    ///
    /// The last block that the replica has is read again, and so is the head of the checkpoint.
    /// So the replica learns if the journal has lost blocks: after a failover to a server that did
    /// not have them, or from a backup. A replica that [is new](Self::is_new) is loaded.
    ///
    /// # Errors
    ///
    /// [`ReplicaError`]. Blocks before the error are applied.
    ///
    /// # Panics
    ///
    /// If `applied` panics. The replica has the block then.
    pub fn catch_up(
        &mut self,
        journal: &mut dyn Journal,
        mut applied: impl FnMut(AppliedBlock),
    ) -> Result<(), ReplicaError> {
        if self.stored.is_new {
            let loaded = Self::load(journal, &self.options);
            *self = loaded.map_err(|cause| ReplicaError::Load(Box::new(cause)))?;
            return Ok(());
        }
        let (next, mut head, mut has_last) = (self.stored.next_block(), None, false);
        let mut failure = None;
        let last = next.saturating_sub(1);
        let loaded = journal.load_after(last.saturating_sub(1), HEAD, &mut |part| {
            let read = self.read_part(part, &mut head).map(|block| {
                has_last |= block.as_ref().is_some_and(|block| block.number == last);
                block.filter(|block| !block.skipped).map(&mut applied)
            });
            read.map(drop).map_err(|error| {
                failure = Some(error);
                JournalError::corrupt("")
            })
        });
        match (failure, loaded) {
            (Some(error), _) => return Err(error),
            (None, Err(error)) => return Err(ReplicaError::Journal(error)),
            (None, Ok(())) => {}
        }
        // Without the last block and without a checkpoint that has it, the journal has lost it.
        let has_last = |head: &StoredHead| has_last || head.next_block >= next;
        let Some(head) = head.filter(has_last) else {
            return Err(ReplicaError::Differs { block: last });
        };
        if head.next_block > self.stored.next_block() {
            return Err(self.missing(head.next_block));
        }
        let last = head.next_block.saturating_sub(1);
        if head.next_block < self.stored.head.next_block
            || head.last_block != self.stored.checksum(last)
            || head.document.version != self.stored.version_before(head.next_block)
        {
            return Err(ReplicaError::Differs { block: last });
        }
        self.stored
            .continue_after_checkpoint(head, self.options.kept_log);
        Ok(())
    }

    /// Reads a part of a journal: its head, or a block.
    fn read_part(
        &mut self,
        part: StoredPart<'_>,
        head: &mut Option<StoredHead>,
    ) -> Result<Option<AppliedBlock>, ReplicaError> {
        match part {
            StoredPart::Entry { bytes, .. } => {
                let block = self.stored.next_block();
                let found: StoredHead = decode(bytes).map_err(|error| match error.of(part) {
                    Unreadable::Newer(found) => ReplicaError::newer(block, found),
                    Unreadable::Corrupt(cause) => ReplicaError::Journal(cause),
                })?;
                if found.first_session != self.stored.head.first_session {
                    return Err(ReplicaError::Differs { block });
                }
                *head = Some(found);
                Ok(None)
            }
            StoredPart::Block { number, bytes } => self.apply(number, bytes).map(Some),
        }
    }

    /// Continues the document as a store, as an open of the journal does, without loading it.
    ///
    /// The process must be the owner already: no other process may write to the journal. The
    /// replica [catches up](Self::catch_up) with the journal, then counts the open there. The
    /// document, receipts, inboxes, leases and tokens continue as after an open. If the options
    /// keep commits, the store has at least those that it would have after an open, as far as the
    /// replica was loaded with these options.
    ///
    /// If the journal no longer has the blocks that the replica misses, or has lost some that the
    /// replica has, the document is loaded from the journal. The time is then that of an open.
    ///
    /// # Errors
    ///
    /// [`TakeoverError`], which has the replica as far as it can go on.
    ///
    /// # Panics
    ///
    /// If the [`progress`](DurableOptions::progress) callback of the options panics.
    pub fn into_store(
        mut self,
        journal: impl Journal,
        options: DurableOptions,
    ) -> Result<DataStore, TakeoverError> {
        let journal = Box::new(journal);
        let progress = Arc::clone(&options.progress);
        let taken_over = guarded(progress, |progress| {
            let options = DurableOptions {
                progress,
                ..options.clone()
            };
            self.take_over(journal, options)
        });
        match taken_over {
            Ok(Takeover::Opened(store)) => Ok(store),
            Ok(Takeover::Numbered(numbered, journal)) => {
                let continued = numbered.continue_with(journal, self.stored, options);
                continued.map_err(|error| TakeoverError {
                    cause: error.into(),
                    replica: None,
                })
            }
            Err(cause) => Err(TakeoverError {
                cause,
                replica: Some(Box::new(self)),
            }),
        }
    }

    fn take_over(
        &mut self,
        mut journal: Box<dyn Journal>,
        options: DurableOptions,
    ) -> Result<Takeover, OpenError> {
        if self.stored.is_new {
            return Takeover::open(journal, options);
        }
        if options.document.is_some() {
            return Err(OpenError::Exists);
        }
        match self.catch_up(&mut *journal, drop) {
            Ok(()) => {
                let numbered = NumberedOpen::new(&mut *journal, &self.stored, &options)?;
                Ok(Takeover::Numbered(numbered, journal))
            }
            Err(error) => match error.into_open_error() {
                Some(error) => Err(error),
                None => Takeover::open(journal, options),
            },
        }
    }
}

/// How a replica became a store.
enum Takeover {
    /// The document was loaded from the journal.
    Opened(DataStore),
    /// The open is numbered, and the replica can continue.
    Numbered(NumberedOpen, Box<dyn Journal>),
}

impl Takeover {
    fn open(journal: Box<dyn Journal>, options: DurableOptions) -> Result<Self, OpenError> {
        open_unguarded(journal, options, &BeforeLoad::default()).map(Self::Opened)
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica")
            .field("is_new", &self.is_new())
            .field("version", &self.version())
            .field("last_block", &self.last_block())
            .field("blocks_since_checkpoint", &self.stored.blocks_since())
            .finish_non_exhaustive()
    }
}
