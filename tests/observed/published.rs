//! The metrics that a store publishes.

use std::time::Duration;

use doclock::lock::AcquireOptions;
use doclock::{DataStore, StoreOptions, TransactionManager};

use crate::recorder::Metrics;
use crate::watched::{Watched, note};

fn publish(watched: &Watched) {
    metrics::with_local_recorder(&watched.metrics, || watched.store.publish_metrics());
}

#[test]
fn the_published_gauges_are_the_state_of_the_store() {
    let watched = Watched::new();
    let events = watched.store.subscribe();
    watched.manager().execute(note("a")).unwrap();
    watched.manager().execute(note("b")).unwrap();
    let value = |name| watched.metrics.value(name);
    publish(&watched);
    assert_eq!(value("doclock_version"), 2.0);
    assert_eq!(value("doclock_subscriber_lag_commits"), 2.0);
    assert_eq!(value("doclock_lock_queue_length"), 0.0);
    assert_eq!(value("doclock_lock_held_seconds"), 0.0);
    while events.try_recv().is_ok() {}
    let request = || watched.store.acquire_lock("waiter").unwrap();
    let waiter = watched.while_held(request, |lock| {
        watched.clock.advance(Duration::from_secs(3));
        publish(&watched);
        watched.store.release_lock(lock).unwrap();
    });
    assert_eq!(value("doclock_lock_queue_length"), 1.0);
    assert_eq!(value("doclock_lock_held_seconds"), 3.0);
    assert_eq!(value("doclock_subscriber_lag_commits"), 0.0);
    watched.store.release_lock(waiter).unwrap();
    let names = watched.metrics.all().into_keys();
    let durable = names.filter(|name| name.contains("durable") || name.contains("journal"));
    assert_eq!(durable.count(), 0, "the store is not durable");
}

#[test]
fn timeouts_and_revocations_of_all_locks_are_counted_over_resets() {
    let watched = Watched::new();
    let value = |name| watched.metrics.value(name);
    let limit = AcquireOptions::new().timeout(Duration::from_secs(1));
    let time_out = || {
        let request = || watched.store.lock_with("ann", limit.clone()).unwrap_err();
        watched.while_held(request, |_| watched.clock.advance(Duration::from_secs(2)));
    };
    time_out();
    publish(&watched);
    time_out();
    publish(&watched);
    publish(&watched);
    assert_eq!(value("doclock_lock_timeouts_total"), 2.0);
    watched.store.reset_lock_stats();
    time_out();
    publish(&watched);
    assert_eq!(value("doclock_lock_timeouts_total"), 3.0);
    watched.store.acquire_lock("slow").unwrap();
    watched.revoke_holder();
    publish(&watched);
    assert_eq!(value("doclock_lock_revocations_total"), 1.0);
}

#[test]
fn stores_of_one_name_add_up() {
    let metrics = Metrics::default();
    let [one, two] = [(), ()].map(|()| {
        let options = StoreOptions::new().name("notes");
        metrics::with_local_recorder(&metrics, || DataStore::with_options(options))
    });
    TransactionManager::new(one).execute(note("n")).unwrap();
    TransactionManager::new(two).execute(note("n")).unwrap();
    assert_eq!(metrics.outcome("committed"), 2);
    assert_eq!(metrics.values("doclock_transaction_wait_seconds").len(), 2);
}
