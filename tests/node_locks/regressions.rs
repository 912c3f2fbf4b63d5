//! Fixed bugs, one test each.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use doclock::{
    CommitError, DataStore, NodeGuard, StoreOptions,
    codes::Retry,
    document::{EditError, NodeSpec, check},
    lock::{AcquireOptions, CancelToken, LockError, LockMode, Priority, node::Scope},
};

use super::{ask, ask_with, document, node, patient, take, timed, timed_with, until_waiting};

fn ends<T>(thread: &JoinHandle<T>) -> bool {
    let limit = Instant::now() + Duration::from_secs(3);
    while !thread.is_finished() && Instant::now() < limit {
        thread::yield_now();
    }
    thread.is_finished()
}

/// A guard's nodes are released by id while the guard waits for more: the wait must end.
#[test]
fn releasing_by_id_ends_the_wait_for_more_nodes() {
    let store = document();
    let locks = store.node_locks();
    let mut ann = take(&store, "ann", Scope::new().write("a1"));
    let id = ann.id();
    let bob = take(&store, "bob", Scope::new().write("b1"));
    let waits = thread::spawn(move || ann.extend([("b1", LockMode::NodeExclusive)]));
    until_waiting(&locks, 1);
    store.release_lock(id).unwrap();
    drop(bob);
    assert!(ends(&waits), "not notified; {:?}", locks.stats());
    assert_eq!(locks.stats().waiting, 0);
}

/// Two owners can give a node the same generated id, so it has to be locked like any other.
#[test]
fn two_transactions_cannot_create_nodes_with_one_generated_id_at_once() {
    let store = document();
    let id = store.generate_id().unwrap();
    let made = || NodeSpec::new("p").with_id(id.clone());
    let mut ann = store
        .request_transaction("ann")
        .on(Scope::new())
        .options(patient().unbound())
        .wait()
        .unwrap();
    ann.create(made()).unwrap();
    let options = AcquireOptions::new().no_wait().unbound();
    let mut bob = store
        .request_transaction("bob")
        .on(Scope::new())
        .options(options)
        .wait()
        .unwrap();
    let refused = bob.insert(made(), node("b"), None);
    assert!(
        matches!(refused, Err(EditError::NotLocked { .. })),
        "{refused:?}"
    );
    drop(bob);
    ann.set_text(node("a1"), "x").unwrap();
    ann.commit().unwrap();
    assert_eq!(check(&store.snapshot()), Ok(()));
}

/// A request that precedes one for the whole document, and fits beside the holders, is granted at
/// once.
#[test]
fn a_node_request_ahead_of_a_document_request_is_granted_beside_holders() {
    let store = document();
    let ann = take(&store, "ann", Scope::new().write("a1"));
    let whole = {
        let store = store.clone();
        thread::spawn(move || store.request("whole").options(patient()).wait().map(drop))
    };
    while store.queue_length() != 1 {
        thread::yield_now();
    }
    let bob = {
        let store = store.clone();
        let options = patient().priority(Priority::High);
        thread::spawn(move || {
            let locks = store.node_locks();
            locks
                .request("bob", Scope::new().write("b1"))
                .options(options)
                .wait()
                .map(drop)
        })
    };
    let ended = ends(&bob);
    drop(ann);
    bob.join().unwrap().unwrap();
    whole.join().unwrap().unwrap();
    assert!(ended, "the head of the line fits, and waits");
}

/// The conflicting request was not completely granted when the wait for it began.
#[test]
fn a_hold_limit_applies_to_a_holder_that_is_granted_later() {
    let (store, clock) = timed_with(StoreOptions::new().hold_limit(Duration::from_secs(1)));
    let carl = take(&store, "carl", Scope::new().write("b1"));
    let bob = ask(&store, "bob", Scope::new().write("a1").write("b1"));
    let waits = ask(&store, "ann", Scope::new().write("a1"));
    drop(carl);
    let bob: NodeGuard = bob.join().unwrap().unwrap();
    clock.advance(Duration::from_secs(2));
    let ended = ends(&waits);
    drop(bob);
    drop(waits.join().unwrap().unwrap());
    assert!(ended, "the limit of the conflicting holder was not checked");
}

#[test]
fn a_would_block_error_names_the_conflicting_holder() {
    let store = document();
    let _carl = take(&store, "carl", Scope::new().write("b2"));
    let _ann = take(&store, "ann", Scope::new().write("b1"));
    let options = AcquireOptions::new().no_wait().unbound();
    let refused = store
        .node_locks()
        .request("bob", Scope::new().write("b1"))
        .options(options)
        .wait();
    let Err(LockError::WouldBlock { holder, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(holder.owner_id.as_str(), "ann");
}

/// Ann holds Bob's node, and waits for another one herself.
#[test]
fn a_timeout_names_a_holder_that_is_itself_waiting() {
    let (store, clock) = timed();
    let _dora = take(&store, "dora", Scope::new().write("a2"));
    let mut ann = take(&store, "ann", Scope::new().write("a1"));
    let carl = take(&store, "carl", Scope::new().write("b1"));
    let locks = store.node_locks();
    let ann = thread::spawn(move || {
        ann.request_more(Scope::new().write("b1"))
            .options(patient().clone())
            .wait()
            .unwrap();
        ann
    });
    until_waiting(&locks, 1);
    let limit = AcquireOptions::new().timeout(Duration::from_millis(100));
    let bob = ask_with(&store, "bob", Scope::new().write("a1"), limit);
    clock.advance(Duration::from_millis(100));
    let Err(LockError::Timeout(evidence)) = bob.join().unwrap() else {
        panic!("expected a timeout");
    };
    drop(carl);
    drop(ann.join().unwrap());
    assert_eq!(evidence.holder.owner_id.as_str(), "ann", "{evidence}");
}

#[test]
fn node_lock_metrics_count_rejections_refusals_and_cancellations() {
    let (store, _) = timed_with(StoreOptions::new().queue_bound(0));
    let locks = store.node_locks();
    let _carl = take(&store, "carl", Scope::new().write("b1"));
    let full = locks
        .request("bob", Scope::new().write("b1"))
        .options(patient())
        .wait();
    assert!(matches!(full, Err(LockError::QueueFull { .. })), "{full:?}");
    let guard = locks.lock("ann", Scope::new().write("a1")).unwrap();
    assert!(locks.lock("ann", Scope::new().write("a2")).is_err());
    drop(guard);
    let token = CancelToken::new();
    token.cancel();
    let options = AcquireOptions::new().cancel_token(&token);
    assert!(
        locks
            .request("ann", Scope::new())
            .options(options)
            .wait()
            .is_err()
    );
    let stats = locks.stats();
    assert_eq!(
        (
            stats.total_rejections,
            stats.total_refusals,
            stats.total_cancellations
        ),
        (1, 1, 1)
    );
}

/// A request granted a node that has moved needs more locks, behind a request that waits for the
/// node.
#[test]
fn a_set_requested_while_its_node_moves_causes_no_deadlock() {
    let store = document();
    // Moves a1 from a to b.
    let mut mover = store
        .request_transaction("mover")
        .on(Scope::new())
        .options(patient().unbound())
        .wait()
        .unwrap();
    let _other = take(&store, "other", Scope::new().write("elsewhere"));
    mover.move_node(node("a"), node("b"), None).unwrap();
    let comes_and_goes = |owner: &'static str, scope: Scope, ahead: usize| {
        let locks = store.node_locks();
        let thread = thread::spawn(move || {
            locks
                .request(owner, scope)
                .options(patient())
                .wait()
                .map(drop)
        });
        until_waiting(&store.node_locks(), ahead + 1);
        thread
    };
    // a1 is granted at once, the intention on a waits.
    let ann = comes_and_goes("ann", Scope::new().write("a1"), 0);
    // Behind Ann for a1, behind the mover for b.
    let bob = comes_and_goes("bob", Scope::new().write_subtree("b").write("a1"), 1);
    mover.commit().unwrap();
    assert_eq!((ann.join().unwrap(), bob.join().unwrap()), (Ok(()), Ok(())));
    assert_eq!(store.node_locks().stats().total_deadlocks, 0);
}

#[test]
fn a_generated_id_can_be_locked_before_its_node_exists() {
    let store = DataStore::new();
    let id = store.generate_id().unwrap();
    let _ann = take(&store, "ann", Scope::new().write(id.clone()));
    let options = AcquireOptions::new().no_wait().unbound();
    let mut bob = store
        .request_transaction("bob")
        .on(Scope::new())
        .options(options)
        .wait()
        .unwrap();
    assert!(bob.create(NodeSpec::new("p").with_id(id)).is_err());
}

/// An edit computed from an outdated read fails before the commit reports it, and `retry` stops.
#[test]
fn an_edit_computed_from_an_outdated_read_can_be_retried() {
    let store = document();
    let mut ann = store
        .request_transaction("ann")
        .on(Scope::new())
        .options(patient().unbound())
        .wait()
        .unwrap();
    let len = doclock::View::text_of(&ann, node("a1")).unwrap().len();
    let mut bob = store
        .request_transaction("bob")
        .on(Scope::new())
        .options(patient().unbound())
        .wait()
        .unwrap();
    bob.set_text(node("a1"), "").unwrap();
    bob.commit().unwrap();
    let error = ann.insert_text(node("a1"), len, "!").unwrap_err();
    assert_eq!(error.retry(), Retry::Now, "{error}");
}

#[test]
fn a_stale_id_is_not_taken_for_a_free_lock_while_others_hold_nodes() {
    let store = document();
    let guard = take(&store, "ann", Scope::new().write("a1"));
    let id = guard.id();
    drop(guard);
    let _one = take(&store, "one", Scope::new().write("a1"));
    let _other = take(&store, "other", Scope::new().write("b1"));
    let released = store.release_lock(id);
    assert!(released.is_err(), "{released:?}, with holders");
}

#[test]
fn fencing_tokens_rise_on_each_node() {
    let store = document();
    let mut ann = take(&store, "ann", Scope::new().write("a1"));
    let bob = take(&store, "bob", Scope::new().write("b1"));
    let before = bob.fencing_token();
    drop(bob);
    ann.extend([("b1", LockMode::NodeExclusive)]).unwrap();
    assert!(ann.fencing_token() > before);
}

#[test]
fn the_fencing_token_of_a_guard_that_is_alone_rises_with_each_extension() {
    let store = document();
    let mut ann = take(&store, "ann", Scope::new().write("a1"));
    let first = ann.fencing_token();
    ann.extend([("b1", LockMode::NodeExclusive)]).unwrap();
    let second = ann.fencing_token();
    assert!(second > first);
    drop(ann);
    assert!(take(&store, "bob", Scope::new().write("b1")).fencing_token() > second);
}

/// A revoked holder sees later writes; the cause of its failure is the revocation.
#[test]
fn a_revoked_commit_reports_the_revocation_and_not_a_conflict() {
    let (store, clock) = timed_with(StoreOptions::new().hold_limit(Duration::from_secs(1)));
    let mut ann = store
        .request_transaction("ann")
        .on(Scope::new().write("a1"))
        .options(patient().unbound())
        .wait()
        .unwrap();
    ann.set_text(node("a1"), "late").unwrap();
    assert!(doclock::View::text_of(&ann, node("a2")).is_ok());
    let bob = {
        let store = store.clone();
        thread::spawn(move || {
            let mut bob = store
                .request_transaction("bob")
                .on(Scope::new().write("a1"))
                .options(patient())
                .wait()?;
            bob.set_text(node("a1"), "in time").unwrap();
            bob.set_text(node("a2"), "as well").unwrap();
            Ok::<_, LockError>(bob.commit().unwrap())
        })
    };
    until_waiting(&store.node_locks(), 1);
    clock.advance(Duration::from_secs(1));
    bob.join().unwrap().unwrap();
    let outcome = ann.commit();
    assert!(
        matches!(outcome, Err(CommitError::Revoked { .. })),
        "{outcome:?}"
    );
}

/// A second read of the root counted as one of another document state.
#[test]
fn reading_the_same_thing_twice_does_not_fail_a_transaction() {
    type Read = fn(&doclock::Draft);
    let reads: [Read; 3] = [
        |it| assert_eq!(doclock::View::root(it), Some(&node("root"))),
        |it| assert_eq!(doclock::View::text_of(it, node("b1")).unwrap(), "b1"),
        |it| assert_eq!(doclock::View::nodes(it).count(), 7),
    ];
    for read in reads {
        let store = document();
        let scope = Scope::new().write("a1");
        let mut ann = store
            .request_transaction("ann")
            .on(scope)
            .options(patient())
            .wait()
            .unwrap();
        read(&ann);
        read(&ann);
        ann.set_text(node("a1"), "x").unwrap();
        ann.commit().unwrap();
    }
}

/// It reads the node when that is locked, as a method of the draft does.
#[test]
fn a_text_operation_edits_the_text_that_it_finds_when_the_node_is_locked() {
    let store = document();
    let mut ann = store
        .request_transaction("ann")
        .on(Scope::new())
        .options(patient().unbound())
        .wait()
        .unwrap();
    let mut bob = store
        .request_transaction("bob")
        .on(Scope::new())
        .options(patient().unbound())
        .wait()
        .unwrap();
    bob.set_text(node("a1"), "bob").unwrap();
    bob.commit().unwrap();
    let insertion = doclock::dsl::insert_text(3, "!").on("a1");
    doclock::transaction::RunOperations::run(&mut *ann, [insertion]).unwrap();
    ann.commit().unwrap();
    let snapshot = store.snapshot();
    assert_eq!(
        doclock::View::node(&snapshot, "a1").unwrap().text(),
        &"bob!"
    );
}
