//! What stores a document durably.

use std::fmt;
use std::io;

use serde::Serialize;
use smol_str::SmolStr;

use crate::codes::codes;
use crate::store::TransactionResult;

/// Stores the commits of a document durably.
///
/// A journal stores two things, both as bytes: the entries of the last checkpoint by their keys,
/// and the blocks of the log by their numbers. It need not understand them. A block has the commits
/// of one write.
///
/// The store calls a journal from one thread at a time: [`load`](Self::load) at first, or
/// [`load_after`](Self::load_after) if nodes are read before the load, then
/// [`write`](Self::write) as often as commits arrive, in a thread for journals or in one that
/// commits or closes the store. After an error or a panic it does not call the journal again, but
/// for one of a read before the load that its callback has not returned. A journal must not commit
/// to its store, because that commit would wait for itself.
///
/// [`RedbJournal`](super::RedbJournal) is the journal of [`DataStore::open`]. The function
/// [`check_journal`](super::check_journal) is the contract as a test, for a journal of your own.
///
/// [`DataStore::open`]: crate::DataStore::open
pub trait Journal: Send + 'static {
    /// Loads what is stored: calls `part` with each entry, in any order, then with each block in
    /// ascending order of the numbers. All parts are those of one moment, also if another process
    /// writes meanwhile.
    ///
    /// # Errors
    ///
    /// The error of `part`, or [`JournalError`] if the journal cannot be read.
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>;

    /// Loads what was stored after a block: calls `part` with the entry of this key, if there is
    /// one, then with each block of a greater number in ascending order. All parts are those of
    /// one moment. It can be called before and after the other methods.
    ///
    /// By default it calls [`load`](Self::load) and leaves out the other parts. A journal that many
    /// replicas follow should read only these parts, and so should one of which nodes are read
    /// [before the load](super::DurableOptions::before_load): each read is a call with the largest
    /// number, so without blocks.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    fn load_after(
        &mut self,
        block: u64,
        key: &str,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.load(&mut |stored| match stored {
            StoredPart::Entry { key: found, .. } if found != key => Ok(()),
            StoredPart::Block { number, .. } if number <= block => Ok(()),
            stored => part(stored),
        })
    }

    /// Writes all parts of a write or none of them. When it returns `Ok`, they survive a power cut.
    ///
    /// It must not commit or take leases in the store that it writes for: these calls can wait for
    /// this write.
    ///
    /// # Errors
    ///
    /// [`JournalError`]. The parts may have been written or not, unless the error says that it
    /// [stored nothing](JournalError::stored_nothing). The store becomes read-only.
    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError>;

    /// Ends the journal. The store calls it once, after its last write, when it is closed or its
    /// last handle is dropped, and drops the journal then. It is not called after an error or a
    /// panic.
    ///
    /// By default it does nothing.
    ///
    /// # Errors
    ///
    /// [`JournalError`], if the end of the journal could not be written. All writes before are
    /// durable.
    fn close(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Returns the epoch of the owner's term, if several machines can own the document one after
    /// the other. The default is `None`.
    ///
    /// Each term must have a greater epoch than all terms before. An open reads the epoch before
    /// its first write. The open gets this number, or one more than that of the open before if that
    /// is greater. It is the upper part of all fencing tokens of the open: [`FencingToken::epoch`].
    ///
    /// The largest number is [`LARGEST_EPOCH`]. Beyond it, an open fails with
    /// [`OpenError::EpochTooLarge`].
    ///
    /// [`FencingToken::epoch`]: crate::FencingToken::epoch
    /// [`LARGEST_EPOCH`]: super::LARGEST_EPOCH
    /// [`OpenError::EpochTooLarge`]: super::OpenError::EpochTooLarge
    fn epoch(&self) -> Option<u64> {
        None
    }

    /// Returns whether [`write`](Self::write) reads [`JournalWrite::receipts`]. They are copies, so
    /// a journal that only stores the bytes should return `false`. The store calls this once,
    /// when it opens. The default is `true`.
    fn reads_receipts(&self) -> bool {
        true
    }
}

/// A stored part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredPart<'a> {
    /// An entry of the checkpoint.
    Entry {
        /// The key.
        key: &'a str,
        /// The entry.
        bytes: &'a [u8],
    },
    /// A block of the log.
    Block {
        /// The number.
        number: u64,
        /// The block.
        bytes: &'a [u8],
    },
}

/// What a journal writes in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalWrite {
    /// The changed entries of the checkpoint by their keys; `None` for a removed one.
    pub entries: Vec<(String, Option<Vec<u8>>)>,
    /// A new block of the log, with its number. Numbers ascend.
    pub block: Option<(u64, Vec<u8>)>,
    /// The blocks up to this number are removed.
    pub removed_through: Option<u64>,
    /// The version of the document with all commits that are written then. It need not be stored.
    pub version: u64,
    /// The receipts that the block records, in their order: the outcomes of transactions with an
    /// idempotency key. They are in the bytes of the block too, so they need not be stored. A
    /// journal can store the outcome of a request with them, in the same write as its commit. Empty
    /// if the journal [does not read them](Journal::reads_receipts).
    pub receipts: Vec<WrittenReceipt>,
}

/// The receipt of a transaction with an idempotency key, as a write records it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenReceipt {
    /// The idempotency key.
    pub key: SmolStr,
    /// Identifies the operation batch by its content: another batch under the same key has another
    /// digest.
    pub digest: u128,
    /// The result that a repetition of the transaction returns. It is marked as repeated and has
    /// no changes.
    pub result: TransactionResult,
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
    /// Whether it is certain that nothing of the write is stored, and never will be. So it is with
    /// [`Fenced`](JournalErrorKind::Fenced).
    pub stored_nothing: bool,
}

codes! { JournalError {
    Self { kind, message, stored_nothing } => "journal" {
        kind: kind, reason: message, stored_nothing: stored_nothing
    }, 500;
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
    /// The stored bytes are not what was written. See [when the file is
    /// damaged](crate::guide::damaged).
    Corrupt,
    /// The journal panicked.
    Panic,
    /// Another owner has the document. The write has changed nothing, and neither will a later one.
    Fenced,
    /// The file is not at its path any more: it was removed, another one replaced it, or it was cut
    /// off. What is written to it would not be found again.
    Moved,
}

impl fmt::Display for JournalErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "reading or writing failed",
            Self::Full => "the disk is full",
            Self::Corrupt => "the stored bytes are damaged",
            Self::Panic => "the journal panicked",
            Self::Fenced => "another owner has the document",
            Self::Moved => "the file is not at its path any more",
        })
    }
}

impl JournalError {
    /// Creates an error.
    pub fn new(kind: JournalErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
            stored_nothing: kind == JournalErrorKind::Fenced,
        }
    }

    /// Says that nothing of the write is stored, and never will be. The commits that wait for it
    /// then fail with [`CommitError::NotStored`](crate::CommitError::NotStored).
    #[must_use]
    pub fn storing_nothing(self) -> Self {
        Self {
            stored_nothing: true,
            ..self
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

#[cfg(all(test, not(loom)))]
#[path = "../../../tests/unit/durable_journal.rs"]
pub(super) mod forgetful;
