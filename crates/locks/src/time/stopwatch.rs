//! The lengths of the parts of a duration.

use std::time::Duration;

use super::{Clock, Timestamp};

/// Measures one part after the other, for statistics.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Stopwatch(Timestamp);

impl Stopwatch {
    /// Begins to measure.
    #[inline]
    pub fn start(clock: &Clock) -> Self {
        Self(clock.now())
    }

    /// Returns the time since the last lap or the start.
    #[inline]
    pub fn lap(&mut self, clock: &Clock) -> Duration {
        let now = clock.now();
        now - std::mem::replace(&mut self.0, now)
    }
}
