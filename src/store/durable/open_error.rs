//! Why a durable document is not opened.

use std::io;

use super::JournalError;
use super::format::{FORMAT, Unreadable};
use crate::codes::{Retry, codes};
use crate::document::AssemblyError;
use crate::document::schema::SchemaViolation;

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
    #[error("the document is stored in format {found}, and formats up to {known} are known")]
    Newer {
        /// The format of the document.
        found: u8,
        /// The last format that this version reads.
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
    /// The number of the open, or the [epoch](super::Journal::epoch) of its journal, has no room in
    /// a fencing token.
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
