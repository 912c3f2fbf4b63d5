//! Which holds are measured, when they began, and how long waiters spin.
//!
//! Reading the clock costs as much as the rest of an uncontended lock. So of the holds that begin
//! while no request waits, one in [`Samples::RUN`] is measured and counts for all.

use std::time::Duration;

use crate::time::{Clock, MonotonicTime};
use crate::{Samples, nanos};

/// Decides which of the uncontended holds are measured.
#[derive(Debug)]
pub(super) struct Sampling {
    /// One hold in this many is.
    run: u16,
    /// How many more are not.
    unmeasured: u16,
}

impl Sampling {
    /// Measures one hold in many; each by a manual clock, which costs next to nothing.
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            run: if clock.is_manual() { 1 } else { Samples::RUN },
            unmeasured: 0,
        }
    }

    pub(super) fn of_each() -> Self {
        Self {
            run: 1,
            unmeasured: 0,
        }
    }

    /// Begins the next hold behind which no request waits, and measures it if it is one of those.
    #[inline]
    pub(super) fn measure(&mut self, now: impl FnOnce() -> MonotonicTime) -> HoldStart {
        if self.unmeasured > 0 {
            self.unmeasured -= 1;
            return HoldStart::default();
        }
        self.unmeasured = self.run - 1;
        let weight = self.run;
        HoldStart {
            weight,
            ..HoldStart::now(now())
        }
    }
}

/// When a hold began. Not measured by default.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HoldStart {
    pub(super) at: MonotonicTime,
    /// How many holds this one stands for in the metrics. Zero if the clock was not read.
    pub(super) weight: u16,
    /// Whether the hold began at that moment, and not at some time before.
    pub(super) exact: bool,
}

impl HoldStart {
    /// A hold that begins now, and stands for itself alone.
    #[inline(always)]
    pub(super) fn now(at: MonotonicTime) -> Self {
        let (weight, exact) = (1, true);
        Self { at, weight, exact }
    }

    /// Whether the clock was read: when the hold began, or when a thread inspected it first.
    #[inline(always)]
    pub(super) fn is_known(&self) -> bool {
        self.weight > 0
    }

    /// Returns when it began, as far as known, and for how many holds it stands.
    pub(super) fn known(self) -> Option<(MonotonicTime, u16)> {
        self.is_known().then_some((self.at, self.weight))
    }

    pub(super) fn lasted(self, now: MonotonicTime) -> Duration {
        let known = self.known();
        known.map_or(Duration::ZERO, |(since, _)| now - since)
    }

    /// Records an inspection: of an unmeasured hold, the first is a lower bound of its length.
    pub(super) fn observe(&mut self, now: MonotonicTime) {
        (self.at, self.weight) = self.known().unwrap_or((now, 1));
    }
}

/// A moving average over the measured holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// At most four seconds.
    nanos: u32,
}

impl Pace {
    /// The pace of holds that are too long to spin for.
    pub(super) const SLOW: Self = Self { nanos: u32::MAX };

    /// For longer holds, the cost of sleeping and waking does not matter.
    const LONG: u32 = 15_000;
    /// The shortest time to spin.
    const SHORTEST: u64 = 1_500;
    /// The time that one spin takes.
    const SPIN: u64 = 25;

    pub(super) fn take_in(&mut self, hold: Duration) {
        self.nanos = self.nanos / 8 * 7 + nanos(hold).min(u32::MAX.into()) as u32 / 8;
    }

    /// Returns how often a waiter spins before it sleeps: for the time of two recent holds, if
    /// these are short. Waking costs a few microseconds; longer spinning keeps a processor busy.
    pub(super) fn spins(self, limit: Option<Duration>) -> u32 {
        let holds = match self.nanos > Self::LONG {
            true => 0,
            false => 2 * u64::from(self.nanos),
        };
        let spin = (holds + Self::SHORTEST).min(limit.map_or(u64::MAX, nanos));
        // Some 30 microseconds at most.
        (spin / Self::SPIN) as u32
    }
}

#[cfg(test)]
#[path = "../tests/unit/sampling.rs"]
mod tests;
