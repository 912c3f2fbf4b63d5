//! The lengths of the parts of a duration.

use std::time::Duration;

use super::{Clock, Timestamp};

/// Measures one part after the other, for statistics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Timestamp);

impl Stopwatch {
    #[inline]
    pub(crate) fn start(clock: &Clock) -> Self {
        Self(clock.now())
    }

    /// Returns the time since the last lap or the start.
    #[inline]
    pub(crate) fn lap(&mut self, clock: &Clock) -> Duration {
        let now = clock.now();
        now - std::mem::replace(&mut self.0, now)
    }
}
