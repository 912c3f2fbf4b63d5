//! Errors of calls that were not granted their slots.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::brief::Brief;
use crate::codes::{Retry, codes};
use crate::millis;
use crate::show::{Millis, RequestsAhead};

/// The error of a call that did not run. The call has no effect on the limiter except its metrics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// The call timed out.
    #[error("call to {} timed out after {}: {call}", Brief(&.call.key), Millis(*.limit))]
    Timeout {
        /// The timeout.
        limit: Duration,
        /// The state that the call observed.
        call: Box<CallEvidence>,
    },
    /// The call's [`CancelToken`](crate::CancelToken) was cancelled, before or during the
    /// wait.
    #[error("call to {} was cancelled after {}: {call}", Brief(&.call.key), Millis(.call.waited))]
    Cancelled {
        /// The state that the call observed.
        call: Box<CallEvidence>,
    },
    /// The queue of the key was full.
    #[error("queue for {} is full: bound {bound}, {call}", Brief(&.call.key))]
    QueueFull {
        /// The queue bound.
        bound: usize,
        /// The state that the call observed.
        call: Box<CallEvidence>,
    },
    /// The call was not allowed to wait, and no slot was free or other calls waited.
    #[error("no free slot for {}: {call}", Brief(&.call.key))]
    Busy {
        /// The state that the call observed.
        call: Box<CallEvidence>,
    },
    /// The call takes more slots than there ever are.
    #[error("call to {key} takes {weight} slots: the limit is {limit}", key = Brief(.key))]
    TooHeavy {
        /// The key, as [`Debug`](fmt::Debug) prints it.
        key: String,
        /// The weight of the call.
        weight: usize,
        /// The number of slots: the key's limit, the lowest value of an adaptive limit, or the
        /// global limit.
        limit: usize,
    },
    /// The call of a task would have to wait, and the machine starts no thread that ends its wait
    /// at the deadline.
    #[error("call to {key} cannot wait as a task, because no thread can be started: {reason}", key = Brief(.key))]
    NoKeeper {
        /// The key, as [`Debug`](fmt::Debug) prints it.
        key: String,
        /// The error of the machine.
        reason: String,
    },
}

codes! { inherent LimiterError {
    Self::Timeout { limit, call } => "limiterTimeout" {
        limit_ms: millis::number(*limit),
        call: call,
    } if Retry::Later;
    Self::Cancelled { call } => "limiterCancelled", 503;
    Self::QueueFull { bound, call } => "limiterQueueFull" if Retry::Later;
    Self::Busy { call } => "limiterBusy" if Retry::Later;
    Self::TooHeavy { key, weight, limit } => "limiterTooHeavy", 500;
    Self::NoKeeper { key, reason } => "limiterNoKeeper" if Retry::Later;
}}

/// The state that a call observed when it ended without slots. Serializes in camelCase, `waitedMs`
/// in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallEvidence {
    /// The key, as [`Debug`](fmt::Debug) prints it.
    pub key: String,
    /// The number of slots that it requested.
    pub weight: usize,
    /// How long it waited. After a timeout, never less than the timeout.
    #[serde(rename = "waitedMs", with = "millis::duration")]
    pub waited: Duration,
    /// Its position in the key's queue, 1 being the head; `None` if it never joined the queue.
    pub position: Option<usize>,
    /// The load at that moment.
    pub load: LimiterLoad,
}

/// The load of a key and of all keys together. Serializes in camelCase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LimiterLoad {
    /// The number of the key's slots that are taken.
    pub in_flight: usize,
    /// The present limit of the key.
    pub limit: usize,
    /// The number of calls that wait for this key. In the evidence of a call that waited, this
    /// includes the call itself.
    pub queued: usize,
    /// The number of slots that all keys have taken.
    pub total_in_flight: usize,
    /// The global limit, if there is one.
    pub global_limit: Option<usize>,
}

impl fmt::Display for CallEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "queue position {position}, ")?;
        }
        let load = &self.load;
        let waiting = RequestsAhead(load.queued, "call");
        write!(
            f,
            "{} of {} slots taken, {waiting}",
            load.in_flight, load.limit
        )?;
        let all = load.total_in_flight;
        match load.global_limit {
            Some(limit) => write!(f, ", {all} of {limit} slots of all keys taken"),
            None => Ok(()),
        }
    }
}
