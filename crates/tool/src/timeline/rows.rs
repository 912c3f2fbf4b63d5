//! The requests of a timeline as columns: a row is a request, in the order of the requests.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};
use std::mem;

use doclock::LockId;
use doclock::diagnostics::TimelineLayout;
use doclock::lock::{CallSite, Timeline, TimelineEntry, TimelineOutcome};
use serde::{Serialize, Serializer};
use smol_str::SmolStr;

use super::columns::{write_signed, write_unsigned};
use super::report::write_element;
use super::{hold, length, wait};

pub(super) struct Rows<'a> {
    timeline: &'a Timeline,
    layout: &'a TimelineLayout<'a>,
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
    call_sites: Numbered<&'a CallSite>,
    /// The last parts of lock ids.
    locks: Numbered<SmolStr>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(timeline: &'a Timeline, layout: &'a TimelineLayout<'a>) -> Self {
        let mut rows = vec![0; layout.order.len()];
        for (row, &position) in layout.order.iter().enumerate() {
            rows[position] = row;
        }
        let first = layout.order.first();
        let origin = first.map(|&first| wait(layout, first).start);
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
            let requested = wait(self.layout, position).start;
            requested - mem::replace(&mut last, requested)
        })?;
        self.write_unsigned(out, "wait", |position| length(wait(self.layout, position)))?;
        self.write_unsigned(out, "hold", |position| {
            hold(self.layout, position).map_or(0, length)
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
            label.map_or(0, |label| names.labels.number(label) + 1)
        })?;
        self.write_unsigned(out, "site", |position| {
            let call_site = &self.entry(position).call_site;
            names.call_sites.number(call_site)
        })?;
        self.write_unsigned(out, "lock", |position| {
            names.locks.number(lock(&self.entry(position).lock_id))
        })
    }

    fn write_references(&self, out: &mut impl Write) -> io::Result<()> {
        let mut last = 0;
        self.write_signed(out, "id", |position| {
            let number = self.entry(position).lock_id.number();
            number.wrapping_sub(mem::replace(&mut last, number)) as i64
        })?;
        // How many rows before it the holder is that handed it the lock. Zero is none.
        self.write_signed(out, "giver", |position| {
            let giver = self.layout.givers[position];
            giver.map_or(0, |giver| {
                self.rows[position] as i64 - self.rows[giver] as i64
            })
        })
    }

    fn entry(&self, position: usize) -> &'a TimelineEntry {
        &self.timeline.entries[position]
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

/// Different values, each with a number.
struct Numbered<K> {
    numbers: HashMap<K, u64>,
    values: Vec<K>,
}

impl<K> Default for Numbered<K> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            values: Vec::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Numbered<K> {
    fn number(&mut self, value: K) -> u64 {
        *self.numbers.entry(value).or_insert_with_key(|value| {
            self.values.push(value.clone());
            self.values.len() as u64 - 1
        })
    }
}

impl<K: Serialize> Serialize for Numbered<K> {
    /// The values, in the order of their numbers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
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
        _ => 8,
    }
}

/// The last part of an id, which names the lock.
fn lock(id: &LockId) -> SmolStr {
    let id = id.to_string();
    id.rsplit('-').next().unwrap_or_default().into()
}
