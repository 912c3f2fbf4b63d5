//! 4: deletion, and restoring.

use doclock::{
    DataStore, Draft, TransactionManager, View,
    document::{AttributePatch, Change, EditError, Mark, NodeSpec, check},
    transaction::Operation,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{
    Action, Dice, RefDoc, cases, children, commit, id, image, possible, spoil, steps, store,
};
use crate::{family, item};

/// Undoes changes, the last first.
pub(crate) fn undo(transaction: &mut Draft, changes: &[Change]) -> Result<(), EditError> {
    changes
        .iter()
        .rev()
        .try_for_each(|change| transaction.apply(change.inverse()))
}

fn redo(transaction: &mut Draft, changes: &[Change]) -> Result<(), EditError> {
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
        transaction.set_marks(id("a"), [bold, link]).unwrap();
        transaction
            .set_attrs(id("a2"), [("level", json!(2))])
            .unwrap();
        // A generated id is restored unchanged, too.
        transaction
            .insert(NodeSpec::new("item"), id("a1"), None)
            .unwrap();
        transaction.insert(item("between"), id("root"), 1).unwrap();
    });
    let before = store.snapshot();
    let generated = before.children(&id("a1")).next().unwrap().id().clone();
    let committed = commit(&store, |transaction| transaction.delete("a").unwrap());
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
        crate::common::marks(&restored, "a"),
        crate::common::marks(&before, "a"),
        "the same marks"
    );
    assert_eq!(crate::common::marks(&restored, "a").len(), 2);
    assert_eq!(restored.parent(&generated), Some(&id("a1")), "the same ids");
    commit(&store, |transaction| {
        redo(transaction, &committed.changes).unwrap()
    });
    assert_eq!(store.snapshot(), after);
}

proptest! {
    #![proptest_config(cases(250))]

    /// For transactions of every kind of operation, committed in sequence.
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
            let events = store.subscribe();
            TransactionManager::new(store.clone()).execute(operations).unwrap();
            if let Ok(event) = events.try_recv() {
                done.push((before, event.commit.changes.clone(), store.snapshot()));
            }
        }
        let moved = |changes: &[Change], to: &doclock::Snapshot, how: fn(&mut Draft, &[Change]) -> Result<(), EditError>| {
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

    /// Changes from external sources: for other documents, or made up.
    #[test]
    fn tree_04_the_inverse_of_any_applied_change_reverts_it(
        document in steps(1..30),
        elsewhere in steps(1..30),
        seed in any::<u64>(),
    ) {
        let store = store();
        let here = possible(&document, &RefDoc::default());
        let other = crate::common::store();
        let there = possible(&elsewhere, &RefDoc::default());
        let run = |store: &DataStore, actions: &[Action]| commit(store, |transaction| {
            actions.iter().for_each(|action| action.perform(transaction).unwrap());
        });
        let changes = [&run(&store, &here).changes[..], &run(&other, &there).changes].concat();
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

/// Checks that a change fails, or that its inverse undoes it exactly.
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
        after: Some(after.into()),
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
    let patch = |before: Option<Value>, after: Option<Value>| {
        vec![AttributePatch {
            key: "x".into(),
            before: before.map(Into::into),
            after: after.map(Into::into),
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
        transaction.set_attrs(id("a"), [("x", json!(1))]).unwrap()
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
