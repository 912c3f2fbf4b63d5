//! The sentence that follows the waits of a hang to their end.

use std::sync::Barrier;
use std::thread::{self, Builder, Scope};
use std::time::{Duration, Instant};

use doclock::lock::keyed::KeyedLock;
use doclock::lock::limiter::{InFlightLimiter, LimiterOptions};
use doclock::lock::{AcquireOptions, CancelToken, FifoLock, node::Scope as Nodes};
use doclock::{DataStore, StoreOptions};

use super::until_waiting;

/// Longer than any machine takes.
const PATIENCE: Duration = Duration::from_secs(60);

const RUNS: &str = "it runs, or waits for something else";

fn start<'s>(threads: &'s Scope<'s, '_>, name: &str, code: impl FnOnce() + Send + 's) {
    let named = Builder::new().name(name.to_owned());
    named.spawn_scoped(threads, code).unwrap();
}

fn patient() -> AcquireOptions {
    AcquireOptions::new().no_timeout()
}

/// Waits for the lock of a store, however long that takes.
fn wait_for(store: &DataStore, token: &CancelToken) {
    let options = patient().cancel_token(token);
    drop(store.request("waits").options(options).wait());
}

/// Leaves out the owners and the lines of code, which are in parentheses.
fn plain(sentence: &str) -> String {
    let parts = sentence.split(" (");
    let rest = parts.enumerate().map(|(nth, part)| match nth {
        0 => part,
        _ => part.split_once(')').map_or("", |(_, rest)| rest),
    });
    rest.collect()
}

/// Returns the causes once the waits of all threads are noted, or what there is after a long time.
fn causes(store: &DataStore, expected: &[String]) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let causes = store.diagnostics().causes;
        let causes: Vec<_> = causes.iter().map(|cause| plain(cause)).collect();
        if causes == expected || begun.elapsed() > PATIENCE {
            return causes;
        }
        thread::yield_now();
    }
}

#[test]
fn a_chain_goes_on_in_the_lock_of_a_store_that_is_registered() {
    let (store, index) = (DataStore::new(), DataStore::new());
    store.register("index", &index);
    let (begun, over) = (Barrier::new(2), Barrier::new(2));
    let never = CancelToken::new();
    let expected = [format!(
        "1 request waits for the lock, which thread `typing` holds; it waits for the lock `index`, \
         which thread `rebuild` holds: {RUNS}"
    )];
    let found = thread::scope(|threads| {
        start(threads, "rebuild", || {
            let _guard = index.lock("search").unwrap();
            begun.wait();
            over.wait();
        });
        begun.wait();
        start(threads, "typing", || {
            let _guard = store.lock("ann").unwrap();
            wait_for(&index, &never);
        });
        until_waiting(&index, 1);
        start(threads, "window", || wait_for(&store, &never));
        let found = causes(&store, &expected);
        let table = store.diagnostics().to_string();
        let json = serde_json::to_value(store.diagnostics()).unwrap();
        over.wait();
        assert!(
            table.starts_with("CAUSE           1 request waits for the lock, which"),
            "{table}"
        );
        // The culprit has its owner and its line of code.
        let cause = json["causes"][0].as_str().unwrap();
        assert!(cause.contains("`rebuild` holds (search, …"), "{cause}");
        assert!(cause.contains("/causes.rs:"), "{cause}");
        found
    });
    assert_eq!(found, expected);
    assert!(store.diagnostics().causes.is_empty());
}

/// A thread waits for one of two keys with waiters.
#[test]
fn a_chain_goes_through_a_key_and_the_slots_of_a_limiter() {
    let store = DataStore::new();
    let cache = KeyedLock::<&str>::new();
    let uploads = InFlightLimiter::new(1);
    store.register("cache", &cache);
    store.register("uploads", &uploads);
    let (begun, over) = (Barrier::new(3), Barrier::new(3));
    let never = CancelToken::new();
    let expected = [
        format!(
            "1 request waits for the lock, which thread `export` holds; it waits for the key \
             \"thumbs\" of `cache`, which thread `worker` holds; it waits for a slot of \"disk\" in \
             `uploads`, which thread `uploader` holds: {RUNS}"
        ),
        format!(
            "1 request waits for the key \"pages\" of `cache`, which thread `reader` holds: {RUNS}"
        ),
    ];
    let found = thread::scope(|threads| {
        start(threads, "uploader", || {
            let _permit = uploads.acquire("disk").unwrap();
            begun.wait();
            over.wait();
        });
        start(threads, "reader", || {
            let task = || {
                begun.wait();
                over.wait();
            };
            cache.execute_exclusive(&"pages", task).unwrap();
        });
        begun.wait();
        start(threads, "other", || {
            drop(cache.request(&"pages", "other").no_timeout().wait())
        });
        start(threads, "worker", || {
            let upload = || uploads.request("disk").no_timeout().run(|_| ()).unwrap();
            cache.execute_exclusive(&"thumbs", upload).unwrap();
        });
        while uploads.load(&"disk").queued == 0 {
            thread::yield_now();
        }
        start(threads, "export", || {
            let _guard = store.lock("ann").unwrap();
            drop(cache.request(&"thumbs", "ann").no_timeout().wait());
        });
        while cache.queue_length(&"thumbs") == 0 {
            thread::yield_now();
        }
        start(threads, "window", || wait_for(&store, &never));
        let found = causes(&store, &expected);
        over.wait();
        found
    });
    assert_eq!(found, expected);
}

#[test]
fn a_circle_of_two_stores_and_a_key_is_a_deadlock() {
    let (store, index) = (DataStore::new(), DataStore::new());
    let (cache, printer) = (KeyedLock::<&str>::new(), FifoLock::new());
    store.register("index", &index);
    store.register("cache", &cache);
    store.register("printer", &printer);
    let token = CancelToken::new();
    let held = Barrier::new(3);
    let expected = [
        "2 requests wait for the lock, which thread `one` holds; it waits for the lock `index`, \
         which thread `two` holds; it waits for the key \"a\" of `cache`, which thread `three` \
         holds; it waits for the lock: a deadlock between 3 threads"
            .to_owned(),
    ];
    let found = thread::scope(|threads| {
        start(threads, "one", || {
            let _guard = store.lock("one").unwrap();
            held.wait();
            wait_for(&index, &token);
        });
        start(threads, "two", || {
            let _guard = index.lock("two").unwrap();
            held.wait();
            let request = cache
                .request(&"a", "two")
                .options(patient().cancel_token(&token));
            drop(request.wait());
        });
        start(threads, "three", || {
            let task = || {
                held.wait();
                wait_for(&store, &token);
            };
            cache.execute_exclusive(&"a", task).unwrap();
        });
        start(threads, "window", || {
            while store.queue_length() == 0 {
                thread::yield_now();
            }
            wait_for(&store, &token);
        });
        let found = causes(&store, &expected);
        token.cancel();
        found
    });
    assert_eq!(found, expected);
}

#[test]
fn a_chain_ends_in_a_thread_that_has_ended() {
    let (store, index) = (DataStore::new(), DataStore::new());
    store.register("index", &index);
    let never = CancelToken::new();
    let guard = thread::scope(|threads| threads.spawn(|| index.lock("search")).join());
    let expected = [
        "1 request waits for the lock, which thread `typing` holds; it waits for the lock `index`, \
         which a thread holds that has ended"
            .to_owned(),
    ];
    let found = thread::scope(|threads| {
        start(threads, "typing", || {
            let _guard = store.lock("ann").unwrap();
            wait_for(&index, &never);
        });
        until_waiting(&index, 1);
        start(threads, "window", || wait_for(&store, &never));
        let found = causes(&store, &expected);
        drop(guard);
        found
    });
    assert_eq!(found, expected);
}

#[test]
fn a_chain_ends_where_the_picture_has_no_more() {
    let store = DataStore::new();
    let named = DataStore::with_options(StoreOptions::new().name("index"));
    let without_name = DataStore::new();
    let never = CancelToken::new();
    for (other, end) in [
        (&named, "it waits in `index`"),
        (&without_name, "it waits in a lock without a name"),
    ] {
        let id = other.acquire_lock("search").unwrap();
        let expected = [format!(
            "1 request waits for the lock, which thread `typing` holds; {end}"
        )];
        let found = thread::scope(|threads| {
            start(threads, "typing", || {
                let _guard = store.lock("ann").unwrap();
                wait_for(other, &never);
            });
            until_waiting(other, 1);
            start(threads, "window", || wait_for(&store, &never));
            let found = causes(&store, &expected);
            other.release_lock(id).unwrap();
            found
        });
        assert_eq!(found, expected);
    }
    let id = store.acquire_lock("ann").unwrap();
    let expected = [
        "1 request waits for the lock, which no thread holds: held by a task, by its id, or unbound"
            .to_owned(),
    ];
    let found = thread::scope(|threads| {
        start(threads, "window", || wait_for(&store, &never));
        let found = causes(&store, &expected);
        store.release_lock(id).unwrap();
        found
    });
    assert_eq!(found, expected);
}

/// A permit of a key with free slots is not the cause.
#[test]
fn a_wait_for_the_global_limit_names_no_permit() {
    let store = DataStore::new();
    let uploads = InFlightLimiter::with_options(LimiterOptions::new(2).global_limit(1));
    store.register("uploads", &uploads);
    let permit = uploads.acquire("disk").unwrap();
    let expected = [
        "1 request waits for a slot of \"disk\" in `uploads`, whose holders are not known"
            .to_owned(),
    ];
    let found = thread::scope(|threads| {
        start(threads, "upload", || {
            uploads.request("disk").no_timeout().run(|_| ()).unwrap();
        });
        let found = causes(&store, &expected);
        drop(permit);
        found
    });
    assert_eq!(found, expected);
}

#[test]
fn a_wait_for_all_tasks_leads_to_the_only_one() {
    let store = DataStore::new();
    let saves = KeyedLock::<&str>::new();
    store.register("saves", &saves);
    let (begun, over) = (Barrier::new(2), Barrier::new(2));
    let never = CancelToken::new();
    let expected = [format!(
        "1 request waits for the lock, which thread `shutdown` holds; it waits for the end of all \
         tasks of `saves`, which thread `save` holds: {RUNS}"
    )];
    let found = thread::scope(|threads| {
        start(threads, "save", || {
            let task = || {
                begun.wait();
                over.wait();
            };
            saves.execute_exclusive(&"page", task).unwrap();
        });
        begun.wait();
        start(threads, "shutdown", || {
            let _guard = store.lock("ann").unwrap();
            saves.request_drain("ann").no_timeout().wait().unwrap();
        });
        while saves.stats().draining == 0 {
            thread::yield_now();
        }
        start(threads, "window", || wait_for(&store, &never));
        let found = causes(&store, &expected);
        over.wait();
        found
    });
    assert_eq!(found, expected);
}

/// Of the holders of nodes, only the one that waits for nothing has a sentence.
#[test]
fn a_chain_of_nodes_names_the_holder_that_waits_for_nothing() {
    let store = DataStore::new();
    let locks = store.node_locks();
    let lock = |owner: &str, id: &str| {
        let request = locks.request(owner, Nodes::new().write(id));
        request.options(patient()).wait().unwrap()
    };
    let (begun, over) = (Barrier::new(2), Barrier::new(2));
    let expected = [format!(
        "2 requests wait for the node `b`, which thread `checker` holds: {RUNS}"
    )];
    let found = thread::scope(|threads| {
        start(threads, "checker", || {
            let _held = lock("check", "b");
            begun.wait();
            over.wait();
        });
        begun.wait();
        start(threads, "window", || {
            let mut held = lock("ann", "a");
            drop(
                held.request_more(Nodes::new().write("b"))
                    .options(patient())
                    .wait(),
            );
        });
        until_waiting(&store, 1);
        start(threads, "other", || drop(lock("ben", "a")));
        until_waiting(&store, 2);
        let found = causes(&store, &expected);
        over.wait();
        found
    });
    assert_eq!(found, expected);
}

/// A request for the whole document waits for each holder of nodes: the circle is behind the later.
#[test]
fn a_deadlock_behind_the_second_of_two_holders_of_nodes_is_named() {
    let store = DataStore::new();
    let cache = KeyedLock::<&str>::new();
    store.register("cache", &cache);
    let lock = |owner: &str, id: &str| {
        let request = store.node_locks().request(owner, Nodes::new().write(id));
        request.options(patient()).wait().unwrap()
    };
    let (begun, over) = (Barrier::new(2), Barrier::new(2));
    let token = CancelToken::new();
    let expected = [
        format!("1 request waits for the node `x`, which thread `checker` holds: {RUNS}"),
        "1 request waits for the node `y`, which thread `window` holds; it waits for the key \
         \"thumbs\" of `cache`, which thread `worker` holds; it waits for the node `y`: a deadlock \
         between 2 threads"
            .to_owned(),
    ];
    let found = thread::scope(|threads| {
        start(threads, "checker", || {
            let _held = lock("check", "x");
            begun.wait();
            over.wait();
        });
        begun.wait();
        start(threads, "window", || {
            let _held = lock("ann", "y");
            begun.wait();
            begun.wait();
            let options = patient().cancel_token(&token);
            drop(cache.request(&"thumbs", "ann").options(options).wait());
        });
        begun.wait();
        start(threads, "worker", || {
            let task = || {
                begun.wait();
                wait_for(&store, &token);
            };
            cache.execute_exclusive(&"thumbs", task).unwrap();
        });
        let found = causes(&store, &expected);
        token.cancel();
        over.wait();
        found
    });
    assert_eq!(found, expected);
}

#[test]
fn a_store_that_is_registered_with_itself_is_named_once() {
    let store = DataStore::new();
    store.register("itself", &store);
    let id = store.acquire_lock("ann").unwrap();
    let expected = [
        "1 request waits for the lock, which no thread holds: held by a task, by its id, or unbound"
            .to_owned(),
    ];
    let never = CancelToken::new();
    let found = thread::scope(|threads| {
        start(threads, "window", || wait_for(&store, &never));
        until_waiting(&store, 1);
        let found = store.diagnostics().causes;
        store.release_lock(id).unwrap();
        found
    });
    let found: Vec<_> = found.iter().map(|cause| plain(cause)).collect();
    assert_eq!(found, expected);
}
