//! What a hold lasts, lately, and how long it is therefore worth to spin.

use std::time::Duration;

/// A moving average over the holds that were measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    nanos: u64,
}

impl Pace {
    /// Of holds that nobody spins for.
    pub(super) const SLOW: Self = Self { nanos: u64::MAX };

    /// Holds that last longer than this make it no matter whether threads sleep and are woken in
    /// between.
    const LONG: u64 = 15_000;
    /// What a waiter spins for in any case.
    const SHORTEST: u64 = 1_500;
    /// From one look to the next.
    const LOOK: u64 = 25;

    pub(super) fn take_in(&mut self, hold: Duration) {
        self.nanos = (self.nanos / 8).saturating_mul(7) + nanos(hold) / 8;
    }

    /// How often a waiter looks for its outcome, some 25 nanoseconds apart, before it goes to
    /// sleep: for the time of two holds like those of late, if these are short. To be woken takes a
    /// few microseconds, some of them of the thread that wakes; and who spins for longer keeps a
    /// processor from whoever else would ask, or does the work.
    pub(super) fn looks(self, limit: Option<Duration>) -> u32 {
        let holds = match self.nanos > Self::LONG {
            true => 0,
            false => 2 * self.nanos,
        };
        let spin = (holds + Self::SHORTEST).min(limit.map_or(u64::MAX, nanos));
        // Some 30 microseconds at most.
        (spin / Self::LOOK) as u32
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
