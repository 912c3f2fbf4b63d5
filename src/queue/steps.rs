//! What tests of cost count instead of time: slots and nodes looked at.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts one in tests, and is nothing elsewhere.
#[inline(always)]
pub(super) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// How many steps a call takes.
#[cfg(test)]
pub(super) fn counted<R>(call: impl FnOnce() -> R) -> (R, usize) {
    let before = STEPS.get();
    let result = call();
    (result, STEPS.get() - before)
}
