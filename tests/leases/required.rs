//! LEASE 2: required leases, for all kinds of transactions.

use doclock::dsl::*;
use doclock::{
    CommitError, DataStore, Draft, Editor, Transaction, TransactionManager, View,
    codes::{CodedError, Retry},
    document::NodeSpec,
    lease::LeaseError,
    lock::node::Scope,
    transaction::{OperationError, TransactionError, parse_operations},
};

use crate::common::{commit, id, image, text};
use crate::{SECOND, lost, timed};

fn with_ann(store: &DataStore) {
    commit(store, |on| {
        drop(
            on.create(text_node("account", "10").with_id("ann"))
                .unwrap(),
        )
    });
}

#[track_caller]
fn refused(outcome: Result<doclock::transaction::TransactionResult, CommitError>) {
    assert!(
        matches!(outcome, Err(CommitError::LeaseLost(_))),
        "{outcome:?}"
    );
}

/// All kinds of transactions by hand.
fn begun(store: &DataStore) -> Vec<Box<dyn Fn() -> Transaction + '_>> {
    vec![
        Box::new(|| store.begin("teller").unwrap()),
        Box::new(|| store.begin_on("teller", Scope::new().write("ann")).unwrap()),
        Box::new(|| store.begin_on("teller", Scope::new()).unwrap()),
    ]
}

#[test]
fn lease_02_every_kind_of_transaction_is_refused_when_its_lease_has_ended() {
    let (store, clock) = timed();
    with_ann(&store);
    for (nth, begin) in begun(&store).iter().enumerate() {
        for nodes in [0, 1, 100] {
            let before = image(&store.snapshot());
            let lease = store.leases().acquire("ann", "teller", SECOND).unwrap();
            let mut transaction = begin();
            transaction.require(&lease).unwrap();
            for _ in 0..nodes {
                transaction.create(NodeSpec::new("entry")).unwrap();
            }
            clock.advance(SECOND);
            refused(transaction.commit());
            assert_eq!(image(&store.snapshot()), before);

            let lease = store.leases().acquire("ann", "teller", SECOND).unwrap();
            let mut transaction = begin();
            transaction.require(&lease).unwrap();
            for _ in 0..nodes {
                transaction.create(NodeSpec::new("entry")).unwrap();
            }
            let committed = transaction.commit().unwrap();
            assert_eq!(committed.changed, nodes > 0, "kind {nth}");
            lease.release().unwrap();
        }
    }
    assert!(!store.is_locked() && store.node_locks().holders().is_empty());
}

#[test]
fn lease_02_a_renewal_counts_for_open_transactions() {
    let (store, clock) = timed();
    let mut lease = store.leases().acquire("ann", "teller", SECOND).unwrap();
    let mut transaction = store.begin("teller").unwrap();
    transaction.require(&lease).unwrap();
    transaction.create(NodeSpec::new("entry")).unwrap();
    clock.advance(SECOND / 2);
    lease.renew(SECOND).unwrap();
    clock.advance(SECOND / 2);
    transaction.commit().unwrap();
}

#[test]
fn lease_02_every_required_lease_must_be_valid() {
    let (store, clock) = timed();
    let long = store.leases().acquire("ann", "teller", 9 * SECOND).unwrap();
    for short_first in [false, true] {
        let short = store.leases().acquire("bob", "teller", SECOND).unwrap();
        let order = match short_first {
            false => [&long, &short],
            true => [&short, &long],
        };
        let mut transaction = store.begin("teller").unwrap();
        for lease in order {
            transaction.require(lease).unwrap();
        }
        transaction.create(NodeSpec::new("entry")).unwrap();
        clock.advance(SECOND);
        let Err(CommitError::LeaseLost(lost)) = transaction.commit() else {
            panic!("one has ended");
        };
        assert_eq!(lost.fencing_token, short.fencing_token());
    }
}

#[test]
fn lease_02_requiring_an_ended_lease_fails_at_once_and_adds_no_condition() {
    let (store, clock) = timed();
    let lease = store.leases().acquire("ann", "teller", SECOND).unwrap();
    clock.advance(SECOND);
    let mut transaction = store.begin("teller").unwrap();
    let told = lost(transaction.require(&lease));
    assert_eq!(told.lease, Some(lease.info()));
    let told = lost(transaction.require_token(77.into()));
    assert_eq!((told.fencing_token.get(), &told.lease), (77, &None));
    let expected = "the lease with the fencing token 77 has ended";
    assert_eq!(told.to_string(), expected);
    transaction.create(NodeSpec::new("entry")).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn lease_02_a_lease_of_another_store_is_refused() {
    let (store, _) = timed();
    let (other, _) = timed();
    let _same_number = store.leases().acquire("ann", "teller", SECOND).unwrap();
    let foreign = other.leases().acquire("ann", "teller", SECOND).unwrap();
    let mut transaction = store.begin("teller").unwrap();
    assert_eq!(transaction.require(&foreign), Err(LeaseError::OtherStore));
}

#[test]
fn lease_02_a_rollback_to_a_savepoint_drops_later_lease_conditions() {
    let (store, clock) = timed();
    let before = store.leases().acquire("ann", "teller", 2 * SECOND).unwrap();
    let behind = store.leases().acquire("bob", "teller", SECOND).unwrap();
    let mut transaction = store.begin("teller").unwrap();
    transaction.require(&before).unwrap();
    let savepoint = transaction.savepoint();
    transaction.require(&behind).unwrap();
    transaction.rollback_to(savepoint).unwrap();
    clock.advance(SECOND);
    transaction.commit().unwrap();

    let mut transaction = store.begin("teller").unwrap();
    transaction.require(&before).unwrap();
    let savepoint = transaction.savepoint();
    transaction.rollback_to(savepoint).unwrap();
    clock.advance(SECOND);
    refused(transaction.commit());
}

#[test]
fn lease_02_batches_require_leases_as_operations_and_as_json() {
    let (store, clock) = timed();
    with_ann(&store);
    let editor = Editor::new(store.clone(), "teller");
    let lease = store.leases().acquire("ann", "teller", SECOND).unwrap();
    let script = format!(
        r#"[{{"type": "requireLease", "payload": {{"fencingToken": {}}}}},
            {{"type": "setText", "payload": {{"nodeId": "ann", "text": "9"}}}}]"#,
        lease.fencing_token()
    );
    let list = || vec![require_lease(&lease), set_text("9").on("ann")];
    assert_eq!(parse_operations(&script).unwrap(), list());

    let managers = [
        TransactionManager::new(store.clone()),
        TransactionManager::new(store.clone()).with_node_locks(3),
    ];
    for manager in &managers {
        assert_eq!(
            manager.execute(list()).unwrap().operations[0].name,
            "requireLease"
        );
    }
    let more = (list(), insert_text(0, "1").on("ann"));
    transaction(&editor, more).commit().unwrap();

    // Ended before and during the run of the batch.
    let passes = {
        let clock = clock.clone();
        op(move |_: &mut Draft| -> Result<(), LeaseError> {
            clock.advance(SECOND);
            Ok(())
        })
    };
    let version = store.version();
    lease.release().unwrap();
    for manager in &managers {
        let lease = store.leases().acquire("ann", "teller", SECOND).unwrap();
        let list = (require_lease(&lease), set_text("8").on("ann"));
        let error = manager.execute((list.clone(), passes.clone())).unwrap_err();
        assert!(
            matches!(error, TransactionError::Commit(CommitError::LeaseLost(_))),
            "{error}"
        );
        assert_eq!(error.retry(), Retry::No);
        let error = manager.execute(list).unwrap_err();
        let TransactionError::Operation {
            index: 0,
            name: "requireLease",
            cause,
            ..
        } = error
        else {
            panic!("{error}");
        };
        assert!(
            matches!(cause, OperationError::Lease(LeaseError::Lost(_))),
            "{cause}"
        );
    }
    assert_eq!(
        (store.version(), text(&store.snapshot(), "ann").as_str()),
        (version, "19")
    );

    // An undo needs no lease.
    editor.undo().commit().unwrap();
}

#[test]
fn lease_02_a_batch_that_only_requires_a_lost_lease_is_refused() {
    let (store, _) = timed();
    let manager = TransactionManager::new(store.clone());
    let lease = store.leases().acquire("ann", "teller", SECOND).unwrap();
    assert!(!manager.execute([require_lease(&lease)]).unwrap().changed);
    let token = lease.fencing_token();
    lease.release().unwrap();
    manager.execute([require_lease(token)]).unwrap_err();
}

#[test]
fn lease_02_a_refused_batch_frees_its_key_and_a_repetition_needs_no_lease() {
    let (store, clock) = timed();
    with_ann(&store);
    let manager = TransactionManager::new(store.clone());
    let pay = |token: doclock::FencingToken| {
        let list = [require_lease(token), insert_text(0, "-").on("ann")];
        manager.transaction(list).idempotent("request 1").commit()
    };
    let old = store.leases().acquire("ann", "teller-1", SECOND).unwrap();
    clock.advance(SECOND);
    pay(old.fencing_token()).unwrap_err();
    let new = store.leases().acquire("ann", "teller-2", SECOND).unwrap();
    let first = pay(new.fencing_token()).unwrap();
    clock.advance(SECOND);
    let again = pay(old.fencing_token()).unwrap();
    assert!(again.repeated && !first.repeated);
    assert_eq!(again.version, first.version);
    assert_eq!(text(&store.snapshot(), "ann"), "-10");
    assert!(store.snapshot().contains(id("ann")));
}
