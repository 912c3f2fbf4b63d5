//! What stores a document durably.

use std::fmt;
use std::io;

use serde::Serialize;

use crate::codes::codes;

/// Stores the commits of a document durably.
///
/// A journal stores three things, all of them as bytes: a head, the nodes of a checkpoint by their
/// ids, and the records of later commits by their versions. It need not understand them.
///
/// The store calls a journal from one thread at a time: [`load`](Self::load) once, then
/// [`write`](Self::write) from a thread of its own, as often as commits arrive. After an error or a
/// panic it does not call the journal again.
///
/// [`RedbJournal`](super::RedbJournal) is the journal of [`DataStore::open`]. The function
/// [`check_journal`](super::check_journal) is the contract as a test, for a journal of your own.
///
/// [`DataStore::open`]: crate::DataStore::open
pub trait Journal: Send + 'static {
    /// Loads what is stored: calls `part` with the head, if there is one, then with each node of
    /// the checkpoint, then with each record in ascending order of the versions.
    ///
    /// # Errors
    ///
    /// The error of `part`, or [`JournalError`] if the journal cannot be read.
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>;

    /// Writes all parts of a write or none of them. When it returns `Ok`, they survive a power cut.
    ///
    /// # Errors
    ///
    /// [`JournalError`]. The parts may have been written or not. The store becomes read-only.
    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError>;
}

/// A stored part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredPart<'a> {
    /// The head.
    Head(&'a [u8]),
    /// A node of the checkpoint.
    Node(&'a [u8]),
    /// The record of a commit.
    Record {
        /// The version that the commit made.
        version: u64,
        /// The commit.
        bytes: &'a [u8],
    },
}

/// What a journal writes in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalWrite {
    /// The new head, in place of the one before; `None` if it stays.
    pub head: Option<Vec<u8>>,
    /// The new records, each with its version, in ascending order.
    pub records: Vec<(u64, Vec<u8>)>,
    /// The changed nodes of the checkpoint by their ids; `None` for a deleted one.
    pub nodes: Vec<(String, Option<Vec<u8>>)>,
    /// The records up to this version are removed.
    pub removed_through: Option<u64>,
}

/// An error of a journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
#[non_exhaustive]
pub struct JournalError {
    /// What failed.
    pub kind: JournalErrorKind,
    /// The message of the cause.
    pub message: String,
}

codes! { JournalError {
    Self { kind, message } => "journal" { kind: kind, reason: message };
}}

/// What failed in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum JournalErrorKind {
    /// Reading, writing or syncing.
    Io,
    /// There is no room left on the disk.
    Full,
    /// The stored bytes are not what was written.
    Corrupt,
    /// The journal panicked.
    Panic,
}

impl fmt::Display for JournalErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "reading or writing failed",
            Self::Full => "the disk is full",
            Self::Corrupt => "the stored bytes are damaged",
            Self::Panic => "the journal panicked",
        })
    }
}

impl JournalError {
    /// Creates an error.
    pub fn new(kind: JournalErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
        }
    }

    pub(super) fn corrupt(message: impl fmt::Display) -> Self {
        Self::new(JournalErrorKind::Corrupt, message)
    }
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => JournalErrorKind::Full,
            _ => JournalErrorKind::Io,
        };
        Self::new(kind, error)
    }
}
