//! What a line stands in front of.

/// Something of which requests take a part and later give it back.
pub(crate) trait Capacity {
    /// How much one request takes.
    type Demand;

    /// Takes `demand` if it fits beside what is taken already.
    fn take(&mut self, demand: &Self::Demand) -> bool;

    /// Gives back what an earlier [`take`](Capacity::take) of the same demand took.
    fn give_back(&mut self, demand: &Self::Demand);
}

/// One holder at a time.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Exclusive {
    held: bool,
}

#[cfg(test)]
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
    shares: usize,
}

/// What a request takes of a [`Divisible`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Share,
}

impl Capacity for Divisible {
    type Demand = Part;

    #[inline]
    fn take(&mut self, part: &Part) -> bool {
        let free = !self.whole && (*part == Part::Share || self.shares == 0);
        if free {
            match part {
                Part::Whole => self.whole = true,
                Part::Share => self.shares += 1,
            }
        }
        free
    }

    #[inline]
    fn give_back(&mut self, part: &Part) {
        match part {
            Part::Whole => {
                debug_assert!(self.whole, "given back without having been taken");
                self.whole = false;
            }
            Part::Share => {
                debug_assert!(self.shares > 0, "given back without having been taken");
                self.shares = self.shares.saturating_sub(1);
            }
        }
    }
}
