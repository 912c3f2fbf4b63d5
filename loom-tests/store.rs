//! Races around publishing.

use doclock::{AcquireOptions, DataStore, NodeSpec, StoreOptions, Transaction, View};
use loom::thread;

use crate::model::check;

fn begin(store: &DataStore) -> Transaction {
    let options = AcquireOptions::new().no_wait_limit();
    store.begin_as("writer", options).unwrap()
}

/// Writes the number of the version to come into two nodes.
fn write(store: &DataStore) {
    let mut transaction = begin(store);
    let text = format!("{}", transaction.base().version() + 1);
    for id in ["left", "right"] {
        if transaction.contains(&id.into()) {
            transaction.set_text(&id.into(), &*text).unwrap();
        } else {
            let spec = NodeSpec::new("text").with_id(id).with_text(&*text);
            transaction.create(spec).unwrap();
        }
    }
    transaction.commit().unwrap();
}

/// Looks at one version and returns its number.
fn read(store: &DataStore) -> u64 {
    let snapshot = store.snapshot();
    let text = |id: &str| {
        snapshot
            .node(&id.into())
            .map(|node| node.text().to_string())
    };
    let expected = (snapshot.version() > 0).then(|| snapshot.version().to_string());
    assert_eq!(text("left"), expected);
    assert_eq!(text("right"), expected);
    snapshot.version()
}

#[test]
fn store_a_snapshot_sees_all_or_nothing_of_a_commit() {
    check("snapshot against commit", None, || {
        let store = DataStore::new();
        let writer = {
            let store = store.clone();
            thread::spawn(move || write(&store))
        };
        let first = read(&store);
        assert!(first <= read(&store), "versions went back");
        writer.join().unwrap();
        assert_eq!(read(&store), 1);
    });
}

#[test]
fn store_a_snapshot_sees_all_or_nothing_of_two_writers() {
    check("snapshot against 2 commits", None, || {
        let store = DataStore::new();
        let events = store.subscribe(8);
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let store = store.clone();
                thread::spawn(move || write(&store))
            })
            .collect();
        let first = read(&store);
        assert!(first <= read(&store), "versions went back");
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        assert_eq!(read(&store), 2);
        let versions: Vec<_> = events
            .receiver()
            .try_iter()
            .map(|event| event.commit.version)
            .collect();
        assert_eq!(versions, [1, 2], "events come in the order of the commits");
    });
}

#[test]
fn store_a_transaction_that_is_dropped_leaves_nothing() {
    check("rollback against commit", None, || {
        let store = DataStore::new();
        let writer = {
            let store = store.clone();
            thread::spawn(move || write(&store))
        };
        let mut transaction = begin(&store);
        let lost = transaction.create(NodeSpec::new("text")).unwrap();
        drop(transaction);
        writer.join().unwrap();
        assert_eq!(read(&store), 1);
        assert!(!store.snapshot().contains(&lost));
        assert!(!store.is_locked());
    });
}

#[test]
fn store_a_guard_dropped_under_an_open_transaction_releases_once() {
    check("guard against the transaction under it", None, || {
        let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
        let guard = store.lock("holder").unwrap();
        let transaction = store.begin_with(guard.id()).unwrap();
        let dropper = thread::spawn(move || drop(guard));
        let waiter = {
            let store = store.clone();
            thread::spawn(move || write(&store))
        };
        transaction.commit().unwrap();
        dropper.join().unwrap();
        waiter.join().unwrap();
        let stats = store.lock_stats();
        assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
        assert_eq!((stats.total_acquisitions, stats.total_releases), (2, 2));
    });
}
