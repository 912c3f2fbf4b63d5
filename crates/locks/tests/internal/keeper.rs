//! The thread that watches the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use doclock_locks::internal::{Keeper, Kept};
use doclock_locks::time::{Deadline, ManualClock};

#[derive(Default)]
struct Looks(AtomicBool);

impl Kept for Looks {
    fn check_deadlines(&self) -> Option<Deadline> {
        self.0.store(true, Ordering::SeqCst);
        None
    }
}

/// Leaves itself again until the keeper has looked.
fn work_without_end(keeper: Arc<Keeper>, kept: Arc<Looks>, until: Instant) {
    let again = Arc::clone(&keeper);
    keeper.take_over(Box::new(move |_| {
        if !kept.0.load(Ordering::SeqCst) && Instant::now() < until {
            work_without_end(again, kept, until);
        }
    }));
}

#[test]
fn async_01_work_without_end_holds_up_no_timeout() {
    let keeper = Keeper::new(&ManualClock::new().clock());
    let kept = Arc::new(Looks::default());
    let until = Instant::now() + Duration::from_secs(5);
    work_without_end(Arc::clone(&keeper), Arc::clone(&kept), until);
    keeper.look();
    keeper.attend(&kept).unwrap();
    while !kept.0.load(Ordering::SeqCst) {
        assert!(Instant::now() < until, "it never looks");
        std::thread::yield_now();
    }
    drop(kept);
    keeper.look();
}
