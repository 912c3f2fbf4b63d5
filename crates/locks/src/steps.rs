//! Steps that tests of cost count instead of time: how often code reads or moves one of many items.

#[cfg(test)]
#[path = "../tests/unit/steps.rs"]
pub(crate) mod counter;

/// Counts one step in tests; does nothing elsewhere.
#[inline(always)]
pub(crate) fn step() {
    #[cfg(test)]
    counter::step();
}
