//! Batches that fail, re-enter, or outlive their managers (LOCK 11, 12, 17, 18).

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use doclock::{
    DataStore, Editor, TransactionManager, dsl,
    lock::{AcquireOptions, LockError},
    transaction::{Hooks, Operation, OperationError, TransactionError},
};

use super::{Form, Notes, Outcome, Scene, act, any_thread, in_both_forms, pause};
use crate::patient;

in_both_forms!(
    lock_11_a_panic_in_a_batch_reaches_only_its_submitter,
    lock_11_a_panic_of_a_captured_value_reaches_only_its_submitter,
    lock_11_a_panic_in_a_before_hook_reaches_its_submitter_alone,
    lock_12_a_batch_that_requests_its_own_lock_is_refused_in_any_thread,
    lock_12_a_thread_can_request_the_lock_again_after_its_batch,
    lock_17_every_queued_batch_runs_after_all_other_handles_are_dropped,
);

fn creates(id: &'static str) -> Operation {
    dsl::create(dsl::element("x", []).with_id(id))
}

/// The neighbours of a failing batch: one before it and two after it, with their notes. The failing
/// one may still make a version.
fn amid(
    form: Form,
    committed: u64,
    wrong: impl FnOnce(&Scene) -> thread::JoinHandle<Outcome>,
) -> (DataStore, thread::Result<Outcome>) {
    let scene = Scene::new(form);
    let notes = Notes::new();
    let before = scene.list("before", [notes.note("before"), creates("a")]);
    let wrong = wrong(&scene);
    let behind = ["b", "c"].map(|id| scene.list("behind", [notes.note("behind"), creates(id)]));
    let mut by = vec![scene.runner(before.thread().id())];
    by.extend(behind.iter().map(|list| scene.runner(list.thread().id())));
    let store = scene.go_on();
    let wrong = wrong.join();
    assert_eq!(before.join().unwrap().unwrap().version, 1);
    let versions = behind.map(|list| list.join().unwrap().unwrap().version);
    assert_eq!(versions, [2 + committed, 3 + committed]);
    assert_eq!(notes.what(), ["before", "behind", "behind"]);
    assert_eq!(notes.by(), by, "the others are where they would have been");
    assert_eq!(store.snapshot().len() as u64, 3 + committed);
    assert!(!store.is_locked());
    drop(store.lock("after").unwrap());
    (store, wrong)
}

fn lock_11_a_panic_in_a_batch_reaches_only_its_submitter(form: Form) {
    let (_, outcome) = amid(form, 0, |scene| {
        let panics = act(|_| panic_any(42_u8));
        scene.list("ann", [creates("lost"), panics])
    });
    let error = outcome.unwrap().unwrap_err();
    let TransactionError::Operation { index, cause, .. } = error else {
        panic!("{error:?}");
    };
    let OperationError::Panicked(payload) = cause else {
        panic!("{cause:?}");
    };
    assert_eq!(index, 1);
    let payload = catch_unwind(AssertUnwindSafe(|| payload.resume())).unwrap_err();
    assert_eq!(payload.downcast_ref::<u8>(), Some(&42));
}

/// Panics on drop.
struct Brittle;

impl Drop for Brittle {
    fn drop(&mut self) {
        panic!("it broke");
    }
}

/// The captures of a batch are dropped after its transaction, and do not undo it.
fn lock_11_a_panic_of_a_captured_value_reaches_only_its_submitter(form: Form) {
    let (_, outcome) = amid(form, 1, |scene| {
        let brittle = Brittle;
        let captures = act(move |_| {
            let _kept = &brittle;
        });
        scene.list("ann", [creates("kept"), captures])
    });
    let payload = outcome.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"it broke"));
}

fn lock_11_a_panic_in_a_before_hook_reaches_its_submitter_alone(form: Form) {
    let (_, outcome) = amid(form, 0, |scene| {
        let hooks = Hooks::new();
        hooks.before(|_, _| panic!("no"));
        let manager = TransactionManager::new(scene.store.clone()).with_hooks(hooks);
        scene.join(move |_| {
            manager
                .transaction(creates("lost"))
                .options(any_thread())
                .commit()
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "before-hook 1 panicked: no");
}

fn lock_12_a_batch_that_requests_its_own_lock_is_refused_in_any_thread(form: Form) {
    let scene = Scene::new(form);
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    // The clock is stopped: a wait would never end.
    let store = scene.store.clone();
    let asks = act(move |_| {
        let is_refused = |error: &LockError| match error {
            LockError::Reentrant { owner, holder } => {
                assert_eq!((owner.as_str(), holder.owner_id.as_str()), ("again", "ann"));
                count.fetch_add(1, Ordering::SeqCst);
            }
            other => panic!("{other:?}"),
        };
        for options in [any_thread(), patient()] {
            is_refused(
                &store
                    .request("again")
                    .options(options.clone())
                    .wait()
                    .unwrap_err(),
            );
            is_refused(
                &store
                    .request_transaction("again")
                    .options(options)
                    .wait()
                    .unwrap_err(),
            );
        }
        let manager = TransactionManager::for_owner(store.clone(), "again");
        match manager
            .transaction(act(|_| ()))
            .options(any_thread())
            .commit()
            .unwrap_err()
        {
            TransactionError::Lock(error) => is_refused(&error),
            other => panic!("{other:?}"),
        }
        // The error for another thread names the holder.
        let store = store.clone();
        let tried = thread::spawn(move || store.try_lock("other").map(drop));
        let Err(LockError::WouldBlock { holder, .. }) = tried.join().unwrap() else {
            panic!("another thread holds the lock");
        };
        assert_eq!(holder.owner_id.as_str(), "ann");
    });
    let list = scene.list("ann", asks);
    let store = scene.go_on();
    list.join().unwrap().unwrap();
    assert_eq!(refused.load(Ordering::SeqCst), 5);
    assert_eq!(store.lock_stats().total_refusals, 5);
}

fn lock_12_a_thread_can_request_the_lock_again_after_its_batch(form: Form) {
    let scene = Scene::new(form);
    let (pausing, inside) = pause();
    let submitter = scene.join(|store| {
        let manager = TransactionManager::new(store.clone());
        manager
            .transaction(act(|_| ()))
            .options(any_thread())
            .commit()
            .unwrap();
        // The combiner may come first.
        drop(store.lock("submitter").unwrap());
    });
    let last = scene.list("last", pausing);
    scene.first.resume();
    inside.entered();
    // A queued thread, or one whose batch another thread runs, holds nothing.
    assert_eq!(
        scene.store.current_lock().unwrap().owner_id.as_str(),
        "last"
    );
    crate::until_waiting(&scene.store, 1);
    inside.resume();
    submitter.join().unwrap();
    last.join().unwrap().unwrap();
    let store = scene.back();
    drop(store.lock("test").unwrap());
    assert_eq!(store.lock_stats().total_refusals, 0);
}

/// Drops managers, editors and stores: all handles but those of the waiting threads.
fn lock_17_every_queued_batch_runs_after_all_other_handles_are_dropped(form: Form) {
    let scene = Scene::new(form);
    let lists: Vec<_> = (0..6)
        .map(|nth| {
            let store = scene.store.clone();
            scene.join(move |_| {
                let outcome = match nth % 2 {
                    0 => TransactionManager::new(store).execute(dsl::create(dsl::element("x", []))),
                    _ => Editor::new(store, "ann").execute(dsl::create(dsl::element("x", []))),
                };
                outcome.unwrap().version
            })
        })
        .collect();
    let Scene {
        store,
        first,
        holder,
        ..
    } = scene;
    drop(store);
    first.resume();
    holder.join().unwrap().unwrap();
    let versions: Vec<_> = lists.into_iter().map(|list| list.join().unwrap()).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn lock_17_queued_threads_may_own_the_last_handles_of_a_store() {
    let store = DataStore::new();
    store.set_lock_timeout(None);
    let (pausing, inside) = pause();
    let manager = TransactionManager::new(store.clone());
    let server = thread::spawn(move || {
        manager
            .transaction(pausing)
            .options(any_thread())
            .commit()
            .unwrap()
            .version
    });
    inside.entered();
    let theirs = store.clone();
    let submitter = thread::spawn(move || {
        let manager = TransactionManager::new(theirs);
        manager
            .transaction(creates("x"))
            .options(any_thread())
            .commit()
            .unwrap()
            .version
    });
    crate::until_waiting(&store, 1);
    drop(store);
    inside.resume();
    assert_eq!((server.join().unwrap(), submitter.join().unwrap()), (0, 1));
}

#[test]
fn lock_18_the_types_of_queued_batches_are_send_and_sync() {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<doclock::lock::LockReport>();
    is_shared::<doclock::lock::CallSite>();
    is_shared::<doclock::lock::QueueEntry>();
    is_shared::<doclock::lock::DurationSummary>();
    is_shared::<doclock::lock::Priority>();
    is_shared::<doclock::lock::ReleaseOutcome>();
    is_shared::<doclock::lock::ReleaseError>();
    is_shared::<doclock::lock::JoinError>();
    is_shared::<doclock::CommitError>();
    is_shared::<doclock::lock::TimeoutEvidence>();
    is_shared::<doclock::lock::CancelEvidence>();
    is_shared::<AcquireOptions>();
    is_shared::<doclock::StoreOptions>();
    is_shared::<doclock::transaction::TransactionResult>();
    is_shared::<Hooks>();
    is_shared::<doclock::transaction::HookFailure>();
    is_shared::<doclock::history::UndoError>();
    is_shared::<doclock::transaction::OperationError>();
    is_shared::<doclock::transaction::Callback>();
    is_shared::<doclock::history::HistoryMode>();
}
