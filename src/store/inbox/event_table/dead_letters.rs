//! Dead letters: events and messages that get no further attempt.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{DeadEvent, EventTable};
use crate::brief::Brief;
use crate::millis;
use crate::shrink::excess;
use crate::time::MonotonicTime;

/// The reason for which an event is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DeadLetterCause {
    /// The handler reported that no attempt will ever succeed.
    Poison,
    /// The event used up its attempts.
    Exhausted,
}

impl fmt::Display for DeadLetterCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Poison => "poison",
            Self::Exhausted => "exhausted",
        })
    }
}

/// Describes an event that gets no further attempt unless [revived](crate::inbox::Inbox::revive).
///
/// Serializes in camelCase with durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadLetter {
    /// The id of the event; empty for a message that has none. Such messages are indistinguishable,
    /// so each delivery has its own letter, and an inbox keeps the latest
    /// [`KEPT_WITHOUT_ID`](Self::KEPT_WITHOUT_ID) of them.
    pub event_id: SmolStr,
    /// The reason for which the event is dead.
    pub cause: DeadLetterCause,
    /// The error of the last attempt.
    pub error: String,
    /// How often the event was attempted.
    pub attempts: u32,
    /// When the message was sent, if it carries the time.
    pub sent_at: Option<SystemTime>,
    /// How long the event has been dead.
    #[serde(with = "millis::duration")]
    pub dead_for: Duration,
}

impl DeadLetter {
    /// The number of dead letters that an inbox keeps of messages without an event id: the latest.
    pub const KEPT_WITHOUT_ID: usize = 1024;

    /// The letter of an event that is in no table.
    pub(super) fn of_no_event(error: &str) -> Self {
        Self {
            event_id: SmolStr::default(),
            cause: DeadLetterCause::Poison,
            error: error.to_owned(),
            attempts: 0,
            sent_at: None,
            dead_for: Duration::ZERO,
        }
    }
}

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            event_id,
            cause,
            error,
            attempts,
            ..
        } = self;
        let times = if *attempts == 1 {
            "attempt"
        } else {
            "attempts"
        };
        write!(
            f,
            "event {:?}, {cause} after {attempts} {times}: {error}",
            Brief(event_id)
        )
    }
}

/// The latest messages without an event id. They are indistinguishable, so each delivery counts
/// anew.
#[derive(Default)]
pub(super) struct MessagesWithoutId(VecDeque<(Option<SystemTime>, DeadEvent)>);

impl MessagesWithoutId {
    /// Adds a message. Returns its letter, and the number of one that is forgotten for it.
    pub(super) fn add(
        &mut self,
        death: DeadEvent,
        sent_at: Option<SystemTime>,
        now: MonotonicTime,
    ) -> (DeadLetter, Option<u64>) {
        let letter = death.letter(&SmolStr::default(), 0, sent_at, now);
        let is_full = self.0.len() == DeadLetter::KEPT_WITHOUT_ID;
        let forgotten = is_full.then(|| self.0.pop_front()).flatten();
        self.0.push_back((sent_at, death));
        (letter, forgotten.map(|(_, death)| death.number))
    }

    /// Takes in a stored message, in any order.
    pub(super) fn restore(&mut self, death: DeadEvent, sent_at: Option<SystemTime>) {
        let at = self.0.partition_point(|(_, it)| it.number < death.number);
        self.0.insert(at, (sent_at, death));
    }

    /// The messages with their times of sending.
    #[cfg(feature = "redb")]
    pub(super) fn all(&self) -> impl Iterator<Item = &(Option<SystemTime>, DeadEvent)> {
        self.0.iter()
    }

    /// The numbers of the messages in the order of all deaths.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(_, death)| death.number)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets the messages that match, and returns their numbers.
    pub(super) fn forget(
        &mut self,
        is_over: impl Fn(Option<SystemTime>, MonotonicTime) -> bool,
    ) -> Vec<u64> {
        let mut forgotten = Vec::new();
        self.0.retain(|(sent_at, death)| {
            let is_over = is_over(*sent_at, death.at);
            if is_over {
                forgotten.push(death.number);
            }
            !is_over
        });
        if let Some(room) = excess(self.0.capacity(), self.0.len(), 16) {
            self.0.shrink_to(room);
        }
        forgotten
    }

    fn letters(&self, now: MonotonicTime) -> impl Iterator<Item = (u64, DeadLetter)> {
        self.0.iter().map(move |(sent_at, death)| {
            let letter = death.letter(&SmolStr::default(), 0, *sent_at, now);
            (death.number, letter)
        })
    }
}

impl DeadEvent {
    pub(super) fn letter(
        &self,
        id: &SmolStr,
        attempts: u32,
        sent_at: Option<SystemTime>,
        now: MonotonicTime,
    ) -> DeadLetter {
        DeadLetter {
            event_id: id.clone(),
            cause: self.cause,
            error: self.error.clone(),
            attempts,
            sent_at,
            dead_for: now - self.at,
        }
    }
}

impl EventTable {
    /// The dead events in the order of their deaths, each with its number in that order.
    pub(crate) fn dead(&self, now: MonotonicTime) -> Vec<(u64, DeadLetter)> {
        let event = self.not_done.iter();
        event
            .filter_map(|(id, event)| {
                let death = event.death()?;
                let letter = death.letter(id, event.attempts, event.sent_at, now);
                Some((death.number, letter))
            })
            .chain(self.without_id.letters(now))
            .collect()
    }
}
