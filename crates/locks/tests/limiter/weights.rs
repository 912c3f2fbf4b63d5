//! Calls with several slots (LIMITER 6).

use std::thread;

use doclock_locks::{
    CancelToken,
    limiter::{Aimd, InFlightLimiter, LimiterError, LimiterOptions},
};

use crate::{Limiter, MS, Started, at_rest, timed, until_queued};

#[test]
fn limiter_06_a_heavy_call_waits_only_for_earlier_calls() {
    let (limiter, _clock) = timed(LimiterOptions::new(4));
    let started = Started::default();
    let held = [(); 4].map(|()| limiter.acquire("batch").unwrap());
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        let early = started.line_up(
            scope,
            limiter,
            "batch",
            "early",
            limiter.request("batch").no_timeout(),
        );
        let heavy = limiter.request("batch").no_timeout().weight(4);
        let heavy = started.line_up(scope, limiter, "batch", "heavy", heavy);
        let late: Vec<_> = ["late 1", "late 2", "late 3"]
            .map(|name| {
                started.line_up(
                    scope,
                    limiter,
                    "batch",
                    name,
                    limiter.request("batch").no_timeout(),
                )
            })
            .into();
        // Every slot but one is returned: the light calls would fit many times.
        let [a, b, c, last] = held;
        drop([a, b, c]);
        early.join().unwrap().unwrap();
        until_queued(limiter, "batch", 4);
        assert_eq!(limiter.load(&"batch").in_flight, 1);
        assert_eq!(started.names(), ["early"]);
        drop(last);
        heavy.join().unwrap().unwrap();
        late.into_iter()
            .for_each(|late| late.join().unwrap().unwrap());
    });
    assert_eq!(started.names()[..2], ["early", "heavy"]);
    at_rest(&limiter, 0);
}

#[test]
fn limiter_06_a_heavy_call_holds_as_many_slots_as_it_weighs() {
    let (limiter, _clock) = timed(LimiterOptions::new(5));
    let heavy = limiter.request("batch").weight(3).wait().unwrap();
    assert_eq!((heavy.weight(), limiter.load(&"batch").in_flight), (3, 3));
    let two = limiter.request("batch").weight(2).no_wait().wait().unwrap();
    limiter.request("batch").no_wait().wait().unwrap_err();
    drop(heavy);
    assert_eq!(limiter.load(&"batch").in_flight, 2);
    drop(two);
    // A weight of zero does not bypass a limit.
    assert_eq!(
        limiter
            .request("batch")
            .weight(0)
            .no_wait()
            .wait()
            .unwrap()
            .weight(),
        1
    );
    at_rest(&limiter, 0);
}

#[test]
fn limiter_06_a_call_too_heavy_to_ever_run_is_refused_at_once() {
    let rules = Aimd::new(MS).between(2, 100).start(50);
    let options = LimiterOptions::new(4)
        .limit("closed", 0)
        .limit("wide", 100)
        .adaptive("search", rules)
        .global_limit(10);
    let (limiter, _clock) = timed(options);
    for (key, weight, most) in [
        ("other", 5, 4),
        ("closed", 1, 0),
        ("wide", 11, 10),
        // The lower bound of the limit counts; otherwise the call could wait forever.
        ("search", 3, 2),
        ("other", usize::MAX, 4),
    ] {
        let call = limiter.request(key).weight(weight);
        let error = call.wait().unwrap_err();
        let expected = LimiterError::TooHeavy {
            key: format!("{key:?}"),
            weight,
            limit: most,
        };
        assert_eq!(error, expected);
    }
    let error = limiter.request("other").weight(5).wait().unwrap_err();
    assert_eq!(
        error.to_string(),
        "call to \"other\" takes 5 slots: the limit is 4"
    );
    let snapshot = limiter.snapshot();
    assert_eq!(snapshot.total.too_heavy, 6);
    let closed = snapshot.key(&"closed").unwrap().metrics.unwrap();
    assert_eq!((closed.too_heavy, closed.rejected), (1, 0));
    at_rest(&limiter, 3);
}

#[test]
fn limiter_06_light_calls_proceed_together_when_the_heavy_call_ahead_gives_up() {
    let limiter: Limiter = InFlightLimiter::new(3);
    let started = Started::default();
    let token = CancelToken::new();
    let held = limiter.acquire("batch").unwrap();
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        let heavy = limiter
            .request("batch")
            .no_timeout()
            .weight(3)
            .cancel_token(&token);
        let heavy = started.line_up(scope, limiter, "batch", "heavy", heavy);
        let lights = ["l1", "l2"].map(|name| {
            started.line_up(
                scope,
                limiter,
                "batch",
                name,
                limiter.request("batch").no_timeout(),
            )
        });
        assert!(started.names().is_empty());
        token.cancel();
        // No slot was returned, and both run.
        for light in lights {
            light.join().unwrap().unwrap();
        }
        let error = heavy.join().unwrap().unwrap_err();
        assert!(matches!(error, LimiterError::Cancelled { .. }), "{error}");
    });
    drop(held);
    assert_eq!(started.names().len(), 2);
    at_rest(&limiter, 0);
}

#[test]
fn limiter_06_under_the_global_limit_a_heavy_call_is_overtaken_once_by_each_other_key() {
    let options = LimiterOptions::new(4).global_limit(4);
    let limiter: Limiter = InFlightLimiter::with_options(options);
    let started = Started::default();
    let first = limiter.request("first").weight(4).wait().unwrap();
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        for (key, name, weight) in [
            ("a", "a1", 4),
            ("a", "a2", 4),
            ("b", "b1", 4),
            ("b", "b2", 4),
            ("heavy", "heavy", 4),
            ("a", "a3", 1),
            ("b", "b3", 1),
        ] {
            started.line_up(
                scope,
                limiter,
                key,
                name,
                limiter.request(key).no_timeout().weight(weight),
            );
        }
        drop(first);
    });
    let names = started.names();
    assert_eq!(names[..5], ["a1", "b1", "heavy", "a2", "b2"]);
    at_rest(&limiter, 0);
}
