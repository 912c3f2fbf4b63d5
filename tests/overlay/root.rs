//! 7: the root.

use doclock::dsl::*;
use doclock::{
    TransactionManager, View,
    document::{EditError, check},
};

use crate::common::{commit, id, store};
use crate::{paragraph, small_document};

#[test]
fn overlay_07_a_root_change_is_staged_until_the_commit() {
    let store = store();
    commit(&store, |transaction| {
        transaction.create(paragraph("one")).unwrap();
        transaction.create(paragraph("two")).unwrap();
    });
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_root(&id("one")).unwrap();
    assert_eq!(transaction.root(), Some(&id("one")));
    assert_eq!(store.snapshot().root(), None);
    transaction.rollback();
    assert_eq!(store.snapshot().root(), None);

    commit(&store, |transaction| {
        transaction.set_root(&id("one")).unwrap()
    });
    let before = store.snapshot();
    assert_eq!(before.root(), Some(&id("one")));
    commit(&store, |transaction| {
        transaction.set_root(&id("two")).unwrap();
        transaction.delete("one").unwrap();
        assert_eq!(store.snapshot().root(), Some(&id("one")));
    });
    assert_eq!(before.root(), Some(&id("one")), "a snapshot keeps its root");
    let after = store.snapshot();
    assert_eq!((after.root(), after.len()), (Some(&id("two")), 1));
    commit(&store, |transaction| {
        transaction.set_root(None).unwrap();
        transaction.delete("two").unwrap();
    });
    assert_eq!(store.snapshot().root(), None);
    assert!(store.snapshot().is_empty());
}

#[test]
fn overlay_07_deleting_the_root_is_an_error() {
    let store = small_document();
    let before = store.snapshot();
    let refused = Err(EditError::RootDeleted { id: id("root") });
    let mut transaction = store.begin("ann").unwrap();
    assert_eq!(transaction.delete("root"), refused);
    // A root of this transaction is protected; a former root can be deleted.
    transaction.remove_child(id("root"), id("first")).unwrap();
    transaction.set_root(&id("first")).unwrap();
    let refused = Err(EditError::RootDeleted { id: id("first") });
    assert_eq!(transaction.delete("first"), refused);
    transaction.delete("root").unwrap();
    assert_eq!(transaction.nodes().count(), 1);
    transaction.rollback();
    let error = TransactionManager::new(store.clone())
        .execute([delete_node().on("root")])
        .unwrap_err();
    let text = "operation 0 (delete on node root): \
                node root is the root of the document and cannot be deleted";
    assert_eq!(error.to_string(), text);
    assert_eq!(store.snapshot(), before);
}

#[test]
fn overlay_07_the_root_is_a_node_without_a_parent() {
    let store = small_document();
    let mut transaction = store.begin("ann").unwrap();
    let attached = EditError::RootAttached {
        id: id("first"),
        parent: id("root"),
    };
    assert_eq!(transaction.set_root(&id("first")), Err(attached));
    let missing = EditError::NodeNotFound { id: id("nowhere") };
    assert_eq!(transaction.set_root(&id("nowhere")), Err(missing));
    let moved = EditError::RootMoved {
        id: id("root"),
        parent: id("loose"),
    };
    transaction.create(paragraph("loose")).unwrap();
    assert_eq!(
        transaction.move_node(id("root"), id("loose"), None),
        Err(moved)
    );
    assert_eq!(transaction.root(), Some(&id("root")));
    assert_eq!(check(&transaction), Ok(()));
}
