//! What a limiter counts and measures, and how it shows.

use std::fmt::{self, Debug};
use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;

use crate::lock::tempo::{Measured, Tempo};
use crate::lock::{DurationSummary, Samples};
use crate::time::{Clock, Timestamp};

/// Counts and samples of one key, or of several.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) counts: Counts,
    /// Of those that waited.
    wait: Samples,
    latency: Samples,
    /// Which calls of those that did not wait are measured.
    tempo: Tempo,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    acquired: u64,
    ended: u64,
    pub(super) rejected: u64,
    pub(super) declined: u64,
    pub(super) too_heavy: u64,
    pub(super) timed_out: u64,
    pub(super) cancelled: u64,
    cancelled_running: u64,
}

impl Figures {
    pub(super) fn new(tempo: Tempo) -> Self {
        Self {
            counts: Counts::default(),
            wait: Samples::default(),
            latency: Samples::default(),
            tempo,
        }
    }

    /// Counts a call that is granted without having waited; when that was, if it is measured.
    #[inline(always)]
    pub(super) fn begin(&mut self, clock: &Clock) -> Option<Measured> {
        self.counts.acquired += 1;
        self.tempo.measure(|| clock.now())
    }

    /// Somebody begins to wait: from now on all are measured, until there is a hurry again.
    pub(super) fn calm(&mut self) {
        self.tempo.calm();
    }

    /// Counts a call that is granted after a wait.
    pub(super) fn begin_after(&mut self, waited: Duration) {
        self.counts.acquired += 1;
        self.wait.record_wait(waited, &mut self.latency);
    }

    /// Counts a call that ends.
    #[inline(always)]
    pub(super) fn end(&mut self, began: Option<Measured>, now: Timestamp, cancelled: bool) {
        self.counts.ended += 1;
        self.counts.cancelled_running += u64::from(cancelled);
        if let Some(Measured { at, weight }) = began
            && self.latency.record(now - at, weight)
        {
            self.tempo.pardon();
        }
    }

    pub(super) fn show(&self) -> LimiterFigures {
        let Counts {
            acquired,
            ended,
            rejected,
            declined,
            too_heavy,
            timed_out,
            cancelled,
            cancelled_running,
        } = self.counts;
        LimiterFigures {
            acquired,
            rejected,
            declined,
            too_heavy,
            timed_out,
            cancelled,
            cancelled_running,
            wait: self.wait.summary(acquired, acquired - self.wait.count()),
            latency: self.latency.summary(ended, 0),
        }
    }

    /// The sums of several.
    pub(super) fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self::new(Tempo::steady());
        for one in all {
            sum.counts += one.counts;
            sum.wait.add(&one.wait);
            sum.latency.add(&one.latency);
        }
        sum
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.acquired += other.acquired;
        self.ended += other.ended;
        self.rejected += other.rejected;
        self.declined += other.declined;
        self.too_heavy += other.too_heavy;
        self.timed_out += other.timed_out;
        self.cancelled += other.cancelled;
        self.cancelled_running += other.cancelled_running;
    }
}

/// What was counted and measured since the limiter was made. Each call that asked is counted once,
/// under what became of it, and not yet while it waits; all but `acquired` and `cancelled_running`
/// never ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LimiterFigures {
    /// Calls that were granted their slots.
    pub acquired: u64,
    /// Calls turned away at once because the line was full.
    pub rejected: u64,
    /// Calls that were not to wait and found no free slot.
    pub declined: u64,
    /// Calls that take more slots than there ever are.
    pub too_heavy: u64,
    /// Calls whose timeout passed before they were granted.
    pub timed_out: u64,
    /// Calls that were cancelled before they were granted.
    pub cancelled: u64,
    /// Granted calls that had been cancelled by the time they returned their slots.
    pub cancelled_running: u64,
    /// Wait of the granted calls, from asking to grant; zero for those granted at once.
    pub wait: DurationSummary,
    /// Latency of the calls that ended, from grant to the return of their slots.
    ///
    /// Every call is measured, unless slots are taken again and again within microseconds and
    /// nobody waits: then one in 64 is, and stands for all of them. Under an adaptive limit every
    /// call is measured in any case.
    pub latency: DurationSummary,
}

/// One key at the moment of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeySnapshot<K> {
    /// The key.
    pub key: K,
    /// How many slots it has at present.
    pub limit: usize,
    /// How many of them are taken.
    pub in_flight: usize,
    /// How many calls wait.
    pub queued: usize,
    /// Its own figures, if it was configured by name.
    pub figures: Option<LimiterFigures>,
}

/// The figures of a limiter and its state, all of one moment.
///
/// Serializes in camelCase with durations in milliseconds. [`Display`](fmt::Display) prints a
/// table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LimiterSnapshot<K> {
    /// How many slots are taken in all.
    pub in_flight: usize,
    /// How many may be, if that is limited.
    pub global_limit: Option<usize>,
    /// How many calls wait in all.
    pub queued: usize,
    /// The figures of all calls.
    pub total: LimiterFigures,
    /// The keys that were configured by name, in that order, then the others that are in use, in
    /// the order in which they came into use.
    pub keys: Vec<KeySnapshot<K>>,
}

impl<K: PartialEq> LimiterSnapshot<K> {
    /// A key, if it is in use or was configured by name.
    pub fn key(&self, key: &K) -> Option<&KeySnapshot<K>> {
        self.keys.iter().find(|snapshot| snapshot.key == *key)
    }
}

impl<K: Debug> fmt::Display for LimiterSnapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<16}{:>10}{:>8}{:>10}{:>10}{:>10}{:>11}{:>11}{:>11}{:>10}{:>10}",
            "key",
            "in flight",
            "queued",
            "acquired",
            "rejected",
            "declined",
            "too heavy",
            "timed out",
            "cancelled",
            "p50",
            "p99"
        )?;
        for key in &self.keys {
            let slots = format!("{}/{}", key.in_flight, key.limit);
            let name = format!("{:?}", key.key);
            row(f, &name, &slots, key.queued, key.figures.as_ref())?;
        }
        let slots = match self.global_limit {
            Some(limit) => format!("{}/{limit}", self.in_flight),
            None => self.in_flight.to_string(),
        };
        row(f, "all", &slots, self.queued, Some(&self.total))
    }
}

fn row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    slots: &str,
    queued: usize,
    figures: Option<&LimiterFigures>,
) -> fmt::Result {
    write!(f, "\n{name:<16}{slots:>10}{queued:>8}")?;
    let Some(figures) = figures else {
        return Ok(());
    };
    write!(
        f,
        "{:>10}{:>10}{:>10}{:>11}{:>11}{:>11}{:>10}{:>10}",
        figures.acquired,
        figures.rejected,
        figures.declined,
        figures.too_heavy,
        figures.timed_out,
        figures.cancelled,
        short(figures.latency.p50),
        short(figures.latency.p99),
    )
}

fn short(duration: Duration) -> String {
    format!("{duration:.1?}")
}
