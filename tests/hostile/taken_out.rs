//! Code that replaces the transaction that it runs in.

use std::sync::{Arc, Mutex};

use doclock::dsl::*;
use doclock::{
    CommitError, DataStore, Editor, StoreOptions, TakenOut, Transaction, TransactionManager,
    document::{EditError, NodeSpec},
    history::UndoError,
    inbox::{Inbox, Outcome},
    lock::AcquireOptions,
    transaction::{OperationError, TransactionError},
};

/// Holds the transaction that the code took out.
#[derive(Clone, Default)]
struct Loot(Arc<Mutex<Option<Transaction>>>);

impl Loot {
    /// Code that edits the transaction, takes it out, and leaves one of another store.
    fn robber(&self) -> impl Fn(&mut Transaction) -> Result<(), EditError> + Send + Sync + 'static {
        let loot = self.clone();
        move |transaction| {
            transaction.create(NodeSpec::new("stolen"))?;
            let other = DataStore::new().begin("other").unwrap();
            let taken = std::mem::replace(transaction, other);
            *loot.0.lock().unwrap() = Some(taken);
            Ok(())
        }
    }

    fn commit(&self) -> CommitError {
        let taken = self.0.lock().unwrap().take().unwrap();
        taken.commit().unwrap_err()
    }
}

fn is_taken_out(error: &CommitError) -> bool {
    matches!(error, CommitError::TakenOut(TakenOut { .. }))
}

/// It was committed after another holder had the lock, and two versions had the same insertion.
#[test]
fn lock_10_a_transaction_that_an_operation_takes_out_is_not_published() {
    let store = DataStore::new();
    let loot = Loot::default();
    let manager = TransactionManager::new(store.clone());
    let error = manager
        .execute([create(element("x", [])), op(loot.robber())])
        .unwrap_err();
    match error {
        TransactionError::Operation {
            index: 1,
            cause: OperationError::TakenOut(_),
            ..
        } => {}
        other => panic!("{other:?}"),
    }
    assert!(!store.is_locked());
    let holder = store.begin("next").unwrap();
    assert!(is_taken_out(&loot.commit()));
    assert_eq!(store.version(), 0);
    holder.rollback();
}

#[test]
fn lock_10_a_transaction_is_not_committed_by_the_operation_that_it_is_lent_to() {
    let store = DataStore::new();
    let loot = Loot::default();
    let (robber, commits) = (loot.robber(), loot.clone());
    let code = op(move |transaction: &mut Transaction| {
        robber(transaction)?;
        assert!(is_taken_out(&commits.commit()));
        Ok::<_, EditError>(())
    });
    TransactionManager::new(store.clone())
        .execute(code)
        .unwrap_err();
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

/// The other transaction was committed instead of the borrowed one.
#[test]
fn lock_10_a_transaction_that_replaces_the_borrowed_one_is_rolled_back() {
    let (store, other) = (DataStore::new(), DataStore::new());
    let others = other.clone();
    let code = op(move |transaction: &mut Transaction| {
        let mut foreign = others.begin("other").unwrap();
        foreign.create(NodeSpec::new("foreign"))?;
        *transaction = foreign;
        Ok::<_, EditError>(())
    });
    TransactionManager::new(store.clone())
        .execute(code)
        .unwrap_err();
    for store in [store, other] {
        assert_eq!((store.version(), store.is_locked()), (0, false));
    }
}

/// Transactions of two stores can have the same ids.
#[test]
fn lock_10_a_transaction_of_another_store_with_the_same_id_is_detected() {
    let [one, two] = [(), ()].map(|()| DataStore::with_options(StoreOptions::new().session(7)));
    let others = two.clone();
    let code = op(move |transaction: &mut Transaction| {
        let other = others.begin("other").unwrap();
        assert_eq!(other.id(), transaction.id());
        *transaction = other;
        Ok::<_, EditError>(())
    });
    TransactionManager::new(one.clone())
        .execute(code)
        .unwrap_err();
    assert_eq!((two.version(), two.is_locked()), (0, false));
}

#[test]
fn lock_10_a_manual_transaction_that_is_taken_out_is_not_published() {
    let store = DataStore::new();
    let loot = Loot::default();
    let mut transaction = store.begin("ann").unwrap();
    transaction.run(op(loot.robber())).unwrap_err();
    assert!(is_taken_out(&loot.commit()));

    let store = DataStore::new();
    let mut transaction = store.begin("ann").unwrap();
    transaction.attempt(loot.robber()).unwrap();
    assert!(is_taken_out(&loot.commit()));
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

#[test]
fn lock_10_a_transaction_under_an_id_or_on_nodes_that_is_taken_out_is_not_published() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let loot = Loot::default();
    let id = store.acquire_lock("ann").unwrap();
    manager.execute_under(id, op(loot.robber())).unwrap_err();
    assert!(is_taken_out(&loot.commit()));
    store.release_lock(id).unwrap();

    manager
        .with_node_locks(1)
        .execute(op(loot.robber()))
        .unwrap_err();
    assert!(is_taken_out(&loot.commit()));
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

#[test]
fn undo_02_an_inverse_that_takes_its_transaction_out_changes_nothing() {
    let store = DataStore::new();
    let editor = Editor::new(store.clone(), "ann");
    let loot = Loot::default();
    let act = op_with_inverse(|on| on.create(NodeSpec::new("x")).map(drop), loot.robber());
    editor.execute(act).unwrap();
    let error = editor.undo().commit().unwrap_err();
    assert!(
        matches!(error, UndoError::Inverse(OperationError::TakenOut(_))),
        "{error:?}"
    );
    assert!(is_taken_out(&loot.commit()));
    assert_eq!((store.version(), editor.undo_depth()), (1, 1));
    assert!(!store.is_locked());
}

#[test]
fn inbox_02_a_handler_that_takes_its_transaction_out_has_no_effect() {
    let store = DataStore::new();
    let inbox = Inbox::new(&store, "inbox");
    let loot = Loot::default();
    let robber = loot.robber();
    let outcome = inbox.process(&("id", ()), |on, _| Ok(robber(on)?)).unwrap();
    assert!(matches!(outcome, Outcome::Dead(_)), "{outcome:?}");
    assert!(is_taken_out(&loot.commit()));
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

/// The borrow of a transaction ends with the code, even if the code panics.
#[test]
fn overlay_10_a_transaction_can_be_committed_after_code_that_panicked_in_it() {
    let store = DataStore::new();
    let mut transaction = store.begin("ann").unwrap();
    transaction.create(NodeSpec::new("x")).unwrap();
    let torn = std::panic::AssertUnwindSafe(|| {
        let _ = transaction.attempt(|_| -> Result<(), EditError> { panic!("torn") });
    });
    std::panic::catch_unwind(torn).unwrap_err();
    let torn = op(|_| -> Result<(), EditError> { panic!("torn") });
    transaction.run(torn).unwrap_err();
    assert_eq!(transaction.commit().unwrap().version, 1);
    let options = AcquireOptions::new().no_wait();
    drop(store.request("next").options(options).wait().unwrap());
}
