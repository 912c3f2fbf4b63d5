//! The requests of a timeline as columns: a row is a request, in the order of the requests.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};
use std::mem;

use serde::{Serialize, Serializer};
use smol_str::SmolStr;

use super::columns::{write_signed, write_unsigned};
use super::handoffs::handoffs;
use super::layout::Layout;
use super::report::write_element;
use super::spans::Spans;
use super::{Timeline, TimelineEntry, TimelineOutcome};
use crate::CallSite;
use crate::id::LockId;

pub(super) struct Rows<'a> {
    timeline: &'a Timeline,
    layout: &'a Layout<'a>,
    /// The row of the entry at each position.
    rows: Vec<usize>,
    /// The time of the first request, in nanoseconds. Times in columns count from here.
    pub(super) origin: u64,
}

/// What rows refer to by number.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Names<'a> {
    labels: Numbered<&'a SmolStr>,
    call_sites: Numbered<CallSite>,
    /// The last parts of lock ids.
    locks: Numbered<u32, String>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(timeline: &'a Timeline, layout: &'a Layout<'a>) -> Self {
        let mut rows = vec![0; layout.order.len()];
        for (row, &position) in layout.order.iter().enumerate() {
            rows[position] = row;
        }
        let first = layout.order.first();
        let origin = first.map(|&first| timeline.spans(&timeline.entries[first]).wait.from);
        Self {
            timeline,
            layout,
            rows,
            origin: origin.unwrap_or(0),
        }
    }

    /// Returns the row of the entry at a position.
    pub(super) fn row_of(&self, position: usize) -> usize {
        self.rows[position]
    }

    /// Writes each column as an element, one after the other: nothing is built in memory.
    pub(super) fn write(&self, out: &mut impl Write, names: &mut Names<'a>) -> io::Result<()> {
        self.write_times(out)?;
        self.write_names(out, names)?;
        self.write_references(out)
    }

    fn write_times(&self, out: &mut impl Write) -> io::Result<()> {
        let mut last = self.origin;
        self.write_unsigned(out, "requested", |position| {
            let requested = self.spans(position).wait.from;
            requested - mem::replace(&mut last, requested)
        })?;
        self.write_unsigned(out, "wait", |position| self.spans(position).wait.length())?;
        self.write_unsigned(out, "hold", |position| {
            let hold = self.spans(position).hold;
            hold.map_or(0, |hold| hold.length())
        })
    }

    fn write_names(&self, out: &mut impl Write, names: &mut Names<'a>) -> io::Result<()> {
        self.write_unsigned(out, "outcome", |position| {
            let entry = self.entry(position);
            (outcome(entry.outcome) << 1) | u64::from(entry.nodes)
        })?;
        self.write_unsigned(out, "track", |position| {
            self.layout.track_of[position] as u64
        })?;
        // Zero is no label.
        self.write_unsigned(out, "label", |position| {
            let label = self.entry(position).label.as_ref();
            label.map_or(0, |label| names.labels.number(label, |label| label) + 1)
        })?;
        self.write_unsigned(out, "site", |position| {
            let call_site = self.entry(position).call_site;
            names.call_sites.number(call_site, |call_site| call_site)
        })?;
        self.write_unsigned(out, "lock", |position| {
            names
                .locks
                .number(self.entry(position).lock_id.lock, suffix)
        })
    }

    fn write_references(&self, out: &mut impl Write) -> io::Result<()> {
        let mut last = 0;
        self.write_signed(out, "id", |position| {
            let number = self.entry(position).lock_id.number;
            number.wrapping_sub(mem::replace(&mut last, number)) as i64
        })?;
        // How many rows before it the holder is that handed it the lock. Zero is none.
        let givers = handoffs(self.timeline);
        self.write_signed(out, "giver", |position| {
            let giver = givers[position];
            giver.map_or(0, |giver| {
                self.rows[position] as i64 - self.rows[giver] as i64
            })
        })
    }

    fn entry(&self, position: usize) -> &'a TimelineEntry {
        &self.timeline.entries[position]
    }

    fn spans(&self, position: usize) -> Spans {
        self.timeline.spans(self.entry(position))
    }

    fn write_unsigned(
        &self,
        out: &mut impl Write,
        name: &str,
        mut number: impl FnMut(usize) -> u64,
    ) -> io::Result<()> {
        self.write_column(out, name, |out, position| {
            write_unsigned(out, number(position))
        })
    }

    fn write_signed(
        &self,
        out: &mut impl Write,
        name: &str,
        mut number: impl FnMut(usize) -> i64,
    ) -> io::Result<()> {
        self.write_column(out, name, |out, position| {
            write_signed(out, number(position))
        })
    }

    fn write_column<W: Write>(
        &self,
        out: &mut W,
        name: &str,
        mut write: impl FnMut(&mut W, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let attributes = format!(r#" type="text/plain" data-column="{name}""#);
        write_element(out, "script", &attributes, |out| {
            let mut order = self.layout.order.iter();
            order.try_for_each(|&position| write(out, position))
        })
    }
}

/// Different values, each with a number, and with the name that stands for it in the page.
struct Numbered<K, N = K> {
    numbers: HashMap<K, u64>,
    names: Vec<N>,
}

impl<K, N> Default for Numbered<K, N> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            names: Vec::new(),
        }
    }
}

impl<K: Copy + Eq + Hash, N> Numbered<K, N> {
    fn number(&mut self, key: K, name: impl FnOnce(K) -> N) -> u64 {
        *self.numbers.entry(key).or_insert_with(|| {
            self.names.push(name(key));
            self.names.len() as u64 - 1
        })
    }
}

impl<K, N: Serialize> Serialize for Numbered<K, N> {
    /// The names, in the order of their numbers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.names.serialize(serializer)
    }
}

/// The numbers of the page.
fn outcome(outcome: TimelineOutcome) -> u64 {
    match outcome {
        TimelineOutcome::Waiting => 0,
        TimelineOutcome::Holding => 1,
        TimelineOutcome::Released => 2,
        TimelineOutcome::Revoked => 3,
        TimelineOutcome::Extended => 4,
        TimelineOutcome::TimedOut => 5,
        TimelineOutcome::Cancelled => 6,
        TimelineOutcome::Deadlock => 7,
    }
}

/// The last part of the ids of a lock.
fn suffix(lock: u32) -> String {
    let id = LockId { number: 0, lock }.to_string();
    id.trim_start_matches("lock-0-").to_owned()
}
