//! What continues when a document is opened again.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use doclock::dsl::*;
use doclock::inbox::Inbox;
use doclock::{
    CommitError, DataStore, Editor, NodeId, Snapshot, StoreOptions, TransactionManager, View,
    document::{NodeSpec, check},
    lease::LeaseError,
    lock::node::Scope,
};

use serde_json::json;

use crate::common::{SESSION, commit, id};
use crate::{restarted, small};

const MINUTE: Duration = Duration::from_secs(60);

fn open(snapshot: &Snapshot) -> DataStore {
    let options = StoreOptions::new().session(SESSION);
    options.document(restarted(snapshot)).unwrap()
}

fn add(store: &DataStore) -> doclock::transaction::TransactionResult {
    commit(store, |transaction| {
        transaction.create(NodeSpec::new("x")).unwrap();
    })
}

fn created(result: &doclock::transaction::TransactionResult) -> NodeId {
    let [doclock::document::Change::InsertSubtree { nodes, .. }] = &*result.changes else {
        panic!("{result:?}")
    };
    nodes[0].id().clone()
}

#[test]
fn feed_05_versions_continue() {
    let old = small();
    let store = open(&old.snapshot());
    assert_eq!((store.version(), store.snapshot().version()), (2, 2));
    assert_eq!(add(&store).version, 3);
    assert_eq!(open(&store.snapshot()).version(), 3);
}

/// In a trial, version 1141 became 1, and this was accepted then.
#[test]
fn feed_05_if_unchanged_of_the_old_process_is_refused_after_later_commits() {
    let old = small();
    let seen = old.version();
    add(&old);
    add(&old);
    let store = open(&old.snapshot());
    let manager = TransactionManager::new(store.clone());
    let batch = || [if_unchanged(seen), set_text("x").on("t")];
    manager.execute(batch()).unwrap_err();
    for _ in 0..5 {
        add(&store);
        manager.execute(batch()).unwrap_err();
    }
    let latest = store.version();
    manager
        .execute([if_unchanged(latest), set_text("x").on("t")])
        .unwrap();
}

#[test]
fn feed_05_fencing_tokens_continue() {
    let old = small();
    // Tokens without a commit, before the last commit.
    for _ in 0..5 {
        old.begin("ann").unwrap().rollback();
    }
    let lock = old.acquire_lock("ann").unwrap();
    let mut under = old.begin_under(lock).unwrap();
    under.set_text("t", "under").unwrap();
    let last = under.commit().unwrap().fencing_token;
    old.release_lock(lock).unwrap();
    let store = open(&old.snapshot());
    let next = add(&store).fencing_token;
    assert!(next > last, "{next} after {last}");
    assert!(store.lock("ann").unwrap().fencing_token() > next);

    // An empty batch has no token, and replaces none.
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_text("t", "last").unwrap();
    let nothing: [doclock::transaction::Operation; 0] = [];
    TransactionManager::new(store.clone())
        .execute(nothing)
        .unwrap();
    let last = transaction.commit().unwrap().fencing_token;
    assert!(add(&open(&store.snapshot())).fencing_token > last);
}

#[test]
fn feed_05_fencing_tokens_of_node_locks_continue() {
    let old = small();
    let on_nodes = |store: &DataStore, nodes: &[&str]| {
        let scope = Scope::new().write(nodes[0]);
        let mut transaction = store.begin_on("ann", scope).unwrap();
        for node in nodes {
            transaction.set_text(*node, "new").unwrap();
        }
        transaction.commit().unwrap().fencing_token
    };
    let last = on_nodes(&old, &["t"]);
    assert!(on_nodes(&open(&old.snapshot()), &["t"]) > last);

    // Beside another holder, a transaction that locks a second node gets a second token.
    let locks = old.node_locks();
    let beside = thread::spawn(move || locks.lock("ben", Scope::new().write("7:1")));
    let beside = beside.join().unwrap().unwrap();
    let last = on_nodes(&old, &["t", "loose"]);
    assert_eq!(last.get(), beside.fencing_token().get() + 2);
    assert!(on_nodes(&open(&old.snapshot()), &["t"]) > last);
}

#[test]
fn feed_05_tokens_of_leases_continue_and_the_leases_end() {
    let old = small();
    let first = old.leases().acquire("a", "ann", MINUTE).unwrap();
    let second = old.leases().acquire("t", "ann", MINUTE).unwrap();
    first.release().unwrap();
    // In the same process the clock would let the lease live on.
    for snapshot in [restarted(&old.snapshot()), old.snapshot()] {
        let options = StoreOptions::new().session(SESSION);
        let store = options.document(snapshot).unwrap();
        assert!(store.leases().list().is_empty());
        let mut transaction = store.begin("ann").unwrap();
        let refused = transaction.require_token(second.fencing_token());
        assert!(matches!(refused, Err(LeaseError::Lost(_))), "{refused:?}");
        drop(transaction);
        let next = store.leases().acquire("t", "ben", MINUTE).unwrap();
        assert!(next.fencing_token() > second.fencing_token());
    }
}

#[test]
fn feed_05_tokens_of_claims_continue() {
    let take = |store: &DataStore, event: &'static str| {
        let claim = Inbox::new(store, "mail").claim(&(event, ())).unwrap();
        claim.token()
    };
    let old = small();
    let tokens: Vec<_> = ["a", "b", "c"].map(|event| take(&old, event)).into();
    add(&old);
    let store = open(&old.snapshot());
    assert!(take(&store, "d") > tokens[2]);
}

#[test]
fn feed_05_no_id_returns_in_the_same_session() {
    let old = small();
    let mut seen = HashSet::from([old.generate_id().unwrap()]);
    // The last ids are of nodes that are gone, and of none.
    let gone = created(&add(&old));
    seen.extend([gone.clone(), old.generate_id().unwrap()]);
    commit(&old, |transaction| transaction.delete(&gone).unwrap());
    let mut snapshot = old.snapshot();
    seen.extend(snapshot.nodes().map(|node| node.id().clone()));
    for _ in 0..3 {
        let store = open(&snapshot);
        for _ in 0..5 {
            let new = created(&add(&store));
            assert!(
                new.is_generated() && seen.insert(new.clone()),
                "{new} returned"
            );
            commit(&store, |transaction| transaction.delete(&new).unwrap());
        }
        snapshot = store.snapshot();
        assert_eq!(check(&snapshot), Ok(()));
    }
}

/// The store that made the last version had another session, or gave ids of other sessions.
#[test]
fn feed_05_no_generated_id_is_that_of_a_node() {
    let old = DataStore::with_options(StoreOptions::new().session(8));
    commit(&old, |transaction| {
        for name in ["7:3", "7:2", "7:900", "9:901"] {
            transaction
                .create(NodeSpec::new("x").with_id(name))
                .unwrap();
        }
    });
    let store = open(&old.snapshot());
    assert_eq!(created(&add(&store)), id("7:901"));
    let options = StoreOptions::new().session(8);
    let store = options.document(restarted(&old.snapshot())).unwrap();
    assert_eq!(created(&add(&store)), id("8:1"));
    let store = StoreOptions::new().document(old.snapshot()).unwrap();
    let new = created(&add(&store));
    assert!(!old.snapshot().contains(&new));
}

/// The largest id of a session leaves no number, so the store uses another session. No
/// later store returns to numbers of the first, also when the node with the largest is gone.
#[test]
fn feed_05_a_session_without_numbers_left_is_followed_by_another() {
    for (last, with_a_node) in [
        (u64::MAX, true),
        (u64::MAX, false),
        (u64::MAX - 1, true),
        (u64::MAX - 1, false),
        (u64::MAX - 2, false),
    ] {
        let old = DataStore::with_options(StoreOptions::new().session(8));
        if with_a_node {
            commit(&old, |transaction| {
                let last = format!("{SESSION}:{last}");
                let node = NodeSpec::new("x").with_id(last);
                transaction.create(node).unwrap();
            });
        }
        let mut form = serde_json::to_value(old.snapshot()).unwrap();
        if !with_a_node {
            form["session"] = json!({"id": SESSION, "transactions": 3, "nodes": last});
        }
        let mut snapshot: Snapshot = serde_json::from_value(form).unwrap();
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let store = open(&snapshot);
            for _ in 0..3 {
                let new = created(&add(&store));
                let name = new.to_string();
                assert!(
                    new.is_generated() && seen.insert(new.clone()),
                    "{new} returned"
                );
                assert!(!name.starts_with(&format!("{SESSION}:")), "{new}");
            }
            let nodes: Vec<NodeId> = store.snapshot().nodes().map(|it| it.id().clone()).collect();
            for node in nodes {
                commit(&store, |transaction| transaction.delete(&node).unwrap());
            }
            snapshot = store.snapshot();
        }
        // In a session that was not used, the ids begin anew.
        let store = StoreOptions::new().session(9).document(snapshot).unwrap();
        assert_eq!(created(&add(&store)), id("9:1"));
    }
}

#[test]
fn feed_05_transaction_ids_continue_in_the_same_session() {
    let old = small();
    let mut seen: HashSet<String> = HashSet::new();
    old.begin("ann").unwrap().rollback();
    seen.insert(add(&old).transaction_id.to_string());
    let mut snapshot = old.snapshot();
    for _ in 0..3 {
        let store = open(&snapshot);
        for _ in 0..3 {
            let id = add(&store).transaction_id.to_string();
            assert!(
                id.starts_with("tx-7-") && seen.insert(id.clone()),
                "{id} returned"
            );
        }
        snapshot = store.snapshot();
    }
    // In another session, they are others.
    let store = StoreOptions::new()
        .session(8)
        .document(restarted(&snapshot))
        .unwrap();
    assert_eq!(add(&store).transaction_id.to_string(), "tx-8-1");
}

#[test]
fn feed_05_lock_ids_do_not_return() {
    let old = small();
    let id = old.acquire_lock("ann").unwrap();
    let store = open(&old.snapshot());
    let other = store.acquire_lock("ann").unwrap();
    assert_ne!(id, other);
    store.release_lock(id).unwrap_err();
}

#[test]
fn feed_05_the_saved_and_the_opened_store_do_not_share_changes() {
    let old = small();
    let snapshot = old.snapshot();
    let store = StoreOptions::new().document(snapshot.clone()).unwrap();
    assert_eq!(store.snapshot(), snapshot);
    TransactionManager::new(store.clone())
        .execute([set_text("new").on("t")])
        .unwrap();
    TransactionManager::new(old.clone())
        .execute([set_text("old").on("t")])
        .unwrap();
    assert_eq!(snapshot.node("t").unwrap().text(), &"Io");
    assert_eq!(old.snapshot().node("t").unwrap().text(), &"old");
    assert_eq!(store.snapshot().node("t").unwrap().text(), &"new");
}

/// Their cursors are at the version that was opened.
#[test]
fn feed_05_editors_and_subscribers_follow_an_opened_document() {
    let options = StoreOptions::new().kept_commits(1 << 20);
    let store = options.document(restarted(&small().snapshot())).unwrap();
    let commits = store.subscribe();
    let [ann, ben] = ["ann", "ben"].map(|name| Editor::new(store.clone(), name));
    store.commits_since(1).unwrap_err();
    assert!(store.commits_since(2).unwrap().is_empty());
    ann.execute([insert_text(2, "!").on("t")]).unwrap();
    for _ in 0..200 {
        ben.execute([insert_text(0, "x").on("t")]).unwrap();
    }
    ann.undo().commit().unwrap();
    let text = store.snapshot().node("t").unwrap().text().to_string();
    assert_eq!(text, format!("{}Io", "x".repeat(200)));
    let events: Vec<_> = commits.try_iter().collect();
    let versions: Vec<u64> = events.iter().map(|event| event.commit.version).collect();
    assert_eq!(versions, (3..=204).collect::<Vec<_>>());
    assert!(events.iter().all(|event| event.missed == 0));
    assert_eq!(store.commits_since(200).unwrap().len(), 4);
    store.commits_since(1).unwrap_err();
}

#[test]
fn feed_05_a_commit_under_a_large_change_has_its_numbers() {
    let old = small();
    // More nodes than are folded in place.
    let result = commit(&old, |transaction| {
        let items = (0..1_000).map(|_| NodeSpec::new("x"));
        transaction
            .create(NodeSpec::new("x").with_children(items))
            .unwrap();
    });
    let store = open(&old.snapshot());
    let next = add(&store);
    assert!(next.fencing_token > result.fencing_token);
    assert!(next.transaction_id.to_string() > result.transaction_id.to_string());
    assert!(!old.snapshot().contains(created(&next)));
}

#[test]
fn feed_05_commit_conditions_hold_on_an_opened_document() {
    let store = open(&small().snapshot());
    let lease = store.leases().acquire("t", "ann", MINUTE).unwrap();
    let mut transaction = store.begin("ann").unwrap();
    transaction.require(&lease).unwrap();
    transaction.set_text("t", "x").unwrap();
    lease.release().unwrap();
    let error = transaction.commit().unwrap_err();
    assert!(matches!(error, CommitError::LeaseLost(_)), "{error}");
}
