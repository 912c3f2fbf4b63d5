//! An uncommitted transaction leaves no trace.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use doclock::dsl::*;
use doclock::{
    DataStore, Draft, Savepoint, Transaction, TransactionManager, View,
    document::{Change, EditError, Fragment, Position, Selection, check},
};
use proptest::prelude::*;
use strum::VariantArray;

use crate::common::{Dice, cases, commit, id, image};
use crate::furnished;
use crate::generator::{Kind, Step, steps};

fn run(on: &mut Draft, steps: &[Step]) {
    for step in steps {
        // Failing steps are part of the test.
        let _ = step.run(on);
    }
}

/// A transaction that tried all of these.
fn begun(store: &DataStore, steps: &[Step]) -> Transaction {
    let mut transaction = store.begin("ann").unwrap();
    run(&mut transaction, steps);
    transaction
}

/// Every end of a transaction other than a commit.
type Ending = fn(&DataStore, &[Step]);

const ENDINGS: [(&str, Ending); 6] = [
    ("rollback", |store, steps| begun(store, steps).rollback()),
    ("drop", |store, steps| drop(begun(store, steps))),
    ("panic", |store, steps| {
        let code = || {
            let _transaction = begun(store, steps);
            resume_unwind(Box::new("torn"))
        };
        let Err(payload) = catch_unwind(AssertUnwindSafe(code));
        assert_eq!(payload.downcast_ref(), Some(&"torn"));
    }),
    ("an operation that fails in the end", |store, steps| {
        let manager = TransactionManager::new(store.clone());
        let steps = steps.to_vec();
        let code = op(move |transaction| {
            run(transaction, &steps);
            Ok::<_, String>(())
        });
        let list = (code, if_unchanged(u64::MAX));
        manager.execute(list).unwrap_err();
    }),
    ("a panic in an operation", |store, steps| {
        let manager = TransactionManager::new(store.clone());
        let steps = steps.to_vec();
        let code = op::<String>(move |transaction| {
            run(transaction, &steps);
            resume_unwind(Box::new("torn"))
        });
        manager.execute(code).unwrap_err();
    }),
    ("rollback under a lock held by id", |store, steps| {
        let lock = store.acquire_lock("ann").unwrap();
        let mut transaction = store.begin_under(lock).unwrap();
        run(&mut transaction, steps);
        transaction.rollback();
        store.release_lock(lock).unwrap();
    }),
];

/// The state that a savepoint restores.
#[derive(Debug, PartialEq)]
struct Moment {
    image: String,
    changes: Vec<Change>,
    selection: Option<Selection>,
    clipboard: Option<Fragment>,
    aliases: Vec<Option<String>>,
    /// The errors for these missing ids: never created, or deleted.
    missing: [EditError; 3],
}

impl Moment {
    fn of(transaction: &Draft) -> Self {
        let alias = |alias| transaction.named(alias).ok().map(ToString::to_string);
        Self {
            image: image(transaction),
            changes: transaction.changes().to_vec(),
            selection: transaction.selection().cloned(),
            clipboard: transaction.clipboard().cloned(),
            aliases: ["x", "y", "z"].map(alias).to_vec(),
            missing: ["a", "h", "ä"].map(|absent| transaction.missing(&id(absent))),
        }
    }
}

/// An operation that fails midway, such as a cut, leaves the clipboard unchanged.
#[test]
fn overlay_10_a_savepoint_brings_back_the_clipboard() {
    let store = furnished();
    let mut transaction = store.begin("ann").unwrap();
    transaction.run(copy_range(0..2).on("a")).unwrap();
    let copied = transaction.clipboard().cloned();
    let outer = transaction.savepoint();
    transaction.run(copy_range(1..3).on("c")).unwrap();
    assert_ne!(transaction.clipboard(), copied.as_ref());
    transaction.rollback_to(outer).unwrap();
    assert_eq!(transaction.clipboard(), copied.as_ref());
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn overlay_02_no_operation_leaves_a_trace_of_a_transaction_that_is_not_committed(
        document in steps(0..12),
        steps in steps(1..24),
    ) {
        let store = furnished();
        commit(&store, |transaction| run(transaction, &document));
        let (before, events) = (image(&store.snapshot()), store.subscribe());
        let version = store.version();
        for (ending, end) in ENDINGS {
            end(&store, &steps);
            prop_assert_eq!(image(&store.snapshot()), &before[..], "after {}", ending);
            prop_assert_eq!(store.version(), version, "after {}", ending);
            prop_assert!(events.try_recv().is_err(), "after {}", ending);
            prop_assert!(!store.is_locked(), "after {}", ending);
        }
    }

    /// Nested savepoints, some of them returned to.
    #[test]
    fn overlay_10_a_savepoint_restores_its_state_after_any_operations(
        steps in steps(1..40),
        seed in any::<u64>(),
    ) {
        let store = furnished();
        let mut transaction = store.begin("ann").unwrap();
        let mut dice = Dice(seed);
        let mut saved: Vec<(Savepoint, Moment)> = Vec::new();
        let mut gone: Vec<Savepoint> = Vec::new();
        for step in steps {
            if dice.one_in(3) {
                let moment = Moment::of(&transaction);
                saved.push((transaction.savepoint(), moment));
            }
            let _ = step.run(&mut transaction);
            if dice.one_in(5) && !saved.is_empty() {
                let at = dice.below(saved.len());
                gone.extend(saved.drain(at + 1..).map(|(savepoint, _)| savepoint));
                let (savepoint, moment) = &saved[at];
                transaction.rollback_to(*savepoint).unwrap();
                prop_assert_eq!(&Moment::of(&transaction), moment);
                prop_assert_eq!(check(&transaction), Ok(()));
            }
        }
        for savepoint in gone {
            let now = Moment::of(&transaction);
            prop_assert!(transaction.rollback_to(savepoint).is_err());
            prop_assert_eq!(Moment::of(&transaction), now);
        }
        for (savepoint, moment) in saved.iter().rev() {
            transaction.rollback_to(*savepoint).unwrap();
            prop_assert_eq!(&Moment::of(&transaction), moment);
        }
    }

    /// Nested attempts, each of which fails in the end.
    #[test]
    fn overlay_10_an_attempt_that_fails_leaves_nothing(
        before in steps(0..8),
        outer in steps(1..8),
        inner in steps(1..8),
    ) {
        let store = furnished();
        let mut transaction = begun(&store, &before);
        let at_first = Moment::of(&transaction);
        transaction.attempt(|transaction| {
            run(transaction, &outer);
            let then = Moment::of(transaction);
            let failed = transaction.attempt(|transaction| {
                run(transaction, &inner);
                transaction.delete(id("never was"))
            });
            assert!(failed.is_err());
            assert_eq!(Moment::of(transaction), then);
            failed
        }).unwrap_err();
        prop_assert_eq!(Moment::of(&transaction), at_first);
        transaction.rollback();
    }

    /// A failing `splitListItem` left the text split and two new nodes.
    #[test]
    fn overlay_10_an_operation_that_fails_changes_nothing(
        selected in any::<prop::sample::Index>(),
        steps in steps(1..40),
    ) {
        let store = furnished();
        let mut transaction = store.begin("ann").unwrap();
        let carets = carets(&store);
        for step in steps {
            if transaction.selection().is_none() {
                // Its node may no longer exist.
                let _ = transaction.select(selected.get(&carets).clone());
            }
            let before = Moment::of(&transaction);
            let operation = step.draw(&transaction);
            if transaction.run(operation.clone()).is_err() {
                prop_assert_eq!(&Moment::of(&transaction), &before, "{:?}", operation);
            }
            prop_assert_eq!(check(&transaction), Ok(()), "{:?}", operation);
        }
    }
}

/// A caret at the end of each text.
fn carets(store: &DataStore) -> Vec<Selection> {
    let page = store.snapshot();
    let nodes = page.descendants("page");
    nodes
        .map(|node| Selection::caret(node.id(), node.text().len()))
        .collect()
}

/// Until every kind of operation has failed, with a selection, a name and a clipboard.
#[test]
fn overlay_10_every_operation_that_can_fail_changes_nothing_when_it_does() {
    let mut refused: BTreeSet<&str> = BTreeSet::new();
    let store = furnished();
    for round in 0..30 {
        let mut transaction = store.begin("test").unwrap();
        transaction
            .select(Selection::new(Position::new("a", 2), Position::new("c", 3)))
            .unwrap();
        let named = [
            create(text_node("text", "named")).named("x"),
            copy_range(1..3).on("a"),
        ];
        transaction.run(named).unwrap();
        for at in 0..Kind::VARIANTS.len() {
            let kind = Kind::VARIANTS[(at * 31 + round) % Kind::VARIANTS.len()];
            let seed = (round * 1000 + at) as u64;
            // A duplicate name is found only after all other work.
            let operation = Step { kind, seed }.draw(&transaction);
            let operation = match seed % 3 {
                0 => operation.named("x"),
                _ => operation,
            };
            let before = Moment::of(&transaction);
            let shown = format!("seed {seed}: {operation:?}");
            if transaction.run(operation).is_err() {
                refused.insert(kind.name());
                assert_eq!(Moment::of(&transaction), before, "{shown}");
            }
        }
        transaction.rollback();
    }
    let all: BTreeSet<&str> = Kind::VARIANTS.iter().map(|kind| kind.name()).collect();
    assert_eq!(refused, all);
}
