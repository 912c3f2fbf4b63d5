//! The diagnostics of a store print every request that waits, wherever it waits.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use doclock::dsl::{create, text_node};
use doclock::lock::{AcquireOptions, node::Scope};
use doclock::{DataStore, TransactionManager};
use serde_json::Value;

type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Polls a task.
fn poll<T>(task: &mut Task<'_, T>) -> Poll<T> {
    task.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A task that waits.
fn waiting<'a, T>(task: impl Future<Output = T> + 'a) -> Task<'a, T> {
    let mut task: Task<'a, T> = Box::pin(task);
    assert!(poll(&mut task).is_pending());
    task
}

fn no_timeout() -> AcquireOptions {
    AcquireOptions::new().no_timeout()
}

/// The owners of a list of the dump.
fn owners(json: &Value, list: &str) -> Vec<String> {
    let entries = json[list].as_array().into_iter().flatten();
    let owners = entries.map(|entry| entry["ownerId"].as_str().unwrap());
    owners.map(str::to_owned).collect()
}

/// Twenty-nine requests waited, and the dump said that none did.
#[test]
fn lock_08_a_dump_lists_the_holders_of_nodes_and_the_requests_for_them() {
    let store = DataStore::new();
    let locks = store.node_locks();
    let of = |node: &str| Scope::new().write(node);
    let unbound = || no_timeout().unbound();
    let _ann = locks
        .request("ann", of("one"))
        .options(unbound())
        .wait()
        .unwrap();
    let _ben = locks
        .request("ben", of("two"))
        .options(unbound())
        .wait()
        .unwrap();
    let names: Vec<String> = (0..29).map(|nth| format!("w{nth}")).collect();
    let tasks = names.iter().map(|name| {
        waiting(
            locks
                .request(name.as_str(), of("one"))
                .options(no_timeout())
                .into_future(),
        )
    });
    let mut tasks: Vec<_> = tasks.collect();
    let lock = store.diagnostics().lock;
    let text = lock.to_string();
    assert!(!text.contains("no request waits"), "{text}");
    let json = serde_json::to_value(&lock).unwrap();
    assert_eq!(owners(&json, "waiters"), names);
    assert_eq!(owners(&json, "holders"), ["ann", "ben"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + 29, "{text}");
    assert!(lines[0].starts_with("held by ") && lines[0].ends_with(": one (node exclusive)"));
    assert!(lines[1].contains(" of ben ") && lines[1].ends_with(": two (node exclusive)"));
    assert!(lines[2].contains(" of w0 ") && lines[2].contains(" for node one (node exclusive)"));

    // A request for the whole document waits for both, and later ones for that.
    let whole = waiting(store.request("whole").options(no_timeout()).into_future());
    let last = waiting(
        locks
            .request("last", of("three"))
            .options(no_timeout())
            .into_future(),
    );
    let json = serde_json::to_value(store.diagnostics().lock).unwrap();
    let waiters = owners(&json, "waiters");
    assert_eq!(waiters[..29], names);
    assert_eq!(waiters[29..], ["whole", "last"]);
    drop((whole, last));
    tasks.clear();
    let text = store.diagnostics().lock.to_string();
    assert!(text.ends_with("\nno request waits"), "{text}");
}

/// Requests that waited for a subscriber were not in the dump of the lock.
#[test]
fn lock_08_a_dump_names_what_closes_the_lock_before_the_requests() {
    let store = DataStore::new();
    let events = store.subscription().lossless(0).all();
    let manager = TransactionManager::new(store.clone());
    let note = || create(text_node("paragraph", "x"));
    manager.execute(note()).unwrap();
    let names = ["a", "b", "c", "d"];
    let mut tasks =
        names.map(|name| waiting(store.request(name).options(no_timeout()).into_future()));
    let lock = store.diagnostics().lock;
    let json = serde_json::to_value(&lock).unwrap();
    assert_eq!(owners(&json, "waiters"), names);
    assert_eq!(json["closedBy"]["ownerId"], "lossless subscriber");
    let text = lock.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + 4, "{text}");
    assert_eq!(lines[0], "held by no owner");
    assert!(lines[1].starts_with("closed by lock-"), "{text}");
    assert!(lines[1].contains(" of lossless subscriber from "), "{text}");
    for ((line, name), position) in lines[2..].iter().zip(names).zip(1..) {
        assert!(line.starts_with(&format!("{position}. ")), "{text}");
        assert!(line.contains(&format!(" of {name} ")), "{text}");
    }

    // The first holds the lock.
    assert_eq!(events.try_iter().count(), 1);
    let Poll::Ready(Ok(guard)) = poll(&mut tasks[0]) else {
        panic!("{}", store.diagnostics());
    };
    let json = serde_json::to_value(store.diagnostics().lock).unwrap();
    assert_eq!(json["holders"][0]["ownerId"], "a");
    drop(guard);
    for task in &mut tasks[1..] {
        assert!(poll(task).is_ready(), "{}", store.diagnostics());
    }
    let lock = store.diagnostics().lock;
    assert!(lock.to_string().ends_with("\nno request waits"), "{lock}");
    assert_eq!(lock.closed_by, None);
}
