//! 1: own writes are visible inside, committed versions outside.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use doclock::{
    DataStore, NodeId, Snapshot, View,
    document::{Mark, NodeSpec},
};
use proptest::prelude::*;
use serde_json::json;

use crate::common::{
    Action, Aim, Chooser, PATIENCE, RefDoc, cases, children, commit, id, image, possible, steps,
    store,
};
use crate::{paragraph, small_document};

#[test]
fn overlay_01_own_writes_are_visible_inside_and_nowhere_else() {
    let store = small_document();
    let before = store.snapshot();
    let before_image = image(&before);
    let mut transaction = store.begin("ann").unwrap();

    transaction.set_text("first", "changed").unwrap();
    assert_eq!(crate::common::text(&transaction, "first"), "changed");
    transaction
        .set_attrs(id("first"), [("level", json!(2))])
        .unwrap();
    let attributes = transaction.node("first").unwrap().attributes();
    assert_eq!(attributes.get("level"), Some(&json!(2)));
    transaction
        .set_marks(id("first"), [Mark::whole("bold")])
        .unwrap();
    assert_eq!(
        crate::common::marks(&transaction, "first"),
        [(0, 7, "bold".to_owned())]
    );
    let created = transaction
        .insert(NodeSpec::new("item"), id("second"), None)
        .unwrap();
    assert_eq!(transaction.parent(&created), Some(&id("second")));
    transaction.move_node(id("second"), id("root"), 0).unwrap();
    assert_eq!(children(&transaction, "root"), ["second", "first"]);
    transaction.delete("first").unwrap();
    assert!(!transaction.contains("first"));
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

/// A commit splices a text in place, unless a snapshot of the version before exists.
#[test]
fn overlay_01_versions_that_are_kept_stay_beside_splices_of_their_texts() {
    // A short text is a string, a long one a rope; the edits go from one to the other and back.
    let store = DataStore::new();
    let mut transaction = store.begin("ann").unwrap();
    for (id, text) in [("short", "é".to_owned()), ("long", "aé".repeat(2_000))] {
        let node = NodeSpec::new("text").with_id(id).with_text(text);
        transaction.create(node).unwrap();
    }
    transaction.commit().unwrap();
    let texts =
        |view: &Snapshot| ["short", "long"].map(|id| view.node(id).unwrap().text().to_string());
    let splice = |text: &str, range: std::ops::Range<usize>, inserted: &str| {
        let kept: Vec<char> = text.chars().collect();
        let [before, after] = [&kept[..range.start], &kept[range.end..]];
        let parts = [before, &inserted.chars().collect::<Vec<_>>()[..], after];
        parts.concat().into_iter().collect::<String>()
    };
    let mut expected = texts(&store.snapshot());
    let mut kept = Vec::new();
    let long = "ü".repeat(700);
    for round in 0..60 {
        for (nth, id) in ["short", "long"].into_iter().enumerate() {
            let len = expected[nth].chars().count();
            let inserted = [".", "", "日本", &long][round % 4];
            let start = (round * 37) % (len + 1);
            let range = start..(start + [0, 3, 1, 0, 900][round % 5]).min(len);
            let mut transaction = store.begin("ann").unwrap();
            transaction
                .replace_text(id, range.clone(), inserted)
                .unwrap();
            let before = expected[nth].clone();
            expected[nth] = splice(&before, range, inserted);
            // Read within the transaction, the node is copied; not read, it is spliced in place.
            if round % 3 == 0 {
                assert_eq!(transaction.node(id).unwrap().text(), &*expected[nth]);
                transaction.insert_text(id, 0, "<").unwrap();
                expected[nth].insert(0, '<');
            }
            assert_eq!(store.snapshot().node(id).unwrap().text(), &*before);
            transaction.commit().unwrap();
        }
        let snapshot = store.snapshot();
        assert_eq!(texts(&snapshot), expected, "in round {round}");
        if round % 2 == 0 {
            kept.push((snapshot, expected.clone()));
        }
        for (snapshot, expected) in &kept {
            assert_eq!(&texts(snapshot), expected, "in round {round}");
        }
    }
}

/// Writes one number into `nodes` nodes at once; readers must see it in all of them or in none.
fn check_atomic_visibility(nodes: usize) {
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
    check_atomic_visibility(2);
}

/// More nodes than a commit writes while readers wait.
#[test]
fn overlay_01_readers_never_see_half_of_a_large_transaction() {
    check_atomic_visibility(100);
}

proptest! {
    #![proptest_config(cases(200))]

    /// The reference runs every step, including those that fail.
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

/// Whether an edit is a batch itself, whose first part may stay when the second fails.
fn is_list(action: &Action) -> bool {
    matches!(action, Action::Control(..) | Action::Call(_))
}
