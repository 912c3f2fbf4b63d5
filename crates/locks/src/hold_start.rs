//! The start of a hold, as far as it is known.

use std::time::Duration;

use super::sampling::Measured;
use crate::time::MonotonicTime;

/// When a hold began. Plain fields, each written in place, like
/// [`RequestSource::assign`](super::request::RequestSource::assign).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HoldStart {
    at: MonotonicTime,
    /// How many holds this one stands for in the metrics. Zero if the clock was not read.
    weight: u16,
    /// Whether the hold began at that moment, and not at some time before.
    pub(super) exact: bool,
}

impl HoldStart {
    #[inline(always)]
    pub(super) fn begin(&mut self, measured: Option<Measured>) {
        self.exact = measured.is_some();
        self.weight = 0;
        if let Some(measured) = measured {
            self.at = measured.at;
            self.weight = measured.weight;
        }
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

    /// Returns how long it has lasted, as far as known.
    pub(super) fn lasted(self, now: MonotonicTime) -> Duration {
        self.known()
            .map_or(Duration::ZERO, |(since, _)| now - since)
    }

    /// Records an inspection of the hold. For an unmeasured hold, the first one is a lower bound of
    /// its length.
    pub(super) fn observe(&mut self, now: MonotonicTime) {
        if !self.is_known() {
            (self.at, self.weight) = (now, 1);
        }
    }
}
