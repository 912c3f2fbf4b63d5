//! A journal in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use doclock::DataStore;
use doclock::durable::{
    DurableOptions, Journal, JournalError, JournalErrorKind, JournalWrite, StoredPart,
    WrittenReceipt,
};

/// A journal in memory. A test reads what it stores, and makes a write fail.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Stored>>);

#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) entries: BTreeMap<String, Vec<u8>>,
    pub(crate) blocks: BTreeMap<u64, Vec<u8>>,
    /// The receipts of all writes.
    pub(crate) receipts: Vec<WrittenReceipt>,
    /// Whether the journal does not read them.
    pub(crate) leaves_receipts: bool,
    epoch: Option<u64>,
    writes: usize,
    fails_at: Option<(usize, Failure)>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Failure {
    /// Nothing is written.
    Before,
    /// All is written, and the sync fails.
    After,
    Panic,
    /// Nothing is written, for certain.
    Refused,
    /// Nothing is written, because another owner has the document.
    Fenced,
}

impl Journal for Memory {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let stored = self.stored();
        for (key, bytes) in &stored.entries {
            part(StoredPart::Entry { key, bytes })?;
        }
        for (number, bytes) in &stored.blocks {
            let number = *number;
            part(StoredPart::Block { number, bytes })?;
        }
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        let mut stored = self.stored();
        stored.writes += 1;
        let failure = stored.fails_at.filter(|(at, _)| *at <= stored.writes);
        let failure = failure.map(|(_, failure)| failure);
        if failure == Some(Failure::Panic) {
            panic!("the journal gives up");
        }
        let error = JournalError::new(JournalErrorKind::Io, "the disk is gone");
        match failure {
            Some(Failure::Before) => return Err(error),
            Some(Failure::Refused) => return Err(error.storing_nothing()),
            Some(Failure::Fenced) => {
                let kind = JournalErrorKind::Fenced;
                return Err(JournalError::new(kind, "the term has ended"));
            }
            _ => {}
        }
        stored.receipts.extend(write.receipts.iter().cloned());
        for (key, entry) in write.entries.clone() {
            match entry {
                Some(entry) => drop(stored.entries.insert(key, entry)),
                None => drop(stored.entries.remove(&key)),
            }
        }
        stored.blocks.extend(write.block.clone());
        if let Some(removed) = write.removed_through {
            stored.blocks.retain(|number, _| *number > removed);
        }
        match failure {
            None => Ok(()),
            Some(_) => Err(error),
        }
    }

    fn epoch(&self) -> Option<u64> {
        self.stored().epoch
    }

    fn reads_receipts(&self) -> bool {
        !self.stored().leaves_receipts
    }
}

impl Memory {
    pub(crate) fn open(&self, options: DurableOptions) -> DataStore {
        DataStore::open_journal(self.clone(), options).unwrap()
    }

    /// What is stored now, as another journal.
    pub(crate) fn copy(&self) -> Self {
        let stored = self.stored();
        Self(Arc::new(Mutex::new(Stored {
            entries: stored.entries.clone(),
            blocks: stored.blocks.clone(),
            ..Stored::default()
        })))
    }

    /// The owner's term has this epoch from now on.
    pub(crate) fn set_epoch(&self, epoch: impl Into<Option<u64>>) {
        self.stored().epoch = epoch.into();
    }

    pub(crate) fn fail_at(&self, write: usize, failure: Failure) {
        self.stored().fails_at = Some((write, failure));
    }

    /// No further write fails.
    pub(crate) fn mend(&self) {
        self.stored().fails_at = None;
    }

    pub(crate) fn writes(&self) -> usize {
        self.stored().writes
    }

    /// Also after a panic under the mutex.
    pub(crate) fn stored(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
