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
