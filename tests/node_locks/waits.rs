//! Waits and errors of requests for nodes: as for the document lock (NODE LOCKS 1; LOCK 5-8, 12-14,
//! 16).

use std::thread;
use std::time::Duration;

use doclock::{
    StoreOptions,
    lock::{AcquireOptions, CancelToken, LockError, LockMode, SlowRequest, node::Scope},
};

use super::{
    ask, ask_with, blocked, document, node, patient, take, timed, timed_with, until_waiting,
};

#[test]
fn node_locks_01_a_timeout_names_the_holder_that_it_waited_for() {
    let (store, clock) = timed();
    let holder = take(&store, "holder", Scope::new().write("a1"));
    let before = ask(&store, "before", Scope::new().write("a1"));
    let limit = AcquireOptions::new().timeout(Duration::from_millis(100));
    let timed = ask_with(&store, "ann", Scope::new().read("a1").read("b1"), limit);
    clock.advance(Duration::from_millis(99));
    assert_eq!(
        store.node_locks().stats().waiting,
        2,
        "not a moment too early"
    );
    assert!(
        blocked(&store, Scope::new().write("b1")),
        "what it has already it keeps for then"
    );
    clock.advance(Duration::from_millis(1));
    let Err(LockError::Timeout(evidence)) = timed.join().unwrap() else {
        panic!("expected a timeout");
    };
    let wait = evidence.node.clone().unwrap();
    assert_eq!(
        (wait.node, wait.mode),
        (Some(node("a1")), LockMode::NodeShared)
    );
    assert_eq!((evidence.position, evidence.ahead.len()), (2, 1));
    assert_eq!(evidence.ahead[0].owner_id.as_str(), "before");
    assert_eq!(evidence.holder.owner_id.as_str(), "holder");
    assert_eq!(evidence.waited, Duration::from_millis(100));
    let text = evidence.to_string();
    let expected = "Lock acquisition timeout after 100ms for owner ann: queue position 2 for node a1 (node shared) behind lock-";
    assert!(text.starts_with(expected), "{text}");
    assert!(
        !blocked(&store, Scope::new().write("b1")),
        "nothing is left of it"
    );
    drop(holder);
    drop(before.join().unwrap().unwrap());
    let stats = store.node_locks().stats();
    assert_eq!(
        (stats.total_timeouts, stats.waiting, stats.entries),
        (1, 0, 0)
    );
}

#[test]
fn node_locks_01_a_cancelled_request_leaves_no_entry_and_frees_later_requests() {
    let store = document();
    let _holder = take(&store, "holder", Scope::new().read("a1"));
    let token = CancelToken::new();
    let cancelled = ask_with(
        &store,
        "ann",
        Scope::new().write("a1"),
        patient().cancel_token(&token),
    );
    let behind = ask(&store, "bob", Scope::new().read("a1"));
    token.cancel();
    assert!(matches!(
        cancelled.join().unwrap(),
        Err(LockError::Cancelled(_))
    ));
    drop(behind.join().unwrap().unwrap());
    assert_eq!(store.node_locks().stats().total_cancellations, 1);
    let refused = store
        .node_locks()
        .request("ann", Scope::new())
        .options(patient().cancel_token(&token))
        .wait();
    assert!(matches!(refused, Err(LockError::Cancelled(_))));
}

/// Many waiters of a node leave from the middle, in no order, and the others keep their order.
#[test]
fn node_locks_01_leaving_the_middle_of_a_node_queue_disturbs_no_other_request() {
    let store = document();
    let holder = take(&store, "holder", Scope::new().write("a1"));
    let token = CancelToken::new();
    let asking: Vec<_> = (0..12)
        .map(|nth| {
            let options = if nth % 3 == 1 {
                patient().cancel_token(&token)
            } else {
                patient()
            };
            ask_with(&store, "ann", Scope::new().write("a1").write("b1"), options)
        })
        .collect();
    token.cancel();
    until_waiting(&store.node_locks(), 8);
    drop(holder);
    let mut tokens = Vec::new();
    for (nth, asked) in asking.into_iter().enumerate() {
        match asked.join().unwrap() {
            Ok(guard) => tokens.push(guard.fencing_token()),
            Err(error) => assert!(nth % 3 == 1, "{error}"),
        }
    }
    assert!(tokens.len() == 8 && tokens.is_sorted(), "{tokens:?}");
    assert_eq!(store.node_locks().stats().entries, 0);
}

#[test]
fn node_locks_01_a_bound_on_waiting_requests_rejects_the_excess() {
    let (store, _) = timed_with(StoreOptions::new().queue_bound(1));
    let holder = take(&store, "holder", Scope::new().write("a1"));
    let first = ask(&store, "first", Scope::new().write("a1"));
    let options = patient().unbound();
    let second = store
        .node_locks()
        .request("second", Scope::new().write("a1"))
        .options(options)
        .wait();
    assert!(
        matches!(
            second,
            Err(LockError::QueueFull {
                waiting: 1,
                bound: 1,
                ..
            })
        ),
        "{second:?}"
    );
    drop(holder);
    drop(first.join().unwrap().unwrap());
}

/// In every combination of the whole document and nodes.
#[test]
fn node_locks_01_a_second_request_on_the_holding_thread_is_refused_at_once() {
    let store = document();
    let locks = store.node_locks();
    let reentrant = |result: Result<(), LockError>| match result {
        Err(LockError::Reentrant { holder, .. }) => holder.owner_id,
        other => panic!("{other:?}"),
    };
    let global = store.lock("ann").unwrap();
    assert_eq!(
        reentrant(locks.lock("ann", Scope::new()).map(drop)).as_str(),
        "ann"
    );
    drop(global);
    // Alone, and beside another holder.
    for other in [None, Some(take(&store, "other", Scope::new().write("b1")))] {
        let guard = locks.lock("bob", Scope::new().write("a1")).unwrap();
        assert_eq!(reentrant(store.lock("bob").map(drop)).as_str(), "bob");
        assert_eq!(
            reentrant(locks.lock("bob", Scope::new().write("a2")).map(drop)).as_str(),
            "bob"
        );
        assert_eq!(
            reentrant(store.begin_on("bob", Scope::new()).map(drop)).as_str(),
            "bob"
        );
        drop(guard);
        drop(other);
    }
}

#[test]
fn node_locks_01_a_hold_limit_frees_nodes_for_waiters() {
    let (store, clock) = timed_with(StoreOptions::new().hold_limit(Duration::from_secs(1)));
    let locks = store.node_locks();
    let slow = take(&store, "slow", Scope::new().write("a1"));
    let beside = take(&store, "beside", Scope::new().write("b1"));
    let waiting = ask(&store, "ann", Scope::new().write("a1"));
    clock.advance(Duration::from_millis(999));
    assert_eq!(locks.stats().waiting, 1);
    clock.advance(Duration::from_millis(1));
    let ann = waiting.join().unwrap().unwrap();
    assert!(ann.fencing_token() > slow.fencing_token());
    let owners: Vec<_> = locks
        .holders()
        .into_iter()
        .map(|it| it.holder.owner_id)
        .collect();
    assert_eq!(
        owners,
        ["beside".into(), "ann".into()],
        "no request waited for the other nodes"
    );
    let mut slow = slow;
    assert!(matches!(
        slow.extend([("a2", LockMode::Shared)]),
        Err(LockError::Revoked { .. })
    ));
    drop(slow);
    assert_eq!(locks.holders().len(), 2, "a revoked guard releases nothing");
    drop((ann, beside));
    assert_eq!(locks.stats().total_revocations, 1);
}

/// A request for the whole document revokes all holders of nodes that exceed the limit.
#[test]
fn node_locks_01_a_hold_limit_frees_the_document_lock_as_well() {
    let (store, clock) = timed_with(StoreOptions::new().hold_limit(Duration::from_secs(1)));
    let mut slow = store
        .request_transaction("slow")
        .on(Scope::new().write("a1"))
        .options(patient().unbound())
        .wait()
        .unwrap();
    slow.set_text(node("a1"), "never seen").unwrap();
    let beside = take(&store, "beside", Scope::new().write("b1"));
    let other = store.clone();
    let waiting = thread::spawn(move || other.request("whole").options(patient()).wait().map(drop));
    while store.queue_length() != 1 {
        thread::yield_now();
    }
    clock.advance(Duration::from_secs(1));
    waiting.join().unwrap().unwrap();
    let error = slow.commit().unwrap_err();
    let doclock::CommitError::Revoked { waiter, .. } = &error else {
        panic!("{error}");
    };
    let waiter = waiter.as_ref().map(|waiter| waiter.owner_id.as_str());
    assert_eq!(waiter, Some("whole"));
    assert_eq!(store.version(), 1);
    drop(beside);
    assert_eq!(store.node_locks().stats().total_revocations, 2);
}

#[test]
fn node_locks_01_metrics_count_requests_and_their_times() {
    let (store, clock) = timed();
    let locks = store.node_locks();
    let first = take(&store, "first", Scope::new().write("a1").write("b1"));
    let second = ask(&store, "second", Scope::new().write("a1"));
    clock.advance(Duration::from_millis(40));
    drop(first);
    drop(second.join().unwrap().unwrap());
    let stats = locks.stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (2, 2));
    assert_eq!(
        (stats.wait.max, stats.hold.max),
        (Duration::from_millis(40), Duration::from_millis(40))
    );
    assert_eq!(
        (stats.wait.mean, stats.holders),
        (Duration::from_millis(20), 0)
    );
    assert_eq!(
        store.lock_stats().total_acquisitions,
        1,
        "the setup's: others count on their own"
    );
}

/// For any page size, each once and in the order of requests.
#[test]
fn node_locks_01_all_holders_and_waiters_are_listed() {
    let store = document();
    let guards: Vec<_> = (0..100)
        .map(|nth| {
            take(
                &store,
                &format!("{nth}"),
                Scope::new().write(format!("9:{nth}").as_str()),
            )
        })
        .collect();
    let locks = store.node_locks();
    let owners: Vec<_> = locks
        .holders()
        .into_iter()
        .map(|it| it.holder.owner_id)
        .collect();
    let expected: Vec<_> = (0..100)
        .map(|nth| doclock::OwnerId::from(nth.to_string()))
        .collect();
    assert_eq!(owners, expected);
    let waiting: Vec<_> = (0..40)
        .map(|_| ask(&store, "ann", Scope::new().write("9:0")))
        .collect();
    let waiters = locks.waiters();
    let places: Vec<_> = waiters
        .iter()
        .map(|waiter| waiter.request.position)
        .collect();
    assert_eq!(places, (1..=40).collect::<Vec<_>>());
    assert_eq!(
        (waiters[0].blocked_by.len(), waiters[39].blocked_by.len()),
        (1, 2)
    );
    let line = waiters[1].to_string();
    assert!(
        line.contains(" for node 9:0 (node exclusive) behind lock-"),
        "{line}"
    );
    drop(guards);
    waiting
        .into_iter()
        .for_each(|it| drop(it.join().unwrap().unwrap()));
}

/// Failed requests for nodes count in the node statistics, and those for the whole document do not.
#[test]
fn node_locks_01_refusals_count_on_their_own() {
    let (store, _) = timed_with(StoreOptions::new().queue_bound(0));
    let locks = store.node_locks();
    let guard = locks.lock("ann", Scope::new().write("a1")).unwrap();
    assert!(
        locks.lock("ann", Scope::new()).is_err(),
        "by its own thread"
    );
    let rejected = locks
        .request("bob", Scope::new().write("a1"))
        .options(patient().unbound())
        .wait();
    assert!(matches!(rejected, Err(LockError::QueueFull { .. })));
    let token = CancelToken::new();
    token.cancel();
    assert!(
        locks
            .request("bob", Scope::new())
            .options(patient().cancel_token(&token))
            .wait()
            .is_err()
    );
    drop(guard);
    let stats = locks.stats();
    assert_eq!(
        (
            stats.total_refusals,
            stats.total_rejections,
            stats.total_cancellations
        ),
        (1, 1, 1)
    );
    let whole = store.lock_stats();
    assert_eq!(
        (
            whole.total_refusals,
            whole.total_rejections,
            whole.total_cancellations
        ),
        (0, 0, 0)
    );
}

#[test]
fn a_long_wait_for_nodes_is_reported_once_with_the_holder_that_blocks_it() {
    let second = Duration::from_secs(1);
    let (store, clock) = timed_with(StoreOptions::new().report_waits(second));
    let reports = store.lock_reports().unwrap();
    let other = take(&store, "other", Scope::new().write("b1"));
    let holder = take(&store, "holder", Scope::new().write("a1"));
    let ann = ask(&store, "ann", Scope::new().write("a1"));
    clock.advance(second);
    let report = reports.recv_timeout(Duration::from_secs(60)).unwrap();
    let blocker = report.holder.as_ref().unwrap();
    assert_eq!(blocker.owner_id.as_str(), "holder", "{report}");
    let SlowRequest::Wait { request, .. } = &report.slow else {
        panic!("{report}");
    };
    assert_eq!(request.owner_id.as_str(), "ann");
    drop(holder);
    drop(ann.join().unwrap());
    drop(other);
    assert!(reports.try_recv().is_err());
}
