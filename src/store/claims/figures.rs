//! What an inbox counts, and how it shows.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use smol_str::SmolStr;

use super::{Claims, Failed, FailedKind, State};
use crate::lock::{DurationSummary, Samples};

/// How many reasons have a count of their own.
const REASONS: usize = 32;

/// Counts since the inbox was made.
#[derive(Default)]
pub(super) struct Figures {
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
    /// In the order in which they first came about.
    reasons: Vec<ReasonCount>,
}

impl Figures {
    pub(super) fn finished(&mut self, took: Duration) {
        self.done += 1;
        self.latency.record(took, 1);
    }

    /// Counts an attempt that failed, and whether it was the last that the event has.
    pub(super) fn failed(&mut self, failed: &Failed, last: bool) {
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

    /// The count of a reason, or of all those that came when there were too many.
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

/// How often attempts failed for one reason.
///
/// Serializes in camelCase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReasonCount {
    /// What the handler said; `panic`, `commit` or `lock` where it did not come to say anything.
    /// The first 32 are counted by themselves, all further ones together as `others`.
    pub reason: SmolStr,
    /// How many attempts failed for it.
    pub failed: u64,
    /// How many events died of it.
    pub dead: u64,
}

/// The figures of an inbox and its state, all of one moment.
///
/// Serializes in camelCase with durations in milliseconds. [`Display`](fmt::Display) prints a
/// table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InboxStats {
    /// Messages that were taken in, each delivery once.
    pub received: u64,
    /// Events whose effect is there.
    pub done: u64,
    /// Messages whose event was done or dead already.
    pub duplicates: u64,
    /// Messages without a record that were sent no later than one whose record was forgotten.
    pub too_old: u64,
    /// Messages that met a claim of somebody else, or an event that waited for its next attempt.
    pub taken: u64,
    /// Attempts that failed in passing, panics included.
    pub transient: u64,
    /// Attempts whose handler panicked.
    pub panics: u64,
    /// Attempts that failed in passing and left the event others.
    pub retried: u64,
    /// Messages that went to the dead letters at once.
    pub poison: u64,
    /// Events that went to the dead letters because they had failed as often as they may.
    pub exhausted: u64,
    /// Stale claims that were taken over.
    pub taken_over: u64,
    /// Attempts that came to their end after their claim had been taken over, and had no effect.
    pub superseded: u64,
    /// How many claims there are now, stale ones included.
    pub in_flight: usize,
    /// How many events wait for their next attempt now.
    pub waiting: usize,
    /// How many dead letters there are now.
    pub dead: usize,
    /// How many events are remembered as done now.
    pub remembered: usize,
    /// From claim to commit, of the attempts that succeeded.
    pub latency: DurationSummary,
    /// Why attempts failed, in the order in which the reasons first came about.
    pub reasons: Vec<ReasonCount>,
}

impl Claims {
    pub(crate) fn stats(&self) -> InboxStats {
        let (mut in_flight, mut waiting, mut dead) = (0, 0, self.nameless.len());
        for open in self.open.values() {
            match open.state {
                State::Claimed { .. } => in_flight += 1,
                State::Waiting { .. } => waiting += 1,
                State::Dead(_) => dead += 1,
            }
        }
        let figures = &self.figures;
        InboxStats {
            received: figures.received,
            done: figures.done,
            duplicates: figures.duplicates,
            too_old: figures.too_old,
            taken: figures.taken,
            transient: figures.transient,
            panics: figures.panics,
            retried: figures.retried,
            poison: figures.poison,
            exhausted: figures.exhausted,
            taken_over: figures.taken_over,
            superseded: figures.superseded,
            in_flight,
            waiting,
            dead,
            remembered: self.done.len(),
            latency: figures.latency.summary(figures.latency.count(), 0),
            reasons: figures.reasons.clone(),
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
