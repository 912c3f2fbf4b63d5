//! Panics of user code that were caught, and their disposal.
//!
//! The crates catch panics only in [`catch`]. As everywhere, a panic in the `Drop` of a payload is
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

/// Formats and drops a user value, or the panic that its clone ended with. If the value panics, its
/// text says so.
pub fn shown<T: fmt::Debug>(value: Result<T, CaughtPanic>) -> String {
    let text = value.as_ref().ok();
    let text = text.and_then(|value| catch(|| format!("{value:?}")).ok());
    dispose(value);
    text.unwrap_or_else(|| "(its code panics)".to_owned())
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
