//! Adaptive limits and metrics (LIMITER 9, 10).

use std::thread;
use std::time::Duration;

use doclock_locks::{
    AcquireOptions, CancelToken,
    limiter::{Aimd, LimiterError, LimiterOptions},
};

use crate::{MS, Started, at_rest, timed, until_queued};

#[test]
fn limiter_09_the_limit_falls_while_calls_are_slow_and_rises_when_they_are_fast() {
    let rules = Aimd::new(20 * MS).between(1, 8).start(8).backoff(50);
    let (limiter, clock) = timed(LimiterOptions::new(1).adaptive("search", rules));
    let limit = || limiter.load(&"search").limit;
    // As many calls as allowed at a time, each as long as `latency`.
    let wave = |latency| {
        let permits: Vec<_> = (0..limit())
            .map(|_| limiter.request("search").no_wait().wait().unwrap())
            .collect();
        limiter.request("search").no_wait().wait().unwrap_err();
        clock.advance(latency);
        drop(permits);
        limit()
    };
    assert_eq!([(); 2].map(|()| wave(21 * MS)), [4, 2]);
    let mut waves = 0;
    while wave(20 * MS) < 8 {
        waves += 1;
    }
    // 20 calls for each step, in waves of 2 to 7.
    assert!((20..=40).contains(&waves), "{waves}");
    let metrics = limiter.snapshot().key(&"search").unwrap().metrics.unwrap();
    assert_eq!(metrics.latency.count, metrics.acquired);
}

#[test]
fn limiter_09_a_falling_limit_keeps_calls_in_flight_and_grants_none_above_it() {
    let rules = Aimd::new(10 * MS).between(1, 8).start(4).backoff(50);
    let (limiter, clock) = timed(LimiterOptions::new(1).adaptive("search", rules));
    let mut permits: Vec<_> = (0..4).map(|_| limiter.acquire("search").unwrap()).collect();
    let started = Started::default();
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        clock.advance(11 * MS);
        permits.pop();
        let load = limiter.load(&"search");
        assert_eq!((load.in_flight, load.limit), (3, 4));
        permits.pop();
        let load = limiter.load(&"search");
        assert_eq!(
            (load.in_flight, load.limit),
            (2, 2),
            "the second slow one lowers"
        );
        let waiter = started.line_up(
            scope,
            limiter,
            "search",
            "waiter",
            limiter.request("search").no_timeout(),
        );
        permits.pop();
        waiter.join().unwrap().unwrap();
    });
    drop(permits);
    at_rest(&limiter, 1);
}

#[test]
fn limiter_09_a_limit_that_rises_admits_waiting_calls() {
    let rules = Aimd::new(10 * MS).between(1, 8);
    let (limiter, clock) = timed(LimiterOptions::new(1).adaptive("search", rules));
    for _ in 1..Aimd::WINDOW {
        limiter.run("search", |_| ()).unwrap();
    }
    let last = limiter.acquire("search").unwrap();
    thread::scope(|scope| {
        let callers = [(); 2].map(|()| {
            let queued = limiter.load(&"search").queued;
            let caller = scope.spawn(|| limiter.request("search").no_timeout().wait().unwrap());
            until_queued(&limiter, "search", queued + 1);
            caller
        });
        drop(last);
        // One slot was returned, and two were granted.
        let permits = callers.map(|caller| caller.join().unwrap());
        let load = limiter.load(&"search");
        assert_eq!((load.in_flight, load.limit), (2, 2));
        drop(permits);
    });
    drop(clock);
    at_rest(&limiter, 1);
}

#[test]
fn limiter_10_the_counters_record_each_outcome() {
    let options = LimiterOptions::new(2).limit("payments", 1).global_limit(3);
    let (limiter, clock) = timed(options);
    let token = CancelToken::new();
    let started = Started::default();
    let held = limiter.acquire("payments").unwrap();
    let other = limiter.request("shipping").weight(2).wait().unwrap();
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        let granted = started.line_up(
            scope,
            limiter,
            "payments",
            "a",
            limiter.request("payments").no_timeout(),
        );
        let call = limiter
            .request("payments")
            .no_timeout()
            .cancel_token(&token);
        let gone = started.line_up(scope, limiter, "payments", "b", call);
        let call = limiter.request("payments").timeout(30 * MS);
        let late = started.line_up(scope, limiter, "payments", "c", call);

        let snapshot = limiter.snapshot();
        assert_eq!((snapshot.in_flight, snapshot.queued), (3, 3));
        let [payments, shipping] = &snapshot.keys[..] else {
            panic!("{snapshot:?}");
        };
        assert_eq!(
            (payments.key, payments.in_flight, payments.limit),
            ("payments", 1, 1)
        );
        assert_eq!((payments.queued, shipping.queued), (3, 0));
        assert_eq!(
            (shipping.key, shipping.in_flight, shipping.limit),
            ("shipping", 2, 2)
        );
        assert!(
            shipping.metrics.is_none(),
            "it shares those of all without a name"
        );

        limiter
            .request("payments")
            .options(AcquireOptions::new().no_timeout().queue_bound(3))
            .wait()
            .unwrap_err();
        limiter.request("shipping").no_wait().wait().unwrap_err();
        clock.advance(30 * MS);
        late.join().unwrap().unwrap_err();
        token.cancel();
        gone.join().unwrap().unwrap_err();
        clock.advance(10 * MS);
        drop(held);
        granted.join().unwrap().unwrap();
    });
    drop(other);

    let snapshot = limiter.snapshot();
    let total = snapshot.total;
    assert_eq!((total.acquired, total.rejected, total.declined), (3, 1, 1));
    assert_eq!(
        (total.timed_out, total.cancelled, total.cancelled_running),
        (1, 1, 0)
    );
    assert_eq!((total.latency.count, total.latency.max), (3, 40 * MS));
    let own = snapshot.key(&"payments").unwrap().metrics.unwrap();
    assert_eq!((own.acquired, own.declined), (2, 0));
    assert_eq!((own.wait.count, own.wait.max), (2, 40 * MS));
    assert_eq!(own.wait.p50, Duration::ZERO, "of the one granted at once");
    at_rest(&limiter, 1);
}

#[test]
fn limiter_10_percentiles_of_the_latency_are_within_one_per_cent() {
    let (limiter, clock) = timed(LimiterOptions::new(1).limit("payments", 1));
    for millis in 1..=100 {
        limiter
            .run("payments", |_| clock.advance(MS * millis))
            .unwrap();
    }
    let latency = limiter.snapshot().total.latency;
    assert_eq!((latency.count, latency.max), (100, 100 * MS));
    for (found, millis) in [(latency.p50, 50), (latency.p95, 95), (latency.p99, 99)] {
        let exact = MS * millis;
        assert!(
            found >= exact && found <= exact * 101 / 100,
            "{found:?} for {exact:?}"
        );
    }
}

#[test]
fn limiter_10_a_snapshot_is_a_table_and_json() {
    let (limiter, clock) = timed(LimiterOptions::new(4).limit("payments", 2).global_limit(8));
    limiter.run("payments", |_| clock.advance(5 * MS)).unwrap();
    let _permit = limiter.request("shipping").weight(3).wait().unwrap();
    let snapshot = limiter.snapshot();
    let table = snapshot.to_string();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[1][..4], ["\"payments\"", "0/2", "0", "1"]);
    assert_eq!(lines[1][9..], ["5.0ms", "5.0ms"]);
    assert_eq!(lines[2], ["\"shipping\"", "3/4", "0"]);
    assert_eq!(lines[3][..4], ["all", "3/8", "0", "2"]);
    let json = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(json["keys"][0]["metrics"]["latency"]["p50"], 5.0);
    assert_eq!(json["keys"][1]["inFlight"], 3);
    assert_eq!(json["total"]["timedOut"], 0);
}

#[test]
fn errors_are_values() {
    let (limiter, _clock) = timed(LimiterOptions::new(1));
    let error = limiter.request("payments").weight(2).wait().unwrap_err();
    assert_eq!(error.clone(), error);
    let error: Box<dyn std::error::Error + Send + Sync> = error.into();
    assert!(error.downcast::<LimiterError>().is_ok());
}
