//! What the diagnostics of a store show.

mod blocking;
mod causes;
mod documents;
mod dump;
#[path = "../common/gated.rs"]
mod gated;
mod registered;
mod table;
mod threads;

use std::thread;

use doclock::{DataStore, StoreOptions, lock::WaitingRequest, time::ManualClock};

/// A store on a clock that the test moves.
fn timed_store() -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    (store, clock)
}

/// Returns once exactly this many requests wait, for the lock or for nodes.
fn until_waiting(store: &DataStore, count: usize) {
    while store.queue_length() + store.node_locks().stats().waiting != count {
        thread::yield_now();
    }
}

/// The numbers of the ids that a request waits for.
fn behind(waiter: &WaitingRequest) -> Vec<u64> {
    waiter.blocked_by.iter().map(|id| id.number()).collect()
}
