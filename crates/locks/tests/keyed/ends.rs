//! KEYED 1: idle keys leave no trace.

use crate::*;

#[test]
fn keyed_01_a_million_keys_touched_leave_nothing() {
    let lock: KeyedLock<u64> = KeyedLock::new();
    for key in 0..1_000_000 {
        lock.execute_exclusive(&key, || ()).unwrap();
    }
    let stats = lock.stats();
    assert_eq!(
        (stats.total_acquisitions, stats.total_releases),
        (1_000_000, 1_000_000)
    );
    assert_eq!((stats.active_keys, stats.queue_length), (0, 0));
    // The smallest possible table, for each shard.
    assert!(stats.capacity <= 64 * 3, "{}", stats.capacity);
}

#[test]
fn keyed_01_a_million_keys_active_at_once_leave_nothing() {
    let keys = if cfg!(debug_assertions) {
        100_000
    } else {
        1_000_000
    };
    let lock: KeyedLock<u64> = KeyedLock::new();
    let turns: Vec<_> = (0..keys).map(|key| lock.reserve(&key).unwrap()).collect();
    let full = lock.stats();
    assert_eq!(full.active_keys as u64, keys);
    assert!(full.capacity >= full.active_keys);
    for (nth, turn) in (0..).zip(turns) {
        match nth % 2 {
            0 => drop(turn),
            _ => turn.execute(|| ()).unwrap(),
        }
        if nth % 10_000 == 0 {
            // It shrinks gradually, not at the end.
            let stats = lock.stats();
            let kept = stats.active_keys.max(64 * 14) * 10;
            assert!(
                stats.capacity <= kept,
                "{} for {}",
                stats.capacity,
                stats.active_keys
            );
        }
    }
    let stats = lock.stats();
    assert_eq!((stats.active_keys, stats.queue_length), (0, 0));
    assert!(stats.capacity <= 64 * 14, "{}", stats.capacity);
}
