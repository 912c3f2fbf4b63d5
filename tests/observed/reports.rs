//! Reports of long holds and long waits.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use doclock::document::EditError;
use doclock::lock::{AcquireOptions, LockError};
use doclock::{TransactionManager, dsl::op};

use crate::watched::Watched;

const SECOND: Duration = Duration::from_secs(1);

fn reporting() -> Watched {
    Watched::with(|options| options.report_holds(SECOND).report_waits(SECOND))
}

#[test]
fn a_long_hold_is_an_event_with_the_holder_and_a_count() {
    let watched = reporting();
    let line = line!() + 1;
    let guard = watched.store.lock("ann").unwrap();
    watched.clock.advance(2 * SECOND);
    drop(guard);
    let [report] = &watched.spans.reports()[..] else {
        panic!("one report");
    };
    assert_eq!((&*report["kind"], &*report["store"]), ("hold", "notes"));
    assert_eq!((&*report["holder"], &*report["hold_ms"]), ("ann", "2000.0"));
    let call_site = &report["holder_call_site"];
    assert!(
        call_site.contains(&format!("reports.rs:{line}:")),
        "{call_site}"
    );
    assert!(
        report["message"].starts_with("long hold: lock-1-"),
        "{report:?}"
    );
    let metrics = &watched.metrics;
    assert_eq!(metrics.value("doclock_long_holds_total"), 1.0);
    assert_eq!(metrics.value("doclock_long_waits_total"), 0.0);
}

#[test]
fn a_long_wait_that_ends_is_an_event_with_the_waiter_and_a_count() {
    let watched = reporting();
    let token = doclock::lock::CancelToken::new();
    watched.while_held(
        || {
            let options = doclock::lock::AcquireOptions::new().cancel_token(&token);
            let cancelled = watched
                .store
                .request("ben")
                .options(options.no_timeout())
                .wait();
            assert!(cancelled.is_err());
        },
        |_| {
            watched.clock.advance(SECOND);
            // The keeper or this thread reports it, whichever comes first.
            token.cancel();
        },
    );
    while watched.metrics.value("doclock_long_waits_total") == 0.0 {
        std::thread::yield_now();
    }
    assert_eq!(watched.metrics.value("doclock_long_waits_total"), 1.0);
}

#[test]
fn a_panic_of_a_subscriber_at_a_report_costs_the_holder_nothing() {
    let watched = reporting();
    watched.spans.on_callback(|name| assert_ne!(name, "report"));
    let guard = watched.store.lock("ann").unwrap();
    watched.clock.advance(SECOND);
    drop(guard);
    assert!(!watched.store.is_locked());
    let report = watched.store.lock_reports().unwrap().try_recv().unwrap();
    assert_eq!(report.holder.unwrap().owner_id.as_str(), "ann");
}

#[test]
fn a_subscriber_can_use_the_store_at_a_report() {
    let watched = reporting();
    let store = watched.store.clone();
    watched.spans.on_callback(move |name| {
        if name == "report" {
            drop(store.lock("subscriber"));
        }
    });
    let guard = watched.store.lock("ann").unwrap();
    watched.clock.advance(SECOND);
    drop(guard);
    assert_eq!(watched.store.lock_stats().total_releases, 2);
}

/// The thread that runs the batches of others notices how long they held the lock.
#[test]
fn feed_04_a_thread_tells_of_a_long_hold_when_it_holds_the_lock_no_more() {
    let watched = reporting();
    let store = watched.store.clone();
    let held = Arc::new(Mutex::new(Vec::new()));
    watched.spans.on_callback({
        let (store, held) = (store.clone(), Arc::clone(&held));
        move |name| {
            if name == "report" {
                let tried = store.try_lock("subscriber");
                let is_held_here = matches!(tried, Err(LockError::Reentrant { .. }));
                held.lock().unwrap().push(is_held_here);
            }
        }
    });
    let clock = watched.clock.clone();
    let takes_long = || {
        let clock = clock.clone();
        op(move |_| {
            clock.advance(2 * SECOND);
            Ok::<(), EditError>(())
        })
    };
    let first = TransactionManager::for_owner(store.clone(), "one");
    // The keeper can notice a hold first, in a thread without a subscriber.
    for _ in 0..20 {
        thread::scope(|scope| {
            let queue = store.clone();
            let waits = op(move |_| {
                while queue.queue_length() < 2 {
                    thread::yield_now();
                }
                Ok::<(), EditError>(())
            });
            for owner in ["two", "three"] {
                let manager = TransactionManager::for_owner(store.clone(), owner);
                let takes_long = takes_long();
                watched.spawn(scope, move || {
                    while manager.store().current_lock().is_none() {
                        thread::yield_now();
                    }
                    let options = AcquireOptions::new().any_thread();
                    manager
                        .transaction([takes_long])
                        .options(options)
                        .commit()
                        .unwrap();
                });
            }
            first.execute([waits]).unwrap();
        });
    }
    let held = held.lock().unwrap();
    assert!(!held.is_empty());
    assert!(!held.contains(&true), "{held:?}");
}
