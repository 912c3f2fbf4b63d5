//! Keys whose code fails.

use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use doclock_locks::limiter::{InFlightLimiter, LimiterOptions};

thread_local! {
    /// How many more calls of a key's code succeed in this thread; `None` for all.
    static FUSE: Cell<Option<usize>> = const { Cell::new(None) };
    static DROPS_FAIL: Cell<bool> = const { Cell::new(false) };
}

fn burn() {
    match FUSE.get() {
        None => {}
        Some(0) => panic!("the key's own code failed"),
        Some(left) => FUSE.set(Some(left - 1)),
    }
}

/// A number as a key.
struct Frail(u32);

impl Clone for Frail {
    fn clone(&self) -> Self {
        burn();
        Self(self.0)
    }
}

impl PartialEq for Frail {
    fn eq(&self, other: &Self) -> bool {
        burn();
        self.0 == other.0
    }
}

impl Eq for Frail {}

impl Hash for Frail {
    fn hash<H: Hasher>(&self, state: &mut H) {
        burn();
        self.0.hash(state);
    }
}

impl fmt::Debug for Frail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        burn();
        write!(f, "{}", self.0)
    }
}

impl Drop for Frail {
    fn drop(&mut self) {
        if DROPS_FAIL.get() && !thread::panicking() {
            panic!("the key's own code failed");
        }
    }
}

/// Whether a panic of the `nth` call of a key's code escapes.
fn fails(nth: usize, code: impl FnOnce()) -> bool {
    FUSE.set(Some(nth));
    let end = catch_unwind(AssertUnwindSafe(code));
    FUSE.set(None);
    end.is_err()
}

fn at_rest(limiter: &InFlightLimiter<Frail>) {
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.queued), (0, 0));
    assert!(snapshot.keys.is_empty(), "{snapshot}");
}

#[test]
fn a_key_that_panics_in_any_call_leaves_no_entry() {
    let limiter = InFlightLimiter::with_options(LimiterOptions::new(1).global_limit(1));
    let mut failed = 0;
    while fails(failed, || drop(limiter.acquire(Frail(0)))) {
        at_rest(&limiter);
        failed += 1;
    }
    assert!(failed > 0);
    drop(limiter.request(Frail(0)).no_wait().wait().unwrap());
    // Rejected at once, with the key in the error.
    let held = limiter.acquire(Frail(0)).unwrap();
    for key in [0, 1] {
        let call = || limiter.request(Frail(key)).timeout(Duration::ZERO);
        failed = 0;
        while fails(failed, || drop(call().wait())) {
            assert_eq!(limiter.snapshot().keys.len(), 1);
            failed += 1;
        }
        assert!(failed > 0);
    }
    drop(held);
    at_rest(&limiter);
}

#[test]
fn a_key_that_panics_when_its_call_ends_leaves_no_slot_taken() {
    let options = LimiterOptions::new(1).limit(Frail(0), 1);
    let limiter = InFlightLimiter::with_options(options);
    let ends = [0, 1].map(|key| {
        DROPS_FAIL.set(true);
        let end = catch_unwind(AssertUnwindSafe(|| drop(limiter.acquire(Frail(key)))));
        DROPS_FAIL.set(false);
        end
    });
    assert!(ends.iter().all(Result::is_err));
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.keys.len()), (0, 1));
    assert_eq!(snapshot.total.acquired, 2);
}

#[test]
fn a_key_that_panics_when_its_wait_ends_leaves_no_slot_taken() {
    let limiter = InFlightLimiter::with_options(LimiterOptions::new(1).timeout(None));
    let held = limiter.acquire(Frail(0)).unwrap();
    let next = limiter.clone();
    let waiting = thread::spawn(move || {
        let call = next.request(Frail(0));
        DROPS_FAIL.set(true);
        let end = catch_unwind(AssertUnwindSafe(|| drop(call.wait())));
        DROPS_FAIL.set(false);
        end
    });
    while limiter.load(&Frail(0)).queued == 0 {
        thread::yield_now();
    }
    drop(held);
    assert!(waiting.join().unwrap().is_err());
    at_rest(&limiter);
}

#[test]
fn a_key_that_panics_when_it_is_returned_does_not_cost_other_keys_their_slots() {
    let in_hashing: fn() = || FUSE.set(Some(0));
    let in_drop: fn() = || DROPS_FAIL.set(true);
    for fail in [in_hashing, in_drop] {
        let options = LimiterOptions::new(1).global_limit(1).timeout(None);
        let limiter = InFlightLimiter::with_options(options);
        let held = limiter.acquire(Frail(0)).unwrap();
        let (sender, ran) = mpsc::channel();
        let next = limiter.clone();
        thread::spawn(move || {
            next.run(Frail(1), |_| ()).unwrap();
            sender.send(()).unwrap();
        });
        while limiter.load(&Frail(1)).queued == 0 {
            thread::yield_now();
        }
        let returning = thread::spawn(move || {
            fail();
            drop(held);
        });
        // It may fail or not.
        let _ = returning.join();
        let told = ran.recv_timeout(Duration::from_secs(20));
        assert_eq!(told, Ok(()), "the slot was granted without a wakeup");
        at_rest(&limiter);
    }
}
