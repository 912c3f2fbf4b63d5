//! Reading the file of a durable document without a store.

use std::fmt;
#[cfg(feature = "redb")]
use std::fs;
use std::ops::{RangeBounds, RangeInclusive};
#[cfg(feature = "redb")]
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

#[cfg(feature = "redb")]
use super::RedbJournal;
use super::open::guarded;
#[cfg(feature = "redb")]
use super::redb::{ExistingFile, Readers, RedbReader, reporting};
use super::replay::{LoadedParts, replay_commit};
use super::{Journal, JournalError, OpenError, OpenProgress, StoredPart};
use crate::codes::codes;
use crate::document::{Snapshot, check};
use crate::store::TransactionResult;

/// The contents of the file of a durable document, or of another journal, as of one moment.
///
/// It is read without a store, and nothing is written to the file: a read counts as no open. The
/// file is closed when the read is complete. A `DurableFile` is in memory, with the document, and
/// with all commits that the file has.
///
/// # Which versions a file has
///
/// A file has the document of its last checkpoint, and the commits since. With a [longer
/// log](super::DurableOptions::keep_log), it has commits before the checkpoint too. From these, all
/// [`versions`](Self::versions) can be [restored](Self::snapshot).
///
/// # Beside the program that has it open
///
/// If a store has the file open, a read returns [`OpenError::Locked`], unless the store was opened
/// with `DurableOptions::allow_readers`. During a read, no
/// program can open the file, unless the store that allows readers has it open already.
///
/// ```
/// use doclock::{DataStore, TransactionManager, View, dsl::*};
/// use doclock::durable::{DurableFile, DurableOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.doclock");
/// let store = DataStore::open_with(&path, DurableOptions::new().keep_log(1 << 20))?;
/// let manager = TransactionManager::new(store.clone());
/// manager.execute(create(text_node("paragraph", "one").with_id("p")))?;
/// manager.execute(set_text("two").on("p"))?;
/// store.close()?;
///
/// let file = DurableFile::read(&path)?;
/// assert_eq!(file.versions(), 0..=2);
/// assert_eq!(file.commits(2..).len(), 1);
/// assert_eq!(file.document().node("p").unwrap().text(), &"two");
/// assert_eq!(file.snapshot(1)?.node("p").unwrap().text(), &"one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DurableFile {
    checkpoint: Snapshot,
    document: Snapshot,
    /// Of consecutive versions, up to that of the document.
    commits: Vec<Arc<TransactionResult>>,
    pages_checked: bool,
}

impl DurableFile {
    /// Reads a file, of which the process needs the permission to read.
    ///
    /// Blocks until the whole file is read. All parts are checked as by
    /// [`DataStore::open`](crate::DataStore::open). If the program that had the file open was
    /// killed, the file is repaired in memory.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: among others [`Missing`](OpenError::Missing), [`Locked`](OpenError::Locked)
    /// and [`Corrupt`](OpenError::Corrupt).
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn read(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::read_with(path, |_| {})
    }

    /// Reads a file, and reports the progress to a callback, which runs in the calling thread.
    ///
    /// A panic of the callback is not caught, and leaves nothing open.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn read_with(
        path: impl AsRef<Path>,
        progress: impl Fn(OpenProgress) + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        guarded(Arc::new(progress), |progress| {
            let checking = Arc::clone(&progress);
            let checked = move |part| checking(OpenProgress::Checking(part));
            let reader = RedbReader::open(path, checked)?;
            let pages_checked = matches!(reader, RedbReader::Alone(_));
            Self::loaded(pages_checked, &*progress, |part| reader.load(part))
        })
    }

    /// Reads the contents of a journal, to which it writes nothing.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn read_journal(mut journal: impl Journal) -> Result<Self, OpenError> {
        guarded(Arc::new(|_| {}), |progress| {
            Self::loaded(false, &*progress, |part| journal.load(part))
        })
    }

    fn loaded(
        pages_checked: bool,
        progress: &dyn Fn(OpenProgress),
        load: impl FnOnce(
            &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
        ) -> Result<(), JournalError>,
    ) -> Result<Self, OpenError> {
        let mut loaded = LoadedParts::read(usize::MAX, progress, load)?;
        let (head, checkpoint) = loaded.assemble(Snapshot::default())?;
        let stored = loaded.replay(head, checkpoint.clone(), progress)?;
        Ok(Self {
            checkpoint,
            document: stored.document,
            commits: stored.log.records.commits().map(Arc::clone).collect(),
            pages_checked,
        })
    }

    /// Returns the document of the last version.
    pub fn document(&self) -> &Snapshot {
        &self.document
    }

    /// Returns the document of the last checkpoint.
    pub fn checkpoint(&self) -> &Snapshot {
        &self.checkpoint
    }

    /// Returns the versions that the file has, from the oldest to the last.
    pub fn versions(&self) -> RangeInclusive<u64> {
        let last = self.document.version();
        last - self.commits.len() as u64..=last
    }

    /// Returns the commits of the versions in a range, in order. Commits that the file does not
    /// have are left out.
    pub fn commits(&self, versions: impl RangeBounds<u64>) -> &[Arc<TransactionResult>] {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let before = |bound: u64| self.commits.partition_point(|it| it.version < bound);
        let until = |bound: u64| self.commits.partition_point(|it| it.version <= bound);
        let start = match versions.start_bound() {
            Included(version) => before(*version),
            Excluded(version) => until(*version),
            Unbounded => 0,
        };
        let end = match versions.end_bound() {
            Included(version) => until(*version),
            Excluded(version) => before(*version),
            Unbounded => self.commits.len(),
        };
        self.commits.get(start..end).unwrap_or_default()
    }

    /// Returns the document of a version: takes commits back from the checkpoint, or repeats later
    /// ones. Takes time in proportion to the changes of these commits.
    ///
    /// # Errors
    ///
    /// [`VersionError`].
    pub fn snapshot(&self, version: u64) -> Result<Snapshot, VersionError> {
        let versions = self.versions();
        if !versions.contains(&version) {
            return Err(VersionError::Missing {
                version,
                first: *versions.start(),
                last: *versions.end(),
            });
        }
        let stored = self.checkpoint.version();
        let mut document = self.checkpoint.clone();
        for commit in self.commits(version + 1..=stored).iter().rev() {
            let taken_back = document.take_back(&commit.changes);
            taken_back.map_err(|error| VersionError::differs(commit.version, error))?;
        }
        for commit in self.commits(stored + 1..=version) {
            let repeated = replay_commit(&mut document, commit);
            repeated.map_err(|error| VersionError::differs(commit.version, error))?;
        }
        Ok(document)
    }

    /// Checks that the log and the checkpoint agree.
    ///
    /// The commits before the checkpoint are taken back, and the integrity of the oldest version is
    /// checked. Then all commits are repeated, each through the checks of its changes. The version
    /// of the checkpoint must equal the checkpoint. The integrity of the last version is checked
    /// too.
    ///
    /// # Errors
    ///
    /// [`VersionError::Differs`] with the version at which the log and the document disagree.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, durable::DurableFile};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.doclock");
    /// let store = DataStore::open(&path)?;
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// transaction.commit()?;
    /// store.close()?;
    ///
    /// let report = DurableFile::read(&path)?.verify()?;
    /// assert_eq!((report.version, report.commits, report.nodes), (1, 0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(&self) -> Result<VerifyReport, VersionError> {
        let first_version = *self.versions().start();
        let mut document = self.snapshot(first_version)?;
        self.check_integrity(&document)?;
        self.compare_with_checkpoint(&document)?;
        for commit in &self.commits {
            let repeated = replay_commit(&mut document, commit);
            repeated.map_err(|error| VersionError::differs(commit.version, error))?;
            self.compare_with_checkpoint(&document)?;
        }
        self.check_integrity(&document)?;
        Ok(VerifyReport {
            first_version,
            checkpoint_version: self.checkpoint.version(),
            version: document.version(),
            commits: self.commits.len(),
            nodes: document.len(),
            pages_checked: self.pages_checked,
        })
    }

    fn check_integrity(&self, document: &Snapshot) -> Result<(), VersionError> {
        check(document).map_err(|error| VersionError::differs(document.version(), error))
    }

    /// Compares the document with the checkpoint, if it is of that version.
    fn compare_with_checkpoint(&self, document: &Snapshot) -> Result<(), VersionError> {
        let version = document.version();
        match version == self.checkpoint.version() && *document != self.checkpoint {
            true => Err(VersionError::differs(
                version,
                "the repeated commits make another document",
            )),
            false => Ok(()),
        }
    }

    /// Makes a file as small as it can be: moves the used pages to its beginning, and cuts the rest
    /// off. Returns the sizes before and after.
    ///
    /// Blocks until the file is written. The document is read and checked first, as by an open, and
    /// a file that is refused keeps every byte. The versions and the log stay. After a crash
    /// meanwhile, the file has the same contents.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. It is [`Locked`](OpenError::Locked) also if the store that has the file open
    /// allows readers.
    ///
    /// ```
    /// use doclock::{DataStore, durable::DurableFile};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.doclock");
    /// DataStore::open(&path)?.close()?;
    /// let report = DurableFile::compact(&path)?;
    /// assert!(report.bytes_after <= report.bytes_before);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn compact(path: impl AsRef<Path>) -> Result<CompactReport, OpenError> {
        let path = path.as_ref();
        guarded(Arc::new(|_| {}), |progress| {
            let (existing, readers) = (ExistingFile::Must, Readers::Refused);
            let check = |journal: &mut RedbJournal| {
                let mut loaded = LoadedParts::read(0, &*progress, |part| journal.load(part))?;
                let (head, checkpoint) = loaded.assemble(Snapshot::default())?;
                loaded.replay(head, checkpoint, &*progress)
            };
            let silent = reporting(|_| {});
            let (journal, _) = RedbJournal::open_existing(path, existing, readers, silent, check)?;
            let bytes_before = fs::metadata(path)?.len();
            journal.compact()?;
            let bytes_after = fs::metadata(path)?.len();
            Ok(CompactReport {
                bytes_before,
                bytes_after,
            })
        })
    }
}

impl fmt::Debug for DurableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableFile")
            .field("versions", &self.versions())
            .field("checkpoint", &self.checkpoint.version())
            .finish_non_exhaustive()
    }
}

/// What [`DurableFile::verify`] has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VerifyReport {
    /// The oldest version that the file has.
    pub first_version: u64,
    /// The version of the checkpoint.
    pub checkpoint_version: u64,
    /// The last version.
    pub version: u64,
    /// The number of repeated commits.
    pub commits: usize,
    /// The number of nodes of the last version.
    pub nodes: usize,
    /// Whether the checksums of all pages of the file were checked. They are not if another process
    /// has the file open, nor in another journal than a file. The checksums of the parts of the
    /// document are always checked.
    pub pages_checked: bool,
}

/// The sizes of a file before and after `DurableFile::compact`.
#[cfg(feature = "redb")]
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactReport {
    /// The number of bytes before.
    pub bytes_before: u64,
    /// The number of bytes after.
    pub bytes_after: u64,
}

/// Why a [`DurableFile`] cannot restore or verify a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VersionError {
    /// The file does not have the version.
    #[error("the file does not have version {version}: it has versions {first} to {last}")]
    Missing {
        /// The version.
        version: u64,
        /// The oldest version of the file.
        first: u64,
        /// The last version of the file.
        last: u64,
    },
    /// The log and the document disagree at this version.
    #[error("the log and the document disagree at version {version}: {message}")]
    Differs {
        /// The version.
        version: u64,
        /// The difference.
        message: String,
    },
}

codes! { VersionError {
    Self::Missing { version, first, last } => "versionMissing", 404;
    Self::Differs { version, message } => "versionDiffers" {
        version: version,
        reason: message,
    }, 500;
}}

impl VersionError {
    fn differs(version: u64, message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self::Differs { version, message }
    }
}
