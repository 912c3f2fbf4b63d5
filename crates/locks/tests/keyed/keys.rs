//! KEYED 2: which keys are active.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::*;

#[test]
fn keyed_02_a_key_is_active_from_its_first_request_to_its_last() {
    let lock = Lock::new();
    let keys = |lock: &Lock| {
        let mut keys = lock.active_keys();
        keys.sort();
        assert_eq!(keys.len(), lock.active_keys_count());
        keys
    };
    assert!(!lock.is_active_key("ann") && keys(&lock).is_empty());
    let ann = running(&lock, "ann", "holder");
    let bob = running(&lock, "bob", "holder");
    let next = queued(&lock, "ann", "waiter", plain(), || 2);
    assert!(lock.is_active_key("ann") && lock.is_active_key("bob") && !lock.is_active_key("cid"));
    assert_eq!(keys(&lock), ["ann", "bob"]);
    assert_eq!(bob.end(0), Ok(0));
    assert!(!lock.is_active_key("bob"));
    assert_eq!(keys(&lock), ["ann"]);
    assert_eq!(ann.end(1), Ok(1));
    assert_eq!(next.join().unwrap(), Ok(2));
    assert!(!lock.is_active_key("ann") && keys(&lock).is_empty());
    at_rest(&lock);
}

#[test]
fn keyed_02_a_key_is_idle_after_a_panic_a_timeout_and_a_dropped_reservation() {
    let (lock, clock) = timed();
    let torn = || lock.execute_exclusive("ann", || panic!("torn"));
    assert!(catch_unwind(AssertUnwindSafe(torn)).is_err());
    assert!(!lock.is_active_key("ann"));

    let turn = lock.reserve("ann").unwrap();
    assert!(lock.is_active_key("ann"));
    let late = queued(&lock, "ann", "late", plain().timeout(MS), || 1);
    clock.advance(MS);
    timeout_of(late.join().unwrap());
    assert!(lock.is_active_key("ann"));
    drop(turn);
    assert!(!lock.is_active_key("ann"));
    at_rest(&lock);
}

#[test]
fn keyed_02_the_holder_and_the_queue_of_a_key_are_listed() {
    let (lock, clock) = timed();
    assert_eq!(lock.current("ann"), None);
    assert_eq!(lock.queue_info("ann"), []);
    let holder = running(&lock, "ann", "holder");
    clock.advance(2 * MS);
    let waiter = queued(&lock, "ann", "waiter", plain().label("report"), || 1);
    clock.advance(3 * MS);
    let current = lock.current("ann").unwrap();
    assert_eq!(current.owner_id.as_str(), "holder");
    assert_eq!((current.held_for, current.at_least), (5 * MS, false));
    let [entry] = &lock.queue_info("ann")[..] else {
        panic!("one waits")
    };
    assert_eq!((entry.owner_id.as_str(), entry.position), ("waiter", 1));
    assert_eq!(entry.wait_time, 3 * MS);
    assert!(entry.lock_id > current.lock_id);
    assert_eq!(holder.end(0), Ok(0));
    assert_eq!(waiter.join().unwrap(), Ok(1));
    let stats = lock.stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (2, 2));
    assert_eq!(
        (stats.wait.count, stats.wait.max, stats.wait.p50),
        (2, 3 * MS, Duration::ZERO)
    );
    assert_eq!((stats.hold.count, stats.hold.max), (2, 5 * MS));
    assert!(
        stats.to_string().contains("acquisitions             2"),
        "{stats}"
    );
}

#[test]
fn keyed_02_ids_are_never_given_twice() {
    let lock: KeyedLock<u32, u64> = KeyedLock::new();
    let mut ids: Vec<_> = (0..10_000)
        .map(|nth| {
            let key = nth % 100;
            let task = || lock.current(&key).unwrap().lock_id.number();
            lock.execute_exclusive(&key, task).unwrap()
        })
        .collect();
    for key in 0..100 {
        // Of two ids of one key the later is greater, although the key was idle in between.
        assert!(ids.iter().skip(key).step_by(100).is_sorted_by(|a, b| a < b));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 10_000);
}
