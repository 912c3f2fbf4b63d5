//! The journal of a file: a redb database with two tables.
//!
//! One write is one redb transaction, which syncs the file once. redb never syncs the directory of
//! a new file, so this module does. redb also writes when it opens a file, and when it closes one
//! that was refused: all that is [held back](HeldStorage) until the first write of the store, which
//! comes after the whole document was checked.
//!
//! A write that a power cut has torn is found and rolled back by redb, in [`open_storage`]: nothing
//! here sees it. What is wrong within whole pages is found where their values are decoded
//! ([`decode`](super::format::decode)).

mod held;
mod lookup;
mod place;
mod read;

use std::cell::OnceCell;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use held::HeldStorage;
pub(super) use lookup::{FilePages, reporting};
pub(crate) use place::find;
use place::{FilePlace, folder_of, is_missing, missing, target_of};
pub(super) use read::RedbReader;
use redb::backends::FileBackend;
use redb::{
    ConcurrencyMode, Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageBackend, TableDefinition, TableError, TableHandle,
};

use super::{Journal, JournalError, JournalErrorKind, JournalWrite, OpenError, StoredPart};
use crate::caught::catch;
use crate::id::random_session;

/// The names of the tables, in their order.
pub(super) const TABLES: [&str; 2] = ["doclock-blocks", "doclock-entries"];
const BLOCKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new(TABLES[0]);
const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new(TABLES[1]);

/// How the name of a file begins and ends that is being created.
const UNFINISHED: &str = ".doclock-";
const NEW: &str = ".new";

/// How much memory redb may use to cache the file. A store reads it only when it is opened.
const CACHE: usize = 16 << 20;

/// A [`Journal`] in a file, by the embedded database [redb](https://www.redb.org).
///
/// One [`write`](Journal::write) is one transaction of redb, with one sync of the file. The file is
/// locked while the journal exists, against other processes too where the platform has file locks.
#[derive(Debug)]
pub struct RedbJournal {
    /// `None` after the close.
    database: Option<Database>,
    storage: HeldStorage,
    readers: Readers,
    /// `None` over another storage than a file.
    place: Option<FilePlace>,
}

/// Whether a file may, must or must not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExistingFile {
    May,
    Must,
    MustNot,
}

/// Whether other processes may read a file while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    Refused,
    Allowed,
}

impl Readers {
    fn mode(self) -> ConcurrencyMode {
        match self {
            Self::Refused => ConcurrencyMode::ExclusiveWriter,
            Self::Allowed => ConcurrencyMode::SingleWriter,
        }
    }
}

impl RedbJournal {
    /// Opens the file, or creates it. Calls `progress` with the part from 0 to 1 that is
    /// done, while redb checks the file, and repairs it if it was not closed.
    ///
    /// An existing file stays as it is until the first [`write`](Journal::write).
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open(
        path: impl AsRef<Path>,
        progress: impl Fn(f64) + 'static,
    ) -> Result<Self, OpenError> {
        let (existing, readers) = (ExistingFile::May, Readers::Refused);
        let checking = reporting(progress);
        let opened = Self::open_existing(path.as_ref(), existing, readers, checking, |_| Ok(()));
        opened.map(|(journal, ())| journal)
    }

    /// Opens or creates a file, and lets the caller begin with the journal. What `begin` writes to
    /// a new file is in it before it is at its path. Called again if another process was faster.
    ///
    /// While the file is checked, `checking` is called with the part that is done: first with zero,
    /// when the file is locked and no page is read. Its error ends the open.
    pub(super) fn open_existing<R>(
        path: &Path,
        existing: ExistingFile,
        readers: Readers,
        checking: impl Fn(FilePages<'_>, f64) -> Result<(), OpenError> + 'static,
        mut begin: impl FnMut(&mut Self) -> Result<R, OpenError>,
    ) -> Result<(Self, R), OpenError> {
        match (fs::metadata(path), existing) {
            (Ok(_), ExistingFile::MustNot) => return Err(OpenError::Exists),
            (Ok(found), _) => check_kind(&found)?,
            (Err(error), _) if !is_missing(&error) => return Err(error.into()),
            (Err(_), ExistingFile::Must) => return Err(missing(path)),
            // A link to no file creates the file, as for other programs.
            (Err(_), _) => match Self::create(&target_of(path), readers, &mut begin) {
                // Another process was faster.
                Err(OpenError::Exists) if existing == ExistingFile::May => {}
                created => return created,
            },
        }
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let place = FilePlace::of(path, &file)?;
        let _opens = place.opens();
        let backend = guarded(|| FileBackend::new(file))?;
        let mut journal = Self::open_storage(backend, readers, checking)?;
        journal.place = Some(place);
        // Also of a file whose creator was killed before it did so.
        sync_directory(&target_of(path))?;
        let begun = begin(&mut journal)?;
        Ok((journal, begun))
    }

    /// Creates a file and keeps it open: a close would have to sync it again.
    fn create<R>(
        path: &Path,
        readers: Readers,
        begin: impl FnOnce(&mut Self) -> Result<R, OpenError>,
    ) -> Result<(Self, R), OpenError> {
        let (mut journal, begun) = create_file(path, |file| {
            let mut journal = Self::in_new_file(file, readers)?;
            let begun = begin(&mut journal)?;
            journal.storage.finish()?;
            Ok((journal, begun))
        })?;
        // By its path: some file systems number the files of two names differently.
        journal.place = Some(FilePlace::of(path, &File::open(path)?)?);
        Ok((journal, begun))
    }

    /// Creates a database in a file that is not at its path yet.
    fn in_new_file(file: File, readers: Readers) -> Result<Self, OpenError> {
        let backend = guarded(|| FileBackend::new(file))?;
        Self::open_held(
            HeldStorage::of_new_file(backend)?,
            readers,
            reporting(|_| {}),
        )
    }

    /// Opens or creates a journal over another storage, for example a simulated disk. The storage
    /// stays as it is until the first [`write`](Journal::write). If this is interrupted while it
    /// creates the database, the storage can be [`Foreign`](OpenError::Foreign) from then on.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn over(backend: impl StorageBackend) -> Result<Self, OpenError> {
        Self::open_storage(backend, Readers::Refused, reporting(|_| {}))
    }

    fn open_storage(
        backend: impl StorageBackend,
        readers: Readers,
        checking: impl Fn(FilePages<'_>, f64) -> Result<(), OpenError> + 'static,
    ) -> Result<Self, OpenError> {
        let storage = guarded(|| HeldStorage::new(backend))?;
        Self::open_held(storage, readers, checking)
    }

    fn open_held(
        storage: HeldStorage,
        readers: Readers,
        checking: impl Fn(FilePages<'_>, f64) -> Result<(), OpenError> + 'static,
    ) -> Result<Self, OpenError> {
        let ended = Rc::new(OnceCell::new());
        let (pages, end) = (storage.clone(), Rc::clone(&ended));
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        builder.set_concurrency_mode(readers.mode());
        // Otherwise only a file that was not closed is checked.
        builder.set_check_integrity_on_open(true);
        builder.set_repair_callback(move |session| {
            if let Err(error) = checking(FilePages(&pages), session.progress()) {
                let _ = end.set(error);
                session.abort();
            }
        });
        let opened = guarded(|| builder.create_with_backend(storage.clone()));
        let database = match ended.get() {
            Some(error) => return Err(OpenError::clone(error)),
            None => opened?,
        };
        create_tables(&database)?;
        Ok(Self {
            database: Some(database),
            storage,
            readers,
            place: None,
        })
    }

    fn database(&self) -> Result<&Database, JournalError> {
        self.database.as_ref().ok_or_else(closed)
    }

    /// Moves the used pages of the file to its beginning, cuts the rest off, and closes the file.
    pub(super) fn compact(self) -> Result<(), JournalError> {
        let mut database = self.database.ok_or_else(closed)?;
        self.storage.release()?;
        database.compact().map_err(failed)?;
        database.close().map_err(failed)
    }
}

/// A new document is never empty: an empty file may be one that was truncated.
fn check_kind(found: &Metadata) -> Result<(), OpenError> {
    match found.is_file() && found.len() > 0 {
        true => Ok(()),
        false => Err(OpenError::Foreign),
    }
}

/// Creates the tables of a new database.
fn create_tables(database: &Database) -> Result<(), OpenError> {
    let read = database.begin_read().map_err(failed)?;
    if !is_ours(&read).map_err(failed)? {
        return Err(OpenError::Foreign);
    }
    match read.open_table(ENTRIES) {
        Ok(_) => return Ok(()),
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(failed(error).into()),
    }
    drop(read);
    let transaction = database.begin_write().map_err(failed)?;
    transaction.open_table(ENTRIES).map_err(failed)?;
    transaction.open_table(BLOCKS).map_err(failed)?;
    Ok(transaction.commit().map_err(failed)?)
}

impl Journal for RedbJournal {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        load(self.database()?, part)
    }

    fn load_after(
        &mut self,
        block: u64,
        key: &str,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.database()?;
        FilePages(&self.storage).load_after(block, key, part)
    }

    fn reads_receipts(&self) -> bool {
        false
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        if let Some(place) = &self.place {
            place.check(self.storage.given_len())?;
        }
        self.storage.release()?;
        write_to(self.database()?, write)
    }

    fn close(&mut self) -> Result<(), JournalError> {
        if let Some(place) = &self.place {
            place.check(self.storage.given_len())?;
        }
        if self.readers == Readers::Refused {
            self.storage.begin_close();
        }
        match self.database.take() {
            Some(database) => database.close().map_err(failed),
            None => Ok(()),
        }
    }
}

fn closed() -> JournalError {
    JournalError::new(JournalErrorKind::Io, "the journal is closed")
}

/// Writes in one transaction, which is durable then.
fn write_to(database: &Database, write: &JournalWrite) -> Result<(), JournalError> {
    let JournalWrite {
        entries,
        block,
        removed_through,
        version: _,
        receipts: _,
    } = write;
    let mut transaction = database.begin_write().map_err(failed)?;
    transaction
        .set_durability(Durability::Immediate)
        .map_err(failed)?;
    if !entries.is_empty() {
        let mut table = transaction.open_table(ENTRIES).map_err(failed)?;
        for (key, entry) in entries {
            match entry {
                Some(entry) => drop(table.insert(&**key, &**entry).map_err(failed)?),
                None => drop(table.remove(&**key).map_err(failed)?),
            }
        }
    }
    if block.is_some() || removed_through.is_some() {
        let mut table = transaction.open_table(BLOCKS).map_err(failed)?;
        if let Some((number, block)) = block {
            table.insert(number, &**block).map_err(failed)?;
        }
        if let Some(number) = removed_through {
            table
                .retain_in::<u64, _>(..=*number, |_, _| false)
                .map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)
}

/// Passes on all parts, as of one commit.
fn load(
    database: &impl ReadableDatabase,
    part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let transaction = database.begin_read().map_err(failed)?;
    let entries = transaction.open_table(ENTRIES).map_err(failed)?;
    for entry in entries.iter().map_err(failed)? {
        let (key, entry) = entry.map_err(failed)?;
        part(StoredPart::Entry {
            key: key.value(),
            bytes: entry.value(),
        })?;
    }
    let blocks = transaction.open_table(BLOCKS).map_err(failed)?;
    for block in blocks.iter().map_err(failed)? {
        let (number, block) = block.map_err(failed)?;
        part(StoredPart::Block {
            number: number.value(),
            bytes: block.value(),
        })?;
    }
    Ok(())
}

/// Creates the file of a document with this content, which is durable then.
pub(super) fn create_with(path: &Path, content: &JournalWrite) -> Result<(), OpenError> {
    create_file(path, |file| {
        let journal = RedbJournal::in_new_file(file, Readers::Refused)?;
        let database = journal.database.ok_or_else(closed)?;
        write_to(&database, content)?;
        Ok(database.close().map_err(failed)?)
    })
}

/// Creates a file whole, as `make` fills and syncs it: neither an error nor a process that is
/// killed meanwhile leaves a part of it at the path.
fn create_file<R>(
    path: &Path,
    make: impl FnOnce(File) -> Result<R, OpenError>,
) -> Result<R, OpenError> {
    if path.file_name().is_none() {
        return Err(OpenError::Missing);
    }
    let folder = folder_of(path);
    match fs::metadata(&folder) {
        Ok(found) if found.is_dir() => {}
        Err(error) if !is_missing(&error) => return Err(error.into()),
        _ => return Err(missing(path)),
    }
    // A folder that cannot be opened gets no file.
    let directory = open_directory(path)?;
    remove_abandoned(&folder);
    // Its length does not depend on that of the other name, which may be the longest possible.
    let new = format!("{UNFINISHED}{:x}{NEW}", random_session());
    let new = path.with_file_name(new);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(&new)?;
    let new = UnfinishedFile(new);
    let made = make(file)?;
    // Unlike a rename it replaces no file.
    match fs::hard_link(&new.0, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(OpenError::Exists);
        }
        // Some file systems have no links. There another process may create the file meanwhile.
        Err(_) if !path.exists() => fs::rename(&new.0, path)?,
        linked => linked?,
    }
    drop(new);
    let synced = directory.map_or(Ok(()), |it| it.sync_all());
    synced.inspect_err(|_| drop(fs::remove_file(path)))?;
    Ok(made)
}

/// Removes a file under its first name when it is dropped, also in a panic.
struct UnfinishedFile(PathBuf);

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes the unfinished files of processes that were killed while they created a document. One
/// that is being written is younger.
fn remove_abandoned(folder: &Path) {
    const OLD: Duration = Duration::from_secs(3600);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !is_unfinished(&name.to_string_lossy()) {
            continue;
        }
        let modified = entry.metadata().and_then(|found| found.modified());
        let age = modified.ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > OLD) {
            // Another process may do the same.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a file has a name that [`create_file`] gives, of a number that is not zero.
fn is_unfinished(name: &str) -> bool {
    let number = name.strip_prefix(UNFINISHED);
    let number = number.and_then(|rest| rest.strip_suffix(NEW));
    let digits = number.filter(|it| (1..=8).contains(&it.len()) && !it.starts_with('0'));
    digits.is_some_and(|it| {
        it.bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Whether a database is one of doclock, or one without tables, which was just created.
fn is_ours(transaction: &ReadTransaction) -> Result<bool, redb::Error> {
    let first = transaction.list_tables()?.next();
    let first = first.map(|table| table.name().to_owned());
    let others = transaction.list_multimap_tables()?.count();
    Ok(others == 0 && first.is_none_or(|first| first.starts_with("doclock-")))
}

/// Makes the entry of a new file in its directory survive a power cut.
fn sync_directory(path: &Path) -> io::Result<()> {
    open_directory(path)?.map_or(Ok(()), |directory| directory.sync_all())
}

/// Opens the directory of a file, to sync it.
fn open_directory(path: &Path) -> io::Result<Option<File>> {
    // Elsewhere a directory cannot be opened as a file, and the file system syncs the entry.
    let opened = cfg!(unix).then(|| File::open(folder_of(path)));
    opened.transpose()
}

/// Opens a database. redb panics on some damaged files.
fn guarded<T, E: Into<redb::Error>>(open: impl FnOnce() -> Result<T, E>) -> Result<T, OpenError> {
    match catch(open) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) => Err(refused(error.into())),
        Err(panic) => {
            let message = panic.message().unwrap_or("redb panicked").to_owned();
            Err(OpenError::Corrupt(JournalError::corrupt(message)))
        }
    }
}

fn refused(error: redb::Error) -> OpenError {
    match error {
        redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => OpenError::Locked,
        redb::Error::UpgradeRequired(_) => OpenError::Foreign,
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => OpenError::Foreign,
        redb::Error::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => error.into(),
        error => failed(error).into(),
    }
}

fn failed(error: impl Into<redb::Error>) -> JournalError {
    match error.into() {
        redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            JournalError::corrupt("the file is truncated")
        }
        redb::Error::Io(error) => error.into(),
        redb::Error::Corrupted(message) => JournalError::corrupt(message),
        error => JournalError::new(JournalErrorKind::Io, error),
    }
}
