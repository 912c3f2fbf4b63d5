//! The start of a hold, as far as it is known.

use std::time::Duration;

use super::sampling::Measured;
use crate::time::Timestamp;

/// When a hold began. Plain fields, each written in place, like
/// [`RequestSource::assign`](super::request::RequestSource::assign).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HoldStart {
    at: Timestamp,
    /// How many holds this one stands for in the metrics.
    weight: u64,
    /// Whether the clock was read.
    is_known: bool,
    /// Whether the hold began at that moment, and not at some time before.
    pub(super) exact: bool,
}

impl HoldStart {
    #[inline(always)]
    pub(super) fn begin(&mut self, measured: Option<Measured>) {
        self.exact = measured.is_some();
        self.is_known = measured.is_some();
        self.weight = 0;
        if let Some(Measured { at, weight }) = measured {
            self.at = at;
            self.weight = weight;
        }
    }

    /// Whether the clock was read.
    #[inline(always)]
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns when it began, as far as known, and for how many holds it stands.
    pub(super) fn known(self) -> Option<(Timestamp, u64)> {
        self.is_known().then_some((self.at, self.weight))
    }

    /// Returns how long it has lasted, as far as known.
    pub(super) fn lasted(self, now: Timestamp) -> Duration {
        self.known()
            .map_or(Duration::ZERO, |(since, _)| now - since)
    }

    /// Records the first look at an unmeasured hold, which is a lower bound of its length.
    pub(super) fn observe(&mut self, now: Timestamp) {
        if !self.is_known() {
            (self.at, self.weight, self.is_known) = (now, 1, true);
        }
    }
}
