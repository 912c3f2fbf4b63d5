//! Subscriptions to what is durable.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use doclock::codes::CodedError;
use doclock::durable::DurableOptions;
use doclock::events::{
    CommitEvent, Filter, MissingCommits, RecvError, RecvTimeoutError, Stream, Subscription,
    TryRecvError,
};
use doclock::lock::AcquireOptions;
use doclock::{DataStore, StoreOptions, TransactionManager, dsl::*};

use crate::memory::{Failure, Memory};
use crate::waiting::gate;
use crate::{Folder, add, later};

fn versions(subscription: &Subscription) -> Vec<u64> {
    let events = subscription.try_iter();
    events.map(|event| event.commit.version).collect()
}

#[test]
fn a_durable_subscription_receives_a_commit_when_it_is_durable() {
    let (store, keeper) = gate(later());
    let all = store.subscribe();
    let durable = store.subscription().durable().all();
    let filtered = store
        .subscription()
        .durable()
        .matching(Filter::Subtree("b".into()));
    let lossless = store.subscription().durable().lossless(1 << 20).all();
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
    let durable = store.subscription().durable().all();
    add(&store, "first");
    assert_eq!(keeper.begun(), [1]);
    for nth in 0..20 {
        add(&store, &format!("{nth}"));
    }
    keeper.end();
    assert_eq!(keeper.begun(), (2..=21).collect::<Vec<_>>());
    // The log keeps them until they are durable.
    add(&store, "22");
    let early: Vec<_> = durable.try_iter().map(|it| it.commit.version).collect();
    assert!(early.iter().all(|version| *version == 1), "{early:?}");
    keeper.end();
    assert_eq!(keeper.begun(), [22]);
    // The log drops them.
    add(&store, "23");
    add(&store, "24");
    assert!(all.recv().unwrap().missed > 0);
    let received: Vec<_> = durable.try_iter().collect();
    assert!(received.iter().all(|event| event.commit.version <= 21));
    keeper.end();
    drop(keeper);
    store.close().unwrap();
    let events: Vec<_> = received.into_iter().chain(durable.iter()).collect();
    assert_eq!(events.last().unwrap().commit.version, 24);
    let missed: u64 = events.iter().map(|event| event.missed).sum();
    assert!(missed > 0);
    let all = missed + (early.len() + events.len()) as u64;
    assert_eq!(all, 24, "{events:?}");
}

/// Commits that are published before the subscription and durable after it were in neither.
#[test]
fn feed_01_a_feed_from_the_durable_document_has_each_later_commit_once() {
    let options = later().store(StoreOptions::new().log_limit(0));
    let (store, keeper) = gate(options);
    add(&store, "1");
    assert_eq!(keeper.begun(), [1]);
    for nth in 2..=20 {
        add(&store, &nth.to_string());
    }
    // One commit is being written, the others wait for the journal.
    let document = store.durable_snapshot().unwrap();
    assert_eq!(document.version(), 0);
    let feed = store.subscription().durable().after(0).unwrap();
    assert_eq!(versions(&feed), [0; 0]);
    keeper.end();
    assert_eq!(keeper.begun(), (2..=20).collect::<Vec<_>>());
    // The next write begins after the subscribers know of the one before.
    assert_eq!(versions(&feed), [1]);
    let halfway = store.durable_snapshot().unwrap().version();
    let later = store.subscription().durable().after(halfway).unwrap();
    keeper.end();
    drop(keeper);
    store.close().unwrap();
    assert!(versions(&feed).into_iter().eq(2..=20));
    assert!(versions(&later).into_iter().eq(halfway + 1..=20));
}

/// A client that connects at any moment beside four writers.
#[test]
fn feed_01_a_durable_feed_has_no_gap_beside_four_writers() {
    const CONNECTS: usize = 200;
    let folder = Folder::new();
    let store = folder.open();
    let connect = || {
        let (document, feed) = loop {
            let document = store.durable_snapshot().unwrap();
            match store.subscription().durable().after(document.version()) {
                // So many commits became durable in between that the first of them are removed.
                Err(MissingCommits::Removed { .. }) => {}
                feed => break (document, feed),
            }
        };
        let fed = feed?.iter().take(3).collect();
        Ok((
            document.version(),
            fed,
            store.durable_snapshot().map(|it| it.version()),
        ))
    };
    let mut connects: Vec<Result<(u64, Vec<CommitEvent>, _), MissingCommits>> = Vec::new();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..4 {
            let (store, ends) = (&store, &ends);
            scope.spawn(move || {
                let mut nth = 0;
                while !ends.load(Ordering::Relaxed) {
                    add(store, &format!("{writer}/{nth}"));
                    nth += 1;
                }
            });
        }
        connects.extend((0..CONNECTS).map(|_| connect()));
        ends.store(true, Ordering::Relaxed);
    });
    for connect in connects {
        let (version, fed, durable) = connect.unwrap();
        assert!(fed.iter().all(|event| event.missed == 0));
        let fed = fed.iter().map(|event| event.commit.version);
        assert!(fed.eq(version + 1..version + 4));
        assert!(durable >= Some(version + 3));
    }
}

#[test]
fn a_durable_subscription_ends_with_the_journal_after_its_last_event() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let (closed, all) = (store.subscription().durable().all(), store.subscribe());
    add(&store, "a");
    store.close().unwrap();
    assert_eq!(versions(&closed), [1]);
    assert_eq!(closed.try_recv(), Err(TryRecvError::Disconnected));
    assert!(closed.recv().is_err());
    assert_eq!(versions(&all), [1]);
    assert_eq!(all.try_recv(), Err(TryRecvError::Disconnected));
    assert!(store.subscription().durable().all().recv().is_err());
    drop(store);

    let store = memory.open(later());
    let failed = store.subscription().durable().all();
    add(&store, "b");
    store.wait_durable(2).wait().unwrap();
    memory.fail_at(memory.writes() + 1, Failure::After);
    add(&store, "c");
    assert_eq!(failed.recv().unwrap().commit.version, 2);
    assert!(failed.recv().is_err());
    memory.mend();
    drop(store);

    // The end of the store writes what was accepted.
    let store = memory.open(later());
    let ended = store.subscription().durable().all();
    let version = add(&store, "d");
    drop(store);
    assert_eq!(versions(&ended), [version]);
    assert!(ended.recv().is_err());
}

/// The requests waited for a subscriber that can read nothing more.
#[test]
fn a_lossless_durable_subscriber_holds_up_no_request_after_the_journal_has_failed() {
    let memory = Memory::default();
    let store = memory.open(later());
    let _failed = store.subscription().durable().lossless(0).all();
    memory.fail_at(memory.writes() + 1, Failure::Before);
    add(&store, "a");
    store.wait_durable(1).wait().unwrap_err();
    // The journal ends after it has answered.
    let options = AcquireOptions::new().timeout(Duration::from_secs(60));
    drop(store.request("ann").options(options).wait().unwrap());
    let manager = TransactionManager::new(store);
    let refused = manager.execute(create(text_node("paragraph", "b")));
    assert_eq!(refused.unwrap_err().code(), "commitReadOnly");
}

#[test]
fn in_memory_a_durable_subscription_is_as_any_other() {
    let store = DataStore::new();
    let durable = store.subscription().durable().all();
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
    let late = store.subscription().durable().all();
    assert_eq!(late.try_recv(), Err(TryRecvError::Disconnected));
    drop(late);
    let again = store.subscription().durable().all();
    assert_eq!(again.try_recv(), Err(TryRecvError::Disconnected));
}

/// Requests waited for ever, although the store accepts no commit any more.
#[test]
fn a_lossless_subscriber_holds_up_no_request_after_the_journal_has_ended() {
    let options = || later().store(StoreOptions::new().log_limit(0));
    for (fails, durable) in [(false, false), (true, false), (false, true)] {
        let memory = Memory::default();
        let store = memory.open(options());
        let subscription = || match durable {
            true => store.subscription().durable(),
            false => store.subscription(),
        };
        let ended = store.subscription().all();
        let few = subscription().lossless(0).all();
        let many = subscription().lossless(1 << 20).all();
        if fails {
            memory.fail_at(memory.writes() + 1, Failure::Before);
        }
        let before = store.try_lock("ann").unwrap();
        drop(before);
        add(&store, "a");
        assert_eq!(store.close().is_err(), fails);
        // The journal has ended when this has.
        while ended.recv().is_ok() {}
        let late = store.subscription().lossless(0).all();
        for _ in 0..3 {
            let request = store.request_transaction("ann");
            drop(
                request
                    .options(AcquireOptions::new().no_wait())
                    .wait()
                    .unwrap(),
            );
        }
        // They still receive what is left.
        for events in [few, many] {
            let left: Vec<_> = events
                .iter()
                .map(|it| (it.commit.version, it.missed))
                .collect();
            assert_eq!(left, [(1, 0)], "{fails} {durable}");
        }
        assert_eq!(late.recv(), Err(RecvError));
    }
}

/// What a lossless subscriber has not read is more than the log may keep for others.
#[test]
fn feed_01_a_lossless_subscriber_receives_every_commit_after_the_close() {
    for durable in [false, true] {
        let options = later().store(StoreOptions::new().log_limit(0));
        let store = Memory::default().open(options);
        let subscription = store.subscription().lossless(1 << 20);
        let events = match durable {
            true => subscription.durable().all(),
            false => subscription.all(),
        };
        for nth in 0..20 {
            add(&store, &nth.to_string());
        }
        store.close().unwrap();
        drop(store.subscribe());
        for _ in 0..3 {
            drop(store.request_transaction("ann").wait().unwrap());
        }
        let all: Vec<_> = events
            .iter()
            .map(|it| (it.commit.version, it.missed))
            .collect();
        assert!(
            all.iter().copied().eq((1..=20).map(|version| (version, 0))),
            "{durable}: {all:?}"
        );
    }
}

/// It closed the lock, after a failure for a subscriber that can read nothing more.
#[test]
fn a_lossless_subscription_after_a_version_of_an_ended_journal_holds_up_no_request() {
    for fails in [true, false] {
        let memory = Memory::default();
        let kept = StoreOptions::new().kept_commits(1 << 20);
        let store = memory.open(later().store(kept));
        let ended = store.subscription().durable().all();
        if fails {
            memory.fail_at(memory.writes() + 1, Failure::Before);
        }
        add(&store, "a");
        assert_eq!(store.close().is_err(), fails);
        // The journal has ended when this has.
        while ended.recv().is_ok() {}
        let late = store.subscription().durable().lossless(0).after(0).unwrap();
        let options = AcquireOptions::new().timeout(Duration::from_secs(60));
        drop(store.request("ann").options(options).wait().unwrap());
        assert_eq!(versions(&late).len(), usize::from(!fails));
    }
}

/// Once only durable subscriptions ended before the last handle of the store.
#[test]
fn each_subscription_ends_when_the_store_is_closed() {
    let folder = Folder::new();
    let store = folder.open();
    let subscribe = || store.subscription();
    let in_subtree = || Filter::Subtree("a".into());
    let mut all = [
        subscribe().all(),
        subscribe().matching(in_subtree()),
        subscribe().lossless(1 << 20).all(),
        subscribe().after(0).unwrap(),
        subscribe().durable().all(),
    ];
    let idle = subscribe().all();
    let ready = all.each_ref().map(|events| events.ready().clone());
    add(&store, "a");
    assert_eq!(versions(&idle), [1]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| idle.recv());
        let in_task = scope.spawn(|| pollster::block_on(idle.recv_async()));
        store.close().unwrap();
        assert_eq!(waiting.join().unwrap(), Err(RecvError));
        assert_eq!(in_task.join().unwrap(), Err(RecvError));
    });
    for events in &mut all {
        assert_eq!(events.recv().unwrap().commit.version, 1, "an event is left");
        assert_eq!(events.recv(), Err(RecvError));
        assert_eq!(pollster::block_on(events.recv_async()), Err(RecvError));
        assert_eq!(events.try_recv(), Err(TryRecvError::Disconnected));
        let long = Duration::from_secs(3600);
        assert_eq!(
            events.recv_timeout(long),
            Err(RecvTimeoutError::Disconnected)
        );
        assert_eq!(events.iter().count(), 0);
        let next = poll_fn(|context| Pin::new(&mut *events).poll_next(context));
        assert_eq!(pollster::block_on(next), None);
    }
    for ready in ready {
        assert_eq!(
            ready.iter().count(),
            1,
            "the message of the event, then the end"
        );
    }
    drop((all, idle));
    let late = store.subscribe();
    assert_eq!(late.recv(), Err(RecvError));
    assert_eq!(late.ready().recv(), Err(RecvError));
}

#[test]
fn each_subscription_ends_when_the_journal_has_failed() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let [all, waiting] = [(); 2].map(|()| store.subscribe());
    memory.fail_at(memory.writes() + 1, Failure::Before);
    thread::scope(|scope| {
        let ends = scope.spawn(|| waiting.iter().count());
        TransactionManager::new(store.clone())
            .execute(create(element("note", [])))
            .unwrap_err();
        assert_eq!(ends.join().unwrap(), 1);
    });
    assert_eq!(all.iter().count(), 1);
}

/// A store in memory has nothing to close, and accepts commits as long as there is a handle.
#[test]
fn a_subscription_to_a_store_in_memory_ends_with_its_last_handle() {
    let store = DataStore::new();
    let events = store.subscribe();
    store.close().unwrap_err();
    add(&store, "a");
    assert_eq!(versions(&events), [1]);
    drop(store);
    assert_eq!(events.recv(), Err(RecvError));
}

/// Beside the close, each commit that was published is received: its announcement comes later.
#[test]
fn a_subscription_beside_a_close_has_each_commit() {
    for _ in 0..300 {
        let store = Memory::default().open(later());
        let events = [store.subscribe(), store.subscription().durable().all()];
        let begun = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut published = 0;
                loop {
                    let manager = TransactionManager::new(store.clone());
                    match manager.execute(create(element("note", []))) {
                        Ok(result) => published = result.version,
                        Err(_) => return published,
                    }
                    begun.store(true, Ordering::Relaxed);
                }
            });
            while !begun.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            store.close().unwrap();
            for events in &events {
                let last = events.iter().last().unwrap().commit.version;
                assert_eq!(last, store.version());
            }
            assert_eq!(writer.join().unwrap(), store.version());
        });
    }
}

/// The last commit was announced after the journal had ended, and its subscriber closed the lock.
#[test]
fn a_lossless_subscriber_beside_a_close_holds_up_no_request_afterwards() {
    for _ in 0..300 {
        let store = Memory::default().open(later());
        let unread = store.subscription().lossless(0).all();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let manager = TransactionManager::new(store.clone());
                let _ = manager.execute(create(element("note", [])));
            });
            store.close().unwrap();
            writer.join().unwrap();
        });
        let ended = store.subscription().durable().all();
        while ended.recv().is_ok() {}
        let options = AcquireOptions::new().no_wait();
        drop(store.request("ann").options(options).wait().unwrap());
        assert_eq!(unread.iter().count() as u64, store.version());
    }
}
