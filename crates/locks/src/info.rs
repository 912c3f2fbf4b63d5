//! The holder and the waiters of a lock, as errors and statistics show them.

use std::fmt;
use std::ops::Not;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use smol_str::SmolStr;

use crate::CallSite;
use crate::id::{FencingToken, LockId, OwnerId};
use crate::millis;
use crate::show::{Millis, Named};

/// The holder of a lock.
///
/// Serializes in camelCase; `acquiredAt` in milliseconds since 1970, `heldFor` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockInfo {
    /// The id of the grant.
    pub lock_id: LockId,
    /// The owner of the grant.
    pub owner_id: OwnerId,
    /// The fencing token of the grant; greater than that of every earlier one.
    pub fencing_token: FencingToken,
    /// When the lock was granted, by the machine's calendar.
    #[serde(with = "millis::moment")]
    pub acquired_at: SystemTime,
    /// How long it has been held, by the store's clock.
    #[serde(with = "millis::duration")]
    pub held_for: Duration,
    /// Whether `held_for` is only a lower bound, from when another thread first looked or waited.
    /// [`LockStats::hold`](super::LockStats::hold) lists which holds are measured from their start.
    #[serde(skip_serializing_if = "Not::not")]
    pub at_least: bool,
    /// Whether it was granted to a task that was not polled since then: the task does not know that
    /// it holds the lock, and usually waits for something else (a *futurelock*).
    #[serde(skip_serializing_if = "Not::not")]
    pub untaken: bool,
    /// The label of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<SmolStr>,
    /// The source code location of the request.
    pub call_site: CallSite,
}

impl fmt::Display for LockInfo {
    /// Formats as `lock-3-x9 of ann (autosave) from src/main.rs:7:13, held for 12ms`. Of an untaken
    /// grant it says `granted 12ms ago, not yet taken by its task`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Named(&self.lock_id, &self.owner_id, self.label.as_ref()).fmt(f)?;
        let lead = if self.at_least { "at least " } else { "" };
        let held_for = Millis(self.held_for);
        write!(f, " from {}, ", self.call_site)?;
        match self.untaken {
            false => write!(f, "held for {lead}{held_for}"),
            true => write!(f, "granted {lead}{held_for} ago, not yet taken by its task"),
        }
    }
}

/// One waiting request.
///
/// Serializes in camelCase, `waitTime` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueueEntry {
    /// The id that the grant will have.
    pub lock_id: LockId,
    /// The owner of the request.
    pub owner_id: OwnerId,
    /// How long it has waited, by the store's clock.
    #[serde(with = "millis::duration")]
    pub wait_time: Duration,
    /// The queue position; 1 is the head of the queue.
    pub position: usize,
    /// The label of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<SmolStr>,
    /// The source code location of the request.
    pub call_site: CallSite,
}

/// Says for which request a holder was revoked, within a sentence.
#[allow(missing_debug_implementations)]
pub struct RevokedFor<'a>(pub &'a Option<Box<QueueEntry>>);

impl fmt::Display for RevokedFor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(request) = self.0 else {
            return Ok(());
        };
        let named = Named(&request.lock_id, &request.owner_id, request.label.as_ref());
        let (site, waited) = (&request.call_site, Millis(request.wait_time));
        write!(f, " for {named} from {site}, which had waited for {waited}")
    }
}

impl fmt::Display for QueueEntry {
    /// Formats as `2. lock-4-x9 of bob (autosave) from src/main.rs:9:20, waiting for 7ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Named(&self.lock_id, &self.owner_id, self.label.as_ref());
        let (position, site, waited) = (self.position, &self.call_site, Millis(self.wait_time));
        write!(f, "{position}. {named} from {site}, waiting for {waited}")
    }
}
