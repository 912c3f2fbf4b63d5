//! The limits of combining, and which thread continues.

use std::sync::{Mutex, mpsc};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use doclock::{
    DataStore, StoreOptions, TransactionManager, dsl,
    lock::LockError,
    time::ManualClock,
    transaction::{Hooks, Operation, TransactionError},
};

use super::{Form, Notes, Outcome, Scene, act, any_thread, pause, until};
use crate::patient;

const MS: Duration = Duration::from_millis(1);

/// A scene with these limits of combining.
fn scene(lists: usize, time: Duration) -> Scene {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock()).lock_timeout(None);
    let store = DataStore::with_options(options.batch_limit(lists, time));
    Scene::on(Form::Delegated, store, clock)
}

/// Queued batches that record their number and take these times; and their threads.
fn line(scene: &Scene, notes: &Notes<usize>, times: &[Duration]) -> Vec<JoinHandle<Outcome>> {
    let list = |(nth, &time): (usize, &Duration)| {
        let clock = scene.clock.clone();
        scene.list("w", [notes.note(nth), act(move |_| clock.advance(time))])
    };
    times.iter().enumerate().map(list).collect()
}

/// Runs them all. Returns which thread ran each: -1 the holder, n the submitter of batch n.
fn executed_by(scene: Scene, notes: &Notes<usize>, lists: Vec<JoinHandle<Outcome>>) -> Vec<i32> {
    let own: Vec<ThreadId> = lists.iter().map(|list| list.thread().id()).collect();
    let server = scene.server;
    scene.go_on();
    for list in lists {
        list.join().unwrap().unwrap();
    }
    let count = own.len();
    assert_eq!(notes.what(), (0..count).collect::<Vec<_>>());
    let number = |by: ThreadId| match own.iter().position(|&own| own == by) {
        Some(nth) => nth as i32,
        None if by == server => -1,
        None => panic!("a stranger"),
    };
    notes.by().into_iter().map(number).collect()
}

#[test]
fn a_combiner_stops_at_the_batch_limit_and_the_next_thread_continues() {
    let scene = scene(3, Duration::MAX);
    let notes = Notes::new();
    let lists = line(&scene, &notes, &[Duration::ZERO; 9]);
    let by = executed_by(scene, &notes, lists);
    // The thread's own batch does not count.
    assert_eq!(by, [-1, -1, -1, 3, 3, 3, 3, 7, 7]);
}

#[test]
fn a_combiner_begins_no_further_batch_after_its_time_limit() {
    let scene = scene(usize::MAX, 10 * MS);
    let notes = Notes::new();
    let lists = line(
        &scene,
        &notes,
        &[4 * MS, 5 * MS, MS, 20 * MS, 3 * MS, 9 * MS],
    );
    // The time of its own batch does not count.
    scene.clock.advance(60 * MS);
    let by = executed_by(scene, &notes, lists);
    assert_eq!(by, [-1, -1, -1, 3, 3, 3]);
}

#[test]
fn by_default_a_combiner_runs_256_batches_in_half_a_millisecond() {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock()).lock_timeout(None);
    let scene = Scene::on(Form::Delegated, DataStore::with_options(options), clock);
    let notes = Notes::new();
    let mut times = [Duration::ZERO; 260];
    times[257] = 2 * MS;
    let lists = line(&scene, &notes, &times);
    let by = executed_by(scene, &notes, lists);
    let mut expected = vec![-1; 256];
    expected.extend([256, 256, 258, 258]);
    assert_eq!(by, expected);
}

#[test]
fn a_batch_or_time_limit_of_zero_turns_combining_off() {
    for (lists, time) in [
        (0, Duration::MAX),
        (usize::MAX, Duration::ZERO),
        (0, Duration::ZERO),
    ] {
        let scene = scene(lists, time);
        let notes = Notes::new();
        let lists = line(&scene, &notes, &[Duration::ZERO; 3]);
        assert_eq!(executed_by(scene, &notes, lists), [0, 1, 2]);
    }
}

/// Another thread may run the batch of a request that opts out; then no thread opts out.
#[test]
fn one_request_can_opt_out_of_combining() {
    let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
    let (pausing, inside) = pause();
    let manager = TransactionManager::new(store.clone());
    let holder = std::thread::spawn(move || {
        manager
            .transaction(pausing)
            .options(any_thread().without_combining())
            .commit()
    });
    let server = inside.entered();
    let (pausing, first) = pause();
    let scene = Scene {
        form: Form::Delegated,
        store,
        clock: ManualClock::new(),
        first,
        server,
        holder,
    };
    let notes = Notes::new();
    let mut lists = vec![scene.list("w", [notes.note(0), pausing])];
    let note = notes.note(1);
    lists.push(scene.join(move |store| {
        let manager = TransactionManager::new(store.clone());
        manager
            .transaction(note)
            .options(any_thread().without_combining())
            .commit()
    }));
    lists.push(scene.list("w", notes.note(2)));
    inside.resume();
    let own = lists[0].thread().id();
    // It returns before any further batch runs.
    let Scene { holder, first, .. } = scene;
    assert_eq!(first.entered(), own);
    holder.join().unwrap().unwrap();
    first.resume();
    for list in lists {
        list.join().unwrap().unwrap();
    }
    assert_eq!((notes.what(), notes.by()), (vec![0, 1, 2], vec![own; 3]));
}

#[test]
fn a_request_for_the_lock_itself_ends_combining() {
    let scene = scene(usize::MAX, Duration::MAX);
    let notes = Notes::new();
    let served = scene.list("w", notes.note(0));
    let guard = scene.join(|store| {
        store
            .request("w")
            .options(patient().unbound())
            .wait()
            .unwrap()
    });
    let own = scene.list("w", notes.note(1));
    let also = scene.list("w", notes.note(2));
    let (server, next) = (scene.server, own.thread().id());
    // The holder returns although two batches wait.
    let store = scene.go_on();
    served.join().unwrap().unwrap();
    assert_eq!(store.queue_length(), 2);
    drop(guard.join().unwrap());
    own.join().unwrap().unwrap();
    also.join().unwrap().unwrap();
    assert_eq!(notes.by(), [server, next, next]);
}

/// Batches that arrive during combining are run as well, in the same round.
#[test]
fn batches_that_arrive_during_combining_run_in_the_same_round() {
    let scene = scene(usize::MAX, Duration::MAX);
    let notes = Notes::new();
    let (pausing, inside) = pause();
    let first = scene.list("w", [notes.note(0), pausing]);
    scene.first.resume();
    let server = inside.entered();
    let second = scene.list("w", notes.note(1));
    inside.resume();
    first.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
    assert_eq!(notes.by(), [server; 2]);
    scene.back();
}

/// Only a batch that a manager runs leads to combining, not one under a lock that is held by id.
#[test]
fn a_batch_under_a_lock_held_by_id_does_not_combine() {
    let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
    let id = store.acquire_lock("ann").unwrap();
    let manager = TransactionManager::new(store.clone());
    let theirs = manager.clone();
    let notes = Notes::new();
    let note = notes.note(());
    let list = std::thread::spawn(move || theirs.transaction(note).options(any_thread()).commit());
    let own = list.thread().id();
    crate::until_waiting(&store, 1);
    manager.execute_under(id, act(|_| ())).unwrap();
    assert_eq!((store.queue_length(), notes.by()), (1, vec![]));
    store.release_lock(id).unwrap();
    list.join().unwrap().unwrap();
    assert_eq!(notes.by(), [own]);
}

/// Neither a failing batch nor a thread that tries the lock ends the round.
#[test]
fn a_failing_batch_does_not_end_the_round() {
    let scene = scene(usize::MAX, Duration::MAX);
    let notes = Notes::new();
    let fails: Operation = dsl::insert_text(0, "x").on("nowhere");
    let failing = scene.list("w", [notes.note(0), fails]);
    let last = scene.list("w", notes.note(1));
    let eager = TransactionManager::new(scene.store.clone());
    let eager = eager
        .transaction(act(|_| ()))
        .options(any_thread().no_wait())
        .commit();
    assert!(matches!(
        eager,
        Err(TransactionError::Lock(LockError::WouldBlock { .. }))
    ));
    let server = scene.server;
    scene.go_on();
    let error = failing.join().unwrap().unwrap_err();
    assert!(matches!(
        error,
        TransactionError::Operation { index: 1, .. }
    ));
    last.join().unwrap().unwrap();
    assert_eq!(notes.by(), [server; 2]);
}

/// A program that is correct without combining deadlocked. The second thread's operation waits for
/// a step that the first does after its own batch, but the first was running the second one's
/// batch.
#[test]
fn lock_17_a_batch_with_code_runs_in_the_thread_that_submitted_it() {
    let scene = Scene::new(Form::Delegated);
    let (done, is_done) = mpsc::channel();
    let is_done = Mutex::new(is_done);
    let waits = act(move |_| is_done.lock().unwrap().recv().unwrap());
    let waiting = scene.join(move |store| TransactionManager::new(store.clone()).execute(waits));
    // The lock's holder returns from `execute`, and only then takes the step that the other waits
    // for.
    let store = scene.go_on();
    done.send(()).unwrap();
    waiting.join().unwrap().unwrap();
    assert!(!store.is_locked());
}

/// User interface threads stalled on the hooks of other threads.
#[test]
fn lock_17_a_batch_of_a_manager_with_before_hooks_runs_in_the_thread_that_submitted_it() {
    let scene = Scene::new(Form::Delegated);
    let (hooks, notes) = (Hooks::new(), Notes::new());
    let manager = TransactionManager::new(scene.store.clone()).with_hooks(hooks.clone());
    let note = notes.clone();
    let hook = hooks.before(move |_, operations| {
        note.add("before");
        Ok(operations)
    });
    let list = scene.join(move |_| manager.execute(dsl::create(dsl::element("x", []))));
    // A batch keeps the hooks that it was submitted with, so it does not change while it waits.
    assert!(hooks.remove(hook));
    let submitter = list.thread().id();
    scene.go_on();
    list.join().unwrap().unwrap();
    assert_eq!(notes.all(), [("before", submitter)]);
}

/// A combiner that held another store made code fail with `Reentrant`, although its submitter held
/// nothing.
#[test]
fn lock_12_only_locks_of_the_submitting_thread_count_as_reentrant() {
    let other = DataStore::new();
    let (pausing, inside) = pause();
    let (store, others) = (DataStore::new(), other.clone());
    let holder = {
        let manager = TransactionManager::new(store.clone());
        std::thread::spawn(move || {
            let _held = others.lock("combiner").unwrap();
            manager.execute(pausing).unwrap();
        })
    };
    inside.entered();
    let (tell, told) = mpsc::channel();
    let others = other.clone();
    let asks = act(move |_| {
        let tried = others.try_lock("operation").map(drop);
        tell.send(matches!(tried, Err(LockError::Reentrant { .. })))
            .unwrap();
    });
    let manager = TransactionManager::new(store.clone());
    let list = std::thread::spawn(move || manager.execute(asks));
    until(|| store.queue_length() == 1);
    inside.resume();
    list.join().unwrap().unwrap();
    holder.join().unwrap();
    assert!(!told.recv().unwrap());
}
