//! Steps that tests of cost count instead of time: how often code reads or moves one of many items.
//! The unit tests of the store count those of the document, too.

#[cfg(any(test, feature = "__tests"))]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts one step in tests; does nothing elsewhere.
#[inline(always)]
pub fn step() {
    steps(1);
}

/// Counts steps in tests.
#[cfg(any(test, feature = "__tests"))]
#[inline(always)]
pub fn steps(count: usize) {
    STEPS.set(STEPS.get() + count);
}

/// Does nothing outside of tests.
#[cfg(not(any(test, feature = "__tests")))]
#[inline(always)]
pub fn steps(count: usize) {
    let _ = count;
}

/// Counts steps that are only computed in tests.
#[inline(always)]
pub(crate) fn steps_of(_count: impl FnOnce() -> usize) {
    #[cfg(any(test, feature = "__tests"))]
    steps(_count());
}

/// Counts bytes of text that are copied, compared or counted, eight in a step.
#[inline(always)]
pub(crate) fn bytes_looked_at(count: usize) {
    steps(count / 8 + 1);
}

/// Returns how many steps a call takes.
#[cfg(any(test, feature = "__tests"))]
pub fn counted<R>(call: impl FnOnce() -> R) -> (R, usize) {
    let before = STEPS.get();
    let result = call();
    (result, STEPS.get() - before)
}
