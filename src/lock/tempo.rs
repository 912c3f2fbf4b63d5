//! When to read the clock.
//!
//! Reading it costs as much as all else that an uncontended lock does. A lock that is taken now and then can afford it; one
//! that is taken hundreds of thousands of times a second measures one hold in [`Tempo::RUN`] and lets it stand for all of
//! them. The moment the rate falls every hold is measured again.

use std::time::Duration;

use crate::time::{Clock, Timestamp};

/// Decides which of the holds that nobody waited for are measured.
#[derive(Debug)]
pub(super) struct Tempo {
    /// Whether the clock is so cheap that all of them are.
    always: bool,
    /// How many are still to go without.
    unmeasured: u32,
    /// How many times in succession the lock was taken quickly.
    quick: u32,
    last: Timestamp,
}

/// A grant that is measured, and how many it stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) at: Timestamp,
    pub(super) weight: u64,
}

impl Measured {
    /// A grant that stands for itself alone.
    pub(super) fn once(at: Timestamp) -> Self {
        Self { at, weight: 1 }
    }
}

impl Tempo {
    /// In a run, one hold is measured.
    pub(super) const RUN: u32 = 16;
    /// Taken again within this time, the lock is in a hurry.
    const QUICK: Duration = Duration::from_micros(2);
    /// As often in succession, it is believed.
    const BELIEVED: u32 = 64;

    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            always: clock.is_manual(),
            unmeasured: 0,
            quick: 0,
            last: Timestamp::default(),
        }
    }

    /// Whether the grant that is about to be made is measured. To be asked once for each that nobody waited for.
    #[inline]
    pub(super) fn measure(&mut self, clock: &Clock) -> Option<Measured> {
        if self.unmeasured > 0 {
            self.unmeasured -= 1;
            return None;
        }
        Some(self.measured(clock.now()))
    }

    /// Measures all again, until there is a hurry again.
    pub(super) fn calm(&mut self) {
        (self.unmeasured, self.quick) = (0, 0);
    }

    /// As after many quick takes. In a model time stands still, so this alone brings on a hurry at once.
    #[cfg(loom)]
    pub(super) fn hurry(&mut self) {
        (self.unmeasured, self.quick) = (Self::RUN - 1, Self::BELIEVED);
    }

    fn measured(&mut self, at: Timestamp) -> Measured {
        let hurried = self.quick >= Self::BELIEVED;
        let grants = if hurried { Self::RUN } else { 1 };
        self.quick = match at - self.last < Self::QUICK * grants {
            true => (self.quick + 1).min(Self::BELIEVED),
            false => 0,
        };
        self.last = at;
        if self.always || self.quick < Self::BELIEVED {
            return Measured::once(at);
        }
        self.unmeasured = Self::RUN - 1;
        Measured {
            at,
            weight: u64::from(Self::RUN),
        }
    }
}
