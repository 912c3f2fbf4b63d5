//! The ends of waits and calls (LIMITER 3-5).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use doclock_locks::{
    AcquireOptions, CancelToken,
    limiter::{CallEvidence, InFlightLimiter, LimiterError, LimiterOptions},
};

use crate::{Limiter, MS, Started, at_rest, timed, until_queued};

fn timeout_of<T: std::fmt::Debug>(result: Result<T, LimiterError>) -> (Duration, CallEvidence) {
    match result {
        Err(LimiterError::Timeout { limit, call }) => (limit, *call),
        other => panic!("expected a timeout, found {other:?}"),
    }
}

fn cancelled<T: std::fmt::Debug>(result: Result<T, LimiterError>) -> CallEvidence {
    match result {
        Err(LimiterError::Cancelled { call }) => *call,
        other => panic!("expected a cancellation, found {other:?}"),
    }
}

#[test]
fn limiter_03_a_call_cancelled_while_waiting_leaves_the_queue_and_never_runs() {
    let (limiter, clock) = timed(LimiterOptions::new(1));
    let started = Started::default();
    let token = CancelToken::new();
    let held = limiter.acquire("payments").unwrap();
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        let mut callers = Vec::new();
        for (nth, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            let call = match nth % 2 {
                0 => limiter.request("payments").no_timeout(),
                _ => limiter
                    .request("payments")
                    .no_timeout()
                    .cancel_token(&token),
            };
            callers.push(started.line_up(scope, limiter, "payments", name, call));
        }
        clock.advance(30 * MS);
        token.cancel();
        until_queued(limiter, "payments", 3);
        drop(held);
        let ends: Vec<_> = callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .collect();
        let [Ok(()), b, Ok(()), d, Ok(())] = &ends[..] else {
            panic!("{ends:?}");
        };
        let evidence = cancelled(b.clone());
        assert_eq!((evidence.position, evidence.waited), (Some(2), 30 * MS));
        // Which of the two leaves first is unspecified.
        assert!([Some(3), Some(4)].contains(&cancelled(d.clone()).position));
        let queued = evidence.load.queued;
        assert!([4, 5].contains(&queued));
        assert_eq!(
            b.as_ref().unwrap_err().to_string(),
            format!(
                "call to \"payments\" was cancelled after 30ms: \
                 queue position 2, 1 of 1 slots taken, {queued} calls waiting"
            )
        );
    });
    assert_eq!(started.names(), ["a", "c", "e"]);
    assert_eq!(limiter.snapshot().total.cancelled, 2);
    at_rest(&limiter, 0);
}

#[test]
fn limiter_03_a_call_cancelled_in_advance_is_refused_even_a_free_slot() {
    let limiter: Limiter = InFlightLimiter::new(1);
    let token = CancelToken::new();
    token.cancel();
    let call = || limiter.request("payments").cancel_token(&token);
    let evidence = cancelled(call().run(|_| unreachable!("it runs")));
    assert_eq!((evidence.position, evidence.waited), (None, Duration::ZERO));
    cancelled(call().no_wait().wait());
    assert_eq!(limiter.snapshot().total.cancelled, 2);
    at_rest(&limiter, 0);
}

#[test]
fn limiter_03_cancelled_while_running_the_task_sees_the_signal_and_the_slot_comes_back() {
    let limiter: Limiter = InFlightLimiter::new(1);
    let token = CancelToken::new();
    let (running, runs) = mpsc::channel();
    thread::scope(|scope| {
        let call = limiter.request("payments").cancel_token(&token);
        let task = scope.spawn(|| {
            call.run(|signal| {
                assert!(!signal.is_cancelled());
                running.send(()).unwrap();
                while !signal.is_cancelled() {
                    thread::yield_now();
                }
                "broken off"
            })
        });
        runs.recv().unwrap();
        let next = scope.spawn(|| limiter.request("payments").no_timeout().run(|_| "next"));
        until_queued(&limiter, "payments", 1);
        token.cancel();
        assert_eq!(task.join().unwrap(), Ok("broken off"));
        assert_eq!(next.join().unwrap(), Ok("next"));
    });
    let total = limiter.snapshot().total;
    assert_eq!((total.cancelled, total.cancelled_running), (0, 1));
    at_rest(&limiter, 0);
}

#[test]
fn limiter_03_the_signal_carries_the_token_on_to_calls_made_within() {
    let limiter: Limiter = InFlightLimiter::new(1);
    let token = CancelToken::new();
    let inner = limiter.acquire("inner").unwrap();
    thread::scope(|scope| {
        let outer = scope.spawn(|| {
            limiter.request("outer").cancel_token(&token).run(|signal| {
                let call = limiter
                    .request("inner")
                    .no_timeout()
                    .cancel_token(signal.token().unwrap());
                call.run(|_| unreachable!("it runs"))
            })
        });
        until_queued(&limiter, "inner", 1);
        token.cancel();
        cancelled(outer.join().unwrap().unwrap());
    });
    drop(inner);
    at_rest(&limiter, 0);
    assert!(
        limiter
            .run("outer", |signal| signal.token().is_none())
            .unwrap()
    );
}

/// One thread returns the slot as soon as another waits for it, while a third cancels that wait. In
/// one of sixteen rounds the holder waits for the cancellation, and in another there is none, so
/// neither side always wins.
#[test]
fn limiter_03_races_of_return_and_cancel_leak_nothing() {
    let rounds: u64 = if cfg!(debug_assertions) {
        2_000
    } else {
        50_000
    };
    let limiter: Limiter = InFlightLimiter::with_options(LimiterOptions::new(1).global_limit(1));
    // The number of the round, from 1, while the slot is held and the call runs; otherwise zero.
    let turn = AtomicU64::new(0);
    let until = |reached: &dyn Fn() -> bool| {
        while !reached() {
            thread::yield_now();
        }
    };
    let (tokens, cancel) = mpsc::channel::<CancelToken>();
    let (mut granted, mut gone) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(move || cancel.into_iter().for_each(|token| token.cancel()));
        scope.spawn(|| {
            for round in 1..=rounds {
                let permit = limiter.request("payments").no_timeout().wait().unwrap();
                turn.store(round, SeqCst);
                let ended = || turn.load(SeqCst) == 0;
                match round % 16 {
                    0 => until(&ended),
                    _ => until(&|| ended() || limiter.load(&"payments").queued == 1),
                }
                drop(permit);
                until(&ended);
            }
        });
        for round in 1..=rounds {
            until(&|| turn.load(SeqCst) == round);
            let token = CancelToken::new();
            let call = limiter
                .request("payments")
                .no_timeout()
                .cancel_token(&token);
            if round % 16 != 1 {
                tokens.send(token).unwrap();
            }
            match call.run(|_| ()) {
                Ok(()) => granted += 1,
                Err(LimiterError::Cancelled { .. }) => gone += 1,
                Err(other) => panic!("{other}"),
            }
            turn.store(0, SeqCst);
        }
        drop(tokens);
    });
    println!("{granted} granted, {gone} cancelled");
    assert!(granted >= rounds / 16 && gone >= rounds / 16);
    let total = limiter.snapshot().total;
    assert_eq!((total.acquired, total.cancelled), (rounds + granted, gone));
    at_rest(&limiter, 0);
}

#[test]
fn limiter_04_a_wait_times_out_with_its_own_error_and_never_early() {
    let (limiter, clock) = timed(LimiterOptions::new(1));
    let held = limiter.acquire("payments").unwrap();
    thread::scope(|scope| {
        let call = limiter.request("payments").timeout(100 * MS);
        let waiter = scope.spawn(|| call.run(|_| unreachable!("it runs")));
        until_queued(&limiter, "payments", 1);
        clock.advance(100 * MS - Duration::from_nanos(1));
        assert_eq!(limiter.load(&"payments").queued, 1, "it still waits");
        clock.advance(Duration::from_nanos(1));
        let result: Result<(), _> = waiter.join().unwrap();
        let text = result.as_ref().unwrap_err().to_string();
        let (limit, evidence) = timeout_of(result);
        assert_eq!((limit, evidence.waited), (100 * MS, 100 * MS));
        assert_eq!((evidence.position, evidence.weight), (Some(1), 1));
        assert_eq!(evidence.key, "\"payments\"");
        assert_eq!((evidence.load.in_flight, evidence.load.limit), (1, 1));
        assert_eq!(
            text,
            "call to \"payments\" timed out after 100ms: queue position 1, 1 of 1 slots taken, 1 call waiting"
        );
    });
    drop(held);
    assert_eq!(limiter.snapshot().total.timed_out, 1);
    at_rest(&limiter, 0);
}

#[test]
fn limiter_04_on_the_systems_clock_too() {
    let options = LimiterOptions::new(1).timeout(20 * MS).global_limit(1);
    let limiter: Limiter = InFlightLimiter::with_options(options);
    let _held = limiter.acquire("payments").unwrap();
    let asked = Instant::now();
    let error = limiter.acquire("shipping").unwrap_err();
    assert!(asked.elapsed() >= 20 * MS);
    assert_eq!(
        error.to_string(),
        "call to \"shipping\" timed out after 20ms: \
         queue position 1, 0 of 1 slots taken, 1 call waiting, 1 of 1 slots of all keys taken"
    );
    let (_, evidence) = timeout_of(Err::<(), _>(error));
    assert!(evidence.waited >= 20 * MS);
}

#[test]
fn limiter_04_the_limit_is_on_waiting_not_on_running() {
    let (limiter, clock) = timed(LimiterOptions::new(1));
    let call = limiter.request("payments").timeout(10 * MS);
    let answer = call.run(|signal| {
        clock.advance(Duration::from_secs(3600));
        assert!(!signal.is_cancelled());
        "late"
    });
    assert_eq!(answer, Ok("late"));
}

#[test]
fn limiter_04_a_grant_that_races_the_expiry_wins() {
    let (limiter, clock) = timed(LimiterOptions::new(1));
    let held = limiter.acquire("payments").unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| limiter.run("payments", |_| "granted"));
        until_queued(&limiter, "payments", 1);
        drop(held);
        // Granted now, so a timeout before the waiter wakes changes nothing.
        clock.advance(Duration::from_secs(60));
        assert_eq!(waiter.join().unwrap(), Ok("granted"));
    });
    assert_eq!(limiter.snapshot().total.timed_out, 0);
}

#[test]
fn limiter_05_a_full_queue_rejects_at_once() {
    let (limiter, _clock) = timed(LimiterOptions::new(1).queue_bound(2));
    let started = Started::default();
    let held = limiter.acquire("payments").unwrap();
    thread::scope(|scope| {
        let (limiter, started) = (&limiter, &started);
        started.line_up(
            scope,
            limiter,
            "payments",
            "a",
            limiter.request("payments").no_timeout(),
        );
        started.line_up(
            scope,
            limiter,
            "payments",
            "b",
            limiter.request("payments").no_timeout(),
        );
        let error = limiter.request("payments").no_timeout().wait().unwrap_err();
        assert_eq!(
            error.to_string(),
            "queue for \"payments\" is full: bound 2, 1 of 1 slots taken, 2 calls waiting"
        );
        // The smaller of both bounds counts.
        for (own, counts) in [(0, 0), (1, 1), (3, 2)] {
            match limiter
                .request("payments")
                .options(AcquireOptions::new().no_timeout().queue_bound(own))
                .wait()
            {
                Err(LimiterError::QueueFull { bound, .. }) => assert_eq!(bound, counts),
                other => panic!("{other:?}"),
            }
        }
        // Another key has another queue.
        limiter
            .request("shipping")
            .options(AcquireOptions::new().queue_bound(0))
            .run(|_| ())
            .unwrap();
        drop(held);
    });
    assert_eq!(started.names(), ["a", "b"]);
    assert_eq!(limiter.snapshot().total.rejected, 4);
    at_rest(&limiter, 0);
}

#[test]
fn a_panic_returns_the_slots_and_resumes_in_the_caller() {
    let limiter: Limiter = InFlightLimiter::new(2);
    let first = limiter.acquire("payments").unwrap();
    thread::scope(|scope| {
        let torn = scope.spawn(|| {
            let run = || {
                limiter.run("payments", |_| {
                    until_queued(&limiter, "payments", 1);
                    panic!("torn")
                })
            };
            catch_unwind(AssertUnwindSafe(run)).map(|_: Result<(), _>| ())
        });
        while limiter.load(&"payments").in_flight < 2 {
            thread::yield_now();
        }
        let next = scope.spawn(|| limiter.request("payments").no_timeout().run(|_| "next"));
        let payload = torn.join().unwrap().unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"torn"));
        assert_eq!(next.join().unwrap(), Ok("next"));
    });
    drop(first);
    at_rest(&limiter, 0);
}
