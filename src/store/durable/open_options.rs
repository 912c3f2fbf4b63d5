//! The options of an open, and its progress.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "redb")]
use super::redb::{ExistingFile, Readers};
use super::unloaded::ReadUnloaded;
use super::{Durability, OpenError, UnloadedDocument};
use crate::document::Snapshot;
use crate::store::StoreOptions;

/// Options of a durable store.
///
/// ```
/// use doclock::{DataStore, StoreOptions, durable::{Durability, DurableOptions}};
///
/// # let folder = tempfile::tempdir()?;
/// let options = DurableOptions::new()
///     .store(StoreOptions::new().queue_bound(100))
///     .durability(Durability::Later);
/// let store = DataStore::open_with(folder.path().join("notes.doclock"), options)?;
/// assert_eq!(store.close()?.durable_version, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct DurableOptions {
    pub(super) store: StoreOptions,
    pub(super) durability: Durability,
    /// How many bytes of commits may wait for the journal before requests wait.
    pub(super) unwritten: usize,
    /// The bytes of blocks after which a checkpoint is written.
    pub(super) checkpoint_after: usize,
    /// The bytes of blocks that are kept beside the checkpoint.
    pub(super) kept_log: usize,
    pub(super) progress: Progress,
    pub(super) before_load: Option<ReadUnloaded>,
    /// With which a new document begins.
    pub(super) document: Option<Snapshot>,
    #[cfg(feature = "redb")]
    pub(super) existing: ExistingFile,
    #[cfg(feature = "redb")]
    pub(super) readers: Readers,
}

impl Default for DurableOptions {
    fn default() -> Self {
        Self {
            store: StoreOptions::new(),
            durability: Durability::Durable,
            unwritten: 4 << 20,
            checkpoint_after: 4 << 20,
            kept_log: 0,
            progress: Arc::new(|_| {}),
            before_load: None,
            document: None,
            #[cfg(feature = "redb")]
            existing: ExistingFile::May,
            #[cfg(feature = "redb")]
            readers: Readers::Refused,
        }
    }
}

impl fmt::Debug for DurableOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableOptions")
            .field("store", &self.store)
            .field("durability", &self.durability)
            .field("unwritten", &self.unwritten)
            .field("checkpoint_after", &self.checkpoint_after)
            .field("kept_log", &self.kept_log)
            .finish_non_exhaustive()
    }
}

impl DurableOptions {
    /// Creates the options that [`DataStore::open`](crate::DataStore::open) uses.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the options of the store. Its [session](StoreOptions::session) is not used: each open
    /// has a new one.
    pub fn store(mut self, options: StoreOptions) -> Self {
        self.store = options;
        self
    }

    /// Sets when calls that commit return, unless a call sets it. The default is
    /// [`Durability::Durable`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how many bytes of commits may wait for the journal. Beyond that, the lock is closed, as
    /// for a [lossless subscriber](crate::events::PendingSubscription::lossless). The error of a
    /// request that times out names the holder `disk`.
    ///
    /// The default is 4 MiB. The sizes are estimates. What waits is written at once, so a commit
    /// waits the longer for its write, the greater this is.
    ///
    /// As many bytes of leases, receipts and events of inboxes may wait beside the commits. Beyond
    /// that, the call that stores another one returns when all of them are written. A batch that is
    /// [published](crate::transaction::PendingTransaction::publish) leaves that wait to its caller.
    pub fn unwritten_limit(mut self, bytes: usize) -> Self {
        self.unwritten = bytes;
        self
    }

    /// Sets how many bytes of records are written before a checkpoint takes their place. The
    /// default is 4 MiB. An open repeats at most about so much, and
    /// [`close`](crate::DataStore::close) leaves nothing to repeat.
    pub fn checkpoint_after(mut self, bytes: usize) -> Self {
        self.checkpoint_after = bytes;
        self
    }

    /// Keeps the latest records in the journal, up to `bytes`, also after a checkpoint that makes
    /// them unnecessary. The default is zero.
    ///
    /// After an open the store has their commits, as far as
    /// [`StoreOptions::kept_commits`] has room for them. So
    /// [`commits_since`](crate::DataStore::commits_since) returns commits of earlier processes, and
    /// [`Editor::with_restored_history`](crate::Editor::with_restored_history) finds what can be
    /// undone. Without `kept_commits`, records are kept on the disk and not loaded.
    ///
    /// They take their size in the file, and each open reads and checks them. They contain the text
    /// that was deleted. A later open with a smaller number removes them with its next checkpoint.
    ///
    /// ```
    /// use doclock::{DataStore, StoreOptions, TransactionManager, dsl::*, durable::DurableOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.doclock");
    /// let options = DurableOptions::new()
    ///     .keep_log(4 << 20)
    ///     .store(StoreOptions::new().kept_commits(16 << 20));
    /// let store = DataStore::open_with(&path, options.clone())?;
    /// let manager = TransactionManager::new(store.clone());
    /// for text in ["one", "two", "three"] {
    ///     manager.execute(create(text_node("paragraph", text)))?;
    /// }
    /// store.close()?;
    ///
    /// // A follower that has version 1 goes on after the restart.
    /// let store = DataStore::open_with(&path, options)?;
    /// let versions: Vec<u64> = store.commits_since(1)?.iter().map(|commit| commit.version).collect();
    /// assert_eq!(versions, [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep_log(mut self, bytes: usize) -> Self {
        self.kept_log = bytes;
        self
    }

    /// Sets a callback for the progress of an open. It runs in the thread that opens, under no
    /// lock. An open or a read of the same file in it returns [`OpenError::Locked`], as in
    /// [`before_load`](Self::before_load).
    pub fn progress(mut self, progress: impl Fn(OpenProgress) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Sets a callback that reads single nodes of a stored document before it is loaded, such as
    /// those of the first screen. It is called once in an open, in the thread that opens, under no
    /// lock of doclock. The load begins when it returns.
    ///
    /// The file has been opened and locked then. If it was not closed, its last write and the
    /// commits since the last checkpoint have been read too. How long that takes depends on these
    /// commits: each node that they touch is looked up by itself, and so is each child of a node
    /// that they split or join. How long a read takes does not depend on how large the document is.
    /// Only if a power cut has torn the last write, or it has several MiB, the whole file is
    /// checked and repaired before the callback. Of another journal than a file, each look and each
    /// read takes the time of its [`load_after`](super::Journal::load_after).
    ///
    /// What the callback reads is what the store has when it is open, unless the open fails: parts
    /// that were not read can be damaged, and the document is not compared with a schema yet. The
    /// callback is not called for a new document, nor by a replica that becomes a store.
    ///
    /// If the callback returns an error, the open returns it. If it panics, the panic resumes. In
    /// both cases nothing is open, and the file keeps every byte. An open or a read of the same
    /// file in the callback returns [`OpenError::Locked`]; only on Windows, a read does not end if
    /// the open allows readers. Other threads and processes that read the file wait for the open,
    /// so the callback must not wait for them.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*, durable::DurableOptions};
    /// use std::sync::mpsc::channel;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.doclock");
    /// let store = DataStore::open(&path)?;
    /// let page = element("page", [text_node("paragraph", "Hello")]).with_id("page");
    /// TransactionManager::new(store.clone()).execute([create(page), set_root().on("page")])?;
    /// store.close()?;
    ///
    /// let (sender, screen) = channel();
    /// let options = DurableOptions::new().before_load(move |document| {
    ///     let Some(root) = document.root().cloned() else {
    ///         return Ok(());
    ///     };
    ///     let page = document.node(root)?;
    ///     // As many as fit on the screen.
    ///     for id in page.iter().flat_map(|page| page.children().iter()).take(50) {
    ///         let _ = sender.send(document.node(id)?);
    ///     }
    ///     Ok(())
    /// });
    /// let store = DataStore::open_with(&path, options)?;
    /// assert_eq!(screen.recv()?.unwrap().text(), &"Hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn before_load(
        mut self,
        read: impl Fn(&mut UnloadedDocument<'_>) -> Result<(), OpenError> + Send + Sync + 'static,
    ) -> Self {
        self.before_load = Some(Arc::new(read));
        self
    }

    /// Begins with an existing document: one that was loaded, or the
    /// [snapshot](crate::DataStore::snapshot) of another store. Its version and its numberings
    /// continue, as for [`StoreOptions::document`].
    ///
    /// The open fails with [`OpenError::Exists`](super::OpenError::Exists) if there is a file or
    /// journal with a document already.
    ///
    /// ```
    /// use doclock::{DataStore, Snapshot, document::NodeSpec, durable::DurableOptions};
    ///
    /// let store = DataStore::new();
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// transaction.commit()?;
    /// let exported = serde_json::to_string(&store.snapshot())?;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.doclock");
    /// let imported: Snapshot = serde_json::from_str(&exported)?;
    /// let store = DataStore::open_with(&path, DurableOptions::new().document(imported))?;
    /// assert_eq!((store.version(), store.durable_snapshot().map(|it| it.version())), (1, Some(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn document(mut self, document: Snapshot) -> Self {
        self.document = Some(document);
        #[cfg(feature = "redb")]
        {
            self.existing = ExistingFile::MustNot;
        }
        self
    }

    /// Makes the open fail with [`OpenError::Missing`](super::OpenError::Missing) if there is no
    /// file.
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn only_existing(mut self) -> Self {
        self.existing = ExistingFile::Must;
        self
    }

    /// Makes the open fail with [`OpenError::Exists`](super::OpenError::Exists) if there is a file.
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn only_new(mut self) -> Self {
        self.existing = ExistingFile::MustNot;
        self
    }

    /// Allows other processes to read the file while it is open, with [`DurableFile`]. By default
    /// they cannot.
    ///
    /// Each write then syncs the file more than once, because a reader must not see a commit that
    /// a power cut can take back. A read delays no commit. Pages that a reader needs are not
    /// reused meanwhile, so the file grows.
    ///
    /// The open fails on platforms without locks for parts of files. Linux, macOS and Windows have
    /// them.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, durable::{DurableFile, DurableOptions}};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.doclock");
    /// let store = DataStore::open_with(&path, DurableOptions::new().allow_readers())?;
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// transaction.commit()?;
    ///
    /// // In any process, while the store is open.
    /// assert_eq!(DurableFile::read(&path)?.document(), &store.snapshot());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`DurableFile`]: super::DurableFile
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn allow_readers(mut self) -> Self {
        self.readers = Readers::Allowed;
        self
    }
}

/// How far an open has come.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum OpenProgress {
    /// The file is checked, and repaired if it was not closed: the part from 0 to 1 that is done.
    Checking(f64),
    /// So many nodes of the checkpoint are loaded. Reported after each 1,024th, and at the end.
    Nodes(usize),
    /// So many later commits are repeated. Reported after each 1,024th, and at the end.
    Commits(usize),
}

/// A callback for the progress of an open.
pub(super) type Progress = Arc<dyn Fn(OpenProgress) + Send + Sync>;
