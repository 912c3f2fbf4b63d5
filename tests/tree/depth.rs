//! Trees far deeper than a call stack reaches.

use doclock::{
    View,
    document::{EditError, NodeSpec, check},
};

use crate::common::{commit, id, store};
use crate::deletion::undo;
use crate::item;

/// Far deeper than a call stack reaches.
const LEVELS: usize = 10_000;

fn deep() -> NodeSpec {
    let bottom = item("bottom").with_text("far down");
    (1..LEVELS).fold(bottom, |below, _| {
        NodeSpec::new("item").with_children([below])
    })
}

#[test]
fn tree_04_a_tree_of_ten_thousand_levels_is_made_deleted_brought_back_and_dropped() {
    let spec = deep();
    assert_eq!(spec.len(), LEVELS);
    assert_eq!(spec.clone(), spec);
    drop(spec.clone());
    assert!(
        serde_json::to_string(&spec).is_err(),
        "deeper than JSON can be read back"
    );

    let store = store();
    let events = store.subscribe();
    let made = commit(&store, |transaction| {
        let top = transaction.create(spec).unwrap();
        transaction.set_root(&top).unwrap();
        assert_eq!(transaction.descendants(&top).count(), LEVELS);
        assert_eq!(transaction.ancestors(&id("bottom")).count(), LEVELS - 1);
        assert_eq!(check(transaction), Ok(()));
    });
    let before = store.snapshot();
    let top = before.root().unwrap().clone();
    assert_eq!((before.len(), check(&before)), (LEVELS, Ok(())));
    assert!(format!("{before:?} {:?}", made.changes).contains("bottom"));
    assert_eq!(before.descendants(&top).last().unwrap().text(), &"far down");

    let mut transaction = store.begin("ann").unwrap();
    let below = before.children(&top).next().unwrap().id().clone();
    let cycle = EditError::Cycle {
        id: below.clone(),
        parent: id("bottom"),
    };
    assert_eq!(
        transaction.move_node(&below, id("bottom"), None),
        Err(cycle)
    );
    transaction.remove_child(&top, &below).unwrap();
    transaction.create(item("shelf")).unwrap();
    transaction.move_node(&below, id("shelf"), None).unwrap();
    assert_eq!(check(&transaction), Ok(()));
    drop(transaction);

    let deleted = commit(&store, |transaction| {
        transaction.delete(&below).unwrap();
        assert_eq!(transaction.nodes().count(), 1);
    });
    assert_eq!(
        (store.snapshot().len(), check(&store.snapshot())),
        (1, Ok(()))
    );
    commit(&store, |transaction| {
        undo(transaction, &deleted.changes).unwrap()
    });
    assert_eq!(store.snapshot(), before);
    for event in events.try_iter() {
        let line = serde_json::to_string(&*event.commit).unwrap();
        let read: doclock::transaction::TransactionResult = serde_json::from_str(&line).unwrap();
        assert_eq!(read, *event.commit, "a log line is not nested");
    }
}
