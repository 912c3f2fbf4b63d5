//! Unit tests of `src/transaction/retry.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};

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
/// for the end. The first attempt is refused, the second fails without a refusal.
fn turns(store: &DataStore) -> Vec<bool> {
    let (mut taken, mut refused) = (Vec::new(), None);
    let done = retry(3, || {
        taken.push(store.retrying().is_locked());
        match taken.len() {
            1 => Err(refused.insert(refusal(store)).clone()),
            2 => Err(refused.clone().unwrap()),
            _ => Ok(()),
        }
    });
    done.unwrap();
    taken.push(store.retrying().is_locked());
    taken
}

#[test]
fn node_locks_04_a_refused_transaction_has_its_turn_until_it_fails_otherwise() {
    assert_eq!(turns(&DataStore::new()), [false, true, false, false]);
}

#[test]
fn node_locks_04_a_refused_transaction_waits_for_its_turn_no_longer_than_a_pause() {
    let store = DataStore::new();
    let of_another = store.retrying().lock("other").unwrap();
    assert_eq!(turns(&store), [true; 4]);
    drop(of_another);
}

#[test]
fn node_locks_04_a_turn_of_an_outer_retry_does_not_delay_an_inner_one() {
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
    assert_eq!(turns(&store), [false, true, false, false]);
}
