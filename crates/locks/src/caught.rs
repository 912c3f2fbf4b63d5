//! Panics of user code that were caught, and their disposal.
//!
//! The crate catches panics only in [`catch`]. As everywhere, a panic in the `Drop` of a payload is
//! not caught, nor is one of a value that is dropped while the thread already unwinds.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;
use std::thread;

/// Runs user code, and catches its panic. The caller ensures that no inconsistent state after the
/// panic is visible.
#[inline(always)]
pub fn catch<R>(code: impl FnOnce() -> R) -> Result<R, CaughtPanic> {
    catch_unwind(AssertUnwindSafe(code)).map_err(CaughtPanic)
}

/// Drops a user value. A panic of its `Drop` is caught.
pub fn dispose<T>(value: T) {
    drop(catch(|| drop(value)));
}

/// Runs steps that may run user code: all of them, even if one panics. The first panic resumes at
/// the end, unless the thread already unwinds.
pub fn run_all(steps: impl IntoIterator<Item = impl FnOnce()>) {
    let mut first = None;
    for step in steps {
        if let Err(panic) = catch(step) {
            first.get_or_insert(panic);
        }
    }
    if let Some(panic) = first
        && !thread::panicking()
    {
        panic.resume();
    }
}

/// Wakes a task. Its waker is code of users: a panic of it costs only its own task.
pub fn wake(waker: Waker) {
    drop(catch(|| waker.wake()));
}

/// A waker of a task, for as long as the value lives. A panic of its `Drop` ends here.
pub struct KeptWaker(Option<Waker>);

impl KeptWaker {
    /// Clones a waker, which is code of users.
    pub fn of(waker: &Waker) -> Self {
        Self(Some(waker.clone()))
    }

    /// Whether it wakes the same task.
    pub fn will_wake(&self, other: &Waker) -> bool {
        self.0.as_ref().is_some_and(|waker| waker.will_wake(other))
    }

    /// Wakes the task.
    pub fn wake(mut self) {
        if let Some(waker) = self.0.take() {
            wake(waker);
        }
    }
}

impl Drop for KeptWaker {
    fn drop(&mut self) {
        dispose(self.0.take());
    }
}

/// The payload of a caught panic.
pub struct CaughtPanic(Box<dyn Any + Send>);

impl CaughtPanic {
    /// The message, if the panic had one.
    pub fn message(&self) -> Option<&str> {
        message(&*self.0)
    }

    /// Resumes the panic in the calling thread.
    pub fn resume(self) -> ! {
        resume_unwind(self.0)
    }
}

fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref().map(String::as_str))
}

impl fmt::Debug for CaughtPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CaughtPanic").field(&self.message()).finish()
    }
}
