//! 3 and 4: operations apply in the given order, even if they create, delete and create again.

use doclock::dsl::*;
use doclock::{
    Draft, TransactionManager, View,
    document::{NodeSpec, check},
    transaction::TransactionError,
};
use serde_json::json;

use crate::common::{children, commit, id, image};
use crate::{paragraph, small_document};

#[test]
fn overlay_03_operations_apply_in_the_order_given() {
    let store = small_document();
    let manager = TransactionManager::new(store.clone());
    manager
        .execute([
            set_text("").on("first"),
            insert_text(0, "a").on("first"),
            insert_text(0, "b").on("first"),
            insert_text(1, "c").on("first"),
            delete_text_range(0, 1).on("first"),
        ])
        .unwrap();
    assert_eq!(crate::common::text(&store.snapshot(), "first"), "ca");

    // Sorting would put creations before their uses, and deletions at the end.
    let too_early = [add_child("new", None).on("root"), create(paragraph("new"))];
    let error = manager.execute(too_early).unwrap_err();
    assert!(
        matches!(error, TransactionError::Operation { index: 0, .. }),
        "{error}"
    );
    let result = manager
        .execute([
            create(paragraph("new")),
            delete_node().on("first"),
            add_child("new", 0).on("root"),
            create(paragraph("first")),
            set_attrs([("n", json!(1))]).on("first"),
            set_attrs([("n", json!(2))]).on("first"),
        ])
        .unwrap();
    let snapshot = store.snapshot();
    assert_eq!(children(&snapshot, "root"), ["new", "second"]);
    let first = snapshot.node("first").unwrap();
    assert_eq!(first.attributes().get("n"), Some(&json!(2)));
    let names: Vec<_> = result
        .operations
        .iter()
        .map(|executed| executed.name.as_str())
        .collect();
    let given = [
        "create", "delete", "addChild", "create", "setAttrs", "setAttrs",
    ];
    assert_eq!(names, given, "and are reported in that order");
}

#[test]
fn overlay_04_create_then_delete_is_absent() {
    let store = small_document();
    let before = image(&store.snapshot());
    commit(&store, |transaction| {
        let below = NodeSpec::new("item").with_id("below");
        let new = transaction
            .insert(paragraph("new").with_children([below]), id("root"), 1)
            .unwrap();
        transaction.delete(&new).unwrap();
        for gone in ["new", "below"] {
            assert!(!transaction.contains(id(gone)));
            assert!(transaction.nodes().all(|node| *node.id() != id(gone)));
        }
        assert_eq!(children(transaction, "root"), ["first", "second"]);
    });
    assert_eq!(image(&store.snapshot()), before);
    assert_eq!(check(&store.snapshot()), Ok(()));
}

#[test]
fn overlay_04_delete_then_recreate_is_the_new_node() {
    let store = small_document();
    let recreate = |transaction: &mut Draft| {
        transaction.delete("first").unwrap();
        let new = NodeSpec::new("heading").with_id("first").with_text("new");
        transaction.insert(new, id("second"), 0).unwrap();
        let node = transaction.node("first").unwrap();
        assert_eq!(
            (node.kind(), node.text().to_string()),
            ("heading", "new".to_owned())
        );
        assert_eq!(
            transaction
                .nodes()
                .filter(|node| *node.id() == id("first"))
                .count(),
            1
        );
    };
    commit(&store, recreate);
    let snapshot = store.snapshot();
    assert_eq!(crate::common::text(&snapshot, "first"), "new");
    assert_eq!(snapshot.node("first").unwrap().kind(), "heading");
    assert_eq!(children(&snapshot, "root"), ["second"]);
    assert_eq!(children(&snapshot, "second"), ["first"]);
    assert_eq!((snapshot.len(), check(&snapshot)), (3, Ok(())));

    // To and fro, ending with either.
    commit(&store, |transaction| {
        for _ in 0..3 {
            recreate(transaction);
        }
        transaction.delete("first").unwrap();
    });
    assert!(!store.snapshot().contains("first"));
    assert_eq!(check(&store.snapshot()), Ok(()));
}

#[test]
fn overlay_04_update_then_delete_is_gone_and_unlinked() {
    let store = small_document();
    commit(&store, |transaction| {
        transaction.set_text("first", "changed").unwrap();
        transaction
            .set_attrs(id("first"), [("n", json!(1))])
            .unwrap();
        transaction.move_node(id("first"), id("root"), 1).unwrap();
        transaction.delete("first").unwrap();
        assert_eq!(children(transaction, "root"), ["second"]);
    });
    let snapshot = store.snapshot();
    assert!(!snapshot.contains("first"));
    let listed = snapshot.node("root").unwrap().children();
    assert!(listed.iter().eq([&id("second")]), "{listed:?}");
    assert_eq!((snapshot.len(), check(&snapshot)), (2, Ok(())));
}

#[test]
fn overlay_04_create_move_to_the_front_set_text_is_the_first_child_with_the_new_text() {
    let store = small_document();
    TransactionManager::new(store.clone())
        .execute([
            create(text_node("paragraph", "old").with_id("new")),
            move_node("root", 0).on("new"),
            set_text("new text").on("new"),
        ])
        .unwrap();
    let snapshot = store.snapshot();
    assert_eq!(children(&snapshot, "root"), ["new", "first", "second"]);
    assert_eq!(
        snapshot.children(&id("root")).next().unwrap().text(),
        &"new text"
    );
}

#[test]
fn overlay_04_detached_then_deleted_is_gone_and_unlinked() {
    let store = small_document();
    commit(&store, |transaction| {
        transaction.remove_child(id("root"), id("first")).unwrap();
        assert_eq!(transaction.parent("first"), None);
        transaction.delete("first").unwrap();
    });
    assert_eq!(children(&store.snapshot(), "root"), ["second"]);
    assert_eq!(
        (store.snapshot().len(), check(&store.snapshot())),
        (2, Ok(()))
    );
}
