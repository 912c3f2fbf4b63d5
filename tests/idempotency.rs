//! Transactions submitted more than once: TRANSACTION 7.

mod common;

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::{PATIENCE, SESSION, commit, id, image, store, text};
use doclock::dsl::*;
use doclock::{
    DataStore, Draft, Editor, FencingToken, StoreOptions, TransactionManager, View,
    codes::{CodedError, Retry},
    document::{EditError, Limit, Limits, Selection},
    history::UndoError,
    lock::AcquireOptions,
    transaction::{
        Hooks, IdempotencyKey, IdempotencyMismatch, IntoOperations, Operation, Refusal,
        TransactionError, TransactionResult,
    },
};

/// A store with the text node `note` (`Hello`), at version 1.
fn with_note(store: DataStore) -> DataStore {
    let note = text_node("inline-text", "Hello").with_id("note");
    commit(&store, |on| drop(on.create(note).unwrap()));
    store
}

fn manager(store: &DataStore) -> TransactionManager {
    TransactionManager::new(store.clone())
}

fn once(on: &TransactionManager, key: &str, operation: Operation) -> TransactionResult {
    on.transaction([operation])
        .idempotent(key)
        .commit()
        .unwrap()
}

fn type_in(text: &str) -> Operation {
    insert_text(0, text).on("note")
}

/// An operation that counts its runs.
fn counting(count: &Arc<AtomicUsize>) -> Operation {
    let count = Arc::clone(count);
    op(move |transaction| {
        count.fetch_add(1, Ordering::Relaxed);
        transaction.insert_text(id("note"), 0, "+")
    })
}

/// Asserts that the second result repeats the first.
#[track_caller]
fn assert_repeats(first: &TransactionResult, mut second: TransactionResult) {
    assert!(!first.repeated && second.repeated);
    assert!(second.changes.is_empty(), "a receipt keeps no changes");
    second.repeated = false;
    second.changes = first.changes.clone();
    assert_eq!(*first, second);
}

#[test]
fn transaction_07_a_repeated_key_returns_the_first_result_and_does_nothing() {
    let (store, count) = (with_note(store()), Arc::default());
    let hooks = Hooks::new();
    let hooked: Arc<AtomicUsize> = Arc::default();
    let (before, after) = (hooked.clone(), hooked.clone());
    hooks.before(move |_, operations| {
        before.fetch_add(1, Ordering::Relaxed);
        Ok(operations)
    });
    hooks.after(move |_| {
        after.fetch_add(1, Ordering::Relaxed);
    });
    let editor = Editor::new(store.clone(), "ann").with_hooks(hooks);
    editor.select(Selection::caret("note", 5)).unwrap();
    let submit = || {
        let new = create(element("list", [element("item", [])]));
        transaction(&editor, [counting(&count), new])
            .idempotent("upload 1")
            .commit()
            .unwrap()
    };
    let first = submit();
    assert_eq!((first.version, first.operations.len()), (2, 2));
    assert_eq!(first.selection_after, Some(Selection::caret("note", 6)));

    transaction(&editor, [type_in("!")]).commit().unwrap();
    let (events, image_before) = (store.subscribe(), image(&store.snapshot()));
    let selected = editor.selection();
    for _ in 0..3 {
        assert_repeats(&first, submit());
    }
    assert_eq!(
        (image(&store.snapshot()), store.version()),
        (image_before, 3)
    );
    assert!(events.try_recv().is_err());
    assert_eq!(editor.selection(), selected);
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(
        hooked.load(Ordering::Relaxed),
        4,
        "two hooks for two transactions"
    );
    assert!(!store.is_locked());
}

#[test]
fn transaction_07_a_client_that_sends_no_key_repeats_nothing() {
    let store = with_note(store());
    let editor = Editor::new(store.clone(), "ann");
    let edit = |key: Option<&str>| {
        let edit = editor.transaction([type_in("a")]).idempotent(key);
        edit.commit().unwrap()
    };
    let undo = |key: Option<String>| editor.undo().idempotent(key).commit().unwrap();
    let first = edit(Some("key"));
    assert_repeats(&first, edit(Some("key")));
    assert!(!edit(None).repeated && !edit(None).repeated);
    let undone = undo(Some("undo".to_owned()));
    assert_repeats(&undone, undo(Some("undo".to_owned())));
    assert!(!undo(None).repeated);
    assert_eq!(store.version(), 6);
}

#[test]
fn transaction_07_a_key_returns_its_first_result_for_any_owner() {
    let store = with_note(store());
    let first = once(&manager(&store), "key", type_in("a"));
    let other = TransactionManager::for_owner(store.clone(), "bob");
    assert_repeats(&first, once(&other, "key", type_in("a")));
    let key = IdempotencyKey::new("key").accept_other_operations();
    let options = AcquireOptions::new();
    let result = other
        .transaction([delete_node().on("nowhere")])
        .idempotent(key.clone())
        .options(options)
        .commit();
    assert_repeats(&first, result.unwrap());
    let editor = Editor::new(store.clone(), "carl");
    editor.select(Selection::caret("note", 0)).unwrap();
    let result = transaction(&editor, [type_in("b")])
        .idempotent(key)
        .commit();
    assert_repeats(&first, result.unwrap());
    assert!(!once(&other, "another key", type_in("c")).repeated);
    assert_eq!(text(&store.snapshot(), "note"), "caHello");
}

/// Asserts that the error names this key and its first transaction.
#[track_caller]
fn assert_mismatch(
    outcome: Result<TransactionResult, TransactionError>,
    of: &str,
    first: &TransactionResult,
) {
    let error = outcome.unwrap_err();
    let TransactionError::IdempotencyMismatch(IdempotencyMismatch {
        key,
        transaction_id,
        version,
        ..
    }) = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (key.as_str(), *transaction_id, *version),
        (of, first.transaction_id, first.version)
    );
    assert_eq!(error.retry(), Retry::No);
}

/// A payment with the key of another one got the receipt of that one, and was never made.
#[test]
fn transaction_07_a_key_that_returns_with_other_operations_is_refused() {
    let store = with_note(store());
    let first = once(&manager(&store), "key", type_in("a"));
    let before = image(&store.snapshot());
    let _lock = store.lock("other").unwrap();
    let others = [
        vec![type_in("b")],
        vec![type_in("a"), type_in("a")],
        vec![insert_text(1, "a").on("note")],
        vec![type_in("a").named("alias")],
        vec![op(|_| Ok::<_, doclock::document::EditError>(()))],
    ];
    for other in others {
        let outcome = manager(&store)
            .transaction(other)
            .idempotent("key")
            .commit();
        assert_mismatch(outcome, "key", &first);
    }
    let editor = Editor::new(store.clone(), "carl");
    let outcome = transaction(&editor, [type_in("b")])
        .idempotent("key")
        .commit();
    assert_mismatch(outcome, "key", &first);
    let on_nodes = manager(&store).with_node_locks(2);
    let outcome = on_nodes
        .transaction([type_in("b")])
        .idempotent("key")
        .commit();
    let error = outcome.as_ref().unwrap_err().to_string();
    let id = first.transaction_id;
    assert_eq!(
        error,
        format!(
            "the key \"key\" belongs to transaction {id} (version 2), which ran something else"
        )
    );
    assert_mismatch(outcome, "key", &first);
    assert_repeats(&first, once(&manager(&store), "key", type_in("a")));
    assert_eq!(image(&store.snapshot()), before);
}

/// The digest covers the submitted operations, so neither rewriting hooks nor nesting matter.
#[test]
fn transaction_07_a_key_compares_the_submitted_operations() {
    let store = with_note(store());
    let (hooks, count) = (Hooks::new(), AtomicUsize::new(0));
    hooks.before(move |_, mut operations| {
        let nth = count.fetch_add(1, Ordering::Relaxed);
        operations.push(type_in(&nth.to_string()));
        Ok(operations)
    });
    let manager = manager(&store).with_hooks(hooks);
    let options = AcquireOptions::new;
    let first = manager
        .transaction([type_in("a"), type_in("b")])
        .idempotent("key")
        .options(options())
        .commit();
    let nested = (vec![type_in("a")], [[type_in("b")]]);
    let again = manager
        .transaction(nested)
        .idempotent("key")
        .options(options())
        .commit()
        .unwrap();
    assert_repeats(&first.unwrap(), again);
}

/// Of several waiting batches with one key and different operations, one runs, and the others fail
/// at the head of the queue.
#[test]
fn transaction_07_a_mismatch_also_fails_batches_that_waited() {
    let store = with_note(store());
    for on_nodes in [false, true] {
        let manager = match on_nodes {
            true => manager(&store).with_node_locks(9),
            false => manager(&store),
        };
        let key = format!("key {on_nodes}");
        let start = Barrier::new(4);
        let outcomes: Vec<_> = thread::scope(|scope| {
            let (manager, key, start) = (&manager, &key, &start);
            let submit = |nth: usize| {
                scope.spawn(move || {
                    start.wait();
                    let operation = type_in(&nth.to_string());
                    manager.transaction([operation]).idempotent(key).commit()
                })
            };
            let threads: Vec<_> = (0..4).map(submit).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let first = outcomes.iter().find_map(|outcome| outcome.as_ref().ok());
        let first = first.unwrap().clone();
        let refused: Vec<_> = outcomes.into_iter().filter(Result::is_err).collect();
        assert_eq!(refused.len(), 3);
        for outcome in refused {
            assert_mismatch(outcome, &key, &first);
        }
    }
    assert_eq!(store.version(), 3);
}

#[test]
fn transaction_07_a_transaction_that_failed_leaves_no_record() {
    let store = with_note(store());
    let hooks = Hooks::new();
    let on = manager(&store).with_hooks(hooks.clone());
    let submit = |operation: Operation| {
        on.transaction([type_in("x"), operation])
            .idempotent("key")
            .options(AcquireOptions::new().no_wait())
            .commit()
    };
    submit(delete_node().on("nowhere")).unwrap_err();
    submit(op(|_| -> Result<(), doclock::document::EditError> {
        panic!("no")
    }))
    .unwrap_err();
    let refusing = hooks.before(|_, _| Err(Refusal::new("no")));
    submit(type_in("y")).unwrap_err();
    hooks.remove(refusing);
    let lock = store.lock("other").unwrap();
    submit(type_in("y")).unwrap_err();
    drop(lock);
    assert_eq!(store.version(), 1);

    let result = submit(type_in("y")).unwrap();
    assert!(!result.repeated && submit(type_in("y")).unwrap().repeated);
    assert_eq!(text(&store.snapshot(), "note"), "yxHello");
}

#[test]
fn transaction_07_a_transaction_that_changed_nothing_leaves_a_record() {
    let (store, count) = (with_note(store()), Arc::new(AtomicUsize::new(0)));
    let manager = manager(&store);
    let looks = Arc::clone(&count);
    let look = op(move |_| {
        looks.fetch_add(1, Ordering::Relaxed);
        Ok::<_, doclock::document::EditError>(())
    });
    let first = once(&manager, "key", look.clone());
    assert_eq!((first.version, first.changed), (1, false));
    once(&manager, "another key", type_in("x"));
    assert_repeats(&first, once(&manager, "key", look));
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn transaction_07_an_empty_batch_does_not_use_up_its_key() {
    let store = with_note(store());
    let manager = manager(&store);
    let nothing = once(&manager, "key", control("note", []));
    assert!(!nothing.repeated);
    let first = once(&manager, "key", type_in("x"));
    assert!(first.changed && !first.repeated);
    assert_repeats(&first, once(&manager, "key", control("note", [])));
}

#[test]
fn transaction_07_a_repetition_does_not_wait() {
    let store = with_note(store());
    let first = once(&manager(&store), "key", type_in("x"));
    let _lock = store.lock("other").unwrap();
    assert_repeats(&first, once(&manager(&store), "key", type_in("x")));
}

#[test]
fn transaction_07_a_commit_carries_its_key() {
    let store = with_note(store());
    let events = store.subscribe();
    once(&manager(&store), "key", type_in("x"));
    manager(&store).execute([type_in("y")]).unwrap();
    let commits: Vec<_> = events.try_iter().map(|event| event.commit).collect();
    let keys: Vec<_> = commits
        .iter()
        .map(|commit| commit.idempotency_key.as_deref())
        .collect();
    assert_eq!(keys, [Some("key"), None]);
    let json: Vec<_> = commits
        .iter()
        .map(|commit| serde_json::to_value(&**commit).unwrap())
        .collect();
    assert_eq!(
        (&json[0]["idempotencyKey"], json[1].get("idempotencyKey")),
        (&"key".into(), None)
    );
    for (commit, json) in commits.iter().zip(json) {
        assert_eq!(
            **commit,
            serde_json::from_value::<TransactionResult>(json).unwrap()
        );
    }
}

#[test]
fn transaction_07_the_set_number_of_keys_is_remembered_oldest_dropped_first() {
    let remembering = |keys| {
        with_note(DataStore::with_options(
            StoreOptions::new().session(SESSION).remembered_keys(keys),
        ))
    };
    let store = remembering(3);
    let manager = manager(&store);
    let repeats = |key: &str| once(&manager, key, type_in("x")).repeated;
    for key in ["1", "2", "3"] {
        assert!(!repeats(key));
    }
    // A repetition does not renew a key.
    for key in ["1", "2", "3", "1"] {
        assert!(repeats(key));
    }
    assert!(!repeats("4"));
    assert!(repeats("2") && repeats("3") && repeats("4"));
    assert!(!repeats("1"), "the oldest was forgotten");
    assert!(repeats("3") && repeats("4") && repeats("1"));
    assert!(!repeats("2"));

    let store = remembering(0);
    let manager = self::manager(&store);
    assert!(!once(&manager, "key", type_in("x")).repeated);
    assert!(!once(&manager, "key", type_in("x")).repeated);
}

#[test]
fn transaction_07_ten_thousand_keys_are_remembered_unless_set() {
    let store = with_note(store());
    let manager = manager(&store);
    let repeats = |key: usize| once(&manager, &key.to_string(), set_text("x").on("note")).repeated;
    assert!(!(0..10_000).any(repeats));
    assert!(repeats(0));
    assert!(!repeats(10_000));
    assert!(repeats(1));
    assert!(!repeats(0));
}

/// Several threads submit `operations` under one key at once, many times.
fn race(rounds: usize, operations: impl Fn(&Arc<AtomicUsize>) -> Vec<Operation> + Sync) {
    const THREADS: usize = 4;
    let (store, count) = (with_note(store()), Arc::default());
    store.set_lock_timeout(PATIENCE);
    let manager = manager(&store);
    for round in 0..rounds {
        let start = Barrier::new(THREADS);
        let submit = || {
            let operations = operations(&count);
            start.wait();
            let key = format!("key {round}");
            let result = manager
                .transaction(operations)
                .idempotent(key)
                .commit()
                .unwrap();
            assert!(store.version() >= result.version, "told before the fact");
            result
        };
        let results: Vec<TransactionResult> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(submit)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let (repeated, first): (Vec<_>, Vec<_>) =
            results.into_iter().partition(|result| result.repeated);
        assert_eq!(first.len(), 1, "round {round}");
        repeated
            .into_iter()
            .for_each(|repeated| assert_repeats(&first[0], repeated));
    }
    assert_eq!(count.load(Ordering::Relaxed), rounds);
    assert_eq!(store.version(), 1 + rounds as u64);
    assert_eq!(
        store.snapshot().node(id("note")).unwrap().text().len(),
        5 + rounds
    );
}

#[test]
fn transaction_07_of_several_submitters_with_one_key_exactly_one_is_carried_out() {
    race(500, |count| vec![counting(count)]);
}

#[test]
fn transaction_07_exactly_one_is_carried_out_also_of_large_transactions() {
    race(50, |count| {
        let items = (0..100).map(|_| element("item", []));
        vec![counting(count), create(element("list", items))]
    });
}

#[test]
fn transaction_07_a_receipt_is_visible_only_with_its_commit() {
    let store = with_note(store());
    let manager = manager(&store);
    for round in 0..200 {
        let (start, key) = (Barrier::new(2), format!("key {round}"));
        let write = || {
            start.wait();
            once(&manager, &key, set_text(format!("{round}")).on("note"))
        };
        let (writer, found) = thread::scope(|scope| {
            let writer = scope.spawn(write);
            start.wait();
            // A batch without operations only looks up the receipt, and does not wait for the lock.
            let mut looks = std::iter::repeat_with(|| {
                thread::yield_now();
                (
                    writer.is_finished(),
                    once(&manager, &key, control("note", [])),
                )
            });
            let found = looks.find(|(finished, look)| *finished || look.repeated);
            let text = text(&store.snapshot(), "note");
            (writer.join().unwrap(), found.map(|(_, look)| (look, text)))
        });
        let (repeated, text) = found.unwrap();
        assert_repeats(&writer, repeated);
        assert_eq!(text, format!("{round}"));
    }
}

// --- Undo and redo ---

/// An editor with three entries: `a`, `ab`, `abc`.
fn with_entries(store: &DataStore) -> Editor {
    let editor = Editor::new(store.clone(), "ann");
    for text in ["a", "ab", "abc"] {
        editor.execute(set_text(text).on("note")).unwrap();
    }
    editor
}

fn undo_once(editor: &Editor, key: &str) -> Result<TransactionResult, UndoError> {
    editor.undo().idempotent(key).commit()
}

fn redo_once(editor: &Editor, key: &str) -> Result<TransactionResult, UndoError> {
    editor.redo().idempotent(key).commit()
}

#[test]
fn transaction_07_a_repeated_undo_or_redo_returns_the_first_result_and_does_nothing() {
    let store = with_note(store());
    let runs: Arc<AtomicUsize> = Arc::default();
    let hooks = Hooks::new();
    let ran = Arc::clone(&runs);
    hooks.after(move |_| {
        ran.fetch_add(1, Ordering::Relaxed);
    });
    let editor = with_entries(&store).with_hooks(hooks);
    editor.select(Selection::caret("note", 1)).unwrap();
    let undone = undo_once(&editor, "undo").unwrap();
    let redone = redo_once(&editor, "redo").unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(text(&store.snapshot(), "note"), "abc");

    let selection = Selection::caret("note", 3);
    editor.select(selection.clone()).unwrap();
    let events = store.subscribe();
    for _ in 0..3 {
        assert_repeats(&undone, undo_once(&editor, "undo").unwrap());
        assert_repeats(&redone, redo_once(&editor, "redo").unwrap());
    }
    assert_eq!(text(&store.snapshot(), "note"), "abc");
    assert!(events.try_recv().is_err());
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!((editor.undo_depth(), editor.redo_depth()), (3, 0));
    assert_eq!(editor.selection(), Some(selection));

    // The connection broke, and with it the session ended.
    drop(editor);
    let reconnected = Editor::new(store.clone(), "ann");
    assert_repeats(&undone, undo_once(&reconnected, "undo").unwrap());
    assert!(!store.is_locked());
}

#[test]
fn transaction_07_a_repeated_undo_does_not_wait() {
    let store = with_note(store());
    let editor = with_entries(&store);
    let first = undo_once(&editor, "undo").unwrap();
    let _guard = store.lock("bob").unwrap();
    let again = editor
        .undo()
        .idempotent("undo")
        .options(AcquireOptions::new().no_wait())
        .commit();
    assert_repeats(&first, again.unwrap());
}

#[test]
fn transaction_07_of_several_undos_with_one_key_exactly_one_is_carried_out() {
    const CALLS: usize = 6;
    let store = with_note(store());
    let editor = with_entries(&store);
    editor.undo().commit().unwrap();
    editor.undo().commit().unwrap();
    // The last entry: the calls after the first find an empty history.
    for redo in [false, true] {
        let call = || match redo {
            false => undo_once(&editor, "undo").unwrap(),
            true => editor.redo().idempotent("redo").commit().unwrap(),
        };
        let version = store.version();
        let guard = store.lock("bob").unwrap();
        let results: Vec<TransactionResult> = thread::scope(|scope| {
            let calls: Vec<_> = (0..CALLS).map(|_| scope.spawn(call)).collect();
            while store.queue_length() < CALLS {
                thread::yield_now();
            }
            drop(guard);
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let (first, repeated): (Vec<_>, Vec<_>) =
            results.into_iter().partition(|result| !result.repeated);
        assert_eq!((first.len(), repeated.len()), (1, CALLS - 1));
        for result in repeated {
            assert_repeats(&first[0], result);
        }
        assert_eq!(store.version(), version + 1);
        let depths = (editor.undo_depth(), editor.redo_depth());
        assert_eq!(depths, if redo { (1, 2) } else { (0, 3) });
    }
}

#[test]
fn transaction_07_an_undo_that_failed_can_be_retried_with_its_key() {
    let store = with_note(store());
    let editor = Editor::new(store.clone(), "ann");
    let error = undo_once(&editor, "key").unwrap_err();
    assert!(matches!(error, UndoError::NothingToUndo), "{error}");
    let error = redo_once(&editor, "key").unwrap_err();
    assert!(matches!(error, UndoError::NothingToRedo), "{error}");

    editor.execute(set_text("a").on("note")).unwrap();
    let guard = store.lock("bob").unwrap();
    let error = editor
        .undo()
        .idempotent("key")
        .options(AcquireOptions::new().no_wait())
        .commit();
    assert!(matches!(error, Err(UndoError::Lock(_))), "{error:?}");
    drop(guard);

    let bob = Editor::new(store.clone(), "bob");
    bob.execute(delete_node().on("note")).unwrap();
    let error = undo_once(&editor, "key").unwrap_err();
    assert!(matches!(error, UndoError::Conflict { .. }), "{error}");
    bob.undo().commit().unwrap();

    let first = undo_once(&editor, "key").unwrap();
    assert!(first.changed && !first.repeated);
    assert_eq!(text(&store.snapshot(), "note"), "Hello");
    assert_repeats(&first, undo_once(&editor, "key").unwrap());
}

#[test]
fn transaction_07_the_key_of_an_undo_stands_for_the_undo_of_its_owner() {
    let store = with_note(store());
    let (ann, bob) = (with_entries(&store), Editor::new(store.clone(), "bob"));
    bob.execute(create(element("list", []))).unwrap();
    let batch = once(&manager(&store), "batch", type_in("x"));
    let undone = undo_once(&ann, "undo").unwrap();
    let image_before = image(&store.snapshot());

    let refused = |outcome: Result<TransactionResult, UndoError>, first: &TransactionResult| {
        let error = outcome.unwrap_err();
        let UndoError::IdempotencyMismatch(mismatch) = &error else {
            panic!("{error}");
        };
        assert_eq!(mismatch.transaction_id, first.transaction_id);
        assert_eq!(error.code(), "idempotencyMismatch");
    };
    refused(undo_once(&ann, "batch"), &batch);
    refused(redo_once(&ann, "undo"), &undone);
    refused(undo_once(&bob, "undo"), &undone);
    let options = AcquireOptions::new();
    let outcome = manager(&store)
        .transaction([type_in("y")])
        .idempotent("undo")
        .options(options.clone())
        .commit();
    assert_mismatch(outcome, "undo", &undone);
    assert_eq!(image(&store.snapshot()), image_before);

    let key = IdempotencyKey::new("batch").accept_other_operations();
    assert_repeats(
        &batch,
        bob.undo()
            .idempotent(key)
            .options(options.clone())
            .commit()
            .unwrap(),
    );
    let limits = Limits::new().with(Limit::NameBytes, 3);
    let error = ann
        .with_limits(limits)
        .undo()
        .idempotent("long")
        .options(options)
        .commit();
    assert!(matches!(error, Err(UndoError::Limit(_))), "{error:?}");
}

fn digest(operations: impl IntoOperations) -> u128 {
    IdempotencyKey::digest(&operations.into_operations())
}

fn code(_: &mut Draft) -> Result<(), EditError> {
    Ok(())
}

#[test]
fn equal_batches_have_one_digest_and_others_have_others() {
    let node = || text_node("paragraph", "Hi").with_attributes([("b", 1.into()), ("a", 2.into())]);
    let batches = || {
        vec![
            vec![],
            vec![insert_text(0, "a").on("n")],
            vec![insert_text(0, "b").on("n")],
            vec![insert_text(0, "a").on("m")],
            vec![insert_text(0, "a").on("n"), insert_text(0, "a").on("n")],
            vec![control("n", [insert_text(0, "a")])],
            vec![create(node())],
            vec![create(node()).named("x")],
            vec![create(node()).named("x").named("y")],
            vec![op(code)],
            vec![op(code).named("x")],
            vec![op(code), op(code)],
        ]
    };
    let (once, again) = (batches(), batches());
    for (i, one) in once.iter().enumerate() {
        for (j, other) in again.iter().enumerate() {
            assert_eq!(
                i == j,
                digest(one.clone()) == digest(other.clone()),
                "{i} and {j}"
            );
        }
    }
    let nested = (
        vec![insert_text(0, "a").on("n")],
        [insert_text(0, "a").on("n")],
    );
    assert_eq!(digest(nested), digest(once[4].clone()), "flattened");
    let leased = (
        require_lease(FencingToken::from(7)),
        insert_text(0, "a").on("n"),
        if_unchanged(3),
    );
    assert_eq!(
        digest(leased),
        digest(once[1].clone()),
        "preconditions do not count"
    );
    let other_code = op(|_| -> Result<(), EditError> { panic!("never runs") });
    assert_eq!(
        digest([other_code]),
        digest(once[9].clone()),
        "code counts by its name"
    );
    let json = serde_json::to_string(&once[6]).unwrap();
    let read: Vec<Operation> = serde_json::from_str(&json).unwrap();
    assert_eq!(digest(read), digest(once[6].clone()), "read from JSON");
}

#[test]
fn a_digest_is_the_same_in_every_process() {
    let digest = digest([insert_text(0, "a").on("n")]);
    assert_eq!(format!("{digest:032x}"), "f72e84da842eb451d0b5b53c6a939736");
}
