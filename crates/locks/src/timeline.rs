//! What a lock did: its requests, with the times at which they were made, granted and ended.

use std::ops::Not;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::CallSite;
use crate::id::{LockId, OwnerId};
use crate::millis;

/// The last requests of a lock, from the recorder that
/// [`LockOptions::timeline`](super::LockOptions::timeline) turns on.
///
/// Serializes in camelCase, with `beganAt` in whole milliseconds since 1970 and durations in
/// milliseconds, and deserializes from that. Durations are exact to a nanosecond up to 99 days, in
/// JSON if the feature `float_roundtrip` of serde_json is on. `doclock timeline FILE --html OUT`
/// makes a page of the JSON, and `doclock::diagnostics` tracks or a Chrome trace of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Timeline {
    /// When the recorder began, by the machine's calendar. All other times count from here.
    #[serde(with = "millis::moment")]
    pub began_at: SystemTime,
    /// When the timeline was read.
    #[serde(with = "millis::duration")]
    pub read_at: Duration,
    /// How many requests ended before the oldest entry, and are no longer recorded.
    pub forgotten: u64,
    /// The requests that ended, in that order, then the holders, then the waiters in queue order.
    pub entries: Vec<TimelineEntry>,
}

/// A request in a [`Timeline`].
///
/// Times count from [`Timeline::began_at`], by the clock of the lock. A request that is handed the
/// lock is granted in the same moment in which the holder before it ended: both times are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TimelineEntry {
    /// The id of the request and its grant.
    pub lock_id: LockId,
    /// The owner of the request.
    pub owner_id: OwnerId,
    /// The label of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<SmolStr>,
    /// The source code location of the request.
    pub call_site: CallSite,
    /// Whether it requested nodes, not the whole lock.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub nodes: bool,
    /// When the request was made.
    #[serde(with = "millis::duration")]
    pub requested_at: Duration,
    /// When it was granted, if it was.
    #[serde(with = "millis::option", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted_at: Option<Duration>,
    /// When it ended, if it has.
    #[serde(with = "millis::option", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Duration>,
    /// Its state or its end.
    pub outcome: TimelineOutcome,
}

/// The state or the end of a request in a [`Timeline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum TimelineOutcome {
    /// It waits.
    Waiting,
    /// It was granted and is held.
    Holding,
    /// It was granted and released.
    Released,
    /// It was granted, and revoked because it exceeded its hold limit.
    Revoked,
    /// It was granted more nodes under a grant that has an entry of its own, with the same id.
    Extended,
    /// It timed out.
    TimedOut,
    /// It was cancelled, or its future was dropped.
    Cancelled,
    /// It was refused, because it would have closed a cycle of waits for nodes.
    Deadlock,
}
