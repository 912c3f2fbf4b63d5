//! Each woken waiter wakes the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use doclock_locks::internal::{Sleeper, WakeChain};

/// A waiter with an outcome, asleep or not.
struct TestWaiter {
    sleeps: bool,
    woken: AtomicBool,
}

impl TestWaiter {
    fn new(sleeps: bool) -> Arc<Self> {
        let woken = AtomicBool::new(false);
        Arc::new(Self { sleeps, woken })
    }

    fn was_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed)
    }
}

impl Sleeper for TestWaiter {
    fn wake(&self) -> bool {
        assert!(!self.woken.swap(true, Ordering::Relaxed), "woken twice");
        self.sleeps
    }
}

/// Creates waiters, asleep or not.
fn waiters<const N: usize>(sleeping: [bool; N]) -> [Arc<TestWaiter>; N] {
    sleeping.map(TestWaiter::new)
}

/// Creates a chain that has begun with these waiters.
fn begun<const N: usize>(sleeping: [bool; N]) -> (WakeChain<TestWaiter>, [Arc<TestWaiter>; N]) {
    let waiters = waiters(sleeping);
    let wake_chain = WakeChain::default();
    wake_chain.begin(waiters.clone());
    (wake_chain, waiters)
}

fn woken<const N: usize>(waiters: &[Arc<TestWaiter>; N]) -> [bool; N] {
    waiters.each_ref().map(|waiter| waiter.was_woken())
}

#[test]
fn a_wake_up_chain_starts_with_two_and_each_waiter_wakes_the_next() {
    let (wake_chain, waiters) = begun([true; 4]);
    assert_eq!(woken(&waiters), [true, true, false, false]);
    wake_chain.go_on();
    assert_eq!(woken(&waiters), [true, true, true, false]);
    wake_chain.go_on();
    wake_chain.go_on();
    assert_eq!(woken(&waiters), [true; 4]);
}

#[test]
fn a_waiter_that_woke_by_itself_does_not_break_the_wake_up_chain() {
    let (wake_chain, waiters) = begun([false, true, false, true, false, true]);
    assert_eq!(woken(&waiters), [true, true, true, true, false, false]);
    wake_chain.go_on();
    assert_eq!(woken(&waiters), [true; 6]);
}

#[test]
fn a_new_wake_up_chain_queues_after_a_running_one() {
    let (wake_chain, first) = begun([true; 4]);
    let second = waiters([true]);
    wake_chain.begin(second.clone());
    assert_eq!((woken(&first), woken(&second)), ([true; 4], [false]));
    wake_chain.go_on();
    assert_eq!(woken(&second), [true]);
}
