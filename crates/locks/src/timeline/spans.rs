//! The wait and the hold of a request, counted from the begin of the recorder.

use std::ops::Range;
use std::time::Duration;

use super::{Timeline, TimelineEntry, TimelineOutcome};

impl TimelineOutcome {
    /// Returns whether the request is or was a holder by its own entry.
    fn is_hold(self) -> bool {
        match self {
            Self::Holding | Self::Released | Self::Revoked => true,
            Self::Waiting | Self::Extended | Self::TimedOut | Self::Cancelled | Self::Deadlock => {
                false
            }
        }
    }
}

impl Timeline {
    /// Returns when a request waited: until its grant, or until its end if it was not granted.
    pub(super) fn wait(&self, entry: &TimelineEntry) -> Range<Duration> {
        let from = entry.requested_at;
        // The fields of a timeline are public: a program can write an end before a begin.
        from..entry.granted_at.unwrap_or(self.end(entry)).max(from)
    }

    /// Returns when a request held, if its own entry is that of a holder.
    pub(super) fn hold(&self, entry: &TimelineEntry) -> Option<Range<Duration>> {
        let from = self.wait(entry).end;
        let hold = from..self.end(entry).max(from);
        entry.outcome.is_hold().then_some(hold)
    }

    /// A request that has not ended lasts until the timeline is read.
    fn end(&self, entry: &TimelineEntry) -> Duration {
        entry.ended_at.unwrap_or(self.read_at)
    }
}
