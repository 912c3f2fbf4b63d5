//! LEASE 3: a conflict names owner and remaining time.

use doclock::{
    NodeId,
    lease::{LeaseTarget, LeaseTargets},
};

use crate::common::id;
use crate::{SECOND, conflict, owners, timed};

#[test]
fn lease_03_a_conflict_names_owner_and_remaining_time() {
    let (store, clock) = timed();
    let lease = store
        .leases()
        .acquire("ann", "teller-2", 5 * SECOND)
        .unwrap();
    clock.advance(SECOND * 8 / 10);
    let holder = conflict(store.leases().acquire("ann", "teller-1", SECOND));
    assert_eq!(holder.target, LeaseTarget::Node(id("ann")));
    assert_eq!(
        (&holder.lease, holder.remaining),
        (&lease.info(), lease.remaining())
    );
    let expected = "node ann is leased by teller-2 for another 4.2s (fencing token 1)";
    assert_eq!(holder.to_string(), expected);
    assert_eq!(store.leases().holder("ann"), Some(holder));
    let json = serde_json::to_value(store.leases().holder("ann")).unwrap();
    assert_eq!(
        (&json["remaining"], &json["lease"]["ownerId"]),
        (&4200.0.into(), &"teller-2".into())
    );
}

#[test]
fn lease_03_a_second_lease_of_the_same_owner_is_refused() {
    let (store, _) = timed();
    let _lease = store.leases().acquire("ann", "teller", SECOND).unwrap();
    let holder = conflict(store.leases().acquire("ann", "teller", 9 * SECOND));
    assert_eq!(holder.lease.owner_id.as_str(), "teller");
    assert_eq!(holder.remaining, SECOND);
}

#[test]
fn lease_03_several_targets_are_leased_all_or_none() {
    let (store, _) = timed();
    let bob = store.leases().acquire("bob", "first", SECOND).unwrap();
    for pair in [["ann", "bob"], ["bob", "ann"]] {
        let holder = conflict(store.leases().acquire(pair, "second", SECOND));
        assert_eq!(holder.target, "bob".into());
    }
    assert!(
        store.leases().holder("ann").is_none(),
        "nothing is half taken"
    );
    bob.release().unwrap();
    let pair = store
        .leases()
        .acquire(["ann", "bob"], "second", SECOND)
        .unwrap();
    assert_eq!(store.leases().list(), [pair.info()], "under one token");
    for account in ["ann", "bob"] {
        assert_eq!(
            conflict(store.leases().acquire(account, "third", SECOND)).lease,
            pair.info()
        );
    }
}

#[test]
fn lease_03_the_document_excludes_every_node_and_every_node_the_document() {
    let (store, clock) = timed();
    let document = || {
        store
            .leases()
            .acquire(LeaseTarget::Document, "importer", SECOND)
    };
    let whole = document().unwrap();
    let expected = "the document is leased by importer for another 1.0s (fencing token 1)";
    assert_eq!(
        conflict(store.leases().acquire("ann", "teller", SECOND)).to_string(),
        expected
    );
    assert_eq!(conflict(document()).to_string(), expected);
    whole.release().unwrap();

    let _short = store.leases().acquire("ann", "teller-1", SECOND).unwrap();
    let _long = store
        .leases()
        .acquire("bob", "teller-2", 3 * SECOND)
        .unwrap();
    let holder = conflict(document());
    assert_eq!(holder.target, "bob".into(), "the one to be waited for");
    assert_eq!(holder.remaining, 3 * SECOND);
    clock.advance(SECOND);
    assert_eq!(conflict(document()).lease.owner_id.as_str(), "teller-2");
    clock.advance(2 * SECOND);
    drop(document().unwrap());
    assert_eq!(owners(&store), ["importer"]);
}

#[test]
fn lease_03_a_lease_covers_its_node_and_no_descendants() {
    let (store, _) = timed();
    let mut transaction = store.begin("setup").unwrap();
    let list = transaction
        .create(doclock::document::NodeSpec::new("list"))
        .unwrap();
    let item = doclock::document::NodeSpec::new("item");
    let item = transaction.insert(item, &list, None).unwrap();
    transaction.commit().unwrap();
    let _list = store.leases().acquire(&list, "ann", SECOND).unwrap();
    let _item = store.leases().acquire(&item, "bob", SECOND).unwrap();
    // A missing node can be leased, too.
    let _none = store.leases().acquire("nowhere", "cem", SECOND).unwrap();
    assert_eq!(
        conflict(store.leases().acquire("nowhere", "dan", SECOND))
            .lease
            .owner_id
            .as_str(),
        "cem"
    );
}

#[test]
fn lease_03_targets_are_a_set() {
    let (store, _) = timed();
    let ids: Vec<NodeId> = vec![id("b"), id("a"), id("b")];
    let targets = LeaseTargets::from(ids.as_slice());
    assert_eq!(targets, ids.clone().into());
    assert_eq!(targets, ids.into_iter().collect());
    assert_eq!(targets.as_slice(), ["a".into(), "b".into()]);
    assert_eq!(
        store
            .leases()
            .acquire(targets.clone(), "ann", SECOND)
            .unwrap()
            .targets(),
        &targets
    );
    let all = [LeaseTarget::Node(id("z")), LeaseTarget::Document];
    assert_eq!(LeaseTargets::from(all).to_string(), "the document, node z");
    let json = serde_json::to_string(&LeaseTarget::Document).unwrap();
    assert_eq!(
        (json.as_str(), serde_json::from_str(&json).unwrap()),
        ("\"document\"", LeaseTarget::Document)
    );
}
