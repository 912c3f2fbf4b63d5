//! The wait and the hold of a request, in nanoseconds since the recorder began.

use std::time::Duration;

use super::{Timeline, TimelineEntry, TimelineOutcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Span {
    // The fields of a timeline are public: a program can write an end before a begin.
    fn new(from: u64, to: u64) -> Self {
        Self {
            from,
            to: to.max(from),
        }
    }

    pub(super) fn length(self) -> u64 {
        self.to - self.from
    }

    pub(super) fn overlap(self, other: Self) -> u64 {
        let (from, to) = (self.from.max(other.from), self.to.min(other.to));
        to.saturating_sub(from)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spans {
    /// From the request to its grant, or to its end if it was not granted.
    pub(super) wait: Span,
    pub(super) hold: Option<Span>,
}

impl Spans {
    pub(super) fn end(self) -> u64 {
        self.hold.unwrap_or(self.wait).to
    }
}

impl TimelineOutcome {
    /// Returns whether the request is or was a holder by its own entry.
    pub(super) fn is_hold(self) -> bool {
        match self {
            Self::Holding | Self::Released | Self::Revoked => true,
            Self::Waiting | Self::Extended | Self::TimedOut | Self::Cancelled | Self::Deadlock => {
                false
            }
        }
    }
}

impl Timeline {
    /// Returns when a request waited and held. What has not ended lasts until the timeline is read.
    pub(super) fn spans(&self, entry: &TimelineEntry) -> Spans {
        let end = entry.ended_at.unwrap_or(self.read_at);
        let granted = entry.granted_at.unwrap_or(end);
        let wait = Span::new(nanos(entry.requested_at), nanos(granted));
        let is_hold = entry.outcome.is_hold();
        let hold = is_hold.then(|| Span::new(wait.to, nanos(end)));
        Spans { wait, hold }
    }
}

/// 584 years at most.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
