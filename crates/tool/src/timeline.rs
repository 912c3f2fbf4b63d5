//! The page of a timeline: what a lock did, as one file of HTML.

mod columns;
mod durations;
mod pairs;
mod report;
mod rows;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use doclock::diagnostics::TimelineLayout;

pub(crate) use report::write_page;

/// When a request waited, in nanoseconds since the recorder began.
fn wait(layout: &TimelineLayout<'_>, position: usize) -> Range<u64> {
    let wait = layout.wait(position);
    nanos(wait.start)..nanos(wait.end)
}

/// When a request held, if it did, in nanoseconds since the recorder began.
fn hold(layout: &TimelineLayout<'_>, position: usize) -> Option<Range<u64>> {
    let hold = layout.hold(position)?;
    Some(nanos(hold.start)..nanos(hold.end))
}

fn length(span: Range<u64>) -> u64 {
    span.end - span.start
}

/// 584 years at most.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
