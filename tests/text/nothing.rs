//! 5: writes that change nothing.

use doclock::dsl::*;
use doclock::{
    DataStore, Editor, TransactionManager, View,
    document::{AttributePatch, Change, ChildPosition, Mark, Marks, MarksChange, NodeSpec},
};
use serde_json::json;

use crate::common::{commit, id, image, store};
use crate::{bold, link, with_text};

/// A parent `p` with the text node `t`, marked and with an attribute.
fn settled() -> DataStore {
    let store = store();
    commit(&store, |transaction| {
        let spec = text_node("inline-text", "Hello")
            .with_id("t")
            .with_attributes([("level", json!(1))])
            .with_marks([bold(0..2), link(1..3, "x")]);
        let parent = element(
            "paragraph",
            [spec, NodeSpec::new("inline-text").with_id("u")],
        );
        let parent = transaction.create(parent.with_id("p")).unwrap();
        transaction.set_root(&parent).unwrap();
    });
    store
}

fn emits_nothing(store: &DataStore, write: impl FnOnce(&DataStore)) {
    let before = image(&store.snapshot());
    let version = store.version();
    let events = store.subscribe();
    write(store);
    assert_eq!(image(&store.snapshot()), before);
    assert_eq!(store.version(), version, "a version was made");
    assert!(events.try_recv().is_err(), "an event was emitted");
}

#[test]
fn text_05_an_operation_that_changes_nothing_emits_nothing() {
    let nothing = [
        set_text("Hello").on("t"),
        insert_text(0, "").on("t"),
        insert_text(5, "").on("t"),
        delete_text_range(2, 2).on("t"),
        replace_text(1, 3, "el").on("t"),
        replace_text(5, 5, "").on("t"),
        set_text("").on("u"),
        set_attrs([("level", json!(1))]).on("t"),
        set_attrs([("gone", json!(null))]).on("t"),
        set_attrs([("level", json!(2)), ("level", json!(1))]).on("t"),
        set_attrs::<String>([]).on("t"),
        move_node("p", 0).on("t"),
        move_node("p", 1).on("u"),
        move_node("p", None).on("u"),
        add_child("t", 0).on("p"),
        add_child("u", None).on("p"),
        control("t", []),
        control("t", [set_text("Hello"), set_attrs([("level", json!(1))])]),
        op::<String>(|_| Ok(())),
    ];
    let editor = Editor::new(settled(), "ann");
    for operation in &nothing {
        emits_nothing(editor.store(), |_| {
            let result = transaction(&editor, operation.clone()).commit().unwrap();
            assert_eq!(
                (result.version, result.changed),
                (1, false),
                "{operation:?}"
            );
        });
    }
    emits_nothing(editor.store(), |_| {
        let result = transaction(&editor, nothing.to_vec()).commit().unwrap();
        assert_eq!(
            result.operations.len(),
            19,
            "they were carried out all the same"
        );
    });
    let result = transaction(&editor, (nothing.to_vec(), insert_text(5, "!").on("t"))).commit();
    let result = result.unwrap();
    assert_eq!(
        (result.version, result.changed),
        (2, true),
        "beside one that does change something"
    );
}

#[test]
fn text_05_a_method_that_changes_nothing_emits_nothing() {
    let store = settled();
    emits_nothing(&store, |store| {
        let committed = commit(store, |transaction| {
            let t = id("t");
            transaction.set_text(&t, "Hello").unwrap();
            transaction.insert_text(&t, 3, "").unwrap();
            transaction.delete_text(&t, 5..5).unwrap();
            transaction.replace_text(&t, 0..5, "Hello").unwrap();
            transaction
                .set_attrs(&t, [("level", json!(1)), ("gone", json!(null))])
                .unwrap();
            transaction
                .set_marks(&t, [bold(0..2), link(1..3, "x")])
                .unwrap();
            transaction
                .set_marks(&t, [link(1..3, "x"), bold(0..1), bold(1..2), bold(4..4)])
                .unwrap();
            transaction
                .set_marks(id("u"), [Mark::whole("bold")])
                .unwrap();
            transaction.move_node(&t, id("p"), 0).unwrap();
            transaction.set_root(&id("p")).unwrap();
            assert!(
                transaction.changes().is_empty(),
                "{:?}",
                transaction.changes()
            );
        });
        assert!(committed.changes.is_empty());
    });
}

#[test]
fn text_05_a_write_without_change_to_a_missing_node_fails() {
    let store = settled();
    let manager = TransactionManager::new(store.clone());
    for refused in [
        insert_text(6, ""),
        delete_text_range(6, 6),
        replace_text(6, 6, ""),
    ] {
        manager.execute([refused.clone().on("t")]).unwrap_err();
        manager.execute([refused.on("nowhere")]).unwrap_err();
    }
    manager
        .execute([set_attrs::<String>([]).on("nowhere")])
        .unwrap_err();
    manager.execute([remove_child("t").on("u")]).unwrap_err();
}

#[test]
fn text_05_the_same_marks_in_another_order_change_nothing() {
    let store = with_text("Hello", [link(0..4, "x"), link(0..4, "y")]);
    emits_nothing(&store, |store| {
        commit(store, |transaction| {
            transaction
                .set_marks(id("t"), [link(0..4, "y"), link(0..4, "x")])
                .unwrap();
        });
    });
}

#[test]
fn text_05_a_change_that_changes_nothing_emits_nothing() {
    let store = settled();
    let node = store.snapshot().node("t").unwrap().clone();
    let same = |marks: &Marks| MarksChange {
        removed: marks.clone(),
        added: marks.clone(),
    };
    let place = || {
        Some(ChildPosition {
            parent: id("p"),
            index: 0,
        })
    };
    let splice = |text: &str, marks| Change::SpliceText {
        id: id("t"),
        at: 0,
        removed: text.into(),
        inserted: text.into(),
        marks,
    };
    let level = AttributePatch {
        key: "level".into(),
        before: Some(json!(1).into()),
        after: Some(json!(1).into()),
    };
    let nothing = [
        splice("", None),
        splice("", Some(same(node.marks()))),
        Change::SetMarks {
            id: id("t"),
            marks: same(node.marks()),
        },
        Change::PatchAttrs {
            id: id("t"),
            patches: vec![],
        },
        Change::PatchAttrs {
            id: id("t"),
            patches: vec![level],
        },
        Change::MoveNode {
            id: id("t"),
            from: place(),
            to: place(),
        },
        Change::MoveNode {
            id: id("p"),
            from: None,
            to: None,
        },
        Change::SetRoot {
            before: Some(id("p")),
            after: Some(id("p")),
        },
        Change::InsertSubtree {
            at: None,
            nodes: vec![],
        },
        Change::RemoveSubtree {
            at: None,
            nodes: vec![],
        },
    ];
    for change in nothing {
        emits_nothing(&store, |store| {
            // It may fail as well.
            commit(store, |transaction| drop(transaction.apply(change)));
        });
    }
}
