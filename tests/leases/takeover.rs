//! LEASE 2: takeover after expiry, with a higher token; later writes of the old owner fail.

use doclock::dsl::*;
use doclock::{CommitError, View, document::NodeSpec, lease::LeaseTarget};

use crate::common::{commit, id, text};
use crate::{SECOND, lost, timed};

#[test]
fn lease_02_a_lease_after_an_expiry_has_a_higher_token() {
    let (store, clock) = timed();
    let mut old = store.leases().acquire("ann", "teller-1", SECOND).unwrap();
    clock.advance(SECOND);
    let new = store
        .leases()
        .acquire("ann", "teller-2", 5 * SECOND)
        .unwrap();
    assert!(new.fencing_token() > old.fencing_token());
    let told = lost(old.renew(SECOND));
    assert_eq!(
        told.holder.as_ref().map(|holder| &holder.lease),
        Some(&new.info())
    );
    assert_eq!(
        told.to_string(),
        "the lease of teller-1 on node ann (fencing token 1) has ended; \
         now node ann is leased by teller-2 for another 5.0s (fencing token 2)"
    );
    lost(old.release());
    assert_eq!(new.remaining(), 5 * SECOND, "no other owner can end it");
}

#[test]
fn lease_02_no_fencing_token_is_used_twice() {
    let (store, clock) = timed();
    let mut last = 0;
    for nth in 0..20 {
        let lease = match nth % 4 {
            0 => store.leases().acquire(LeaseTarget::Document, "a", SECOND),
            1 => store.leases().acquire("one", "b", SECOND),
            2 => store.leases().acquire(["one", "two"], "c", SECOND),
            _ => store.leases().acquire(format!("n{nth}"), "d", SECOND),
        };
        let lease = lease.unwrap();
        assert!(lease.fencing_token().get() > last);
        last = lease.fencing_token().get();
        match nth % 3 {
            0 => lease.release().unwrap(),
            _ => clock.advance(SECOND),
        }
    }
}

#[test]
fn lease_02_the_writes_of_the_old_owner_are_refused() {
    let (store, clock) = timed();
    commit(&store, |on| {
        drop(
            on.create(text_node("account", "10").with_id("ann"))
                .unwrap(),
        )
    });
    let old = store.leases().acquire("ann", "teller-1", SECOND).unwrap();
    let mut late = store.begin("teller-1").unwrap();
    late.require(&old).unwrap();
    late.set_text(id("ann"), "9").unwrap();

    clock.advance(SECOND);
    let new = store.leases().acquire("ann", "teller-2", SECOND).unwrap();
    let Err(CommitError::LeaseLost(told)) = late.commit() else {
        panic!("two owners have written");
    };
    assert_eq!(told.lease.unwrap(), old.info());
    assert_eq!(told.holder.unwrap().lease, new.info());
    assert_eq!(
        (store.version(), text(&store.snapshot(), "ann").as_str()),
        (1, "10")
    );

    let mut transaction = store.begin("teller-2").unwrap();
    transaction.require(&new).unwrap();
    transaction.set_text(id("ann"), "8").unwrap();
    transaction.commit().unwrap();
    assert_eq!(text(&store.snapshot(), "ann"), "8");
}

#[test]
fn lease_02_taking_over_one_target_of_an_expired_lease_ends_all_of_it() {
    let (store, clock) = timed();
    let mut old = store
        .leases()
        .acquire(["ann", "bob"], "teller-1", SECOND)
        .unwrap();
    // A valid lease, so the expired one is not removed with all others.
    let _other = store.leases().acquire("cem", "other", 9 * SECOND).unwrap();
    clock.advance(SECOND);
    let new = store.leases().acquire("bob", "teller-2", SECOND).unwrap();
    let told = lost(old.renew(SECOND));
    assert_eq!(told.holder.unwrap().lease, new.info());
    assert!(store.leases().holder("ann").is_none());
    assert_eq!(store.leases().list().len(), 2);
}

#[test]
fn lease_02_the_document_is_taken_over_from_nodes_and_nodes_from_the_document() {
    let (store, clock) = timed();
    let _ann = store.leases().acquire("ann", "teller", SECOND).unwrap();
    let _bob = store.leases().acquire("bob", "teller", SECOND).unwrap();
    clock.advance(SECOND);
    let document = store
        .leases()
        .acquire(LeaseTarget::Document, "importer", SECOND)
        .unwrap();
    assert_eq!(store.leases().list(), [document.info()]);
    clock.advance(SECOND);
    let node = store.leases().acquire("ann", "teller", SECOND).unwrap();
    assert_eq!(store.leases().list(), [node.info()]);
    assert!(store.leases().holder("bob").is_none());
}

#[test]
fn lease_02_a_transaction_without_a_lease_is_not_held_up() {
    let (store, _) = timed();
    let _lease = store
        .leases()
        .acquire(LeaseTarget::Document, "teller", SECOND)
        .unwrap();
    commit(&store, |on| {
        drop(on.create(NodeSpec::new("note").with_id("n")).unwrap())
    });
    assert!(store.snapshot().contains(id("n")));
}
