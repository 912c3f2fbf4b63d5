//! Subscriptions to what is durable.

use doclock::durable::DurableOptions;
use doclock::events::{Filter, Subscription, TryRecvError};
use doclock::{DataStore, StoreOptions};

use crate::memory::{Failure, Memory};
use crate::waiting::gate;
use crate::{add, later};

fn versions(subscription: &Subscription) -> Vec<u64> {
    let events = subscription.try_iter();
    events.map(|event| event.commit.version).collect()
}

#[test]
fn a_durable_subscription_receives_a_commit_when_it_is_durable() {
    let (store, keeper) = gate(later());
    let all = store.subscribe();
    let durable = store.subscribe().durable();
    let filtered = store.subscribe_to(Filter::Subtree("b".into())).durable();
    let lossless = store.subscribe_lossless(1 << 20).durable();
    add(&store, "a");
    assert_eq!(keeper.begun(), [1]);
    add(&store, "b");
    assert_eq!(versions(&all), [1, 2]);
    for early in [&durable, &filtered, &lossless] {
        assert_eq!(versions(early), [0; 0]);
    }
    keeper.end();
    assert_eq!(keeper.begun(), [2]);
    // The next write begins after the subscribers know of the one before.
    assert_eq!(versions(&durable), [1]);
    assert_eq!(versions(&filtered), [0; 0]);
    assert_eq!(versions(&lossless), [1]);
    keeper.end();
    drop(keeper);
    // They wait for their events.
    assert_eq!(durable.recv().unwrap().commit.version, 2);
    assert_eq!(filtered.recv().unwrap().commit.version, 2);
    assert_eq!(lossless.recv().unwrap().commit.version, 2);
    assert_eq!(durable.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn a_durable_subscription_that_is_too_far_behind_learns_of_durable_commits_only() {
    let options = later().store(StoreOptions::new().log_limit(0));
    let (store, keeper) = gate(options);
    let all = store.subscribe();
    let durable = store.subscribe().durable();
    add(&store, "first");
    assert_eq!(keeper.begun(), [1]);
    for nth in 0..20 {
        add(&store, &format!("{nth}"));
    }
    keeper.end();
    assert_eq!(keeper.begun(), (2..=21).collect::<Vec<_>>());
    // They are read by the journal, so the log can drop them.
    add(&store, "last");
    add(&store, "really last");
    assert!(all.recv().unwrap().missed > 0);
    while let Ok(event) = durable.try_recv() {
        assert_eq!(event.commit.version, 1);
    }
    keeper.end();
    drop(keeper);
    store.close().unwrap();
    let events: Vec<_> = durable.iter().collect();
    assert_eq!(events.last().unwrap().commit.version, 23);
    let missed: u64 = events.iter().map(|event| event.missed).sum();
    assert!(
        (22..=23).contains(&(missed + events.len() as u64)),
        "{events:?}"
    );
}

#[test]
fn a_durable_subscription_ends_with_the_journal_after_its_last_event() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let (closed, all) = (store.subscribe().durable(), store.subscribe());
    add(&store, "a");
    store.close().unwrap();
    assert_eq!(versions(&closed), [1]);
    assert_eq!(closed.try_recv(), Err(TryRecvError::Disconnected));
    assert!(closed.recv().is_err());
    assert_eq!(versions(&all), [1]);
    assert_eq!(all.try_recv(), Err(TryRecvError::Empty));
    assert!(store.subscribe().durable().recv().is_err());
    drop(store);

    let store = memory.open(later());
    let failed = store.subscribe().durable();
    add(&store, "b");
    store.wait_durable(2, None).unwrap();
    memory.fail_at(memory.writes() + 1, Failure::After);
    add(&store, "c");
    assert_eq!(failed.recv().unwrap().commit.version, 2);
    assert!(failed.recv().is_err());
    memory.mend();
    drop(store);

    // The end of the store writes what was accepted.
    let store = memory.open(later());
    let ended = store.subscribe().durable();
    let version = add(&store, "d");
    drop(store);
    assert_eq!(versions(&ended), [version]);
    assert!(ended.recv().is_err());
}

#[test]
fn in_memory_a_durable_subscription_is_as_any_other() {
    let store = DataStore::new();
    let durable = store.subscribe().durable();
    add(&store, "a");
    assert_eq!(durable.recv().unwrap().commit.version, 1);
    drop(store);
    assert!(durable.recv().is_err());
}

#[test]
fn a_durable_subscription_to_a_closed_store_has_ended() {
    let store = Memory::default().open(DurableOptions::new());
    add(&store, "a");
    store.close().unwrap();
    let late = store.subscribe().durable();
    assert_eq!(late.try_recv(), Err(TryRecvError::Disconnected));
    drop(late);
    let again = store.subscribe().durable();
    assert_eq!(again.try_recv(), Err(TryRecvError::Disconnected));
}
