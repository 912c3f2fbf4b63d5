//! What happens to the ownership of a document.

use std::time::Duration;

use serde::Serialize;

use crate::PostgresError;

/// What has happened to the ownership of a document in this process.
///
/// Serialized, it is an object with the variant's name as `type`. Durations are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum OwnerEvent {
    /// This process has become the owner.
    Acquired {
        /// The document.
        document: String,
        /// The owner's name.
        owner: String,
        /// The epoch, which is above all before.
        epoch: u64,
        /// The timeline of the server.
        timeline: u64,
    },
    /// The term was renewed.
    Renewed {
        /// The document.
        document: String,
        /// The epoch.
        epoch: u64,
        /// How long the renewal took.
        #[serde(serialize_with = "crate::event::millis", rename = "tookMs")]
        took: Duration,
    },
    /// An attempt to renew the term has failed. The next one follows while the term lasts.
    RenewalFailed {
        /// The document.
        document: String,
        /// The epoch.
        epoch: u64,
        /// Why it has failed.
        cause: PostgresError,
        /// How long this process may still acknowledge.
        #[serde(serialize_with = "crate::event::millis", rename = "remainingMs")]
        remaining: Duration,
    },
    /// The term was ended by this process. Another process can begin at once.
    HandedOver {
        /// The document.
        document: String,
        /// The epoch that has ended.
        epoch: u64,
    },
    /// The term has ended against the will of this process. It acknowledges nothing any more.
    Lost {
        /// The document.
        document: String,
        /// The epoch that has ended.
        epoch: u64,
        /// Why it has ended.
        reason: LostReason,
    },
}

/// Why a term has ended against the will of its owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum LostReason {
    /// Another owner has begun a term.
    #[error("{owner} has it at {address:?}, in epoch {epoch}")]
    TakenOver {
        /// The epoch of the other owner.
        epoch: u64,
        /// The name of the other owner.
        owner: String,
        /// Where the other owner takes requests, if it has told.
        address: Option<String>,
    },
    /// The term has ended by the clock of the server, and no owner has followed yet.
    #[error("the term has ended by the clock of the server")]
    Expired,
    /// No renewal was confirmed in time.
    #[error("no renewal was confirmed in time")]
    NotRenewed,
    /// Another server has taken over, and what it did not receive is lost.
    #[error("the server is on timeline {timeline}, and the term began on timeline {before}")]
    NewTimeline {
        /// The timeline of the server.
        timeline: u64,
        /// The timeline on which the term began.
        before: u64,
    },
    /// The owner ran a request that has an outcome already. That happens if a crash of the server
    /// has lost that the owner took the request, and the request was then cancelled.
    #[error("request {number} ran although it has an outcome already")]
    RequestSettled {
        /// The number of the request.
        number: u64,
    },
    /// The row of the lease is missing.
    #[error("the row of the lease is missing")]
    Missing,
}

pub(crate) fn millis<S: serde::Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64() * 1e3)
}
