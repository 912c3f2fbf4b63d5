//! The counters of an inbox and their output.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use smol_str::SmolStr;

use super::{EventProgress, EventTable, FailedAttempt, FailedKind};
use crate::lock::{DurationSummary, Samples};

/// How many reasons have their own counter.
const REASONS: usize = 32;

/// Counts since the inbox was made.
#[derive(Default)]
pub(super) struct InboxCounters {
    pub(super) received: u64,
    pub(super) duplicates: u64,
    pub(super) too_old: u64,
    pub(super) taken: u64,
    pub(super) taken_over: u64,
    pub(super) superseded: u64,
    done: u64,
    transient: u64,
    panics: u64,
    retried: u64,
    poison: u64,
    exhausted: u64,
    latency: Samples,
    /// In the order of their first occurrence.
    reasons: Vec<ReasonCount>,
}

impl InboxCounters {
    pub(super) fn finished(&mut self, took: Duration) {
        self.done += 1;
        self.latency.record_each(took);
    }

    /// Counts a failed attempt. `last` is whether it was the event's last.
    pub(super) fn failed(&mut self, failed: &FailedAttempt, last: bool) {
        let dead = match failed.kind {
            FailedKind::Poison => {
                self.poison += 1;
                true
            }
            FailedKind::Transient | FailedKind::Panic => {
                self.transient += 1;
                self.panics += u64::from(failed.kind == FailedKind::Panic);
                self.retried += u64::from(!last);
                self.exhausted += u64::from(last);
                last
            }
        };
        let reason = self.reason(&failed.reason);
        reason.failed += 1;
        reason.dead += u64::from(dead);
    }

    /// The counter of a reason, or the common one of all reasons past the limit.
    fn reason(&mut self, reason: &SmolStr) -> &mut ReasonCount {
        let known = self
            .reasons
            .iter()
            .position(|known| known.reason == *reason);
        let at = known.unwrap_or(self.reasons.len().min(REASONS));
        if at == self.reasons.len() {
            let reason = if at == REASONS {
                SmolStr::new_static("others")
            } else {
                reason.clone()
            };
            self.reasons.push(ReasonCount {
                reason,
                failed: 0,
                dead: 0,
            });
        }
        &mut self.reasons[at]
    }
}

/// Counts the attempts that failed for one reason.
///
/// Serializes in camelCase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReasonCount {
    /// The reason that the handler returned. It is `panic`, `commit` or `lock` if the handler
    /// panicked, or the commit or the lock failed. The first 32 reasons have their own counts; all
    /// others count together as `others`.
    pub reason: SmolStr,
    /// How many attempts failed for this reason.
    pub failed: u64,
    /// How many events died for this reason.
    pub dead: u64,
}

/// The metrics of an inbox and its state, all of one moment.
///
/// Serializes in camelCase with durations in milliseconds. [`Display`](fmt::Display) prints a
/// table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InboxStats {
    /// Messages that were taken in; each delivery counts once.
    pub received: u64,
    /// Events whose effect was committed.
    pub done: u64,
    /// Messages whose event was already done or dead.
    pub duplicates: u64,
    /// Messages without a record that were sent no later than a message whose record was forgotten.
    pub too_old: u64,
    /// Messages that met the claim of another worker, or an event that waited for its next attempt.
    pub taken: u64,
    /// Attempts that failed with a transient error, panics included.
    pub transient: u64,
    /// Attempts whose handler panicked.
    pub panics: u64,
    /// Attempts that failed with a transient error and left the event further attempts.
    pub retried: u64,
    /// Messages that became dead letters at once.
    pub poison: u64,
    /// Events that became dead letters because they used up their attempts.
    pub exhausted: u64,
    /// Stale claims that were taken over.
    pub taken_over: u64,
    /// Attempts that ended after their claim was taken over, and had no effect.
    pub superseded: u64,
    /// The current number of claims, stale ones included.
    pub in_flight: usize,
    /// The current number of events that wait for their next attempt.
    pub waiting: usize,
    /// The current number of dead letters.
    pub dead: usize,
    /// The current number of events that are remembered as done.
    pub remembered: usize,
    /// The time from claim to commit, of the successful attempts.
    pub latency: DurationSummary,
    /// The reasons of failed attempts, in the order of their first occurrence.
    pub reasons: Vec<ReasonCount>,
}

impl EventTable {
    pub(crate) fn stats(&self) -> InboxStats {
        let (mut in_flight, mut waiting, mut dead) = (0, 0, self.without_id.len());
        for event in self.not_done.values() {
            match event.state {
                EventProgress::Claimed { .. } => in_flight += 1,
                EventProgress::Waiting { .. } => waiting += 1,
                EventProgress::Dead(_) => dead += 1,
            }
        }
        let metrics = &self.metrics;
        InboxStats {
            received: metrics.received,
            done: metrics.done,
            duplicates: metrics.duplicates,
            too_old: metrics.too_old,
            taken: metrics.taken,
            transient: metrics.transient,
            panics: metrics.panics,
            retried: metrics.retried,
            poison: metrics.poison,
            exhausted: metrics.exhausted,
            taken_over: metrics.taken_over,
            superseded: metrics.superseded,
            in_flight,
            waiting,
            dead,
            remembered: self.done.len(),
            latency: metrics.latency.summary(metrics.latency.count(), 0),
            reasons: metrics.reasons.clone(),
        }
    }
}

impl fmt::Display for InboxStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("received", self.received),
            ("done", self.done),
            ("duplicates", self.duplicates),
            ("too old", self.too_old),
            ("taken", self.taken),
            ("transient", self.transient),
            ("  panics", self.panics),
            ("  retried", self.retried),
            ("  exhausted", self.exhausted),
            ("poison", self.poison),
            ("taken over", self.taken_over),
            ("superseded", self.superseded),
            ("in flight now", self.in_flight as u64),
            ("waiting now", self.waiting as u64),
            ("dead now", self.dead as u64),
            ("remembered", self.remembered as u64),
        ];
        for (name, count) in counts {
            writeln!(f, "{name:<14}{count:>12}")?;
        }
        let DurationSummary {
            mean,
            p50,
            p99,
            max,
            ..
        } = self.latency;
        write!(
            f,
            "latency       mean {mean:.1?}, p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}"
        )?;
        for ReasonCount {
            reason,
            failed,
            dead,
        } in &self.reasons
        {
            write!(f, "\nfailed {failed}, dead {dead}: {reason}")?;
        }
        Ok(())
    }
}
