//! How many steps a call takes.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn step() {
    STEPS.set(STEPS.get() + 1);
}

/// Returns how many steps a call takes.
pub(crate) fn counted<R>(call: impl FnOnce() -> R) -> (R, usize) {
    let before = STEPS.get();
    let result = call();
    (result, STEPS.get() - before)
}
