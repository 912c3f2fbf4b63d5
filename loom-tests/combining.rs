//! Races between operation batches that other threads execute, and their other outcomes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::{
    StoreOptions,
    document::EditError,
    dsl::op,
    lock::{AcquireOptions, CancelToken, LockError},
    time::ManualClock,
    transaction::{Operation, OperationError, TransactionError},
};
use loom::thread;

use crate::model::{Model, Run};
use crate::site::{AGES, Outcome, Site, at_rest};

fn plain() -> AcquireOptions {
    AcquireOptions::new()
}

/// Runs three batches, of which an actor withdraws `b`.
fn withdrawal(
    run: &Run,
    options: AcquireOptions,
    actor: &'static str,
    withdraw: impl FnOnce(&Site) + 'static,
) -> Outcome {
    let site = Site::new(run, StoreOptions::new());
    let b = site.spawn_list("b", options);
    let c = site.spawn_list("c", plain());
    let actor = site.act(actor, withdraw);
    let a = site.submit("a", plain());
    let (b, c) = (b.join().unwrap(), c.join().unwrap());
    actor.join();

    site.are_in_fifo_order();
    let stats = site.at_rest(&[("a", &a), ("b", &b), ("c", &c)]);
    assert!(a.is_ok() && c.is_ok());
    assert_eq!(site.executor("b").is_some(), b.is_ok());
    let withdrawn = u64::from(b.is_err());
    assert_eq!(stats.total_acquisitions, 3 - withdrawn);
    assert_eq!(stats.total_timeouts + stats.total_cancellations, withdrawn);
    match site.executor("b") {
        None => {}
        Some("b") => run.note("executed by itself"),
        Some(_) => run.note("executed by another"),
    }
    b
}

#[test]
fn combining_never_executes_a_batch_that_timed_out() {
    Model::new("combining against timeout", 2)
        .reaches(["executed by itself", "executed by another"])
        .reaches_by("timer", "timed out")
        .check(|run| {
            let expire = |site: &Site| site.store.expire("b");
            match withdrawal(run, plain(), "timer", expire) {
                Ok(_) => {}
                Err(TransactionError::Lock(LockError::Timeout(_))) => run.note("timed out"),
                Err(other) => panic!("{other}"),
            }
        });
}

#[test]
fn combining_never_executes_a_cancelled_batch() {
    Model::new("combining against cancel", 2)
        .reaches(["executed by itself", "executed by another"])
        .reaches_by("canceller", "cancelled")
        .reaches_by("canceller", "refused")
        .check(|run| {
            let token = CancelToken::new();
            let options = plain().cancel_token(&token);
            match withdrawal(run, options, "canceller", move |_| token.cancel()) {
                Ok(_) => {}
                Err(TransactionError::Lock(LockError::Cancelled(evidence))) => {
                    run.note(match evidence.queued {
                        Some(_) => "cancelled",
                        None => "refused",
                    });
                }
                Err(other) => panic!("{other}"),
            }
        });
}

#[test]
fn combining_stops_at_a_guard_in_the_middle_of_the_queue() {
    Model::new("combining against a guard", 2)
        .reaches_by("guard", "guard first")
        .reaches_by("guard", "guard after a batch")
        .reaches_by("guard", "guard after a combined batch")
        .reaches_by("guard", "guard last")
        .check(|run| {
            let site = Site::new(run, StoreOptions::new());
            let b = site.spawn_list("b", plain());
            let guard = site.act("guard", |site| site.hold("guard", plain()));
            let c = site.spawn_list("c", plain());
            let a = site.submit("a", plain());
            let (b, c) = (b.join().unwrap(), c.join().unwrap());
            let guard = guard.join();

            site.are_in_fifo_order();
            site.at_rest(&[("a", &a), ("b", &b), ("c", &c)]);
            assert!(a.is_ok() && b.is_ok() && c.is_ok());
            if guard.is_none() {
                return;
            }
            run.note(match site.turns()[..] {
                [("guard", _), ..] => "guard first",
                [.., ("guard", _)] => "guard last",
                [(first, by), (second, with), ("guard", _), (third, last)] => {
                    assert_eq!(
                        (by, last),
                        (first, third),
                        "no thread executes past a guard"
                    );
                    match with == second {
                        true => "guard after a batch",
                        false => "guard after a combined batch",
                    }
                }
                _ => "guard after a batch",
            });
        });
}

/// Submits `a`, which starts other requests while it runs and continues when `of` requests
/// wait.
fn in_front<T: Send + 'static>(
    site: &Site,
    of: usize,
    options: AcquireOptions,
    start: impl FnOnce() -> T + Send + 'static,
) -> (Outcome, T) {
    in_front_and(site, of, options, start, site.operation("a"))
}

/// Submits `a` as [`in_front`] does, and runs `then` after that.
fn in_front_and<T: Send + 'static>(
    site: &Site,
    of: usize,
    options: AcquireOptions,
    start: impl FnOnce() -> T + Send + 'static,
    then: Operation,
) -> (Outcome, T) {
    let (start, started) = once(start);
    let store = site.store.clone();
    let gather = op(move |_| {
        start();
        while store.queue_length() < of {
            thread::yield_now();
        }
        Ok::<(), EditError>(())
    });
    let outcome = site.submit_list("a", options, [gather, then]);
    (outcome, started())
}

/// Returns code that runs once, in whichever thread, and a handle to its result.
fn once<T: Send + 'static>(
    code: impl FnOnce() -> T + Send + 'static,
) -> (impl Fn() + Send + Sync + 'static, impl FnOnce() -> T) {
    let (code, kept) = (Mutex::new(Some(code)), Arc::new(Mutex::new(None)));
    let keep = Arc::clone(&kept);
    let run = move || {
        let code = code.lock().unwrap().take().unwrap();
        *keep.lock().unwrap() = Some(code());
    };
    (run, move || kept.lock().unwrap().take().unwrap())
}

#[test]
fn combining_returns_a_panic_of_an_operation_only_to_its_submitter() {
    Model::new("panic of an operation", 2)
        .reaches(["executed by itself", "executed by a"])
        .reaches_by("c", "executed by c")
        .check(|run| {
            let site = Site::new(run, StoreOptions::new());
            let b = site.spawn(|site| {
                let torn = op::<EditError>(|_| panic!("torn"));
                site.submit_list("b", plain(), [site.operation("b"), torn])
            });
            let c = site.act("c", |site| site.submit("c", plain()));
            let a = site.submit("a", plain());
            let (b, c) = (b.join().unwrap(), c.join());

            site.are_in_fifo_order();
            let c = c.iter().map(|c| ("c", c));
            let outcomes: Vec<_> = [("a", &a)].into_iter().chain(c).collect();
            assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
            let outcomes: Vec<_> = outcomes.into_iter().chain([("b", &b)]).collect();
            site.at_rest(&outcomes);
            match &b {
                Err(TransactionError::Operation {
                    index: 1,
                    cause: OperationError::Panicked(payload),
                    ..
                }) => assert_eq!(payload.message().as_deref(), Some("torn")),
                other => panic!("{other:?}"),
            }
            run.note(match site.executor("b") {
                Some("b") => "executed by itself",
                Some("a") => "executed by a",
                _ => "executed by c",
            });
        });
}

/// Panics when it is dropped, which is when the transaction is over and its submitter continues.
struct Burst;

impl Drop for Burst {
    fn drop(&mut self) {
        panic!("burst");
    }
}

#[test]
fn combining_resumes_a_panic_of_a_captured_value_only_in_its_submitter() {
    Model::new("panic of what a list captured", 3)
        .reaches_by("c", "panic before c")
        .reaches_by("c", "panic after c")
        .check(|run| {
            let site = Site::new(run, StoreOptions::new());
            let start = {
                let site = site.clone();
                move || {
                    let b = site.spawn(|site| {
                        let burst = Burst;
                        let bursting = op(move |_| {
                            let _kept = &burst;
                            Ok::<(), EditError>(())
                        });
                        let list = [site.operation("b"), bursting];
                        let submit = || site.submit_list("b", plain(), list);
                        let payload = catch_unwind(AssertUnwindSafe(submit)).unwrap_err();
                        assert_eq!(payload.downcast_ref(), Some(&"burst"));
                    });
                    (b, site.act("c", |site| site.submit("c", plain())))
                }
            };
            let waiting = 1 + usize::from(run.has("c"));
            let (a, (b, c)) = in_front(&site, waiting, plain(), start);
            b.join().unwrap();
            let c = c.join();

            site.are_in_fifo_order();
            let c = c.iter().map(|c| ("c", c));
            let outcomes: Vec<_> = [("a", &a)].into_iter().chain(c).collect();
            let stats = site.store.lock_stats();
            at_rest(&stats);
            assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
            let count = outcomes.len() as u64;
            // The effect of `b` stays.
            assert_eq!(
                (stats.total_acquisitions, site.store.version()),
                (count + 1, count + 1)
            );
            match site.turns()[..] {
                [("a", "a"), ("b", "a")] => {}
                [("a", "a"), ("b", "a"), ("c", "a")] => run.note("panic before c"),
                [("a", "a"), ("c", "a"), ("b", "a")] => run.note("panic after c"),
                ref other => panic!("{other:?}"),
            }
        });
}

/// Runs three batches that wait while `a` is executed: which thread executes which batch, by queue
/// position.
fn check_executors(run: &Run, options: StoreOptions, of_a: AcquireOptions, expected: [&str; 3]) {
    let site = Site::new(run, options);
    let start = {
        let site = site.clone();
        move || {
            let [b, c] = ["b", "c"].map(|name| (name, site.spawn_list(name, plain())));
            (b, c, site.act("d", |site| site.submit("d", plain())))
        }
    };
    let waiting = 2 + usize::from(run.has("d"));
    let (a, (b, c, d)) = in_front(&site, waiting, of_a, start);
    let [b, c] = [b, c].map(|(name, thread)| (name, thread.join().unwrap()));
    let d = d.join().map(|outcome| ("d", outcome));

    site.are_in_fifo_order();
    let others = [b, c].into_iter().chain(d);
    let all: Vec<_> = [("a", a)].into_iter().chain(others).collect();
    let outcomes: Vec<_> = all.iter().map(|(name, outcome)| (*name, outcome)).collect();
    site.at_rest(&outcomes);
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
    let turns = site.turns();
    let place = |name: &str| turns.iter().position(|(named, _)| *named == name).unwrap();
    let places = ["a", "1st", "2nd", "3rd"];
    let executors: Vec<_> = turns[1..].iter().map(|(_, by)| places[place(by)]).collect();
    assert_eq!(executors, expected[..waiting]);
    match turns[..] {
        [_, ("b", _), ("c", _), ("d", _)] => run.note("b, c, d"),
        [_, ("d", _), ("c", _), ("b", _)] => run.note("d, c, b"),
        [_, _, _, _] => run.note("in another order"),
        _ => {}
    }
}

fn model_of_three_batches(name: &'static str) -> Model {
    Model::new(name, 2)
        .reaches_by("d", "b, c, d")
        .reaches_by("d", "d, c, b")
        .reaches_by("d", "in another order")
}

#[test]
fn combining_ends_at_the_batch_limit_and_the_next_thread_continues() {
    model_of_three_batches("combining against the batch limit").check(|run| {
        let options = StoreOptions::new().batch_limit(1, AGES);
        check_executors(run, options, plain(), ["a", "2nd", "2nd"]);
    });
}

#[test]
fn combining_does_not_happen_with_a_batch_limit_of_zero() {
    model_of_three_batches("a batch limit of zero").check(|run| {
        let options = StoreOptions::new().batch_limit(0, AGES);
        check_executors(run, options, plain(), ["1st", "2nd", "3rd"]);
    });
}

#[test]
fn combining_is_not_done_by_a_thread_that_opted_out() {
    model_of_three_batches("hand over to lists").check(|run| {
        let expected = ["1st", "1st", "1st"];
        check_executors(
            run,
            StoreOptions::new(),
            plain().without_combining(),
            expected,
        );
    });
}

/// Two are answered and sleep on until the batch ends: then one is woken, and wakes the other.
/// Meanwhile the timeout of one of them passes. Either it awakes by itself, and may be gone before
/// it must wake another. Or it is too late to leave the queue, and sleeps again, now without a
/// timeout.
#[test]
fn combining_wakes_each_sleeping_submitter_even_if_one_wakes_by_itself() {
    Model::new("wake-up chain against a limit", 3)
        .reaches(["b first", "c first"])
        .reaches_by("mover", "b timed out")
        .check(|run| {
            let clock = ManualClock::new();
            let site = Site::new(run, StoreOptions::new().clock(clock.clock()));
            let limit = Duration::from_millis(1);
            let start = {
                let site = site.clone();
                move || [site.spawn_brief("b", limit), site.spawn_brief("c", AGES)]
            };
            let run = run.clone();
            let move_it = {
                let run = run.clone();
                move || run.spawn("mover", move || clock.advance(limit))
            };
            let (tick, ticking) = once(move_it);
            let tick = op(move |_| {
                tick();
                Ok::<(), EditError>(())
            });
            let (a, others) = in_front_and(&site, 2, plain(), start, tick);
            let [b, c] = others.map(|other| other.join().unwrap());
            ticking().join();

            assert!(!a.unwrap().changed);
            at_rest(&site.store.lock_stats());
            let c = c.unwrap().version;
            run.note(match b {
                Ok(b) if (b.version, c) == (1, 2) => "b first",
                Ok(b) if (b.version, c) == (2, 1) => "c first",
                Err(TransactionError::Lock(LockError::Timeout(_))) if c == 1 => "b timed out",
                other => panic!("{other:?}, {c}"),
            });
        });
}
