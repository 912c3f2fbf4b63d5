//! The Trace Event Format, which Perfetto and `chrome://tracing` read.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use serde::{Serialize, Serializer};
use smol_str::SmolStr;

use super::TimelineLayout;
use crate::id::LockId;
use crate::lock::{CallSite, Timeline, TimelineEntry, TimelineOutcome};

/// Returns a timeline as Chrome trace events, which <https://ui.perfetto.dev> opens as JSON.
///
/// Each owner has a track. Requests of one owner that overlap are on further tracks, `ann (2)`.
/// A wait and a hold are slices, named `wait (label)` and `hold (label)`. An arrow leads from a
/// holder to the request that it handed the lock. A timeout, a revocation, a deadlock and a
/// cancellation are instants. Slices have the id, the label, the call site and the outcome as
/// arguments. Times are microseconds since [`Timeline::began_at`], with nanoseconds as
/// fractions.
///
/// The format is the [Trace Event Format], as an object with `traceEvents`. The events are
/// serialized one by one, in the order of the requests, so a trace that is written to a file
/// takes little memory.
///
/// ```
/// use doclock::diagnostics::chrome_trace;
/// use doclock::lock::{FifoLock, LockOptions};
///
/// let lock = FifoLock::with_options(LockOptions::new().timeline(1_000));
/// drop(lock.lock("report")?);
/// let timeline = lock.timeline().unwrap();
/// let trace = serde_json::to_value(chrome_trace(&timeline))?;
/// assert!(trace["traceEvents"].as_array().unwrap().len() > 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [Trace Event Format]: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
pub fn chrome_trace(timeline: &Timeline) -> impl Serialize {
    ChromeTrace { events: timeline }
}

#[derive(Serialize)]
struct ChromeTrace<'a> {
    #[serde(rename = "traceEvents", serialize_with = "events")]
    events: &'a Timeline,
}

/// Serializes the events one by one.
// Slices on tracks, not asynchronous events: Perfetto binds flow arrows to slices of tracks alone,
// and shows asynchronous events under their process, not under an owner. Slices of one track must
// nest, so requests that overlap have different tracks.
fn events<S: Serializer>(timeline: &Timeline, serializer: S) -> Result<S::Ok, S::Error> {
    let layout = TimelineLayout::new(timeline);
    let process = TraceEvent::metadata(0, "process_name", EventArgs::Name("doclock".into()));
    let tracks = layout.tracks.iter().enumerate().flat_map(|(track, name)| {
        let name = EventArgs::Name(name.to_string());
        [
            TraceEvent::metadata(track, "thread_name", name),
            TraceEvent::metadata(track, "thread_sort_index", EventArgs::SortIndex(track)),
        ]
    });
    let requests = layout.order.iter().flat_map(|&position| {
        let arrow = layout.givers[position].map(|giver| arrow(&layout, giver, position));
        let request = request(&timeline.entries[position], &layout, position);
        request
            .into_iter()
            .flatten()
            .chain(arrow.into_iter().flatten())
    });
    serializer.collect_seq([process].into_iter().chain(tracks).chain(requests))
}

const PROCESS: usize = 1;

/// One event of the format.
#[derive(Default, Serialize)]
struct TraceEvent<'a> {
    /// The kind of the event.
    ph: &'static str,
    pid: usize,
    tid: usize,
    name: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    /// The number of an arrow.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<usize>,
    /// Where an arrow ends: at the slice around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    /// How far an instant is drawn: on its track.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<EventArgs<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum EventArgs<'a> {
    Name(String),
    SortIndex(usize),
    #[serde(untagged)]
    Request(RequestArgs<'a>),
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestArgs<'a> {
    lock_id: LockId,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a SmolStr>,
    call_site: &'a CallSite,
    nodes: bool,
    outcome: TimelineOutcome,
}

impl<'a> TraceEvent<'a> {
    fn on(track: usize, ph: &'static str, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            ph,
            pid: PROCESS,
            // Perfetto takes a thread with the number of its process for the main thread.
            tid: PROCESS + 1 + track,
            name: name.into(),
            ..Self::default()
        }
    }

    fn metadata(track: usize, name: &'static str, args: EventArgs<'a>) -> Self {
        Self {
            args: Some(args),
            ..Self::on(track, "M", name)
        }
    }

    fn slice(
        track: usize,
        cat: &'static str,
        span: &Range<Duration>,
        args: RequestArgs<'a>,
    ) -> Self {
        let name = match args.label {
            Some(label) => Cow::Owned(format!("{cat} ({label})")),
            None => Cow::Borrowed(cat),
        };
        Self {
            dur: Some(micros(span.end - span.start)),
            args: Some(EventArgs::Request(args)),
            ..Self::on(track, "X", name).at(cat, span.start)
        }
    }

    fn at(self, cat: &'static str, time: Duration) -> Self {
        Self {
            ts: Some(micros(time)),
            cat: Some(cat),
            ..self
        }
    }
}

/// Exact up to 104 days.
fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// The wait and the hold of a request, and an instant at its end if it ended in an unusual way.
fn request<'a>(
    entry: &'a TimelineEntry,
    layout: &TimelineLayout<'_>,
    position: usize,
) -> [Option<TraceEvent<'a>>; 3] {
    let track = layout.track_of[position];
    let args = RequestArgs {
        lock_id: entry.lock_id,
        label: entry.label.as_ref(),
        call_site: &entry.call_site,
        nodes: entry.nodes,
        outcome: entry.outcome,
    };
    let (wait, hold) = (layout.wait(position), layout.hold(position));
    let end = hold.as_ref().map_or(wait.end, |hold| hold.end);
    let instant = match entry.outcome {
        TimelineOutcome::TimedOut => Some("timeout"),
        TimelineOutcome::Revoked => Some("revocation"),
        TimelineOutcome::Deadlock => Some("deadlock"),
        TimelineOutcome::Cancelled => Some("cancellation"),
        _ => None,
    };
    [
        (!wait.is_empty()).then(|| TraceEvent::slice(track, "wait", &wait, args)),
        hold.map(|hold| TraceEvent::slice(track, "hold", &hold, args)),
        instant.map(|name| TraceEvent {
            s: Some("t"),
            args: Some(EventArgs::Request(args)),
            ..TraceEvent::on(track, "i", name).at("end", end)
        }),
    ]
}

/// The arrow of a hand-off. It begins a nanosecond before the end of the hold, so that it belongs
/// to this slice alone.
fn arrow(layout: &TimelineLayout<'_>, giver: usize, taker: usize) -> [TraceEvent<'static>; 2] {
    let hold = layout.hold(giver);
    let hold = hold.unwrap_or_else(|| layout.wait(giver));
    let last = hold.end.saturating_sub(Duration::from_nanos(1));
    let tip = |position: usize, ph, time| TraceEvent {
        id: Some(taker),
        ..TraceEvent::on(layout.track_of[position], ph, "hand-off").at("hand-off", time)
    };
    [
        tip(giver, "s", last.max(hold.start)),
        TraceEvent {
            bp: Some("e"),
            ..tip(taker, "f", layout.wait(taker).end)
        },
    ]
}
