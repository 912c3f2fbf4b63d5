//! The JSON form of operations, and errors that name the field.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;

/// An operation as it is written.
#[derive(Serialize)]
pub(super) struct Parts<'a> {
    #[serde(rename = "type")]
    name: &'static str,
    pub(super) payload: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<&'a SmolStr>,
}

impl<'a> Parts<'a> {
    pub(super) fn new(name: &'static str, payload: Value) -> Self {
        Self {
            name,
            payload,
            alias: None,
        }
    }

    pub(super) fn named(self, alias: &'a SmolStr) -> Result<Self, serde_json::Error> {
        match self.alias {
            None => Ok(Self {
                alias: Some(alias),
                ..self
            }),
            Some(_) => Err(serde::ser::Error::custom(
                "an operation with two names cannot be serialized",
            )),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Envelope {
    #[serde(rename = "type")]
    pub(super) name: String,
    #[serde(default)]
    pub(super) payload: Map<String, Value>,
    #[serde(default)]
    pub(super) alias: Option<SmolStr>,
}

/// Why a payload is not that of the operation.
#[derive(Debug)]
pub(super) struct PayloadError {
    name: String,
    /// Where in the payload; empty for the payload as a whole.
    field: String,
    reason: String,
}

impl PayloadError {
    pub(super) fn missing(name: &str, field: &str) -> Self {
        Self {
            name: name.to_owned(),
            field: String::new(),
            reason: format!("missing field `{field}`"),
        }
    }
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            field,
            reason,
        } = self;
        match field.as_str() {
            "" => write!(f, "{name}: {reason}"),
            field => write!(f, "{name}: {field}: {reason}"),
        }
    }
}

/// Reads a payload, keeping track of the field that is being read.
pub(super) fn fields<T: DeserializeOwned>(name: &str, payload: Value) -> Result<T, PayloadError> {
    serde_path_to_error::deserialize(payload).map_err(|error| PayloadError {
        name: name.to_owned(),
        field: field(&error.path().to_string()),
        reason: error.inner().to_string(),
    })
}

/// As [`fields`], for what is read from `{name: payload}`.
pub(super) fn variant<T>(
    name: &str,
    payload: Value,
    read: impl FnOnce(serde_path_to_error::Deserializer<'_, '_, Value>) -> Result<T, serde_json::Error>,
) -> Result<T, PayloadError> {
    let mut track = serde_path_to_error::Track::new();
    let value = Value::from(Map::from_iter([(name.to_owned(), payload)]));
    let result = read(serde_path_to_error::Deserializer::new(value, &mut track));
    result.map_err(|error| {
        let path = track.path().to_string();
        PayloadError {
            name: name.to_owned(),
            field: field(path.strip_prefix(name).unwrap_or(&path)),
            reason: error.to_string(),
        }
    })
}

/// The path without what stands for the payload as a whole.
fn field(path: &str) -> String {
    path.trim_start_matches('.').to_owned()
}
