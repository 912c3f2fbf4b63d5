//! The resource in front of which a queue stands.

/// A resource of which requests take a part and later give it back.
pub(crate) trait Capacity {
    /// How much one request takes.
    type Demand;

    /// Takes `demand` if it fits beside what is taken already.
    fn take(&mut self, demand: &Self::Demand) -> bool;

    /// Gives back the part that an earlier [`take`](Capacity::take) of the same demand took.
    fn give_back(&mut self, demand: &Self::Demand);
}

/// One holder at a time.
#[derive(Debug, Default)]
pub(crate) struct Exclusive {
    held: bool,
}

impl Capacity for Exclusive {
    type Demand = ();

    fn take(&mut self, (): &()) -> bool {
        !std::mem::replace(&mut self.held, true)
    }

    fn give_back(&mut self, (): &()) {
        debug_assert!(self.held, "given back without having been taken");
        self.held = false;
    }
}

/// One holder of the whole, or any number of holders of a share.
#[derive(Debug, Default)]
pub(crate) struct Divisible {
    whole: bool,
    shares: u32,
}

/// The part of a [`Divisible`] that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CapacityPart {
    Whole,
    Share,
}

impl Capacity for Divisible {
    type Demand = CapacityPart;

    #[inline]
    fn take(&mut self, part: &CapacityPart) -> bool {
        let free = !self.whole && (*part == CapacityPart::Share || self.shares == 0);
        if free {
            match part {
                CapacityPart::Whole => self.whole = true,
                CapacityPart::Share => self.shares += 1,
            }
        }
        free
    }

    #[inline]
    fn give_back(&mut self, part: &CapacityPart) {
        match part {
            CapacityPart::Whole => {
                debug_assert!(self.whole, "given back without having been taken");
                self.whole = false;
            }
            CapacityPart::Share => {
                debug_assert!(self.shares > 0, "given back without having been taken");
                self.shares = self.shares.saturating_sub(1);
            }
        }
    }
}

/// A number of slots, of which a request takes one or several.
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

    pub(crate) fn fits(&self, weight: usize) -> bool {
        let sum = self.taken.checked_add(weight);
        sum.is_some_and(|sum| sum <= self.limit)
    }
}

impl Capacity for Slots {
    /// The weight: how many slots.
    type Demand = usize;

    fn take(&mut self, weight: &usize) -> bool {
        let fits = self.fits(*weight);
        if fits {
            self.taken += weight;
        }
        fits
    }

    fn give_back(&mut self, weight: &usize) {
        debug_assert!(*weight <= self.taken, "given back more than was taken");
        self.taken = self.taken.saturating_sub(*weight);
    }
}
