//! Why a document of a pool was not opened or closed.

use std::error::Error;
use std::io;
use std::time::Duration;

use doclock_common::show::Millis;

use crate::brief::Brief;
use crate::codes::{Retry, codes, retry_of};
use crate::durable::{DurabilityError, OpenError};
use crate::lock::LockError;
use crate::lock::limiter::LimiterError;
use crate::millis;

/// Why a request to a pool failed. The pool is as before: the request holds neither a name nor a
/// slot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The name is refused. Nothing was waited for, and no other document was closed.
    #[error("{name:?} is not the name of a document: {reason}", name = Brief(.name))]
    Name {
        /// The name.
        name: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// The request ended while another request or the pool opened or closed the same document.
    #[error("document {name} is being opened or closed: {cause}", name = Brief(.name))]
    Busy {
        /// The name of the document.
        name: String,
        /// How long the request waited, for this and before it.
        waited: Duration,
        /// The wait that ended.
        cause: Box<LockError>,
    },
    /// The request ended while as many documents were in use as may be open.
    #[error(
        "document {name} was not opened within {waited}, because all {most_open} documents that \
         may be open are in use: {cause}",
        name = Brief(.name),
        waited = Millis(*.waited)
    )]
    AllInUse {
        /// The name of the document.
        name: String,
        /// How many documents may be open.
        most_open: usize,
        /// How long the request waited, for this and before it.
        waited: Duration,
        /// The wait that ended.
        cause: Box<LimiterError>,
    },
    /// The wait for the name was cancelled, or it would have been a wait of the thread for itself,
    /// or a task cannot wait.
    #[error(transparent)]
    Lock(LockError),
    /// The wait for a slot was cancelled, or a task cannot wait.
    #[error(transparent)]
    Slot(LimiterError),
    /// The document was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The opener of the pool returned an error of the program.
    #[error("document {name} was not opened: {cause}", name = Brief(.name))]
    Opener {
        /// The name of the document.
        name: String,
        /// The error.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The document is not closed, because it is in use.
    #[error("document {name} is not closed, because it is in use: uses {uses}", name = Brief(.name))]
    InUse {
        /// The name of the document.
        name: String,
        /// How many [`Document`](super::Document)s of it exist.
        uses: usize,
    },
    /// The document is closed, and its journal failed before all commits were stored.
    #[error("the close of document {name} failed: {cause}", name = Brief(.name))]
    Close {
        /// The name of the document.
        name: String,
        /// What the journal reported.
        cause: DurabilityError,
    },
    /// The machine starts no thread, and the request needs one: that of a task to open or close a
    /// document, or any request while all documents that may be open are open.
    #[error("no thread can be started for document {name}: {reason}", name = Brief(.name))]
    NoThread {
        /// The name of the document; empty for a request about all of them.
        name: String,
        /// The error of the machine.
        reason: String,
    },
}

codes! { PoolError {
    Self::Name { name, reason } => "documentNameInvalid", 400;
    Self::Busy { name, waited, cause } => "documentBusy" {
        name: name,
        waited_ms: millis::number(*waited),
        cause: cause,
    } if Retry::Later;
    Self::AllInUse { name, most_open, waited, cause } => "poolFull" {
        name: name,
        most_open: most_open,
        waited_ms: millis::number(*waited),
        cause: cause,
    } if Retry::Later;
    Self::Lock(error) => as error;
    Self::Slot(error) => as error;
    Self::Open(error) => as error;
    Self::Opener { name, cause } => "openerFailed" {
        name: name,
        reason: cause.to_string(),
    } if retry_of(&**cause), 500;
    Self::InUse { name, uses } => "documentInUse" if Retry::Later;
    Self::Close { name, cause } => "documentCloseFailed", 500;
    Self::NoThread { name, reason } => "poolNoThread" if Retry::Later;
}}

impl PoolError {
    /// The error of an opener: one of this crate is reported as itself.
    pub(super) fn of_opener(name: &str, error: Box<dyn Error + Send + Sync>) -> Self {
        let error = match error.downcast::<OpenError>() {
            Ok(error) => return Self::Open(*error),
            Err(error) => error,
        };
        match error.downcast::<Self>() {
            Ok(error) => *error,
            Err(cause) => Self::Opener {
                name: name.to_owned(),
                cause,
            },
        }
    }

    /// The error of a request whose wait for the name ended.
    pub(super) fn of_name(name: &str, waited: Duration, error: LockError) -> Self {
        match error {
            LockError::Timeout(_) | LockError::WouldBlock { .. } | LockError::QueueFull { .. } => {
                Self::Busy {
                    name: name.to_owned(),
                    waited,
                    cause: Box::new(error),
                }
            }
            error => Self::Lock(error),
        }
    }

    /// The error of a request whose wait for a slot ended.
    pub(super) fn of_slot(
        name: &str,
        most_open: usize,
        waited: Duration,
        error: LimiterError,
    ) -> Self {
        match error {
            LimiterError::Timeout { .. }
            | LimiterError::Busy { .. }
            | LimiterError::QueueFull { .. } => Self::AllInUse {
                name: name.to_owned(),
                most_open,
                waited,
                cause: Box::new(error),
            },
            error => Self::Slot(error),
        }
    }

    pub(super) fn no_thread(name: &str, error: &io::Error) -> Self {
        Self::NoThread {
            name: name.to_owned(),
            reason: error.to_string(),
        }
    }
}
