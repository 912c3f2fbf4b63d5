//! Races of leases with each other and with commits.

use std::time::Duration;

use doclock::{
    CommitError, DataStore, StoreOptions, View,
    document::NodeSpec,
    lease::{Lease, LeaseError, LeaseTarget},
    time::ManualClock,
};
use loom::thread;

use crate::model::{Actor, Model, Run};

const SECOND: Duration = Duration::from_secs(1);

fn timed() -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock()).lock_timeout(None);
    (DataStore::with_options(options), clock)
}

/// Leases without waiting, unless another owner has it.
fn take(store: &DataStore, owner: &str, target: impl Into<LeaseTarget>) -> Option<Lease> {
    match store.leases().acquire(target.into(), owner, SECOND) {
        Ok(lease) => Some(lease),
        Err(LeaseError::Conflict(_)) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Lets the time of the first lease pass. loom does not see a clock, but it sees the published
/// version, under whose mutex leases read the time: so this happens between any two of their steps.
fn pass(run: &Run, store: &DataStore, clock: ManualClock) -> Actor<()> {
    let store = store.clone();
    run.spawn("mover", move || {
        store.version();
        clock.advance(SECOND);
    })
}

/// Renews the lease, so that it lasts to the end of the model.
fn renews(lease: &mut Lease) -> bool {
    match lease.renew(2 * SECOND) {
        Ok(()) => true,
        Err(LeaseError::Lost(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

/// Creates a node under a lease. Returns whether that was published.
fn write(store: &DataStore, lease: &Lease) -> bool {
    let mut transaction = store.begin("writer").unwrap();
    if transaction.require(lease).is_err() {
        return false;
    }
    transaction.create(NodeSpec::new("entry")).unwrap();
    match transaction.commit() {
        Ok(_) => true,
        Err(CommitError::LeaseLost(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

fn len(store: &DataStore) -> usize {
    store.snapshot().nodes().count()
}

#[test]
fn leases_expiry_against_renewal_and_takeover() {
    let model = Model::new("leases: expiry against renew", None)
        .reaches(["renewed in time"])
        .reaches_by("mover", "taken over")
        .reaches_by("mover", "expired, not taken");
    model.check(|run| {
        let (store, clock) = timed();
        let mut lease = take(&store, "first", "node").unwrap();
        let time = pass(run, &store, clock);
        let other = {
            let store = store.clone();
            thread::spawn(move || take(&store, "third", "node"))
        };
        let renewed = renews(&mut lease);
        time.join();
        let taken = other.join().unwrap();
        let has = store.leases().holder("node").map(|holder| holder.lease);
        run.note(match (renewed, taken) {
            (true, Some(_)) => panic!("two have it"),
            (false, Some(taken)) => {
                assert_eq!(has, Some(taken.info()));
                assert!(taken.fencing_token() > lease.fencing_token());
                "taken over"
            }
            (true, None) => {
                assert_eq!(has, Some(lease.info()));
                "renewed in time"
            }
            (false, None) => {
                assert_eq!(has, None);
                "expired, not taken"
            }
        });
    });
}

#[test]
fn leases_takeover_against_commit() {
    let model = Model::new("leases: takeover against commit", None)
        .reaches(["not taken over"])
        .reaches_by("mover", "committed before")
        .reaches_by("mover", "refused");
    model.check(|run| {
        let (store, clock) = timed();
        let old = take(&store, "old", "node").unwrap();
        let writer = {
            let store = store.clone();
            thread::spawn(move || write(&store, &old))
        };
        let time = pass(run, &store, clock);
        let new = take(&store, "new", "node");
        // The new owner finds everything that the old one will ever have written.
        let found = len(&store);
        time.join();
        let committed = writer.join().unwrap();
        assert_eq!(len(&store), usize::from(committed));
        run.note(match (new, committed) {
            (None, _) => "not taken over",
            (Some(_), committed) => {
                assert_eq!(found, usize::from(committed), "written after the takeover");
                if committed {
                    "committed before"
                } else {
                    "refused"
                }
            }
        });
    });
}

#[test]
fn leases_document_against_nodes() {
    let model = Model::new("leases: document against nodes", None)
        .reaches(["document first"])
        .reaches_by("others", "nodes first");
    model.check(|run| {
        let (store, _clock) = timed();
        let others = ["one", "two"].map(|node| {
            let store = store.clone();
            run.spawn("others", move || take(&store, node, node))
        });
        let whole = take(&store, "whole", LeaseTarget::Document);
        let nodes: Vec<_> = others.into_iter().filter_map(Actor::join).collect();
        let nodes = nodes.iter().flatten().count();
        // The first request is not refused.
        match (whole, nodes) {
            (Some(_), 0) => run.note("document first"),
            (None, 2) => run.note("nodes first"),
            other => panic!("{other:?}"),
        }
    });
}
