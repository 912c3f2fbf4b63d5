//! Evidence of why a batch waits (LOCK 5, 8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use doclock::{
    DataStore, Editor, LockId, TransactionManager, dsl,
    lock::{AcquireOptions, CallSite, CancelToken, QueueEntry},
    transaction::Operation,
};

use super::waits::timeout_of;
use super::{Form, Scene, act, any_thread, in_both_forms, pause};
use crate::{patient, until_waiting};

in_both_forms!(
    lock_05_the_timeout_of_a_batch_names_the_batch_that_holds_the_lock,
    lock_08_a_long_queue_of_batches_is_listed_while_batches_come_and_go,
);

const MS: Duration = Duration::from_millis(1);

fn create() -> Operation {
    dsl::create(dsl::element("x", []))
}

fn here(line: u32) -> (&'static str, u32) {
    (file!(), line)
}

fn place(of: &CallSite) -> (&str, u32) {
    (&of.file, of.line)
}

fn lock_05_the_timeout_of_a_batch_names_the_batch_that_holds_the_lock(form: Form) {
    let scene = Scene::new(form);
    let (pausing, inside) = pause();
    let holding = scene.join(move |store| {
        let manager = TransactionManager::for_owner(store.clone(), "ann");
        let list = [create(), pausing];
        let pending = manager.transaction(list).options(any_thread());
        (pending.commit(), line!() - 1)
    });
    scene.first.resume();
    inside.entered();
    scene.clock.advance(7 * MS);
    let ahead = scene.join(|store| {
        let manager = TransactionManager::for_owner(store.clone(), "ben");
        let options = any_thread().no_timeout().label("import");
        let pending = manager.transaction(create()).options(options);
        (pending.commit(), line!() - 1)
    });
    scene.clock.advance(2 * MS);
    let last = scene.join(|store| {
        let editor = Editor::new(store.clone(), "cem");
        let options = AcquireOptions::new().timeout(10 * MS);
        dsl::transaction(&editor, create())
            .options(options)
            .commit()
    });
    scene.clock.advance(10 * MS);
    let evidence = timeout_of(last.join().unwrap());
    inside.resume();
    let (_, held_at) = holding.join().unwrap();
    let (_, ahead_at) = ahead.join().unwrap();

    let holder = &evidence.holder;
    assert_eq!(
        (holder.owner_id.as_str(), holder.held_for),
        ("ann", 19 * MS)
    );
    assert_eq!(
        holder.label.as_deref(),
        Some("create"),
        "the first operation"
    );
    assert_eq!(place(&holder.call_site), here(held_at));
    assert!(!holder.at_least);
    let entry = &evidence.ahead[0];
    assert_eq!((entry.owner_id.as_str(), entry.wait_time), ("ben", 12 * MS));
    assert_eq!(entry.label.as_deref(), Some("import"));
    assert_eq!(place(&entry.call_site), here(ahead_at));
    assert_eq!((evidence.position, evidence.ahead.len()), (2, 1));
    let expected = format!(
        "Lock acquisition timeout after 10ms for owner cem: queue position 2 behind {} of ann (create) from {}, held for \
         19ms; ahead: {} of ben",
        holder.lock_id, holder.call_site, entry.lock_id
    );
    assert_eq!(evidence.to_string(), expected);
}

/// Every method that requests the lock, each with the line of its call.
#[rustfmt::skip]
const WAYS: [fn(&DataStore, &Editor, &TransactionManager) -> u32; 18] = [
    |store, _, _| (drop(store.lock("w").unwrap()), line!()).1,
    |store, _, _| (drop(store.request("w").options(patient()).wait().unwrap()), line!()).1,
    |store, _, _| (drop(store.begin("w").unwrap()), line!()).1,
    |store, _, _| (drop(store.request_transaction("w").options(patient()).wait().unwrap()), line!()).1,
    |store, _, _| (free(store, store.acquire_lock("w").unwrap()), line!()).1,
    |store, _, _| (free(store, store.request("w").options(patient()).wait().unwrap().into_id()), line!()).1,
    |_, _, manager| (drop(manager.execute(nothing()).unwrap()), line!()).1,
    |_, _, manager| (drop(manager.transaction(nothing()).options(patient()).commit().unwrap()), line!()).1,
    |_, _, manager| (drop(manager.transaction(nothing()).idempotent("key").options(patient()).commit().unwrap()), line!()).1,
    |_, editor, _| (drop(editor.execute(nothing()).unwrap()), line!()).1,
    |_, editor, _| (drop(editor.transaction(nothing()).options(patient()).commit().unwrap()), line!()).1,
    |_, editor, _| (drop(dsl::transaction(editor, nothing()).commit().unwrap()), line!()).1,
    |_, editor, _| (drop(editor.undo().commit().unwrap()), line!()).1,
    |_, editor, _| (drop(editor.redo().options(patient()).commit()), line!()).1,
    |store, _, _| (drop(pollster::block_on(store.request("w").into_future())), line!()).1,
    |store, _, _| (drop(pollster::block_on(store.request_transaction("w").into_future())), line!()).1,
    |_, _, manager| (drop(pollster::block_on(manager.transaction(nothing()).into_future())), line!()).1,
    |_, editor, _| (drop(pollster::block_on(editor.redo().into_future())), line!()).1,
];

fn free(store: &DataStore, id: LockId) {
    store.release_lock(id).unwrap();
}

fn nothing() -> Operation {
    act(|_| ())
}

/// Not a line of the library.
#[test]
fn lock_08_the_queue_shows_the_call_site_of_each_kind_of_request() {
    let store = DataStore::new();
    store.set_lock_timeout(None);
    let editor = Arc::new(Editor::new(store.clone(), "ann"));
    // For an entry to undo, and one to redo.
    for _ in 0..2 {
        editor.execute(create()).unwrap();
    }
    editor.undo().commit().unwrap();
    let held = store.acquire_lock("holder").unwrap();
    let waiters: Vec<_> = (1..)
        .zip(WAYS)
        .map(|(nth, way)| {
            let (store, editor) = (store.clone(), Arc::clone(&editor));
            let line = store.clone();
            let waiter = thread::spawn(move || {
                let manager = TransactionManager::new(store.clone());
                way(&store, &editor, &manager)
            });
            until_waiting(&line, nth);
            waiter
        })
        .collect();
    let queue = store.queue_info();
    store.release_lock(held).unwrap();
    for (entry, waiter) in queue.iter().zip(waiters) {
        let found = place(&entry.call_site);
        assert_eq!(found, here(waiter.join().unwrap()), "{entry}");
    }
}

fn lock_08_a_long_queue_of_batches_is_listed_while_batches_come_and_go(form: Form) {
    const STAY: usize = 100;
    let scene = Scene::new(form);
    let token = CancelToken::new();
    let leaving = || {
        let options = patient().cancel_token(&token);
        scene.join(move |store| {
            TransactionManager::new(store.clone())
                .transaction(nothing())
                .options(options)
                .commit()
        })
    };
    let (mut staying, mut leavers) = (Vec::new(), Vec::new());
    for nth in 0..STAY {
        staying.push(scene.list(&format!("w{nth}"), nothing()));
        leavers.push(leaving());
    }
    let ids = |queue: Vec<QueueEntry>| -> Vec<_> {
        let staying = queue
            .into_iter()
            .filter(|entry| entry.owner_id.as_str().starts_with('w'));
        staying.map(|entry| entry.lock_id).collect()
    };
    let all = ids(scene.store.queue_info());
    assert_eq!(all.len(), STAY);
    let done = Arc::new(AtomicBool::new(false));
    let (over, theirs) = (Arc::clone(&done), scene.store.clone());
    let coming = thread::spawn(move || {
        while !over.load(Ordering::SeqCst) {
            let options = AcquireOptions::new().timeout(Duration::from_nanos(1));
            let refused = options.queue_bound(0);
            theirs.request("x").options(refused).wait().unwrap_err();
            let token = CancelToken::new();
            thread::scope(|scope| {
                let comes = scope.spawn(|| {
                    theirs
                        .request("x")
                        .options(patient().cancel_token(&token))
                        .wait()
                });
                token.cancel();
                comes.join().unwrap().unwrap_err();
            });
        }
    });
    let listed: Vec<_> = (0..200)
        .flat_map(|nth| {
            if nth == 100 {
                token.cancel();
            }
            let (dump, stats) = (scene.store.diagnostics(), scene.store.lock_stats());
            assert_eq!(dump.lock.holders[0].holder.owner_id.as_str(), "holder");
            assert_eq!(stats.current_lock.unwrap().owner_id.as_str(), "holder");
            let waiters = dump.lock.waiters.into_iter();
            let dumped = waiters.map(|waiter| waiter.request).collect();
            [dumped, stats.queue, scene.store.queue_info()]
        })
        .collect();
    done.store(true, Ordering::SeqCst);
    coming.join().unwrap();
    for waiting in listed {
        let places: Vec<_> = waiting.iter().map(|entry| entry.position).collect();
        assert_eq!(places, (1..=places.len()).collect::<Vec<_>>());
        assert_eq!(ids(waiting), all);
    }
    scene.go_on();
    for waiter in staying {
        waiter.join().unwrap().unwrap();
    }
    for waiter in leavers {
        waiter.join().unwrap().unwrap_err();
    }
}
