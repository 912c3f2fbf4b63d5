//! Files that are read and stay as they are.

use std::fs::File;
use std::path::Path;

use redb::backends::FileBackend;
use redb::{Database, ReadOnlyDatabase, ReadableDatabase};

use super::{
    CACHE, FilePlace, HeldStorage, Readers, RedbJournal, failed, find, guarded, is_ours, load,
    reporting,
};
use crate::store::durable::{JournalError, OpenError, StoredPart};

/// A file that is open for reading.
pub(in crate::store::durable) enum RedbReader {
    /// No process writes to it. All of its pages are checked, and repaired in memory.
    Alone(RedbJournal),
    /// Another process writes to it, and allows readers.
    Beside(ReadOnlyDatabase),
}

impl RedbReader {
    pub(in crate::store::durable) fn open(
        path: &Path,
        progress: impl Fn(f64) + 'static,
    ) -> Result<Self, OpenError> {
        find(path)?;
        let open = || guarded(|| FileBackend::new(File::open(path)?));
        let storage = HeldStorage::of_read_file(open()?)?;
        match RedbJournal::open_held(storage, Readers::Refused, reporting(progress)) {
            Err(OpenError::Locked) if !FilePlace::is_opening(path)? => {
                beside(open()?).map(Self::Beside)
            }
            opened => opened.map(Self::Alone),
        }
    }

    pub(in crate::store::durable) fn load(
        &self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        match self {
            Self::Alone(journal) => load(journal.database()?, part),
            Self::Beside(database) => load(database, part),
        }
    }
}

/// Opens a file beside the process that writes to it.
fn beside(backend: FileBackend) -> Result<ReadOnlyDatabase, OpenError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    builder.set_concurrency_mode(Readers::Allowed.mode());
    let database = guarded(|| match builder.open_read_only_with_backend(backend) {
        // The process has ended since the first try, or is about to begin.
        Err(redb::DatabaseError::RepairAborted) => Err(redb::DatabaseError::DatabaseAlreadyOpen),
        opened => opened,
    })?;
    let transaction = database.begin_read().map_err(failed)?;
    match is_ours(&transaction).map_err(failed)? {
        true => Ok(database),
        false => Err(OpenError::Foreign),
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../../../tests/unit/durable_redb_read.rs"]
mod tests;
