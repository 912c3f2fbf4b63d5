//! The metrics of a limiter.

use std::fmt::{self, Debug};
use std::time::Duration;

use serde::Serialize;

use crate::sampling::Sampling;
use crate::stats::deref_to_counters;
use crate::{CallSite, DurationSummary, Samples, ThreadInfo, millis};

/// Counters and samples of one key, or of several.
#[derive(Debug)]
pub(super) struct CallMetrics {
    pub(super) counts: LimiterCounters,
    /// The number of calls that ended.
    pub(super) ended: u64,
    /// Of calls that waited.
    pub(super) wait: Samples,
    pub(super) latency: Samples,
    /// Decides which of the calls that did not wait are measured.
    pub(super) sampling: Sampling,
}

impl CallMetrics {
    pub(super) fn new(sampling: Sampling) -> Self {
        Self {
            counts: LimiterCounters::default(),
            ended: 0,
            wait: Samples::default(),
            latency: Samples::default(),
            sampling,
        }
    }

    pub(super) fn show(&self) -> LimiterMetrics {
        let acquired = self.counts.acquired;
        LimiterMetrics {
            counters: self.counts,
            wait: self.wait.summary(acquired, acquired - self.wait.count()),
            latency: self.latency.summary(self.ended, 0),
        }
    }

    pub(super) fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self::new(Sampling::of_each());
        for one in all {
            let (counts, own) = (&mut sum.counts, &one.counts);
            counts.acquired += own.acquired;
            counts.rejected += own.rejected;
            counts.declined += own.declined;
            counts.too_heavy += own.too_heavy;
            counts.timed_out += own.timed_out;
            counts.cancelled += own.cancelled;
            counts.cancelled_running += own.cancelled_running;
            sum.ended += one.ended;
            sum.wait.add(&one.wait);
            sum.latency.add(&one.latency);
        }
        sum
    }
}

/// How calls ended since the limiter was created: the fields of [`LimiterMetrics`]. Each call
/// counts once, under its outcome, and not while it waits. Only `acquired` and `cancelled_running`
/// are calls that ran. Serializes in camelCase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LimiterCounters {
    /// The number of calls that were granted their slots.
    pub acquired: u64,
    /// The number of calls that a full queue rejected.
    pub rejected: u64,
    /// The number of calls that were not allowed to wait and found no free slot.
    pub declined: u64,
    /// The number of calls that take more slots than there ever are.
    pub too_heavy: u64,
    /// The number of calls that timed out before they were granted.
    pub timed_out: u64,
    /// The number of calls that were cancelled before they were granted.
    pub cancelled: u64,
    /// The number of granted calls that were cancelled before they returned their slots.
    pub cancelled_running: u64,
}

deref_to_counters! { LimiterCounters: LimiterMetrics }

/// Counters and durations since the limiter was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LimiterMetrics {
    /// The counters, which are also fields of this value.
    #[serde(flatten)]
    pub counters: LimiterCounters,
    /// The wait of the granted calls, from request to grant; zero for an immediate grant.
    pub wait: DurationSummary,
    /// The latency of the calls that ended, from grant to the return of their slots. Of the calls
    /// that got their slots at once, one in 64 is measured and counts for all of them. The others
    /// are all measured, and so is every call under an adaptive limit or by a manual clock.
    pub latency: DurationSummary,
}

/// One key at the moment of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeySnapshot<K> {
    /// The key.
    pub key: K,
    #[serde(skip)]
    #[doc(hidden)]
    pub number: u64,
    /// The present limit of the key.
    pub limit: usize,
    /// The number of its slots that are taken.
    pub in_flight: usize,
    /// The number of calls that wait.
    pub queued: usize,
    /// One of the permits that hold its slots. If all permits of a full key do not return, it is
    /// one of those. It is the oldest if no other was held when it was granted. `None` if the
    /// permit that was known has returned, and no other was granted since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<PermitSnapshot>,
    /// Its own metrics, if it was configured by name.
    pub metrics: Option<LimiterMetrics>,
}

/// A permit at the moment of a snapshot. Serializes in camelCase, `heldFor` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PermitSnapshot {
    /// How long it has been held, by the limiter's clock.
    #[serde(with = "millis::duration")]
    pub held_for: Duration,
    /// Whether `held_for` is only a lower bound, as of [`LockInfo::at_least`](crate::LockInfo).
    pub at_least: bool,
    /// The source code location of the request.
    pub call_site: CallSite,
    /// The thread that requested it, wherever the permit is now. `None` for a task, and for a
    /// thread that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadInfo>,
}

/// The metrics and the state of a limiter, all of one moment. Serializes in camelCase with
/// durations in milliseconds. [`Display`](fmt::Display) prints a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LimiterSnapshot<K> {
    /// The number of slots that all keys have taken.
    pub in_flight: usize,
    /// The global limit, if there is one.
    pub global_limit: Option<usize>,
    /// The number of calls that wait in all.
    pub queued: usize,
    /// The metrics of all calls.
    pub total: LimiterMetrics,
    /// The keys that were configured by name, in that order, then the other keys in use, in the
    /// order in which they came into use.
    pub keys: Vec<KeySnapshot<K>>,
}

impl<K: PartialEq> LimiterSnapshot<K> {
    /// Returns a key, if it is in use or was configured by name.
    pub fn key(&self, key: &K) -> Option<&KeySnapshot<K>> {
        self.keys.iter().find(|snapshot| snapshot.key == *key)
    }
}

impl<K: Debug> fmt::Display for LimiterSnapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head =
            "in flight,queued,acquired,rejected,declined,too heavy,timed out,cancelled,p50,p99";
        row(f, "key", head.split(',').map(str::to_owned))?;
        for key in &self.keys {
            let slots = format!("{}/{}", key.in_flight, key.limit);
            let columns = columns(slots, key.queued, key.metrics);
            writeln!(f)?;
            row(f, &format!("{:?}", key.key), columns)?;
        }
        let slots = match self.global_limit {
            Some(limit) => format!("{}/{limit}", self.in_flight),
            None => self.in_flight.to_string(),
        };
        writeln!(f)?;
        row(f, "all", columns(slots, self.queued, Some(self.total)))
    }
}

fn columns(
    slots: String,
    queued: usize,
    metrics: Option<LimiterMetrics>,
) -> impl Iterator<Item = String> {
    let of_calls = metrics.into_iter().flat_map(|metrics| {
        let counts = [
            metrics.acquired,
            metrics.rejected,
            metrics.declined,
            metrics.too_heavy,
            metrics.timed_out,
            metrics.cancelled,
        ];
        let latencies = [metrics.latency.p50, metrics.latency.p99];
        let latencies = latencies.map(|latency| format!("{latency:.1?}"));
        counts
            .map(|count| count.to_string())
            .into_iter()
            .chain(latencies)
    });
    [slots, queued.to_string()].into_iter().chain(of_calls)
}

fn row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    columns: impl Iterator<Item = String>,
) -> fmt::Result {
    write!(f, "{name:<16}")?;
    let widths = [10, 8, 10, 10, 10, 11, 11, 11, 10, 10];
    let mut columns = columns.zip(widths);
    columns.try_for_each(|(column, width)| write!(f, "{column:>width$}"))
}
