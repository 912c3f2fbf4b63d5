//! The journal of a file: a redb database with three tables.
//!
//! One write is one redb transaction, which syncs the file once. redb never syncs the directory of
//! a new file, so this module does.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageBackend, TableDefinition, TableError, TableHandle,
};

use super::{Journal, JournalError, JournalErrorKind, JournalWrite, OpenError, StoredPart};
use crate::caught::catch;
use crate::id::random_session;

const HEAD: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("doclock-head");
const NODES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("doclock-nodes");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("doclock-log");

/// The key of the only entry of [`HEAD`].
const ONLY: &str = "head";

/// How much memory redb may use to cache the file. A store reads it only when it is opened.
const CACHE: usize = 16 << 20;

/// A [`Journal`] in a file, by the embedded database [redb](https://www.redb.org).
///
/// One [`write`](Journal::write) is one transaction of redb, with one sync of the file. The file is
/// locked while the journal exists, against other processes too where the platform has file locks.
#[derive(Debug)]
pub struct RedbJournal {
    database: Database,
}

/// Whether a file may, must or must not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    May,
    Must,
    MustNot,
}

impl RedbJournal {
    /// Opens the file, or creates it. Calls `repair` with the progress from 0 to 1 while redb
    /// repairs a file that was not closed.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. An existing file that is not one of doclock is left as it is.
    pub fn open(path: impl AsRef<Path>, repair: impl Fn(f64) + 'static) -> Result<Self, OpenError> {
        Self::open_existing(path.as_ref(), Existing::May, repair)
    }

    pub(super) fn open_existing(
        path: &Path,
        existing: Existing,
        repair: impl Fn(f64) + 'static,
    ) -> Result<Self, OpenError> {
        let found = match fs::metadata(path) {
            Ok(metadata) => Some(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        match (found, existing) {
            (Some(_), Existing::MustNot) => return Err(OpenError::Exists),
            (None, Existing::Must) => return Err(OpenError::Missing),
            (None, _) => match create_file(path) {
                // Another process was faster.
                Err(OpenError::Exists) if existing == Existing::May => {}
                created => created?,
            },
            _ => {}
        }
        let builder = builder(repair);
        let database = if found == Some(0) {
            guarded(|| builder.create(path))?
        } else {
            check_kind(path)?;
            guarded(|| builder.open(path))?
        };
        let journal = Self { database };
        journal.create_tables()?;
        // Also of a file whose creator was killed before it did so.
        sync_directory(path)?;
        Ok(journal)
    }

    /// Opens or creates a journal over another storage, for example a simulated disk.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn over(backend: impl StorageBackend) -> Result<Self, OpenError> {
        let database = guarded(|| builder(|_| {}).create_with_backend(backend))?;
        let journal = Self { database };
        journal.create_tables()?;
        Ok(journal)
    }

    /// Creates the tables of a new database.
    fn create_tables(&self) -> Result<(), OpenError> {
        let read = self.database.begin_read().map_err(failed)?;
        if !is_ours(&read).map_err(failed)? {
            return Err(OpenError::Foreign);
        }
        match read.open_table(HEAD) {
            Ok(_) => return Ok(()),
            Err(TableError::TableDoesNotExist(_)) => {}
            Err(error) => return Err(failed(error).into()),
        }
        drop(read);
        let transaction = self.database.begin_write().map_err(failed)?;
        transaction.open_table(HEAD).map_err(failed)?;
        transaction.open_table(NODES).map_err(failed)?;
        transaction.open_table(LOG).map_err(failed)?;
        Ok(transaction.commit().map_err(failed)?)
    }
}

impl Journal for RedbJournal {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let head = transaction.open_table(HEAD).map_err(failed)?;
        if let Some(head) = head.get(ONLY).map_err(failed)? {
            part(StoredPart::Head(head.value()))?;
        }
        let nodes = transaction.open_table(NODES).map_err(failed)?;
        for entry in nodes.iter().map_err(failed)? {
            let (_, node) = entry.map_err(failed)?;
            part(StoredPart::Node(node.value()))?;
        }
        let log = transaction.open_table(LOG).map_err(failed)?;
        for entry in log.iter().map_err(failed)? {
            let (version, record) = entry.map_err(failed)?;
            part(StoredPart::Record {
                version: version.value(),
                bytes: record.value(),
            })?;
        }
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        let JournalWrite {
            head,
            records,
            nodes,
            removed_through,
        } = write;
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction
            .set_durability(Durability::Immediate)
            .map_err(failed)?;
        if let Some(head) = head {
            let mut table = transaction.open_table(HEAD).map_err(failed)?;
            table.insert(ONLY, &**head).map_err(failed)?;
        }
        if !nodes.is_empty() {
            let mut table = transaction.open_table(NODES).map_err(failed)?;
            for (id, node) in nodes {
                match node {
                    Some(node) => drop(table.insert(&**id, &**node).map_err(failed)?),
                    None => drop(table.remove(&**id).map_err(failed)?),
                }
            }
        }
        if !records.is_empty() || removed_through.is_some() {
            let mut table = transaction.open_table(LOG).map_err(failed)?;
            for (version, record) in records {
                table.insert(version, &**record).map_err(failed)?;
            }
            if let Some(version) = removed_through {
                table
                    .retain_in::<u64, _>(..=*version, |_, _| false)
                    .map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }
}

fn builder(repair: impl Fn(f64) + 'static) -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    builder.set_repair_callback(move |session| repair(session.progress()));
    builder
}

/// Creates the file, whole: a process that is killed meanwhile leaves no part of it at the path.
fn create_file(path: &Path) -> Result<(), OpenError> {
    let name = path.file_name().ok_or(OpenError::Missing)?;
    let mut new = name.to_owned();
    new.push(format!(".new-{:x}", random_session()));
    let new = path.with_file_name(new);
    OpenOptions::new().write(true).create_new(true).open(&new)?;
    let made = guarded(|| builder(|_| {}).create(&new));
    let made = made.and_then(|database| RedbJournal { database }.create_tables());
    // Unlike a rename it replaces no file.
    let linked = made.and_then(|()| match fs::hard_link(&new, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(OpenError::Exists),
        linked => Ok(linked?),
    });
    let _ = fs::remove_file(&new);
    linked
}

/// Checks, without changing the file, that it is a database of doclock. A file that needs a repair
/// is checked after it.
fn check_kind(path: &Path) -> Result<(), OpenError> {
    let opened = guarded(|| match builder(|_| {}).open_read_only(path) {
        Err(DatabaseError::RepairAborted) => Ok(None),
        opened => opened.map(Some),
    });
    let Some(database) = opened? else {
        return Ok(());
    };
    let is_ours = guarded(|| is_ours(&database.begin_read()?));
    match is_ours? {
        true => Ok(()),
        false => Err(OpenError::Foreign),
    }
}

/// Whether a database is one of doclock, or one without tables, which was just created.
fn is_ours(transaction: &ReadTransaction) -> Result<bool, redb::Error> {
    let first = transaction.list_tables()?.next();
    let first = first.map(|table| table.name().to_owned());
    let others = transaction.list_multimap_tables()?.count();
    Ok(others == 0 && first.is_none_or(|first| first.starts_with("doclock-")))
}

/// Makes the entry of a new file in its directory survive a power cut.
fn sync_directory(path: &Path) -> Result<(), OpenError> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    // Elsewhere a directory cannot be opened as a file, and the file system syncs the entry.
    if cfg!(unix) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
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
        redb::Error::Io(error) => error.into(),
        redb::Error::Corrupted(message) => OpenError::Corrupt(JournalError::corrupt(message)),
        error => OpenError::Journal(failed(error)),
    }
}

fn failed(error: impl Into<redb::Error>) -> JournalError {
    match error.into() {
        redb::Error::Io(error) => error.into(),
        redb::Error::Corrupted(message) => JournalError::corrupt(message),
        error => JournalError::new(JournalErrorKind::Io, error),
    }
}
