//! 3: positions and lists of children.

use doclock::dsl::*;
use doclock::{
    NodeId, View,
    document::{Change, Children, EditError, Node, NodeSpec, check},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{Dice, cases, children, commit, id, image, store};
use crate::deletion::undo;
use crate::{family, item, place, refused};

/// No primitive reorders a list of children at once; nodes are moved instead.
#[test]
fn tree_03_moving_within_a_parent_works_between_any_two_positions() {
    const SIBLINGS: usize = 5;
    let name = |n: usize| format!("n{n}");
    let store = store();
    commit(&store, |transaction| {
        let items = (0..SIBLINGS).map(|n| item(&name(n)));
        transaction
            .create(item("list").with_children(items))
            .unwrap();
    });
    for from in 0..SIBLINGS {
        for to in 0..=SIBLINGS {
            let mut expected: Vec<String> = (0..SIBLINGS).map(name).collect();
            let mut transaction = store.begin("ann").unwrap();
            let outcome = transaction.move_node(id(&name(from)), id("list"), to);
            if to < SIBLINGS {
                let moved = expected.remove(from);
                expected.insert(to, moved);
                assert_eq!(outcome, Ok(()));
                assert_eq!(transaction.changes().is_empty(), from == to);
            } else {
                let len = SIBLINGS - 1;
                let reason = EditError::IndexOutOfRange {
                    parent: id("list"),
                    index: to,
                    len,
                };
                assert_eq!(outcome, Err(reason));
            }
            assert_eq!(children(&transaction, "list"), expected, "{from} to {to}");
            assert_eq!(check(&transaction), Ok(()));
        }
        let mut transaction = store.begin("ann").unwrap();
        transaction
            .move_node(id(&name(from)), id("list"), None)
            .unwrap();
        assert_eq!(children(&transaction, "list").last(), Some(&name(from)));
    }
}

#[test]
fn tree_03_an_invalid_child_index_is_an_error() {
    let store = family();
    for index in [3, 4, usize::MAX - 1, usize::MAX] {
        let beyond = EditError::IndexOutOfRange {
            parent: id("a"),
            index,
            len: 2,
        };
        refused(&store, add_child(item("new"), index).on("a"), &beyond);
        refused(&store, add_child("loose", index).on("a"), &beyond);
        refused(&store, move_node("a", index).on("b"), &beyond);
        let text = format!("index {index} is out of range: node a has 2 children");
        assert_eq!(beyond.to_string(), text);
        let to = place("a", index);
        let change = Change::MoveNode {
            id: id("loose"),
            from: None,
            to,
        };
        assert_eq!(store.begin("ann").unwrap().apply(change), Err(beyond));
    }
}

#[test]
fn tree_03_a_foreign_missing_or_duplicate_child_id_is_refused() {
    let store = family();
    let foreign = EditError::NotAChild {
        parent: id("a"),
        child: id("b1"),
    };
    refused(&store, remove_child("b1").on("a"), &foreign);
    let loose = EditError::NotAChild {
        parent: id("a"),
        child: id("loose"),
    };
    refused(&store, remove_child("loose").on("a"), &loose);
    refused(
        &store,
        remove_child("a").on("a"),
        &EditError::NotAChild {
            parent: id("a"),
            child: id("a"),
        },
    );
    let grandchild = EditError::NotAChild {
        parent: id("root"),
        child: id("a1"),
    };
    refused(&store, remove_child("a1").on("root"), &grandchild);

    // Whole lists are inserted with a subtree.
    let node = |node: Value| serde_json::from_value::<Node>(node).unwrap().into();
    let below = |of: &str, child: &str| node(json!({"id": child, "type": "item", "parent": of}));
    let top = |children: Value| node(json!({"id": "new", "type": "item", "children": children}));
    let subtree = |nodes| Change::InsertSubtree { at: None, nodes };
    let lists = [
        ("missing", subtree(vec![top(json!(["x"]))])),
        ("foreign", subtree(vec![top(json!(["b1"]))])),
        (
            "foreign, taken along",
            subtree(vec![top(json!(["b1"])), below("new", "b1")]),
        ),
        (
            "duplicate",
            subtree(vec![
                top(json!(["x", "x"])),
                below("new", "x"),
                below("new", "x"),
            ]),
        ),
        (
            "duplicate, once there",
            subtree(vec![top(json!(["x", "x"])), below("new", "x")]),
        ),
        ("itself", subtree(vec![top(json!(["new"]))])),
        ("unlisted", subtree(vec![top(json!([])), below("new", "x")])),
        (
            "of another",
            subtree(vec![top(json!(["x"])), below("b", "x")]),
        ),
        (
            "out of order",
            subtree(vec![
                top(json!(["x", "y"])),
                below("new", "y"),
                below("new", "x"),
            ]),
        ),
        (
            "empty id",
            subtree(vec![node(json!({"id": "a", "type": "item"}))]),
        ),
    ];
    for (what, list) in lists {
        let mut transaction = store.begin("ann").unwrap();
        let before = image(&transaction);
        let outcome = transaction.apply(list);
        let expected = matches!(
            outcome,
            Err(EditError::Malformed { .. } | EditError::IdTaken { .. })
        );
        assert!(expected, "{what}: {outcome:?}");
        assert_eq!(image(&transaction), before, "{what}");
    }
    let sound = subtree(vec![
        top(json!(["x", "y"])),
        below("new", "x"),
        below("new", "y"),
    ]);
    store.begin("ann").unwrap().apply(sound).unwrap();
}

proptest! {
    #![proptest_config(cases(30))]

    /// Enough siblings for the list to be a tree, with snapshots that share parts of it.
    #[test]
    fn tree_03_random_moves_among_many_siblings_agree_with_a_vector(
        siblings in 1..3000_usize,
        seed in any::<u64>(),
    ) {
        let store = store();
        let list = id("list");
        let items = (0..siblings).map(|_| NodeSpec::new("item"));
        let made = commit(&store, |transaction| {
            transaction.create(item("list").with_children(items)).unwrap();
        });
        let [Change::InsertSubtree { nodes, .. }] = &made.changes[..] else { panic!() };
        let mut expected: Vec<NodeId> = nodes[1..].iter().map(|node| node.id().clone()).collect();
        let mut versions = vec![(store.snapshot(), expected.clone())];
        let mut dice = Dice(seed);
        for turn in 1..=4 {
            commit(&store, |transaction| for _ in 0..15 * turn {
                let at = dice.below(expected.len() + 1);
                match dice.below(3) {
                    0 => {
                        let new = transaction.insert(NodeSpec::new("item"), &list, at).unwrap();
                        expected.insert(at, new);
                    }
                    1 if at < expected.len() => transaction.delete(expected.remove(at)).unwrap(),
                    _ if at < expected.len() => {
                        let moved = expected.remove(at);
                        let to = dice.below(expected.len() + 1);
                        transaction.move_node(&moved, &list, to).unwrap();
                        expected.insert(to, moved);
                    }
                    _ => {}
                }
            });
            versions.push((store.snapshot(), expected.clone()));
        }
        for (snapshot, expected) in versions {
            prop_assert!(snapshot.node(&list).unwrap().children().iter().eq(&expected));
            prop_assert_eq!(check(&snapshot), Ok(()));
        }
    }
}

#[test]
fn tree_03_positions_are_exact_among_a_hundred_thousand_siblings() {
    const SIBLINGS: usize = 100_000;
    let store = store();
    commit(&store, |transaction| {
        let items = (0..SIBLINGS).map(|_| NodeSpec::new("item"));
        let list = transaction
            .create(item("list").with_children(items))
            .unwrap();
        transaction.set_root(&list).unwrap();
    });
    let list = id("list");
    let ids = |view: &dyn Fn() -> Children| -> Vec<NodeId> { view().iter().cloned().collect() };
    let before = store.snapshot();
    let mut expected = ids(&|| before.node(&list).unwrap().children().clone());
    let made = commit(&store, |transaction| {
        for (n, at) in [0, 1, SIBLINGS / 2, SIBLINGS + 3].into_iter().enumerate() {
            let name = format!("new{n}");
            transaction.insert(item(&name), &list, at).unwrap();
            expected.insert(at, id(&name));
        }
        for (from, to) in [(0, SIBLINGS + 3), (SIBLINGS / 3, 0), (SIBLINGS, 7)] {
            let moved = expected.remove(from);
            transaction.move_node(&moved, &list, to).unwrap();
            expected.insert(to, moved);
        }
        for at in [SIBLINGS / 2, 0, SIBLINGS] {
            transaction.delete(expected.remove(at)).unwrap();
        }
        assert!(
            transaction
                .node(&list)
                .unwrap()
                .children()
                .iter()
                .eq(&expected)
        );
        let beyond = transaction.insert(NodeSpec::new("item"), &list, SIBLINGS + 2);
        assert!(
            matches!(beyond, Err(EditError::IndexOutOfRange { .. })),
            "{beyond:?}"
        );
    });
    let after = store.snapshot();
    assert_eq!(
        ids(&|| after.node(&list).unwrap().children().clone()),
        expected
    );
    assert_eq!((after.len(), check(&after)), (SIBLINGS + 2, Ok(())));
    commit(&store, |transaction| {
        undo(transaction, &made.changes).unwrap()
    });
    assert_eq!(store.snapshot(), before);
}
