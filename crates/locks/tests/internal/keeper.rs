//! The thread that watches the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use doclock_locks::internal::{Keeper, KeeperSlot, Kept};
use doclock_locks::time::Clock;

#[derive(Default)]
struct Looks {
    has_looked: AtomicBool,
    keeper: KeeperSlot,
}

impl Kept for Looks {
    fn check_deadlines(&self) {
        self.has_looked.store(true, Ordering::SeqCst);
    }
}

/// Leaves itself again until the keeper has looked.
fn work_without_end(kept: Arc<Looks>, until: Instant) {
    Keeper::of_process().take_over(Box::new(move |_| {
        if !kept.has_looked.load(Ordering::SeqCst) && Instant::now() < until {
            work_without_end(kept, until);
        }
    }));
}

#[test]
fn async_01_work_without_end_holds_up_no_timeout() {
    let (clock, kept) = (Clock::system(), Arc::new(Looks::default()));
    kept.keeper.attend(&kept, &clock).unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    work_without_end(Arc::clone(&kept), until);
    kept.keeper.expect(clock.due(Duration::ZERO));
    while !kept.has_looked.load(Ordering::SeqCst) {
        assert!(Instant::now() < until, "it never looks");
        std::thread::yield_now();
    }
}

/// The deadlines are those of three queues, not in their order.
#[test]
fn async_01_the_keeper_looks_only_at_the_queues_that_are_due() {
    let clock = Clock::system();
    let queues = [(); 3].map(|()| Arc::new(Looks::default()));
    let delays = [3_600, 0, 7_200].map(Duration::from_secs);
    for (kept, delay) in queues.iter().zip(delays) {
        kept.keeper.attend(kept, &clock).unwrap();
        kept.keeper.expect(clock.due(delay));
    }
    let has_looked = |kept: &Arc<Looks>| kept.has_looked.load(Ordering::SeqCst);
    let until = Instant::now() + Duration::from_secs(5);
    while !has_looked(&queues[1]) {
        assert!(Instant::now() < until, "it never looks");
        std::thread::yield_now();
    }
    assert_eq!(queues.each_ref().map(has_looked), [false, true, false]);
    // An earlier deadline counts, a later one does not.
    queues[0]
        .keeper
        .expect(clock.due(Duration::from_secs(9_000)));
    queues[2].keeper.expect(clock.due(Duration::ZERO));
    while !has_looked(&queues[2]) {
        assert!(Instant::now() < until, "it never looks");
        std::thread::yield_now();
    }
    assert!(!has_looked(&queues[0]));
}
