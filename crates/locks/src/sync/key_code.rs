//! Code of keys that runs under a mutex.
//!
//! The tables of keyed locks and limiters compare and clone keys under a mutex, and that is code of
//! a user. While it runs, its thread is marked. A marked thread that is about to lock a mutex of
//! the rank of these tables panics instead of waiting for itself. A step that must not fail,
//! because a value is dropped or a token cancelled, is deferred until the mutex is free.

use std::cell::{Cell, RefCell};

/// Code of a key runs.
const RUNS: u8 = 1;
/// A step was deferred.
const LATE: u8 = 2;

std::thread_local! {
    /// A constant without `Drop`, so that reading it costs no more than a load.
    static STATE: Cell<u8> = const { Cell::new(0) };
    static PUT_OFF: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// Runs code of a key that a mutex guards.
#[inline(always)]
pub fn run<R>(code: impl FnOnce() -> R) -> R {
    let _marked = Marked(STATE.replace(STATE.get() | RUNS));
    code()
}

/// Resets the mark of the thread, also after a panic of the code.
struct Marked(u8);

impl Drop for Marked {
    #[inline(always)]
    fn drop(&mut self) {
        STATE.set(STATE.get() & !RUNS | self.0 & RUNS);
    }
}

/// Whether the thread runs code of a key that a mutex guards.
#[inline(always)]
pub fn runs() -> bool {
    STATE.get() & RUNS != 0
}

/// Panics instead of locking the mutex under which code of a key runs.
///
/// # Panics
///
/// If code of a key runs in this thread.
#[inline(always)]
pub fn refuse() {
    if runs() {
        refused();
    }
}

#[cold]
fn refused() -> ! {
    panic!("the code of a key used a keyed lock or a limiter while keys were compared or copied");
}

/// Runs a step that locks a mutex of the rank of keys: now, or when the mutex that guards the code
/// of a key is free again.
#[inline]
pub fn after(step: impl FnOnce() + 'static) {
    if runs() {
        put_off(Box::new(step));
    } else {
        step();
    }
}

#[cold]
fn put_off(step: Box<dyn FnOnce()>) {
    PUT_OFF.with_borrow_mut(|steps| steps.push(step));
    STATE.set(STATE.get() | LATE);
}

/// Runs the deferred steps. Called when a mutex of the rank of keys is free again.
#[cfg(not(loom))]
#[inline(always)]
pub(super) fn catch_up() {
    if STATE.get() == LATE {
        catch_up_late();
    }
}

#[cfg(not(loom))]
#[cold]
fn catch_up_late() {
    STATE.set(0);
    for step in PUT_OFF.take() {
        // The thread may already unwind, so a panic ends here.
        drop(crate::caught::catch(step));
    }
}
