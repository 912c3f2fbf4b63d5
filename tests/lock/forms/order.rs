//! The order of grants, and which thread runs the batches (LOCK 1-4, 13, 15).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use doclock::{
    DataStore, Editor, StoreOptions, TransactionManager, dsl,
    lock::{CancelToken, LockError, Priority, ReleaseError},
    transaction::Operation,
};

use super::{Form, Notes, Scene, act, any_thread, in_both_forms, pause, until};
use crate::patient;

in_both_forms!(
    lock_01_a_running_batch_shows_its_owner_and_the_id_of_its_queue_entry,
    lock_03_no_id_releases_the_grant_of_a_batch,
    lock_04_five_batches_are_executed_in_order,
    lock_04_a_thousand_batches_are_executed_in_order,
    lock_04_requests_of_all_kinds_are_granted_in_order,
    lock_13_a_try_never_overtakes_batches,
    lock_15_batches_run_by_priority_and_in_order_within_a_priority,
    lock_15_a_batch_is_overtaken_up_to_the_bound,
);

fn lock_01_a_running_batch_shows_its_owner_and_the_id_of_its_queue_entry(form: Form) {
    let scene = Scene::new(form);
    let (pausing, inside) = pause();
    let list = scene.list("ann", pausing);
    let in_line = scene.store.queue_info()[0].lock_id;
    scene.first.resume();
    assert_eq!(inside.entered(), scene.runner(list.thread().id()));
    let holder = scene.store.current_lock().unwrap();
    assert_eq!((holder.lock_id, holder.owner_id.as_str()), (in_line, "ann"));
    assert_eq!(holder.fencing_token.get(), 2);
    inside.resume();
    list.join().unwrap().unwrap();
    assert_eq!(scene.back().current_lock(), None);
}

fn lock_03_no_id_releases_the_grant_of_a_batch(form: Form) {
    let scene = Scene::new(form);
    let (pausing, inside) = pause();
    let list = scene.list("ann", [pausing, dsl::create(dsl::element("x", []))]);
    let first = scene.store.current_lock().unwrap().lock_id;
    scene.first.resume();
    inside.entered();
    let id = scene.store.current_lock().unwrap().lock_id;
    let open = ReleaseError::TransactionOpen { id };
    assert_eq!(scene.store.release_lock(id), Err(open));
    let (expected, got) = (id, first);
    let mismatch = ReleaseError::Mismatch { expected, got };
    assert_eq!(scene.store.release_lock(first), Err(mismatch));
    inside.resume();
    assert_eq!(list.join().unwrap().unwrap().version, 1);
    let store = scene.back();
    assert_eq!(store.release_lock(id), Err(ReleaseError::NotHeld { id }));
}

/// Queued batches, and then their order and their threads.
fn executed_in_order(form: Form, count: usize) {
    let scene = Scene::new(form);
    let notes = Notes::new();
    let lists: Vec<_> = (0..count)
        .map(|nth| scene.list("w", [notes.note(nth), dsl::create(dsl::element("x", []))]))
        .collect();
    let threads = lists.iter().map(|list| list.thread().id());
    let by: Vec<_> = threads.map(|thread| scene.runner(thread)).collect();
    scene.go_on();
    for (nth, list) in lists.into_iter().enumerate() {
        assert_eq!(list.join().unwrap().unwrap().version, nth as u64 + 1);
    }
    assert_eq!(notes.what(), (0..count).collect::<Vec<_>>());
    assert_eq!(notes.by(), by);
}

fn lock_04_five_batches_are_executed_in_order(form: Form) {
    executed_in_order(form, 5);
}

fn lock_04_a_thousand_batches_are_executed_in_order(form: Form) {
    executed_in_order(form, 1000);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lists(&'static str),
    Guard,
    ById,
    Begin,
    Timed,
}

fn ask(kind: Kind, store: &DataStore, notes: &Notes<usize>, nth: usize) {
    match kind {
        Kind::Lists("manager") => {
            let manager = TransactionManager::new(store.clone());
            manager
                .transaction(notes.note(nth))
                .options(any_thread())
                .commit()
                .unwrap();
        }
        Kind::Lists("editor") => {
            let editor = Editor::new(store.clone(), "editor");
            dsl::transaction(&editor, notes.note(nth))
                .options(any_thread())
                .commit()
                .unwrap();
        }
        Kind::Lists("timed") => {
            let options = any_thread().timeout(Duration::from_secs(1));
            let manager = TransactionManager::new(store.clone());
            manager
                .transaction(notes.note(nth))
                .options(options)
                .commit()
                .unwrap();
        }
        Kind::Lists(_) => {
            let token = CancelToken::new();
            let options = any_thread().no_timeout().cancel_token(&token);
            let manager = TransactionManager::new(store.clone());
            let key = format!("key {nth}");
            manager
                .transaction(notes.note(nth))
                .idempotent(key)
                .options(options)
                .commit()
                .unwrap();
        }
        Kind::Guard => {
            let _guard = store.lock("w").unwrap();
            notes.add(nth);
        }
        Kind::ById => {
            let id = store.acquire_lock("w").unwrap();
            notes.add(nth);
            store.release_lock(id).unwrap();
        }
        Kind::Begin => {
            let transaction = store.begin("w").unwrap();
            notes.add(nth);
            transaction.commit().unwrap();
        }
        Kind::Timed => {
            let options = patient().timeout(Duration::from_secs(1));
            let _guard = store.request("w").options(options).wait().unwrap();
            notes.add(nth);
        }
    }
}

fn lock_04_requests_of_all_kinds_are_granted_in_order(form: Form) {
    let lists = ["manager", "editor", "timed", "cancellable"].map(Kind::Lists);
    let others = [Kind::Guard, Kind::ById, Kind::Begin, Kind::Timed];
    // Batches at the head, then one to four of them between others.
    let line = (0..48).map(|nth| match nth % 12 {
        place @ 0..3 => lists[(nth / 12 + place) % 4],
        3 => others[nth / 12],
        place @ 4..8 => lists[place - 4],
        8 => others[(nth / 12 + 1) % 4],
        9 => lists[nth / 12],
        place => others[(nth / 12 + place) % 4],
    });
    let scene = Scene::new(form);
    let notes = Notes::new();
    // A batch behind a request for the lock itself is woken by that request, and combines the
    // batches after it.
    let mut server = Some(scene.server);
    let (mut by, mut waiters) = (Vec::new(), Vec::new());
    for (nth, kind) in line.enumerate() {
        let noted = notes.clone();
        let waiter = scene.join(move |store| ask(kind, store, &noted, nth));
        let own = waiter.thread().id();
        server = match (form, kind) {
            (Form::Delegated, Kind::Lists(_)) => server.or(Some(own)),
            _ => None,
        };
        by.push(server.unwrap_or(own));
        waiters.push(waiter);
    }
    assert!(by.contains(&scene.server) == (form == Form::Delegated));
    scene.go_on();
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert_eq!(notes.what(), (0..48).collect::<Vec<_>>());
    assert_eq!(notes.by(), by);
}

fn lock_13_a_try_never_overtakes_batches(form: Form) {
    const LISTS: usize = 50;
    let scene = Scene::new(form);
    let executed = Arc::new(AtomicUsize::new(0));
    let lists: Vec<_> = (0..LISTS)
        .map(|_| {
            let (store, executed) = (scene.store.clone(), Arc::clone(&executed));
            let trying = act(move |_| {
                let store = store.clone();
                let tried = thread::spawn(move || store.try_lock("eager").map(drop));
                let tried = tried.join().unwrap();
                assert!(matches!(tried, Err(LockError::WouldBlock { .. })));
                executed.fetch_add(1, Ordering::SeqCst);
            });
            scene.list("w", trying)
        })
        .collect();
    // And in the gaps between them.
    let eager = {
        let (store, executed) = (scene.store.clone(), Arc::clone(&executed));
        thread::spawn(move || {
            until(|| {
                let got = store.try_lock("eager");
                let before = executed.load(Ordering::SeqCst);
                assert!(got.is_err() || before == LISTS, "after {before}");
                got.is_ok()
            });
        })
    };
    scene.go_on();
    lists
        .into_iter()
        .for_each(|list| drop(list.join().unwrap().unwrap()));
    eager.join().unwrap();
}

/// The order in which requests of these priorities are granted. Every third is for a guard, the
/// others are batches.
fn granted(form: Form, bound: u32, priorities: &[Priority]) -> Vec<usize> {
    let scene = Scene::with(form, StoreOptions::new().overtaking_bound(bound));
    let notes = Notes::new();
    let waiters: Vec<_> = priorities
        .iter()
        .enumerate()
        .map(|(nth, &priority)| {
            let (note, notes) = (notes.note(nth), notes.clone());
            scene.join(move |store| {
                let options = any_thread().no_timeout().priority(priority);
                if nth % 3 == 2 {
                    let _guard = store.request("w").options(options).wait().unwrap();
                    notes.add(nth);
                } else {
                    let manager = TransactionManager::new(store.clone());
                    manager.transaction(note).options(options).commit().unwrap();
                }
            })
        })
        .collect();
    scene.go_on();
    waiters
        .into_iter()
        .for_each(|waiter| waiter.join().unwrap());
    notes.what()
}

fn lock_15_batches_run_by_priority_and_in_order_within_a_priority(form: Form) {
    use Priority::{High, Low, Normal};
    let line = [Low, Normal, High, Normal, High, Low, High, Normal, Low];
    assert_eq!(granted(form, 64, &line), [2, 4, 6, 1, 3, 7, 0, 5, 8]);
    let in_turn = granted(form, 0, &line);
    assert_eq!(in_turn, (0..9).collect::<Vec<_>>(), "none counts");
}

fn lock_15_a_batch_is_overtaken_up_to_the_bound(form: Form) {
    use Priority::{High, Low, Normal};
    let line = [Low, Normal, Normal, Normal, Normal];
    assert_eq!(granted(form, 2, &line), [1, 2, 0, 3, 4]);
    let line = [Normal, High, High, High];
    assert_eq!(granted(form, 2, &line), [1, 2, 0, 3]);
    let line = [Low, High, High, High, High, High];
    assert_eq!(granted(form, 2, &line), [1, 2, 3, 4, 0, 5], "two levels");
}

/// A combiner runs each batch as its submitter's, and afterwards has its own identity again.
#[test]
fn lock_04_a_combiner_returns_its_own_result() {
    let scene = Scene::new(Form::Delegated);
    let create = |id: &'static str| -> Operation { dsl::create(dsl::element("x", []).with_id(id)) };
    let lists: Vec<_> = (0..3)
        .map(|nth| scene.list("w", create(["a", "b", "c"][nth])))
        .collect();
    scene.first.resume();
    let own = scene.holder.join().unwrap().unwrap();
    assert_eq!((own.version, own.changed), (0, false));
    for (list, id) in lists.into_iter().zip(["a", "b", "c"]) {
        let result = list.join().unwrap().unwrap();
        assert_eq!(result.operations[0].created, [id.into()]);
    }
}
