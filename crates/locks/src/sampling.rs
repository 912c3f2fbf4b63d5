//! Which holds are measured, when they began, and how long waiters spin.
//!
//! Reading the clock costs as much as the rest of an uncontended lock. So of the holds for which no
//! request waits when they begin, one in [`Samples::RUN`] is measured and counts for all of them.

use std::time::Duration;

use crate::time::{Clock, MonotonicTime};
use crate::{Samples, nanos};

/// Decides which of the uncontended holds are measured.
#[derive(Debug)]
pub(super) struct Sampling {
    /// One hold in this many is measured.
    run: u16,
    /// How many more holds go without a measurement.
    unmeasured: u16,
}

/// When a grant was measured, and how many it stands for: none by default.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) at: MonotonicTime,
    pub(super) weight: u16,
}

impl Measured {
    /// A grant that stands for itself alone.
    pub(super) fn once(at: MonotonicTime) -> Self {
        Self { at, weight: 1 }
    }
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

    /// Whether the next grant is measured. Called once for each grant behind which no request
    /// waits.
    #[inline]
    pub(super) fn measure(&mut self, now: impl FnOnce() -> MonotonicTime) -> Option<Measured> {
        if self.unmeasured > 0 {
            self.unmeasured -= 1;
            return None;
        }
        self.unmeasured = self.run - 1;
        Some(Measured {
            at: now(),
            weight: self.run,
        })
    }
}

/// When a hold began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HoldStart {
    pub(super) at: MonotonicTime,
    /// How many holds this one stands for in the metrics. Zero if the clock was not read.
    pub(super) weight: u16,
    /// Whether the hold began at that moment, and not at some time before.
    pub(super) exact: bool,
}

impl HoldStart {
    #[inline(always)]
    pub(super) fn of(measured: Option<Measured>) -> Self {
        let exact = measured.is_some();
        let Measured { at, weight } = measured.unwrap_or_default();
        Self { at, weight, exact }
    }

    /// A hold that begins now.
    pub(super) fn now(now: MonotonicTime) -> Self {
        Self::of(Some(Measured::once(now)))
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
        self.known()
            .map_or(Duration::ZERO, |(since, _)| now - since)
    }

    /// Records an inspection of the hold. For an unmeasured hold, the first one is a lower bound of
    /// its length.
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
    /// these are short. Waking costs a few microseconds, some of them in the waking thread. Longer
    /// spinning would keep a processor from threads with work.
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
