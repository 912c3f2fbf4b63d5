//! Errors of the server, and of becoming the owner of a document.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tokio_postgres::error::SqlState;

/// Why PostgreSQL cannot be used, or why a document was not acquired.
///
/// Serialized, it is an object with the variant's name as `code`. Durations are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(
    tag = "code",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum PostgresError {
    /// The connection parameters cannot be used, or a file that they name.
    #[error("the connection parameters cannot be used: {reason}")]
    Parameters {
        /// What is wrong with them.
        reason: String,
    },
    /// The name of a schema or document is empty, too long, or contains a NUL.
    #[error("a name of {bytes} bytes cannot be used: it has from 1 to {most} bytes and no NUL")]
    Name {
        /// The length of the name in bytes.
        bytes: usize,
        /// The largest possible length in bytes.
        most: usize,
    },
    /// A term is shorter than a server can keep, or too long.
    #[error("a term of {term:?} with a margin of {margin:?} leaves no time to own a document")]
    Term {
        /// The length of a term.
        #[serde(serialize_with = "crate::event::millis", rename = "termMs")]
        term: Duration,
        /// The part at its end in which the owner is no longer sure.
        #[serde(serialize_with = "crate::event::millis", rename = "marginMs")]
        margin: Duration,
    },
    /// The thread of the connections cannot be started, or has ended.
    #[error("the thread of the connections does not run: {reason}")]
    NoThread {
        /// The error of the machine.
        reason: String,
    },
    /// The server has not answered within the time limit.
    #[error("the server has not answered within {timeout:?}")]
    Timeout {
        /// The time limit.
        #[serde(serialize_with = "crate::event::millis", rename = "timeoutMs")]
        timeout: Duration,
    },
    /// The connection could not be made, or was lost.
    #[error("there is no connection to the server: {reason}")]
    Connection {
        /// The error of the connection.
        reason: String,
    },
    /// The server has reported an error.
    #[error("the server reported {sqlstate}: {reason}")]
    Server {
        /// The SQLSTATE: five characters.
        sqlstate: String,
        /// The message of the server.
        reason: String,
    },
    /// `synchronous_commit` is off for the role, so a crash of the server would lose commits that
    /// it has confirmed.
    #[error("synchronous_commit is off for the role {role}: a crash would lose confirmed commits")]
    SynchronousCommit {
        /// The role of the connection.
        role: String,
    },
    /// `fsync` is off, so a crash of the server's machine would lose commits that it has confirmed.
    #[error("fsync is off, seen by the role {role}: a power cut would lose confirmed commits")]
    Fsync {
        /// The role of the connection.
        role: String,
    },
    /// A table is unlogged, so a crash of the server would empty it.
    #[error("the table {table} is unlogged: a crash would empty it")]
    Unlogged {
        /// The name of the table.
        table: String,
    },
    /// Another owner has the document.
    #[error(
        "document {document} is owned by {owner} at {address:?}, in epoch {epoch}, for {remaining:?}"
    )]
    Held {
        /// The document.
        document: String,
        /// The owner.
        owner: String,
        /// Where the owner takes requests, if it has told.
        address: Option<String>,
        /// The epoch of the owner.
        epoch: u64,
        /// How long its term lasts, if it is not renewed.
        #[serde(serialize_with = "crate::event::millis", rename = "remainingMs")]
        remaining: Duration,
    },
    /// The document was restored from a backup, or copied. Owners that the backup does not have may
    /// have had greater epochs, so their fencing tokens would come again. It has no owner before an
    /// operator has called the function `doclock_restored` of the schema.
    #[error(
        "document {document} was restored or copied with epoch {epoch}: before it is owned, run \
        SELECT {schema}.doclock_restored(N), with the greatest epoch N that an owner has had"
    )]
    Restored {
        /// The document.
        document: String,
        /// The schema, as it is written in a statement.
        schema: String,
        /// The last epoch in the backup.
        epoch: u64,
    },
    /// The document has had so many owners that fencing tokens have no room for another epoch.
    #[error("document {document} has no further epoch: {epoch} follows, and {largest} is the last")]
    Epochs {
        /// The document.
        document: String,
        /// The epoch that would be next.
        epoch: u64,
        /// The last epoch.
        largest: u64,
    },
}

impl PostgresError {
    pub(crate) fn thread(reason: impl fmt::Display) -> Self {
        let reason = reason.to_string();
        Self::NoThread { reason }
    }

    pub(crate) fn parameters(reason: impl fmt::Display) -> Self {
        let reason = reason.to_string();
        Self::Parameters { reason }
    }

    /// Whether the same statement may succeed later, on another connection or on this one.
    pub(crate) fn is_passing(&self) -> bool {
        let sqlstate = match self {
            Self::Timeout { .. } | Self::Connection { .. } => return true,
            Self::Server { sqlstate, .. } => sqlstate.as_str(),
            _ => return false,
        };
        // The connection; the server starts, stops or is a standby; the statement was canceled; a
        // lock was not granted in time, or in a cycle.
        matches!(sqlstate.get(..2), Some("08" | "40" | "53" | "57"))
            && sqlstate != SqlState::DISK_FULL.code()
            || sqlstate == SqlState::LOCK_NOT_AVAILABLE.code()
            || sqlstate == SqlState::READ_ONLY_SQL_TRANSACTION.code()
            || sqlstate == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE.code()
    }

    /// Whether the server has reported that a key exists already.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Server { sqlstate, .. } if sqlstate == SqlState::UNIQUE_VIOLATION.code())
    }

    /// Whether the server has no room on its disk.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Server { sqlstate, .. } if sqlstate == SqlState::DISK_FULL.code())
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(reported) => Self::Server {
                sqlstate: reported.code().code().to_owned(),
                reason: reported.message().to_owned(),
            },
            None => {
                let mut reason = error.to_string();
                let cause = std::error::Error::source(&error);
                if let Some(cause) = cause {
                    reason = format!("{reason}: {cause}");
                }
                Self::Connection { reason }
            }
        }
    }
}
