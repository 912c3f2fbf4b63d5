//! Unit tests of `src/transaction/retry.rs` and of the turns in `src/store/nodes/turns.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use super::*;
use crate::dsl::{create, op, text_node};
use crate::lock::{LockError, Scope, blocking};
use crate::time::ManualClock;
use crate::{DataStore, Draft, StoreOptions, TransactionManager};

#[test]
fn pauses_grow_to_a_bound_and_differ() {
    assert_eq!(pause(1, 7), Duration::ZERO);
    let micros = |attempt, random| pause(attempt, random).as_micros();
    assert_eq!((micros(2, 0), micros(3, 0), micros(10, 0)), (25, 50, 6400));
    assert_eq!(micros(u32::MAX, 0), micros(10, 0));
    assert_eq!((micros(3, 50_000), micros(3, 50_001)), (100, 50));
}

fn until_waiting(store: &DataStore) {
    while store.node_locks().stats().waiting == 0 {
        thread::yield_now();
    }
}

/// Has a request of the calling thread refused, because another one shares the node and waits.
fn refusal(store: &DataStore) -> LockError {
    let locks = store.node_locks();
    let [read, write] = [Scope::new().read("a"), Scope::new().write("a")];
    let mut mine = locks.lock("ann", read.clone()).unwrap();
    thread::scope(|scope| {
        let upgraded = scope.spawn(|| locks.lock("bob", read)?.extend(write.clone()));
        until_waiting(store);
        let error = mine.extend(write.clone()).unwrap_err();
        drop(mine);
        upgraded.join().unwrap().unwrap();
        error
    })
}

/// Whether a transaction that requests nodes now, in the calling thread, runs in its turn.
fn runs_in_turn(store: &DataStore) -> bool {
    drop(store.node_locks().lock("ann", Scope::new().write("a")));
    store.a_turn_is_taken()
}

/// Retries a transaction that is refused in its first attempt. Returns what code of the second one
/// returns, which ends it.
fn after_refusal<T>(store: &DataStore, code: impl Fn() -> T) -> T {
    let mut attempts = 0;
    let done: Result<T, LockError> = retry(2, || {
        attempts += 1;
        match attempts {
            1 => Err(refusal(store)),
            _ => Ok(code()),
        }
    });
    done.unwrap()
}

/// Retries a transaction that is not refused.
fn in_retry<T>(code: impl Fn() -> T) -> T {
    retry(1, || Ok::<T, LockError>(code())).unwrap()
}

#[test]
fn node_locks_04_after_a_refusal_transactions_have_turns_until_they_end() {
    let store = DataStore::new();
    assert!(!in_retry(|| runs_in_turn(&store)));
    let in_its_turn = after_refusal(&store, || (store.a_turn_is_taken(), runs_in_turn(&store)));
    assert_eq!(in_its_turn, (false, true));
    assert!(!store.a_turn_is_taken());
    // So have those that were not refused.
    assert!(in_retry(|| runs_in_turn(&store)));
    assert!(!store.a_turn_is_taken());
}

#[test]
fn node_locks_04_turns_end_when_no_transaction_was_refused_for_long() {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    let has_turn_after = |millis| {
        clock.advance(Duration::from_millis(millis));
        in_retry(|| runs_in_turn(&store))
    };
    for _ in 0..2 {
        assert!(after_refusal(&store, || runs_in_turn(&store)));
        assert_eq!([0, 99, 1].map(has_turn_after), [true, true, false]);
    }
}

#[test]
fn node_locks_04_without_retry_there_are_no_turns() {
    let store = DataStore::new();
    refusal(&store);
    assert!(!in_retry(|| runs_in_turn(&store)));
    after_refusal(&store, || ());
    assert!(!runs_in_turn(&store));
}

/// On a busy machine, the wait may be over before it is seen.
#[test]
fn node_locks_04_a_transaction_waits_while_another_has_its_turn() {
    let store = DataStore::new();
    let order = Mutex::new(Vec::new());
    loop {
        order.lock().unwrap().clear();
        let second = AtomicBool::new(false);
        let was_seen = thread::scope(|scope| {
            after_refusal(&store, || {
                assert!(runs_in_turn(&store));
                scope.spawn(|| {
                    in_retry(|| drop(store.node_locks().lock("bob", Scope::new())));
                    order.lock().unwrap().push("second");
                    second.store(true, Ordering::Relaxed);
                });
                while store.waiting_for_turns() == 0 && !second.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                order.lock().unwrap().push("first");
                store.waiting_for_turns() > 0
            })
        });
        if was_seen {
            break;
        }
    }
    assert_eq!(*order.lock().unwrap(), ["first", "second"]);
}

/// Ann is in her turn, or not, and closes a cycle with Bob. Returns who was refused.
fn refused_of_a_cycle(anns_turn: bool) -> [bool; 2] {
    let store = DataStore::new();
    let locks = store.node_locks();
    let (has_one, may_wait) = mpsc::channel();
    let cycle = || {
        let mut ann = locks.lock("ann", Scope::new().write("a")).unwrap();
        assert_eq!(store.a_turn_is_taken(), anns_turn);
        thread::scope(|scope| {
            let bob = scope.spawn(|| {
                let mut bob = locks.lock("bob", Scope::new().write("b")).unwrap();
                has_one.send(()).unwrap();
                let locked = bob.extend(Scope::new().write("a"));
                if let Err(LockError::Deadlock(cycle)) = &locked {
                    let owners = [0, 1].map(|at| cycle.links[at].owner_id.as_str());
                    assert_eq!(owners, ["bob", "ann"]);
                }
                locked.is_err()
            });
            may_wait.recv().unwrap();
            until_waiting(&store);
            let ann_is_refused = ann.extend(Scope::new().write("b")).is_err();
            drop(ann);
            [ann_is_refused, bob.join().unwrap()]
        })
    };
    match anns_turn {
        true => after_refusal(&store, cycle),
        false => cycle(),
    }
}

#[test]
fn node_locks_04_a_transaction_in_its_turn_is_not_refused() {
    assert_eq!(
        [false, true].map(refused_of_a_cycle),
        [[true, false], [false, true]]
    );
}

#[test]
fn node_locks_04_a_transaction_waits_for_its_turn_no_longer_than_a_pause() {
    let store = DataStore::new();
    let (has_turn, taken) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let other = &store;
        scope.spawn(move || {
            after_refusal(other, || {
                assert!(runs_in_turn(other));
                has_turn.send(()).unwrap();
                ended.recv().ok();
            });
        });
        taken.recv().unwrap();
        let quickest = |code: &dyn Fn()| {
            let times = (0..5).map(|_| {
                let begun = Instant::now();
                in_retry(code);
                begun.elapsed()
            });
            times.min().unwrap()
        };
        let locks = store.node_locks();
        let plain = quickest(&|| drop(locks.lock("bob", Scope::new())));
        assert!(plain >= LONGEST_PAUSE, "{plain:?}");
        assert!(plain < Duration::from_secs(4), "{plain:?}");
        let millisecond = Duration::from_millis(1);
        let request = || locks.request("bob", Scope::new()).timeout(millisecond);
        let brief = quickest(&|| drop(request().wait()));
        assert!(brief >= millisecond && brief < LONGEST_PAUSE, "{brief:?}");
        // Never blocks.
        let tried = quickest(&|| drop(locks.try_lock("bob", Scope::new()).unwrap()));
        assert!(tried < LONGEST_PAUSE, "{tried:?}");
        drop(end);
    });
}

#[test]
fn node_locks_04_a_turn_ends_when_an_attempt_fails_for_another_reason() {
    let store = DataStore::new();
    let mut taken = Vec::new();
    let mut refused = None;
    let done: Result<(), LockError> = retry(4, || {
        taken.push(store.a_turn_is_taken());
        match taken.len() {
            1 => Err(refused.insert(refusal(&store)).clone()),
            2 => {
                assert!(runs_in_turn(&store));
                Err(refused.clone().unwrap())
            }
            _ => Ok(()),
        }
    });
    done.unwrap();
    assert_eq!(taken, [false; 3]);
}

#[test]
fn node_locks_04_a_refusal_of_an_inner_retry_is_one_of_the_outer() {
    let store = DataStore::new();
    let mut attempts = 0;
    let done: Result<bool, LockError> = retry(2, || {
        attempts += 1;
        match attempts {
            1 => {
                let refused = retry(1, || Err(refusal(&store)));
                store.end_turns();
                refused
            }
            _ => Ok(runs_in_turn(&store)),
        }
    });
    assert!(done.unwrap());
}

#[test]
fn node_locks_04_a_turn_of_an_inner_retry_ends_with_the_outer() {
    let store = DataStore::new();
    in_retry(|| {
        assert!(after_refusal(&store, || runs_in_turn(&store)));
        assert!(store.a_turn_is_taken());
    });
    assert!(!store.a_turn_is_taken());
}

/// Otherwise the turn of a transaction that panicked would delay all later ones.
#[test]
fn node_locks_04_a_panic_ends_the_turn() {
    let store = DataStore::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        after_refusal(&store, || {
            assert!(runs_in_turn(&store));
            panic!("in its turn")
        })
    }));
    assert!(panicked.is_err());
    assert!(!store.a_turn_is_taken());
    assert!(in_retry(|| runs_in_turn(&store)));
}

#[test]
fn node_locks_04_a_refusal_in_the_turn_of_another_store_is_one_of_its_own() {
    let [store, other] = [(); 2].map(|()| DataStore::new());
    let mut attempts = 0;
    let done: Result<(bool, bool), LockError> = retry(3, || {
        attempts += 1;
        match attempts {
            1 => Err(refusal(&store)),
            2 => {
                assert!(runs_in_turn(&store));
                let refused = refusal(&other);
                other.end_turns();
                Err(refused)
            }
            // It needs the turn of the other store.
            _ => Ok((runs_in_turn(&store), runs_in_turn(&other))),
        }
    });
    assert_eq!(done.unwrap(), (false, true));
}

/// An inner one that fails with another error.
#[test]
fn node_locks_04_an_inner_retry_does_not_end_the_turn_of_the_outer() {
    let store = DataStore::new();
    let conflict = refusal(&store);
    after_refusal(&store, || {
        assert!(runs_in_turn(&store));
        let mut attempts = 0;
        let inner: Result<(), LockError> = retry(2, || {
            attempts += 1;
            assert!(store.a_turn_is_taken());
            match attempts {
                1 => Err(conflict.clone()),
                _ => Ok(()),
            }
        });
        inner.unwrap();
        assert!(store.a_turn_is_taken());
    });
}

/// Its task waits for no turn, so the next attempts would follow at once.
#[test]
fn node_locks_04_an_attempt_that_waited_for_no_turn_is_followed_by_a_pause() {
    let store = DataStore::new();
    let retrying = Retrying::begin();
    refusal(&store);
    assert_eq!(
        [(); 3].map(|()| retrying.needs_no_pause()),
        [true, false, false]
    );
    assert!(runs_in_turn(&store));
    assert!(!retrying.needs_no_pause());
    assert!(!store.a_turn_is_taken());
}

/// A task must not block its thread.
#[test]
fn node_locks_04_a_task_waits_for_no_turn() {
    let store = DataStore::new();
    let request = || store.node_locks().request("ann", Scope::new());
    let in_task = after_refusal(&store, || {
        let _guard = blocking(request().into_future()).unwrap();
        store.a_turn_is_taken()
    });
    assert!(!in_task);
}

#[test]
fn node_locks_04_a_batch_that_is_retried_has_a_turn() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    manager
        .execute([create(text_node("title", "").with_id("b"))])
        .unwrap();
    after_refusal(&store, || ());
    let batch = |attempts| {
        let has_turn = Arc::new(AtomicBool::new(false));
        let (store, seen) = (store.clone(), Arc::clone(&has_turn));
        let edit = op(move |draft: &mut Draft| {
            seen.store(store.a_turn_is_taken(), Ordering::Relaxed);
            draft.set_text("b", "x")
        });
        let on_nodes = manager.clone().with_node_locks(attempts);
        on_nodes.execute([edit]).unwrap();
        has_turn.load(Ordering::Relaxed)
    };
    assert_eq!([1, 2].map(batch), [false, true]);
    assert!(!store.a_turn_is_taken());
}
