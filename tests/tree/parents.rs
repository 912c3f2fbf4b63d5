//! 2: one parent, no cycles.

use doclock::dsl::*;
use doclock::{
    AsNodeId, NodeId, TransactionManager, View,
    document::{Change, ChildPosition, EditError, IntegrityError, Node, check},
};
use serde_json::{Value, json};

use crate::common::{children, commit, id, text};
use crate::{family, item, place, refused};

#[test]
fn tree_02_moving_under_itself_or_a_descendant_is_an_error() {
    let store = family();
    commit(&store, |transaction| {
        transaction.insert(item("deep"), id("a2"), None).unwrap();
    });
    for below in ["a", "a1", "a2", "deep"] {
        let cycle = EditError::Cycle {
            id: id("a"),
            parent: id(below),
        };
        for index in [None, Some(0), Some(usize::MAX)] {
            if index != Some(usize::MAX) {
                refused(&store, move_node(below, index).on("a"), &cycle);
                refused(&store, add_child("a", index).on(below), &cycle);
            }
            let to = Some(ChildPosition {
                parent: id(below),
                index: index.unwrap_or(0),
            });
            let change = Change::MoveNode {
                id: id("a"),
                from: place("root", 0),
                to,
            };
            assert_eq!(
                store.begin("ann").unwrap().apply(change),
                Err(cycle.clone())
            );
        }
    }
    let text = EditError::Cycle {
        id: id("a"),
        parent: id("deep"),
    }
    .to_string();
    assert_eq!(
        text,
        "node a cannot move under node deep, which is in its subtree"
    );
    // The cycle may also arise within the transaction.
    let mut transaction = store.begin("ann").unwrap();
    transaction.move_node(id("b"), id("deep"), None).unwrap();
    assert!(transaction.move_node(id("a"), id("b1"), None).is_err());
    transaction.remove_child(id("a2"), id("deep")).unwrap();
    transaction.move_node(id("a"), id("b1"), None).unwrap();
    assert_eq!(check(&transaction), Ok(()));
}

#[test]
fn tree_02_adding_an_attached_child_elsewhere_moves_it() {
    let store = family();
    for (child, parent) in [
        ("a1", "b"),
        ("b1", "a"),
        ("a", "b"),
        ("loose", "a1"),
        ("a1", "a"),
    ] {
        commit(&store, |transaction| {
            let before = transaction.parent(id(child)).cloned();
            transaction.move_node(id(child), id(parent), None).unwrap();
            assert_eq!(transaction.parent(id(child)), Some(&id(parent)));
            let listing: Vec<String> = transaction
                .nodes()
                .filter(|node| node.children().position(&id(child)).is_some())
                .map(|node| node.id().to_string())
                .collect();
            assert_eq!(listing, [parent], "was below {before:?}");
        });
        assert_eq!(check(&store.snapshot()), Ok(()));
        TransactionManager::new(store.clone())
            .execute([
                add_child(child, 0).on("root"),
                add_child(child, 0).on(parent),
            ])
            .unwrap();
        assert_eq!(children(&store.snapshot(), parent)[0], child);
        assert_eq!(check(&store.snapshot()), Ok(()));
    }
}

#[test]
fn tree_02_moving_a_node_moves_its_subtree() {
    let store = family();
    TransactionManager::new(store.clone())
        .execute([move_node("b", 0).on("a")])
        .unwrap();
    let snapshot = store.snapshot();
    assert_eq!(children(&snapshot, "root"), ["b"]);
    assert_eq!(children(&snapshot, "b"), ["a", "b1"]);
    assert_eq!(children(&snapshot, "a"), ["a1", "a2"]);
    assert_eq!(text(&snapshot, "a"), "Hello");
    assert_eq!((snapshot.len(), check(&snapshot)), (7, Ok(())));
}

/// An invalid document, made only by hand.
struct Forest {
    root: Option<NodeId>,
    nodes: Vec<Node>,
}

impl View for Forest {
    fn node(&self, id: impl AsNodeId) -> Option<&Node> {
        let id = &*id.as_node_id();
        self.nodes.iter().find(|node| node.id() == id)
    }

    fn root(&self) -> Option<&NodeId> {
        self.root.as_ref()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        Box::new(self.nodes.iter())
    }
}

/// The other tests rely on this check.
#[test]
fn tree_02_the_integrity_check_finds_every_defect() {
    let found = |root: Option<&str>, nodes: Value| {
        let root = root.map(id);
        check(&Forest {
            root,
            nodes: serde_json::from_value(nodes).unwrap(),
        })
    };
    let node = |id: &str, parent: Option<&str>, children: &[&str]| {
        let mut node = json!({"id": id, "type": "item", "children": children});
        if let Some(parent) = parent {
            node["parent"] = json!(parent);
        }
        node
    };
    let (p, a) = (
        |children: &[&str]| node("p", None, children),
        || node("a", Some("p"), &[]),
    );
    assert_eq!(
        found(Some("p"), json!([p(&["a"]), a(), node("b", None, &[])])),
        Ok(())
    );

    let (parent, child) = (id("p"), id("a"));
    let missing = IntegrityError::ChildMissing {
        parent: parent.clone(),
        child: child.clone(),
    };
    assert_eq!(found(None, json!([p(&["a"])])), Err(missing));
    let of_another = Err(IntegrityError::ChildOfAnother {
        parent: parent.clone(),
        child: child.clone(),
    });
    let q = || node("q", None, &["a"]);
    assert_eq!(
        found(None, json!([p(&["a"]), node("a", Some("q"), &[]), q()])),
        of_another
    );
    assert_eq!(
        found(None, json!([p(&["a"]), node("a", None, &[])])),
        of_another
    );
    let twice = IntegrityError::ChildTwice {
        parent: parent.clone(),
        child: child.clone(),
    };
    assert_eq!(found(None, json!([p(&["a", "a"]), a()])), Err(twice));
    let denies = IntegrityError::ParentDenies {
        parent: parent.clone(),
        child: child.clone(),
    };
    assert_eq!(found(None, json!([p(&[]), a()])), Err(denies.clone()));
    assert_eq!(
        found(None, json!([a()])),
        Err(denies),
        "the parent does not exist"
    );

    let cycle = json!([
        node("x", Some("y"), &["y"]),
        node("y", Some("x"), &["x"]),
        p(&[])
    ]);
    assert!(
        matches!(found(None, cycle), Err(IntegrityError::Cycle { id: of }) if of == id("x") || of == id("y"))
    );
    let itself = json!([node("x", Some("x"), &["x"])]);
    assert_eq!(
        found(None, itself),
        Err(IntegrityError::Cycle { id: id("x") })
    );
    let no_root = |root: &str| Err(IntegrityError::Root { id: id(root) });
    assert_eq!(found(Some("nowhere"), json!([p(&[])])), no_root("nowhere"));
    assert_eq!(found(Some("a"), json!([p(&["a"]), a()])), no_root("a"));
    let marked = |end: usize| json!([{"id": "p", "type": "item", "text": "漢字", "marks": [{"type": "bold", "range": [0, end]}]}]);
    assert_eq!(found(None, marked(2)), Ok(()));
    assert_eq!(
        found(None, marked(3)),
        Err(IntegrityError::Marks { id: parent })
    );
}
