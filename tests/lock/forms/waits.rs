//! The waits of batches, and their ends (LOCK 5-7, 16).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use doclock::{
    DataStore, StoreOptions, TransactionManager,
    lock::{CancelToken, LockError, TimeoutEvidence},
    transaction::TransactionError,
};

use super::{Form, Notes, Outcome, Scene, act, any_thread, in_both_forms, pause};
use crate::{patient, until_waiting};

in_both_forms!(
    lock_05_a_batch_times_out_not_a_nanosecond_early_and_never_runs,
    lock_06_a_running_batch_outlasts_its_wait_timeout,
    lock_06_races_of_a_batch_and_its_expiry_run_each_once_or_never,
    lock_07_batches_that_leave_the_middle_of_the_queue_disturb_no_other,
    lock_07_ten_thousand_cancelled_batches_leave_no_entry,
    lock_16_a_timeout_applies_to_batches_submitted_after_it_was_set,
);

pub(super) fn timeout_of(outcome: Outcome) -> TimeoutEvidence {
    match outcome {
        Err(TransactionError::Lock(LockError::Timeout(evidence))) => *evidence,
        other => panic!("expected a timeout, found {other:?}"),
    }
}

fn lock_05_a_batch_times_out_not_a_nanosecond_early_and_never_runs(form: Form) {
    let scene = Scene::new(form);
    let notes = Notes::new();
    let limit = Duration::from_millis(100);
    scene.store.set_lock_timeout(limit);
    let before = scene.join(|store| store.request("ben").options(patient()).wait().map(drop));
    let timed = scene.list("ann", notes.note("timed"));
    let id = scene.store.queue_info()[1].lock_id;
    scene.clock.advance(limit - Duration::from_nanos(1));
    assert_eq!(scene.store.queue_length(), 2, "it still waits");
    scene.clock.advance(Duration::from_nanos(1));
    let evidence = timeout_of(timed.join().unwrap());
    assert_eq!((evidence.id, evidence.owner.as_str()), (id, "ann"));
    assert_eq!((evidence.limit, evidence.waited), (limit, limit));
    assert_eq!((evidence.position, evidence.ahead.len()), (2, 1));
    assert_eq!(evidence.holder.owner_id.as_str(), "holder");
    assert_eq!(evidence.holder.held_for, limit);
    let store = scene.go_on();
    before.join().unwrap().unwrap();
    assert_eq!(notes.what(), [""; 0]);
    assert_eq!(store.lock_stats().total_timeouts, 1);
}

fn lock_06_a_running_batch_outlasts_its_wait_timeout(form: Form) {
    let scene = Scene::new(form);
    let (pausing, inside) = pause();
    scene.store.set_lock_timeout(Duration::from_millis(100));
    let create = doclock::dsl::create(doclock::dsl::element("x", []));
    let list = scene.list("ann", [pausing, create]);
    scene.first.resume();
    inside.entered();
    scene.clock.advance(Duration::from_secs(60));
    inside.resume();
    assert_eq!(list.join().unwrap().unwrap().version, 1);
    assert_eq!(scene.back().lock_stats().total_timeouts, 0);
}

/// Like `lock_06_a_million_races_of_grant_and_expiry_leak_nothing`, with batches that count their
/// runs: one thread stays in its batch until the other is in the queue or has timed out.
fn lock_06_races_of_a_batch_and_its_expiry_run_each_once_or_never(form: Form) {
    // The lock works much as for a guard, which has a million races; `.ci/run races` runs them all.
    let rounds: u64 = match (cfg!(debug_assertions), form) {
        (true, _) => 20_000,
        (false, Form::Delegated) => 250_000,
        (false, Form::HandedOff) => 100_000,
    };
    let options = form.of(StoreOptions::new());
    let manager = TransactionManager::new(DataStore::with_options(options));
    let store = manager.store().clone();
    // Odd during the waiter's turn: 2n + 1 when round n is held, 2n + 2 when its request has ended.
    let turn = Arc::new(AtomicU64::new(0));
    let runs = Arc::new(AtomicU64::new(0));
    let until = |reached: &dyn Fn() -> bool| {
        while !reached() {
            thread::yield_now();
        }
    };
    let (mut ran, mut expired) = (0, 0);
    let (holding, theirs, at) = (manager.clone(), store.clone(), Arc::clone(&turn));
    let holder = thread::spawn(move || {
        for round in 0..rounds {
            let (store, turn) = (theirs.clone(), Arc::clone(&at));
            let holds = act(move |_| {
                turn.store(2 * round + 1, Ordering::SeqCst);
                let ended = || turn.load(Ordering::SeqCst) == 2 * round + 2;
                match round % 16 {
                    0 => until(&ended),
                    _ => until(&|| ended() || store.queue_length() == 1),
                }
            });
            holding
                .transaction(holds)
                .options(any_thread().no_timeout())
                .commit()
                .unwrap();
            until(&|| at.load(Ordering::SeqCst) == 2 * round + 2);
        }
    });
    for round in 0..rounds {
        until(&|| turn.load(Ordering::SeqCst) == 2 * round + 1);
        let limit = match round % 16 {
            1 => Duration::from_secs(600),
            _ => Duration::from_nanos(1 + round * 37 % 1500),
        };
        let counted = Arc::clone(&runs);
        let counting = act(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let options = any_thread().timeout(limit);
        match manager.transaction(counting).options(options).commit() {
            Ok(_) => ran += 1,
            Err(TransactionError::Lock(LockError::Timeout(evidence))) => {
                assert!(evidence.waited >= limit);
                expired += 1;
            }
            Err(other) => panic!("{other}"),
        }
        assert_eq!(runs.load(Ordering::SeqCst), ran, "in round {round}");
        turn.store(2 * round + 2, Ordering::SeqCst);
    }
    holder.join().unwrap();
    println!("{ran} ran, {expired} expired");
    assert!(ran >= rounds / 16 && expired >= rounds / 16);
    assert_eq!(ran + expired, rounds);
    let stats = store.lock_stats();
    let grants = rounds + ran;
    assert_eq!(
        (stats.total_acquisitions, stats.total_releases),
        (grants, grants)
    );
    assert_eq!(stats.total_timeouts, expired);
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    assert_eq!((stats.wait.count, stats.hold.count), (grants, grants));
}

fn lock_07_batches_that_leave_the_middle_of_the_queue_disturb_no_other(form: Form) {
    let scene = Scene::new(form);
    let token = CancelToken::new();
    let notes = Notes::new();
    let limit = Duration::from_millis(10);
    let lists: Vec<_> = (0..12)
        .map(|nth| {
            let options = match nth % 3 {
                0 => any_thread(),
                1 => any_thread().cancel_token(&token),
                _ => any_thread().timeout(limit),
            };
            let note = notes.note(nth);
            scene.join(move |store| {
                TransactionManager::new(store.clone())
                    .transaction(note)
                    .options(options)
                    .commit()
            })
        })
        .collect();
    let ids = scene.store.queue_info();
    token.cancel();
    until_waiting(&scene.store, 8);
    scene.clock.advance(limit);
    until_waiting(&scene.store, 4);
    let left: Vec<_> = scene.store.queue_info().iter().map(|e| e.lock_id).collect();
    assert_eq!(left, [0, 3, 6, 9].map(|nth| ids[nth].lock_id));
    let by: Vec<_> = lists
        .iter()
        .step_by(3)
        .map(|list| scene.runner(list.thread().id()))
        .collect();
    let store = scene.go_on();
    for (nth, list) in lists.into_iter().enumerate() {
        match (nth % 3, list.join().unwrap()) {
            (0, Ok(_)) => {}
            (1, Err(TransactionError::Lock(LockError::Cancelled(evidence)))) => {
                // The other cancelled requests left the queue one by one.
                assert_eq!(evidence.queued.unwrap().0, ids[nth].lock_id);
            }
            (2, Err(TransactionError::Lock(LockError::Timeout(evidence)))) => {
                assert_eq!(evidence.id, ids[nth].lock_id);
            }
            (_, other) => panic!("{nth}: {other:?}"),
        }
    }
    assert_eq!(notes.what(), [0, 3, 6, 9]);
    assert_eq!(notes.by(), by);
    let stats = store.lock_stats();
    assert_eq!((stats.total_cancellations, stats.total_timeouts), (4, 4));
}

fn lock_07_ten_thousand_cancelled_batches_leave_no_entry(form: Form) {
    let scene = Scene::new(form);
    let runs = Arc::new(AtomicU64::new(0));
    let behind = scene.list("behind", act(|_| ()));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let manager = TransactionManager::new(scene.store.clone());
                for _ in 0..1250 {
                    let token = CancelToken::new();
                    let canceller = token.clone();
                    let (go, gone) = mpsc::channel::<()>();
                    let counted = Arc::clone(&runs);
                    let counting = act(move |_| {
                        counted.fetch_add(1, Ordering::SeqCst);
                    });
                    thread::scope(|inner| {
                        inner.spawn(move || {
                            gone.recv().unwrap();
                            canceller.cancel();
                        });
                        go.send(()).unwrap();
                        let options = any_thread().no_timeout().cancel_token(&token);
                        let result = manager
                            .transaction(counting)
                            .options(options)
                            .commit()
                            .unwrap_err();
                        let TransactionError::Lock(LockError::Cancelled(_)) = result else {
                            panic!("{result:?}");
                        };
                    });
                    assert!(format!("{token:?}").contains("waiting: 0"), "{token:?}");
                }
            });
        }
    });
    assert_eq!(scene.store.queue_length(), 1);
    let store = scene.go_on();
    behind.join().unwrap().unwrap();
    assert_eq!(store.lock_stats().total_cancellations, 10_000);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!((store.is_locked(), store.queue_length()), (false, 0));
}

/// Records the thread that drops it.
struct Dropped(Notes<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add(());
    }
}

/// The submitter owns the captures of a batch. They could fall to the thread that cancelled it.
#[test]
fn lock_07_the_submitter_drops_the_captures_of_a_cancelled_batch() {
    let scene = Scene::new(Form::Delegated);
    for _ in 0..3000 {
        let token = CancelToken::new();
        let notes = Notes::new();
        let captured = Dropped(notes.clone());
        let options = any_thread().no_timeout().cancel_token(&token);
        let list = scene.join(move |store| {
            let capturing = act(move |_| {
                let _kept = &captured;
            });
            TransactionManager::new(store.clone())
                .transaction(capturing)
                .options(options)
                .commit()
        });
        token.cancel();
        let submitter = list.thread().id();
        list.join().unwrap().unwrap_err();
        assert_eq!(notes.by(), [submitter]);
    }
    scene.go_on();
}

fn lock_16_a_timeout_applies_to_batches_submitted_after_it_was_set(form: Form) {
    let scene = Scene::new(form);
    let notes = Notes::new();
    scene.store.set_lock_timeout(Duration::from_secs(5));
    let before = scene.list("before", notes.note("before"));
    scene.store.set_lock_timeout(Duration::from_millis(10));
    let after = scene.list("after", notes.note("after"));
    scene.clock.advance(Duration::from_millis(10));
    let evidence = timeout_of(after.join().unwrap());
    assert_eq!(evidence.limit, Duration::from_millis(10));

    scene.store.set_lock_timeout(Duration::ZERO);
    let manager = TransactionManager::new(scene.store.clone());
    let eager = manager
        .transaction(notes.note("eager"))
        .options(any_thread())
        .commit()
        .unwrap_err();
    let TransactionError::Lock(LockError::WouldBlock { waiting, .. }) = eager else {
        panic!("{eager:?}");
    };
    assert_eq!(waiting, 1);

    scene.store.set_lock_timeout(None);
    let patient = scene.list("patient", notes.note("patient"));
    scene.clock.advance(Duration::from_secs(4));
    assert_eq!(scene.store.queue_length(), 2);
    scene.go_on();
    before.join().unwrap().unwrap();
    patient.join().unwrap().unwrap();
    assert_eq!(notes.what(), ["before", "patient"]);
}
