//! The guarantees of the document lock, by number.

mod ends;
mod forms;
mod grants;
mod hold_limits;
mod metrics;
mod reports;
mod revocations;
mod revoked;
mod timelines;
mod waits;

use std::thread;

use doclock::{
    DataStore, LockId, StoreOptions,
    lock::{AcquireOptions, LockError, LockGuard, ReleaseError, ReleaseOutcome, TimeoutEvidence},
    time::ManualClock,
};

/// A store on a clock that the test moves.
fn timed_store() -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    (store, clock)
}

/// Returns once exactly this many requests wait.
fn until_waiting(store: &DataStore, count: usize) {
    while store.queue_length() != count {
        thread::yield_now();
    }
}

/// Whether the release of a grant learns that the grant was revoked.
fn is_revoked(id: LockId, released: Result<ReleaseOutcome, ReleaseError>) -> bool {
    matches!(released, Err(ReleaseError::Revoked { id: of, .. }) if of == id)
}

fn patient() -> AcquireOptions {
    AcquireOptions::new().no_timeout()
}

fn timeout_of(result: Result<LockGuard, LockError>) -> TimeoutEvidence {
    match result {
        Err(LockError::Timeout(evidence)) => *evidence,
        other => panic!("expected a timeout, found {other:?}"),
    }
}
