//! Unit tests of `src/store/pinned.rs`.

use super::*;
use crate::document::NodeSpec;
use crate::lock::Scope;

/// The base of the transaction itself is such a handle.
#[test]
fn a_commit_beside_no_snapshot_notes_nothing() {
    let store = DataStore::new();
    for size in [1, 200] {
        let mut transaction = store.begin("ann").unwrap();
        for _ in 0..size {
            transaction.create(NodeSpec::new("paragraph")).unwrap();
        }
        transaction.commit().unwrap();
        let scope = Scope::new().write("p");
        let mut on_nodes = store.begin_on("ann", scope).unwrap();
        on_nodes.create(NodeSpec::new("paragraph")).unwrap();
        on_nodes.commit().unwrap();
    }
    assert_eq!(store.noted_versions(), 0);
    let _snapshot = store.snapshot();
    let mut transaction = store.begin("ann").unwrap();
    transaction.create(NodeSpec::new("paragraph")).unwrap();
    transaction.commit().unwrap();
    assert_eq!(store.noted_versions(), 1);
}
