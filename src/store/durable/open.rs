//! Opening a durable document: load the checkpoint, repeat the later commits, continue.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use super::format::{FORMAT, HEAD, StoredHead, Unreadable, entry, node_key};
#[cfg(feature = "redb")]
use super::redb::{Existing, Readers};
use super::stored::{Loaded, Stored, TOKENS_OF_AN_OPEN};
use super::writer::Beginning;
use super::{Durability, Journal, JournalError, JournalWrite, Writer};
use crate::caught::catch;
use crate::codes::{Retry, codes};
use crate::document::schema::SchemaViolation;
use crate::document::{AssemblyError, Snapshot, Tokens, View};
use crate::store::{DataStore, StoreOptions};
use crate::sync::{Mutex, rank};

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
    /// With which a new document begins.
    pub(super) document: Option<Snapshot>,
    #[cfg(feature = "redb")]
    pub(super) existing: Existing,
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
            document: None,
            #[cfg(feature = "redb")]
            existing: Existing::May,
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
    /// Creates the options that [`DataStore::open`] uses.
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

    /// Sets how many bytes of commits may wait for the journal. Beyond that, requests for the lock
    /// wait before they request it, as for a [lossless subscriber](DataStore::subscribe_lossless).
    /// The error of a request that times out names the holder `disk`.
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
    /// default is 4 MiB. An open repeats at most about so much, and [`close`](DataStore::close)
    /// leaves nothing to repeat.
    pub fn checkpoint_after(mut self, bytes: usize) -> Self {
        self.checkpoint_after = bytes;
        self
    }

    /// Keeps the latest records in the journal, up to `bytes`, also after a checkpoint that makes
    /// them unnecessary. The default is zero.
    ///
    /// After an open the store has their commits, as far as
    /// [`StoreOptions::kept_commits`] has room for them. So
    /// [`commits_since`](DataStore::commits_since) returns commits of earlier processes, and
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
    /// lock.
    pub fn progress(mut self, progress: impl Fn(OpenProgress) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Begins with an existing document: one that was loaded, or the
    /// [snapshot](DataStore::snapshot) of another store. Its version and its numberings continue,
    /// as for [`StoreOptions::document`].
    ///
    /// The open fails with [`OpenError::Exists`] if there is a file or journal with a document
    /// already.
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
    /// assert_eq!((store.version(), store.durable_version()), (1, Some(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn document(mut self, document: Snapshot) -> Self {
        self.document = Some(document);
        #[cfg(feature = "redb")]
        {
            self.existing = Existing::MustNot;
        }
        self
    }

    /// Makes the open fail with [`OpenError::Missing`] if there is no file.
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn only_existing(mut self) -> Self {
        self.existing = Existing::Must;
        self
    }

    /// Makes the open fail with [`OpenError::Exists`] if there is a file.
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn only_new(mut self) -> Self {
        self.existing = Existing::MustNot;
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

/// Why a durable document was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is a file already, and the options allow only a new one.
    #[error("the file exists already")]
    Exists,
    /// There is no file, and the options require one.
    #[error("the file does not exist")]
    Missing,
    /// The folder of the file does not exist.
    #[error("the folder of the file does not exist: {folder}")]
    NoFolder {
        /// The folder.
        folder: String,
    },
    /// The path is a link to a file that does not exist, and the options require one.
    #[error("the path is a link to a file that does not exist: {target}")]
    DanglingLink {
        /// Where the link leads.
        target: String,
    },
    /// Another store or process has the file open.
    #[error("another store or process has the file open")]
    Locked,
    /// The file is not a document of doclock, or its beginning is damaged.
    #[error("the file is not a document of doclock")]
    Foreign,
    /// A later version of doclock has written the file.
    #[error("the document is stored in format {found}, and only format {known} is known")]
    Newer {
        /// The format of the document.
        found: u8,
        /// The format that this version reads.
        known: u8,
    },
    /// The process may not read or write the file.
    #[error("the file may not be read or written: {message}")]
    NoPermission {
        /// The message of the operating system.
        message: String,
    },
    /// The file is truncated or damaged. See [when the file is damaged](crate::guide::damaged).
    #[error("the document is damaged: {0}")]
    Corrupt(JournalError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(JournalError),
    /// The number of the open, or the [epoch](Journal::epoch) of its journal, has no room in a
    /// fencing token.
    #[error("the epoch {epoch} of the open is too large: the limit is {largest}")]
    EpochTooLarge {
        /// The number of the open.
        epoch: u64,
        /// The largest number, [`LARGEST_EPOCH`](super::LARGEST_EPOCH).
        largest: u64,
    },
    /// The document does not follow the schema of the options.
    #[error(transparent)]
    Schema(Box<SchemaViolation>),
}

codes! { OpenError {
    Self::Exists => "openExists", 409;
    Self::Missing => "openMissing", 404;
    Self::NoFolder { folder } => "openNoFolder", 404;
    Self::DanglingLink { target } => "openDanglingLink", 404;
    Self::Locked => "openLocked" if Retry::Later;
    Self::Foreign => "openForeign", 500;
    Self::Newer { found, known } => "openNewer", 500;
    Self::NoPermission { message } => "openNoPermission" { reason: message }, 500;
    Self::Corrupt(cause) => "openCorrupt" { cause: cause }, 500;
    Self::Journal(error) => as error;
    Self::EpochTooLarge { epoch, largest } => "openEpochTooLarge", 500;
    Self::Schema(violation) => as violation;
}}

impl From<JournalError> for OpenError {
    fn from(error: JournalError) -> Self {
        match error.kind {
            super::JournalErrorKind::Corrupt => Self::Corrupt(error),
            _ => Self::Journal(error),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        let message = error.to_string();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NoPermission { message },
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Journal(error.into()),
        }
    }
}

impl From<Unreadable> for OpenError {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::Newer(found) => Self::Newer {
                found,
                known: FORMAT,
            },
            Unreadable::Corrupt(error) => Self::Corrupt(error),
        }
    }
}

impl From<AssemblyError> for OpenError {
    fn from(error: AssemblyError) -> Self {
        Self::Corrupt(JournalError::corrupt(error))
    }
}

/// A callback for the progress of an open.
pub(super) type Progress = Arc<dyn Fn(OpenProgress) + Send + Sync>;

/// Opens a document.
pub(super) fn open(
    mut options: DurableOptions,
    journal: impl FnOnce(&DurableOptions) -> Result<Box<dyn Journal>, OpenError>,
) -> Result<DataStore, OpenError> {
    let progress = Arc::clone(&options.progress);
    guarded(progress, |progress| {
        options.progress = progress;
        open_unguarded(journal(&options)?, options)
    })
}

/// Opens something. A journal that panics is taken for damaged. A panic of the callback is resumed
/// when nothing is open any more.
pub(super) fn guarded<T>(
    progress: Progress,
    open: impl FnOnce(Progress) -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    let panicked = Arc::new(OnceLock::new());
    let first = Arc::clone(&panicked);
    let progress = Arc::new(move |reached| {
        if first.get().is_none()
            && let Err(panic) = catch(|| progress(reached))
        {
            let _ = first.set(Mutex::<{ rank::DURABLE }, _>::new(Some(panic)));
        }
    });
    let opened = catch(|| open(progress));
    let panicked = panicked.get().and_then(|panic| panic.lock().take());
    if let Some(panic) = panicked {
        drop(opened);
        panic.resume();
    }
    opened.unwrap_or_else(|panic| {
        let message = panic.message().unwrap_or("no message");
        let panicked = format_args!("the journal panicked: {message}");
        Err(OpenError::Corrupt(JournalError::corrupt(panicked)))
    })
}

pub(super) fn open_unguarded(
    mut journal: Box<dyn Journal>,
    mut options: DurableOptions,
) -> Result<DataStore, OpenError> {
    let beginning = options.document.take();
    let stored = load(&mut *journal, &options, beginning)?;
    let counted = Counted::new(&mut *journal, &stored, &options)?;
    Ok(counted.continue_with(journal, stored, options)?)
}

/// Loads a document. A new one begins with `beginning`, which no other may have.
pub(super) fn load(
    journal: &mut dyn Journal,
    options: &DurableOptions,
    beginning: Option<Snapshot>,
) -> Result<Stored, OpenError> {
    let progress = &*options.progress;
    let kept = options.store.kept_commits;
    let mut loaded = Loaded::read(kept, progress, |part| journal.load(part))?;
    if !loaded.is_new() && beginning.is_some() {
        return Err(OpenError::Exists);
    }
    let (head, checkpoint) = loaded.assemble(beginning.unwrap_or_default())?;
    loaded.repeat(head, checkpoint, progress)
}

/// An open that is counted in its journal, before its first grant. So no number of it returns,
/// whatever happens.
pub(super) struct Counted {
    head: StoredHead,
    tokens: Tokens,
    session: u32,
    /// The document with which the store begins.
    document: Snapshot,
}

impl Counted {
    /// Counts the next open.
    pub(super) fn new(
        journal: &mut dyn Journal,
        stored: &Stored,
        options: &DurableOptions,
    ) -> Result<Self, OpenError> {
        let (mut head, mut tokens) = (stored.head.clone(), stored.tokens);
        let mut document = stored.document.clone();
        let has_nodes = |session| document.last_id_of(session) > 0;
        let session = head.count_open(journal.epoch(), has_nodes)?;
        tokens.raise(head.opens << TOKENS_OF_AN_OPEN);
        document.continue_with(&tokens, session);
        if let Some(schema) = &options.store.schema {
            let checked = schema.check_all(&document);
            checked.map_err(|violation| OpenError::Schema(Box::new(violation)))?;
        }
        let mut entries = vec![entry(HEAD.to_owned(), Some(&head))?];
        if stored.is_new {
            for node in document.nodes() {
                entries.push(entry(node_key(node.id()), Some(node))?);
            }
        }
        journal.write(&JournalWrite {
            entries,
            version: document.version(),
            ..JournalWrite::default()
        })?;
        Ok(Self {
            head,
            tokens,
            session,
            document,
        })
    }

    /// Continues the document as a store. Fails only if no thread can be started.
    pub(super) fn continue_with(
        self,
        journal: Box<dyn Journal>,
        mut stored: Stored,
        options: DurableOptions,
    ) -> Result<DataStore, JournalError> {
        let last_block = stored.last_block();
        let mut since = stored.since_checkpoint();
        let Stored { notes, log, .. } = stored;
        let mut store_options = options.store.session(self.session);
        store_options.lock.last_number = self.tokens.lock;
        let clock = store_options.lock.clock.clone();
        let keeps_commits = store_options.kept_commits > 0;
        let writer = Writer::new(
            options.durability,
            options.unwritten,
            self.document.clone(),
            clock,
        );
        let store = DataStore::beginning_with(self.document, store_options, Some(Box::new(writer)));
        if keeps_commits {
            store.begin_log(log.records);
        }
        since.forget(store.restore(notes.into_values().collect()));
        store.start_writer(Beginning {
            journal,
            head: self.head,
            since,
            last_block,
            unwritten: options.unwritten,
            checkpoint_after: options.checkpoint_after,
            kept_log: options.kept_log,
        })?;
        Ok(store)
    }
}
