//! A commit can be undone, redone and repeated elsewhere from its changes alone.

use doclock::{
    DataStore, Draft, Snapshot, StoreOptions,
    document::{Change, EditError, check},
    transaction::TransactionResult,
};
use proptest::prelude::*;

use crate::common::{cases, commit, image, store};
use crate::generator::{Step, steps};
use crate::{furnish, furnished, redo, undo};

fn transactions() -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(steps(1..16), 1..5)
}

/// Commits the steps; a failing one is undone or left half done.
fn committed(store: &DataStore, steps: &[Step]) -> TransactionResult {
    commit(store, |transaction| {
        for step in steps {
            let _ = step.run(transaction);
        }
    })
}

/// Whether a transaction leads from one version to another by these means, exactly.
fn leads(
    store: &DataStore,
    changes: &[Change],
    how: fn(&mut Draft, &[Change]) -> Result<(), EditError>,
    to: &Snapshot,
) -> Result<(), TestCaseError> {
    commit(store, |transaction| {
        how(transaction, changes).unwrap();
    });
    let now = store.snapshot();
    prop_assert_eq!(image(&now), image(to));
    prop_assert_eq!(&now, to);
    prop_assert_eq!(check(&now), Ok(()));
    Ok(())
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn undo_01_the_inverses_of_any_commit_revert_it_and_its_changes_repeat_it(
        transactions in transactions(),
    ) {
        let store = furnished();
        let mut done = Vec::new();
        for steps in transactions {
            let before = store.snapshot();
            let changes = committed(&store, &steps).changes;
            let after = store.snapshot();
            leads(&store, &changes, undo, &before)?;
            leads(&store, &changes, redo, &after)?;
            done.push((before, changes, after));
        }
        for (before, changes, _) in done.iter().rev() {
            leads(&store, changes, undo, before)?;
        }
        for (_, changes, after) in &done {
            leads(&store, changes, redo, after)?;
        }
    }

    /// The copy has its own numbering, and reads the commits from JSON.
    #[test]
    fn overlay_12_the_changes_of_any_commit_repeat_it_on_a_copy(transactions in transactions()) {
        let store = store();
        let copy = DataStore::with_options(StoreOptions::new().session(8));
        let events = store.subscribe();
        furnish(&store);
        for steps in transactions {
            committed(&store, &steps);
            for event in events.try_iter() {
                let line = serde_json::to_string(&*event.commit).unwrap();
                let read: TransactionResult = serde_json::from_str(&line).unwrap();
                prop_assert_eq!(&read, &*event.commit);
                commit(&copy, |transaction| redo(transaction, &read.changes).unwrap());
            }
            prop_assert_eq!(image(&copy.snapshot()), image(&store.snapshot()));
        }
    }
}
