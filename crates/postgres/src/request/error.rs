//! Errors of requests.

use std::fmt;
use std::time::Duration;

use doclock::codes::CodedError;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::PostgresError;

/// Why a request has no result.
///
/// [`Failed`](Self::Failed), [`Expired`](Self::Expired) and [`Cancelled`](Self::Cancelled) are
/// outcomes: the batch has changed nothing, and never will. After [`Timeout`](Self::Timeout) and
/// [`Server`](Self::Server), ask again by the number or the key. After [`Unknown`](Self::Unknown),
/// look at the document.
///
/// Serialized, it is an object with `code`, `message` and the evidence, as doclock's errors are. A
/// failed request has the code, the message and the evidence of the error on the owner's machine,
/// and in addition its `retry` and `httpStatus`, `request`, `machine` and `epoch`. The methods of
/// [`CodedError`] return the same. A code that only a later version of doclock knows is `other`
/// there.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The batch has failed on the owner's machine.
    #[error(
        "{} failed: {} (on machine {machine}, in epoch {epoch})",
        BatchName(.number), text(.error, "message")
    )]
    Failed {
        /// The number of the request. `None` if the machine that owns the document ran the batch
        /// itself.
        number: Option<u64>,
        /// The error in doclock's JSON form: `code`, `message` and the evidence, and its `retry`
        /// and `httpStatus`.
        error: Box<Map<String, Value>>,
        /// The machine on which the batch failed.
        machine: String,
        /// The epoch of that owner.
        epoch: u64,
    },
    /// The timeout of the request has passed, by the clock of the server, before the batch began.
    #[error(
        "{} has not begun before its timeout{} (settled by machine {machine})",
        BatchName(.number), Cause(.error)
    )]
    Expired {
        /// The number of the request. `None` if the machine that owns the document ran the batch
        /// itself.
        number: Option<u64>,
        /// The error of the queue in doclock's JSON form, if the batch waited in it.
        error: Option<Box<Map<String, Value>>>,
        /// The machine that has settled the request: the owner, or the one that submitted it.
        machine: String,
        /// The epoch of the owner, if it was the owner.
        epoch: Option<u64>,
    },
    /// The request was cancelled before the batch began.
    #[error(
        "{} was cancelled before it began{} (settled by machine {machine})",
        BatchName(.number), Cause(.error)
    )]
    Cancelled {
        /// The number of the request. `None` if it was not inserted, or if the machine that owns
        /// the document ran the batch itself.
        number: Option<u64>,
        /// The error of the queue in doclock's JSON form, if the batch waited in it.
        error: Option<Box<Map<String, Value>>>,
        /// The machine that has settled the request: the owner, or the one that submitted it.
        machine: String,
        /// The epoch of the owner, if it was the owner.
        epoch: Option<u64>,
    },
    /// The request has no outcome yet. It can still run.
    #[error(
        "request {number} has no outcome after {waited:?}: {ahead} requests are pending before it"
    )]
    Timeout {
        /// The number of the request.
        number: u64,
        /// How long the caller has waited.
        waited: Duration,
        /// How many pending requests have lower numbers, as last seen.
        ahead: u64,
        /// The last owner of the document, whose term may have ended.
        owner: Option<String>,
        /// The epoch of that owner.
        epoch: Option<u64>,
        /// The epoch of the owner that has taken the request.
        taken: Option<u64>,
    },
    /// This machine ran the batch as the owner, and the call has ended before the server has said
    /// whether its commit is stored. No other machine runs it.
    #[error(
        "it is not known whether version {version} of document {document} is stored, which epoch \
        {epoch} has made"
    )]
    Unknown {
        /// The document.
        document: String,
        /// The version that the batch has made.
        version: u64,
        /// The epoch of this owner.
        epoch: u64,
    },
    /// There is no request of this number. One that was submitted has had an outcome, which was
    /// removed after the time for which the owner [keeps](crate::RunnerOptions::keep_outcomes)
    /// outcomes. So its batch may have run.
    #[error("there is no request {number} of document {document}, or its outcome is kept no more")]
    NotFound {
        /// The document.
        document: String,
        /// The number of the request.
        number: u64,
    },
    /// The server has gone back to a state before the request was inserted, in a failover or a
    /// restore from a backup. So the log has no commit of it. Submit the batch again.
    #[error("request {number} of document {document} was lost in a failover of the server")]
    Lost {
        /// The document.
        document: String,
        /// The number that the request had.
        number: u64,
    },
    /// The batch is too large. It was not inserted.
    #[error("a batch of {bytes} bytes cannot be requested: at most {most} are possible")]
    TooLarge {
        /// The size of the batch in bytes of JSON.
        bytes: usize,
        /// The largest possible size in bytes.
        most: usize,
    },
    /// An operation of the batch runs code, so another machine cannot run it. It was not inserted.
    #[error("the batch cannot be sent to another machine: {reason}")]
    NotData {
        /// The reason.
        reason: String,
    },
    /// The stored outcome cannot be read: another version of doclock has written it.
    #[error("the outcome of request {number} cannot be read: {reason}")]
    Unreadable {
        /// The number of the request.
        number: u64,
        /// The reason.
        reason: String,
    },
    /// The server. A submission that fails so may have been inserted:
    /// [`find`](super::Requests::find) looks it up by its key.
    #[error(transparent)]
    Server(#[from] PostgresError),
}

impl RequestError {
    /// Whether this is the outcome of the request: it has changed nothing, and never will.
    pub fn is_outcome(&self) -> bool {
        matches!(
            self,
            Self::Failed { .. } | Self::Expired { .. } | Self::Cancelled { .. }
        )
    }

    fn parts(&self) -> Value {
        match self {
            Self::Failed {
                number,
                error,
                machine,
                epoch,
            } => {
                let mut parts = Map::clone(error);
                parts.insert("request".into(), json!(number));
                parts.insert("machine".into(), json!(machine));
                parts.insert("epoch".into(), json!(epoch));
                Value::Object(parts)
            }
            Self::Expired {
                number,
                error,
                machine,
                epoch,
            }
            | Self::Cancelled {
                number,
                error,
                machine,
                epoch,
            } => json!({ "request": number, "error": error, "machine": machine, "epoch": epoch }),
            Self::Timeout {
                number,
                waited,
                ahead,
                owner,
                epoch,
                taken,
            } => json!({
                "request": number, "waitedMs": waited.as_secs_f64() * 1e3, "ahead": ahead,
                "machine": owner, "epoch": epoch, "taken": taken
            }),
            Self::Unknown {
                document,
                version,
                epoch,
            } => json!({ "document": document, "version": version, "epoch": epoch }),
            Self::NotFound { document, number } | Self::Lost { document, number } => {
                json!({ "document": document, "request": number })
            }
            Self::TooLarge { bytes, most } => json!({ "bytes": bytes, "most": most }),
            Self::NotData { reason } => json!({ "reason": reason }),
            Self::Unreadable { number, reason } => json!({ "request": number, "reason": reason }),
            Self::Server(cause) => json!({ "cause": cause }),
        }
    }
}

impl Serialize for RequestError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = self.parts();
        if let (Value::Object(parts), false) = (&mut parts, matches!(self, Self::Failed { .. })) {
            parts.insert("code".into(), json!(self.code()));
            parts.insert("message".into(), json!(self.to_string()));
        }
        parts.serialize(serializer)
    }
}

/// The message of the queue's error, if there is one.
struct Cause<'a>(&'a Option<Box<Map<String, Value>>>);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(error) => write!(f, ": {}", text(error, "message")),
            None => Ok(()),
        }
    }
}

/// What an error calls a batch.
struct BatchName<'a>(&'a Option<u64>);

impl fmt::Display for BatchName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "request {number}"),
            None => f.write_str("the batch"),
        }
    }
}

/// A text of an error in its JSON form.
fn text<'a>(error: &'a Map<String, Value>, key: &str) -> &'a str {
    error.get(key).and_then(Value::as_str).unwrap_or("unknown")
}
