//! Holders and waiters, and which of them wait for which.

use std::panic::Location;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use doclock::dsl::{create, text_node};
use doclock::lock::{
    AcquireOptions, FifoLock, HeldLock, LockMode, RequestKind, WaiterKind, WaitingRequest,
    node::Scope,
};
use doclock::{DataStore, StoreOptions, TransactionManager};
use serde_json::json;

use super::{behind, timed_store, until_waiting};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_picture_names_the_holder_and_its_waiters_with_kind_and_time_left() {
    let (store, clock) = timed_store();
    let here = Location::caller();
    let options = AcquireOptions::new()
        .label("import")
        .hold_limit(90 * SECOND);
    let id = store
        .request("ann")
        .options(options)
        .wait()
        .unwrap()
        .into_id();
    clock.advance(SECOND);
    let manager = TransactionManager::new(store.clone());
    let patience = |timeout: u32| AcquireOptions::new().timeout(timeout * SECOND);
    thread::scope(|threads| {
        threads.spawn(|| drop(store.request_transaction("ben").options(patience(4)).wait()));
        until_waiting(&store, 1);
        threads.spawn(|| {
            let batch = create(text_node("paragraph", "x"));
            manager
                .transaction(batch)
                .options(AcquireOptions::new().no_timeout())
                .commit()
        });
        until_waiting(&store, 2);
        let options = patience(9).label("autosave");
        threads.spawn(|| pollster::block_on(store.request("dan").options(options)).map(drop));
        until_waiting(&store, 3);
        clock.advance(SECOND);

        let lock = store.diagnostics().lock;
        let [HeldLock { holder, .. }] = &lock.holders[..] else {
            panic!("{lock:?}")
        };
        assert_eq!((holder.lock_id, holder.held_for), (id, 2 * SECOND));
        assert_eq!(holder.call_site.file, here.file());
        assert!(!lock.holders[0].in_transaction);
        assert_eq!(lock.holders[0].hold_limit, Some(90 * SECOND));
        let found = lock.waiters.iter().map(|waiter| {
            let WaitingRequest {
                request,
                kind,
                waits_as,
                time_left,
                ..
            } = waiter;
            assert_eq!(request.wait_time, SECOND);
            (request.position, *kind, *waits_as, *time_left)
        });
        let expected = [
            (
                1,
                RequestKind::Transaction,
                WaiterKind::Thread,
                Some(3 * SECOND),
            ),
            (2, RequestKind::Batch, WaiterKind::Thread, None),
            (3, RequestKind::Lock, WaiterKind::Task, Some(8 * SECOND)),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        let blocked = lock.waiters.iter().map(behind).collect::<Vec<_>>();
        assert_eq!(blocked, [vec![1], vec![1, 2], vec![1, 3]]);
        assert_eq!(
            (
                lock.document.total_acquisitions,
                lock.document.total_releases
            ),
            (1, 0)
        );

        let json = serde_json::to_value(&lock).unwrap();
        assert_eq!(json["holders"][0]["holdLimit"], json!(90_000.0));
        assert_eq!(json["waiters"][0]["timeLeft"], json!(3_000.0));
        assert_eq!(json["waiters"][0]["waitsAs"], json!("thread"));
        assert_eq!(json["waiters"][1]["kind"], json!("batch"));
        assert_eq!(json["waiters"][2]["label"], json!("autosave"));
        assert_eq!(json["waiters"][2]["blockedBy"][0], json!(id.to_string()));
        store.release_lock(id).unwrap();
    });
}

#[test]
fn a_transaction_that_holds_the_lock_is_shown_as_one() {
    let store = DataStore::new();
    let transaction = store.begin("ann").unwrap();
    assert!(store.diagnostics().lock.holders[0].in_transaction);
    drop(transaction);
    let id = store.acquire_lock("ann").unwrap();
    assert!(!store.diagnostics().lock.holders[0].in_transaction);
    let transaction = store.begin_under(id).unwrap();
    assert!(store.diagnostics().lock.holders[0].in_transaction);
    drop(transaction);
}

/// `ann` has `a`, `ben` has `b`. `cem` waits for both, `dan` behind him for `b`, `eve` for the
/// whole document, and `fay` for another node behind her.
#[test]
fn waiters_for_nodes_and_for_the_document_name_those_that_block_them() {
    let (store, _clock) = timed_store();
    let locks = store.node_locks();
    let scope = |ids: &[&str]| {
        ids.iter()
            .map(|id| (*id, LockMode::NodeExclusive))
            .collect()
    };
    let lock = |owner: &str, ids: &[&str]| -> _ {
        let scope: Scope = scope(ids);
        let patient = AcquireOptions::new().no_timeout().unbound();
        locks.request(owner, scope).options(patient).wait()
    };
    let [ann, ben] = [("ann", "a"), ("ben", "b")].map(|(owner, id)| lock(owner, &[id]).unwrap());
    thread::scope(|threads| {
        threads.spawn(|| lock("cem", &["a", "b"]).map(drop));
        until_waiting(&store, 1);
        threads.spawn(|| lock("dan", &["b"]).map(drop));
        until_waiting(&store, 2);
        threads.spawn(|| {
            store
                .request("eve")
                .options(AcquireOptions::new().no_timeout())
                .wait()
                .map(drop)
        });
        until_waiting(&store, 3);
        threads.spawn(|| lock("fay", &["c"]).map(drop));
        until_waiting(&store, 4);

        let diagnostics = store.diagnostics().lock;
        let holders = diagnostics.holders.iter().map(|held| {
            let nodes = held.nodes.iter().map(|(id, mode)| {
                assert_eq!(*mode, LockMode::NodeExclusive);
                id.to_string()
            });
            (held.holder.lock_id.number(), nodes.collect::<Vec<_>>())
        });
        let [one, two] = [ann.id().number(), ben.id().number()];
        let expected = [(one, vec!["a".to_owned()]), (two, vec!["b".to_owned()])];
        assert_eq!(holders.collect::<Vec<_>>(), expected);

        let waiters = diagnostics.waiters.iter();
        let waiters = waiters.map(|waiter| (waiter.request.owner_id.as_str(), behind(waiter)));
        let number = |owner: &str| {
            let mut waiters = diagnostics.waiters.iter();
            let waiter = waiters.find(|waiter| waiter.request.owner_id.as_str() == owner);
            waiter.unwrap().request.lock_id.number()
        };
        let [cem, dan, eve] = ["cem", "dan", "eve"].map(number);
        let expected = [
            ("cem", vec![one, two]),
            ("dan", vec![two, cem]),
            // She waits for all that share the lock, whether they are granted their nodes or not.
            ("eve", vec![one, two, cem, dan]),
            ("fay", vec![eve]),
        ];
        assert_eq!(waiters.collect::<Vec<_>>(), expected);
        let waits_for = |nth: usize| {
            let waiter = &diagnostics.waiters[nth];
            let nodes = waiter
                .waits_for
                .iter()
                .filter_map(|wait| wait.node.as_ref());
            nodes.map(|id| id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(waits_for(0), ["a", "b"]);
        assert_eq!(waits_for(2), [""; 0]);
        assert_eq!(waits_for(3), ["c"]);
        drop((ann, ben));
    });
}

#[test]
fn a_holder_of_many_nodes_lists_some_and_counts_all() {
    let store = DataStore::new();
    let ids = (0..1_000).map(|number| (format!("n{number}"), LockMode::Shared));
    let scope = ids.collect::<Scope>();
    let guard = store.node_locks().lock("ann", scope).unwrap();
    let alone = store.diagnostics().lock;
    let beside = store.node_locks();
    thread::scope(|threads| {
        let other = threads.spawn(|| beside.lock("ben", Scope::new().read("x")));
        let other = other.join().unwrap().unwrap();
        let shared = store.diagnostics().lock;
        for lock in [&alone, &shared] {
            assert_eq!(lock.holders[0].nodes.len(), HeldLock::LISTED);
            assert!(lock.holders[0].node_count >= 1_000);
        }
        assert_eq!(shared.holders.len(), 2);
        drop(other);
    });
    drop(guard);
}

/// Each of 200 readers of a node, and then a hundred writers of it.
#[test]
fn every_waiter_is_listed_once_and_in_order_over_many_pages() {
    const READERS: usize = 200;
    const WRITERS: usize = 100;
    let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
    let locks = store.node_locks();
    let end = Barrier::new(READERS + 1);
    thread::scope(|threads| {
        for _ in 0..READERS {
            threads.spawn(|| {
                let guard = locks.lock("reader", Scope::new().read("x")).unwrap();
                end.wait();
                drop(guard);
            });
        }
        while locks.stats().holders < READERS {
            thread::yield_now();
        }
        for waiting in 0..WRITERS {
            threads.spawn(|| locks.lock("writer", Scope::new().write("x")).map(drop));
            until_waiting(&store, waiting + 1);
        }
        let lock = store.diagnostics().lock;
        assert_eq!(lock.holders.len(), READERS);
        let positions = lock.waiters.iter().map(|waiter| waiter.request.position);
        assert!(positions.eq(1..=WRITERS));
        for (waiter, before) in lock.waiters.iter().skip(1).zip(&lock.waiters) {
            assert_eq!(waiter.blocked_by.len(), WaitingRequest::BLOCKERS);
            let holder = lock.holders[0].holder.lock_id;
            assert_eq!(waiter.blocked_by.first(), Some(&holder));
            assert_eq!(waiter.blocked_by.last(), Some(&before.request.lock_id));
        }
        end.wait();
    });
}

#[test]
fn a_long_queue_is_read_in_order_with_the_request_ahead_of_each() {
    const WAITERS: usize = 100;
    let lock = FifoLock::new();
    let id = lock.acquire_lock("ann").unwrap();
    thread::scope(|threads| {
        for waiting in 0..WAITERS {
            threads.spawn(|| lock.lock("ben").map(drop));
            while lock.queue_length() == waiting {
                thread::yield_now();
            }
        }
        let found = lock.diagnostics();
        let ids = found.waiters.iter().map(|waiter| waiter.request.lock_id);
        let ids: Vec<_> = ids.collect();
        assert_eq!(ids.len(), WAITERS);
        for (nth, waiter) in found.waiters.iter().enumerate() {
            assert_eq!(waiter.request.position, nth + 1);
            let ahead = nth.checked_sub(1).map(|ahead| ids[ahead]);
            let expected: Vec<_> = [id].into_iter().chain(ahead).collect();
            assert_eq!(waiter.blocked_by, expected);
        }
        lock.release_lock(id).unwrap();
    });
}

/// Two threads wait for each other, each with the lock of a store that the other one needs.
#[test]
fn a_holder_names_its_thread_and_the_store_in_which_the_thread_waits() {
    let named = |name: &str| DataStore::with_options(StoreOptions::new().name(name));
    let (page, index) = (named("page"), named("index"));
    let (held, is_held) = (Barrier::new(2), page.lock("ann").unwrap());
    thread::scope(|threads| {
        let rebuild = thread::Builder::new().name("rebuild".to_owned());
        let rebuilds = || {
            let guard = index.lock("indexer").unwrap();
            held.wait();
            drop(page.request("indexer").no_timeout().wait().unwrap());
            drop(guard);
        };
        rebuild.spawn_scoped(threads, rebuilds).unwrap();
        held.wait();
        until_waiting(&page, 1);

        let picture = index.diagnostics();
        let thread = picture.lock.holders[0].thread.as_ref().unwrap();
        assert_eq!(thread.name, "rebuild");
        assert_eq!(thread.waits_in.as_deref(), Some("page"));
        let table = picture.to_string();
        assert!(
            table.contains("thread rebuild, which waits in page\n"),
            "{table}"
        );
        let waiter = page.diagnostics().lock.waiters[0].thread.clone();
        assert_eq!(waiter.unwrap().name, "rebuild");
        drop(is_held);
    });
    // A thread that has ended is no longer known, and this one waits nowhere.
    let guard = index.lock("ann").unwrap();
    let thread = index.diagnostics().lock.holders[0].thread.clone().unwrap();
    assert_eq!(thread.waits_in, None);
    let json = serde_json::to_value(&thread).unwrap();
    assert_eq!(json, json!({ "name": thread.name }));
    drop(guard);
}

#[test]
fn a_lock_that_is_registered_twice_has_the_name_that_is_left() {
    let (index, lock) = (DataStore::new(), FifoLock::new());
    let [one, two] = ["one", "two"].map(|name| {
        let store = DataStore::new();
        store.register(name, &lock);
        store
    });
    let (held, is_held) = (Barrier::new(2), lock.lock("ann").unwrap());
    thread::scope(|threads| {
        threads.spawn(|| {
            let _guard = index.lock("ben").unwrap();
            held.wait();
            drop(lock.lock("ben").unwrap());
        });
        held.wait();
        while lock.queue_length() == 0 {
            thread::yield_now();
        }
        let waits_in = || {
            let thread = index.diagnostics().lock.holders[0].thread.clone();
            thread.unwrap().waits_in
        };
        assert_eq!(waits_in().as_deref(), Some("two"));
        drop(two);
        assert_eq!(waits_in().as_deref(), Some("one"));
        drop(one);
        assert_eq!(waits_in(), None);
        drop(is_held);
    });
}
