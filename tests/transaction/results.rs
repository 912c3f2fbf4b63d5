//! 6: results.

use std::collections::HashSet;

use doclock::dsl::*;
use doclock::{
    Editor, View,
    document::{NodeSpec, Position, Selection},
    inbox::Inbox,
    lock::JoinError,
    transaction::{Operation, TransactionError, TransactionResult},
};
use serde_json::json;

use crate::common::{commit, id, store, text};
use crate::{failed, manager, with_note};

#[test]
fn transaction_06_every_way_to_commit_returns_what_its_event_carries() {
    let store = with_note();
    let events = store.subscribe();
    let editor = Editor::new(store.clone(), "ann");
    let on_nodes = manager(&store).with_node_locks(1);
    let write = || insert_text(0, "x").on("note");
    let inbox = Inbox::new(&store, "orders");
    let claim = inbox.claim(&("evt-1", ())).unwrap();
    let mut effect = store.begin("worker").unwrap();
    effect.run(write()).unwrap();

    let mut results = vec![claim.commit(effect).unwrap()];
    results.push(commit(&store, |transaction| {
        transaction.insert_text(id("note"), 0, "x").unwrap();
    }));
    results.push(manager(&store).execute(write()).unwrap());
    results.push(on_nodes.execute([write(), write()]).unwrap());
    let key = on_nodes.transaction(write()).idempotent("key").commit();
    results.push(key.unwrap());
    let lock = store.acquire_lock("front end").unwrap();
    results.push(manager(&store).execute_under(lock, write()).unwrap());
    store.release_lock(lock).unwrap();
    editor.select(Selection::caret("note", 1)).unwrap();
    results.push(editor.execute([write(), write()]).unwrap());
    results.push(
        transaction(&editor, write())
            .idempotent("x")
            .commit()
            .unwrap(),
    );
    results.push(editor.undo().commit().unwrap());
    results.push(editor.redo().commit().unwrap());

    for result in &results {
        let event = events.try_recv().unwrap();
        assert_eq!(*event.commit, *result);
        assert!(result.changed && !result.changes.is_empty());
        assert_eq!(
            result.changes.as_ptr(),
            event.commit.changes.as_ptr(),
            "shared, not copied"
        );
        let json = serde_json::to_string(result).unwrap();
        let read: TransactionResult = serde_json::from_str(&json).unwrap();
        assert_eq!(read, *result);
    }
    assert!(events.try_recv().is_err());
    let owners: Vec<_> = results.iter().map(|result| result.owner.as_str()).collect();
    assert_eq!(owners[5..7], ["front end", "ann"]);
    let after = results.last().and_then(|it| it.selection_after.clone());
    assert_eq!(after, editor.selection());
    let keys = results.iter().filter(|it| it.idempotency_key.is_some());
    assert_eq!(keys.count(), 2);
}

#[test]
fn transaction_06_a_result_that_is_kept_stays_as_it_is_when_the_history_merges_typing() {
    let store = with_note();
    let editor = Editor::new(store.clone(), "ann");
    let type_at = |at| editor.execute(insert_text(at, "x").on("note")).unwrap();
    let first = type_at(0);
    let kept = serde_json::to_value(&first).unwrap();
    let second = type_at(1);
    assert_eq!(editor.undo_depth(), 1, "merged");
    assert_eq!(serde_json::to_value(&first).unwrap(), kept);
    assert_eq!((first.changes.len(), second.changes.len()), (1, 1));
    editor.undo().commit().unwrap();
    assert_eq!(text(&store.snapshot(), "note"), "Hello");
    editor.redo().commit().unwrap();
    assert_eq!(text(&store.snapshot(), "note"), "xxHello");
}

#[test]
fn transaction_06_the_result_has_id_version_operations_and_created_ids() {
    let editor = Editor::new(store(), "ann");
    let events = editor.store().subscribe();
    let list = element(
        "list",
        [
            text_node("item", "one").with_id("one"),
            text_node("item", "two"),
        ],
    );
    let result = transaction(
        &editor,
        [
            create(list.with_id("list")),
            control(
                "list",
                [
                    set_attrs([("n", json!(1))]),
                    add_child(text_node("item", "three"), 0),
                ],
            ),
            op(|transaction| {
                transaction.create(NodeSpec::new("by code").with_id("x"))?;
                transaction
                    .create(NodeSpec::new("by code").with_id("y"))
                    .map(drop)
            }),
            delete_node().on("y"),
        ],
    )
    .commit()
    .unwrap();
    let event = events.try_recv().unwrap();
    assert_eq!(result.transaction_id, event.commit.transaction_id);
    assert_eq!((result.version, event.commit.version), (1, 1));
    assert_eq!(result.operations, event.commit.operations);
    let executed: Vec<_> = result
        .operations
        .iter()
        .map(|executed| {
            let aim = executed.node_id.as_ref().map(ToString::to_string);
            (executed.name.as_str(), aim, executed.created.len())
        })
        .collect();
    let list = || Some("list".to_owned());
    let expected = [
        ("create", None, 3),
        ("setAttrs", list(), 0),
        ("addChild", list(), 1),
        ("op", None, 2),
        ("delete", Some("y".to_owned()), 0),
    ];
    assert_eq!(executed, expected);
    let snapshot = editor.store().snapshot();
    let [list, one, two] = &result.operations[0].created[..] else {
        panic!()
    };
    assert_eq!((list, one), (&id("list"), &id("one")), "in document order");
    assert_eq!(snapshot.node(two).unwrap().text(), &"two");
    let [three] = &result.operations[2].created[..] else {
        panic!()
    };
    assert_eq!(snapshot.node(three).unwrap().text(), &"three");
    assert_eq!(result.operations[3].created, [id("x"), id("y")]);
    assert_eq!(
        (result.selection_before, result.selection_after),
        (None, None)
    );
}

#[test]
fn transaction_06_every_transaction_has_an_id_of_its_own() {
    let store = with_note();
    let mut ids = HashSet::new();
    for turn in 0..10 {
        let result = match turn % 3 {
            0 => manager(&store)
                .execute([insert_text(0, "x").on("note")])
                .unwrap(),
            1 => manager(&store).execute([control("note", [])]).unwrap(),
            _ => {
                manager(&store)
                    .execute([delete_node().on("nowhere")])
                    .unwrap_err();
                manager(&store)
                    .execute([set_text("same").on("note")])
                    .unwrap()
            }
        };
        assert!(
            ids.insert(result.transaction_id),
            "{} came twice",
            result.transaction_id
        );
        assert_eq!(
            result.transaction_id.to_string().parse(),
            Ok(result.transaction_id)
        );
    }
}

#[test]
fn transaction_06_the_result_has_the_selection_before_and_after() {
    let editor = Editor::new(with_note(), "ann");
    let run = |list: Vec<Operation>| {
        let result = transaction(&editor, list).commit().unwrap();
        assert_eq!(editor.selection(), result.selection_after);
        (result.selection_before, result.selection_after)
    };
    let caret = |at| Some(Selection::caret("note", at));
    let range = |anchor, focus| {
        Some(Selection::new(
            Position::new("note", anchor),
            Position::new("note", focus),
        ))
    };
    let type_at = |at, text: &str| vec![insert_text(at, text).on("note")];
    assert_eq!(run(type_at(0, "a")), (None, None), "nothing is selected");
    editor.select(caret(3)).unwrap();
    assert_eq!(
        run(type_at(0, "bc")),
        (caret(3), caret(5)),
        "before it: moves along"
    );
    assert_eq!(
        run(type_at(5, "d")),
        (caret(5), caret(6)),
        "at it: typed past"
    );
    assert_eq!(
        run(type_at(7, "e")),
        (caret(6), caret(6)),
        "behind it: stays"
    );
    assert_eq!(
        run(vec![control("note", [])]),
        (caret(6), caret(6)),
        "nothing done"
    );
    assert_eq!(
        run(vec![set_attrs([("n", json!(1))]).on("note")]),
        (caret(6), caret(6))
    );
    assert_eq!(text(&editor.store().snapshot(), "note"), "bcaHedlelo");

    editor.select(range(8, 3)).unwrap();
    let deleted = vec![delete_text_range(0, 2).on("note")];
    assert_eq!(
        run(deleted),
        (range(8, 3), range(6, 1)),
        "focus before anchor"
    );
    let deleted = vec![delete_text_range(0, 4).on("note")];
    assert_eq!(
        run(deleted),
        (range(6, 1), range(2, 0)),
        "the midst of it is gone"
    );
    let error = transaction(
        &editor,
        (set_text("lost").on("note"), delete_node().on("nowhere")),
    )
    .commit();
    error.unwrap_err();
    assert_eq!(
        editor.selection(),
        range(2, 0),
        "a transaction that failed moves nothing"
    );
    let both = vec![
        insert_text(0, "x").on("note"),
        insert_text(0, "y").on("note"),
    ];
    assert_eq!(
        run(both),
        (range(2, 0), range(4, 2)),
        "by all of its operations"
    );
    assert_eq!(
        run(vec![delete_node().on("note")]),
        (range(4, 2), None),
        "gone with the node"
    );
    assert_eq!(editor.selection(), None);
}

#[test]
fn transaction_06_a_result_is_data() {
    let editor = Editor::new(with_note(), "ann");
    editor.select(Selection::caret("note", 1)).unwrap();
    let result = transaction(&editor, [create(NodeSpec::new("p").with_id("a"))])
        .commit()
        .unwrap();
    let caret = json!({"nodeId": "note", "offset": 1});
    let expected = json!({
        "transactionId": "tx-7-2",
        "version": 2,
        "changed": true,
        "owner": "ann",
        "fencingToken": 2,
        "operations": [{"type": "create", "created": ["a"]}],
        "changes": [
            {"type": "insertSubtree", "at": null, "nodes": [{"id": "a", "type": "p"}]},
        ],
        "selectionBefore": {"anchor": caret, "focus": caret},
        "selectionAfter": {"anchor": caret, "focus": caret},
    });
    assert_eq!(serde_json::to_value(&result).unwrap(), expected);
}

#[test]
fn transaction_06_under_a_lock_held_by_id_the_result_is_the_same_and_the_lock_stays() {
    let store = with_note();
    let lock = store.acquire_lock("front end").unwrap();
    let result = manager(&store)
        .execute_under(lock, [insert_text(0, "x").on("note")])
        .unwrap();
    assert_eq!((result.version, result.operations.len()), (2, 1));
    let error = manager(&store)
        .execute_under(lock, [delete_node().on("nowhere")])
        .unwrap_err();
    assert_eq!(failed(error).0, 0);
    assert_eq!(store.current_lock().unwrap().lock_id, lock);
    store.release_lock(lock).unwrap();
    let error = manager(&store)
        .execute_under(lock, [delete_node().on("note")])
        .unwrap_err();
    assert!(matches!(error, TransactionError::Join(JoinError::NotHeld { id }) if id == lock));
    assert_eq!(text(&store.snapshot(), "note"), "xHello");
}
