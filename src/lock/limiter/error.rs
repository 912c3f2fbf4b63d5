//! Why a call was not granted its slots.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::brief::Brief;
use crate::codes::codes;
use crate::lock::info::{Millis, millis};

/// Why a call did not run. The limiter is as if it had never been asked for, but for its figures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// Its timeout passed first.
    #[error("No slot for {} within {}: {call}", Brief(&.call.key), Millis(*.limit))]
    Timeout {
        /// The limit that passed.
        limit: Duration,
        /// What it saw then.
        call: Box<CallEvidence>,
    },
    /// Its [`CancelToken`](crate::lock::CancelToken) withdrew it, or was cancelled before it asked.
    #[error("Call to {} cancelled after {}: {call}", Brief(&.call.key), Millis(.call.waited))]
    Cancelled {
        /// What it saw then.
        call: Box<CallEvidence>,
    },
    /// As many wait for this key as are allowed to.
    #[error("Line for {} full, {bound} allowed: {call}", Brief(&.call.key))]
    QueueFull {
        /// How many may wait.
        bound: usize,
        /// What it saw.
        call: Box<CallEvidence>,
    },
    /// It was not to wait, and there is no free slot, or others wait.
    #[error("No free slot for {}: {call}", Brief(&.call.key))]
    Busy {
        /// What it saw.
        call: Box<CallEvidence>,
    },
    /// It takes more slots than there ever are.
    #[error("Call to {key} takes {weight} slots, and there are never more than {limit}", key = Brief(.key))]
    TooHeavy {
        /// The key, as [`Debug`](fmt::Debug) prints it.
        key: String,
        /// Its weight.
        weight: usize,
        /// How many slots there are: by the key's limit, the least that an adaptive limit may fall
        /// to, or the global limit.
        limit: usize,
    },
}

codes! { LimiterError {
    Self::Timeout { limit, call } => "limiterTimeout" { limit_ms: millis::number(*limit), call: call };
    Self::Cancelled { call } => "limiterCancelled";
    Self::QueueFull { bound, call } => "limiterQueueFull";
    Self::Busy { call } => "limiterBusy";
    Self::TooHeavy { key, weight, limit } => "limiterTooHeavy";
}}

/// What a call saw when it ended without slots.
///
/// Serializes in camelCase, `waitedMs` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallEvidence {
    /// The key, as [`Debug`](fmt::Debug) prints it.
    pub key: String,
    /// How many slots it asked for.
    pub weight: usize,
    /// How long it waited. After a timeout never less than the limit.
    #[serde(rename = "waitedMs", serialize_with = "millis::duration")]
    pub waited: Duration,
    /// Its place in the key's line, 1 being next; `None` if it never stood there.
    pub place: Option<usize>,
    /// How things stood.
    pub load: Load,
}

/// How busy a key is, and all keys together.
///
/// Serializes in camelCase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Load {
    /// How many of the key's slots are taken.
    pub in_flight: usize,
    /// How many it has at present.
    pub limit: usize,
    /// How many calls wait for this key; of the evidence of a call that stood there, itself
    /// included.
    pub queued: usize,
    /// How many slots are taken by all keys.
    pub total_in_flight: usize,
    /// How many may be, if that is limited.
    pub global_limit: Option<usize>,
}

impl fmt::Display for CallEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "place {place} in line, ")?;
        }
        let Load {
            in_flight,
            limit,
            queued,
            total_in_flight,
            global_limit,
        } = self.load;
        write!(f, "{in_flight} of {limit} slots taken, {queued} waiting")?;
        match global_limit {
            Some(limit) => write!(f, ", {total_in_flight} of {limit} taken in all"),
            None => Ok(()),
        }
    }
}
