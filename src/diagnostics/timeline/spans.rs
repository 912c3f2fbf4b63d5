//! The wait and the hold of a request, counted from the begin of the recorder.

use std::ops::Range;
use std::time::Duration;

use crate::lock::{Timeline, TimelineEntry, TimelineOutcome};

/// Returns when a request waited: until its grant, or until its end if it was not granted.
pub(super) fn wait(timeline: &Timeline, entry: &TimelineEntry) -> Range<Duration> {
    let from = entry.requested_at;
    // The fields of a timeline are public: a program can write an end before a begin.
    from..entry.granted_at.unwrap_or(end(timeline, entry)).max(from)
}

/// Returns when a request held, if its own entry is that of a holder.
pub(super) fn hold(timeline: &Timeline, entry: &TimelineEntry) -> Option<Range<Duration>> {
    use TimelineOutcome::{Holding, Released, Revoked};
    let from = wait(timeline, entry).end;
    let hold = from..end(timeline, entry).max(from);
    matches!(entry.outcome, Holding | Released | Revoked).then_some(hold)
}

/// A request that has not ended lasts until the timeline is read.
fn end(timeline: &Timeline, entry: &TimelineEntry) -> Duration {
    entry.ended_at.unwrap_or(timeline.read_at)
}
