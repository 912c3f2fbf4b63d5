//! The events of an inbox: claimed, waiting, done and dead ones. The time is an argument.

mod dead_letters;
mod done_marks;
mod duplicates;
mod event_state;
mod forget;
mod inboxes;
mod metrics;
mod stored;

use std::time::{Duration, SystemTime};

use hashbrown::HashMap;
use smol_str::SmolStr;

use crate::hashing::Secret;
use crate::id::{FencingToken, OwnerId};
use crate::time::MonotonicTime;
use dead_letters::MessagesWithoutId;
pub use dead_letters::{DeadLetter, DeadLetterCause};
use done_marks::DoneMarks;
pub(crate) use duplicates::{ClaimOutcome, Claimant, Delivery};
pub use event_state::EventState;
use forget::SettledEvents;
pub use inboxes::InboxInUse;
pub(crate) use inboxes::InboxKey;
pub(in crate::store) use inboxes::Inboxes;
use metrics::InboxCounters;
pub use metrics::{InboxStats, ReasonCount};
pub(crate) use stored::EventNote;
use stored::InboxChanges;

/// The events of one inbox.
///
/// Each event is in one of two tables or in none. Claimed, waiting and dead events are few; they
/// are in `not_done`. Done events are many and take little memory each.
#[derive(Default)]
pub(crate) struct EventTable {
    not_done: HashMap<SmolStr, EventRecord, Secret>,
    done: DoneMarks,
    /// The done and dead events, in the orders in which they are forgotten.
    settled: SettledEvents,
    /// The newest time of sending of all forgotten events. A message sent no later whose event is
    /// in no table may have been done.
    watermark: Option<SystemTime>,
    /// Of the events that are neither done nor dead, a journal has those that were sent no later.
    stored_until: Option<SystemTime>,
    last_token: u64,
    /// The messages without an event id.
    without_id: MessagesWithoutId,
    /// How many events have died.
    deaths: u64,
    metrics: InboxCounters,
    /// What a journal has to store. `None` if there is none.
    changed: Option<Box<InboxChanges>>,
}

struct EventRecord {
    sent_at: Option<SystemTime>,
    /// How often the event was claimed.
    attempts: u32,
    state: EventProgress,
}

enum EventProgress {
    /// A worker has claimed it. The claim may be stale.
    Claimed {
        owner: OwnerId,
        token: FencingToken,
        /// While the claim is not stale.
        span: TimeSpan,
    },
    /// The last attempt failed with a transient error.
    Waiting {
        /// Until the event is due.
        span: TimeSpan,
    },
    Dead(Box<DeadEvent>),
}

struct DeadEvent {
    number: u64,
    at: MonotonicTime,
    cause: DeadLetterCause,
    error: String,
}

struct DoneEvent {
    attempts: u32,
    at: MonotonicTime,
}

/// A time from one moment to another.
#[derive(Clone, Copy)]
struct TimeSpan {
    since: MonotonicTime,
    until: MonotonicTime,
}

impl TimeSpan {
    /// Ends at the last moment that the clock can count, if not before: so each span ends.
    fn new(since: MonotonicTime, lasts: Duration) -> Self {
        let until = since.saturating_add(lasts);
        Self { since, until }
    }

    /// The rest of the span, unless it is over.
    fn left(&self, now: MonotonicTime) -> Option<Duration> {
        let left = self.until - now;
        (!left.is_zero()).then_some(left)
    }
}

/// Why an attempt failed.
pub(crate) struct FailedAttempt {
    pub(crate) kind: FailedKind,
    /// The reason under which it is counted.
    pub(crate) reason: SmolStr,
    /// The full text of the error.
    pub(crate) error: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedKind {
    Transient,
    /// A transient failure by a panic.
    Panic,
    Poison,
}

/// What a failed attempt leads to.
pub(crate) enum FailureOutcome {
    Again,
    Dead(DeadLetter),
    Superseded,
}

impl EventTable {
    /// The claims of a new inbox, whose tokens are larger than this.
    fn after(last_token: u64, changed: Option<InboxChanges>) -> Self {
        Self {
            last_token,
            changed: changed.map(Box::new),
            ..Self::default()
        }
    }

    /// The number of claims that are not stale, and the time until the last of them is.
    fn held(&self, now: MonotonicTime) -> Option<(usize, Duration)> {
        let left = self
            .not_done
            .values()
            .filter_map(|event| match &event.state {
                EventProgress::Claimed { span, .. } => span.left(now),
                EventProgress::Waiting { .. } | EventProgress::Dead(_) => None,
            });
        left.fold(None, |held, left| {
            let (count, longest) = held.unwrap_or_default();
            Some((count + 1, left.max(longest)))
        })
    }

    /// The token of the claim on the event, and its start.
    fn claimed(&self, id: &str) -> Option<(FencingToken, MonotonicTime)> {
        match &self.not_done.get(id)?.state {
            EventProgress::Claimed { token, span, .. } => Some((*token, span.since)),
            EventProgress::Waiting { .. } | EventProgress::Dead(_) => None,
        }
    }

    /// Whether this is the current claim on the event, even a stale one.
    pub(super) fn holds(&self, id: &str, token: FencingToken) -> bool {
        matches!(self.claimed(id), Some((held, _)) if held == token)
    }

    /// Marks an event as done. Its claim [holds](Self::holds).
    pub(super) fn finish(&mut self, id: &str, now: MonotonicTime) {
        let since = self.claimed(id).map_or(now, |(_, since)| since);
        let Some((id, event)) = self.not_done.remove_entry(id) else {
            return;
        };
        self.metrics.finished(now - since);
        if let Some(changed) = &mut self.changed {
            changed.done(&id, (event.sent_at, event.attempts), now);
        }
        self.settled.add_done(event.sent_at, id.clone());
        let done = DoneEvent {
            attempts: event.attempts,
            at: now,
        };
        self.done.insert(id, done);
    }

    /// Ends a failed attempt. The event is due again after `delay`; it is dead after `limit`
    /// attempts or if it is poison.
    pub(crate) fn fail(
        &mut self,
        id: &str,
        token: FencingToken,
        failed: FailedAttempt,
        (delay, limit): (Duration, u32),
        now: MonotonicTime,
    ) -> FailureOutcome {
        if !self.holds(id, token) {
            return self.superseded();
        }
        let Some(event) = self.not_done.get_mut(id) else {
            return FailureOutcome::Superseded;
        };
        let exhausted = event.attempts >= limit;
        self.metrics.failed(&failed, exhausted);
        let cause = match failed.kind {
            FailedKind::Poison => DeadLetterCause::Poison,
            _ if exhausted => DeadLetterCause::Exhausted,
            _ => {
                let span = TimeSpan::new(now, delay);
                event.state = EventProgress::Waiting { span };
                return FailureOutcome::Again;
            }
        };
        match self.mark_dead(id, cause, failed.error, now) {
            Some(letter) => FailureOutcome::Dead(letter),
            None => FailureOutcome::Superseded,
        }
    }

    /// Counts an attempt that ended after its claim was taken over.
    pub(crate) fn superseded(&mut self) -> FailureOutcome {
        self.metrics.superseded += 1;
        FailureOutcome::Superseded
    }

    /// Ends an attempt without counting it.
    pub(crate) fn uncount_attempt(&mut self, id: &str, token: FencingToken, now: MonotonicTime) {
        if !self.holds(id, token) {
            return;
        }
        let Some(event) = self.not_done.get_mut(id) else {
            return;
        };
        event.attempts -= 1;
        if event.attempts == 0 && !event.is_old(self.watermark) {
            self.not_done.remove(id);
            // It is stored if it was revived.
            self.note_forgotten(id);
        } else {
            // Without a record, the event could count as an old one that is done.
            event.state = EventProgress::due(now);
        }
    }

    /// Ends an attempt that did not report its end. The next delivery may claim the event.
    pub(crate) fn give_up(&mut self, id: &str, token: FencingToken, now: MonotonicTime) {
        if self.holds(id, token)
            && let Some(event) = self.not_done.get_mut(id)
        {
            event.state = EventProgress::due(now);
        }
    }

    fn end_unreported(&mut self, id: &str, now: MonotonicTime) -> DeadLetter {
        let failed = FailedAttempt {
            kind: FailedKind::Transient,
            reason: SmolStr::new_static("no word of the last attempt"),
            error: "the last attempt did not say how it ended".to_owned(),
        };
        self.metrics.failed(&failed, true);
        self.mark_dead(id, DeadLetterCause::Exhausted, failed.error, now)
            .unwrap_or_else(|| DeadLetter::of_no_event("it was never attempted"))
    }

    fn mark_dead(
        &mut self,
        id: &str,
        cause: DeadLetterCause,
        error: String,
        now: MonotonicTime,
    ) -> Option<DeadLetter> {
        let (id, _) = self.not_done.get_key_value(id)?;
        let id = id.clone();
        let event = self.not_done.get_mut(&id)?;
        self.deaths = self.deaths.saturating_add(1);
        let death = DeadEvent {
            number: self.deaths,
            at: now,
            cause,
            error,
        };
        let letter = death.letter(&id, event.attempts, event.sent_at, now);
        if let Some(changed) = &mut self.changed {
            changed.died(&id, (event.sent_at, event.attempts), &death, now);
        }
        event.state = EventProgress::Dead(Box::new(death));
        self.settled.add_dead(event.sent_at, self.deaths, id);
        Some(letter)
    }

    /// Makes a dead letter of a message without an event id.
    pub(crate) fn reject_without_id(
        &mut self,
        sent_at: Option<SystemTime>,
        first: bool,
        now: MonotonicTime,
    ) -> DeadLetter {
        self.deaths = self.deaths.saturating_add(1);
        let death = DeadEvent {
            number: self.deaths,
            at: now,
            cause: DeadLetterCause::Poison,
            error: "the message has no event id".to_owned(),
        };
        if let Some(changed) = &mut self.changed {
            changed.died(&SmolStr::default(), (sent_at, 0), &death, now);
        }
        let (letter, forgotten) = self.without_id.add(death, sent_at, now);
        self.note_forgotten_letters(forgotten.as_slice());
        self.metrics.received += u64::from(first);
        let failed = FailedAttempt {
            kind: FailedKind::Poison,
            reason: SmolStr::new_static("no event id"),
            error: String::new(),
        };
        self.metrics.failed(&failed, false);
        letter
    }

    /// Gives a dead event all its attempts again. Returns whether it was dead.
    pub(crate) fn revive(&mut self, id: &str, now: MonotonicTime) -> bool {
        let Some(event) = self.not_done.get_mut(id) else {
            return false;
        };
        let Some(death) = event.death() else {
            return false;
        };
        self.settled.remove_dead(event.sent_at, death.number);
        // It stays in the table: without a record it could count as an old one that is done.
        event.attempts = 0;
        event.state = EventProgress::due(now);
        if let Some(changed) = &mut self.changed {
            changed.due(id, event.sent_at);
        }
        true
    }
}

impl EventRecord {
    /// Whether its message is too old for an event without a record.
    fn is_old(&self, watermark: Option<SystemTime>) -> bool {
        self.sent_at.is_some() && self.sent_at <= watermark
    }

    /// How it died, if it is dead.
    fn death(&self) -> Option<&DeadEvent> {
        match &self.state {
            EventProgress::Dead(death) => Some(death),
            EventProgress::Claimed { .. } | EventProgress::Waiting { .. } => None,
        }
    }
}

impl EventProgress {
    /// Waiting, and due at once.
    fn due(now: MonotonicTime) -> Self {
        Self::Waiting {
            span: TimeSpan::new(now, Duration::ZERO),
        }
    }
}
