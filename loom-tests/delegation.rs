//! Races between lists of operations that others execute, and whatever else may become of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::{
    AcquireOptions, CancelToken, EditError, LockError, ManualClock, Operation, OperationError,
    StoreOptions, TransactionError, dsl::op,
};
use loom::thread;

use crate::model::{Seen, check_all};
use crate::site::{AGES, Outcome, Site, at_rest};

fn plain() -> AcquireOptions {
    AcquireOptions::new()
}

/// Three lists, of which one, `b`, is withdrawn.
fn withdrawal(
    seen: &Seen,
    options: AcquireOptions,
    withdraw: impl FnOnce(&Site) + 'static,
) -> Outcome {
    let site = Site::new(StoreOptions::new());
    let b = site.spawn_list("b", options);
    let c = site.spawn_list("c", plain());
    let other = site.spawn(withdraw);
    let a = site.submit("a", plain());
    let (b, c) = (b.join().unwrap(), c.join().unwrap());
    other.join().unwrap();

    site.are_in_order_of_asking();
    let stats = site.at_rest(&[("a", &a), ("b", &b), ("c", &c)]);
    assert!(a.is_ok() && c.is_ok());
    assert_eq!(site.executor("b").is_some(), b.is_ok());
    let withdrawn = u64::from(b.is_err());
    assert_eq!(stats.total_acquisitions, 3 - withdrawn);
    assert_eq!(stats.total_timeouts + stats.total_cancellations, withdrawn);
    seen.note(match site.executor("b") {
        None => "never executed",
        Some("b") => "executed by itself",
        Some(_) => "executed by another",
    });
    b
}

const WAYS: [&str; 3] = [
    "executed by itself",
    "executed by another",
    "never executed",
];

#[test]
fn delegation_a_list_that_timed_out_is_never_executed() {
    check_all("delegate against timeout", Some(3), WAYS, |seen| {
        let b = withdrawal(seen, plain(), |site| site.store.expire("b"));
        match b {
            Ok(_) | Err(TransactionError::Lock(LockError::Timeout(_))) => {}
            Err(other) => panic!("{other}"),
        }
    });
}

#[test]
fn delegation_a_list_that_was_cancelled_is_never_executed() {
    check_all("delegate against cancel", Some(3), WAYS, |seen| {
        let token = CancelToken::new();
        let options = plain().cancel_token(&token);
        let b = withdrawal(seen, options, move |_| token.cancel());
        match b {
            Ok(_) | Err(TransactionError::Lock(LockError::Cancelled(_))) => {}
            Err(other) => panic!("{other}"),
        }
    });
}

#[test]
fn delegation_stops_at_a_guard_in_mid_line() {
    let outcomes = [
        "guard first",
        "guard after a list",
        "guard after a delegated list",
        "guard last",
    ];
    check_all("delegate against a guard", Some(2), outcomes, |seen| {
        let site = Site::new(StoreOptions::new());
        let b = site.spawn_list("b", plain());
        let guard = site.spawn(|site| site.hold("guard", plain()));
        let c = site.spawn_list("c", plain());
        let a = site.submit("a", plain());
        let (b, c) = (b.join().unwrap(), c.join().unwrap());
        guard.join().unwrap();

        site.are_in_order_of_asking();
        site.at_rest(&[("a", &a), ("b", &b), ("c", &c)]);
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        seen.note(match site.turns()[..] {
            [("guard", _), ..] => "guard first",
            [.., ("guard", _)] => "guard last",
            [(first, by), (second, with), ("guard", _), (third, last)] => {
                assert_eq!((by, last), (first, third), "nobody executes past a guard");
                match with == second {
                    true => "guard after a list",
                    false => "guard after a delegated list",
                }
            }
            _ => "guard after a list",
        });
    });
}

/// Submits `a`, which starts others in its turn and goes on when so many wait.
fn in_front<T: Send + 'static>(
    site: &Site,
    of: usize,
    options: AcquireOptions,
    start: impl FnOnce() -> T + Send + 'static,
) -> (Outcome, T) {
    in_front_and(site, of, options, start, site.operation("a"))
}

/// As [`in_front`], and does that then.
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

/// What is done once, in whatever thread, and how to get at what came of it.
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
fn delegation_a_panic_of_an_operation_is_told_to_its_submitter_alone() {
    let outcomes = ["executed by itself", "executed by another"];
    check_all("panic of an operation", Some(3), outcomes, |seen| {
        let site = Site::new(StoreOptions::new());
        let b = site.spawn(|site| {
            let torn = op::<EditError>(|_| panic!("torn"));
            site.submit_list("b", plain(), [site.operation("b"), torn])
        });
        let c = site.spawn_list("c", plain());
        let a = site.submit("a", plain());
        let (b, c) = (b.join().unwrap(), c.join().unwrap());

        site.are_in_order_of_asking();
        site.at_rest(&[("a", &a), ("b", &b), ("c", &c)]);
        assert!(a.is_ok() && c.is_ok());
        match b {
            Err(TransactionError::Operation {
                index: 1,
                cause: OperationError::Panicked(payload),
                ..
            }) => assert_eq!(payload.message().as_deref(), Some("torn")),
            other => panic!("{other:?}"),
        }
        seen.note(match site.executor("b") {
            Some("b") => "executed by itself",
            _ => "executed by another",
        });
    });
}

/// Panics when it is dropped, which is when the operation that has it is over.
struct Burst;

impl Drop for Burst {
    fn drop(&mut self) {
        panic!("burst");
    }
}

#[test]
fn delegation_a_panic_between_operations_goes_on_at_its_submitter_alone() {
    let outcomes = ["panic before c", "panic after c"];
    check_all("panic between operations", Some(3), outcomes, |seen| {
        let site = Site::new(StoreOptions::new());
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
                (b, site.spawn_list("c", plain()))
            }
        };
        let (a, (b, c)) = in_front(&site, 2, plain(), start);
        b.join().unwrap();
        let c = c.join().unwrap();

        site.are_in_order_of_asking();
        let stats = site.at_rest(&[("a", &a), ("c", &c)]);
        assert!(a.is_ok() && c.is_ok());
        assert_eq!((stats.total_acquisitions, site.store.version()), (3, 2));
        seen.note(match site.turns()[..] {
            [("a", "a"), ("b", "a"), ("c", "a")] => "panic before c",
            [("a", "a"), ("c", "a"), ("b", "a")] => "panic after c",
            ref other => panic!("{other:?}"),
        });
    });
}

/// Three lists that wait while `a` is executed: whose thread executes which.
fn who_executes(seen: &Seen, options: StoreOptions, of_a: AcquireOptions) -> [&'static str; 3] {
    let site = Site::new(options);
    let start = {
        let site = site.clone();
        move || ["b", "c", "d"].map(|name| (name, site.spawn_list(name, plain())))
    };
    let (a, others) = in_front(&site, 3, of_a, start);
    let [b, c, d] = others.map(|(name, thread)| (name, thread.join().unwrap()));

    site.are_in_order_of_asking();
    site.at_rest(&[("a", &a), (b.0, &b.1), (c.0, &c.1), (d.0, &d.1)]);
    assert!(a.is_ok() && b.1.is_ok() && c.1.is_ok() && d.1.is_ok());
    let turns = site.turns();
    seen.note(match turns[..] {
        [_, ("b", _), ("c", _), ("d", _)] => "b, c, d",
        [_, ("d", _), ("c", _), ("b", _)] => "d, c, b",
        _ => "in another order",
    });
    // By their places in line.
    let place = |name: &str| turns.iter().position(|(named, _)| *named == name).unwrap();
    let places = ["a", "1st", "2nd", "3rd"];
    [1, 2, 3].map(|nth| places[place(turns[nth].1)])
}

const ORDERS: [&str; 3] = ["b, c, d", "d, c, b", "in another order"];

#[test]
fn delegation_ends_with_the_batch_and_the_next_goes_on() {
    check_all(
        "delegate against the batch limit",
        Some(2),
        ORDERS,
        |seen| {
            let options = StoreOptions::new().batch_limit(1, AGES);
            let executors = who_executes(seen, options, plain());
            assert_eq!(executors, ["a", "2nd", "2nd"]);
        },
    );
}

#[test]
fn delegation_without_a_batch_is_none() {
    check_all("a batch limit of zero", Some(2), ORDERS, |seen| {
        let options = StoreOptions::new().batch_limit(0, AGES);
        let executors = who_executes(seen, options, plain());
        assert_eq!(executors, ["1st", "2nd", "3rd"]);
    });
}

#[test]
fn delegation_is_not_done_by_a_thread_that_hands_over() {
    check_all("hand over to lists", Some(2), ORDERS, |seen| {
        let executors = who_executes(seen, StoreOptions::new(), plain().hand_over());
        assert_eq!(executors, ["1st", "1st", "1st"]);
    });
}

/// Two are answered and sleep on until the batch ends: then one is woken, and wakes the other. Meanwhile the limit of one of
/// them passes: it is awake by itself, and may be gone when it is its turn to wake somebody; or it comes too late to leave the line,
/// and sleeps again, now without a limit.
#[test]
fn delegation_wakes_all_who_slept_although_some_awoke_by_themselves() {
    let outcomes = ["b first", "c first", "b timed out"];
    check_all("relay against a limit", Some(3), outcomes, |seen| {
        let clock = ManualClock::new();
        let site = Site::new(StoreOptions::new().clock(clock.clock()));
        let limit = Duration::from_millis(1);
        let start = {
            let site = site.clone();
            move || [site.spawn_brief("b", limit), site.spawn_brief("c", AGES)]
        };
        let (tick, ticking) = once(move || thread::spawn(move || clock.advance(limit)));
        let tick = op(move |_| {
            tick();
            Ok::<(), EditError>(())
        });
        let (a, others) = in_front_and(&site, 2, plain(), start, tick);
        let [b, c] = others.map(|other| other.join().unwrap());
        ticking().join().unwrap();

        assert!(!a.unwrap().changed);
        at_rest(&site.store.lock_stats());
        let c = c.unwrap().version;
        seen.note(match b {
            Ok(b) if (b.version, c) == (1, 2) => "b first",
            Ok(b) if (b.version, c) == (2, 1) => "c first",
            Err(TransactionError::Lock(LockError::Timeout(_))) if c == 1 => "b timed out",
            other => panic!("{other:?}, {c}"),
        });
    });
}
