//! When a hold began, as far as is known.

use std::time::Duration;

use super::tempo::Measured;
use crate::time::Timestamp;

/// When a hold began. Plain fields, each written to its place at once, like
/// [`Claim::assign`](super::request::Claim::assign).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Since {
    at: Timestamp,
    /// For how many holds this one stands in the figures; zero says that nobody has looked at the
    /// clock yet.
    weight: u64,
    /// Whether it began at that moment, and not at some time before.
    pub(super) exact: bool,
}

impl Since {
    #[inline(always)]
    pub(super) fn begin(&mut self, measured: Option<Measured>) {
        self.exact = measured.is_some();
        self.weight = 0;
        if let Some(Measured { at, weight }) = measured {
            self.at = at;
            self.weight = weight;
        }
    }

    /// Whether somebody has looked at the clock.
    #[inline(always)]
    pub(super) fn is_known(&self) -> bool {
        self.weight > 0
    }

    /// When it began, as far as is known, and for how many holds it stands.
    pub(super) fn known(self) -> Option<(Timestamp, u64)> {
        self.is_known().then_some((self.at, self.weight))
    }

    /// How long it has lasted, as far as is known.
    pub(super) fn lasted(self, now: Timestamp) -> Duration {
        self.known()
            .map_or(Duration::ZERO, |(since, _)| now - since)
    }

    /// Takes note that somebody looks, which is the least that is known of when an unmeasured hold
    /// began.
    pub(super) fn observe(&mut self, now: Timestamp) {
        if !self.is_known() {
            (self.at, self.weight) = (now, 1);
        }
    }
}
