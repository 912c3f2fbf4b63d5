//! The error of a call that waits for a version to be durable.

use std::time::Duration;

use crate::codes::{Retry, codes};
use crate::millis;
use crate::store::durable::JournalError;

/// Why a version cannot be waited for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurabilityError {
    /// The store is in memory.
    #[error("the store is not durable")]
    NotDurable,
    /// The timeout has passed.
    #[error("version {version} is not durable after {timeout:?}: version {durable_version} is")]
    Timeout {
        /// The version that was waited for.
        version: u64,
        /// The last version that is durable.
        durable_version: u64,
        /// The timeout.
        timeout: Duration,
    },
    /// The cancel token of the wait was cancelled.
    #[error("the wait for version {version} was cancelled: version {durable_version} is durable")]
    Cancelled {
        /// The version that was waited for.
        version: u64,
        /// The last version that is durable.
        durable_version: u64,
    },
    /// The store was closed before it had the version.
    #[error("the store was closed with version {durable_version}")]
    Closed {
        /// The last version that is durable.
        durable_version: u64,
    },
    /// A task would have to wait, and the machine starts no thread that ends its wait at the
    /// deadline.
    #[error(
        "version {version} cannot be waited for as a task, because no thread can be started: {reason}"
    )]
    NoKeeper {
        /// The version that was to be waited for.
        version: u64,
        /// The error of the machine.
        reason: String,
    },
    /// Another owner has the document, so versions after the durable one are not stored, and never
    /// will be.
    #[error("the journal is fenced after version {durable_version}: {cause}")]
    Fenced {
        /// The last version that is known to be durable.
        durable_version: u64,
        /// The error of the journal.
        cause: JournalError,
    },
    /// The journal failed. Versions after the durable one may be stored or not, unless the cause
    /// [stored nothing](JournalError::stored_nothing).
    #[error("the journal failed after version {durable_version}: {cause}")]
    Failed {
        /// The last version that is known to be durable.
        durable_version: u64,
        /// The error of the journal.
        cause: JournalError,
    },
}

codes! { DurabilityError {
    Self::NotDurable => "notDurable", 500;
    Self::Timeout { version, durable_version, timeout } => "durabilityTimeout" {
        version: version, durable_version: durable_version, timeout_ms: millis::number(*timeout)
    } if Retry::Later;
    Self::Cancelled { version, durable_version } => "durabilityCancelled", 503;
    Self::Closed { durable_version } => "storeClosed", 503;
    Self::NoKeeper { version, reason } => "durabilityNoKeeper" if Retry::Later;
    Self::Fenced { durable_version, cause } => "journalFenced", 421;
    Self::Failed { durable_version, cause } => "journalFailed", 500;
}}
