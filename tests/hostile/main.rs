//! Hostile code of users: values whose `Drop`, `Clone`, `Eq`, `Hash` and `Debug` call the store or
//! panic, and code that moves its transaction away. Nothing hangs, is lost, or is reported twice.

mod drops;
mod inbox;
mod keyed;
mod keys;
mod limiter;
mod swapped_drafts;
mod writers;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The timeout for events that come at once or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs code in a separate thread and fails if it does not end. A panic of the code resumes here.
fn ends<T: Send + 'static>(code: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, ended) = mpsc::channel();
    thread::spawn(move || tell.send(catch_unwind(AssertUnwindSafe(code))));
    match ended.recv_timeout(PATIENCE).expect("it hangs") {
        Ok(value) => value,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// Runs code on drop.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The message of a panic.
fn message(payload: &(dyn Any + Send)) -> &str {
    payload.downcast_ref::<&str>().copied().unwrap_or_default()
}
