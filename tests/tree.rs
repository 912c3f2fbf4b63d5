//! The promises of the tree, by number.

mod common;

use common::{
    Action, Dice, RefDoc, cases, children, commit, id, image, possible, spoil, steps, store, text,
};
use doclock::dsl::*;
use doclock::{
    AttributePatch, Change, Children, DataStore, EditError, Fault, Mark, Node, NodeId, NodeSpec,
    Operation, OperationError, Place, Transaction, TransactionError, TransactionManager, View,
    check,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn item(id: &str) -> NodeSpec {
    NodeSpec::new("item").with_id(id)
}

/// A root over `a` (over `a1`, `a2`) and `b` (over `b1`), and `loose`, attached nowhere.
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

fn place(parent: &str, index: usize) -> Option<Place> {
    Some(Place {
        parent: id(parent),
        index,
    })
}

/// That the operation is refused for this reason, by a list and by a transaction alike, and changes nothing.
fn refused(store: &DataStore, operation: Operation, reason: &EditError) {
    let before = image(&store.snapshot());
    let version = store.version();
    let manager = TransactionManager::new(store.clone());
    // A change before it makes sure that there is something to lose.
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

// --- 1: missing nodes ---

#[test]
fn tree_01_a_missing_node_or_parent_is_named_and_nothing_is_changed() {
    let store = family();
    let reason = EditError::NodeNotFound { id: id("nowhere") };
    assert_eq!(reason.to_string(), "node nowhere does not exist");
    let on_a_missing_node = [
        delete(),
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
    let at = Some(Place {
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

// --- 2: one parent, no cycles ---

#[test]
fn tree_02_moving_under_itself_or_a_descendant_is_an_error() {
    let store = family();
    commit(&store, |transaction| {
        transaction.insert(item("deep"), &id("a2"), None).unwrap();
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
            let to = Some(Place {
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
        "node a cannot move under deep, which is the node itself or below it"
    );
    // The cycle may only come about within the transaction.
    let mut transaction = store.begin("ann").unwrap();
    transaction.move_node(&id("b"), &id("deep"), None).unwrap();
    assert!(transaction.move_node(&id("a"), &id("b1"), None).is_err());
    transaction.remove_child(&id("a2"), &id("deep")).unwrap();
    transaction.move_node(&id("a"), &id("b1"), None).unwrap();
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
            let before = transaction.parent(&id(child)).cloned();
            transaction
                .move_node(&id(child), &id(parent), None)
                .unwrap();
            assert_eq!(transaction.parent(&id(child)), Some(&id(parent)));
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
fn tree_02_moving_takes_along_all_that_is_below() {
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

/// A document as it should never be: only made by hand.
struct Forest {
    root: Option<NodeId>,
    nodes: Vec<Node>,
}

impl View for Forest {
    fn node(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id() == id)
    }

    fn root(&self) -> Option<&NodeId> {
        self.root.as_ref()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        Box::new(self.nodes.iter())
    }
}

/// What the other tests rely on when they ask for a sound document.
#[test]
fn tree_02_a_check_finds_whatever_is_wrong_with_a_document() {
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
    let missing = Fault::ChildMissing {
        parent: parent.clone(),
        child: child.clone(),
    };
    assert_eq!(found(None, json!([p(&["a"])])), Err(missing));
    let of_another = Err(Fault::ChildOfAnother {
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
    let twice = Fault::ChildTwice {
        parent: parent.clone(),
        child: child.clone(),
    };
    assert_eq!(found(None, json!([p(&["a", "a"]), a()])), Err(twice));
    let denies = Fault::ParentDenies {
        parent: parent.clone(),
        child: child.clone(),
    };
    assert_eq!(found(None, json!([p(&[]), a()])), Err(denies.clone()));
    assert_eq!(
        found(None, json!([a()])),
        Err(denies),
        "the parent does not exist"
    );

    let circle = json!([
        node("x", Some("y"), &["y"]),
        node("y", Some("x"), &["x"]),
        p(&[])
    ]);
    assert!(
        matches!(found(None, circle), Err(Fault::Cycle { id: of }) if of == id("x") || of == id("y"))
    );
    let itself = json!([node("x", Some("x"), &["x"])]);
    assert_eq!(found(None, itself), Err(Fault::Cycle { id: id("x") }));
    let no_root = |root: &str| Err(Fault::Root { id: id(root) });
    assert_eq!(found(Some("nowhere"), json!([p(&[])])), no_root("nowhere"));
    assert_eq!(found(Some("a"), json!([p(&["a"]), a()])), no_root("a"));
    let marked = |end: usize| json!([{"id": "p", "type": "item", "text": "漢字", "marks": [{"type": "bold", "range": [0, end]}]}]);
    assert_eq!(found(None, marked(2)), Ok(()));
    assert_eq!(found(None, marked(3)), Err(Fault::Marks { id: parent }));
}

// --- 3: places and lists of children ---

/// There is no operation that reorders a list of children at once; moving is how it is done.
#[test]
fn tree_03_moving_within_a_parent_works_between_every_two_places() {
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
            let outcome = transaction.move_node(&id(&name(from)), &id("list"), to);
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
            .move_node(&id(&name(from)), &id("list"), None)
            .unwrap();
        assert_eq!(children(&transaction, "list").last(), Some(&name(from)));
    }
}

#[test]
fn tree_03_a_place_that_is_not_there_is_an_error() {
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
fn tree_03_no_list_of_children_takes_a_foreign_a_missing_or_a_duplicate_id() {
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

    // Whole lists come in with a subtree.
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

// --- 4: deleting, and bringing back ---

/// Undoes changes, the last first.
fn undo(transaction: &mut Transaction, changes: &[Change]) -> Result<(), EditError> {
    changes
        .iter()
        .rev()
        .try_for_each(|change| transaction.apply(change.inverse()))
}

fn redo(transaction: &mut Transaction, changes: &[Change]) -> Result<(), EditError> {
    changes
        .iter()
        .try_for_each(|change| transaction.apply(change.clone()))
}

#[test]
fn tree_04_deleting_a_node_deletes_its_subtree_and_undo_brings_it_back() {
    let store = family();
    commit(&store, |transaction| {
        let bold = Mark::new("bold", 1..3);
        let link = Mark::whole("link").with_attributes([("href", json!("x"))]);
        transaction.set_marks(&id("a"), [bold, link]).unwrap();
        transaction
            .set_attrs(&id("a2"), [("level", json!(2))])
            .unwrap();
        // A generated id comes back as it was, too.
        transaction
            .insert(NodeSpec::new("item"), &id("a1"), None)
            .unwrap();
        transaction.insert(item("between"), &id("root"), 1).unwrap();
    });
    let before = store.snapshot();
    let generated = before.children(&id("a1")).next().unwrap().id().clone();
    let committed = commit(&store, |transaction| transaction.delete(&id("a")).unwrap());
    let after = store.snapshot();
    for gone in [id("a"), id("a1"), id("a2"), generated.clone()] {
        assert!(before.contains(&gone) && !after.contains(&gone), "{gone}");
    }
    assert_eq!(children(&after, "root"), ["between", "b"]);
    assert_eq!((after.len(), check(&after)), (before.len() - 4, Ok(())));

    commit(&store, |transaction| {
        undo(transaction, &committed.changes).unwrap()
    });
    let restored = store.snapshot();
    assert_eq!(restored, before);
    assert_eq!(image(&restored), image(&before));
    assert_eq!(
        children(&restored, "root"),
        ["a", "between", "b"],
        "the same order"
    );
    assert_eq!(
        common::marks(&restored, "a"),
        common::marks(&before, "a"),
        "the same marks"
    );
    assert_eq!(common::marks(&restored, "a").len(), 2);
    assert_eq!(restored.parent(&generated), Some(&id("a1")), "the same ids");
    commit(&store, |transaction| {
        redo(transaction, &committed.changes).unwrap()
    });
    assert_eq!(store.snapshot(), after);
}

proptest! {
    #![proptest_config(cases(250))]

    /// For transactions of every kind of operation, committed one after the other.
    #[test]
    fn tree_04_undo_restores_the_before_image_exactly_and_redo_the_after_image(
        document in steps(0..20),
        transactions in prop::collection::vec(steps(1..24), 1..4),
    ) {
        let store = store();
        let mut model = RefDoc::default();
        let mut done = Vec::new();
        for steps in std::iter::once(document).chain(transactions) {
            let actions = possible(&steps, &model);
            actions.iter().for_each(|action| model.apply(action).unwrap());
            let before = store.snapshot();
            let operations: Vec<Operation> = actions.iter().map(Action::operation).collect();
            let events = store.subscribe(1);
            TransactionManager::new(store.clone()).execute(operations).unwrap();
            if let Ok(event) = events.receiver().try_recv() {
                done.push((before, event.commit.changes.clone(), store.snapshot()));
            }
        }
        let moved = |changes: &[Change], to: &doclock::Snapshot, how: fn(&mut Transaction, &[Change]) -> Result<(), EditError>| {
            commit(&store, |transaction| how(transaction, changes).unwrap());
            let now = store.snapshot();
            prop_assert_eq!(&now, to);
            prop_assert_eq!(image(&now), image(to));
            prop_assert_eq!(check(&now), Ok(()));
            Ok(())
        };
        for (before, changes, _) in done.iter().rev() {
            moved(changes, before, undo)?;
        }
        prop_assert!(store.snapshot().is_empty(), "all the way back to nothing");
        for (_, changes, after) in &done {
            moved(changes, after, redo)?;
        }
        for (before, changes, after) in done.iter().rev() {
            moved(changes, before, undo)?;
            moved(changes, after, redo)?;
            moved(changes, before, undo)?;
        }
    }

    /// Changes as they might come in from elsewhere: made for other documents, or made up.
    #[test]
    fn tree_04_whatever_change_is_applied_its_inverse_leads_back(
        document in steps(1..30),
        elsewhere in steps(1..30),
        seed in any::<u64>(),
    ) {
        let store = store();
        let here = possible(&document, &RefDoc::default());
        let other = common::store();
        let there = possible(&elsewhere, &RefDoc::default());
        let run = |store: &DataStore, actions: &[Action]| commit(store, |transaction| {
            actions.iter().for_each(|action| action.perform(transaction).unwrap());
        });
        let changes = [run(&store, &here).changes, run(&other, &there).changes].concat();
        let mut dice = Dice(seed);
        let mut transaction = store.begin("ann").unwrap();
        for _ in 0..40 {
            if changes.is_empty() {
                break;
            }
            let drawn = &changes[dice.below(changes.len())];
            let drawn = if dice.one_in(2) { drawn.inverse() } else { drawn.clone() };
            let mut json = serde_json::to_value(drawn).unwrap();
            for _ in 0..dice.below(3) {
                spoil(&mut json, &mut dice);
            }
            let Ok(change) = serde_json::from_value::<Change>(json) else { continue };
            let before = image(&transaction);
            match transaction.apply(change.clone()) {
                Err(_) => prop_assert_eq!(image(&transaction), before, "{:?}", change),
                Ok(()) => {
                    prop_assert_eq!(check(&transaction), Ok(()), "{:?}", change);
                    let after = image(&transaction);
                    let undone = transaction.apply(change.inverse());
                    prop_assert_eq!(undone, Ok(()), "{:?}", change);
                    prop_assert_eq!(image(&transaction), before, "{:?}", change);
                    let redone = transaction.apply(change.clone());
                    prop_assert_eq!(redone, Ok(()), "{:?}", change);
                    prop_assert_eq!(image(&transaction), after, "{:?}", change);
                }
            }
        }
    }
}

/// That a change is refused, or is undone exactly by its inverse.
fn has_an_inverse(store: &DataStore, change: &Change) {
    let mut transaction = store.begin("ann").unwrap();
    let before = image(&transaction);
    if transaction.apply(change.clone()).is_ok() {
        let undone = transaction.apply(change.inverse());
        assert_eq!(
            (undone, image(&transaction)),
            (Ok(()), before),
            "{change:?}"
        );
    } else {
        assert_eq!(image(&transaction), before, "{change:?}");
    }
}

#[test]
fn tree_04_a_change_of_no_root_to_no_root_does_not_fit_a_document_with_a_root() {
    let store = family();
    has_an_inverse(
        &store,
        &Change::SetRoot {
            before: None,
            after: None,
        },
    );
}

#[test]
fn tree_04_attributes_patched_twice_in_one_change_are_refused_or_undone() {
    let store = family();
    let patch = |after: Value| AttributePatch {
        key: "x".into(),
        before: None,
        after: Some(after),
    };
    let patches = vec![patch(json!(1)), patch(json!(2))];
    has_an_inverse(
        &store,
        &Change::PatchAttrs {
            id: id("a"),
            patches,
        },
    );
}

#[test]
fn tree_04_an_attribute_patched_to_null_is_refused_or_undone() {
    let store = family();
    let patch = |before, after| {
        vec![AttributePatch {
            key: "x".into(),
            before,
            after,
        }]
    };
    for patches in [
        patch(None, Some(Value::Null)),
        patch(Some(Value::Null), Some(json!(1))),
    ] {
        has_an_inverse(
            &store,
            &Change::PatchAttrs {
                id: id("a"),
                patches,
            },
        );
    }
    commit(&store, |transaction| {
        transaction.set_attrs(&id("a"), [("x", json!(1))]).unwrap()
    });
    let patches = patch(Some(json!(1)), Some(Value::Null));
    has_an_inverse(
        &store,
        &Change::PatchAttrs {
            id: id("a"),
            patches,
        },
    );
}

// --- Depth and breadth ---

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
    let events = store.subscribe(4);
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
        transaction.move_node(&below, &id("bottom"), None),
        Err(cycle)
    );
    transaction.remove_child(&top, &below).unwrap();
    transaction.create(item("shelf")).unwrap();
    transaction.move_node(&below, &id("shelf"), None).unwrap();
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
    for event in events.receiver().try_iter() {
        let line = serde_json::to_string(&*event.commit).unwrap();
        let read: doclock::Commit = serde_json::from_str(&line).unwrap();
        assert_eq!(read, *event.commit, "a log line is not nested");
    }
}

proptest! {
    #![proptest_config(cases(30))]

    /// Many enough for the list to be a tree of its own, with snapshots that share parts of it.
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
                    1 if at < expected.len() => transaction.delete(&expected.remove(at)).unwrap(),
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
fn tree_03_among_a_hundred_thousand_siblings_every_place_is_the_right_one() {
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
            transaction.delete(&expected.remove(at)).unwrap();
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
