//! The Trace Event Format, which Perfetto and `chrome://tracing` read.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};
use smol_str::SmolStr;

use super::{Timeline, TimelineEntry, TimelineLayout, TimelineOutcome};
use crate::CallSite;
use crate::id::LockId;

impl Timeline {
    /// Returns the timeline as Chrome trace events, which <https://ui.perfetto.dev> opens as JSON.
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
    /// use doclock_locks::{FifoLock, LockOptions};
    ///
    /// let lock = FifoLock::with_options(LockOptions::new().timeline(1_000));
    /// drop(lock.lock("report")?);
    /// let timeline = lock.timeline().unwrap();
    /// let trace = serde_json::to_value(timeline.chrome_trace())?;
    /// assert!(trace["traceEvents"].as_array().unwrap().len() > 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [Trace Event Format]: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    pub fn chrome_trace(&self) -> impl Serialize {
        ChromeTrace(self)
    }
}

struct ChromeTrace<'a>(&'a Timeline);

impl Serialize for ChromeTrace<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut trace = serializer.serialize_struct("ChromeTrace", 1)?;
        trace.serialize_field("traceEvents", &TraceEvents(self.0))?;
        trace.end()
    }
}

struct TraceEvents<'a>(&'a Timeline);

impl Serialize for TraceEvents<'_> {
    // Slices on tracks, not asynchronous events: Perfetto binds flow arrows to slices of tracks
    // alone, and shows asynchronous events under their process, not under an owner. Slices of one
    // track must nest, so requests that overlap have different tracks.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let layout = self.0.layout();
        let mut events = Events {
            sequence: serializer.serialize_seq(None)?,
            entries: &self.0.entries,
            layout: &layout,
        };
        events.write(&Event::metadata(0, "process_name", "doclock"))?;
        for (track, name) in layout.tracks.iter().enumerate() {
            events.write(&Event::metadata(track, "thread_name", &name.to_string()))?;
            events.write(&Event::SortIndex {
                pid: PROCESS,
                tid: thread(track),
                name: "thread_sort_index",
                args: SortIndex { sort_index: track },
            })?;
        }
        for &position in &layout.order {
            events.write_request(position)?;
            if let Some(giver) = layout.givers[position] {
                events.write_arrow(giver, position)?;
            }
        }
        events.sequence.end()
    }
}

const PROCESS: usize = 1;

/// Perfetto takes a thread with the number of its process for the main thread.
fn thread(track: usize) -> usize {
    PROCESS + 1 + track
}

/// Exact up to 104 days.
fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

#[derive(Serialize)]
#[serde(tag = "ph")]
enum Event<'a> {
    #[serde(rename = "M")]
    Metadata {
        pid: usize,
        tid: usize,
        name: &'static str,
        args: ThreadName<'a>,
    },
    #[serde(rename = "M")]
    SortIndex {
        pid: usize,
        tid: usize,
        name: &'static str,
        args: SortIndex,
    },
    #[serde(rename = "X")]
    Slice {
        pid: usize,
        tid: usize,
        ts: f64,
        dur: f64,
        cat: &'static str,
        name: Cow<'static, str>,
        args: RequestArgs<'a>,
    },
    #[serde(rename = "i")]
    Instant {
        pid: usize,
        tid: usize,
        ts: f64,
        s: &'static str,
        cat: &'static str,
        name: &'static str,
        args: RequestArgs<'a>,
    },
    #[serde(rename = "s")]
    FlowStart {
        pid: usize,
        tid: usize,
        ts: f64,
        cat: &'static str,
        name: &'static str,
        id: usize,
    },
    #[serde(rename = "f")]
    FlowEnd {
        pid: usize,
        tid: usize,
        ts: f64,
        cat: &'static str,
        name: &'static str,
        id: usize,
        bp: &'static str,
    },
}

#[derive(Serialize)]
struct ThreadName<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct SortIndex {
    sort_index: usize,
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

impl<'a> Event<'a> {
    fn metadata(track: usize, name: &'static str, value: &'a str) -> Self {
        Self::Metadata {
            pid: PROCESS,
            tid: thread(track),
            name,
            args: ThreadName { name: value },
        }
    }

    fn slice(tid: usize, cat: &'static str, span: Range<Duration>, args: RequestArgs<'a>) -> Self {
        let name = match args.label {
            Some(label) => Cow::Owned(format!("{cat} ({label})")),
            None => Cow::Borrowed(cat),
        };
        Self::Slice {
            pid: PROCESS,
            tid,
            ts: micros(span.start),
            dur: micros(span.end - span.start),
            cat,
            name,
            args,
        }
    }
}

/// The name of the instant at the end of a request, if it ended in an unusual way.
fn instant(outcome: TimelineOutcome) -> Option<&'static str> {
    match outcome {
        TimelineOutcome::TimedOut => Some("timeout"),
        TimelineOutcome::Revoked => Some("revocation"),
        TimelineOutcome::Deadlock => Some("deadlock"),
        TimelineOutcome::Cancelled => Some("cancellation"),
        TimelineOutcome::Waiting
        | TimelineOutcome::Holding
        | TimelineOutcome::Released
        | TimelineOutcome::Extended => None,
    }
}

/// Serializes events as elements of one sequence.
struct Events<'a, S> {
    sequence: S,
    entries: &'a [TimelineEntry],
    layout: &'a TimelineLayout<'a>,
}

impl<S: SerializeSeq> Events<'_, S> {
    fn write(&mut self, event: &Event<'_>) -> Result<(), S::Error> {
        self.sequence.serialize_element(event)
    }

    fn write_request(&mut self, position: usize) -> Result<(), S::Error> {
        let entry = &self.entries[position];
        let tid = thread(self.layout.track_of[position]);
        let request = RequestArgs {
            lock_id: entry.lock_id,
            label: entry.label.as_ref(),
            call_site: &entry.call_site,
            nodes: entry.nodes,
            outcome: entry.outcome,
        };
        let wait = self.layout.wait(position);
        let mut end = wait.end;
        if !wait.is_empty() {
            self.write(&Event::slice(tid, "wait", wait, request))?;
        }
        if let Some(hold) = self.layout.hold(position) {
            end = hold.end;
            self.write(&Event::slice(tid, "hold", hold, request))?;
        }
        let Some(name) = instant(entry.outcome) else {
            return Ok(());
        };
        self.write(&Event::Instant {
            pid: PROCESS,
            tid,
            ts: micros(end),
            s: "t",
            cat: "end",
            name,
            args: request,
        })
    }

    /// Writes the arrow of a hand-off. It begins a nanosecond before the end of the hold, so that
    /// it belongs to this slice alone.
    fn write_arrow(&mut self, giver: usize, taker: usize) -> Result<(), S::Error> {
        let hold = self.layout.hold(giver);
        let hold = hold.unwrap_or_else(|| self.layout.wait(giver));
        let last = hold.end.saturating_sub(Duration::from_nanos(1));
        self.write(&Event::FlowStart {
            pid: PROCESS,
            tid: thread(self.layout.track_of[giver]),
            ts: micros(last.max(hold.start)),
            cat: "hand-off",
            name: "hand-off",
            id: taker,
        })?;
        self.write(&Event::FlowEnd {
            pid: PROCESS,
            tid: thread(self.layout.track_of[taker]),
            ts: micros(self.layout.wait(taker).end),
            cat: "hand-off",
            name: "hand-off",
            id: taker,
            bp: "e",
        })
    }
}
