//! Unit tests of `src/transaction/retry.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::*;
use crate::DataStore;
use crate::lock::Scope;

#[test]
fn pauses_grow_to_a_bound_and_differ() {
    assert_eq!(pause(1, 7), Duration::ZERO);
    let micros = |attempt, random| pause(attempt, random).as_micros();
    assert_eq!((micros(2, 0), micros(3, 0), micros(10, 0)), (25, 50, 6400));
    assert_eq!(micros(u32::MAX, 0), micros(10, 0));
    assert_eq!((micros(3, 50_000), micros(3, 50_001)), (100, 50));
}

/// Has a request of the calling thread refused, because another one shares the node and waits.
fn refusal(store: &DataStore) -> LockError {
    let locks = store.node_locks();
    let [read, write] = [Scope::new().read("a"), Scope::new().write("a")];
    let mut mine = locks.lock("ann", read.clone()).unwrap();
    thread::scope(|scope| {
        let upgraded = scope.spawn(|| locks.lock("bob", read)?.extend(write.clone()));
        while locks.stats().waiting == 0 {
            thread::yield_now();
        }
        let error = mine.extend(write.clone()).unwrap_err();
        drop(mine);
        upgraded.join().unwrap().unwrap();
        error
    })
}

/// Returns for each attempt of a transaction whether a turn was taken when it began, and once more
/// for the end. The first attempts are refused, the next one fails without a refusal.
fn turns(store: &DataStore, refusals: usize) -> Vec<bool> {
    let (mut taken, mut refused) = (Vec::new(), None);
    let done = retry(2 + refusals as u32, || {
        taken.push(store.retrying().is_locked());
        match taken.len() {
            attempt if attempt <= refusals => Err(refused.insert(refusal(store)).clone()),
            attempt if attempt == refusals + 1 => Err(refused.clone().unwrap()),
            _ => Ok(()),
        }
    });
    done.unwrap();
    taken.push(store.retrying().is_locked());
    taken
}

#[test]
fn node_locks_04_a_refused_transaction_has_its_turn_until_it_fails_otherwise() {
    assert_eq!(turns(&DataStore::new(), 1), [false, true, false, false]);
    assert_eq!(
        turns(&DataStore::new(), 2),
        [false, true, true, false, false]
    );
}

#[test]
fn node_locks_04_a_refused_transaction_waits_for_its_turn_no_longer_than_a_pause() {
    let store = DataStore::new();
    // By its id, the lock is not bound to this thread, which would not wait for itself.
    store.retrying().acquire_lock("other").unwrap();
    let begun = Instant::now();
    assert_eq!(turns(&store, 1), [true; 4]);
    let waited = begun.elapsed();
    assert!(waited >= LONGEST_PAUSE, "{waited:?}");
    assert!(waited < Duration::from_secs(4), "{waited:?}");
}

#[test]
fn node_locks_04_a_refusal_of_an_inner_retry_is_one_of_the_outer() {
    let store = DataStore::new();
    let mut attempts = 0;
    let done: Result<(), LockError> = retry(2, || {
        attempts += 1;
        match attempts {
            1 => retry(1, || Err(refusal(&store))),
            _ => {
                assert!(store.retrying().is_locked());
                Ok(())
            }
        }
    });
    done.unwrap();
}

#[test]
fn node_locks_04_an_inner_retry_runs_in_the_turn_of_the_outer_one() {
    let store = DataStore::new();
    let mut attempts = 0;
    let done: Result<(), LockError> = retry(2, || {
        attempts += 1;
        match attempts {
            1 => Err(refusal(&store)),
            _ => {
                assert!(store.retrying().is_locked());
                let mut inner = 0;
                retry(2, || {
                    inner += 1;
                    assert!(store.retrying().is_locked());
                    if inner == 1 {
                        Err(refusal(&store))
                    } else {
                        Ok(())
                    }
                })
            }
        }
    });
    done.unwrap();
    assert!(!store.retrying().is_locked());
}

/// Otherwise the turn of a transaction that panicked would delay all later ones.
#[test]
fn node_locks_04_a_panic_ends_the_turn() {
    let store = DataStore::new();
    let mut attempts = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        retry(2, || -> Result<(), LockError> {
            attempts += 1;
            match attempts {
                1 => Err(refusal(&store)),
                _ => panic!("in its turn"),
            }
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(turns(&store, 1), [false, true, false, false]);
}
