//! 1 and 2: batches, and several operations on one node.

use doclock::dsl::*;
use doclock::{
    Editor, View,
    transaction::{IntoOperations, Operation},
};
use serde_json::json;

use crate::common::{children, id, image, store, text};
use crate::{failed, manager, with_note};

#[test]
fn transaction_01_a_batch_commits_as_written() {
    let editor = Editor::new(store(), "ann");
    let result = transaction(&editor, [create(text_node("inline-text", "Hello World"))])
        .commit()
        .unwrap();
    assert_eq!(result.version, 1);
    let snapshot = editor.store().snapshot();
    let node = snapshot.node(&result.operations[0].created[0]).unwrap();
    assert_eq!(
        (node.kind(), node.text().to_string()),
        ("inline-text", "Hello World".to_owned())
    );
    assert_eq!(snapshot.len(), 1);
    assert!(!editor.store().is_locked());
}

#[test]
fn transaction_01_nothing_happens_before_the_commit() {
    let editor = Editor::new(store(), "ann");
    let pending = transaction(&editor, [create(text_node("inline-text", "x"))]);
    assert!(!editor.store().is_locked());
    assert_eq!(editor.store().version(), 0);
    drop(pending);
    assert!(editor.store().snapshot().is_empty());
}

#[test]
fn transaction_01_batches_nest_and_are_flattened() {
    let type_in = |text: &str| insert_text(0, text).on("note");
    let nested = (
        type_in("a"),
        [type_in("b"), type_in("c")],
        vec![vec![[type_in("d")], [type_in("e")]], vec![]],
        Some(type_in("f")),
        None::<Operation>,
        (Some([type_in("g")]), (type_in("h"),)),
    );
    let flat: Vec<Operation> = "abcdefgh"
        .chars()
        .map(|c| type_in(&c.to_string()))
        .collect();
    assert_eq!(nested.clone().into_operations(), flat);

    let editor = Editor::new(with_note(), "ann");
    let result = transaction(&editor, nested.clone()).commit().unwrap();
    assert_eq!((result.version, result.operations.len()), (2, 8));
    assert_eq!(text(&editor.store().snapshot(), "note"), "hgfedcbaHello");
    let error = transaction(&editor, (nested, delete_node().on("nowhere")))
        .commit()
        .unwrap_err();
    assert_eq!(
        failed(error).0,
        8,
        "the index is that in the flattened list"
    );
}

#[test]
fn transaction_02_control_gives_every_operation_its_node() {
    let store = with_note();
    let result = manager(&store)
        .execute([control(
            "note",
            [
                insert_text(5, " World"),
                set_attrs([("lang", json!("en"))]),
                add_child(text_node("comment", "!").with_id("comment"), None),
                replace_text(0, 1, "J"),
            ],
        )])
        .unwrap();
    let snapshot = store.snapshot();
    assert_eq!(text(&snapshot, "note"), "Jello World");
    let attributes = snapshot.node(id("note")).unwrap().attributes();
    assert_eq!(attributes.get("lang"), Some(&json!("en")));
    assert_eq!(children(&snapshot, "note"), ["comment"]);
    let aimed: Vec<_> = result
        .operations
        .iter()
        .map(|executed| (executed.name.as_str(), executed.node_id.clone().unwrap()))
        .collect();
    let expected = ["insertText", "setAttrs", "addChild", "replaceText"];
    assert_eq!(aimed, expected.map(|name| (name, id("note"))));

    // Every operation does the same in a `control` as by itself.
    let one_by_one = with_note();
    let operations = [
        insert_text(5, " World"),
        set_attrs([("lang", json!("en"))]),
        add_child(text_node("comment", "!").with_id("comment"), None),
        replace_text(0, 1, "J"),
    ];
    manager(&one_by_one)
        .execute(operations.map(|operation| operation.on("note")).to_vec())
        .unwrap();
    assert_eq!(one_by_one.snapshot(), snapshot);
}

#[test]
fn transaction_02_an_empty_control_succeeds_without_operations_and_without_a_version() {
    let store = with_note();
    let before = store.snapshot();
    let events = store.subscribe();
    for on in ["note", "nowhere"] {
        let result = manager(&store).execute([control(on, [])]).unwrap();
        assert_eq!((result.version, result.operations.len()), (1, 0));
    }
    assert_eq!((store.version(), events.try_recv().is_err()), (1, true));
    assert_eq!(store.snapshot(), before);
    // Among others it has no effect.
    let list = [
        control("nowhere", []),
        set_text("x").on("note"),
        delete_node().on("nowhere"),
    ];
    assert_eq!(failed(manager(&store).execute(list).unwrap_err()).0, 1);
}

#[test]
fn transaction_02_a_failing_operation_of_a_control_is_named_and_undoes_all() {
    let store = with_note();
    let before = image(&store.snapshot());
    let list = (
        set_text("lost").on("note"),
        control(
            "note",
            [
                insert_text(0, "x"),
                delete_text_range(3, 99),
                set_text("never"),
            ],
        ),
    );
    let error = manager(&store).execute(list).unwrap_err();
    let text = "operation 2 (deleteTextRange on node note): \
                characters 3..99 are out of range: the text of node note has 5";
    assert_eq!(error.to_string(), text);
    assert_eq!(image(&store.snapshot()), before);
}
