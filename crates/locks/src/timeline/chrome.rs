//! The Trace Event Format, which Perfetto and `chrome://tracing` read.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use serde::Serialize;
use smol_str::SmolStr;

use super::handoffs::handoffs;
use super::layout::Layout;
use super::spans::{Span, Spans};
use super::{Timeline, TimelineEntry, TimelineOutcome};
use crate::CallSite;
use crate::id::LockId;

impl Timeline {
    /// Writes the timeline as Chrome trace events, which <https://ui.perfetto.dev> opens.
    ///
    /// Each owner has a track. Requests of one owner that overlap are on further tracks, `ann (2)`.
    /// A wait and a hold are slices, named `wait (label)` and `hold (label)`. An arrow leads from a
    /// holder to the request that it handed the lock. A timeout, a revocation, a deadlock and a
    /// cancellation are instants. Slices have the id, the label, the call site and the outcome as
    /// arguments. Times are microseconds since [`Timeline::began_at`], with nanoseconds as
    /// fractions.
    ///
    /// The format is the [Trace Event Format], as an object with `traceEvents`. The events are
    /// written one by one, in the order of the requests.
    ///
    /// # Errors
    ///
    /// Returns an error if the writer does.
    ///
    /// ```
    /// use doclock_locks::{FifoLock, LockOptions};
    ///
    /// let lock = FifoLock::with_options(LockOptions::new().timeline(1_000));
    /// drop(lock.lock("report")?);
    /// let mut trace = Vec::new();
    /// lock.timeline().unwrap().write_chrome_trace(&mut trace)?;
    /// let trace: serde_json::Value = serde_json::from_slice(&trace)?;
    /// assert!(trace["traceEvents"].as_array().unwrap().len() > 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [Trace Event Format]: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    // Slices on tracks, not asynchronous events: Perfetto binds flow arrows to slices of tracks
    // alone, and shows asynchronous events under their process, not under an owner. Slices of one
    // track must nest, so requests that overlap have different tracks.
    pub fn write_chrome_trace(&self, out: impl Write) -> io::Result<()> {
        let layout = Layout::new(self);
        let givers = handoffs(self);
        let mut events = Events::begin(out)?;
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
            let entry = &self.entries[position];
            let tid = thread(layout.track_of[position]);
            events.write_request(tid, entry, self.spans(entry))?;
            if let Some(giver) = givers[position] {
                let from = thread(layout.track_of[giver]);
                let giver = self.spans(&self.entries[giver]);
                events.write_arrow(position, (from, giver), (tid, self.spans(entry)))?;
            }
        }
        events.end()
    }
}

const PROCESS: usize = 1;

/// Perfetto takes a thread with the number of its process for the main thread.
fn thread(track: usize) -> usize {
    PROCESS + 1 + track
}

/// Exact up to 104 days.
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

#[derive(Serialize)]
#[serde(tag = "ph")]
enum Event<'a> {
    #[serde(rename = "M")]
    Metadata {
        pid: usize,
        tid: usize,
        name: &'static str,
        args: Name<'a>,
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
        args: Request<'a>,
    },
    #[serde(rename = "i")]
    Instant {
        pid: usize,
        tid: usize,
        ts: f64,
        s: &'static str,
        cat: &'static str,
        name: &'static str,
        args: Request<'a>,
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
struct Name<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct SortIndex {
    sort_index: usize,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    lock_id: LockId,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a SmolStr>,
    call_site: CallSite,
    nodes: bool,
    outcome: TimelineOutcome,
}

impl<'a> Event<'a> {
    fn metadata(track: usize, name: &'static str, value: &'a str) -> Self {
        Self::Metadata {
            pid: PROCESS,
            tid: thread(track),
            name,
            args: Name { name: value },
        }
    }

    fn slice(tid: usize, cat: &'static str, span: Span, args: Request<'a>) -> Self {
        let name = match args.label {
            Some(label) => Cow::Owned(format!("{cat} ({label})")),
            None => Cow::Borrowed(cat),
        };
        Self::Slice {
            pid: PROCESS,
            tid,
            ts: micros(span.from),
            dur: micros(span.length()),
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

/// Writes events as elements of one array.
struct Events<W: Write> {
    out: BufWriter<W>,
    separator: &'static str,
}

impl<W: Write> Events<W> {
    fn begin(out: W) -> io::Result<Self> {
        let mut out = BufWriter::new(out);
        out.write_all(b"{\"traceEvents\":[")?;
        Ok(Self {
            out,
            separator: "\n",
        })
    }

    fn write(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.out.write_all(self.separator.as_bytes())?;
        self.separator = ",\n";
        Ok(serde_json::to_writer(&mut self.out, event)?)
    }

    fn write_request(
        &mut self,
        tid: usize,
        entry: &TimelineEntry,
        Spans { wait, hold }: Spans,
    ) -> io::Result<()> {
        let request = Request {
            lock_id: entry.lock_id,
            label: entry.label.as_ref(),
            call_site: entry.call_site,
            nodes: entry.nodes,
            outcome: entry.outcome,
        };
        if wait.length() > 0 {
            self.write(&Event::slice(tid, "wait", wait, request))?;
        }
        if let Some(hold) = hold {
            self.write(&Event::slice(tid, "hold", hold, request))?;
        }
        let Some(name) = instant(entry.outcome) else {
            return Ok(());
        };
        self.write(&Event::Instant {
            pid: PROCESS,
            tid,
            ts: micros(Spans { wait, hold }.end()),
            s: "t",
            cat: "end",
            name,
            args: request,
        })
    }

    /// Writes the arrow of a hand-off. It begins a nanosecond before the end of the hold, so that
    /// it belongs to this slice alone.
    fn write_arrow(
        &mut self,
        id: usize,
        (from, giver): (usize, Spans),
        (to, taker): (usize, Spans),
    ) -> io::Result<()> {
        let hold = giver.hold.unwrap_or(giver.wait);
        self.write(&Event::FlowStart {
            pid: PROCESS,
            tid: from,
            ts: micros(hold.to.saturating_sub(1).max(hold.from)),
            cat: "hand-off",
            name: "hand-off",
            id,
        })?;
        self.write(&Event::FlowEnd {
            pid: PROCESS,
            tid: to,
            ts: micros(taker.wait.to),
            cat: "hand-off",
            name: "hand-off",
            id,
            bp: "e",
        })
    }

    fn end(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}
