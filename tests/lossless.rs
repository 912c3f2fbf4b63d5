//! Lossless subscriptions: requests wait until the subscriber has read enough.

mod common;

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use common::{PATIENCE, commit, store};
use crossbeam_channel::RecvTimeoutError;
use doclock::dsl::*;
use doclock::history::UndoError;
use doclock::lock::node::Scope;
use doclock::lock::{AcquireOptions, CancelToken, LockError, SlowRequest};
use doclock::time::ManualClock;
use doclock::transaction::{Hooks, TransactionError};
use doclock::{DataStore, Editor, StoreOptions, TransactionManager, document::NodeSpec};

fn create_one(store: &DataStore) -> u64 {
    commit(store, |on| drop(on.create(NodeSpec::new("item")).unwrap())).version
}

/// A store whose subscriber has not read a commit, with an editor that can undo it.
fn closed() -> (DataStore, doclock::events::Subscription, Editor) {
    let store = store();
    store.set_lock_timeout(PATIENCE);
    let editor = Editor::new(store.clone(), "editor");
    let events = store.subscription().lossless(0).all();
    editor
        .execute(create(NodeSpec::new("item").with_id("a")))
        .unwrap();
    (store, events, editor)
}

fn waiting(store: &DataStore) -> usize {
    store.queue_length()
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

#[test]
fn feed_01_a_lossless_subscriber_receives_every_commit_and_its_unread_ones_are_bounded() {
    const WRITERS: usize = 3;
    const COMMITS: u64 = 300;
    // Less than ten commits.
    const LIMIT: usize = 4_000;
    let store = DataStore::with_options(StoreOptions::new().log_limit(0).lock_timeout(PATIENCE));
    let events = store.subscription().lossless(LIMIT).all();
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| (0..COMMITS).for_each(|_| assert!(create_one(&store) > 0)));
        }
        for version in 1..=COMMITS * WRITERS as u64 {
            let unread = store.version() + 1 - version;
            assert!(unread <= 10 + 2 * WRITERS as u64, "{unread} unread");
            let event = events.recv_timeout(PATIENCE).unwrap();
            assert_eq!((event.commit.version, event.missed), (version, 0));
        }
    });
}

#[test]
fn feed_01_each_lossless_subscriber_closes_the_lock_at_its_own_limit() {
    let store = store();
    let is_closed = || store.try_lock("ann").is_err();
    let large = store.subscription().lossless(1 << 20).all();
    create_one(&store);
    let small = store.subscription().lossless(0).all();
    assert!(!is_closed());
    create_one(&store);
    assert!(is_closed());
    assert_eq!(small.recv().unwrap().commit.version, 2);
    assert!(!is_closed());
    create_one(&store);
    assert!(is_closed());
    drop(small);
    create_one(&store);
    assert!(!is_closed());
    assert_eq!(large.try_iter().count(), 4);
}

#[test]
fn feed_01_a_subscriber_below_its_limit_keeps_no_lock_closed() {
    let probe = store();
    let all = probe.subscribe();
    (0..7).for_each(|_| assert!(create_one(&probe) > 0));
    let unread = probe.diagnostics().log.subscribers[0].unread_bytes;
    drop(all);
    for read in [true, false] {
        let store = store();
        let _large = store.subscription().lossless(unread + unread / 2).all();
        (0..6).for_each(|_| assert!(create_one(&store) > 0));
        let small = store.subscription().lossless(0).all();
        create_one(&store);
        store.try_lock("ann").expect_err("the small one closes it");
        let subscribers = store.diagnostics().log.subscribers;
        let closing = subscribers.iter().filter(|it| it.closes_lock);
        let limits: Vec<_> = closing.map(|it| it.lossless_limit).collect();
        assert_eq!(limits, [Some(0)]);
        if read {
            small.recv().unwrap();
        } else {
            drop(small);
        }
        drop(store.try_lock("ann").unwrap());
        // The large one still closes it beyond its own limit.
        let beyond = || (0..20).any(|_| create_one(&store) > 0 && store.try_lock("ann").is_err());
        assert!(beyond());
    }
}

/// A request that may not wait is refused, whatever it requests the lock for.
#[test]
fn feed_01_every_request_waits_for_a_lossless_subscriber() {
    let (store, events, editor) = closed();
    let no_wait = || AcquireOptions::new().no_wait();
    let manager = TransactionManager::new(store.clone());
    let refused = |what: &str, outcome: Result<(), LockError>| match outcome {
        Err(LockError::WouldBlock { holder, .. }) => {
            assert_eq!(holder.owner_id.as_str(), "lossless subscriber", "{what}");
        }
        other => panic!("{what}: {other:?}"),
    };
    let of_a_transaction = |outcome| match outcome {
        Ok(_) => Ok(()),
        Err(TransactionError::Lock(error)) => Err(error),
        Err(other) => panic!("{other}"),
    };
    refused(
        "lock",
        store.request("ann").options(no_wait()).wait().map(drop),
    );
    refused("try_lock", store.try_lock("ann").map(drop));
    refused(
        "begin",
        store
            .request_transaction("ann")
            .options(no_wait())
            .wait()
            .map(drop),
    );
    let nodes = Scope::new().write("a");
    refused(
        "begin on",
        store
            .request_transaction("ann")
            .on(nodes)
            .options(no_wait())
            .wait()
            .map(drop),
    );
    let batch = manager
        .transaction([create(NodeSpec::new("item"))])
        .options(no_wait())
        .commit();
    refused("execute", of_a_transaction(batch));
    refused(
        "edit",
        of_a_transaction(
            editor
                .transaction(create(NodeSpec::new("item")))
                .options(no_wait())
                .commit(),
        ),
    );
    refused(
        "undo",
        match editor.undo().options(no_wait()).commit() {
            Err(UndoError::Lock(error)) => Err(error),
            other => panic!("{other:?}"),
        },
    );
    assert_eq!(store.version(), 1);
    events.recv().unwrap();
    create_one(&store);
}

#[test]
fn feed_01_a_request_that_waits_for_a_lossless_subscriber_times_out_or_is_cancelled() {
    let (store, events, _) = closed();
    let brief = AcquireOptions::new().timeout(Duration::from_millis(5));
    let error = store
        .request_transaction("ann")
        .options(brief)
        .wait()
        .unwrap_err();
    let LockError::Timeout(evidence) = &error else {
        panic!("{error}")
    };
    assert_eq!(evidence.holder.owner_id.as_str(), "lossless subscriber");
    let token = CancelToken::new();
    thread::scope(|scope| {
        let cancelled = AcquireOptions::new().cancel_token(&token);
        let request = scope.spawn(|| {
            store
                .request_transaction("bob")
                .options(cancelled)
                .wait()
                .map(drop)
        });
        until(|| waiting(&store) == 1);
        token.cancel();
        let outcome = request.join().unwrap();
        assert!(
            matches!(outcome, Err(LockError::Cancelled(_))),
            "{outcome:?}"
        );
    });
    events.recv().unwrap();
    assert_eq!(create_one(&store), 2);
}

#[test]
fn lock_04_requests_that_waited_for_a_lossless_subscriber_are_granted_in_their_order() {
    const REQUESTS: usize = 6;
    let (store, events, _) = closed();
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for nth in 0..REQUESTS {
            let (store, order) = (&store, &order);
            scope.spawn(move || {
                let guard = store.lock(format!("{nth}")).unwrap();
                order.lock().unwrap().push(nth);
                drop(guard);
            });
            until(|| waiting(store) == nth + 1);
        }
        events.recv().unwrap();
    });
    assert_eq!(order.into_inner().unwrap(), Vec::from_iter(0..REQUESTS));
}

#[test]
fn feed_01_a_lossless_subscription_that_is_dropped_lets_all_requests_go_on() {
    let (store, events, _) = closed();
    thread::scope(|scope| {
        let writers = [(), ()].map(|()| scope.spawn(|| create_one(&store)));
        until(|| waiting(&store) == 2);
        drop(events);
        let mut versions = writers.map(|writer| writer.join().unwrap());
        versions.sort_unstable();
        assert_eq!(versions, [2, 3]);
    });
}

/// It would wait for itself, so it must not wait for the subscriber first.
#[test]
fn lock_12_a_holder_that_requests_the_lock_is_refused_at_once_also_beside_a_lossless_subscriber() {
    let (store, events, _) = closed();
    events.recv().unwrap();
    let id = store.acquire_lock("front end").unwrap();
    let manager = TransactionManager::new(store.clone());
    let made = manager.execute_under(id, [create(NodeSpec::new("item"))]);
    assert_eq!(made.unwrap().version, 2);
    // The lock is closed now. The holder goes on.
    let made = manager.execute_under(id, [create(NodeSpec::new("item"))]);
    assert_eq!(made.unwrap().version, 3);
    store.release_lock(id).unwrap();
    assert_eq!(events.try_iter().count(), 2);
    let guard = store.lock("ann").unwrap();
    let mut under = store.begin_under(guard.id()).unwrap();
    under.create(NodeSpec::new("item")).unwrap();
    under.commit().unwrap();
    let again = store.lock("ann");
    assert!(
        matches!(again, Err(LockError::Reentrant { .. })),
        "{again:?}"
    );
}

/// Once a batch that had waited kept its place until its after-hooks had ended, which waited for
/// themselves.
#[test]
fn feed_01_an_after_hook_of_a_batch_that_waited_can_commit() {
    let (store, events, _) = closed();
    let hooks = Hooks::new();
    let log = TransactionManager::new(store.clone());
    hooks.after(move |_| drop(log.execute([create(NodeSpec::new("log"))]).unwrap()));
    let manager = TransactionManager::new(store.clone()).with_hooks(hooks);
    let before = AcquireOptions::new().timeout(PATIENCE);
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let guard = store.request("holder").options(before).wait().unwrap();
            until(|| store.queue_length() == 1);
            drop(guard);
        });
        until(|| waiting(&store) == 1);
        let batch = scope.spawn(|| manager.execute([create(NodeSpec::new("item"))]).unwrap());
        until(|| waiting(&store) == 2);
        for version in 1..=3 {
            let event = events.recv_timeout(PATIENCE).unwrap();
            assert_eq!(event.commit.version, version);
        }
        holder.join().unwrap();
        assert!(batch.join().unwrap().hook_failures.is_empty());
    });
    assert_eq!(store.version(), 3);
}

#[test]
fn lock_14_a_queue_bound_counts_the_requests_that_wait_for_a_lossless_subscriber() {
    let store = DataStore::with_options(StoreOptions::new().queue_bound(1));
    let events = store.subscription().lossless(0).all();
    create_one(&store);
    let no_limit = || AcquireOptions::new().no_timeout();
    thread::scope(|scope| {
        scope.spawn(|| drop(store.request("waits").options(no_limit()).wait().unwrap()));
        until(|| waiting(&store) == 1);
        let refused = store.request("refused").options(no_limit()).wait();
        assert!(
            matches!(refused, Err(LockError::QueueFull { bound: 1, .. })),
            "{refused:?}"
        );
        events.recv().unwrap();
    });
}

#[test]
fn a_wait_for_a_lossless_subscriber_is_reported() {
    let clock = ManualClock::new();
    let second = Duration::from_secs(1);
    let options = StoreOptions::new().clock(clock.clock()).lock_timeout(None);
    let options = options.report_holds(second).report_waits(second);
    let store = DataStore::with_options(options);
    let reports = store.lock_reports().unwrap();
    let line = line!() + 1;
    let events = store.subscription().lossless(0).all();
    create_one(&store);
    thread::scope(|scope| {
        let ann = scope.spawn(|| drop(store.lock("ann").unwrap()));
        until(|| waiting(&store) == 1);
        clock.advance(second);
        let both = [(); 2].map(|()| reports.recv_timeout(PATIENCE).unwrap());
        for report in &both {
            let holder = report.holder.as_ref().unwrap();
            assert_eq!(holder.owner_id.as_str(), "lossless subscriber", "{report}");
            assert_eq!(
                (holder.call_site.file.as_str(), holder.call_site.line),
                (file!(), line)
            );
        }
        let waits = both.iter().filter_map(|report| match &report.slow {
            SlowRequest::Wait { request, .. } => Some(request.owner_id.as_str()),
            _ => None,
        });
        assert!(waits.eq(["ann"]), "{both:?}");
        events.recv().unwrap();
        ann.join().unwrap();
    });
    assert!(reports.try_recv().is_err());
}

#[test]
fn a_subscription_that_outlives_its_store_keeps_its_lock_no_longer() {
    let options = StoreOptions::new().report_waits(PATIENCE);
    let store = DataStore::with_options(options);
    let reports = store.lock_reports().unwrap();
    let events = store.subscription().lossless(0).all();
    create_one(&store);
    drop(store);
    let end = reports.recv_timeout(PATIENCE);
    assert_eq!(end, Err(RecvTimeoutError::Disconnected));
    assert_eq!(events.try_iter().count(), 1);
}
