//! Code that puts another draft in the place of the one that it has by reference.

use std::mem;
use std::sync::{Arc, Mutex};
use std::thread;

use doclock::dsl::*;
use doclock::{
    CommitError, DataStore, Draft, Editor, StoreOptions, Transaction, TransactionManager, View,
    document::{EditError, NodeSpec},
    history::{HistoryOptions, UndoError},
    inbox::{Inbox, Outcome},
    lock::{AcquireOptions, node::Scope},
    transaction::TransactionError,
};

/// Holds the transaction of another store, which has the draft that the code took.
#[derive(Clone, Default)]
struct Loot(Arc<Mutex<Option<Transaction>>>);

impl Loot {
    /// Code that edits the draft, and swaps it with that of another store.
    fn robber(&self) -> impl Fn(&mut Draft) -> Result<(), EditError> + Send + Sync + 'static {
        let loot = self.clone();
        move |draft| {
            draft.create(NodeSpec::new("stolen"))?;
            let mut other = DataStore::new().begin("other").unwrap();
            mem::swap(draft, &mut *other);
            *loot.0.lock().unwrap() = Some(other);
            Ok(())
        }
    }

    fn commit(&self) -> CommitError {
        let taken = self.0.lock().unwrap().take().unwrap();
        taken.commit().unwrap_err()
    }
}

fn is_foreign(error: &CommitError) -> bool {
    matches!(error, CommitError::ForeignDraft { .. })
}

fn has_foreign_draft(error: &TransactionError) -> bool {
    matches!(error, TransactionError::Commit(error) if is_foreign(error))
}

#[test]
fn lock_10_a_draft_that_an_operation_takes_out_is_published_nowhere() {
    let store = DataStore::new();
    let loot = Loot::default();
    let manager = TransactionManager::new(store.clone());
    let operations = [create(element("x", [])), op(loot.robber())];
    let error = manager.execute(operations).unwrap_err();
    assert!(has_foreign_draft(&error), "{error}");
    assert!(!store.is_locked());
    let holder = store.begin("next").unwrap();
    assert!(is_foreign(&loot.commit()));
    assert_eq!(store.version(), 0);
    holder.rollback();
}

/// The other draft was published instead of the borrowed one.
#[test]
fn lock_10_a_draft_that_replaces_the_borrowed_one_is_published_nowhere() {
    let (store, other) = (DataStore::new(), DataStore::new());
    let others = other.clone();
    let code = op(move |draft: &mut Draft| {
        let mut foreign = others.begin("other").unwrap();
        foreign.create(NodeSpec::new("foreign"))?;
        mem::swap(draft, &mut *foreign);
        Ok::<_, EditError>(())
    });
    let manager = TransactionManager::new(store.clone());
    let error = manager.execute(code).unwrap_err();
    assert!(has_foreign_draft(&error), "{error}");
    for store in [store, other] {
        assert_eq!((store.version(), store.is_locked()), (0, false));
    }
}

/// Transactions of two stores can have the same ids.
#[test]
fn lock_10_a_draft_of_another_store_with_the_same_id_is_not_published() {
    let [one, two] = [(), ()].map(|()| DataStore::with_options(StoreOptions::new().session(7)));
    let others = two.clone();
    let code = op(move |draft: &mut Draft| {
        let mut other = others.begin("other").unwrap();
        assert_eq!(other.id(), draft.id());
        mem::swap(draft, &mut *other);
        Ok::<_, EditError>(())
    });
    let error = TransactionManager::new(one.clone()).execute(code);
    assert!(has_foreign_draft(&error.unwrap_err()));
    assert_eq!((two.version(), two.is_locked()), (0, false));
}

/// The draft of an earlier version of the same store is kept in the transaction of another one.
#[test]
fn lock_10_a_draft_of_an_earlier_version_is_not_published() {
    // Small and large drafts become a version in different ways.
    for nodes in [1, 200] {
        let store = DataStore::new();
        let mut shelf = DataStore::new().begin("shelf").unwrap();
        let mut early = store.begin("ann").unwrap();
        for _ in 0..nodes {
            early.create(NodeSpec::new("early")).unwrap();
        }
        mem::swap(&mut *early, &mut *shelf);
        early.rollback();
        let manager = TransactionManager::new(store.clone());
        manager.execute(create(element("x", []))).unwrap();
        let mut late = store.begin("ann").unwrap();
        mem::swap(&mut *late, &mut *shelf);
        let error = late.commit().unwrap_err();
        assert!(is_foreign(&error), "{error}");
        let begins = "which begins with version 0, is not the one that began under this lock";
        assert!(error.to_string().ends_with(begins), "{error}");
        assert_eq!((store.version(), store.is_locked()), (1, false));
    }
}

/// Its result would be kept as that of the key.
#[test]
fn lock_10_an_earlier_draft_without_changes_takes_no_idempotency_key() {
    let store = DataStore::new();
    let mut shelf = DataStore::new().begin("shelf").unwrap();
    let mut early = store.begin("ann").unwrap();
    mem::swap(&mut *early, &mut *shelf);
    early.rollback();
    let manager = TransactionManager::new(store.clone());
    manager.execute(create(element("x", []))).unwrap();
    let shelf = Mutex::new(shelf);
    let swaps = op(move |draft: &mut Draft| {
        mem::swap(draft, &mut **shelf.lock().unwrap());
        Ok::<_, EditError>(())
    });
    let error = manager.transaction(swaps).idempotent("key").commit();
    assert!(has_foreign_draft(&error.unwrap_err()));
    let operation = create(element("y", []));
    let result = manager.transaction(operation).idempotent("key").commit();
    assert_eq!(result.unwrap().version, 2);
}

/// The batch that made the draft has failed, and said so. Another one brings the draft back.
#[test]
fn lock_10_the_draft_of_a_failed_batch_of_this_version_is_not_published() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let loot = Loot::default();
    manager.execute(op(loot.robber())).unwrap_err();
    let back = op(move |draft: &mut Draft| {
        mem::swap(draft, &mut **loot.0.lock().unwrap().as_mut().unwrap());
        Ok::<_, EditError>(())
    });
    assert!(has_foreign_draft(&manager.execute(back).unwrap_err()));
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

/// A session keeps its selection, and its history the entry.
#[test]
fn lock_10_an_earlier_draft_without_changes_is_not_published_for_a_session() {
    let store = DataStore::new();
    let shelf = Arc::new(Mutex::new(DataStore::new().begin("shelf").unwrap()));
    let mut early = store.begin("ann").unwrap();
    mem::swap(&mut *early, &mut **shelf.lock().unwrap());
    early.rollback();
    let swaps = move |draft: &mut Draft| {
        mem::swap(draft, &mut **shelf.lock().unwrap());
        Ok::<_, EditError>(())
    };
    let editor = Editor::new(store.clone(), "ann");
    let text = create(text_node("x", "text").with_id("x"));
    let undone = op_with_inverse(|_| Ok::<_, EditError>(()), swaps.clone());
    editor.transaction([text, undone]).commit().unwrap();
    let error = editor.undo().commit().unwrap_err();
    assert!(
        matches!(&error, UndoError::Commit(error) if is_foreign(error)),
        "{error:?}"
    );
    assert_eq!((store.version(), editor.undo_depth()), (1, 1));
    assert!(store.snapshot().contains("x"));
}

/// The undo continues after an entry without an effect.
#[test]
fn undo_02_an_inverse_that_takes_its_draft_out_ends_no_entry_without_an_effect() {
    let store = DataStore::new();
    let options = HistoryOptions::new().undo_next_effective(true);
    let editor = Editor::new(store.clone(), "ann").with_history(options);
    let loot = Loot::default();
    editor.execute(create(element("x", []))).unwrap();
    let act = op_with_inverse(|on| on.create(NodeSpec::new("x")).map(drop), loot.robber());
    editor.execute(act).unwrap();
    let depth = editor.undo_depth();
    editor.undo().commit().unwrap_err();
    assert_eq!((store.version(), editor.undo_depth()), (2, depth));
}

/// The mutex of publications was locked under that of the session.
#[test]
fn lock_10_a_draft_on_nodes_is_not_published_for_a_session() {
    let store = DataStore::new();
    let editor = Editor::new(store.clone(), "ann");
    let swaps = |draft: &mut Draft| {
        let mut other = DataStore::new().begin_on("other", Scope::new()).unwrap();
        mem::swap(draft, &mut *other);
        Ok::<_, EditError>(())
    };
    let error = editor.execute(op(swaps)).unwrap_err();
    assert!(has_foreign_draft(&error), "{error}");
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

/// The edits of the attempt could not be undone: its draft was elsewhere.
#[test]
fn overlay_10_a_draft_that_was_out_of_its_failed_attempt_is_not_published() {
    let store = DataStore::new();
    let mut shelf = DataStore::new().begin("shelf").unwrap();
    let mut transaction = store.begin("ann").unwrap();
    let failed = transaction.attempt(|draft| {
        draft.create(NodeSpec::new("x"))?;
        mem::swap(draft, &mut *shelf);
        draft.delete("nowhere")
    });
    failed.unwrap_err();
    mem::swap(&mut *transaction, &mut *shelf);
    assert!(is_foreign(&transaction.commit().unwrap_err()));
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

#[test]
fn lock_10_drafts_on_nodes_are_published_under_their_own_locks_only() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let both = ["a", "b"].map(|id| create(text_node("x", "").with_id(id)));
    manager.execute(both).unwrap();
    let begin = |id: &str| {
        let scope = Scope::new().write(id);
        let mut transaction = store.begin_on("ann", scope).unwrap();
        transaction.insert_text(id, 0, "x").unwrap();
        transaction
    };
    // A thread holds nodes by one transaction at a time.
    let (mut one, mut other) = thread::scope(|scope| {
        let other = scope.spawn(|| begin("b"));
        (begin("a"), other.join().unwrap())
    });
    mem::swap(&mut *one, &mut *other);
    for transaction in [one, other] {
        assert!(is_foreign(&transaction.commit().unwrap_err()));
    }
    // A draft of the whole document, under a lock on a node.
    let mut shelf = DataStore::new().begin("shelf").unwrap();
    let mut whole = store.begin("ann").unwrap();
    whole.insert_text("b", 0, "x").unwrap();
    mem::swap(&mut *whole, &mut *shelf);
    drop(whole);
    let mut one = begin("a");
    mem::swap(&mut *one, &mut *shelf);
    assert!(is_foreign(&one.commit().unwrap_err()));
    assert_eq!((store.version(), store.is_locked()), (1, false));
}

#[test]
fn lock_10_a_manual_transaction_without_its_draft_is_not_committed() {
    let store = DataStore::new();
    let loot = Loot::default();
    let mut transaction = store.begin("ann").unwrap();
    transaction.run(op(loot.robber())).unwrap();
    assert!(is_foreign(&transaction.commit().unwrap_err()));
    assert!(is_foreign(&loot.commit()));

    let mut transaction = store.begin("ann").unwrap();
    transaction.attempt(loot.robber()).unwrap();
    assert!(is_foreign(&transaction.commit().unwrap_err()));
    assert!(is_foreign(&loot.commit()));
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

/// A failed attempt leaves the edits of the draft that it put in the place of its own.
#[test]
fn lock_10_a_failed_attempt_returns_only_its_own_draft_to_its_begin() {
    let (store, other) = (DataStore::new(), DataStore::new());
    let mut foreign = other.begin("other").unwrap();
    foreign.create(NodeSpec::new("x").with_id("kept")).unwrap();
    let mut transaction = store.begin("ann").unwrap();
    let failed = transaction.attempt(|draft| {
        mem::swap(draft, &mut *foreign);
        draft.delete("nowhere")
    });
    failed.unwrap_err();
    mem::swap(&mut *transaction, &mut *foreign);
    foreign.commit().unwrap();
    assert!(is_foreign(&transaction.commit().unwrap_err()));
    assert_eq!((other.snapshot().len(), store.version()), (1, 0));
}

#[test]
fn lock_10_a_batch_under_an_id_or_on_nodes_that_loses_its_draft_is_not_published() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let loot = Loot::default();
    let id = store.acquire_lock("ann").unwrap();
    let error = manager.execute_under(id, op(loot.robber())).unwrap_err();
    assert!(has_foreign_draft(&error), "{error}");
    assert!(is_foreign(&loot.commit()));
    store.release_lock(id).unwrap();

    let on_nodes = manager.with_node_locks(1);
    let error = on_nodes.execute(op(loot.robber())).unwrap_err();
    assert!(has_foreign_draft(&error), "{error}");
    assert!(is_foreign(&loot.commit()));
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

#[test]
fn undo_02_an_inverse_that_takes_its_draft_out_changes_nothing() {
    let store = DataStore::new();
    let editor = Editor::new(store.clone(), "ann");
    let loot = Loot::default();
    let act = op_with_inverse(|on| on.create(NodeSpec::new("x")).map(drop), loot.robber());
    editor.execute(act).unwrap();
    let error = editor.undo().commit().unwrap_err();
    assert!(
        matches!(&error, UndoError::Commit(error) if is_foreign(error)),
        "{error:?}"
    );
    assert!(is_foreign(&loot.commit()));
    assert_eq!((store.version(), editor.undo_depth()), (1, 1));
    assert!(!store.is_locked());
}

#[test]
fn inbox_02_a_handler_that_takes_its_draft_out_has_no_effect() {
    let store = DataStore::new();
    let inbox = Inbox::new(&store, "inbox");
    let loot = Loot::default();
    let robber = loot.robber();
    let outcome = inbox.process(&("id", ()), |on, _| Ok(robber(on)?)).unwrap();
    assert!(matches!(outcome, Outcome::Dead(_)), "{outcome:?}");
    assert!(is_foreign(&loot.commit()));
    assert_eq!((store.version(), store.is_locked()), (0, false));
}

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
