//! The guarantees of leases, by number.

#[path = "../common/mod.rs"]
mod common;

mod bank;
mod conflicts;
mod ends;
mod random;
mod required;
mod takeover;

use std::time::Duration;

use doclock::{
    DataStore, StoreOptions,
    lease::{Lease, LeaseError, LeaseHolder, LeaseLost},
    time::ManualClock,
};

const SECOND: Duration = Duration::from_secs(1);

/// A store on a clock that the test moves.
fn timed() -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let options = StoreOptions::new().session(common::SESSION);
    let store = DataStore::with_options(options.clock(clock.clock()));
    (store, clock)
}

#[track_caller]
fn conflict(outcome: Result<Lease, LeaseError>) -> LeaseHolder {
    match outcome {
        Err(LeaseError::Conflict(holder)) => *holder,
        other => panic!("expected a conflict, found {other:?}"),
    }
}

#[track_caller]
fn lost(outcome: Result<(), LeaseError>) -> LeaseLost {
    match outcome {
        Err(LeaseError::Lost(lost)) => *lost,
        other => panic!("expected a lost lease, found {other:?}"),
    }
}

fn owners(store: &DataStore) -> Vec<String> {
    let leases = store.leases().list();
    let owners = leases.iter().map(|lease| lease.owner_id.to_string());
    owners.collect()
}
