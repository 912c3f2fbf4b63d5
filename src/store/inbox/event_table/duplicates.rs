//! Decides what a delivery of a message gets: a claim on its event, or the outcome that the event
//! is already done (a duplicate), claimed by another worker, dead, or too old to tell.

use std::time::{Duration, SystemTime};

use smol_str::SmolStr;

use super::{DeadLetter, EventProgress, EventRecord, EventTable, TimeSpan};
use crate::id::{FencingToken, OwnerId};
use crate::time::MonotonicTime;

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
    AlreadyDead,
    TooOld,
    Taken { remaining: Duration },
    Dead(DeadLetter),
}

impl EventTable {
    /// Requests an event.
    ///
    /// A new claim has a larger token than all before it. An event is dead if it has used up its
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
        let Some(event) = self.not_done.get_mut(delivery.id) else {
            return self.claim_new(delivery, by, now);
        };
        let stale = match &event.state {
            EventProgress::Dead(_) => {
                self.metrics.duplicates += 1;
                return ClaimOutcome::AlreadyDead;
            }
            EventProgress::Claimed { span, .. } | EventProgress::Waiting { span } => {
                if let Some(remaining) = span.left(now) {
                    self.metrics.taken += u64::from(delivery.first);
                    return ClaimOutcome::Taken { remaining };
                }
                matches!(event.state, EventProgress::Claimed { .. })
            }
        };
        if event.attempts >= by.attempts {
            return ClaimOutcome::Dead(self.end_unreported(delivery.id, now));
        }
        self.metrics.taken_over += u64::from(stale);
        event.attempts += 1;
        let attempt = event.attempts;
        self.last_token += 1;
        let token = FencingToken(self.last_token);
        event.state = by.claimed(token, now);
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
        let event = EventRecord {
            sent_at: delivery.sent_at,
            attempts: 1,
            state: by.claimed(token, now),
        };
        if let Some(changed) = &mut self.changed
            && event.is_old(self.stored_until)
        {
            changed.due(delivery.id, delivery.sent_at);
        }
        self.not_done.insert(SmolStr::new(delivery.id), event);
        ClaimOutcome::Claimed { token, attempt: 1 }
    }
}

impl Claimant<'_> {
    fn claimed(&self, token: FencingToken, now: MonotonicTime) -> EventProgress {
        EventProgress::Claimed {
            owner: self.owner.clone(),
            token,
            span: TimeSpan::new(now, self.claim_time),
        }
    }
}
