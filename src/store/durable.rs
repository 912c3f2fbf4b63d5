//! Durable documents: commits that survive the end of the process and a power cut.
//!
//! ```
//! use doclock::{DataStore, TransactionManager, View, dsl::*};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("notes.doclock");
//! let store = DataStore::open(&path)?;
//! let manager = TransactionManager::new(store.clone());
//! // Returns when the commit is on the disk.
//! manager.execute(create(text_node("paragraph", "Hello").with_id("p")))?;
//! store.close()?;
//! # drop(manager);
//! # drop(store);
//!
//! let store = DataStore::open(&path)?;
//! assert_eq!(store.snapshot().node("p").unwrap().text(), &"Hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which commits are acknowledged
//!
//! A call that commits returns when its commit is durable, or at once with [`Durability::Later`],
//! which the store, a manager or a single call can ask for. It waits after it has released the
//! lock, so other transactions run meanwhile, and the commits that arrive during a sync are written
//! by the next one. A thread for journals, which all stores of the process share, writes them, or
//! the only call that waits; there is no timer.
//!
//! Readers and subscribers see a commit before it is durable. What leaves the process should wait:
//! a [durable](crate::events::PendingSubscription::durable) subscription receives only commits that
//! are durable. The last of them has made the
//! [`durable_snapshot`](DataStore::durable_snapshot).
//!
//! A transaction under a lock that is held by id waits with the lock held.
//!
//! # After a failure
//!
//! If a write or a sync fails, it is not tried again: a second sync may succeed although the data
//! is lost. The store is read-only from then on, and its commits fail with
//! [`CommitError::ReadOnly`]. A call that waits for its commit returns [`CommitError::Unknown`]:
//! the commit may be stored or not. The version after the next open tells.
//!
//! If the journal is certain that nothing of a write is stored, the call returns
//! [`CommitError::NotStored`]. If it reports that another owner has the document, the commit is
//! known not to be stored, and the call returns [`CommitError::Fenced`].
//!
//! # What an open continues
//!
//! The document and its version continue, and so do receipts of idempotency keys, the done and dead
//! events of inboxes, and leases until they end. Receipts and marks are in the same write as their
//! commit, so a redelivered message has no second effect. Sessions, lock ids and fencing tokens of
//! an earlier open never return, used or not: each open counts itself on the disk before the first
//! grant.
//!
//! The log contains the text that a commit deleted, until a checkpoint removes that part of it.
//! [`DurableOptions::keep_log`] keeps more of it, for followers and for the
//! [histories of editors](crate::Editor::with_restored_history).

#[cfg(feature = "redb")]
mod backup;
mod contract;
mod file;
mod format;
mod journal;
mod open;
mod open_error;
mod open_options;
mod record;
#[cfg(feature = "redb")]
mod redb;
mod replay;
mod replica;
#[cfg(feature = "redb")]
mod salvage;
mod unloaded;
mod wait;
mod writer;

#[cfg(feature = "redb")]
use std::path::Path;
#[cfg(feature = "redb")]
use std::sync::Arc;
use std::time::Duration;

pub use contract::check_journal;
#[cfg(feature = "redb")]
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
pub use file::CompactReport;
pub use file::{DurableFile, VerifyReport, VersionError};
pub use format::LARGEST_EPOCH;
#[cfg(all(test, not(loom)))]
pub(in crate::store) use journal::forgetful::Forgetful;
pub use journal::{
    Journal, JournalError, JournalErrorKind, JournalWrite, StoredPart, WrittenReceipt,
};
pub use open_error::OpenError;
pub use open_options::{DurableOptions, OpenProgress};
#[cfg(feature = "redb")]
use redb::FilePages;
#[cfg(feature = "redb")]
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
pub use redb::RedbJournal;
#[cfg(feature = "redb")]
pub(crate) use redb::find as find_file;
pub use replica::{AppliedBlock, Replica, ReplicaError, TakeoverError};
#[cfg(feature = "redb")]
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
pub use salvage::{SalvageReport, SalvagedFile};
pub use unloaded::UnloadedDocument;
pub use wait::DurableWait;
pub(super) use writer::Writer;
pub use writer::{CloseReport, DurabilityError};

use super::{CommitError, DataStore, TransactionResult};
use crate::document::Snapshot;
use crate::lock::WaiterKind;

/// When a call that commits returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// When the commit is durable.
    #[default]
    Durable,
    /// When the commit is published. It becomes durable with the next write, or is lost if the
    /// process ends before that. If too many leases, receipts and events of inboxes
    /// [wait for the disk](DurableOptions::unwritten_limit), the call waits for it too.
    Later,
}

/// # Durable documents
impl DataStore {
    /// Opens the document in a file, or creates the file. See the module [`durable`](self).
    /// [Options](DurableOptions::only_new) of [`open_with`](Self::open_with) allow only one of the
    /// two.
    ///
    /// A link to a file that does not exist creates that file.
    ///
    /// Blocks until the document is loaded; [`DurableOptions::before_load`] reads nodes before. The
    /// file is locked until the store is closed or dropped.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path, DurableOptions::new())
    }

    /// Opens the document in a file, with options.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn open_with(path: impl AsRef<Path>, options: DurableOptions) -> Result<Self, OpenError> {
        open::open(options, |options, before_load| {
            let (progress, early) = (Arc::clone(&options.progress), before_load.clone());
            let check = move |pages: FilePages<'_>, part| {
                progress(OpenProgress::Checking(part));
                match part == 0.0 && pages.are_whole() {
                    true => early.call(&mut |block, key, part| pages.load_after(block, key, part)),
                    false => Ok(()),
                }
            };
            let (existing, readers) = (options.existing, options.readers);
            let begin = |journal: &mut RedbJournal| open::begin(journal, &options, before_load);
            let (journal, (stored, numbered)) =
                RedbJournal::open_existing(path.as_ref(), existing, readers, check, begin)?;
            Ok(numbered.continue_with(Box::new(journal), stored, options)?)
        })
    }

    /// Opens the document in a journal.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open_journal(journal: impl Journal, options: DurableOptions) -> Result<Self, OpenError> {
        open::open(options, |options, before_load| {
            open::open_unguarded(Box::new(journal), options, before_load)
        })
    }

    /// Returns the document as of the last durable version: what a power cut cannot take. `None` if
    /// the store is not durable.
    ///
    /// Its leases are those of that moment too. Takes O(1) and never waits for the disk.
    ///
    /// ```
    /// use doclock::{DataStore, View, durable::{Durability, DurableOptions}, document::NodeSpec};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.doclock");
    /// let options = DurableOptions::new().durability(Durability::Later);
    /// let store = DataStore::open_with(path, options)?;
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// let version = transaction.commit()?.version;
    /// store.wait_durable(version).wait()?;
    /// assert_eq!(store.durable_snapshot().unwrap().version(), version);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn durable_snapshot(&self) -> Option<Snapshot> {
        let writer = self.0.writer.as_ref();
        writer.map(|writer| writer.durable_document())
    }

    /// Returns a wait until a version is durable, to set its timeout. Nothing waits before
    /// [`wait`](DurableWait::wait) or `.await`.
    ///
    /// Do not wait with the lock held: a version that no commit has made yet is waited for.
    pub fn wait_durable(&self, version: u64) -> DurableWait {
        DurableWait::new(self.clone(), version)
    }

    /// Writes a complete copy of the store to a new file: the document, the receipts, the marks and
    /// dead letters of the inboxes, and the leases, all as of one moment. Returns the version.
    ///
    /// The copy is the file of a document: [`open`](Self::open) continues it, with the same ids,
    /// and a message or a keyed batch that had its effect before the copy has none again. What it
    /// does not have are the commits before this version, so no history is restored from it, and
    /// earlier versions are not in it. It does not have the claims of messages that are being
    /// handled, which have all their attempts again. Its later fencing tokens are above those that
    /// it has; a token of the original that was issued after the copy may be issued again.
    ///
    /// Any store can be copied: one in memory, a durable one, also with commits that are not
    /// durable yet, and one that became read-only because its file failed. Commits go on meanwhile.
    /// Only those with an idempotency key or a claim wait until the receipts and marks are listed,
    /// which takes about a microsecond for ten of them.
    ///
    /// Blocks until the file is durable. A process that is killed meanwhile leaves nothing at the
    /// path. An unfinished file `.doclock-….new` beside it may stay, and is removed when a document
    /// is created there an hour later.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: [`Exists`](OpenError::Exists), if there is anything at the path, also a link
    /// to no file, [`NoFolder`](OpenError::NoFolder), and errors of the disk. No part of the copy
    /// is at the path then.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, View, dsl::*};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let store = DataStore::open(folder.path().join("notes.doclock"))?;
    /// let manager = TransactionManager::new(store.clone());
    /// let node = create(text_node("paragraph", "one").with_id("p"));
    /// manager.transaction(node.clone()).idempotent("first").commit()?;
    /// let path = folder.path().join("monday.doclock");
    /// assert_eq!(store.backup(&path)?, 1);
    ///
    /// let copy = DataStore::open(path)?;
    /// assert!(copy.snapshot().contains("p"));
    /// let manager = TransactionManager::new(copy);
    /// assert!(manager.transaction(node).idempotent("first").commit()?.repeated);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<u64, OpenError> {
        self.copy_to(path.as_ref())
    }

    /// Closes the store: refuses further commits, waits until all others are durable, writes a
    /// checkpoint if there is anything new, and closes the file. Snapshots can still be read. All
    /// [subscriptions](crate::events::Subscription#end) end.
    ///
    /// A second call returns the report of the first. Dropping the last handle of a store that is
    /// not closed waits for the same, and cannot report a failure.
    ///
    /// # Errors
    ///
    /// [`DurabilityError`]: the store is not durable, or its journal failed. If only its
    /// [end](Journal::close) failed, all commits are durable.
    pub fn close(&self) -> Result<CloseReport, DurabilityError> {
        match &self.0.writer {
            Some(writer) => writer.close(self),
            None => Err(DurabilityError::NotDurable),
        }
    }

    /// Whether the store accepts no commit any more: it was closed, or its journal failed.
    #[inline]
    pub(crate) fn is_read_only(&self) -> bool {
        let writer = self.0.writer.as_ref();
        writer.is_some_and(|writer| writer.refuses())
    }

    /// Whether commits wait for a journal.
    #[inline]
    pub(crate) fn is_durable(&self) -> bool {
        self.0.writer.is_some()
    }

    /// Whether a commit may be acknowledged before it is written. It is written soon, then.
    #[inline]
    pub(crate) fn acknowledges_unwritten(&self, durability: Option<Durability>) -> bool {
        let writer = self.0.writer.as_ref();
        writer.is_none_or(|writer| writer.acknowledges_unwritten(durability))
    }

    /// Waits until a commit may be acknowledged.
    #[inline]
    pub(crate) fn acknowledge(
        &self,
        result: &TransactionResult,
        durability: Option<Durability>,
    ) -> Result<(), CommitError> {
        match &self.0.writer {
            Some(writer) => writer.acknowledge(result, durability),
            None => Ok(()),
        }
    }

    /// Waits as [`acknowledge`](Self::acknowledge) does, for a thread or a task.
    pub(crate) async fn acknowledge_as(
        &self,
        waits_as: WaiterKind,
        result: &TransactionResult,
        durability: Option<Durability>,
    ) -> Result<(), CommitError> {
        match (&self.0.writer, waits_as) {
            (None, _) => Ok(()),
            (Some(writer), WaiterKind::Thread) => writer.acknowledge(result, durability),
            (Some(writer), WaiterKind::Task) => {
                writer.acknowledge_in_task(result, durability).await
            }
        }
    }

    /// Waits until a transaction is durable.
    pub(crate) fn wait_acknowledged(
        &self,
        result: &TransactionResult,
        timeout: Option<Duration>,
    ) -> Result<(), DurabilityError> {
        match &self.0.writer {
            Some(writer) => writer.wait_for(result, timeout),
            None => Ok(()),
        }
    }

    /// Waits until all may be acknowledged that was stored beside commits so far.
    #[inline]
    pub(crate) fn acknowledge_notes(&self) -> Result<(), CommitError> {
        match &self.0.writer {
            Some(writer) => writer.acknowledge_notes(self.version()),
            None => Ok(()),
        }
    }

    /// Refuses a commit if the store is read-only. The log must be locked for a commit.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<(), CommitError> {
        self.0.writer.as_deref().map_or(Ok(()), Writer::check_open)
    }
}
