//! The hold limit, for requests that wait for different holders (LOCK 10).

use std::thread;
use std::time::Duration;

use doclock::{
    DataStore, StoreOptions,
    lock::{AcquireOptions, CancelToken, LockError, node::Scope},
    time::ManualClock,
};

use super::{ask, ask_with, node, patient, take, timed, timed_with, until_waiting};

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

fn limited() -> (DataStore, ManualClock) {
    timed_with(StoreOptions::new().hold_limit(SECOND))
}

fn writes(node: &'static str) -> Scope {
    Scope::new().write(node)
}

#[test]
fn lock_10_the_limit_passes_for_the_last_request_for_a_node_after_the_others_have_left() {
    for ends_by_token in [true, false] {
        let (store, clock) = limited();
        let slow = take(&store, "slow", writes("a1"));
        let token = CancelToken::new();
        let leaving: Vec<_> = (0..3)
            .map(|_| {
                let options = match ends_by_token {
                    true => patient().cancel_token(&token),
                    false => AcquireOptions::new().timeout(SECOND / 2),
                };
                ask_with(&store, "leaving", writes("a1"), options)
            })
            .collect();
        let last = ask(&store, "last", writes("a1"));
        clock.advance(SECOND / 2);
        if ends_by_token {
            token.cancel();
        }
        for waiter in leaving {
            let error = waiter.join().unwrap().unwrap_err();
            match ends_by_token {
                true => assert!(matches!(error, LockError::Cancelled(_)), "{error}"),
                false => assert!(matches!(error, LockError::Timeout(_)), "{error}"),
            }
        }
        clock.advance(SECOND / 2 - NANO);
        until_waiting(&store.node_locks(), 1);
        clock.advance(NANO);
        drop(last.join().unwrap().unwrap());
        drop(slow);
        assert_eq!(store.node_locks().stats().total_revocations, 1);
    }
}

#[test]
fn lock_10_the_limit_of_a_later_holder_does_not_delay_an_earlier_revocation() {
    let (store, clock) = limited();
    let older = take(&store, "older", writes("a1"));
    clock.advance(SECOND / 2);
    let later = take(&store, "later", writes("b1"));
    let waits_for_later = [(); 3].map(|()| ask(&store, "b", writes("b1")));
    let token = CancelToken::new();
    let leaving = ask_with(
        &store,
        "leaving",
        writes("a1"),
        patient().cancel_token(&token),
    );
    let first = ask(&store, "first", writes("a1"));
    token.cancel();
    assert!(leaving.join().unwrap().is_err());
    clock.advance(SECOND / 2 - NANO);
    until_waiting(&store.node_locks(), 4);
    clock.advance(NANO);
    let first = first.join().unwrap().unwrap();
    until_waiting(&store.node_locks(), 3);
    clock.advance(SECOND / 2);
    until_waiting(&store.node_locks(), 2);
    drop((older, first));
    for waiter in waits_for_later {
        drop(waiter.join().unwrap().unwrap());
    }
    drop(later);
    assert_eq!(store.node_locks().stats().total_revocations, 2);
}

/// A holder without waiters is not revoked, at any time.
#[test]
fn lock_10_holders_of_nodes_without_waiters_are_not_revoked() {
    let (store, clock) = limited();
    let beside = take(&store, "beside", writes("b1"));
    let mut slow = Some(take(&store, "slow", writes("a1")));
    let waiters = [(); 4].map(|()| ask(&store, "a", writes("a1")));
    for (round, waiter) in waiters.into_iter().enumerate() {
        clock.advance(SECOND);
        until_waiting(&store.node_locks(), 3 - round);
        slow = Some(waiter.join().unwrap().unwrap());
    }
    drop((slow, beside));
    let stats = store.node_locks().stats();
    assert_eq!((stats.total_revocations, stats.total_releases), (4, 2));
}

fn of_the_request(limit: Duration) -> AcquireOptions {
    patient().unbound().hold_limit(limit)
}

/// A request that was alone is downgraded to its nodes by the next request.
#[test]
fn lock_10_a_guard_on_nodes_has_the_hold_limit_of_its_request() {
    for others in [false, true] {
        let (store, clock) = limited();
        let beside = others.then(|| take(&store, "beside", writes("b1")));
        let options = of_the_request(SECOND / 10);
        let slow = store
            .node_locks()
            .request("slow", writes("a1"))
            .options(options)
            .wait();
        let mut slow = slow.unwrap();
        // More nodes do not extend the limit, whatever their options.
        clock.advance(SECOND / 20);
        let more = AcquireOptions::new().no_hold_limit();
        slow.request_more(writes("a2"))
            .options(more.clone())
            .wait()
            .unwrap();
        let waiter = ask(&store, "waiter", writes("a1"));
        clock.advance(SECOND / 20 - NANO);
        until_waiting(&store.node_locks(), 1);
        clock.advance(NANO);
        drop(waiter.join().unwrap().unwrap());
        drop(slow);
        drop(beside);
        assert_eq!(store.node_locks().stats().total_revocations, 1);
    }
}

#[test]
fn lock_10_a_transaction_on_nodes_has_the_hold_limit_of_its_request() {
    let (store, clock) = timed();
    let options = of_the_request(SECOND);
    let mut slow = store
        .request_transaction("slow")
        .on(writes("a1"))
        .options(options)
        .wait()
        .unwrap();
    slow.set_text(node("a2"), "locked later").unwrap();
    let waiter = ask(&store, "waiter", writes("a2"));
    clock.advance(SECOND);
    drop(waiter.join().unwrap().unwrap());
    let error = slow.commit().unwrap_err();
    let doclock::CommitError::Revoked { waiter, .. } = &error else {
        panic!("{error}");
    };
    let waiter = waiter.as_ref().map(|waiter| waiter.owner_id.as_str());
    assert_eq!(waiter, Some("waiter"));
}

/// Why the only transaction was revoked, by the statistics.
fn revoked_for(store: &DataStore) -> Option<String> {
    let stats = store.node_locks().stats();
    let [revocation] = &stats.last_revocations[..] else {
        panic!("{:?}", stats.last_revocations);
    };
    let waiter = revocation.waiter.as_ref()?;
    Some(waiter.owner_id.to_string())
}

/// A request for the document comes later, and is first in the queue of the lock.
#[test]
fn lock_10_a_holder_of_nodes_is_revoked_for_the_request_that_waits_longest() {
    let (store, clock) = limited();
    let slow = take(&store, "slow", writes("a1"));
    let waiter = ask(&store, "waiter", writes("a1"));
    clock.advance(SECOND / 10);
    let whole = store.clone();
    let whole = thread::spawn(move || whole.request("whole").options(patient()).wait().map(drop));
    while store.queue_length() != 1 {
        thread::yield_now();
    }
    clock.advance(SECOND);
    drop(waiter.join().unwrap().unwrap());
    whole.join().unwrap().unwrap();
    drop(slow);
    assert_eq!(revoked_for(&store).as_deref(), Some("waiter"));
}

/// It holds no node that the request waits for, but waits ahead of it.
#[test]
fn lock_10_a_holder_that_waits_ahead_of_a_request_is_revoked_for_it() {
    let (store, clock) = timed();
    let endless = take(&store, "endless", writes("a1"));
    let options = of_the_request(SECOND).unbound().no_timeout();
    let locks = store.node_locks();
    let ahead = locks.request("ahead", writes("b1")).options(options);
    let mut ahead = ahead.wait().unwrap();
    let waiting = thread::spawn(move || ahead.extend(writes("a1")));
    until_waiting(&locks, 1);
    let behind = ask(&store, "behind", writes("a1"));
    clock.advance(SECOND);
    let error = waiting.join().unwrap().unwrap_err();
    let LockError::Revoked { waiter, .. } = &error else {
        panic!("{error}");
    };
    let waiter = waiter.as_ref().map(|waiter| waiter.owner_id.as_str());
    assert_eq!(waiter, Some("behind"));
    assert_eq!(revoked_for(&store).as_deref(), Some("behind"));
    drop(endless);
    drop(behind.join().unwrap().unwrap());
}

/// The holder before it has a later limit.
#[test]
fn lock_10_a_waiter_for_nodes_with_a_shorter_limit_is_revoked_in_time() {
    let (store, clock) = limited();
    let beside = take(&store, "beside", writes("b1"));
    let slow = take(&store, "slow", writes("a1"));
    let brief = ask_with(&store, "brief", writes("a1"), of_the_request(SECOND / 10));
    let waiters = [(); 2].map(|()| ask(&store, "waiter", writes("a1")));
    drop(slow);
    let brief = brief.join().unwrap().unwrap();
    clock.advance(SECOND / 10 - NANO);
    until_waiting(&store.node_locks(), 2);
    clock.advance(NANO);
    until_waiting(&store.node_locks(), 1);
    assert_eq!(store.node_locks().stats().total_revocations, 1);
    for waiter in waiters {
        drop(waiter.join().unwrap().unwrap());
    }
    drop((brief, beside));
}

/// A holder that goes ahead of the queue to get more may be due before the keeper looks.
#[test]
fn lock_10_a_holder_that_gets_more_nodes_ahead_of_the_queue_is_revoked_in_time() {
    let (store, clock) = timed();
    let slow = take(&store, "slow", writes("a1"));
    let options = of_the_request(SECOND / 10);
    let brief = store
        .node_locks()
        .request("brief", Scope::new().read("a"))
        .options(options)
        .wait();
    let mut brief = brief.unwrap();
    // It waits for the slow holder alone, which has no limit.
    let waiter = ask(&store, "waiter", Scope::new().read_subtree("a"));
    brief.extend(writes("a")).unwrap();
    clock.advance(SECOND / 10 - NANO);
    assert_eq!(store.node_locks().holders().len(), 2);
    clock.advance(NANO);
    while store.node_locks().holders().len() == 2 {
        std::thread::yield_now();
    }
    let stats = store.node_locks().stats();
    assert_eq!((stats.total_revocations, stats.waiting), (1, 1));
    drop((slow, brief));
    drop(waiter.join().unwrap().unwrap());
}

#[test]
fn lock_10_a_revoked_holder_of_nodes_that_never_returns_is_named_in_the_statistics() {
    for others in [false, true] {
        let (store, clock) = limited();
        let beside = others.then(|| take(&store, "beside", writes("b1")));
        let options = patient().unbound().label("import");
        let stuck = store
            .node_locks()
            .request("ann", writes("a1"))
            .options(options)
            .wait();
        let stuck = stuck.unwrap();
        let waiter = ask(&store, "waiter", writes("a1"));
        clock.advance(SECOND);
        drop(waiter.join().unwrap().unwrap());
        clock.advance(SECOND);
        let stats = store.node_locks().stats();
        let [last] = &stats.last_revocations[..] else {
            panic!("{:?}", stats.last_revocations);
        };
        assert_eq!(last.holder.lock_id, stuck.id());
        assert_eq!(last.holder.owner_id.as_str(), "ann");
        assert_eq!(last.holder.label.as_deref(), Some("import"));
        assert_eq!(last.holder.call_site.file, file!());
        assert_eq!(last.holder.held_for, SECOND);
        assert_eq!((last.hold_limit, last.revoked_for), (SECOND, SECOND));
        let line = format!("revoked       {last}");
        assert!(
            stats.to_string().lines().any(|shown| shown == line),
            "{stats}"
        );
        assert!(store.lock_stats().last_revocations.is_empty());
        drop((stuck, beside));
    }
}
