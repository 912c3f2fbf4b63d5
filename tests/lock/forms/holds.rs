//! The hold limit for operation batches (LOCK 10).

use std::time::Duration;

use doclock::{
    CommitError, Editor, StoreOptions, TransactionManager, View,
    document::Selection,
    dsl,
    transaction::{Operation, TransactionError},
};

use super::{Form, Notes, Outcome, Pause, Scene, act, any_thread, in_both_forms, pause};

in_both_forms!(
    lock_10_a_batch_that_exceeds_the_hold_limit_is_revoked_and_the_next_runs,
    lock_10_a_request_for_the_lock_itself_revokes_a_slow_batch,
    lock_10_a_batch_without_waiters_is_not_revoked,
    lock_10_a_revoked_batch_leaves_its_editor_and_its_key_unchanged,
    lock_10_a_batch_has_the_hold_limit_of_its_own_request,
);

const LIMIT: Duration = Duration::from_millis(100);

fn limited(form: Form) -> Scene {
    Scene::with(form, StoreOptions::new().hold_limit(LIMIT))
}

/// The error of a revoked batch.
fn revoked(outcome: Outcome) -> CommitError {
    match outcome {
        Err(TransactionError::Commit(error @ CommitError::Revoked { .. })) => error,
        other => panic!("{other:?}"),
    }
}

fn creates(id: &'static str) -> Operation {
    dsl::create(dsl::text_node("x", "text").with_id(id))
}

/// A batch that creates a node and then pauses.
fn stays(id: &'static str) -> ([Operation; 2], Pause) {
    let (pausing, inside) = pause();
    ([creates(id), pausing], inside)
}

fn lock_10_a_batch_that_exceeds_the_hold_limit_is_revoked_and_the_next_runs(form: Form) {
    let scene = limited(form);
    let (operations, slow) = stays("lost");
    let slowest = scene.list("ann", operations);
    let (operations, inside) = stays("kept");
    let next = scene.list("ben", operations);
    let notes = Notes::new();
    let third = scene.list("cem", [notes.note("cem"), creates("third")]);
    let ids: Vec<_> = scene
        .store
        .queue_info()
        .iter()
        .map(|entry| entry.lock_id)
        .collect();
    scene.first.resume();
    assert_eq!(slow.entered(), scene.runner(slowest.thread().id()));

    scene.clock.advance(LIMIT);
    // The thread that is stuck in the first batch combines nothing, so the next one runs its own
    // batch.
    let server = inside.entered();
    assert_eq!(server, next.thread().id());
    let holder = scene.store.current_lock().unwrap();
    assert_eq!((holder.lock_id, holder.owner_id.as_str()), (ids[1], "ben"));
    assert_eq!(holder.fencing_token.get(), 3);

    // The revoked batch ends during the next hold, and changes nothing.
    slow.resume();
    let error = revoked(slowest.join().unwrap());
    let expected = format!(
        "lock {} of owner ann was revoked for {} of ben (create) from {}, which had waited for \
         100ms: it exceeded the hold limit; now held by {holder}",
        ids[0], ids[1], holder.call_site,
    );
    assert_eq!(error.to_string(), expected);
    let still = scene.store.current_lock().unwrap();
    assert_eq!((still.lock_id, scene.store.queue_length()), (ids[1], 1));
    assert_eq!(scene.store.version(), 0);

    inside.resume();
    assert_eq!(next.join().unwrap().unwrap().version, 1);
    let by = match form {
        Form::Delegated => server,
        Form::HandedOff => third.thread().id(),
    };
    assert_eq!(third.join().unwrap().unwrap().version, 2);
    assert_eq!(notes.by(), [by]);
    let store = scene.back();
    let snapshot = store.snapshot();
    assert_eq!(snapshot.len(), 2);
    assert!(!snapshot.contains("lost"));
    let stats = store.lock_stats();
    assert_eq!((stats.total_revocations, stats.hold.count), (1, 4));
    assert_eq!((stats.total_acquisitions, stats.total_releases), (4, 3));
}

fn lock_10_a_request_for_the_lock_itself_revokes_a_slow_batch(form: Form) {
    let scene = limited(form);
    let (operations, slow) = stays("lost");
    let list = scene.list("ann", operations);
    let begun = scene.join(|store| store.begin("ben"));
    scene.first.resume();
    slow.entered();
    scene.clock.advance(LIMIT - Duration::from_nanos(1));
    assert_eq!(scene.store.queue_length(), 1, "it still waits");
    scene.clock.advance(Duration::from_nanos(1));
    let mut transaction = begun.join().unwrap().unwrap();
    transaction
        .create(dsl::element("x", []).with_id("kept"))
        .unwrap();
    slow.resume();
    let error = revoked(list.join().unwrap());
    let CommitError::Revoked { holder, .. } = error else {
        unreachable!("it was revoked");
    };
    assert_eq!(holder.unwrap().lock_id, transaction.lock_id());
    assert_eq!(transaction.base().version(), 0);
    assert!(!transaction.contains("lost"));
    assert_eq!(transaction.commit().unwrap().version, 1);
    let store = scene.back();
    assert_eq!((store.is_locked(), store.snapshot().len()), (false, 1));
}

/// The submitter of a batch watched the holder before it. It checked the hold limit while another
/// thread ran its batch, and revoked itself.
fn lock_10_a_batch_without_waiters_is_not_revoked(form: Form) {
    let scene = limited(form);
    let (clock, store) = (scene.clock.clone(), scene.store.clone());
    let dawdling = act(move |_| {
        for _ in 0..100 {
            clock.advance(LIMIT);
            // A thread that the clock wakes has a chance to act.
            std::thread::yield_now();
            assert_eq!(store.lock_stats().total_revocations, 0);
        }
    });
    let list = scene.list("ann", [creates("kept"), dawdling]);
    let store = scene.go_on();
    assert_eq!(list.join().unwrap().unwrap().version, 1);
    assert_eq!(store.lock_stats().total_revocations, 0);
}

fn lock_10_a_revoked_batch_leaves_its_editor_and_its_key_unchanged(form: Form) {
    let scene = limited(form);
    let editor = std::sync::Arc::new(Editor::new(scene.store.clone(), "ann"));
    let caret = Selection::caret("t", 2);
    let (mut operations, slow) = (vec![creates("t"), dsl::set_selection(caret)], {
        let (pausing, inside) = pause();
        (pausing, inside)
    });
    operations.push(slow.0);
    let editing = std::sync::Arc::clone(&editor);
    let once = operations.clone();
    let list = scene.join(move |_| {
        dsl::transaction(&editing, once)
            .idempotent("key")
            .options(any_thread())
            .commit()
    });
    let next = scene.list("ben", act(|_| ()));
    scene.first.resume();
    slow.1.entered();
    scene.clock.advance(LIMIT);
    next.join().unwrap().unwrap();
    slow.1.resume();
    revoked(list.join().unwrap());
    let store = scene.back();
    assert_eq!((editor.selection(), editor.undo_depth()), (None, 0));
    assert_eq!(store.version(), 0);

    // The key was not used up.
    let manager = TransactionManager::new(store.clone());
    let again = manager
        .transaction(creates("t"))
        .idempotent("key")
        .options(any_thread())
        .commit();
    assert!(!again.unwrap().repeated);
    assert_eq!(store.version(), 1);
}

/// The hold limit comes with the request, whichever thread runs the batch.
fn lock_10_a_batch_has_the_hold_limit_of_its_own_request(form: Form) {
    let scene = Scene::new(form);
    let (operations, slow) = stays("lost");
    let manager = TransactionManager::for_owner(scene.store.clone(), "ann");
    let limited = any_thread().hold_limit(LIMIT);
    let list = scene.join(move |_| manager.transaction(operations).options(limited).commit());
    let (operations, unlimited) = stays("kept");
    let next = scene.list("ben", operations);
    let last = scene.list("cem", creates("last"));
    scene.first.resume();
    assert_eq!(slow.entered(), scene.runner(list.thread().id()));
    scene.clock.advance(LIMIT - Duration::from_nanos(1));
    assert_eq!(scene.store.queue_length(), 2, "the limit has not passed");
    scene.clock.advance(Duration::from_nanos(1));
    unlimited.entered();
    scene.clock.advance(10 * LIMIT);
    assert_eq!(scene.store.queue_length(), 1, "it has no limit");
    slow.resume();
    unlimited.resume();
    revoked(list.join().unwrap());
    next.join().unwrap().unwrap();
    last.join().unwrap().unwrap();
    let store = scene.back();
    assert!(!store.snapshot().contains("lost"));
    assert_eq!(store.lock_stats().total_revocations, 1);
}

/// The lock is free when the batch is submitted.
#[test]
fn lock_10_an_uncontended_batch_of_an_editor_has_the_hold_limit_of_its_request() {
    let clock = doclock::time::ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock()).lock_timeout(None);
    let store = doclock::DataStore::with_options(options);
    let editor = Editor::new(store.clone(), "ann");
    let (operations, slow) = stays("lost");
    let list = std::thread::spawn(move || {
        let options = doclock::lock::AcquireOptions::new().hold_limit(LIMIT);
        dsl::transaction(&editor, operations)
            .options(options)
            .commit()
    });
    slow.entered();
    let theirs = store.clone();
    let next = std::thread::spawn(move || theirs.lock("next").map(drop));
    crate::until_waiting(&store, 1);
    clock.advance(LIMIT);
    next.join().unwrap().unwrap();
    slow.resume();
    revoked(list.join().unwrap());
    assert_eq!(store.version(), 0);
}
