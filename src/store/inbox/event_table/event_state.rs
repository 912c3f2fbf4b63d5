//! The state of one event, for the program that asks for it.

use std::time::Duration;

use smol_str::SmolStr;

use super::{DeadLetter, EventProgress, EventRecord, EventTable};
use crate::id::{FencingToken, OwnerId};
use crate::time::MonotonicTime;

/// The state of one event in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventState {
    /// A worker has claimed the event.
    Claimed {
        /// The owner of the claim.
        owner: OwnerId,
        /// The fencing token of the claim.
        token: FencingToken,
        /// The number of the attempt, counted from one.
        attempt: u32,
        /// How long the event has been claimed.
        held_for: Duration,
        /// The time until the claim is stale; zero if it is.
        remaining: Duration,
    },
    /// The event failed and will be attempted again.
    Waiting {
        /// How often the event was attempted.
        attempts: u32,
        /// The time until the event is due; zero if it is.
        remaining: Duration,
    },
    /// The effect of the event is committed.
    Done {
        /// How often the event was attempted.
        attempts: u32,
        /// How long ago it was done.
        done_for: Duration,
    },
    /// The event will not be attempted again.
    Dead(DeadLetter),
}

impl EventTable {
    /// The state of an event, if it has a record.
    pub(crate) fn state(&self, id: &str, now: MonotonicTime) -> Option<EventState> {
        if let Some(done) = self.done.get(id) {
            return Some(EventState::Done {
                attempts: done.attempts,
                done_for: now - done.at,
            });
        }
        let (id, event) = self.not_done.get_key_value(id)?;
        Some(event.state(id, now))
    }
}

impl EventRecord {
    fn state(&self, id: &SmolStr, now: MonotonicTime) -> EventState {
        match &self.state {
            EventProgress::Claimed { owner, token, span } => EventState::Claimed {
                owner: owner.clone(),
                token: *token,
                attempt: self.attempts,
                held_for: now - span.since,
                remaining: span.left(now).unwrap_or_default(),
            },
            EventProgress::Waiting { span } => EventState::Waiting {
                attempts: self.attempts,
                remaining: span.left(now).unwrap_or_default(),
            },
            EventProgress::Dead(death) => {
                EventState::Dead(death.letter(id, self.attempts, self.sent_at, now))
            }
        }
    }
}
