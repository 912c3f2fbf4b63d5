//! The memory of keys that are no longer in use. A separate binary, because all allocations of the
//! process count.

use std::alloc::System;

use doclock_locks::limiter::{InFlightLimiter, LimiterOptions};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The currently allocated bytes.
fn bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

#[test]
fn a_burst_of_keys_gives_its_memory_back() {
    let options = LimiterOptions::new(1).limit(0, 1);
    let limiter = InFlightLimiter::with_options(options);
    drop(limiter.acquire(1).unwrap());
    let used = bytes();
    let permits: Vec<_> = (1..=10_000)
        .map(|key| limiter.acquire(key).unwrap())
        .collect();
    assert!(bytes() > used + 100 * permits.len());
    drop(permits);
    // The table keeps room for some keys.
    assert!(bytes() < used + 4096, "{} and {used} bytes", bytes());
}
