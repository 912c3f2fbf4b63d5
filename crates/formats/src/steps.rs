//! Steps that tests of cost count instead of time: how often code reads or moves one of many items.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts one step in tests; does nothing elsewhere.
#[inline(always)]
pub(crate) fn step() {
    steps(1);
}

/// Counts steps in tests; does nothing elsewhere.
#[inline(always)]
pub(crate) fn steps(_count: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + _count);
}

/// Returns how many steps a call takes.
#[cfg(test)]
pub(crate) fn counted<R>(call: impl FnOnce() -> R) -> (R, usize) {
    let before = STEPS.get();
    let result = call();
    (result, STEPS.get() - before)
}
