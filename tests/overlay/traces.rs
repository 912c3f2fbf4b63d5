//! 2: an uncommitted transaction leaves no trace.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use doclock::dsl::*;
use doclock::{
    DataStore, Snapshot, Transaction, TransactionManager,
    document::{EditError, NodeSpec},
    events::Subscription,
    transaction::{Operation, OperationError, TransactionError},
};
use proptest::prelude::*;

use crate::common::{Action, RefDoc, cases, id, image, possible, steps, store};
use crate::paragraph;

/// The state that an uncommitted transaction must not change.
pub(crate) struct Before {
    snapshot: Snapshot,
    image: String,
    events: Subscription,
}

impl Before {
    pub(crate) fn of(store: &DataStore) -> Self {
        Self::like(store, store.snapshot())
    }

    /// With the snapshot of an equal store: one of the store's own would prevent changes in place.
    fn like(store: &DataStore, snapshot: Snapshot) -> Self {
        Self {
            image: image(&store.snapshot()),
            events: store.subscribe(),
            snapshot,
        }
    }

    pub(crate) fn compare(&self, store: &DataStore) -> Result<(), TestCaseError> {
        let now = store.snapshot();
        prop_assert_eq!(&now, &self.snapshot);
        prop_assert_eq!(image(&now), &self.image[..]);
        prop_assert_eq!(image(&self.snapshot), &self.image[..]);
        prop_assert_eq!(now.version(), self.snapshot.version());
        prop_assert_eq!(store.version(), self.snapshot.version());
        prop_assert!(self.events.try_recv().is_err(), "an event was emitted");
        prop_assert!(!store.is_locked(), "the lock is still held");
        Ok(())
    }
}

/// Runs the edits in a transaction that holds the store's lock itself.
fn begun(store: &DataStore, actions: &[Action]) -> Transaction {
    perform(store.begin("ann").unwrap(), actions)
}

fn perform(mut transaction: Transaction, actions: &[Action]) -> Transaction {
    for action in actions {
        action.perform(&mut transaction).unwrap();
    }
    transaction
}

/// The edits as a batch with one more operation, and the error of that batch.
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

/// Every end of a transaction other than a commit.
pub(crate) type Ending = fn(&DataStore, &[Action]);

pub(crate) const ENDINGS: [(&str, Ending); 9] = [
    ("rollback", |store, actions| {
        begun(store, actions).rollback()
    }),
    ("drop", |store, actions| drop(begun(store, actions))),
    ("error", |store, actions| {
        let mut transaction = begun(store, actions);
        transaction.delete("nowhere").unwrap_err();
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
        perform(store.begin_under(lock).unwrap(), actions).rollback();
        store.release_lock(lock).unwrap();
    }),
    ("error in an operation", |store, actions| {
        let cause = failing(store, actions, delete_node().on("nowhere"));
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
                transaction.delete("nowhere")
            }),
        );
        assert!(matches!(cause, OperationError::Edit(_)));
    }),
];

/// A store with the document that these steps make on an empty one.
fn built(steps: &[crate::common::Step]) -> (DataStore, RefDoc) {
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
        // The same edits have an effect when committed, so there was something to roll back.
        let committed = begun(&store, &actions).commit().unwrap();
        let mut after = model.clone();
        actions.iter().for_each(|action| after.apply(action).unwrap());
        prop_assert_eq!(after.compare(&store.snapshot()), Ok(()));
        prop_assert_eq!(before.compare(&store).is_err(), !committed.changes.is_empty());
    }
}

#[test]
fn overlay_02_an_id_that_was_refused_or_rolled_back_does_not_use_up_the_store_s_own() {
    let store = store();
    let last = format!("7:{}", u64::MAX);
    let mut transaction = store.begin("ann").unwrap();
    transaction
        .insert(paragraph(&last), id("nowhere"), None)
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
