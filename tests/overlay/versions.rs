//! 9: versions.

use doclock::dsl::*;
use doclock::{TransactionManager, View, document::NodeSpec, transaction::Operation};

use crate::common::{Action, commit, store};
use crate::small_document;
use crate::traces::{Before, ENDINGS};

#[test]
fn overlay_09_versions_rise_by_one_per_commit() {
    let store = store();
    assert_eq!((store.version(), store.snapshot().version()), (0, 0));
    for version in 1..=100 {
        // Small and large commits are published in different ways.
        let nodes = if version % 10 == 0 { 200 } else { 1 };
        let committed = commit(&store, |transaction| {
            for _ in 0..nodes {
                transaction.create(NodeSpec::new("item")).unwrap();
            }
        });
        assert_eq!(committed.version, version);
        assert_eq!(
            (store.version(), store.snapshot().version()),
            (version, version)
        );
    }
}

#[test]
fn overlay_09_a_rolled_back_or_empty_transaction_changes_no_version_and_emits_nothing() {
    let store = small_document();
    let before = Before::of(&store);
    let manager = TransactionManager::new(store.clone());
    let unchanged = |version: u64| {
        assert_eq!(version, 1);
        before.compare(&store).unwrap();
    };

    let committed = store.begin("ann").unwrap().commit().unwrap();
    assert!(committed.changes.is_empty());
    unchanged(committed.version);
    let nothing: [Operation; 0] = [];
    unchanged(manager.execute(nothing).unwrap().version);
    unchanged(manager.execute([control("nowhere", [])]).unwrap().version);
    let lock = store.acquire_lock("ann").unwrap();
    let result = manager
        .execute_under(lock, [control("nowhere", [])])
        .unwrap();
    store.release_lock(lock).unwrap();
    unchanged(result.version);
    // The same for a transaction that only reads, and for one whose writes change nothing.
    let committed = commit(&store, |transaction| {
        assert_eq!(transaction.nodes().count(), 3);
        transaction.set_text("first", "Hello").unwrap();
    });
    unchanged(committed.version);
    for (_, end) in ENDINGS {
        end(
            &store,
            &[Action::SetText("first".to_owned(), "changed".to_owned())],
        );
        unchanged(store.version());
    }
    assert_eq!(
        commit(&store, |transaction| {
            transaction.set_text("first", "changed").unwrap();
        })
        .version,
        2,
        "the number was not used up"
    );
}

/// Programs catch panics around code that reads a snapshot.
#[test]
fn overlay_01_a_snapshot_may_be_read_where_a_panic_is_caught() {
    let snapshot = crate::common::store().snapshot();
    let read = std::panic::catch_unwind(|| snapshot.len());
    assert_eq!(read.unwrap(), 0);
}
