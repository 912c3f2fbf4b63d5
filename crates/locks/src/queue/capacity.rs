//! The slots behind a queue.

/// A number of slots, of which a request takes one or several: its weight.
#[derive(Debug)]
pub(crate) struct Slots {
    limit: usize,
    taken: usize,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, taken: 0 }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Sets the limit. Below the taken slots, nothing fits until enough were given back.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    #[inline]
    pub(crate) fn fits(&self, weight: usize) -> bool {
        let sum = self.taken.checked_add(weight);
        sum.is_some_and(|sum| sum <= self.limit)
    }

    /// Takes the slots if they fit beside those that are taken already.
    #[inline]
    pub(super) fn take(&mut self, weight: usize) -> bool {
        let fits = self.fits(weight);
        if fits {
            self.taken += weight;
        }
        fits
    }

    #[inline]
    pub(super) fn give_back(&mut self, weight: usize) {
        debug_assert!(weight <= self.taken, "given back more than was taken");
        self.taken = self.taken.saturating_sub(weight);
    }
}

/// The part of a lock that a request takes: all slots, or one of very many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CapacityPart {
    Whole,
    Share,
}

impl CapacityPart {
    /// The slots of a lock.
    pub(crate) const SLOTS: usize = usize::MAX;

    #[inline]
    pub(crate) fn weight(self) -> usize {
        match self {
            Self::Whole => Self::SLOTS,
            Self::Share => 1,
        }
    }
}
