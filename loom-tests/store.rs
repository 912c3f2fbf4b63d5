//! Races around publishing.

use std::sync::Arc;
// Not loom's: it only records.
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use doclock::{
    DataStore, StoreOptions, Transaction, View, document::NodeSpec, lock::AcquireOptions,
};
use loom::thread;

use crate::model::{Actor, Model};

fn begin(store: &DataStore) -> Transaction {
    let options = AcquireOptions::new().no_timeout();
    store
        .request_transaction("writer")
        .options(options)
        .wait()
        .unwrap()
}

/// Writes the number of the next version into two nodes.
fn write(store: &DataStore) {
    let mut transaction = begin(store);
    let text = format!("{}", transaction.base().version() + 1);
    for id in ["left", "right"] {
        if transaction.contains(id) {
            transaction.set_text(id, &*text).unwrap();
        } else {
            let spec = NodeSpec::new("text").with_id(id).with_text(&*text);
            transaction.create(spec).unwrap();
        }
    }
    transaction.commit().unwrap();
}

/// Reads one version and returns its number.
fn read(store: &DataStore) -> u64 {
    let snapshot = store.snapshot();
    let text = |id: &str| snapshot.node(id).map(|node| node.text().to_string());
    let expected = (snapshot.version() > 0).then(|| snapshot.version().to_string());
    assert_eq!(text("left"), expected);
    assert_eq!(text("right"), expected);
    snapshot.version()
}

#[test]
fn store_a_snapshot_sees_all_or_nothing_of_a_commit() {
    let model = Model::new("snapshot against commit", None)
        .reaches(["before it"])
        .reaches_by("writer", "before it and after it")
        .reaches_by("writer", "after it");
    model.check(|run| {
        let store = DataStore::new();
        let writer = {
            let store = store.clone();
            run.spawn("writer", move || write(&store))
        };
        run.note(match [read(&store), read(&store)] {
            [0, 0] => "before it",
            [0, 1] => "before it and after it",
            [1, 1] => "after it",
            versions => panic!("versions went back: {versions:?}"),
        });
        let commits = writer.join().map_or(0, |()| 1);
        assert_eq!(read(&store), commits);
    });
}

#[test]
fn store_a_snapshot_sees_all_or_nothing_of_two_writers() {
    let model = Model::new("snapshot against 2 commits", None)
        .reaches(["before both"])
        .reaches_by("writers", "before both and between them")
        .reaches_by("writers", "before both and after both")
        .reaches_by("writers", "between them")
        .reaches_by("writers", "between them and after both")
        .reaches_by("writers", "after both");
    model.check(|run| {
        let store = DataStore::new();
        let events = store.subscribe();
        let writers = [(); 2].map(|()| {
            let store = store.clone();
            run.spawn("writers", move || write(&store))
        });
        run.note(match [read(&store), read(&store)] {
            [0, 0] => "before both",
            [0, 1] => "before both and between them",
            [0, 2] => "before both and after both",
            [1, 1] => "between them",
            [1, 2] => "between them and after both",
            [2, 2] => "after both",
            versions => panic!("versions went back: {versions:?}"),
        });
        let commits = writers.into_iter().filter_map(Actor::join).count() as u64;
        assert_eq!(read(&store), commits);
        let versions: Vec<_> = events
            .try_iter()
            .map(|event| event.commit.version)
            .collect();
        assert!(
            versions.into_iter().eq(1..=commits),
            "events come in the order of the commits"
        );
    });
}

#[test]
fn store_a_transaction_that_is_dropped_leaves_nothing() {
    let model = Model::new("rollback against commit", None)
        .reaches(["before the commit"])
        .reaches_by("writer", "after the commit");
    model.check(|run| {
        let store = DataStore::new();
        let writer = {
            let store = store.clone();
            run.spawn("writer", move || write(&store))
        };
        let mut transaction = begin(&store);
        run.note(match transaction.base().version() {
            0 => "before the commit",
            _ => "after the commit",
        });
        let lost = transaction.create(NodeSpec::new("text")).unwrap();
        drop(transaction);
        let commits = writer.join().map_or(0, |()| 1);
        assert_eq!(read(&store), commits);
        assert!(!store.snapshot().contains(&lost));
        assert!(!store.is_locked());
    });
}

#[test]
fn store_a_guard_dropped_under_an_open_transaction_releases_once() {
    let model = Model::new("guard against the transaction under it", None)
        .reaches_by("dropper", "dropped first")
        .reaches_by("dropper", "committed first");
    model.check(|run| {
        let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
        let guard = store.lock("holder").unwrap();
        let transaction = store.begin_under(guard.id()).unwrap();
        let committed = Arc::new(AtomicBool::new(false));
        let dropper = {
            let (run, committed) = (run.clone(), Arc::clone(&committed));
            run.clone().spawn("dropper", move || {
                run.note(match committed.load(SeqCst) {
                    true => "committed first",
                    false => "dropped first",
                });
                drop(guard);
            })
        };
        let waiter = {
            let store = store.clone();
            thread::spawn(move || write(&store))
        };
        transaction.commit().unwrap();
        committed.store(true, SeqCst);
        dropper.join();
        waiter.join().unwrap();
        let stats = store.lock_stats();
        assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
        assert_eq!((stats.total_acquisitions, stats.total_releases), (2, 2));
    });
}
