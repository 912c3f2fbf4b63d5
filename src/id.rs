//! Ids of transactions, beside those of locks, owners and nodes.
//!
//! Every id prints and parses as one short string, and that string is its serde form.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

pub use doclock_common::id::*;
pub use doclock_document::AsNodeId;
pub(crate) use doclock_document::internal::NodeIds;

/// Identifies one transaction of one store: `tx-<session>-<number>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransactionId {
    pub(crate) session: u32,
    pub(crate) number: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tx-{}-{}", self.session, self.number)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TransactionId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let parse = || {
            let (session, number) = text.strip_prefix("tx-")?.split_once('-')?;
            Some(Self {
                session: canonical(session)?,
                number: canonical(number)?,
            })
        };
        parse().ok_or_else(|| ParseIdError::new(text, "a transaction id (`tx-<session>-<number>`)"))
    }
}

impl Serialize for TransactionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TransactionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = SmolStr::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[path = "../tests/unit/id.rs"]
mod tests;
