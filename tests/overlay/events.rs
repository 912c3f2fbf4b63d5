//! 12: events.

use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_channel::RecvTimeoutError;
use doclock::dsl::*;
use doclock::{
    DataStore, TransactionManager,
    document::{Change, NodeSpec},
    events::{CommitEvent, Subscription},
    transaction::{Operation, TransactionResult},
};
use proptest::prelude::*;

use crate::common::{
    Action, PATIENCE, RefDoc, cases, commit, image, possible, steps, store, store_with_log,
};
use crate::paragraph;

/// Runs a test that would never end if the tested code were broken.
fn within_patience(test: impl FnOnce() + Send + 'static) {
    let (done, end) = crossbeam_channel::bounded(1);
    let thread = thread::spawn(move || {
        test();
        // The receiver is gone if this took too long, which is then the error.
        let _ = done.send(());
    });
    if let Err(RecvTimeoutError::Timeout) = end.recv_timeout(PATIENCE) {
        panic!("it does not end");
    }
    if let Err(payload) = thread.join() {
        resume_unwind(payload);
    }
}

fn received(events: &Subscription) -> Vec<CommitEvent> {
    events.try_iter().collect()
}

#[test]
fn overlay_12_an_event_has_version_owner_transaction_operations_and_changes() {
    let store = store();
    let events = store.subscribe();
    let manager = TransactionManager::for_owner(store.clone(), "ann");
    let result = manager
        .execute([
            create(paragraph("a")),
            control("a", [insert_text(0, "x"), set_text("y")]),
        ])
        .unwrap();
    let mut transaction = store.begin("bob").unwrap();
    let transaction_id = transaction.id();
    transaction.set_text("a", "z").unwrap();
    let committed = transaction.commit().unwrap();
    let lock = store.acquire_lock("front end").unwrap();
    let held = store.current_lock().unwrap();
    let under = manager
        .execute_under(lock, [set_text("1").on("a")])
        .unwrap();
    manager
        .execute_under(lock, [set_text("2").on("a")])
        .unwrap();
    store.release_lock(lock).unwrap();

    let [first, second, third, fourth] = &received(&events)[..] else {
        panic!()
    };
    assert!(
        [first, second, third, fourth]
            .iter()
            .all(|event| event.missed == 0)
    );
    let (first, second) = (&first.commit, &second.commit);
    assert_eq!((first.version, first.owner.as_str()), (1, "ann"));
    assert_eq!(first.transaction_id, result.transaction_id);
    assert_eq!(first.operations, result.operations);
    let names: Vec<_> = first
        .operations
        .iter()
        .map(|executed| executed.name.as_str())
        .collect();
    assert_eq!(names, ["create", "insertText", "setText"]);
    let kinds: Vec<_> = first
        .changes
        .iter()
        .map(|change| {
            serde_json::to_value(change).unwrap()["type"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(kinds, ["insertSubtree", "spliceText", "spliceText"]);
    assert_eq!((second.version, second.owner.as_str()), (2, "bob"));
    assert_eq!(second.transaction_id, transaction_id);
    assert_eq!(committed.transaction_id, transaction_id);
    assert_eq!(second.changes, committed.changes);
    assert!(
        second.operations.is_empty(),
        "it was not a list of operations"
    );
    assert!(first.fencing_token < second.fencing_token);
    let (third, fourth) = (&third.commit, &fourth.commit);
    assert_eq!(
        third.owner.as_str(),
        "front end",
        "the owner is who holds the lock"
    );
    assert_eq!(third.transaction_id, under.transaction_id);
    assert_eq!(
        (third.fencing_token, fourth.fencing_token),
        (held.fencing_token, held.fencing_token)
    );
}

proptest! {
    #![proptest_config(cases(60))]

    /// As if a log of the commits were replayed elsewhere.
    #[test]
    fn overlay_12_events_replayed_from_json_give_the_same_document(
        transactions in prop::collection::vec(steps(1..12), 1..6),
    ) {
        let store = store();
        let events = store.subscribe();
        let mut model = RefDoc::default();
        for steps in transactions {
            let actions = possible(&steps, &model);
            let operations: Vec<Operation> = actions.iter().map(Action::operation).collect();
            TransactionManager::new(store.clone()).execute(operations).unwrap();
            actions.iter().for_each(|action| model.apply(action).unwrap());
        }
        let copy = DataStore::new();
        for event in received(&events) {
            let line = serde_json::to_string(&*event.commit).unwrap();
            let read: TransactionResult = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&read, &*event.commit);
            let version = commit(&copy, |transaction| {
                for change in &read.changes {
                    transaction.apply(change.clone()).unwrap();
                }
            }).version;
            prop_assert_eq!(version, event.commit.version);
        }
        prop_assert_eq!(&copy.snapshot(), &store.snapshot());
        prop_assert_eq!(image(&copy.snapshot()), image(&store.snapshot()));
    }
}

#[test]
fn overlay_12_events_of_many_threads_come_after_the_fact_and_in_commit_order() {
    const WRITERS: usize = 4;
    const COMMITS: usize = 100;
    let store = store();
    store.set_lock_timeout(PATIENCE);
    let events = store.subscribe();
    let start = Barrier::new(WRITERS);
    let (heard, mut told) = thread::scope(|scope| {
        let listen = || {
            let hear = |_| {
                let event = events.recv_timeout(PATIENCE).unwrap();
                let version = event.commit.version;
                assert!(store.version() >= version, "told before the fact");
                event
            };
            (0..WRITERS * COMMITS).map(hear).collect::<Vec<_>>()
        };
        let listener = scope.spawn(listen);
        let write = |owner: String| {
            start.wait();
            let manager = TransactionManager::for_owner(store.clone(), owner.as_str());
            let execute = |_| {
                let result = manager.execute([create(NodeSpec::new("item"))]).unwrap();
                (
                    result.version,
                    result.transaction_id,
                    owner.clone(),
                    result.operations,
                )
            };
            (0..COMMITS).map(execute).collect::<Vec<_>>()
        };
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| scope.spawn(move || write(format!("writer {n}"))))
            .collect();
        let told: Vec<_> = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect();
        (listener.join().unwrap(), told)
    });
    told.sort_by_key(|(version, ..)| *version);
    assert_eq!(heard.len(), told.len());
    let mut token = 0;
    for (at, (event, told)) in heard.iter().zip(told).enumerate() {
        let commit = &event.commit;
        assert_eq!((event.missed, commit.version), (0, at as u64 + 1));
        assert!(
            commit.fencing_token.get() > token,
            "the later holder has the greater token"
        );
        token = commit.fencing_token.get();
        let (version, transaction_id, owner, operations) = told;
        assert_eq!(commit.version, version);
        assert_eq!(commit.transaction_id, transaction_id);
        assert_eq!(commit.owner.as_str(), owner);
        assert_eq!(commit.operations, operations);
        let created = &operations[0].created[0];
        let [Change::InsertSubtree { at: None, nodes }] = &commit.changes[..] else {
            panic!()
        };
        assert_eq!(nodes[0].id(), created);
    }
}

#[test]
fn overlay_12_a_slow_subscriber_gets_a_missed_count_and_delays_no_other() {
    within_patience(|| {
        let store = store_with_log(0);
        let [slow, quick] = [(), ()].map(|()| store.subscribe());
        let versions = |events: &Subscription| -> Vec<(u64, u64)> {
            let events = events.try_iter();
            events
                .map(|event| (event.commit.version, event.missed))
                .collect()
        };
        let commits = |range: RangeInclusive<u64>| {
            for version in range {
                let made = commit(&store, |on| drop(on.create(NodeSpec::new("item")).unwrap()));
                assert_eq!(made.version, version);
                assert_eq!(versions(&quick), [(version, 0)], "another misses nothing");
            }
        };
        commits(1..=10);
        assert_eq!(versions(&slow), [(10, 9)], "the newest one is always there");
        commits(11..=14);
        assert_eq!(versions(&slow), [(14, 3)], "a gap is told once");
        commits(15..=15);
        assert_eq!(versions(&slow), [(15, 0)]);
    });
}

#[test]
fn overlay_12_every_commit_is_received_or_counted_as_missed() {
    const WRITERS: u64 = 2;
    const COMMITS: u64 = 500;
    let store = store_with_log(2_000);
    store.set_lock_timeout(PATIENCE);
    let events = store.subscribe();
    let done = AtomicBool::new(false);
    let (received, missed) = thread::scope(|scope| {
        let listener = scope.spawn(|| {
            let (mut received, mut missed, mut last) = (0, 0, 0);
            loop {
                let over = done.load(Ordering::Acquire);
                for event in events.try_iter() {
                    received += 1;
                    missed += event.missed;
                    last += event.missed + 1;
                    assert_eq!(event.commit.version, last, "the count leads to the version");
                }
                if over {
                    return (received, missed);
                }
                thread::yield_now();
            }
        });
        let write = || {
            for _ in 0..COMMITS {
                commit(&store, |transaction| {
                    transaction.create(NodeSpec::new("item")).unwrap();
                });
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        written.into_iter().for_each(|outcome| outcome.unwrap());
        listener.join().unwrap()
    });
    assert_eq!(received + missed, WRITERS * COMMITS);
}

#[test]
fn overlay_12_a_subscription_ends_with_the_store_and_a_dropped_one_costs_nothing() {
    let store = store();
    let create = |store: &DataStore| {
        commit(store, |transaction| {
            transaction.create(NodeSpec::new("item")).unwrap();
        })
    };
    drop(store.subscribe());
    let events = store.subscribe();
    create(&store);
    create(&store);
    drop(store);
    let versions: Vec<u64> = events.iter().map(|event| event.commit.version).collect();
    assert_eq!(
        versions,
        [1, 2],
        "the rest is received, then the channel ends"
    );
}

#[test]
fn overlay_12_a_subscriber_may_begin_transactions_of_its_own() {
    let store = store();
    store.set_lock_timeout(PATIENCE);
    let events = store.subscribe();
    thread::scope(|scope| {
        scope.spawn(|| {
            let event = events.recv_timeout(PATIENCE).unwrap();
            let answer = paragraph("answer").with_text(event.commit.version.to_string());
            commit(&store, |transaction| {
                drop(transaction.create(answer).unwrap())
            });
        });
        commit(&store, |transaction| {
            drop(transaction.create(paragraph("question")).unwrap())
        });
    });
    assert_eq!(crate::common::text(&store.snapshot(), "answer"), "1");
}
