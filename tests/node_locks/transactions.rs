//! Transactions on nodes: their reads, their locks, and their failing commits (NODE LOCKS 3, 6).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use doclock::{
    CommitError, DataStore, Draft, Snapshot, StoreOptions, Transaction, TransactionManager, View,
    codes::{CodedError, Retry},
    document::{Change, EditError, NodeSpec, check},
    dsl::*,
    lock::{AcquireOptions, LockError, node::Scope},
    schema::{NodeType, Schema},
    transaction::{Operation, TextSpan, TransactionError, TransactionResult},
};

use super::{blocked, document, node, take, until_waiting};

fn on(store: &DataStore, owner: &str, scope: impl Into<Scope>) -> Transaction {
    let options = AcquireOptions::new().no_wait().unbound();
    store
        .request_transaction(owner)
        .on(scope)
        .options(options)
        .wait()
        .unwrap()
}

fn text(store: &DataStore, id: &str) -> String {
    store.snapshot().text_of(node(id)).unwrap()
}

#[test]
fn node_locks_06_two_transactions_on_two_nodes_commit_side_by_side() {
    let store = document();
    let events = store.subscribe();
    let mut ann = on(&store, "ann", Scope::new().write("a1"));
    let mut bob = on(&store, "bob", Scope::new().write("b1"));
    ann.set_text(node("a1"), "Ann").unwrap();
    bob.set_text(node("b1"), "Bob").unwrap();
    assert_eq!(
        text(&store, "a1"),
        "a1",
        "outside, nothing has happened yet"
    );
    let bob = bob.commit().unwrap();
    let ann = ann.commit().unwrap();
    assert_eq!(
        (bob.version, ann.version),
        (2, 3),
        "in the order of the commits"
    );
    assert_eq!(
        (text(&store, "a1"), text(&store, "b1")),
        ("Ann".into(), "Bob".into())
    );
    let told: Vec<_> = events
        .try_iter()
        .map(|event| event.commit.version)
        .collect();
    assert_eq!(told, [2, 3]);
}

/// The locks that a change acquires beyond the scope.
#[test]
fn node_locks_03_a_change_acquires_the_locks_that_it_needs() {
    type Edit = fn(&mut Draft) -> Result<(), EditError>;
    let edits: &[(&str, Edit, &[&str], &[&str])] = &[
        (
            "text",
            |it| it.set_text(node("a1"), "x"),
            &["a1"],
            &["a", "a2"],
        ),
        (
            "insert",
            |it| it.insert(NodeSpec::new("p"), node("a"), None).map(drop),
            &["a"],
            &["a1", "b"],
        ),
        (
            "delete",
            |it| it.delete(node("a1")),
            &["a", "a1"],
            &["a2", "b"],
        ),
        (
            "move",
            |it| it.move_node(node("a1"), node("b"), 0),
            &["a", "a1", "b"],
            &["a2", "b1", "root"],
        ),
        (
            "split",
            |it| {
                it.split_node(
                    node("a1"),
                    doclock::document::SplitPoint {
                        text: 1,
                        children: 0,
                    },
                    None,
                )
                .map(drop)
            },
            &["a", "a1"],
            &["a2"],
        ),
        (
            "join",
            |it| it.join_nodes(node("a1"), node("a2")),
            &["a", "a1", "a2"],
            &["b", "root"],
        ),
        (
            "split a section",
            |it| {
                it.split_node(
                    node("a"),
                    doclock::document::SplitPoint {
                        text: 0,
                        children: 1,
                    },
                    None,
                )
                .map(drop)
            },
            &["root", "a", "a1", "a2"],
            &["b"],
        ),
        (
            "new with an id",
            |it| it.create(NodeSpec::new("p").with_id("n")).map(drop),
            &["n"],
            &["a", "root"],
        ),
    ];
    for (name, edit, locked, free) in edits {
        let store = document();
        // So the transaction is not alone, and locks single nodes.
        let other = take(&store, "other", Scope::new().write("elsewhere"));
        let mut transaction = on(&store, "ann", Scope::new());
        edit(&mut transaction).unwrap_or_else(|error| panic!("{name}: {error}"));
        for id in *locked {
            assert!(blocked(&store, Scope::new().read(*id)), "{name} locks {id}");
        }
        for id in *free {
            assert!(
                !blocked(&store, Scope::new().write(*id)),
                "{name} leaves {id} alone"
            );
        }
        transaction
            .commit()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        drop(other);
        assert_eq!(store.node_locks().stats().entries, 0, "{name}");
    }
}

#[test]
fn node_locks_06_a_new_root_waits_for_another_new_root_alone() {
    let store = document();
    let mut ann = on(&store, "ann", Scope::new().write("a1"));
    ann.set_text(node("a1"), "x").unwrap();
    let mut bob = on(&store, "bob", Scope::new());
    bob.create(NodeSpec::new("document").with_id("other root"))
        .unwrap();
    bob.set_root(&node("other root")).unwrap();
    let mut carl = on(&store, "carl", Scope::new());
    let refused = carl.set_root(None);
    assert!(
        matches!(refused, Err(EditError::NotLocked { id: None, .. })),
        "{refused:?}"
    );
    assert!(matches!(
        carl.lock_error(),
        Some(LockError::WouldBlock { .. })
    ));
    bob.commit().unwrap();
    ann.commit().unwrap();
    assert_eq!(store.snapshot().root(), Some(&node("other root")));
}

#[test]
fn node_locks_06_a_commit_validates_reads_without_a_lock() {
    let store = document();
    let mut ann = on(&store, "ann", Scope::new().write("a1"));
    let seen = ann.text_of(node("b1")).unwrap();
    let mut bob = on(&store, "bob", Scope::new().write("b1"));
    bob.set_text(node("b1"), "changed").unwrap();
    bob.commit().unwrap();
    ann.set_text(node("a1"), seen).unwrap();
    let error = ann.commit().unwrap_err();
    let CommitError::Conflict {
        node: Some(id),
        version: 2,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(id, &node("b1"));
    assert_eq!(error.retry(), Retry::Now);
    assert_eq!(text(&store, "a1"), "a1", "rolled back whole");
    assert!(!store.is_locked());
}

/// The same with a lock: then the writer has to wait.
#[test]
fn node_locks_06_a_node_read_under_a_lock_does_not_change() {
    let store = document();
    let mut ann = on(&store, "ann", Scope::new().write("a1").read("b1"));
    let seen = ann.text_of(node("b1")).unwrap();
    assert!(blocked(&store, Scope::new().write("b1")));
    ann.set_text(node("a1"), seen).unwrap();
    ann.commit().unwrap();
    assert_eq!(text(&store, "a1"), "b1");
}

/// A missing node, the root, the set of all nodes and the version must not change after a
/// transaction has read them.
#[test]
fn node_locks_06_a_commit_validates_reads_of_missing_nodes_and_of_all_nodes() {
    type Read = fn(&Draft);
    let reads: [(&str, Read); 4] = [
        ("absence", |it| assert!(!it.contains(node("late")))),
        ("children", |it| {
            assert_eq!(it.node(node("a")).unwrap().children().len(), 2)
        }),
        ("all", |it| assert_eq!(it.nodes().count(), 7)),
        ("below", |it| {
            assert_eq!(it.descendants(node("root")).count(), 7)
        }),
    ];
    for (name, read) in reads {
        let store = document();
        let mut ann = on(&store, "ann", Scope::new().write("b1"));
        read(&ann);
        let mut bob = on(&store, "bob", Scope::new().write("a"));
        bob.insert(NodeSpec::new("p").with_id("late"), node("a"), None)
            .unwrap();
        bob.commit().unwrap();
        ann.set_text(node("b1"), "x").unwrap();
        let error = ann.commit().unwrap_err();
        assert!(
            matches!(error, CommitError::Conflict { .. }),
            "{name}: {error}"
        );
    }
}

/// A transaction that reads one node twice, with a lock in between that advances its base, must not
/// see two states.
#[test]
fn node_locks_06_a_transaction_never_sees_a_node_in_two_states() {
    let store = document();
    let mut ann = on(&store, "ann", Scope::new());
    assert_eq!(ann.text_of(node("b1")).unwrap(), "b1");
    let set = |to: &str| {
        let mut bob = on(&store, "bob", Scope::new().write("b1"));
        bob.set_text(node("b1"), to).unwrap();
        bob.commit().unwrap();
    };
    set("other");
    ann.set_text(node("a1"), "x").unwrap();
    assert_eq!(
        ann.text_of(node("b1")).unwrap(),
        "other",
        "it has moved on with its lock"
    );
    // Restored to the first value.
    set("b1");
    assert!(matches!(ann.commit(), Err(CommitError::Conflict { .. })));
}

/// Of two transactions that each read what the other writes, only one can commit: the other is
/// outdated, in either order.
#[test]
fn node_locks_06_write_skew_is_refused() {
    let store = document();
    let mut ann = on(&store, "ann", Scope::new().write("a1"));
    let mut bob = on(&store, "bob", Scope::new().write("b1"));
    let (for_ann, for_bob) = (
        ann.text_of(node("b1")).unwrap(),
        bob.text_of(node("a1")).unwrap(),
    );
    ann.set_text(node("a1"), for_ann).unwrap();
    bob.set_text(node("b1"), for_bob).unwrap();
    ann.commit().unwrap();
    assert!(matches!(bob.commit(), Err(CommitError::Conflict { .. })));
    assert_eq!(
        (text(&store, "a1"), text(&store, "b1")),
        ("b1".into(), "b1".into())
    );
}

#[test]
fn node_locks_06_a_savepoint_survives_an_advance_of_the_base_version() {
    let store = document();
    let mut ann = on(&store, "ann", Scope::new().write("a1"));
    ann.set_text(node("a1"), "kept").unwrap();
    let savepoint = ann.savepoint();
    let mut bob = on(&store, "bob", Scope::new());
    bob.create(NodeSpec::new("document").with_id("new"))
        .unwrap();
    bob.set_root(&node("new")).unwrap();
    bob.commit().unwrap();
    ann.set_text(node("a2"), "undone").unwrap();
    ann.rollback_to(savepoint).unwrap();
    ann.commit().unwrap();
    assert_eq!(
        (text(&store, "a1"), text(&store, "a2")),
        ("kept".into(), "a2".into())
    );
    assert_eq!(
        store.snapshot().root(),
        Some(&node("new")),
        "what others did stays"
    );
}

/// After a failed lock, a transaction can only be rolled back, and the error has the cause.
#[test]
fn node_locks_04_after_a_failed_lock_a_transaction_cannot_be_committed() {
    let store = document();
    let _other = take(&store, "other", Scope::new().write("b1"));
    let mut ann = on(&store, "ann", Scope::new().write("a1"));
    ann.set_text(node("a1"), "lost").unwrap();
    let error = ann.set_text(node("b1"), "x").unwrap_err();
    assert_eq!(error.to_string(), "node b1 could not be locked");
    assert!(ann.set_text(node("a2"), "x").is_err(), "nor can it go on");
    assert!(matches!(ann.commit(), Err(CommitError::NotLocked(_))));
    assert_eq!(text(&store, "a1"), "a1");
    assert!(!blocked(&store, Scope::new().write("a1")));
}

/// A batch names its operations and not its nodes, so its locks are those of its changes.
#[test]
fn node_locks_03_a_batch_locks_what_it_would_change_and_read() {
    type Batch = fn() -> Vec<Operation>;
    let batches: &[(&str, Batch, &[&str], &[&str])] = &[
        (
            "an Enter, which divides a section",
            || vec![insert_paragraph(1).on("a1")],
            &["root", "a", "a1", "a2"],
            &["b", "b1"],
        ),
        (
            "a copy",
            || vec![copy_node_to("b", None).on("a1")],
            &["a1", "b"],
            &["a2", "b1"],
        ),
        (
            "a range over two paragraphs",
            || vec![delete_range(TextSpan::to(1, "a2", 1)).on("a1")],
            &["a", "a1", "a2"],
            &["b", "b1"],
        ),
        (
            "an operation that fails, after another",
            || vec![set_text("x").on("a1"), delete_node().on("nowhere")],
            &["a1", "nowhere"],
            &["a2", "b"],
        ),
    ];
    let no_wait = || AcquireOptions::new().no_wait();
    for (name, batch, locked, free) in batches {
        let refused = |held: Scope| {
            let store = document();
            let manager = TransactionManager::for_owner(store.clone(), "ann").with_node_locks(1);
            // So the batch is not alone, and locks single nodes.
            let _other = take(&store, "other", held);
            let result = manager.transaction(batch()).options(no_wait()).commit();
            matches!(
                result,
                Err(TransactionError::Lock(LockError::WouldBlock { .. }))
            )
        };
        for id in *locked {
            assert!(refused(Scope::new().write(*id)), "{name} locks {id}");
        }
        for id in *free {
            assert!(!refused(Scope::new().write(*id)), "{name} leaves {id}");
        }
    }
}

#[test]
fn node_locks_03_code_runs_once_and_finds_the_nodes_of_the_operations_before_it_locked() {
    let store = document();
    let manager = TransactionManager::for_owner(store.clone(), "ann").with_node_locks(1);
    let calls = Arc::new(AtomicUsize::new(0));
    let code = {
        let (store, calls) = (store.clone(), calls.clone());
        move |it: &mut Draft| {
            calls.fetch_add(1, Ordering::Relaxed);
            assert!(blocked(&store, Scope::new().read("a1")));
            it.set_text("b1", "x")
        }
    };
    let batch = [set_text("x").on("a1"), op(code), set_text("x").on("a2")];
    manager.execute(batch).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// Ann's batch waits for Bob's transaction, which is committed then. Returns the document and her
/// result.
fn behind_bob(
    bob: impl FnOnce(&mut Draft) -> Result<(), EditError>,
    batch: Vec<Operation>,
) -> (Snapshot, Result<TransactionResult, TransactionError>) {
    let store = DataStore::new();
    let chain = |ids: [&str; 3]| {
        let [top, middle, bottom] = ids.map(|id| NodeSpec::new("section").with_id(id));
        top.with_children([middle.with_children([bottom])])
    };
    let mut setup = store.begin("setup").unwrap();
    setup.create(chain(["p", "a", "a1"])).unwrap();
    setup.create(chain(["q", "b", "b1"])).unwrap();
    setup
        .create(NodeSpec::new("section").with_id("x").with_text("old"))
        .unwrap();
    setup.commit().unwrap();
    let mut transaction = on(&store, "bob", Scope::new());
    bob(&mut transaction).unwrap();
    let ann = {
        let manager = TransactionManager::for_owner(store.clone(), "ann").with_node_locks(1);
        thread::spawn(move || manager.execute(batch))
    };
    until_waiting(&store.node_locks(), 1);
    transaction.commit().unwrap();
    let result = ann.join().unwrap();
    let document = store.snapshot();
    assert_eq!(check(&document), Ok(()));
    (document, result)
}

/// Once a batch kept what it did before it waited, unless a node that it touched was changed: it
/// put a node below itself, deleted the root, and left a text that was to be replaced.
#[test]
fn node_locks_06_a_batch_that_waited_for_its_nodes_runs_again() {
    let (_, result) = behind_bob(
        |bob| bob.move_node("b", "a1", None),
        vec![move_node("b1", None).on("a")],
    );
    let error = result.unwrap_err().to_string();
    assert!(error.contains("in its subtree"), "{error}");

    let x = node("x");
    let (document, result) = behind_bob(|bob| bob.set_root(&x), vec![delete_node().on("x")]);
    assert!(result.is_err());
    assert_eq!(document.root(), Some(&x));

    let (document, result) = behind_bob(|bob| bob.delete("x"), vec![set_root().on("x")]);
    assert!(result.is_err());
    assert_eq!(document.root(), None);

    let (_, result) = behind_bob(|bob| bob.set_root(&node("p")), vec![set_root().on("x")]);
    let changes = result.unwrap().changes;
    let [Change::SetRoot { before, .. }] = &changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!(before.clone(), Some(node("p")), "an undo restores it");

    let (document, result) = behind_bob(
        |bob| bob.set_text("x", "of bob"),
        vec![set_text("old").on("x")],
    );
    assert!(result.unwrap().changed);
    assert_eq!(document.text_of("x").unwrap(), "old");
}

/// The base of a transaction is older than its locks.
#[test]
fn node_locks_03_an_edit_that_would_fail_or_change_nothing_is_planned_again_when_it_is_locked() {
    let store = document();
    let mut bob = on(&store, "bob", Scope::new());
    let mut ann = on(&store, "ann", Scope::new());
    ann.insert(NodeSpec::new("p").with_id("new"), "b", None)
        .unwrap();
    ann.set_text("a1", "of ann").unwrap();
    ann.commit().unwrap();
    bob.set_text("new", "of bob").unwrap();
    bob.set_text("a1", "a1").unwrap();
    bob.commit().unwrap();
    assert_eq!(text(&store, "new"), "of bob");
    assert_eq!(text(&store, "a1"), "a1", "not what it was when Bob began");
}

#[test]
fn node_locks_03_batches_lock_their_nodes_beforehand_and_run_in_parallel() {
    let store = document();
    let manager = TransactionManager::for_owner(store.clone(), "ann").with_node_locks(1);
    let _other = take(&store, "other", Scope::new().write_subtree("b"));
    // While another owner has locked a whole section.
    let done = manager
        .execute([
            insert_text(0, ">").on("a1"),
            add_child(text_node("paragraph", "new").with_id("a3"), None).on("a"),
            set_text("also new").on("a3"),
        ])
        .unwrap();
    assert_eq!((done.version, text(&store, "a1")), (2, ">a1".into()));
    let options = AcquireOptions::new().no_wait();
    let error = manager
        .transaction([set_text("x").on("b2")])
        .options(options.clone())
        .commit()
        .unwrap_err();
    assert!(
        matches!(error, TransactionError::Lock(LockError::WouldBlock { .. })),
        "{error}"
    );
    // The locks of code are known only when it runs.
    let code = op(|transaction: &mut Draft| transaction.set_text("b2", "x"));
    let error = manager
        .transaction([set_text("x").on("a1"), code])
        .options(options)
        .commit()
        .unwrap_err();
    assert!(
        matches!(error, TransactionError::Lock(LockError::WouldBlock { .. })),
        "{error}"
    );
    assert_eq!(text(&store, "a1"), ">a1", "rolled back whole");
}

/// Batches that name the same nodes in different orders, with code that locks step by step, and
/// transactions on the whole document. None fails, because batches are retried, and no increment is
/// lost.
#[test]
fn node_locks_06_batches_code_and_document_transactions_lose_no_update() {
    const THREADS: usize = 6;
    let rounds = if cfg!(debug_assertions) { 100 } else { 1_000 };
    let store = document();
    let start = Arc::new(Barrier::new(THREADS));
    let threads = (0..THREADS).map(|nth| {
        let (store, start) = (store.clone(), start.clone());
        thread::spawn(move || {
            let manager = TransactionManager::for_owner(store, "worker");
            let manager = if nth == 0 {
                manager
            } else {
                manager.with_node_locks(1_000)
            };
            start.wait();
            for round in 0..rounds {
                let mut ids = ["a1", "a2", "b1", "b2"];
                ids.rotate_left((nth + round) % 4);
                let add = move |transaction: &mut Draft| -> Result<(), EditError> {
                    for id in &ids[..2] {
                        let len = transaction
                            .node(node(id))
                            .map_or(0, |node| node.text().len());
                        transaction.insert_text(node(id), len, "+")?;
                    }
                    Ok(())
                };
                let list = match nth % 2 {
                    0 => ids[..2]
                        .iter()
                        .map(|id| insert_text(0, "+").on(*id))
                        .collect(),
                    _ => vec![op(add)],
                };
                manager.execute(list).unwrap();
            }
        })
    });
    threads
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let texts = ["a1", "a2", "b1", "b2"].map(|id| text(&store, id));
    let count: usize = texts.iter().map(|text| text.matches('+').count()).sum();
    assert_eq!(count, THREADS * rounds * 2);
    assert_eq!(store.version(), 1 + (THREADS * rounds) as u64);
    let stats = store.node_locks().stats();
    assert_eq!((stats.entries, stats.holders, stats.waiting), (0, 0, 0));
}

#[test]
fn node_locks_06_one_of_several_batches_with_the_same_key_runs() {
    let store = document();
    let start = Arc::new(Barrier::new(4));
    let threads = (0..4).map(|nth| {
        let (store, start) = (store.clone(), start.clone());
        thread::spawn(move || {
            let manager = TransactionManager::for_owner(store, "payer").with_node_locks(3);
            // On different nodes, so nothing else serializes them.
            let list = [insert_text(0, "!").on(["a1", "a2", "b1", "b2"][nth])];
            let key =
                doclock::transaction::IdempotencyKey::new("invoice 7").accept_other_operations();
            start.wait();
            manager.transaction(list).idempotent(key).commit().unwrap()
        })
    });
    let results: Vec<_> = threads
        .collect::<Vec<_>>()
        .into_iter()
        .map(|it| it.join().unwrap())
        .collect();
    let first = results.iter().filter(|result| !result.repeated).count();
    assert_eq!((first, store.version()), (1, 2));
    assert!(results.iter().all(|result| result.version == 2));
}

/// Each change alone leaves a pair that the schema allows; both would not.
#[test]
fn node_locks_06_the_schema_applies_to_the_combined_result_of_two_commits() {
    let pair = NodeType::new().content("one two | two one | one one");
    let schema = Schema::builder()
        .node("pair", pair)
        .node("one", NodeType::new())
        .node("two", NodeType::new())
        .build()
        .unwrap();
    let store = DataStore::with_options(StoreOptions::new().schema(schema));
    let mut transaction = store.begin("setup").unwrap();
    let halves = ["left", "right"].map(|id| NodeSpec::new("one").with_id(id));
    transaction
        .create(NodeSpec::new("pair").with_children(halves))
        .unwrap();
    transaction.commit().unwrap();
    let mut ann = on(&store, "ann", Scope::new().write("left"));
    let mut bob = on(&store, "bob", Scope::new().write("right"));
    ann.set_type(node("left"), "two").unwrap();
    bob.set_type(node("right"), "two").unwrap();
    ann.commit().unwrap();
    assert!(matches!(bob.commit(), Err(CommitError::Schema(_))));
    assert_eq!(store.snapshot().node(node("right")).unwrap().kind(), "one");
}
