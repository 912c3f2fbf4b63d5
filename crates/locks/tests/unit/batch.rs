//! When a combiner wakes the waiters whose work it has run.

use std::convert::Infallible;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::AcquireOptions;
use crate::id::OwnerId;
use crate::keeper::LeftWork;
use crate::request::{LockOutcome, RequestHead};
use crate::time::ManualClock;
use crate::wake_chain::Sleeper;

/// A waiter with an outcome, asleep or not.
struct TestWaiter {
    sleeps: bool,
    head: RequestHead,
    woken: AtomicBool,
}

impl TestWaiter {
    fn new(sleeps: bool, brief: bool) -> Arc<Self> {
        let owner = OwnerId::default();
        let options = AcquireOptions::new();
        let requester = options.requester(&owner, Location::caller(), false);
        let mut head = RequestHead::new(&requester, None::<&Infallible>, None);
        head.brief = brief;
        Arc::new(Self {
            sleeps,
            head,
            woken: AtomicBool::new(false),
        })
    }

    fn was_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed)
    }
}

impl Waiting for TestWaiter {
    fn head(&self) -> &RequestHead {
        &self.head
    }

    fn deliver(&self, _: LockOutcome) {}

    fn serve(&self, _: Grant) -> Rest {
        match self.sleeps {
            true => Rest::Sleeps,
            false => Rest::Awake,
        }
    }

    fn after_keeper(&self) -> Option<LeftWork> {
        None
    }
}

impl Sleeper for TestWaiter {
    fn wake(&self) -> bool {
        assert!(!self.woken.swap(true, Ordering::Relaxed), "woken twice");
        self.sleeps
    }
}

/// A batch without an end.
struct Served<'a> {
    batch: Batch<'a>,
    clock: ManualClock,
}

impl<'a> Served<'a> {
    fn new(wake_chain: &'a WakeChain<dyn Waiting>) -> Self {
        let limit = BatchLimit {
            count: usize::MAX,
            time: Duration::MAX,
        };
        Self {
            batch: Batch::new(limit, wake_chain),
            clock: ManualClock::new(),
        }
    }

    fn serve(&mut self, waiter: &Arc<TestWaiter>) {
        let now = self.clock.clock().now();
        assert!(self.batch.goes_on(now));
        let waiter = Arc::clone(waiter) as Arc<dyn Waiting>;
        self.batch.serve(waiter, Grant::default(), now);
    }
}

#[test]
fn a_sleeping_submitter_is_woken_when_the_batch_ends() {
    let wake_chain = WakeChain::default();
    let mut served = Served::new(&wake_chain);
    let asleep = TestWaiter::new(true, true);
    served.serve(&asleep);
    served.serve(&TestWaiter::new(true, true));
    assert!(!asleep.was_woken());
    drop(served);
    assert!(asleep.was_woken());
}

#[test]
fn a_sleeping_submitter_is_woken_before_long_work() {
    let wake_chain = WakeChain::default();
    let mut served = Served::new(&wake_chain);
    let asleep = TestWaiter::new(true, true);
    served.serve(&asleep);
    let long = TestWaiter::new(false, false);
    served.serve(&long);
    assert!(asleep.was_woken() && !long.was_woken());
}

#[test]
fn a_sleeping_submitter_is_woken_after_half_a_millisecond_of_a_batch() {
    let wake_chain = WakeChain::default();
    let mut served = Served::new(&wake_chain);
    let (first, later) = (TestWaiter::new(true, true), TestWaiter::new(true, true));
    served.serve(&first);
    served.clock.advance(Duration::from_micros(499));
    served.serve(&later);
    assert!(!first.was_woken());
    served.clock.advance(Duration::from_micros(1));
    served.serve(&TestWaiter::new(false, true));
    assert!(first.was_woken() && later.was_woken());
}
