//! Races between a task of a key and requests that join it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use doclock_locks::{
    OwnerId,
    time::ManualClock,
    {
        AcquireOptions, CancelToken, LockError,
        keyed::{ExecutionError, KeyedOptions},
    },
};
use loom::thread;

use crate::keyed::{KEY, Lock, act, at_rest, spawn};
use crate::model::{Model, Run};

/// The result of the join, and the owner that executed the task.
type Joined = Option<(OwnerId, Result<u64, ExecutionError>)>;

/// Two execute tasks, a third joins the task that it finds. Without the second one there is one
/// result.
fn join(run: &Run, task: fn() -> u64) -> (Joined, Vec<Option<u64>>) {
    let lock = Lock::new();
    let execute = move |lock: Lock, owner: &str, task: fn() -> u64| {
        let execute = || lock.request(&KEY, owner).wait()?.execute(task);
        let result = catch_unwind(AssertUnwindSafe(execute)).ok();
        result.map(Result::unwrap)
    };
    let first = spawn(&lock, move |lock| execute(lock, "first", task));
    let second = act(run, "second", &lock, move |lock| {
        execute(lock, "second", || 2)
    });
    let joined = lock.current_execution(&KEY).map(|execution| {
        let owner = execution.owner().clone();
        (owner, execution.join())
    });
    let first = first.join().unwrap();
    let results: Vec<_> = [first].into_iter().chain(second.join()).collect();
    at_rest(&lock, results.len() as u64);
    (joined, results)
}

/// The result, where it is that of the second task.
fn of_the_second(joined: &Joined) -> bool {
    matches!(joined, Some((owner, Ok(2))) if owner.as_str() == "second")
}

#[test]
fn keyed_joins_against_completion() {
    let model = Model::new("keyed: join against completion", None)
        .reaches(["joined the first", "nothing to join"])
        .reaches_by("second", "joined the second");
    model.check(|run| {
        let (joined, results) = join(run, || 1);
        assert_eq!(results, [Some(1), Some(2)][..results.len()]);
        run.note(match joined {
            None => "nothing to join",
            Some((owner, Ok(1))) if owner.as_str() == "first" => "joined the first",
            joined if of_the_second(&joined) => "joined the second",
            other => panic!("{other:?}"),
        });
    });
}

#[test]
fn keyed_joins_against_panic() {
    let model = Model::new("keyed: join against panic", None)
        .reaches(["joined the one that panics", "nothing to join"])
        .reaches_by("second", "joined the other");
    model.check(|run| {
        let (joined, results) = join(run, || std::panic::resume_unwind(Box::new("torn")));
        assert_eq!(results, [None, Some(2)][..results.len()]);
        run.note(match joined {
            None => "nothing to join",
            Some((owner, Err(ExecutionError::Panicked(panic)))) => {
                assert_eq!(panic.message.as_deref(), Some("torn"));
                assert_eq!((owner.as_str(), panic.owner.as_str()), ("first", "first"));
                "joined the one that panics"
            }
            joined if of_the_second(&joined) => "joined the other",
            other => panic!("{other:?}"),
        });
    });
}

/// A join finds a turn that is being given up, or the next.
#[test]
fn keyed_joins_against_a_dropped_reservation() {
    let model = Model::new("keyed: join against a turn given up", None)
        .reaches(["given up", "nothing to join"])
        .reaches_by("next", "joined the next");
    model.check(|run| {
        let lock = Lock::new();
        let idler = lock.request(&KEY, "idler").reserve().unwrap();
        let next = run.has("next").then(|| lock.reserve(&KEY).unwrap());
        let next = run.spawn("next", move || next.map(|next| next.execute(|| 7)));
        let joiner = spawn(&lock, |lock| {
            let execution = lock.current_execution(&KEY);
            execution.map(|execution| execution.join())
        });
        drop(idler);
        let executed = next.join().flatten();
        assert!(matches!(executed, Some(Ok(7)) | None));
        let joined = joiner.join().unwrap();
        at_rest(&lock, 1 + u64::from(executed.is_some()));
        run.note(match joined {
            None => "nothing to join",
            Some(Ok(7)) => "joined the next",
            Some(Err(ExecutionError::Abandoned { owner, .. })) => {
                assert_eq!(owner.as_str(), "idler");
                "given up"
            }
            other => panic!("{other:?}"),
        });
    });
}

/// Two have joined a task that ends, one of them leaves, a third looks.
#[test]
fn keyed_joins_a_joiner_that_leaves_against_completion() {
    let model = Model::new("keyed: a joiner that leaves against completion", 4)
        .reaches(["looked while it was executed", "looked when it had ended"])
        .reaches_by("leaver", "left while it was executed")
        .reaches_by("leaver", "left when it had ended");
    model.check(|run| {
        let lock = Lock::new();
        let turn = lock.reserve(&KEY).unwrap();
        let [first, second] = [0; 2].map(|_| lock.current_execution(&KEY).unwrap());
        let ended = Arc::new(AtomicBool::new(false));
        let leaver = {
            let (run, ended) = (run.clone(), Arc::clone(&ended));
            run.clone().spawn("leaver", move || {
                drop(first);
                run.note(match ended.load(Ordering::SeqCst) {
                    false => "left while it was executed",
                    true => "left when it had ended",
                });
            })
        };
        let joins = thread::spawn(move || second.join());
        let looks = spawn(&lock, |lock| lock.is_active_key(&KEY));
        assert_eq!(turn.execute(|| 7), Ok(7));
        ended.store(true, Ordering::SeqCst);
        leaver.join();
        assert_eq!(joins.join().unwrap(), Ok(7));
        let active = looks.join().unwrap();
        at_rest(&lock, 1);
        run.note(match active {
            true => "looked while it was executed",
            false => "looked when it had ended",
        });
    });
}

/// Two join a task that ends while one of them is cancelled.
#[test]
fn keyed_joins_against_cancel_against_completion() {
    let model = Model::new("keyed: join against cancel", 3)
        .reaches(["shared"])
        .reaches_by("canceller", "cancelled");
    model.check(|run| {
        let lock = Lock::new();
        let token = CancelToken::new();
        let turn = lock.reserve(&KEY).unwrap();
        let executions = [0; 2].map(|_| lock.current_execution(&KEY).unwrap());
        let [first, second] = executions;
        let cancelled = {
            let options = AcquireOptions::new().cancel_token(&token);
            thread::spawn(move || first.request_result().options(options).wait())
        };
        let patient = thread::spawn(move || second.join());
        let canceller = run.spawn("canceller", move || token.cancel());
        assert_eq!(turn.execute(|| 7), Ok(7));
        let outcome = cancelled.join().unwrap();
        assert_eq!(patient.join().unwrap(), Ok(7));
        canceller.join();
        at_rest(&lock, 1);
        run.note(match outcome {
            Ok(7) => "shared",
            Err(ExecutionError::Lock(LockError::Cancelled(_))) => "cancelled",
            other => panic!("{other:?}"),
        });
    });
}

/// The own way of a joined request through its deadline, against the end of the task.
#[test]
fn keyed_joins_against_its_deadline() {
    let model = Model::new("keyed: join against its deadline", 5)
        .reaches(["shared"])
        .reaches_by("mover", "timed out");
    model.check(|run| {
        let clock = ManualClock::new();
        let lock = Lock::with_options(KeyedOptions::new().clock(clock.clock()));
        let turn = lock.reserve(&KEY).unwrap();
        let execution = lock.current_execution(&KEY).unwrap();
        let joiner = thread::spawn(move || {
            let limit = Duration::from_millis(1);
            execution.request_result().timeout(limit).wait()
        });
        let mover = run.spawn("mover", move || clock.advance(Duration::from_millis(1)));
        assert_eq!(turn.execute(|| 7), Ok(7));
        mover.join();
        let outcome = joiner.join().unwrap();
        at_rest(&lock, 1);
        run.note(match outcome {
            Ok(7) => "shared",
            Err(ExecutionError::Lock(LockError::Timeout(_))) => "timed out",
            other => panic!("{other:?}"),
        });
    });
}
