//! The ends of node locks: guards, ids, panics, and dropped handles (NODE LOCKS 1; LOCK 2, 3, 11,
//! 17, 18).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use doclock::{
    NodeGuard, Transaction,
    lock::{JoinError, ReleaseError, node::Scope},
};

use super::{ask, blocked, document, node, take};

#[test]
fn node_locks_01_nodes_can_be_released_by_id() {
    let store = document();
    for alone in [true, false] {
        let other = (!alone).then(|| take(&store, "other", Scope::new().write("b1")));
        let guard = take(&store, "ann", Scope::new().write("a1"));
        let id = guard.id();
        assert!(
            store
                .begin_under(id)
                .is_err_and(|error| error == JoinError::NodesOnly { id })
        );
        assert!(store.release_lock(id).is_ok());
        assert!(!blocked(&store, Scope::new().write("a1")));
        drop(guard);
        let again = store.release_lock(id);
        match other {
            None => assert_eq!(again, Err(ReleaseError::NotHeld { id })),
            Some(other) => {
                let (expected, got) = (other.id(), id);
                assert_eq!(again, Err(ReleaseError::Mismatch { expected, got }));
            }
        }
    }
    let transaction = store.begin_on("ann", Scope::new().write("a1")).unwrap();
    let id = transaction.lock_id();
    assert_eq!(
        store.release_lock(id),
        Err(ReleaseError::TransactionOpen { id })
    );
}

#[test]
fn node_locks_01_a_panic_rolls_back_and_hands_on() {
    let store = document();
    let _other = take(&store, "other", Scope::new().write("b1"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut transaction = store.begin_on("ann", Scope::new().write("a1")).unwrap();
        transaction.set_text(node("a1"), "lost").unwrap();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert!(!blocked(&store, Scope::new().write_subtree("a")));
    assert_eq!(store.version(), 1);
}

#[test]
fn node_locks_01_dropping_the_store_strands_no_waiter() {
    let store = document();
    let holder = take(&store, "holder", Scope::new().write("a1"));
    let waiting = ask(&store, "ann", Scope::new().write("a1"));
    drop(store);
    drop(holder);
    drop(waiting.join().unwrap().unwrap());
}

#[test]
fn node_locks_01_a_guard_can_be_dropped_on_another_thread() {
    fn sends<T: Send + Sync>() {}
    sends::<NodeGuard>();
    sends::<Transaction>();
    let store = document();
    let guard = store
        .node_locks()
        .lock("ann", Scope::new().write("a1"))
        .unwrap();
    thread::spawn(move || drop(guard)).join().unwrap();
    assert!(!blocked(&store, Scope::new().write("a1")));
}
