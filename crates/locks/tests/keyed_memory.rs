//! KEYED 1: idle keys take no memory. A separate binary, because all allocations of the process
//! count.

use std::alloc::System;
use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::task::{Context, Waker};
use std::time::Duration;

use doclock_locks::{
    keyed::{KeyedLock, KeyedOptions},
    time::ManualClock,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A table of four buckets has capacity for three keys, and each of the 16 shards has one.
const ROOM: usize = 16 * 3;

/// The currently allocated bytes.
fn bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

#[test]
fn keyed_01_a_million_idle_keys_keep_no_byte() {
    let keys = if cfg!(debug_assertions) {
        100_000
    } else {
        1_000_000
    };
    // The keeper runs when it has ended a wait of a task, and until this lock is gone.
    let kept: KeyedLock<u32> = KeyedLock::new();
    let _turn = kept.reserve(&1).unwrap();
    let brief = kept
        .request_drain("brief")
        .timeout(Duration::from_millis(1));
    assert!(pollster::block_on(brief.into_future()).is_err());
    // With a stopped clock, the metrics do not grow.
    let clock = ManualClock::new();
    let lock: KeyedLock<String> = KeyedLock::with_options(KeyedOptions::new().clock(clock.clock()));
    let touch = |from: u32, to: u32| {
        for key in from..to {
            let task = || ();
            lock.execute_exclusive(key.to_string().as_str(), task)
                .unwrap();
        }
    };
    // The first keys and the first waiters allocate structures that later ones reuse.
    touch(0, 10_000);
    for _ in 0..10_000 {
        let turn = lock.reserve("first").unwrap();
        let behind = lock.reserve("first").unwrap();
        turn.execute(|| ()).unwrap();
        drop(behind);
    }
    let (used, room) = (bytes(), lock.stats().capacity);
    touch(10_000, keys);
    assert_eq!((bytes(), lock.stats().capacity), (used, room));

    // All at once, with a waiter and a join for each.
    let turns: Vec<_> = (0..keys)
        .map(|key| {
            let key = key.to_string();
            let turn = lock.reserve(&key).unwrap();
            (
                lock.current_execution(&key).unwrap(),
                turn,
                lock.reserve(&key).unwrap(),
            )
        })
        .collect();
    assert!(bytes() > used + keys as usize * 100);
    for (joined, turn, behind) in turns {
        turn.execute(|| ()).unwrap();
        drop(behind);
        assert!(joined.join().is_ok());
    }
    assert_eq!((room, lock.stats().capacity), (ROOM, ROOM));
    assert_eq!(bytes(), used);
    touch(0, 10_000);
    assert_eq!(bytes(), used);

    waits_for_all(&lock, 100);
    let used = bytes();
    waits_for_all(&lock, keys as usize / 2);
    assert_eq!(bytes(), used);
}

/// So many tasks wait until no task is left, each beside a task that joined after the wait before
/// it. Every third gives up, the newest first.
fn waits_for_all(lock: &KeyedLock<String>, count: usize) {
    let waker = &mut Context::from_waker(Waker::noop());
    let mut turns = VecDeque::new();
    let mut waiting = Vec::new();
    for nth in 0..count {
        turns.push_back(lock.reserve(&format!("key {}", nth % 100)).unwrap());
        let mut all = Box::pin(lock.request_drain("closing").no_timeout().into_future());
        assert!(all.as_mut().poll(waker).is_pending());
        waiting.push((nth, all));
    }
    let (gone, mut waiting): (Vec<_>, VecDeque<_>) = {
        let parts = waiting
            .into_iter()
            .partition::<Vec<_>, _>(|(nth, _)| nth % 3 == 1);
        (parts.0, parts.1.into())
    };
    gone.into_iter().rev().for_each(drop);
    for nth in 0..count {
        let (first, all) = waiting.front_mut().unwrap();
        if *first < nth + 1 {
            assert!(all.as_mut().poll(waker).is_pending(), "{nth}");
        }
        turns.pop_front().unwrap().execute(|| ()).unwrap();
        while let Some((first, all)) = waiting.front_mut()
            && *first <= nth
        {
            assert!(all.as_mut().poll(waker).is_ready(), "{first} of {nth}");
            waiting.pop_front();
        }
        if waiting.is_empty() {
            break;
        }
    }
    assert!(waiting.is_empty());
}
