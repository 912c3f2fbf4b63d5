//! 1: missing nodes.

use doclock::dsl::*;
use doclock::{
    View,
    document::{Change, ChildPosition, EditError, Mark},
};
use serde_json::json;

use crate::common::id;
use crate::{family, item, refused};

#[test]
fn tree_01_a_missing_node_or_parent_is_named_and_nothing_is_changed() {
    let store = family();
    let reason = EditError::NodeNotFound { id: id("nowhere") };
    assert_eq!(reason.to_string(), "node nowhere does not exist");
    let on_a_missing_node = [
        delete_node(),
        add_child(item("new"), None),
        add_child("loose", None),
        remove_child("a"),
        move_node("a", None),
        set_text("x"),
        insert_text(0, "x"),
        delete_text_range(0, 0),
        replace_text(0, 0, "x"),
        set_attrs([("level", json!(1))]),
    ];
    for operation in on_a_missing_node {
        refused(&store, operation.clone().on("nowhere"), &reason);
        refused(&store, control("nowhere", [operation]), &reason);
    }
    for operation in [
        add_child("nowhere", 0),
        remove_child("nowhere"),
        move_node("nowhere", 0),
    ] {
        refused(&store, operation.on("a"), &reason);
    }

    let mut transaction = store.begin("ann").unwrap();
    let nowhere = id("nowhere");
    assert_eq!(
        transaction.set_marks(&nowhere, [Mark::whole("bold")]),
        Err(reason.clone())
    );
    assert_eq!(transaction.set_root(&nowhere), Err(reason.clone()));
    let at = Some(ChildPosition {
        parent: nowhere.clone(),
        index: 0,
    });
    let moved = Change::MoveNode {
        id: id("loose"),
        from: None,
        to: at,
    };
    assert_eq!(transaction.apply(moved), Err(reason));
    assert!(transaction.changes().is_empty());
    assert_eq!(transaction.nodes().count(), 7);
}

#[test]
fn tree_01_an_id_that_is_taken_or_empty_is_an_error() {
    let store = family();
    let taken = |taken: &str| EditError::IdTaken { id: id(taken) };
    refused(&store, create(item("a")), &taken("a"));
    refused(&store, add_child(item("a"), 0).on("b"), &taken("a"));
    refused(&store, add_child(item("b"), 0).on("b"), &taken("b"));
    refused(
        &store,
        create(item("new").with_children([item("a1")])),
        &taken("a1"),
    );
    refused(
        &store,
        create(item("new").with_children([item("new")])),
        &taken("new"),
    );
    refused(
        &store,
        create(item("new").with_children([item("x"), item("x")])),
        &taken("x"),
    );
    refused(&store, create(item("")), &EditError::IdEmpty);
    refused(
        &store,
        create(item("new").with_children([item("")])),
        &EditError::IdEmpty,
    );
    refused(
        &store,
        add_child(item(""), None).on("b"),
        &EditError::IdEmpty,
    );
}
