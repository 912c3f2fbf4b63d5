//! Unit tests of `src/store/publish.rs`.

use super::*;
use crate::document::NodeSpec;
use crate::store::durable::{DurableOptions, Forgetful};

/// Checks that no close comes between the check and the effect.
struct Guarded(DataStore);

impl CommitCondition for Guarded {
    fn check(&self, _: &PublishedState, _: &Bookkeeping) -> Result<(), CommitError> {
        Ok(())
    }

    fn apply(&mut self, _: &mut Bookkeeping) -> Vec<NoteChange> {
        assert!(self.0.log_is_locked(), "a close could come in between");
        Vec::new()
    }
}

/// Only a defect of the store itself ends the grant of an open transaction that has no hold
/// limit.
#[test]
fn a_transaction_without_a_valid_grant_is_not_published() {
    let store = DataStore::new();
    let mut transaction = store.begin("ann").unwrap();
    transaction.create(NodeSpec::new("x")).unwrap();
    store.0.lock.leave_grant(transaction.lock_id());
    let next = store.lock("ben").unwrap();
    let lock = transaction.lock_id();
    match transaction.commit().unwrap_err() {
        CommitError::GrantEnded { id, holder, .. } => {
            assert_eq!((id, holder.unwrap().owner_id.as_str()), (lock, "ben"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(store.version(), 0);
    drop(next);
}

#[test]
fn no_close_comes_between_the_check_and_the_effect_of_a_transaction() {
    let store = DataStore::open_journal(Forgetful, DurableOptions::new()).unwrap();
    for changes in [false, true] {
        let mut transaction = store.begin("ann").unwrap();
        if changes {
            transaction.create(NodeSpec::new("x")).unwrap();
        }
        transaction.on_condition(Box::new(Guarded(store.clone())));
        transaction.commit().unwrap();
    }
}
