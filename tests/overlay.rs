//! The promises of begin, commit and rollback, by number.

mod common;

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use common::{
    Action, Aim, Chooser, PATIENCE, RefDoc, cases, children, commit, id, image, possible, steps,
    store,
};
use crossbeam_channel::RecvTimeoutError;
use doclock::dsl::*;
use doclock::{
    Change, Commit, CommitEvent, DataStore, EditError, Mark, NodeId, NodeOperation, NodeSpec,
    Operation, OperationError, Snapshot, Subscription, Transaction, TransactionError,
    TransactionManager, View, check,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

fn paragraph(id: &str) -> NodeSpec {
    NodeSpec::new("paragraph").with_id(id)
}

/// A root with two paragraphs, the first with a text.
fn small_document() -> DataStore {
    let store = store();
    commit(&store, |transaction| {
        let first = paragraph("first").with_text("Hello");
        let root = paragraph("root").with_children([first, paragraph("second")]);
        let root = transaction.create(root).unwrap();
        transaction.set_root(&root).unwrap();
    });
    store
}

// --- 1: own writes visible inside, committed versions outside ---

#[test]
fn overlay_01_own_writes_are_visible_inside_and_nowhere_else() {
    let store = small_document();
    let before = store.snapshot();
    let before_image = image(&before);
    let mut transaction = store.begin("ann").unwrap();

    transaction.set_text(&id("first"), "changed").unwrap();
    assert_eq!(common::text(&transaction, "first"), "changed");
    transaction
        .set_attrs(&id("first"), [("level", json!(2))])
        .unwrap();
    let attributes = transaction.node(&id("first")).unwrap().attributes();
    assert_eq!(attributes.get("level"), Some(&json!(2)));
    transaction
        .set_marks(&id("first"), [Mark::whole("bold")])
        .unwrap();
    assert_eq!(
        common::marks(&transaction, "first"),
        [(0, 7, "bold".to_owned())]
    );
    let created = transaction
        .insert(NodeSpec::new("item"), &id("second"), None)
        .unwrap();
    assert_eq!(transaction.parent(&created), Some(&id("second")));
    transaction
        .move_node(&id("second"), &id("root"), 0)
        .unwrap();
    assert_eq!(children(&transaction, "root"), ["second", "first"]);
    transaction.delete(&id("first")).unwrap();
    assert!(!transaction.contains(&id("first")));
    transaction.set_root(None).unwrap();
    assert_eq!(transaction.root(), None);

    for outside in [store.snapshot(), transaction.base().clone(), before.clone()] {
        assert_eq!(image(&outside), before_image, "before the commit");
        assert_eq!(outside.version(), 1);
    }
    let inside = image(&transaction);
    assert_eq!(transaction.commit().unwrap().version, 2);
    assert_eq!(image(&store.snapshot()), inside, "after the commit");
    assert_eq!(image(&before), before_image, "a snapshot never changes");
}

/// Writes one number into `nodes` nodes at once; readers must find it in all of them or in none.
fn written_as_a_whole(nodes: usize) {
    const WRITERS: u64 = 3;
    const COMMITS: u64 = 60;
    let names: Vec<NodeId> = (0..nodes).map(|n| id(&format!("n{n}"))).collect();
    let store = store();
    store.set_lock_timeout(PATIENCE);
    commit(&store, |transaction| {
        for name in &names {
            let spec = paragraph(&name.to_string()).with_text("0");
            transaction.create(spec).unwrap();
        }
    });
    let number = |snapshot: &Snapshot| {
        let texts: BTreeSet<String> = snapshot
            .nodes()
            .map(|node| node.text().to_string())
            .collect();
        assert_eq!(texts.len(), 1, "half of a transaction: {texts:?}");
        let attributes = names
            .iter()
            .map(|name| snapshot.node(name).unwrap().attributes());
        let number: u64 = texts.first().unwrap().parse().unwrap();
        for attributes in attributes.filter(|_| number > 0) {
            assert_eq!(attributes.get("number"), Some(&json!(number)));
        }
        number
    };
    let start = Barrier::new(WRITERS as usize + 2);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = || {
            start.wait();
            let mut kept: Vec<(Snapshot, u64)> = Vec::new();
            let mut last = 1;
            while !done.load(Ordering::Acquire) {
                let snapshot = store.snapshot();
                assert!(snapshot.version() >= last, "versions never go back");
                last = snapshot.version();
                assert_eq!(number(&snapshot), last - 1, "one number a version");
                if kept.len() < 20 {
                    kept.push((snapshot, last - 1));
                }
            }
            for (snapshot, then) in kept {
                assert_eq!(number(&snapshot), then, "a snapshot never changes");
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        let write = || {
            start.wait();
            for _ in 0..COMMITS {
                let mut transaction = store.begin("writer").unwrap();
                let next = number(transaction.base()) + 1;
                for name in &names {
                    transaction.set_text(name, next.to_string()).unwrap();
                    transaction
                        .set_attrs(name, [("number", json!(next))])
                        .unwrap();
                }
                assert_eq!(transaction.commit().unwrap().version, next + 1);
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        for outcome in written
            .into_iter()
            .chain(readers.map(|reader| reader.join()))
        {
            outcome.unwrap();
        }
    });
    assert_eq!(store.version(), 1 + WRITERS * COMMITS);
}

#[test]
fn overlay_01_readers_never_see_half_of_a_small_transaction() {
    written_as_a_whole(2);
}

/// More nodes than a commit writes while readers wait.
#[test]
fn overlay_01_readers_never_see_half_of_a_large_transaction() {
    written_as_a_whole(100);
}

proptest! {
    #![proptest_config(cases(200))]

    /// The reference sees every step, those that fail included.
    #[test]
    fn overlay_01_a_transaction_sees_exactly_its_own_steps(
        document in steps(0..20),
        steps in steps(1..50),
        committed in any::<bool>(),
    ) {
        let store = store();
        let mut model = RefDoc::default();
        for action in possible(&document, &model) {
            commit(&store, |transaction| action.perform(transaction).unwrap());
            model.apply(&action).unwrap();
        }
        let before = image(&store.snapshot());
        let mut transaction = store.begin("ann").unwrap();
        for step in steps {
            let action = Chooser::new(&model, step.seed, Aim::Wild).action(step.kind);
            if is_list(&action) {
                continue;
            }
            let mut after = model.clone();
            let allowed = after.apply(&action).is_ok();
            let unchanged = (!allowed).then(|| image(&transaction));
            let outcome = action.perform(&mut transaction);
            prop_assert_eq!(outcome.is_ok(), allowed, "{:?}: {:?}", action, outcome);
            if allowed {
                model = after;
            }
            prop_assert_eq!(model.compare(&transaction), Ok(()), "after {:?}", action);
            if let Some(unchanged) = unchanged {
                prop_assert_eq!(image(&transaction), unchanged, "after {:?}", action);
            }
            prop_assert_eq!(&image(&store.snapshot()), &before, "outside");
        }
        if committed {
            transaction.commit().unwrap();
            prop_assert_eq!(model.compare(&store.snapshot()), Ok(()));
        } else {
            transaction.rollback();
            prop_assert_eq!(image(&store.snapshot()), before);
        }
    }
}

/// Whether an edit is a list itself, of which the first may stand when the second fails.
fn is_list(action: &Action) -> bool {
    matches!(action, Action::Control(..) | Action::Call(_))
}

// --- 2: what is not committed leaves no trace ---

/// All that a transaction which is not committed must leave as it was.
struct Before {
    snapshot: Snapshot,
    image: String,
    events: Subscription,
}

impl Before {
    fn of(store: &DataStore) -> Self {
        Self::like(store, store.snapshot())
    }

    /// With the snapshot of a store that was built in the same way: one of the store's own would keep it from
    /// changing nodes in place.
    fn like(store: &DataStore, snapshot: Snapshot) -> Self {
        Self {
            image: image(&store.snapshot()),
            events: store.subscribe(8),
            snapshot,
        }
    }

    fn compare(&self, store: &DataStore) -> Result<(), TestCaseError> {
        let now = store.snapshot();
        prop_assert_eq!(&now, &self.snapshot);
        prop_assert_eq!(image(&now), &self.image[..]);
        prop_assert_eq!(image(&self.snapshot), &self.image[..]);
        prop_assert_eq!(now.version(), self.snapshot.version());
        prop_assert_eq!(store.version(), self.snapshot.version());
        prop_assert!(self.events.receiver().is_empty(), "an event was emitted");
        prop_assert_eq!(self.events.missed(), 0);
        prop_assert!(!store.is_locked(), "the lock is still held");
        Ok(())
    }
}

/// Performs the edits in a transaction that holds the store's lock itself.
fn begun(store: &DataStore, actions: &[Action]) -> Transaction {
    perform(store.begin("ann").unwrap(), actions)
}

fn perform(mut transaction: Transaction, actions: &[Action]) -> Transaction {
    for action in actions {
        action.perform(&mut transaction).unwrap();
    }
    transaction
}

/// The edits as a list with one operation more, and what the list fails with.
fn failing(store: &DataStore, actions: &[Action], last: Operation) -> OperationError {
    let mut operations: Vec<Operation> = actions.iter().map(Action::operation).collect();
    operations.push(last);
    let manager = TransactionManager::new(store.clone());
    match manager.execute(operations).unwrap_err() {
        TransactionError::Operation { index, cause, .. } => {
            let count: usize = actions.iter().map(Action::operations).sum();
            assert_eq!(index, count, "it is the last that fails: {cause}");
            cause
        }
        other => panic!("{other}"),
    }
}

/// Every way for a transaction to end other than with a commit.
type Ending = fn(&DataStore, &[Action]);

const ENDINGS: [(&str, Ending); 9] = [
    ("rollback", |store, actions| {
        begun(store, actions).rollback()
    }),
    ("drop", |store, actions| drop(begun(store, actions))),
    ("error", |store, actions| {
        let mut transaction = begun(store, actions);
        transaction.delete(&id("nowhere")).unwrap_err();
    }),
    ("panic", |store, actions| {
        let code = || {
            let _transaction = begun(store, actions);
            resume_unwind(Box::new("torn"))
        };
        let Err(payload) = catch_unwind(AssertUnwindSafe(code));
        assert_eq!(payload.downcast_ref(), Some(&"torn"));
    }),
    ("rollback under a lock held by id", |store, actions| {
        let lock = store.acquire_lock("ann").unwrap();
        perform(store.begin_with(lock).unwrap(), actions).rollback();
        store.release_lock(lock).unwrap();
    }),
    ("error in an operation", |store, actions| {
        let cause = failing(store, actions, delete().on("nowhere"));
        assert!(matches!(
            cause,
            OperationError::Edit(EditError::NodeNotFound { .. })
        ));
    }),
    ("error in code", |store, actions| {
        let cause = failing(store, actions, op(|_| Err("no")));
        assert!(matches!(cause, OperationError::Failed(_)));
    }),
    ("panic in code", |store, actions| {
        let cause = failing(
            store,
            actions,
            op::<String>(|_| resume_unwind(Box::new("torn"))),
        );
        assert!(matches!(cause, OperationError::Panicked(_)));
    }),
    ("error in the middle of code", |store, actions| {
        let cause = failing(
            store,
            actions,
            op(|transaction| {
                transaction.create(NodeSpec::new("item"))?;
                transaction.delete(&id("nowhere"))
            }),
        );
        assert!(matches!(cause, OperationError::Edit(_)));
    }),
];

/// A store with the document that these steps come to on an empty one.
fn built(steps: &[common::Step]) -> (DataStore, RefDoc) {
    let store = store();
    let mut model = RefDoc::default();
    let actions = possible(steps, &model);
    let operations: Vec<Operation> = actions.iter().map(Action::operation).collect();
    TransactionManager::new(store.clone())
        .execute(operations)
        .unwrap();
    for action in &actions {
        model.apply(action).unwrap();
    }
    (store, model)
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn overlay_02_nothing_is_left_of_a_transaction_that_is_not_committed(
        document in steps(0..20),
        steps in steps(1..40),
    ) {
        let (store, model) = built(&document);
        let (twin, _) = built(&document);
        let actions = possible(&steps, &model);
        let before = Before::like(&store, twin.snapshot());
        for (ending, end) in ENDINGS {
            end(&store, &actions);
            let compared = before.compare(&store);
            prop_assert!(compared.is_ok(), "after {}: {:?}", ending, compared);
        }
        // The same edits do something once they are committed, so there was something to be undone.
        let committed = begun(&store, &actions).commit().unwrap();
        let mut after = model.clone();
        actions.iter().for_each(|action| after.apply(action).unwrap());
        prop_assert_eq!(after.compare(&store.snapshot()), Ok(()));
        prop_assert_eq!(before.compare(&store).is_err(), !committed.changes.is_empty());
    }
}

/// The names between backticks that serde lists for a tag which it does not know.
fn expected_tags(error: &serde_json::Error) -> BTreeSet<String> {
    let message = error.to_string();
    let (_, listed) = message.split_once("expected one of").expect(&message);
    listed
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The variants of an enum, read from its source, because code outside of the crate cannot match it in full.
fn variants(source: &str, head: &str) -> BTreeSet<String> {
    let (_, body) = source.split_once(head).expect(head);
    let (body, _) = body.split_once("\n}").expect(head);
    let name = |line: &str| {
        let line = line
            .strip_prefix("    ")
            .filter(|line| line.starts_with(char::is_uppercase))?;
        line.split(|c: char| !c.is_alphanumeric())
            .next()
            .map(str::to_owned)
    };
    body.lines().filter_map(name).collect()
}

/// The public methods that write, read from their source.
fn writing_methods(source: &str) -> BTreeSet<String> {
    let name = |method: &str| {
        let signature = method.split(" {\n").next()?;
        let name = signature.split(['(', '<']).next()?;
        signature.contains("&mut self").then(|| name.to_owned())
    };
    source
        .split("    pub fn ")
        .skip(1)
        .filter_map(name)
        .collect()
}

/// Fails as soon as the library can do something that the tests above do not draw.
#[test]
fn overlay_02_the_operations_drawn_are_all_that_there_are() {
    let unknown = json!({"type": "?", "payload": {}});
    let names =
        expected_tags(&serde_json::from_value::<NodeOperation>(unknown.clone()).unwrap_err());
    let kinds = variants(
        include_str!("../src/transaction/operation.rs"),
        "pub enum Operation {",
    );
    let mut methods = writing_methods(include_str!("../src/store/transaction.rs"));
    let changes = expected_tags(&serde_json::from_value::<Change>(unknown).unwrap_err());
    assert!(
        names.contains("insertText") && kinds.contains("Control"),
        "{names:?} {kinds:?}"
    );
    assert!(
        methods.remove("apply"),
        "drawn in tests/tree.rs; the others are {methods:?}"
    );

    let mut drawn: [BTreeSet<String>; 4] = Default::default();
    let mut runner = TestRunner::deterministic();
    for _ in 0..100 {
        let steps = steps(30).new_tree(&mut runner).unwrap().current();
        let actions = possible(&steps, &RefDoc::default());
        for action in &actions {
            let operation = action.operation();
            let debug = format!("{operation:?}");
            let kind = debug.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            // Code is shown as what it is, without the name of its variant around it.
            drawn[1].insert(kind.to_owned());
            if let Operation::On { operation, .. } = operation {
                drawn[0].insert(operation.name().to_owned());
            }
            drawn[2].extend(action.methods().into_iter().map(str::to_owned));
        }
        for change in begun(&store(), &actions).commit().unwrap().changes {
            let tag = serde_json::to_value(change).unwrap()["type"].clone();
            drawn[3].insert(tag.as_str().unwrap().to_owned());
        }
    }
    assert_eq!(drawn, [names, kinds, methods, changes]);
}

// --- 3: in the order given ---

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
    assert_eq!(common::text(&store.snapshot(), "first"), "ca");

    // A sorter would put what creates before what needs it, and what deletes at an end.
    let too_early = [add_child("new", None).on("root"), create(paragraph("new"))];
    let error = manager.execute(too_early).unwrap_err();
    assert!(
        matches!(error, TransactionError::Operation { index: 0, .. }),
        "{error}"
    );
    let result = manager
        .execute([
            create(paragraph("new")),
            delete().on("first"),
            add_child("new", 0).on("root"),
            create(paragraph("first")),
            set_attrs([("n", json!(1))]).on("first"),
            set_attrs([("n", json!(2))]).on("first"),
        ])
        .unwrap();
    let snapshot = store.snapshot();
    assert_eq!(children(&snapshot, "root"), ["new", "second"]);
    let first = snapshot.node(&id("first")).unwrap();
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

// --- 4: create, delete, recreate, update, move within one transaction ---

#[test]
fn overlay_04_create_then_delete_is_absent() {
    let store = small_document();
    let before = image(&store.snapshot());
    commit(&store, |transaction| {
        let below = NodeSpec::new("item").with_id("below");
        let new = transaction
            .insert(paragraph("new").with_children([below]), &id("root"), 1)
            .unwrap();
        transaction.delete(&new).unwrap();
        for gone in ["new", "below"] {
            assert!(!transaction.contains(&id(gone)));
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
    let recreate = |transaction: &mut Transaction| {
        transaction.delete(&id("first")).unwrap();
        let new = NodeSpec::new("heading").with_id("first").with_text("new");
        transaction.insert(new, &id("second"), 0).unwrap();
        let node = transaction.node(&id("first")).unwrap();
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
    assert_eq!(common::text(&snapshot, "first"), "new");
    assert_eq!(snapshot.node(&id("first")).unwrap().kind(), "heading");
    assert_eq!(children(&snapshot, "root"), ["second"]);
    assert_eq!(children(&snapshot, "second"), ["first"]);
    assert_eq!((snapshot.len(), check(&snapshot)), (3, Ok(())));

    // To and fro, ending with either.
    commit(&store, |transaction| {
        for _ in 0..3 {
            recreate(transaction);
        }
        transaction.delete(&id("first")).unwrap();
    });
    assert!(!store.snapshot().contains(&id("first")));
    assert_eq!(check(&store.snapshot()), Ok(()));
}

#[test]
fn overlay_04_update_then_delete_is_gone_and_unlinked() {
    let store = small_document();
    commit(&store, |transaction| {
        transaction.set_text(&id("first"), "changed").unwrap();
        transaction
            .set_attrs(&id("first"), [("n", json!(1))])
            .unwrap();
        transaction.move_node(&id("first"), &id("root"), 1).unwrap();
        transaction.delete(&id("first")).unwrap();
        assert_eq!(children(transaction, "root"), ["second"]);
    });
    let snapshot = store.snapshot();
    assert!(!snapshot.contains(&id("first")));
    let listed = snapshot.node(&id("root")).unwrap().children();
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
        transaction.remove_child(&id("root"), &id("first")).unwrap();
        assert_eq!(transaction.parent(&id("first")), None);
        transaction.delete(&id("first")).unwrap();
    });
    assert_eq!(children(&store.snapshot(), "root"), ["second"]);
    assert_eq!(
        (store.snapshot().len(), check(&store.snapshot())),
        (2, Ok(()))
    );
}

// --- 5: parents that come and go within one transaction ---

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
            .insert(paragraph("below"), &id("second"), None)
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
    let deleted = || delete().on("second");
    gone([deleted(), move_node("second", None).on("first")], "second");
    gone([deleted(), add_child("first", None).on("second")], "second");
    gone(
        [deleted(), add_child(paragraph("new"), None).on("second")],
        "second",
    );
    // What was below it is deleted with it.
    gone([deleted(), move_node("below", None).on("first")], "below");
    // And so is one that was created and deleted.
    let mut transaction = store.begin("ann").unwrap();
    let new = transaction.create(NodeSpec::new("paragraph")).unwrap();
    transaction.delete(&new).unwrap();
    let refused = transaction.move_node(&id("first"), &new, None);
    assert_eq!(refused, Err(EditError::NodeDeleted { id: new }));
}

// --- 6: scans, children, parents ---

#[test]
fn overlay_06_scans_children_and_parents_include_what_is_new_and_exclude_what_is_deleted() {
    let store = small_document();
    let mut transaction = store.begin("ann").unwrap();
    let below = paragraph("below");
    transaction
        .insert(paragraph("new").with_children([below]), &id("root"), 1)
        .unwrap();
    transaction.create(paragraph("loose")).unwrap();
    transaction.delete(&id("second")).unwrap();
    transaction.set_text(&id("first"), "changed").unwrap();

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
    assert_eq!(transaction.parent(&id("below")), Some(&id("new")));
    assert_eq!(transaction.parent(&id("new")), Some(&id("root")));
    assert_eq!(transaction.parent(&id("second")), None);
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
    assert!(transaction.contains(&id("new")) && !transaction.contains(&id("second")));
    assert_eq!(transaction.children(&id("second")).count(), 0);
    assert_eq!(check(&transaction), Ok(()));

    // The deleted node comes back as a new one.
    transaction.create(paragraph("second")).unwrap();
    assert_eq!(transaction.nodes().count(), 6);
    assert_eq!(transaction.parent(&id("second")), None);
    assert_eq!(children(&transaction, "root"), ["first", "new"]);
}

/// Past a few nodes the overlay finds them otherwise.
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
        transaction.delete(&id(&old)).unwrap();
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

// --- 7: the root ---

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
        transaction.delete(&id("one")).unwrap();
        assert_eq!(store.snapshot().root(), Some(&id("one")));
    });
    assert_eq!(before.root(), Some(&id("one")), "a snapshot keeps its root");
    let after = store.snapshot();
    assert_eq!((after.root(), after.len()), (Some(&id("two")), 1));
    commit(&store, |transaction| {
        transaction.set_root(None).unwrap();
        transaction.delete(&id("two")).unwrap();
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
    assert_eq!(transaction.delete(&id("root")), refused);
    // One that became the root in this transaction is protected, one that no longer is can go.
    transaction.remove_child(&id("root"), &id("first")).unwrap();
    transaction.set_root(&id("first")).unwrap();
    let refused = Err(EditError::RootDeleted { id: id("first") });
    assert_eq!(transaction.delete(&id("first")), refused);
    transaction.delete(&id("root")).unwrap();
    assert_eq!(transaction.nodes().count(), 1);
    transaction.rollback();
    let error = TransactionManager::new(store.clone())
        .execute([delete().on("root")])
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
        transaction.move_node(&id("root"), &id("loose"), None),
        Err(moved)
    );
    assert_eq!(transaction.root(), Some(&id("root")));
    assert_eq!(check(&transaction), Ok(()));
}

// --- 9: versions ---

#[test]
fn overlay_09_versions_rise_by_one_per_commit() {
    let store = store();
    assert_eq!((store.version(), store.snapshot().version()), (0, 0));
    for version in 1..=100 {
        // Small ones and large ones are published by different means.
        let nodes = if version % 10 == 0 { 200 } else { 1 };
        let committed = commit(&store, |transaction| {
            for _ in 0..nodes {
                transaction.create(NodeSpec::new("item")).unwrap();
            }
        });
        assert_eq!(committed.version, version);
        assert_eq!(
            (store.version(), store.snapshot().version()),
            (version, version)
        );
    }
}

#[test]
fn overlay_09_a_rolled_back_or_empty_transaction_changes_no_version_and_emits_nothing() {
    let store = small_document();
    let before = Before::of(&store);
    let manager = TransactionManager::new(store.clone());
    let unchanged = |version: u64| {
        assert_eq!(version, 1);
        before.compare(&store).unwrap();
    };

    let committed = store.begin("ann").unwrap().commit().unwrap();
    assert!(committed.changes.is_empty());
    unchanged(committed.version);
    let nothing: [Operation; 0] = [];
    unchanged(manager.execute(nothing).unwrap().version);
    unchanged(manager.execute([control("nowhere", [])]).unwrap().version);
    let lock = store.acquire_lock("ann").unwrap();
    let result = manager
        .execute_under(lock, [control("nowhere", [])])
        .unwrap();
    store.release_lock(lock).unwrap();
    unchanged(result.version);
    // So does one that only reads, and one whose writes change nothing.
    let committed = commit(&store, |transaction| {
        assert_eq!(transaction.nodes().count(), 3);
        transaction.set_text(&id("first"), "Hello").unwrap();
    });
    unchanged(committed.version);
    for (_, end) in ENDINGS {
        end(
            &store,
            &[Action::SetText("first".to_owned(), "changed".to_owned())],
        );
        unchanged(store.version());
    }
    assert_eq!(
        commit(&store, |transaction| {
            transaction.set_text(&id("first"), "changed").unwrap();
        })
        .version,
        2,
        "the number was not used up"
    );
}

// --- 12: events ---

/// Runs a test that would never end if what it tests were broken.
fn within_patience(test: impl FnOnce() + Send + 'static) {
    let (done, end) = crossbeam_channel::bounded(1);
    let thread = thread::spawn(move || {
        test();
        // Nobody listens any more if this took too long, and then that is the error.
        let _ = done.send(());
    });
    if let Err(RecvTimeoutError::Timeout) = end.recv_timeout(PATIENCE) {
        panic!("it does not end");
    }
    if let Err(payload) = thread.join() {
        resume_unwind(payload);
    }
}

fn received(events: &Subscription) -> Vec<CommitEvent> {
    events.receiver().try_iter().collect()
}

#[test]
fn overlay_12_an_event_tells_version_owner_transaction_operations_and_changes() {
    let store = store();
    let events = store.subscribe(16);
    let manager = TransactionManager::for_owner(store.clone(), "ann");
    let result = manager
        .execute([
            create(paragraph("a")),
            control("a", [insert_text(0, "x"), set_text("y")]),
        ])
        .unwrap();
    let mut transaction = store.begin("bob").unwrap();
    let transaction_id = transaction.id();
    transaction.set_text(&id("a"), "z").unwrap();
    let committed = transaction.commit().unwrap();
    let lock = store.acquire_lock("front end").unwrap();
    let held = store.current_lock().unwrap();
    let under = manager
        .execute_under(lock, [set_text("1").on("a")])
        .unwrap();
    manager
        .execute_under(lock, [set_text("2").on("a")])
        .unwrap();
    store.release_lock(lock).unwrap();

    let [first, second, third, fourth] = &received(&events)[..] else {
        panic!()
    };
    assert!(
        [first, second, third, fourth]
            .iter()
            .all(|event| event.missed == 0)
    );
    let (first, second) = (&first.commit, &second.commit);
    assert_eq!((first.version, first.owner.as_str()), (1, "ann"));
    assert_eq!(first.transaction_id, result.transaction_id);
    assert_eq!(first.operations, result.operations);
    let names: Vec<_> = first
        .operations
        .iter()
        .map(|executed| executed.name.as_str())
        .collect();
    assert_eq!(names, ["create", "insertText", "setText"]);
    let kinds: Vec<_> = first
        .changes
        .iter()
        .map(|change| {
            serde_json::to_value(change).unwrap()["type"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(kinds, ["insertSubtree", "spliceText", "spliceText"]);
    assert_eq!((second.version, second.owner.as_str()), (2, "bob"));
    assert_eq!(second.transaction_id, transaction_id);
    assert_eq!(committed.transaction_id, transaction_id);
    assert_eq!(second.changes, committed.changes);
    assert!(
        second.operations.is_empty(),
        "it was not a list of operations"
    );
    assert!(first.fencing_token < second.fencing_token);
    let (third, fourth) = (&third.commit, &fourth.commit);
    assert_eq!(
        third.owner.as_str(),
        "front end",
        "the owner is who holds the lock"
    );
    assert_eq!(third.transaction_id, under.transaction_id);
    assert_eq!(
        (third.fencing_token, fourth.fencing_token),
        (held.fencing_token, held.fencing_token)
    );
}

proptest! {
    #![proptest_config(cases(60))]

    /// As if each commit were written to a log and the log were read somewhere else.
    #[test]
    fn overlay_12_events_replayed_from_json_give_the_same_document(
        transactions in prop::collection::vec(steps(1..12), 1..6),
    ) {
        let store = store();
        let events = store.subscribe(64);
        let mut model = RefDoc::default();
        for steps in transactions {
            let actions = possible(&steps, &model);
            let operations: Vec<Operation> = actions.iter().map(Action::operation).collect();
            TransactionManager::new(store.clone()).execute(operations).unwrap();
            actions.iter().for_each(|action| model.apply(action).unwrap());
        }
        let copy = DataStore::new();
        for event in received(&events) {
            let line = serde_json::to_string(&*event.commit).unwrap();
            let read: Commit = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&read, &*event.commit);
            let version = commit(&copy, |transaction| {
                for change in read.changes {
                    transaction.apply(change).unwrap();
                }
            }).version;
            prop_assert_eq!(version, event.commit.version);
        }
        prop_assert_eq!(&copy.snapshot(), &store.snapshot());
        prop_assert_eq!(image(&copy.snapshot()), image(&store.snapshot()));
    }
}

#[test]
fn overlay_12_events_of_many_threads_come_after_the_fact_and_in_commit_order() {
    const WRITERS: usize = 4;
    const COMMITS: usize = 100;
    let store = store();
    store.set_lock_timeout(PATIENCE);
    let events = store.subscribe(WRITERS * COMMITS);
    let start = Barrier::new(WRITERS);
    let (heard, mut told) = thread::scope(|scope| {
        let listen = || {
            let hear = |_| {
                let event = events.receiver().recv_timeout(PATIENCE).unwrap();
                let version = event.commit.version;
                assert!(store.version() >= version, "told before the fact");
                event
            };
            (0..WRITERS * COMMITS).map(hear).collect::<Vec<_>>()
        };
        let listener = scope.spawn(listen);
        let write = |owner: String| {
            start.wait();
            let manager = TransactionManager::for_owner(store.clone(), owner.as_str());
            let execute = |_| {
                let result = manager.execute([create(NodeSpec::new("item"))]).unwrap();
                (
                    result.version,
                    result.transaction_id,
                    owner.clone(),
                    result.operations,
                )
            };
            (0..COMMITS).map(execute).collect::<Vec<_>>()
        };
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| scope.spawn(move || write(format!("writer {n}"))))
            .collect();
        let told: Vec<_> = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect();
        (listener.join().unwrap(), told)
    });
    told.sort_by_key(|(version, ..)| *version);
    assert_eq!(heard.len(), told.len());
    let mut token = 0;
    for (at, (event, told)) in heard.iter().zip(told).enumerate() {
        let commit = &event.commit;
        assert_eq!((event.missed, commit.version), (0, at as u64 + 1));
        assert!(
            commit.fencing_token.get() > token,
            "the later holder has the greater token"
        );
        token = commit.fencing_token.get();
        let (version, transaction_id, owner, operations) = told;
        assert_eq!(commit.version, version);
        assert_eq!(commit.transaction_id, transaction_id);
        assert_eq!(commit.owner.as_str(), owner);
        assert_eq!(commit.operations, operations);
        let created = &operations[0].created[0];
        let [Change::InsertSubtree { at: None, nodes }] = &commit.changes[..] else {
            panic!()
        };
        assert_eq!(nodes[0].id(), created);
    }
}

#[test]
fn overlay_12_a_slow_subscriber_is_told_how_many_it_missed_and_holds_up_nobody() {
    within_patience(|| {
        let store = store();
        let slow = store.subscribe(2);
        let quick = store.subscribe(100);
        let create = || {
            commit(&store, |transaction| {
                transaction.create(NodeSpec::new("item")).unwrap();
            })
        };
        for version in 1..=10 {
            assert_eq!(create().version, version);
            assert!(slow.receiver().len() <= 2, "memory grows");
        }
        assert_eq!(slow.missed(), 8);
        let versions = |events: &[CommitEvent]| -> Vec<(u64, u64)> {
            events
                .iter()
                .map(|event| (event.commit.version, event.missed))
                .collect()
        };
        assert_eq!(
            versions(&received(&slow)),
            [(1, 0), (2, 0)],
            "what it has is in order"
        );
        assert_eq!(slow.missed(), 8, "and it is not told twice");
        for _ in 11..=14 {
            create();
        }
        assert_eq!(slow.missed(), 2);
        assert_eq!(versions(&received(&slow)), [(11, 8), (12, 0)]);
        create();
        assert_eq!(versions(&received(&slow)), [(15, 2)]);
        assert_eq!(slow.missed(), 0);
        let all: Vec<(u64, u64)> = (1..=15).map(|version| (version, 0)).collect();
        assert_eq!(
            versions(&received(&quick)),
            all,
            "another subscriber missed nothing"
        );
    });
}

#[test]
fn overlay_12_every_commit_is_received_or_counted_whatever_the_threads_do() {
    const WRITERS: u64 = 2;
    const COMMITS: u64 = 500;
    let store = store();
    store.set_lock_timeout(PATIENCE);
    let events = store.subscribe(2);
    let done = AtomicBool::new(false);
    let (received, missed) = thread::scope(|scope| {
        let listener = scope.spawn(|| {
            let (mut received, mut missed, mut last) = (0, 0, 0);
            loop {
                let over = done.load(Ordering::Acquire);
                for event in events.receiver().try_iter() {
                    received += 1;
                    missed += event.missed;
                    last += event.missed + 1;
                    assert_eq!(event.commit.version, last, "the count leads to the version");
                }
                if over {
                    return (received, missed + events.missed());
                }
                thread::yield_now();
            }
        });
        let write = || {
            for _ in 0..COMMITS {
                commit(&store, |transaction| {
                    transaction.create(NodeSpec::new("item")).unwrap();
                });
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        written.into_iter().for_each(|outcome| outcome.unwrap());
        listener.join().unwrap()
    });
    assert_eq!(received + missed, WRITERS * COMMITS);
}

/// One commit at a time, so whatever is missed before an event is in that event and nothing is missed after it.
#[test]
fn overlay_12_what_an_event_has_told_is_not_told_again() {
    within_patience(|| {
        const ROUNDS: u64 = 2000;
        let store = store();
        let events = store.subscribe(1);
        let create = || {
            commit(&store, |transaction| {
                transaction.create(NodeSpec::new("item")).unwrap();
            })
        };
        let (asked, turn) = (AtomicU64::new(0), AtomicU64::new(0));
        let told_twice = thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    while asked.load(Ordering::Acquire) < round {
                        thread::yield_now();
                    }
                    create();
                    turn.store(round, Ordering::Release);
                }
            });
            let mut told_twice = 0;
            for round in 1..=ROUNDS {
                create();
                create();
                assert_eq!(events.receiver().try_recv().unwrap().missed, 0);
                assert_eq!(events.missed(), 1);
                asked.store(round, Ordering::Release);
                // Not `recv`: waking up takes longer than what is to be caught.
                let mut tries = 0;
                let event = loop {
                    match events.receiver().try_recv() {
                        Ok(event) => break event,
                        Err(_) if tries % 4096 == 4095 => thread::yield_now(),
                        Err(_) => std::hint::spin_loop(),
                    }
                    tries += 1;
                };
                let again = events.missed();
                assert_eq!(event.missed, 1);
                told_twice += again;
                while turn.load(Ordering::Acquire) < round {
                    thread::yield_now();
                }
            }
            told_twice
        });
        assert_eq!(told_twice, 0, "counted in the event and beside it");
    });
}

#[test]
fn overlay_12_a_subscription_ends_with_the_store_and_a_dropped_one_costs_nothing() {
    let store = store();
    let create = |store: &DataStore| {
        commit(store, |transaction| {
            transaction.create(NodeSpec::new("item")).unwrap();
        })
    };
    drop(store.subscribe(1));
    let events = store.subscribe(4);
    create(&store);
    create(&store);
    drop(store);
    let versions: Vec<u64> = events
        .receiver()
        .iter()
        .map(|event| event.commit.version)
        .collect();
    assert_eq!(
        versions,
        [1, 2],
        "the rest is received, then the channel ends"
    );
}

#[test]
fn overlay_12_any_capacity_will_do() {
    let store = store();
    let [least, most] = [0, usize::MAX].map(|capacity| store.subscribe(capacity));
    for _ in 0..2 {
        commit(&store, |transaction| {
            transaction.create(NodeSpec::new("item")).unwrap();
        });
    }
    assert_eq!((received(&least).len(), least.missed()), (1, 1));
    assert_eq!((received(&most).len(), most.missed()), (2, 0));
}

#[test]
fn overlay_12_a_subscriber_may_begin_transactions_of_its_own() {
    let store = store();
    store.set_lock_timeout(PATIENCE);
    let events = store.subscribe(16);
    thread::scope(|scope| {
        scope.spawn(|| {
            let event = events.receiver().recv_timeout(PATIENCE).unwrap();
            let answer = paragraph("answer").with_text(event.commit.version.to_string());
            commit(&store, |transaction| {
                drop(transaction.create(answer).unwrap())
            });
        });
        commit(&store, |transaction| {
            drop(transaction.create(paragraph("question")).unwrap())
        });
    });
    assert_eq!(common::text(&store.snapshot(), "answer"), "1");
}

// --- 13: ids ---

#[test]
fn overlay_13_ids_are_never_reused_not_even_across_rollbacks() {
    let store = store();
    let mut seen = HashSet::new();
    let mut fresh = |id: NodeId| {
        assert!(id.is_generated(), "{id}");
        assert!(seen.insert(id.clone()), "{id} came twice");
        id
    };
    for turn in 0..20 {
        let mut transaction = store.begin("ann").unwrap();
        let list =
            NodeSpec::new("list").with_children([NodeSpec::new("item"), NodeSpec::new("item")]);
        let list = fresh(transaction.create(list).unwrap());
        for item in transaction
            .children(&list)
            .map(|item| item.id().clone())
            .collect::<Vec<_>>()
        {
            fresh(item);
        }
        fresh(transaction.insert(NodeSpec::new("item"), &list, 0).unwrap());
        transaction
            .insert(NodeSpec::new("item"), &id("nowhere"), 0)
            .unwrap_err();
        fresh(store.generate_id().unwrap());
        match turn % 4 {
            0 => drop(transaction.commit().unwrap()),
            1 => transaction.rollback(),
            2 => drop(transaction),
            _ => {
                transaction.delete(&list).unwrap();
                fresh(transaction.create(NodeSpec::new("item")).unwrap());
                transaction.commit().unwrap();
            }
        }
        let manager = TransactionManager::new(store.clone());
        let error = manager.execute([create(NodeSpec::new("item")), delete().on("nowhere")]);
        error.unwrap_err();
    }
}

#[test]
fn overlay_13_threads_never_get_the_same_id() {
    let store = store();
    store.set_lock_timeout(PATIENCE);
    let generate = || -> Vec<NodeId> {
        let both = |_| {
            let mut transaction = store.begin("ann").unwrap();
            let created = transaction.create(NodeSpec::new("item")).unwrap();
            let end = if created.to_string().ends_with('3') {
                Transaction::rollback
            } else {
                |transaction: Transaction| drop(transaction.commit().unwrap())
            };
            end(transaction);
            [created, store.generate_id().unwrap()]
        };
        (0..200).flat_map(both).collect()
    };
    let ids: Vec<NodeId> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(generate)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
}

#[test]
fn overlay_13_an_id_that_was_given_is_not_generated_later() {
    let store = store();
    let given = ["7:2", "7:10", "7:3", "8:11", "07:12"];
    commit(&store, |transaction| {
        for given in given {
            transaction.create(paragraph(given)).unwrap();
        }
    });
    let mut transaction = store.begin("ann").unwrap();
    transaction.create(paragraph("7:500")).unwrap();
    transaction.rollback();
    commit(&store, |transaction| {
        for given in given {
            transaction.delete(&id(given)).unwrap();
        }
        let nodes: Vec<NodeId> = (0..600)
            .map(|_| transaction.create(NodeSpec::new("item")).unwrap())
            .collect();
        assert!(
            given.iter().all(|given| !nodes.contains(&id(given))),
            "one was reused"
        );
        assert!(
            !nodes.contains(&id("7:500")),
            "one was reused after its rollback"
        );
    });
    // The same holds for what comes in as a change.
    let other = common::store();
    let made = commit(&other, |transaction| {
        transaction
            .create(paragraph("7:9000").with_children([paragraph("7:9001")]))
            .unwrap();
    });
    commit(&store, |transaction| {
        made.changes
            .into_iter()
            .for_each(|change| transaction.apply(change).unwrap());
        transaction.delete(&id("7:9000")).unwrap();
        for _ in 0..10 {
            let new = transaction.create(NodeSpec::new("item")).unwrap();
            assert!(
                new != id("7:9000") && new != id("7:9001"),
                "{new} was reused"
            );
        }
    });
}

#[test]
fn overlay_13_an_id_given_beside_nodes_without_one_is_not_generated_for_them() {
    let store = store();
    let list = element(
        "list",
        [NodeSpec::new("item"), paragraph("7:1"), paragraph("7:2")],
    );
    let mut transaction = store.begin("ann").unwrap();
    let list = transaction
        .create(list)
        .expect("no node has had one of these ids");
    assert_eq!(transaction.descendants(&list).count(), 4);
}

#[test]
fn overlay_02_an_id_that_was_refused_or_rolled_back_does_not_use_up_the_store_s_own() {
    let store = store();
    let last = format!("7:{}", u64::MAX);
    let mut transaction = store.begin("ann").unwrap();
    transaction
        .insert(paragraph(&last), &id("nowhere"), None)
        .unwrap_err();
    transaction.rollback();
    assert!(store.generate_id().is_some(), "after it was refused");
    let mut transaction = store.begin("ann").unwrap();
    let largest = (1 << 53) - 1;
    assert_eq!(
        transaction.create(paragraph(&last)),
        Err(EditError::IdOutOfRange {
            id: id(&last),
            largest
        })
    );
    transaction
        .create(paragraph(&format!("7:{largest}")))
        .unwrap();
    transaction.rollback();
    let mut transaction = store.begin("ann").unwrap();
    let next = transaction.create(NodeSpec::new("item"));
    let next = next.expect("the numbers behind the largest are there to be generated");
    assert_eq!(
        next,
        id(&format!("7:{}", largest + 1)),
        "after it was rolled back"
    );
    transaction.delete(&next).unwrap();
    let deleted = transaction.changes().last().unwrap().inverse();
    transaction
        .apply(deleted)
        .expect("what was generated can be brought back");
}
