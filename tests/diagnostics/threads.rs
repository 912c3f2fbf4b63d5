//! What the picture says of threads: where a holder waits, and who has keys and permits.

use std::sync::Barrier;
use std::thread;

use doclock::lock::keyed::KeyedLock;
use doclock::lock::limiter::InFlightLimiter;
use doclock::lock::node::Scope;
use doclock::lock::{AcquireOptions, Priority};
use doclock::{DataStore, StoreOptions};

use super::until_waiting;

/// Runs code in a thread of the name `holder` until the test ends it.
fn holder<T>(code: impl FnOnce() + Send, seen: impl FnOnce() -> T) -> T {
    thread::scope(|threads| {
        let named = thread::Builder::new().name("holder".into());
        named.spawn_scoped(threads, code).unwrap();
        seen()
    })
}

#[test]
fn a_holder_says_where_its_thread_waits() {
    let store = DataStore::new();
    let index = DataStore::with_options(StoreOptions::new().name("index"));
    let without_name = DataStore::new();
    for (other, expected) in [
        (
            &index,
            "                 thread holder, which waits in index\n",
        ),
        (
            &without_name,
            "                 thread holder, which waits in a lock without a name\n",
        ),
    ] {
        let id = other.acquire_lock("bob").unwrap();
        let code = || {
            let _guard = store.lock("ann").unwrap();
            let patient = AcquireOptions::new().no_timeout();
            drop(other.request("ann").options(patient).wait().unwrap());
        };
        let waits = || {
            let held = store.diagnostics().lock.holders;
            held.iter().flat_map(|held| &held.thread).any(|it| it.waits)
        };
        let table = holder(code, || {
            while !waits() {
                thread::yield_now();
            }
            let table = store.diagnostics().to_string();
            other.release_lock(id).unwrap();
            table
        });
        assert!(table.contains(expected), "{table}");
    }
}

#[test]
fn a_holder_whose_thread_waits_in_nothing_says_so() {
    let store = DataStore::new();
    let (begun, over) = (Barrier::new(2), Barrier::new(2));
    let code = || {
        let _guard = store.lock("ann").unwrap();
        begun.wait();
        over.wait();
    };
    let table = holder(code, || {
        begun.wait();
        let table = store.diagnostics().to_string();
        over.wait();
        table
    });
    let expected = "thread holder, not waiting in doclock: it runs, or waits for something else\n";
    assert!(table.contains(expected), "{table}");
    let id = store.acquire_lock("ann").unwrap();
    let table = store.diagnostics().to_string();
    let expected = "no thread: held by a task, by its id, or unbound\n";
    assert!(table.contains(expected), "{table}");
    store.release_lock(id).unwrap();
    let guard = thread::scope(|threads| threads.spawn(|| store.lock("ann")).join());
    let table = store.diagnostics().to_string();
    drop(guard);
    assert!(
        table.contains("\n                 its thread has ended\n"),
        "{table}"
    );
}

#[test]
fn a_request_that_others_overtake_says_how_many() {
    let store = DataStore::new();
    let id = store.acquire_lock("ann").unwrap();
    thread::scope(|threads| {
        let priorities = [Priority::Low, Priority::High, Priority::High];
        for (waiting, priority) in priorities.into_iter().enumerate() {
            let store = &store;
            threads.spawn(move || {
                let options = AcquireOptions::new().no_timeout().priority(priority);
                drop(store.request("ben").options(options).wait().unwrap());
            });
            until_waiting(store, waiting + 1);
        }
        let table = store.diagnostics().to_string();
        store.release_lock(id).unwrap();
        let overtaken: Vec<_> = table
            .lines()
            .filter(|it| it.contains("overtaken"))
            .collect();
        let line = "                 overtaken by 2 later requests of a higher priority";
        assert_eq!(overtaken, [line], "{table}");
    });
}

#[test]
fn a_refused_deadlock_says_who_was_refused_and_what_each_wanted() {
    let store = DataStore::new();
    let locks = store.node_locks();
    let patient = || AcquireOptions::new().no_timeout().unbound();
    let lock = |owner: &str, id: &str| {
        let request = locks.request(owner, Scope::new().write(id));
        request.options(patient()).wait().unwrap()
    };
    let (mut ann, mut ben) = (lock("ann", "one"), lock("ben", "two"));
    thread::scope(|threads| {
        threads.spawn(|| {
            let more = ann.request_more(Scope::new().write("two"));
            more.options(patient()).wait().unwrap();
            drop(ann);
        });
        until_waiting(&store, 1);
        let refused = ben
            .request_more(Scope::new().write("one"))
            .options(patient())
            .wait();
        refused.unwrap_err();
        let table = store.diagnostics().to_string();
        drop(ben);
        let rows: Vec<_> = table
            .lines()
            .skip_while(|line| !line.starts_with("DEADLOCK"))
            .skip(1)
            .take(4)
            .collect();
        assert!(rows[0].starts_with("refused #2       ben  "), "{table}");
        assert!(rows[0].ends_with("  for #1"), "{table}");
        assert_eq!(rows[1].trim(), "nodes: wanted one (node exclusive)");
        assert!(rows[2].starts_with(" waited #1       ann  "), "{table}");
        assert_eq!(rows[3].trim(), "nodes: wanted two (node exclusive)");
        assert!(table.ends_with("revoked 0, deadlocks 1"), "{table}");
    });
}

#[test]
fn a_key_and_a_permit_say_which_thread_has_them() {
    let store = DataStore::new();
    let accounts = KeyedLock::<&str>::new();
    let uploads = InFlightLimiter::new(2);
    store.register("accounts", &accounts);
    store.register("uploads", &uploads);
    let (begun, over) = (Barrier::new(2), Barrier::new(2));
    let code = || {
        let _permit = uploads.acquire("disk").unwrap();
        let task = || {
            begun.wait();
            over.wait();
        };
        accounts.execute_exclusive(&"ann", task).unwrap();
    };
    let rows = holder(code, || {
        begun.wait();
        let table = store.diagnostics().to_string();
        over.wait();
        table
    });
    let named = rows.matches("\n                                 thread holder\n");
    assert_eq!(named.count(), 2, "{rows}");
}

#[test]
fn a_wait_for_all_tasks_is_counted() {
    let store = DataStore::new();
    let accounts = KeyedLock::<&str>::new();
    store.register("accounts", &accounts);
    let turn = accounts.reserve(&"ann").unwrap();
    holder(
        || accounts.wait_for_all_existing_tasks().unwrap(),
        || {
            while accounts.stats().draining != 1 {
                thread::yield_now();
            }
            let table = store.diagnostics().to_string();
            drop(turn);
            assert!(table.contains(", 1 waits for all, "), "{table}");
        },
    );
    assert_eq!(accounts.stats().draining, 0);
}
