//! The guarantees of the tree, by number.

#[path = "../common/mod.rs"]
mod common;

mod deletion;
mod depth;
mod missing;
mod parents;
mod places;

use common::{commit, id, image, store};
use doclock::dsl::*;
use doclock::{
    DataStore, TransactionManager,
    document::{ChildPosition, EditError, NodeSpec},
    transaction::{Operation, OperationError, TransactionError},
};

fn item(id: &str) -> NodeSpec {
    NodeSpec::new("item").with_id(id)
}

/// A root with `a` (with `a1`, `a2`) and `b` (with `b1`), and the detached node `loose`.
fn family() -> DataStore {
    let store = store();
    commit(&store, |transaction| {
        let a = item("a")
            .with_text("Hello")
            .with_children([item("a1"), item("a2")]);
        let b = item("b").with_children([item("b1")]);
        let root = transaction
            .create(item("root").with_children([a, b]))
            .unwrap();
        transaction.set_root(&root).unwrap();
        transaction.create(item("loose")).unwrap();
    });
    store
}

fn place(parent: &str, index: usize) -> Option<ChildPosition> {
    Some(ChildPosition {
        parent: id(parent),
        index,
    })
}

/// Checks that the operation fails for this reason, in a batch and in a transaction, and changes
/// nothing.
fn refused(store: &DataStore, operation: Operation, reason: &EditError) {
    let before = image(&store.snapshot());
    let version = store.version();
    let manager = TransactionManager::new(store.clone());
    // A change before it ensures that there is something to roll back.
    match manager
        .execute([set_text("lost").on("b"), operation.clone()])
        .unwrap_err()
    {
        TransactionError::Operation {
            index: 1,
            cause: OperationError::Edit(cause),
            ..
        } => {
            assert_eq!(&cause, reason, "{operation:?}");
        }
        other => panic!("{operation:?}: {other}"),
    }
    assert_eq!(image(&store.snapshot()), before, "{operation:?}");
    assert_eq!(store.version(), version);
}
