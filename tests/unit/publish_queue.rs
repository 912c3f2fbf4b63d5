//! Unit tests of `src/store/publish_queue.rs`.

use std::panic::Location;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::*;
use crate::document::NodeSpec;
use crate::id::OwnerId;
use crate::lock::node::Scope;
use crate::lock::{CancelToken, LockError};
use crate::store::StoreOptions;
use crate::time::ManualClock;

type CommitResult = Result<TransactionResult, CommitError>;

const NODES: [&str; 3] = ["one", "two", "three"];

fn store(options: StoreOptions) -> DataStore {
    let store = DataStore::with_options(options);
    let mut transaction = store.begin("setup").unwrap();
    for id in NODES {
        transaction
            .create(NodeSpec::new("text").with_id(id))
            .unwrap();
    }
    transaction.commit().unwrap();
    store
}

/// Writes its own name into a node. Not committed yet.
fn write(store: &DataStore, id: &str) -> Transaction {
    let mut transaction = store.begin_on(id, Scope::new().write(id)).unwrap();
    transaction.set_text(id, id).unwrap();
    transaction
}

/// Publishes nothing, for as long as the grant is held.
fn hold(store: &DataStore) -> Grant {
    let (options, owner) = (AcquireOptions::new(), OwnerId::from("first"));
    let requester = options.requester(&owner, Location::caller(), true);
    let granted = store.publish_queue().try_grant(&requester, &options);
    granted.unwrap().expect("no transaction publishes")
}

fn wait_for_waiters(store: &DataStore, count: usize) {
    while store.publish_queue().queue_length() != count {
        thread::yield_now();
    }
}

/// Commits in other threads. Each waits to publish when the next one begins.
fn commit_in_threads(store: &DataStore) -> Vec<JoinHandle<CommitResult>> {
    let commit = |(nth, id): (usize, &'static str)| {
        let own = store.clone();
        let committing = thread::spawn(move || write(&own, id).commit());
        wait_for_waiters(store, nth + 1);
        committing
    };
    NODES.into_iter().enumerate().map(commit).collect()
}

#[test]
fn transactions_on_nodes_publish_in_the_order_in_which_they_ask() {
    for combines in [true, false] {
        let store = store(StoreOptions::new());
        let grant = hold(&store);
        let committing = commit_in_threads(&store);
        assert_eq!(store.version(), 1);
        match combines {
            true => store
                .publish_queue()
                .leave_and_serve(grant, WaiterKind::Thread),
            false => store.publish_queue().leave_grant(grant.id()),
        }
        let versions = committing
            .into_iter()
            .map(|committing| committing.join().unwrap().unwrap().version);
        assert!(versions.eq(2..=4));
        assert!(!store.publish_queue().is_locked());
        assert!(store.node_locks().holders().is_empty());
    }
}

#[test]
fn diagnostics_name_who_publishes_and_who_waits_for_that() {
    let store = store(StoreOptions::new());
    assert_eq!(store.diagnostics().publishing, None);
    let held = store.publish_queue().lock("first").unwrap();
    let committing = commit_in_threads(&store);
    let diagnostics = store.diagnostics();
    let publishing = diagnostics.publishing.as_ref().unwrap();
    assert_eq!(publishing.holders[0].holder.owner_id.as_str(), "first");
    let waiting = publishing.waiters.iter().map(|waiter| &waiter.request);
    let waiting = waiting.map(|it| (it.owner_id.as_str(), it.label.as_deref()));
    assert!(waiting.eq(NODES.map(|id| (id, Some("publishes")))));
    let text = diagnostics.to_string();
    assert!(text.contains("PUBLISHING"), "{text}");
    drop(held);
    for committing in committing {
        committing.join().unwrap().unwrap();
    }
    assert_eq!(store.diagnostics().publishing, None);
}

#[test]
fn a_commit_that_times_out_before_it_may_publish_names_who_publishes() {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock());
    let store = store(options.lock_timeout(Duration::from_secs(3)));
    let held = store.publish_queue().lock("first").unwrap();
    let transaction = write(&store, "one");
    let committing = thread::spawn(move || transaction.commit());
    wait_for_waiters(&store, 1);
    clock.advance(Duration::from_secs(3));
    let error = committing.join().unwrap().unwrap_err();
    let CommitError::NotLocked(cause) = &error else {
        panic!("{error:?}");
    };
    let LockError::Timeout(evidence) = &**cause else {
        panic!("{cause:?}");
    };
    assert_eq!(evidence.holder.owner_id.as_str(), "first");
    assert_eq!(store.version(), 1);
    assert!(store.node_locks().holders().is_empty(), "it is rolled back");
    drop(held);
}

/// A transaction that is not bound to this thread.
fn begin_unbound(store: &DataStore, id: &str, options: AcquireOptions) -> Transaction {
    let request = store.request_transaction(id).options(options.unbound());
    let mut transaction = request.on(Scope::new().write(id)).wait().unwrap();
    transaction.set_text(id, id).unwrap();
    transaction
}

#[test]
fn the_options_of_a_request_for_nodes_refuse_no_commit() {
    let store = store(StoreOptions::new());
    let grant = hold(&store);
    let token = CancelToken::new();
    let options = AcquireOptions::new().no_wait().queue_bound(0);
    let options = options.cancel_token(&token);
    let transactions = ["one", "two"].map(|id| begin_unbound(&store, id, options.clone()));
    token.cancel();
    let mut committing = Vec::new();
    for transaction in transactions {
        let before = committing.len();
        committing.push(thread::spawn(move || transaction.commit()));
        wait_for_waiters(&store, before + 1);
    }
    store.publish_queue().leave_grant(grant.id());
    for committing in committing {
        committing.join().unwrap().unwrap();
    }
    assert_eq!(store.version(), 3);
}

#[test]
fn a_commit_of_a_request_without_timeout_waits_without_limit() {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock());
    let store = store(options.lock_timeout(Duration::from_secs(3)));
    let grant = hold(&store);
    let transaction = begin_unbound(&store, "one", AcquireOptions::new().no_timeout());
    let committing = thread::spawn(move || transaction.commit());
    wait_for_waiters(&store, 1);
    clock.advance(Duration::from_secs(60));
    store.publish_queue().leave_grant(grant.id());
    assert_eq!(committing.join().unwrap().unwrap().version, 2);
}

#[test]
fn a_commit_that_must_fail_does_not_wait() {
    let store = store(StoreOptions::new());
    let _held = store.publish_queue().lock("first").unwrap();
    let begin = |id| begin_unbound(&store, id, AcquireOptions::new());
    let (mut one, mut two) = (begin("one"), begin("two"));
    std::mem::swap(&mut *one, &mut *two);
    for swapped in [one, two] {
        let error = swapped.commit().unwrap_err();
        assert!(matches!(error, CommitError::ForeignDraft { .. }), "{error}");
    }
}

#[test]
fn a_task_that_is_dropped_while_it_waits_to_publish_rolls_back() {
    let store = store(StoreOptions::new());
    let _held = store.publish_queue().lock("first").unwrap();
    {
        let mut dropped = pin!(write(&store, "one").commit_async());
        assert!(poll(dropped.as_mut()).is_pending());
        assert_eq!(store.publish_queue().queue_length(), 1);
    }
    assert!(store.node_locks().holders().is_empty());
    assert_eq!(store.publish_queue().queue_length(), 0);
    assert_eq!(store.version(), 1);
}

#[test]
fn a_commit_releases_its_nodes_although_its_task_is_not_polled() {
    let store = store(StoreOptions::new());
    let held = store.publish_queue().lock("first").unwrap();
    let transaction = begin_unbound(&store, "one", AcquireOptions::new());
    let mut committing = pin!(transaction.commit_async());
    assert!(poll(committing.as_mut()).is_pending());
    drop(held);
    drop(store.lock("other").unwrap());
    assert_eq!(store.version(), 2);
    let committed = loop {
        match poll(committing.as_mut()) {
            Poll::Ready(committed) => break committed.unwrap(),
            // The nodes are released before the task is answered.
            Poll::Pending => thread::yield_now(),
        }
    };
    assert_eq!(committed.version, 2);
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
