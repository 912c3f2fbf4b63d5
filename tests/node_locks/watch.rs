//! Which waiters watch the hold limit when they wait for different holders (LOCK 10).

use std::time::Duration;

use doclock::{
    DataStore, StoreOptions,
    lock::{AcquireOptions, CancelToken, LockError, node::Scope},
    time::ManualClock,
};

use super::{ask, ask_with, patient, take, timed_with, until_waiting};

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

fn limited() -> (DataStore, ManualClock) {
    timed_with(StoreOptions::new().hold_limit(SECOND))
}

fn writes(node: &'static str) -> Scope {
    Scope::new().write(node)
}

#[test]
fn lock_10_the_watch_over_a_node_passes_on_when_those_on_watch_leave() {
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

/// The waiters on watch also check the holders of other waiters in time.
#[test]
fn lock_10_whoever_waits_for_an_older_holder_is_not_kept_waiting_by_a_later_watch() {
    let (store, clock) = limited();
    let older = take(&store, "older", writes("a1"));
    clock.advance(SECOND / 2);
    let later = take(&store, "later", writes("b1"));
    // Enough to be on watch for the later holder.
    let waits_for_later = [(); 3].map(|()| ask(&store, "b", writes("b1")));
    let token = CancelToken::new();
    let leaving = ask_with(
        &store,
        "leaving",
        writes("a1"),
        patient().cancel_token(&token),
    );
    let first = ask(&store, "first", writes("a1"));
    // The one that watches the older holder leaves, and the remaining ones check too late.
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

/// A holder without waiters is not revoked, for any number of watchers and any time.
#[test]
fn lock_10_a_watch_leaves_holders_alone_for_whom_nobody_waits() {
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
