//! The recent length of holds, and the time to spin that follows from it.

use std::time::Duration;

use crate::nanos;

/// A moving average over the measured holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    nanos: u64,
}

impl Pace {
    /// The pace of holds that are too long to spin for.
    pub(super) const SLOW: Self = Self { nanos: u64::MAX };

    /// For longer holds, the cost of sleeping and waking does not matter.
    const LONG: u64 = 15_000;
    /// The shortest time to spin.
    const SHORTEST: u64 = 1_500;
    /// The time that one spin takes.
    const SPIN: u64 = 25;

    pub(super) fn take_in(&mut self, hold: Duration) {
        self.nanos = (self.nanos / 8).saturating_mul(7) + nanos(hold) / 8;
    }

    /// Returns how often a waiter spins before it sleeps: for the time of two recent holds, if
    /// these are short. Waking costs a few microseconds, some of them in the waking thread. Longer
    /// spinning would keep a processor from threads with work.
    pub(super) fn spins(self, limit: Option<Duration>) -> u32 {
        let holds = match self.nanos > Self::LONG {
            true => 0,
            false => 2 * self.nanos,
        };
        let spin = (holds + Self::SHORTEST).min(limit.map_or(u64::MAX, nanos));
        // Some 30 microseconds at most.
        (spin / Self::SPIN) as u32
    }
}
