//! Cycles of waits (NODE LOCKS 1, 4).

use std::thread;

use doclock::{
    DataStore,
    codes::Retry,
    lock::{
        LockError, LockMode,
        node::{Deadlock, Scope},
    },
    transaction::retry,
};

use super::{ask, document, node, take, timed, until_waiting};

fn deadlock_of(result: Result<(), LockError>) -> Deadlock {
    match result {
        Err(LockError::Deadlock(deadlock)) => *deadlock,
        other => panic!("expected a deadlock, found {other:?}"),
    }
}

#[test]
fn node_locks_01_a_second_upgrade_of_one_node_fails_at_once() {
    let store = document();
    let locks = store.node_locks();
    let mut ann = take(&store, "ann", Scope::new().read("a1"));
    let mut bob = take(&store, "bob", Scope::new().read("a1"));
    let first = thread::spawn(move || {
        ann.extend([("a1", LockMode::NodeExclusive)]).unwrap();
        ann
    });
    until_waiting(&locks, 1);
    let error = bob.extend([("a1", LockMode::NodeExclusive)]).unwrap_err();
    assert!(matches!(error, LockError::UpgradeConflict(_)), "{error}");
    assert_eq!(error.retry(), Retry::Now);
    let text = error.to_string();
    assert!(text.starts_with("lock upgrade conflict: lock-"), "{text}");
    assert!(text.contains("of ann has (node shared)"), "{text}");
    drop(bob);
    drop(first.join().unwrap());
    assert_eq!(
        (
            locks.stats().total_deadlocks,
            locks.stats().total_upgrade_conflicts
        ),
        (1, 1)
    );
}

#[test]
fn node_locks_04_a_request_that_would_close_a_cycle_fails_at_once_and_names_it() {
    let (store, clock) = timed();
    let locks = store.node_locks();
    let mut ann = take(&store, "ann", Scope::new().write("a1"));
    let mut bob = take(&store, "bob", Scope::new().write("b1"));
    let (ann_id, bob_id) = (ann.id(), bob.id());
    let waits = thread::spawn(move || {
        ann.extend([("b1", LockMode::NodeExclusive)]).unwrap();
        ann
    });
    until_waiting(&locks, 1);
    clock.advance(std::time::Duration::from_millis(7));
    let deadlock = deadlock_of(bob.extend([("a1", LockMode::NodeExclusive)]));
    let [first, second] = &*deadlock.links else {
        panic!("{deadlock}");
    };
    assert_eq!((first.lock_id, first.owner_id.as_str()), (bob_id, "bob"));
    assert_eq!((second.lock_id, second.owner_id.as_str()), (ann_id, "ann"));
    assert_eq!(first.waits_for.node, Some(node("a1")));
    assert_eq!(second.waits_for.node, Some(node("b1")));
    assert_eq!(first.held_by_next, Some(LockMode::NodeExclusive));
    assert_eq!(second.waiting_for.as_millis(), 7);
    assert_eq!(first.held_for.as_millis(), 7);
    assert!(
        deadlock
            .to_string()
            .contains("and has waited 7ms for node b1"),
        "{deadlock}"
    );
    assert_eq!(locks.stats().waiting, 1, "only Ann waits still");
    clock.advance(std::time::Duration::from_millis(5));
    let report = store.diagnostics().lock;
    let [refused] = &report.deadlocks[..] else {
        panic!("{report}");
    };
    assert_eq!(refused.deadlock, deadlock);
    assert_eq!(refused.refused_for.as_millis(), 5);
    assert_eq!(refused.to_string(), format!("{deadlock}, refused 5ms ago"));
    drop(bob);
    let ann = waits.join().unwrap();
    assert_eq!(ann.id(), ann_id);
}

/// Through three owners, one of which only waits in the queue behind another.
#[test]
fn node_locks_04_a_cycle_through_a_queue_is_found() {
    let store = document();
    let locks = store.node_locks();
    let mut ann = take(&store, "ann", Scope::new().write("a1"));
    let bob = take(&store, "bob", Scope::new().read("b1"));
    // Carl holds a2 and waits for Bob's b1; Ann requests a read of b1, and waits behind Carl.
    let mut carl = take(&store, "carl", Scope::new().write("a2"));
    let carl = thread::spawn(move || {
        carl.extend([("b1", LockMode::NodeExclusive)]).unwrap();
        carl
    });
    until_waiting(&locks, 1);
    let ann = thread::spawn(move || {
        ann.extend([("b1", LockMode::NodeShared)]).unwrap();
        ann
    });
    until_waiting(&locks, 2);
    let mut bob = bob;
    let deadlock = deadlock_of(bob.extend([("a1", LockMode::NodeShared)]));
    let owners: Vec<_> = deadlock
        .links
        .iter()
        .map(|link| link.owner_id.as_str())
        .collect();
    assert!(
        owners == ["bob", "ann"] || owners == ["bob", "ann", "carl"],
        "{deadlock}"
    );
    drop(bob);
    drop(carl.join().unwrap());
    drop(ann.join().unwrap());
}

/// The rollback of the failed request frees the others, and a retry succeeds.
#[test]
fn node_locks_04_a_transaction_that_would_deadlock_rolls_back_and_can_retry() {
    let store = document();
    let text = |store: &DataStore| {
        let snapshot = store.snapshot();
        ["a1", "b1"].map(|id| doclock::View::text_of(&snapshot, node(id)).unwrap())
    };
    let mut ann = store.begin_on("ann", Scope::new().write("a1")).unwrap();
    ann.set_text(node("a1"), "Ann").unwrap();
    let other = store.clone();
    let (first, second) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let (tell, told) = first;
    let (go, going) = second;
    let bob = thread::spawn(move || {
        let mut attempts = 0;
        let outcome = retry(
            3,
            || -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
                attempts += 1;
                let mut bob = other.begin_on("bob", Scope::new().write("b1"))?;
                bob.set_text(node("b1"), "Bob")?;
                if attempts == 1 {
                    tell.send(())?;
                    going.recv()?;
                }
                bob.set_text(node("a1"), "Bob")?;
                Ok(bob.commit()?)
            },
        );
        (attempts, outcome.map(drop))
    });
    told.recv().unwrap();
    // Ann waits for Bob's node, and then Bob requests hers.
    let locks = store.node_locks();
    let ann = thread::spawn(move || {
        ann.set_text(node("b1"), "Ann").unwrap();
        ann.commit().unwrap();
    });
    until_waiting(&locks, 1);
    go.send(()).unwrap();
    ann.join().unwrap();
    let (attempts, outcome) = bob.join().unwrap();
    assert_eq!((attempts, outcome.is_ok()), (2, true));
    assert_eq!(text(&store), ["Bob", "Bob"]);
    assert_eq!(store.version(), 3, "the setup, Ann, Bob once");
    assert_eq!(locks.stats().total_deadlocks, 1);
}

/// Requests in a chain without a cycle are granted.
#[test]
fn node_locks_04_a_chain_is_no_cycle() {
    let store = document();
    let mut ann = take(&store, "ann", Scope::new().write("a1"));
    let bob = take(&store, "bob", Scope::new().write("b1"));
    let locks = store.node_locks();
    let ann = thread::spawn(move || {
        ann.extend([("b1", LockMode::NodeExclusive)]).unwrap();
        ann
    });
    until_waiting(&locks, 1);
    let carl = ask(&store, "carl", Scope::new().write("a1").write("b1"));
    drop(bob);
    drop(ann.join().unwrap());
    drop(carl.join().unwrap().unwrap());
}
