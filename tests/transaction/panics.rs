//! LOCK 11 and 12 for transactions.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::thread;
use std::time::Duration;

use doclock::dsl::*;
use doclock::{
    DataStore, Editor,
    document::Selection,
    lock::{AcquireOptions, LockError},
    transaction::{Operation, OperationError, PanicPayload, TransactionError},
};

use crate::common::{PATIENCE, id, image, text};
use crate::{failed, manager, with_note};

fn panicked(error: TransactionError) -> (usize, PanicPayload) {
    match failed(error) {
        (index, "op", OperationError::Panicked(payload)) => (index, payload),
        other => panic!("{other:?}"),
    }
}

fn caught(code: impl FnOnce()) -> Box<dyn Any + Send> {
    catch_unwind(AssertUnwindSafe(code)).unwrap_err()
}

#[test]
fn lock_11_a_panic_in_code_is_an_error_with_index_and_message_and_can_resume() {
    #[derive(Debug, PartialEq)]
    struct Signal(u32);

    let store = with_note();
    let before = image(&store.snapshot());
    let run = |code: Operation| {
        let list = (
            set_text("lost").on("note"),
            control("note", [insert_text(0, "x"), set_text("y")]),
            code,
        );
        let (index, payload) = panicked(manager(&store).execute(list).unwrap_err());
        assert_eq!(index, 3);
        assert_eq!(image(&store.snapshot()), before, "rolled back");
        assert!(!store.is_locked(), "handed on");
        payload
    };
    let payload = run(op::<String>(|_| panic!("plain")));
    assert_eq!(payload.message().as_deref(), Some("plain"));
    assert_eq!(
        (payload.to_string(), format!("{payload:?}")),
        ("panicked: plain".into(), "panicked: plain".into())
    );
    let parts = vec![1, 2];
    let payload = run(op::<String>(move |_| panic!("made of {parts:?}")));
    assert_eq!(payload.message().as_deref(), Some("made of [1, 2]"));
    assert_eq!(
        caught(|| payload.resume()).downcast_ref(),
        Some(&"made of [1, 2]".to_owned())
    );
    let payload = run(op::<String>(|_| panic_any(Signal(7))));
    assert_eq!(
        (payload.message(), payload.to_string()),
        (None, "panicked".to_owned())
    );
    assert_eq!(
        caught(|| payload.resume()).downcast_ref(),
        Some(&Signal(7)),
        "reaches the submitter"
    );
    let error = manager(&store)
        .execute([op::<String>(|_| panic!("by name"))])
        .unwrap_err();
    assert_eq!(error.to_string(), "operation 0 (op): panicked: by name");

    manager(&store)
        .execute([insert_text(0, "not poisoned: ").on("note")])
        .unwrap();
    assert_eq!(text(&store.snapshot(), "note"), "not poisoned: Hello");
}

/// Runs `holder`, which panics while two others wait, and checks that they are granted in order.
fn handed_on_after(holder: impl FnOnce(&DataStore) + Send) {
    let store = with_note();
    store.set_lock_timeout(PATIENCE);
    let wait = |owner: &'static str| {
        let put_in_front = op(move |transaction| {
            assert!(!text(transaction, "note").contains("lost"));
            transaction.insert_text(id("note"), 0, owner)
        });
        manager(&store).execute([put_in_front]).unwrap();
    };
    thread::scope(|scope| {
        let guard = store.lock("test").unwrap();
        let until_waiting = |count| {
            while store.queue_length() < count {
                thread::yield_now();
            }
        };
        scope.spawn(|| holder(&store));
        until_waiting(1);
        scope.spawn(|| wait("one "));
        until_waiting(2);
        scope.spawn(|| wait("two "));
        until_waiting(3);
        drop(guard);
    });
    assert_eq!(text(&store.snapshot(), "note"), "two one Hello");
    assert_eq!((store.version(), store.is_locked()), (3, false));
    let stats = store.lock_stats();
    assert_eq!(stats.total_releases, stats.total_acquisitions);
}

#[test]
fn lock_11_after_a_panic_in_code_the_lock_goes_to_the_next_waiter() {
    handed_on_after(|store| {
        let lose = op::<String>(|transaction| {
            transaction.set_text(id("note"), "lost").unwrap();
            panic!("torn")
        });
        let (_, payload) = panicked(manager(store).execute([lose]).unwrap_err());
        assert_eq!(payload.message().as_deref(), Some("torn"));
    });
}

/// Panics inside a transaction that was begun by hand.
fn lose(store: &DataStore) {
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_text(id("note"), "lost").unwrap();
    panic!("torn");
}

#[test]
fn lock_11_after_a_panic_in_a_begun_transaction_the_lock_goes_to_the_next() {
    handed_on_after(|store| {
        assert_eq!(caught(|| lose(store)).downcast_ref(), Some(&"torn"));
    });
}

#[test]
fn lock_11_a_thread_that_dies_of_a_panic_hands_the_lock_on() {
    handed_on_after(|store| {
        let died = thread::scope(|scope| scope.spawn(|| lose(store)).join().unwrap_err());
        assert_eq!(died.downcast_ref(), Some(&"torn"));
    });
}

#[test]
fn lock_11_a_panic_under_a_lock_held_by_id_rolls_back_and_leaves_the_lock_to_its_holder() {
    let store = with_note();
    let before = store.snapshot();
    let lock = store.acquire_lock("front end").unwrap();
    let torn = op::<String>(|transaction| {
        transaction.delete(id("note")).unwrap();
        panic!("torn")
    });
    let (index, _) = panicked(manager(&store).execute_under(lock, [torn]).unwrap_err());
    assert_eq!(index, 0);
    caught(|| {
        let mut transaction = store.begin_under(lock).unwrap();
        transaction.delete(id("note")).unwrap();
        panic!("torn, too");
    });
    assert_eq!(store.snapshot(), before);
    assert_eq!(store.current_lock().unwrap().lock_id, lock);
    manager(&store)
        .execute_under(lock, [set_text("x").on("note")])
        .unwrap();
    store.release_lock(lock).unwrap();
    assert_eq!(
        (text(&store.snapshot(), "note"), store.is_locked()),
        ("x".to_owned(), false)
    );
}

#[test]
fn lock_11_a_panic_leaves_editor_selection_and_subscribers_in_order() {
    let editor = Editor::new(with_note(), "ann");
    let events = editor.store().subscribe();
    editor.select(Selection::caret("note", 2)).unwrap();
    let torn = op::<String>(|transaction| {
        transaction.insert_text(id("note"), 0, "lost").unwrap();
        panic!("torn")
    });
    panicked(transaction(&editor, [torn]).commit().unwrap_err());
    assert_eq!(editor.selection(), Some(Selection::caret("note", 2)));
    assert!(events.try_recv().is_err());
    let result = transaction(&editor, [insert_text(0, "x").on("note")])
        .commit()
        .unwrap();
    assert_eq!(result.selection_after, Some(Selection::caret("note", 3)));
    assert_eq!(events.try_recv().unwrap().commit.version, 2);
}

#[test]
fn lock_12_code_that_requests_the_lock_of_its_own_transaction_fails_at_once() {
    let store = with_note();
    let before = store.snapshot();
    let inner = store.clone();
    let ask = op(move |_| {
        manager(&inner)
            .execute([set_text("x").on("note")])
            .map(drop)
    });
    let (index, _, cause) = failed(manager(&store).execute([ask]).unwrap_err());
    let OperationError::Failed(cause) = cause else {
        panic!("{cause:?}")
    };
    let cause: &TransactionError = cause.downcast_ref().unwrap();
    assert!(
        matches!(cause, TransactionError::Lock(LockError::Reentrant { .. })),
        "{cause}"
    );
    assert_eq!(index, 0);
    assert_eq!((store.snapshot(), store.is_locked()), (before, false));
}

/// The thread that runs a transaction under a lock holds that lock, even if another thread acquired
/// it.
#[test]
fn lock_12_code_under_a_lock_acquired_by_another_thread_is_refused_at_once() {
    let store = with_note();
    let acquire = || {
        store
            .request("front end")
            .options(AcquireOptions::new().unbound())
            .wait()
            .unwrap()
            .into_id()
    };
    let lock = thread::scope(|scope| scope.spawn(acquire).join().unwrap());
    let inner = store.clone();
    let ask = op(move |_| {
        let options = AcquireOptions::new().timeout(Duration::from_millis(20));
        inner.request("inner").options(options).wait().map(drop)
    });
    let (_, _, cause) = failed(manager(&store).execute_under(lock, [ask]).unwrap_err());
    let OperationError::Failed(cause) = cause else {
        panic!("{cause:?}")
    };
    let cause: &LockError = cause.downcast_ref().unwrap();
    assert!(
        matches!(cause, LockError::Reentrant { .. }),
        "it waited for itself: {cause}"
    );
}
