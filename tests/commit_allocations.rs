//! What a commit allocates. A separate binary, because all allocations of the process count.

use std::alloc::System;

use doclock::dsl::*;
use doclock::{DataStore, Editor, TransactionManager, document::NodeSpec};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How often each commit is measured. The least counts: the maps of a store grow now and then.
const COMMITS: usize = 50;

/// The observation of a transaction, which only the features `tracing` and `metrics` have together:
/// tests are built with both.
const OBSERVATION: usize = 1;

/// How often the cheapest of many equal calls uses the allocator, beside the observation.
fn allocations(mut call: impl FnMut()) -> usize {
    let used = || {
        let stats = ALLOCATOR.stats();
        stats.allocations + stats.reallocations
    };
    let costs = (0..COMMITS).map(|_| {
        let before = used();
        call();
        used() - before
    });
    costs.min().unwrap() - OBSERVATION
}

/// A store with the empty text `t`: what an edit allocates depends on the length of the text.
fn store() -> DataStore {
    let store = DataStore::new();
    let mut transaction = store.begin("setup").unwrap();
    let node = NodeSpec::new("text").with_id("t");
    transaction.create(node).unwrap();
    transaction.commit().unwrap();
    store
}

/// How many bytes the cheapest of many equal calls allocates.
fn bytes(mut call: impl FnMut()) -> usize {
    let used = || ALLOCATOR.stats().bytes_allocated;
    let costs = (0..COMMITS).map(|_| {
        let before = used();
        call();
        used() - before
    });
    costs.min().unwrap()
}

/// A result shares its operations and changes with the event, and the changes with the history. So
/// an event costs one more: a copy of the result without them.
#[test]
fn a_commit_allocates_neither_its_changes_again_nor_the_text() {
    let letter = || insert_text(0, "x").on("t");
    let letters = || [letter(), letter(), letter()];
    let by_hand = |store: &DataStore| {
        let mut transaction = store.begin("ann").unwrap();
        transaction.insert_text("t", 0, "x").unwrap();
        transaction.commit().unwrap()
    };

    let by_itself = store();
    assert_eq!(allocations(|| drop(by_hand(&by_itself))), 1);

    let manager = TransactionManager::new(store());
    assert_eq!(allocations(|| drop(manager.execute(letter()))), 3);
    assert_eq!(allocations(|| drop(manager.execute(letters()))), 9);

    let editor = Editor::new(store(), "ann");
    let mut at = 0..;
    let mut next = || insert_text(at.next().unwrap(), "x").on("t");
    assert_eq!(allocations(|| drop(editor.execute(next()))), 3, "typing");
    assert_eq!(
        allocations(|| drop(editor.execute(letter()))),
        6,
        "an entry"
    );
    assert_eq!(allocations(|| drop(editor.execute(letters()))), 11);
    // They need no record. One is for the place to scroll to.
    assert_eq!(allocations(|| drop(editor.undo().commit())), 11);
    assert_eq!(allocations(|| drop(editor.redo().commit())), 11);

    let followed = store();
    let events = followed.subscribe();
    let manager = TransactionManager::new(followed.clone());
    let event = || events.try_recv().unwrap();
    assert_eq!(
        allocations(|| drop((manager.execute(letter()), event()))),
        4
    );
    assert_eq!(
        allocations(|| drop((manager.execute(letters()), event()))),
        10
    );
    assert_eq!(allocations(|| drop((by_hand(&followed), event()))), 3);

    // A text that no other version has is spliced in place.
    let by_itself = store();
    let mut transaction = by_itself.begin("setup").unwrap();
    transaction.set_text("t", "x".repeat(100_000)).unwrap();
    transaction.commit().unwrap();
    let in_place = bytes(|| drop(by_hand(&by_itself)));
    assert!(in_place < 1_000, "{in_place}");
    let copied = bytes(|| {
        let kept = by_itself.snapshot();
        drop((by_hand(&by_itself), kept));
    });
    assert!(copied > 1_000, "{copied}");
}
