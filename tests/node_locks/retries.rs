//! Retries of `retry` and of managers on nodes, at any depth of the transient error.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use doclock::{
    AliasError, CommitError, DataStore, Draft, NodeId, TransactionManager, View,
    codes::{CodedError, Retry},
    document::{EditError, UndoConflict},
    dsl::*,
    history::UndoError,
    lease::LeaseError,
    lock::{AcquireOptions, LockError, LockMode, keyed::ExecutionError, node::Scope},
    transaction::{Hooks, Operation, OperationError, TransactionError, retry},
};

use super::{document, node, patient, take, until_waiting};

type Boxed = Box<dyn Error>;
type Shared = Box<dyn Error + Send + Sync>;

// --- Conflicts ---

/// Makes another owner write `a1` in the first attempt, between its read and its write.
#[derive(Clone)]
struct Meeting {
    store: DataStore,
    attempts: Arc<AtomicU32>,
}

impl Meeting {
    fn new() -> Self {
        Self {
            store: document(),
            attempts: Arc::default(),
        }
    }

    fn read(&self, transaction: &Draft) -> String {
        let seen = transaction.text_of(node("a1")).unwrap();
        if self.attempts.fetch_add(1, Ordering::Relaxed) == 0 {
            let options = AcquireOptions::new().unbound();
            let mut bob = self
                .store
                .request_transaction("bob")
                .on(Scope::new())
                .options(options)
                .wait()
                .unwrap();
            bob.set_text(node("a1"), "Bob").unwrap();
            bob.commit().unwrap();
        }
        seen
    }

    fn manager(&self) -> TransactionManager {
        TransactionManager::for_owner(self.store.clone(), "ann").with_node_locks(5)
    }

    /// The second attempt saw the write of the other owner.
    fn was_solved(&self) {
        let text = self.store.snapshot().text_of(node("a1")).unwrap();
        assert_eq!(text, "Bob and Ann");
        assert_eq!(self.attempts.load(Ordering::Relaxed), 2);
    }
}

fn write(to: String) -> Operation {
    set_text(format!("{to} and Ann")).on("a1")
}

/// Code that reads, and writes through nested operations.
fn nested(meeting: &Meeting) -> Operation {
    let meeting = meeting.clone();
    op(move |transaction| -> Result<(), TransactionError> {
        let seen = meeting.read(transaction);
        transaction.run([write(seen)])
    })
}

/// The manager stopped after one attempt: it did not check errors from code.
#[test]
fn node_locks_06_an_outdated_read_inside_nested_operations_is_retried() {
    let meeting = Meeting::new();
    meeting.manager().execute([nested(&meeting)]).unwrap();
    meeting.was_solved();
}

#[test]
fn node_locks_06_operations_nested_twice_are_retried() {
    let meeting = Meeting::new();
    let inner = meeting.clone();
    let outer = op(move |transaction| -> Result<(), TransactionError> {
        transaction.run([nested(&inner)])
    });
    meeting.manager().execute([outer]).unwrap();
    meeting.was_solved();
}

#[test]
fn node_locks_06_an_outdated_read_of_a_before_hook_is_retried() {
    let meeting = Meeting::new();
    let (hooks, reader) = (Hooks::new(), meeting.clone());
    hooks.before(move |context, _| {
        let seen = reader.read(context.draft());
        let nested = op(move |transaction| -> Result<(), TransactionError> {
            transaction.run([write(seen.clone())])
        });
        Ok(vec![nested])
    });
    let manager = meeting.manager().with_hooks(hooks);
    manager
        .execute([set_text("replaced by the hook").on("b2")])
        .unwrap();
    meeting.was_solved();
}

/// Runs a transaction by hand whose nested operations conflict with another owner.
fn by_hand<E: CodedError + From<TransactionError> + From<LockError> + From<CommitError>>() {
    let meeting = Meeting::new();
    retry(5, || -> Result<(), E> {
        let mut ann = meeting
            .store
            .request_transaction("ann")
            .on(Scope::new())
            .options(patient())
            .wait()?;
        ann.run([nested(&meeting)])?;
        ann.commit()?;
        Ok(())
    })
    .unwrap_or_else(|_| panic!("it is tried again"));
    meeting.was_solved();
}

#[test]
fn node_locks_06_a_manual_retry_finds_transient_causes_in_nested_errors() {
    by_hand::<TransactionError>();
    by_hand::<Boxed>();
    by_hand::<Shared>();
    by_hand::<Report>();
}

/// An error of a program with a source.
#[derive(Debug)]
struct Report(Shared);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no report")
    }
}

impl Error for Report {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl CodedError for Report {
    fn code(&self) -> &'static str {
        "report"
    }

    fn retry(&self) -> Retry {
        self.0.retry()
    }
}

macro_rules! reports {
    ($($error:ty),*) => {$(
        impl From<$error> for Report {
            fn from(error: $error) -> Self {
                Self(error.into())
            }
        }
    )*};
}

reports!(TransactionError, LockError, CommitError);

// --- Every transient error ---

fn attempts_of<E: CodedError>(error: impl Fn() -> E) -> u32 {
    let mut attempts = 0;
    let outcome = retry(3, || {
        attempts += 1;
        Err::<(), E>(error())
    });
    assert!(outcome.is_err());
    attempts
}

/// The number of attempts that `retry` makes, for any wrapping of the error.
fn attempts<E>(error: impl Fn() -> E) -> u32
where
    E: CodedError + Error + Send + Sync + 'static,
{
    let bare = attempts_of(&error);
    let failed = || OperationError::from(Shared::from(error()));
    let operation = || TransactionError::Operation {
        index: 0,
        name: "op",
        node_id: None,
        cause: failed(),
    };
    let wrapped = [
        attempts_of(|| Boxed::from(error())),
        attempts_of(|| Shared::from(error())),
        attempts_of(|| Shared::from(Report(error().into()))),
        attempts_of(|| Boxed::from(Report(Report(error().into()).into()))),
        attempts_of(|| Boxed::from(io::Error::other(error()))),
        attempts_of(|| Boxed::from(io::Error::other(Report(error().into())))),
        attempts_of(failed),
        attempts_of(operation),
        attempts_of(|| Boxed::from(operation())),
        attempts_of(|| Boxed::from(io::Error::other(operation()))),
    ];
    assert_eq!(wrapped, [bare; 10], "{}", error());
    bare
}

/// Two readers of one node that both try to write it.
fn upgrade_conflict() -> LockError {
    let store = document();
    let mut ann = take(&store, "ann", Scope::new().read("a1"));
    let mut bob = take(&store, "bob", Scope::new().read("a1"));
    let first = thread::spawn(move || ann.extend([("a1", LockMode::NodeExclusive)]));
    until_waiting(&store.node_locks(), 1);
    let error = bob.extend([("a1", LockMode::NodeExclusive)]).unwrap_err();
    drop(bob);
    first.join().unwrap().unwrap();
    error
}

fn reentrant() -> LockError {
    let store = document();
    let _guard = store.lock("ann").unwrap();
    store.lock("ann").unwrap_err()
}

fn conflict() -> CommitError {
    let store = document();
    let mut ann = store
        .request_transaction("ann")
        .on(Scope::new().write("a1"))
        .options(patient().unbound())
        .wait()
        .unwrap();
    let seen = ann.text_of(node("b1")).unwrap();
    ann.set_text(node("a1"), seen).unwrap();
    let mut bob = store
        .request_transaction("bob")
        .on(Scope::new().write("b1"))
        .options(patient().unbound())
        .wait()
        .unwrap();
    bob.set_text(node("b1"), "changed").unwrap();
    bob.commit().unwrap();
    ann.commit().unwrap_err()
}

#[test]
fn node_locks_04_every_transient_error_is_retried_bare_and_wrapped() {
    let (lock, commit) = (upgrade_conflict(), conflict());
    assert!(matches!(lock, LockError::UpgradeConflict(_)), "{lock}");
    assert!(matches!(commit, CommitError::Conflict { .. }), "{commit}");
    let not_locked = |transient| EditError::NotLocked {
        id: Some(node("a1")),
        transient,
    };
    let outdated = || EditError::Outdated {
        id: node("a1"),
        version: 2,
    };
    assert_eq!(attempts(|| lock.clone()), 3);
    assert_eq!(attempts(|| TransactionError::from(lock.clone())), 3);
    assert_eq!(
        attempts(|| CommitError::NotLocked(Box::new(lock.clone()))),
        3
    );
    assert_eq!(attempts(|| commit.clone()), 3);
    assert_eq!(attempts(|| TransactionError::from(commit.clone())), 3);
    assert_eq!(attempts(outdated), 3);
    assert_eq!(attempts(|| OperationError::from(outdated())), 3);
    assert_eq!(attempts(|| not_locked(true)), 3);
    let undo = || UndoError::Conflict {
        redo: false,
        conflict: UndoConflict::Impossible(outdated()),
        by: None,
        returns: false,
    };
    assert_eq!(attempts(undo), 3);
    assert_eq!(attempts(|| UndoError::Lock(lock.clone())), 3);
    assert_eq!(attempts(|| UndoError::Inverse(outdated().into())), 3);
    assert_eq!(attempts(|| ExecutionError::Lock(lock.clone())), 3);
}

#[test]
fn node_locks_04_every_other_error_is_final_bare_and_wrapped() {
    let lock = reentrant();
    let not_locked = || EditError::NotLocked {
        id: None,
        transient: false,
    };
    let missing = |id: &NodeId| EditError::NodeNotFound { id: id.clone() };
    assert_eq!(attempts(|| lock.clone()), 1);
    assert_eq!(attempts(|| TransactionError::from(lock.clone())), 1);
    assert_eq!(
        attempts(|| CommitError::NotLocked(Box::new(lock.clone()))),
        1
    );
    assert_eq!(attempts(not_locked), 1);
    assert_eq!(attempts(|| missing(&node("a1"))), 1);
    assert_eq!(attempts(|| UndoError::NothingToUndo), 1);
    assert_eq!(attempts(|| AliasError::Unknown { alias: "x".into() }), 1);
    assert_eq!(attempts(|| LeaseError::NoTargets), 1);
    assert_eq!(attempts(|| OperationError::EmptyClipboard), 1);
    assert_eq!(attempts_of(|| Boxed::from("a text")), 1);
}

/// An error that is its own source has an endless chain.
#[test]
fn node_locks_04_a_chain_of_sources_without_an_end_is_final() {
    #[derive(Debug)]
    struct Circular;

    impl fmt::Display for Circular {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("circular")
        }
    }

    impl Error for Circular {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self)
        }
    }

    assert_eq!(attempts_of(|| Boxed::from(Circular)), 1);
}

/// Code that ignores the error of a lock, which is that of its transaction.
#[test]
fn node_locks_04_a_batch_whose_code_ignores_a_failed_lock_is_not_published() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let both = ["a", "b"].map(|id| create(text_node("x", "").with_id(id)));
    manager.execute(both).unwrap();
    thread::scope(|scope| {
        let held = scope.spawn(|| store.node_locks().lock("bob", Scope::new().write("b")));
        let held = held.join().unwrap().unwrap();
        let ignores = op(|draft: &mut Draft| {
            draft.insert_text("a", 0, "x")?;
            let _ = draft.insert_text("b", 0, "x");
            Ok::<_, EditError>(())
        });
        let on_nodes = manager.clone().with_node_locks(1);
        let options = AcquireOptions::new().no_wait();
        let error = on_nodes.transaction(ignores).options(options).commit();
        assert!(matches!(error, Err(TransactionError::Lock(_))), "{error:?}");
        drop(held);
    });
    assert_eq!(store.version(), 1);
}
