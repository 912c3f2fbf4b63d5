//! The order of grants (LIMITER 1, 2, 7, 8).

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use doclock_locks::{
    AcquireOptions,
    limiter::{InFlightLimiter, LimiterOptions},
};

use crate::{Limiter, Started, at_rest, busy, timed, until_queued};

/// Counts calls in flight, and their maximum.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    fn within(&self, weight: usize, limit: usize, work: impl FnOnce()) {
        let now = self.now.fetch_add(weight, SeqCst) + weight;
        assert!(now <= limit, "{now} in flight, {limit} allowed");
        self.most.fetch_max(now, SeqCst);
        work();
        self.now.fetch_sub(weight, SeqCst);
    }
}

#[test]
fn limiter_01_never_more_than_the_limits_of_the_key_and_of_all_in_flight() {
    const KEYS: [(&str, usize); 3] = [("payments", 2), ("inventory", 3), ("shipping", 5)];
    const ALL: usize = 6;
    let options = LimiterOptions::new(5)
        .limit("payments", 2)
        .limit("inventory", 3);
    let limiter: Limiter = InFlightLimiter::with_options(options.global_limit(ALL));
    let gauges: [Gauge; 3] = Default::default();
    let all = Gauge::default();
    let calls = if cfg!(debug_assertions) { 500 } else { 5_000 };
    let threads = 12;
    thread::scope(|scope| {
        for thread in 0..threads {
            let (limiter, gauges, all) = (&limiter, &gauges, &all);
            scope.spawn(move || {
                for nth in 0..calls {
                    let which = (nth * 7 + thread) % KEYS.len();
                    let (key, limit) = KEYS[which];
                    let weight = 1 + (nth + thread) % limit.min(3);
                    let call = limiter.request(key).no_timeout().weight(weight);
                    let task = || gauges[which].within(weight, limit, thread::yield_now);
                    call.run(|_| all.within(weight, ALL, task)).unwrap();
                }
            });
        }
    });
    assert_eq!(limiter.snapshot().total.acquired as usize, threads * calls);
    at_rest(&limiter, 2);
}

#[test]
fn limiter_01_as_many_run_as_there_are_slots() {
    let limiter: Limiter = InFlightLimiter::new(4);
    // Passed only if four tasks run at a time.
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                limiter
                    .request("payments")
                    .no_timeout()
                    .run(|_| barrier.wait())
                    .unwrap()
            });
        }
    });
    at_rest(&limiter, 0);
}

#[test]
fn limiter_01_keys_do_not_wait_for_each_other() {
    let limiter: Limiter = InFlightLimiter::new(1);
    let _payments = limiter.acquire("payments").unwrap();
    assert_eq!(
        limiter.request("inventory").no_wait().run(|_| "there"),
        Ok("there")
    );
}

#[test]
fn limiter_02_calls_to_one_key_start_in_the_order_of_requests() {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let limiter: Limiter = InFlightLimiter::new(1);
    let started = Started::default();
    let first = limiter.acquire("payments").unwrap();
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        for (nth, name) in NAMES.into_iter().enumerate() {
            // A limit, a bound or neither makes no difference.
            let call = match nth % 3 {
                0 => limiter.request("payments").no_timeout(),
                1 => limiter
                    .request("payments")
                    .options(AcquireOptions::new().queue_bound(100)),
                _ => limiter
                    .request("payments")
                    .timeout(std::time::Duration::from_secs(600)),
            };
            started.line_up(scope, limiter, "payments", name, call);
        }
        drop(first);
    });
    assert_eq!(started.names(), NAMES);
    at_rest(&limiter, 0);
}

#[test]
fn limiter_07_keys_alternate_under_the_global_limit() {
    let limiter: Limiter = InFlightLimiter::with_options(LimiterOptions::new(5).global_limit(1));
    let started = Started::default();
    let first = limiter.acquire("payments").unwrap();
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        // A flood of payments, with single other calls behind it.
        for (key, name) in [
            ("payments", "p1"),
            ("payments", "p2"),
            ("payments", "p3"),
            ("payments", "p4"),
            ("inventory", "i1"),
            ("inventory", "i2"),
            ("shipping", "s1"),
        ] {
            started.line_up(scope, limiter, key, name, limiter.request(key).no_timeout());
        }
        drop(first);
    });
    assert_eq!(started.names(), ["p1", "i1", "s1", "p2", "i2", "p3", "p4"]);
    at_rest(&limiter, 0);
}

#[test]
fn limiter_07_a_key_at_its_own_limit_is_skipped() {
    let options = LimiterOptions::new(5).limit("slow", 1).global_limit(2);
    let limiter: Limiter = InFlightLimiter::with_options(options);
    let started = Started::default();
    let slow = limiter.acquire("slow").unwrap();
    let fast = limiter.acquire("fast").unwrap();
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        let line_up = |key, name| {
            let call = limiter.request(key).no_timeout();
            started.line_up(scope, limiter, key, name, call)
        };
        let waiting = line_up("slow", "slow");
        let f1 = line_up("fast", "f1");
        let f2 = line_up("fast", "f2");
        drop(fast);
        f1.join().unwrap().unwrap();
        f2.join().unwrap().unwrap();
        assert_eq!(started.names(), ["f1", "f2"]);
        assert_eq!(limiter.load(&"slow").queued, 1);
        drop(slow);
        waiting.join().unwrap().unwrap();
    });
    at_rest(&limiter, 1);
}

#[test]
fn limiter_08_a_try_gets_a_free_slot_or_fails_at_once() {
    let limiter: Limiter = InFlightLimiter::new(2);
    let first = limiter.request("payments").no_wait().wait().unwrap();
    let second = limiter.request("payments").no_wait().wait().unwrap();
    let evidence = busy(limiter.request("payments").no_wait().wait());
    assert_eq!((evidence.load.in_flight, evidence.load.limit), (2, 2));
    assert_eq!((evidence.position, evidence.load.queued), (None, 0));
    // A timeout of zero is a try.
    let zero = limiter
        .request("payments")
        .timeout(std::time::Duration::ZERO);
    busy(zero.wait());
    drop(first);
    assert_eq!(limiter.request("payments").no_wait().run(|_| 7), Ok(7));
    drop(second);
    assert_eq!(limiter.snapshot().total.declined, 2);
    at_rest(&limiter, 0);
}

#[test]
fn limiter_08_a_try_never_overtakes_waiting_calls() {
    let (limiter, clock) = timed(LimiterOptions::new(3));
    let held = limiter.request("payments").weight(2).wait().unwrap();
    thread::scope(|scope| {
        let heavy = scope.spawn(|| limiter.request("payments").weight(2).wait().map(drop));
        until_queued(&limiter, "payments", 1);
        // One slot is free, and would be enough.
        let evidence = busy(limiter.request("payments").no_wait().wait());
        assert_eq!((evidence.load.in_flight, evidence.load.queued), (2, 1));
        clock.advance(std::time::Duration::from_secs(5));
        heavy.join().unwrap().unwrap_err();
        drop(limiter.request("payments").no_wait().wait().unwrap());
    });
    drop(held);
    at_rest(&limiter, 0);
}

#[test]
fn limiter_08_a_try_does_not_overtake_another_key_under_the_global_limit() {
    let options = LimiterOptions::new(4).global_limit(4);
    let limiter: Limiter = InFlightLimiter::with_options(options);
    let held = limiter.request("payments").weight(2).wait().unwrap();
    thread::scope(|scope| {
        let heavy = scope.spawn(|| {
            limiter
                .request("shipping")
                .no_timeout()
                .weight(3)
                .run(|_| ())
                .unwrap()
        });
        until_queued(&limiter, "shipping", 1);
        let evidence = busy(limiter.request("inventory").no_wait().wait());
        let load = evidence.load;
        assert_eq!((load.in_flight, load.limit), (0, 4));
        assert_eq!((load.total_in_flight, load.global_limit), (2, Some(4)));
        drop(held);
        heavy.join().unwrap();
    });
    at_rest(&limiter, 0);
}

#[test]
fn a_million_used_keys_leave_no_entry() {
    let limiter = InFlightLimiter::with_options(LimiterOptions::new(1).limit(0, 1));
    let keys = if cfg!(debug_assertions) {
        50_000
    } else {
        1_000_000
    };
    for key in 0..keys {
        let permit = limiter.acquire(key).unwrap();
        limiter.request(key).no_wait().wait().unwrap_err();
        drop(permit);
    }
    let snapshot = limiter.snapshot();
    assert_eq!(snapshot.keys.len(), 1);
    assert_eq!(
        (snapshot.total.acquired, snapshot.total.declined),
        (keys, keys)
    );
}

#[test]
fn a_permit_may_be_returned_by_another_thread_and_outlives_every_handle() {
    fn sendable<T: Send>(it: T) -> T {
        it
    }
    let limiter: Limiter = InFlightLimiter::new(1);
    let permit = sendable(limiter.acquire("payments").unwrap());
    thread::scope(|scope| {
        let handle = limiter.clone();
        let waiter = scope.spawn(move || handle.request("payments").no_timeout().run(|_| "ran"));
        until_queued(&limiter, "payments", 1);
        drop(limiter);
        scope.spawn(move || drop(permit));
        assert_eq!(waiter.join().unwrap(), Ok("ran"));
    });
}
