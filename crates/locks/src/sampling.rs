//! Which holds are measured.
//!
//! Reading the clock costs as much as the rest of an uncontended lock. So of the holds for which no
//! request waits when they begin, one in [`Sampling::RUN`] is measured and counts for all of them.

use crate::time::{Clock, MonotonicTime};

/// Decides which of the uncontended holds are measured.
#[derive(Debug)]
pub(super) struct Sampling {
    /// One hold in this many is measured.
    run: u16,
    /// How many more holds go without a measurement.
    unmeasured: u16,
}

/// A grant that is measured, and how many it stands for.
#[derive(Clone, Copy, Debug)]
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
    /// One hold in this many is measured.
    pub(super) const RUN: u16 = 64;

    /// Measures one hold in many; each by a manual clock, which costs next to nothing.
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            run: if clock.is_manual() { 1 } else { Self::RUN },
            unmeasured: 0,
        }
    }

    /// Measures every hold, at any cost.
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

#[cfg(test)]
#[path = "../tests/unit/sampling.rs"]
mod tests;
