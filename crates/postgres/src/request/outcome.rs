//! Outcomes of requests, as they are stored.

use std::fmt::Display;

use doclock::codes::CodedError;
use doclock::transaction::TransactionResult;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::RequestError;
use crate::codes::add_verdict;

/// An error of doclock in its JSON form: `code`, `message` and the evidence, and in addition
/// `retry` and `httpStatus`, as [`CodedError`] returns them.
pub(crate) type ErrorJson = Box<Map<String, Value>>;

/// The outcome of a request. A request has one, which never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SettledOutcome {
    Done(Box<TransactionResult>),
    Failed(ErrorJson),
    /// The timeout has passed. With the error of the queue, if the request waited in it.
    Expired(Option<ErrorJson>),
    /// With the error of the queue, if the request waited in it.
    Cancelled(Option<ErrorJson>),
}

/// Who has settled a request.
#[derive(Clone, Debug)]
pub(super) struct SettledBy {
    pub(super) machine: String,
    /// `None` if no owner had taken it.
    pub(super) epoch: Option<u64>,
}

impl SettledOutcome {
    /// Always succeeds for values of doclock: their keys are strings.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_else(|error| {
            let fallback = Self::Failed(error_json("outcomeNotStored", &error.to_string()));
            serde_json::to_vec(&fallback).unwrap_or_default()
        })
    }

    pub(super) fn into_result(
        self,
        number: u64,
        by: SettledBy,
    ) -> Result<TransactionResult, RequestError> {
        let SettledBy { machine, epoch } = by;
        Err(match self {
            Self::Done(result) => return Ok(*result),
            Self::Failed(error) => RequestError::Failed {
                number: Some(number),
                error,
                machine,
                epoch: epoch.unwrap_or(0),
            },
            Self::Expired(error) => RequestError::Expired {
                number: Some(number),
                error,
                machine,
                epoch,
            },
            Self::Cancelled(error) => RequestError::Cancelled {
                number: Some(number),
                error,
                machine,
                epoch,
            },
        })
    }
}

/// An error that only has a code and a message.
pub(super) fn error_json(code: &str, message: &str) -> ErrorJson {
    let text = |text: &str| Value::String(text.to_owned());
    let parts = [("code", text(code)), ("message", text(message))];
    let parts = parts.map(|(key, value)| (key.to_owned(), value));
    Box::new(parts.into_iter().collect())
}

/// The JSON form of an error of doclock, with its verdict and its status.
pub(crate) fn error_json_of<E: CodedError + Serialize + Display>(error: &E) -> ErrorJson {
    let mut json = match serde_json::to_value(error) {
        Ok(Value::Object(fields)) => Box::new(fields),
        _ => error_json("failed", &error.to_string()),
    };
    add_verdict(&mut json, error);
    json
}
