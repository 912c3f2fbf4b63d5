//! The records of an inbox: claimed, done and dead events. The time is an argument.

mod forget;
mod inboxes;
mod letters;
mod marks;
mod metrics;
mod stored;

use std::time::{Duration, SystemTime};

use hashbrown::HashMap;
use smol_str::SmolStr;

use crate::hashing::Secret;
use crate::id::{FencingToken, OwnerId};
use crate::time::MonotonicTime;
use forget::Settled;
pub use inboxes::InboxInUse;
pub(crate) use inboxes::InboxKey;
pub(in crate::store) use inboxes::Inboxes;
use letters::Nameless;
pub use letters::{DeadLetter, DeadLetterCause, EventState};
use marks::DoneMarks;
use metrics::InboxCounters;
pub use metrics::{InboxStats, ReasonCount};
use stored::Changed;
pub(crate) use stored::EventNote;

/// The events of one inbox.
///
/// Each event is in one of two tables or in none. Claimed, waiting and dead events are few; they
/// are in `open`. Done events are many and take little memory each.
#[derive(Default)]
pub(crate) struct InboxRecords {
    open: Table<Open>,
    done: DoneMarks,
    /// The done and dead events, in the orders in which they are forgotten.
    settled: Settled,
    /// The newest time of sending of all forgotten events. A message sent no later whose event is
    /// in no table may have been done.
    watermark: Option<SystemTime>,
    last_token: u64,
    /// The messages without an event id.
    nameless: Nameless,
    /// How many events have been buried.
    burials: u64,
    metrics: InboxCounters,
    /// What a journal has to store. `None` if there is none.
    changed: Option<Box<Changed>>,
}

type Table<R> = HashMap<SmolStr, R, Secret>;

struct Open {
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
        span: Span,
    },
    /// The last attempt failed with a transient error.
    Waiting {
        /// Until the event is due.
        span: Span,
    },
    Dead(Box<Burial>),
}

struct Burial {
    number: u64,
    at: MonotonicTime,
    cause: DeadLetterCause,
    error: String,
}

struct Done {
    attempts: u32,
    at: MonotonicTime,
}

/// A time from one moment to another.
#[derive(Clone, Copy)]
struct Span {
    since: MonotonicTime,
    until: MonotonicTime,
}

impl Span {
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

/// A delivery that requests its event.
pub(crate) struct Delivery<'a> {
    pub(crate) id: &'a str,
    pub(crate) sent_at: Option<SystemTime>,
    /// Whether this is its first request.
    pub(crate) first: bool,
}

/// The worker that requests an event.
pub(crate) struct Claimant<'a> {
    pub(crate) owner: &'a OwnerId,
    /// How long its claim stays fresh.
    pub(crate) claim_time: Duration,
    /// The limit of attempts per event.
    pub(crate) attempts: u32,
}

/// The answer to a delivery that requests its event.
pub(crate) enum ClaimOutcome {
    Claimed { token: FencingToken, attempt: u32 },
    Duplicate,
    Buried,
    TooOld,
    Taken { remaining: Duration },
    Dead(DeadLetter),
}

/// Why an attempt failed.
pub(crate) struct Failed {
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

/// The state of an event after a failed attempt.
pub(crate) enum Aftermath {
    Again,
    Dead(DeadLetter),
    Superseded,
}

impl InboxRecords {
    /// The claims of a new inbox, whose tokens are larger than this.
    fn after(last_token: u64, changed: Option<Changed>) -> Self {
        Self {
            last_token,
            changed: changed.map(Box::new),
            ..Self::default()
        }
    }

    /// The number of claims that are not stale, and the time until the last of them is.
    fn held(&self, now: MonotonicTime) -> Option<(usize, Duration)> {
        let left = self.open.values().filter_map(|open| match &open.state {
            EventProgress::Claimed { span, .. } => span.left(now),
            EventProgress::Waiting { .. } | EventProgress::Dead(_) => None,
        });
        left.fold(None, |held, left| {
            let (count, longest) = held.unwrap_or_default();
            Some((count + 1, left.max(longest)))
        })
    }

    /// Requests an event.
    ///
    /// A new claim has a larger token than all before it. An event is buried if it has used up its
    /// attempts and the last did not report its end.
    pub(crate) fn claim(
        &mut self,
        delivery: &Delivery<'_>,
        by: &Claimant<'_>,
        now: MonotonicTime,
    ) -> ClaimOutcome {
        self.metrics.received += u64::from(delivery.first);
        if self.done.contains(delivery.id) {
            self.metrics.duplicates += 1;
            return ClaimOutcome::Duplicate;
        }
        let Some(open) = self.open.get_mut(delivery.id) else {
            return self.claim_new(delivery, by, now);
        };
        let stale = match &open.state {
            EventProgress::Dead(_) => {
                self.metrics.duplicates += 1;
                return ClaimOutcome::Buried;
            }
            EventProgress::Claimed { span, .. } | EventProgress::Waiting { span } => {
                if let Some(remaining) = span.left(now) {
                    self.metrics.taken += u64::from(delivery.first);
                    return ClaimOutcome::Taken { remaining };
                }
                matches!(open.state, EventProgress::Claimed { .. })
            }
        };
        if open.attempts >= by.attempts {
            return ClaimOutcome::Dead(self.bury_unheard_of(delivery.id, now));
        }
        self.metrics.taken_over += u64::from(stale);
        open.attempts += 1;
        let attempt = open.attempts;
        self.last_token += 1;
        let token = FencingToken(self.last_token);
        open.state = by.claims(token, now);
        ClaimOutcome::Claimed { token, attempt }
    }

    fn claim_new(
        &mut self,
        delivery: &Delivery<'_>,
        by: &Claimant<'_>,
        now: MonotonicTime,
    ) -> ClaimOutcome {
        // `None` is the smallest time, and has its own case.
        if delivery.sent_at.is_some() && delivery.sent_at <= self.watermark {
            self.metrics.too_old += 1;
            return ClaimOutcome::TooOld;
        }
        self.last_token += 1;
        let token = FencingToken(self.last_token);
        let open = Open {
            sent_at: delivery.sent_at,
            attempts: 1,
            state: by.claims(token, now),
        };
        self.open.insert(SmolStr::new(delivery.id), open);
        ClaimOutcome::Claimed { token, attempt: 1 }
    }

    /// The token of the claim on the event, and its start.
    fn claimed(&self, id: &str) -> Option<(FencingToken, MonotonicTime)> {
        match &self.open.get(id)?.state {
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
        let Some((id, open)) = self.open.remove_entry(id) else {
            return;
        };
        self.metrics.finished(now - since);
        if let Some(changed) = &mut self.changed {
            changed.done(&id, (open.sent_at, open.attempts), now);
        }
        self.settled.done(open.sent_at, id.clone());
        let done = Done {
            attempts: open.attempts,
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
        failed: Failed,
        (delay, limit): (Duration, u32),
        now: MonotonicTime,
    ) -> Aftermath {
        if !self.holds(id, token) {
            return self.superseded();
        }
        let Some(open) = self.open.get_mut(id) else {
            return Aftermath::Superseded;
        };
        let exhausted = open.attempts >= limit;
        self.metrics.failed(&failed, exhausted);
        let cause = match failed.kind {
            FailedKind::Poison => DeadLetterCause::Poison,
            _ if exhausted => DeadLetterCause::Exhausted,
            _ => {
                let span = Span::new(now, delay);
                open.state = EventProgress::Waiting { span };
                return Aftermath::Again;
            }
        };
        match self.bury(id, cause, failed.error, now) {
            Some(letter) => Aftermath::Dead(letter),
            None => Aftermath::Superseded,
        }
    }

    /// Counts an attempt that ended after its claim was taken over.
    pub(crate) fn superseded(&mut self) -> Aftermath {
        self.metrics.superseded += 1;
        Aftermath::Superseded
    }

    /// Ends an attempt without counting it.
    pub(crate) fn withdraw(&mut self, id: &str, token: FencingToken, now: MonotonicTime) {
        if !self.holds(id, token) {
            return;
        }
        let Some(open) = self.open.get_mut(id) else {
            return;
        };
        open.attempts -= 1;
        let is_old = open.sent_at.is_some() && open.sent_at <= self.watermark;
        if open.attempts == 0 && !is_old {
            self.open.remove(id);
            // It is stored if it was revived.
            self.note_forgotten(id);
        } else {
            // Without a record, the event could count as an old one that is done.
            open.state = EventProgress::due(now);
        }
    }

    /// Ends an attempt that did not report its end. The next delivery may claim the event.
    pub(crate) fn give_up(&mut self, id: &str, token: FencingToken, now: MonotonicTime) {
        if self.holds(id, token)
            && let Some(open) = self.open.get_mut(id)
        {
            open.state = EventProgress::due(now);
        }
    }

    fn bury_unheard_of(&mut self, id: &str, now: MonotonicTime) -> DeadLetter {
        let failed = Failed {
            kind: FailedKind::Transient,
            reason: SmolStr::new_static("no word of the last attempt"),
            error: "the last attempt did not say how it ended".to_owned(),
        };
        self.metrics.failed(&failed, true);
        self.bury(id, DeadLetterCause::Exhausted, failed.error, now)
            .unwrap_or_else(|| DeadLetter::unnamed("it was never attempted"))
    }

    fn bury(
        &mut self,
        id: &str,
        cause: DeadLetterCause,
        error: String,
        now: MonotonicTime,
    ) -> Option<DeadLetter> {
        let (id, _) = self.open.get_key_value(id)?;
        let id = id.clone();
        let open = self.open.get_mut(&id)?;
        self.burials = self.burials.saturating_add(1);
        let burial = Burial {
            number: self.burials,
            at: now,
            cause,
            error,
        };
        let letter = burial.letter(&id, open.attempts, open.sent_at, now);
        if let Some(changed) = &mut self.changed {
            changed.buried(&id, (open.sent_at, open.attempts), &burial, now);
        }
        open.state = EventProgress::Dead(Box::new(burial));
        self.settled.buried(open.sent_at, self.burials, id);
        Some(letter)
    }

    /// Buries a message without an event id.
    pub(crate) fn nameless(
        &mut self,
        sent_at: Option<SystemTime>,
        first: bool,
        now: MonotonicTime,
    ) -> DeadLetter {
        self.burials = self.burials.saturating_add(1);
        let burial = Burial {
            number: self.burials,
            at: now,
            cause: DeadLetterCause::Poison,
            error: "the message has no event id".to_owned(),
        };
        if let Some(changed) = &mut self.changed {
            changed.buried(&SmolStr::default(), (sent_at, 0), &burial, now);
        }
        let (letter, forgotten) = self.nameless.bury(burial, sent_at, now);
        self.note_forgotten_letters(forgotten.as_slice());
        self.metrics.received += u64::from(first);
        let failed = Failed {
            kind: FailedKind::Poison,
            reason: SmolStr::new_static("no event id"),
            error: String::new(),
        };
        self.metrics.failed(&failed, false);
        letter
    }

    /// Gives a dead event all its attempts again. Returns whether it was dead.
    pub(crate) fn revive(&mut self, id: &str, now: MonotonicTime) -> bool {
        let Some(open) = self.open.get_mut(id) else {
            return false;
        };
        let Some(burial) = open.burial() else {
            return false;
        };
        self.settled.exhumed(open.sent_at, burial.number);
        // It stays in the table: without a record it could count as an old one that is done.
        open.attempts = 0;
        open.state = EventProgress::due(now);
        if let Some(changed) = &mut self.changed {
            changed.revived(id, open.sent_at);
        }
        true
    }
}

impl Claimant<'_> {
    fn claims(&self, token: FencingToken, now: MonotonicTime) -> EventProgress {
        EventProgress::Claimed {
            owner: self.owner.clone(),
            token,
            span: Span::new(now, self.claim_time),
        }
    }
}

impl Open {
    /// Its burial, if the event is dead.
    fn burial(&self) -> Option<&Burial> {
        match &self.state {
            EventProgress::Dead(burial) => Some(burial),
            EventProgress::Claimed { .. } | EventProgress::Waiting { .. } => None,
        }
    }
}

impl EventProgress {
    /// Waiting, and due at once.
    fn due(now: MonotonicTime) -> Self {
        Self::Waiting {
            span: Span::new(now, Duration::ZERO),
        }
    }
}
