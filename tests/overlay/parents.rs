//! 5 and 6: parents that are created and deleted within one transaction; scans, children and
//! parents.

use std::collections::BTreeSet;

use doclock::dsl::*;
use doclock::{
    TransactionManager, View,
    document::{EditError, NodeSpec, check},
    transaction::{Operation, OperationError, TransactionError},
};

use crate::common::{children, commit, id, store};
use crate::{paragraph, small_document};

#[test]
fn overlay_05_a_parent_created_in_the_same_transaction_takes_children() {
    let store = small_document();
    TransactionManager::new(store.clone())
        .execute([
            create(paragraph("new")),
            add_child("new", 0).on("root"),
            move_node("new", None).on("first"),
            add_child("second", 0).on("new"),
            add_child(text_node("item", "x").with_id("x"), 1).on("new"),
        ])
        .unwrap();
    let snapshot = store.snapshot();
    assert_eq!(children(&snapshot, "root"), ["new"]);
    assert_eq!(children(&snapshot, "new"), ["second", "x", "first"]);
    assert_eq!(check(&snapshot), Ok(()));
}

#[test]
fn overlay_05_a_parent_deleted_in_the_same_transaction_is_a_named_error() {
    let store = small_document();
    commit(&store, |transaction| {
        transaction
            .insert(paragraph("below"), id("second"), None)
            .unwrap();
    });
    let before = store.snapshot();
    let manager = TransactionManager::new(store.clone());
    let gone = |list: [Operation; 2], missing: &str| {
        let error = manager.execute(list).unwrap_err();
        let TransactionError::Operation {
            index: 1,
            cause: OperationError::Edit(cause),
            ..
        } = error
        else {
            panic!("{error}")
        };
        let expected = EditError::NodeDeleted { id: id(missing) };
        assert_eq!(cause, expected);
        assert!(
            expected.to_string().contains(missing),
            "the text names the node"
        );
        assert_eq!(store.snapshot(), before);
    };
    let deleted = || delete_node().on("second");
    gone([deleted(), move_node("second", None).on("first")], "second");
    gone([deleted(), add_child("first", None).on("second")], "second");
    gone(
        [deleted(), add_child(paragraph("new"), None).on("second")],
        "second",
    );
    // Its descendants are deleted with it.
    gone([deleted(), move_node("below", None).on("first")], "below");
    // The same for a node that was created and deleted.
    let mut transaction = store.begin("ann").unwrap();
    let new = transaction.create(NodeSpec::new("paragraph")).unwrap();
    transaction.delete(&new).unwrap();
    let refused = transaction.move_node(id("first"), &new, None);
    assert_eq!(refused, Err(EditError::NodeDeleted { id: new }));
}

#[test]
fn overlay_06_scans_include_new_nodes_and_exclude_deleted_nodes() {
    let store = small_document();
    let mut transaction = store.begin("ann").unwrap();
    let below = paragraph("below");
    transaction
        .insert(paragraph("new").with_children([below]), id("root"), 1)
        .unwrap();
    transaction.create(paragraph("loose")).unwrap();
    transaction.delete("second").unwrap();
    transaction.set_text("first", "changed").unwrap();

    let scanned: Vec<String> = transaction
        .nodes()
        .map(|node| node.id().to_string())
        .collect();
    let distinct: BTreeSet<&str> = scanned.iter().map(String::as_str).collect();
    assert_eq!(distinct, ["below", "first", "loose", "new", "root"].into());
    assert_eq!(scanned.len(), distinct.len(), "each once: {scanned:?}");
    let first = transaction
        .nodes()
        .find(|node| *node.id() == id("first"))
        .unwrap();
    assert_eq!(
        first.text(),
        &"changed",
        "a scan shows nodes as they are now"
    );

    assert_eq!(children(&transaction, "root"), ["first", "new"]);
    assert_eq!(transaction.parent("below"), Some(&id("new")));
    assert_eq!(transaction.parent("new"), Some(&id("root")));
    assert_eq!(transaction.parent("second"), None);
    let root = id("root");
    let all: Vec<String> = transaction
        .descendants(&root)
        .map(|node| node.id().to_string())
        .collect();
    assert_eq!(all, ["root", "first", "new", "below"]);
    let below = id("below");
    let above: Vec<String> = transaction
        .ancestors(&below)
        .map(|node| node.id().to_string())
        .collect();
    assert_eq!(above, ["new", "root"]);
    assert!(transaction.contains("new") && !transaction.contains("second"));
    assert_eq!(transaction.children(&id("second")).count(), 0);
    assert_eq!(check(&transaction), Ok(()));

    // The deleted node is created again.
    transaction.create(paragraph("second")).unwrap();
    assert_eq!(transaction.nodes().count(), 6);
    assert_eq!(transaction.parent("second"), None);
    assert_eq!(children(&transaction, "root"), ["first", "new"]);
}

/// With more than a few nodes the overlay uses its index.
#[test]
fn overlay_06_scans_stay_exact_however_much_was_touched() {
    let store = store();
    let name = |n: usize| format!("n{n:02}");
    commit(&store, |transaction| {
        for n in 0..40 {
            transaction.create(paragraph(&name(n))).unwrap();
        }
    });
    let mut transaction = store.begin("ann").unwrap();
    let mut expected: BTreeSet<String> = (0..40).map(name).collect();
    for n in 0..40 {
        let old = name(n);
        transaction.delete(id(&old)).unwrap();
        expected.remove(&old);
        let new = format!("x{n}");
        transaction.create(paragraph(&new)).unwrap();
        expected.insert(new);
        let scanned: Vec<String> = transaction
            .nodes()
            .map(|node| node.id().to_string())
            .collect();
        assert_eq!(scanned.len(), 40);
        assert_eq!(scanned.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(store.snapshot().len(), 40);
    }
    transaction.commit().unwrap();
    let committed = store
        .snapshot()
        .nodes()
        .map(|node| node.id().to_string())
        .collect();
    assert_eq!(expected, committed);
}
