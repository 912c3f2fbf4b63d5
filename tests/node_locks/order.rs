//! The order between requests for nodes and requests for the whole document (NODE LOCKS 2, 3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use doclock::{
    DataStore,
    lock::{LockError, LockMode, node::Scope},
};

use super::common::Dice;
use super::{ask, blocked, document, patient, take, until_waiting};

#[test]
fn node_locks_02_requests_for_one_node_are_granted_in_order() {
    let store = document();
    let first = take(&store, "first", Scope::new().write("a1"));
    let owners = ["one", "two", "three", "four"];
    let asking = owners.map(|owner| ask(&store, owner, Scope::new().write("a1")));
    let waiters = store.node_locks().waiters();
    let places: Vec<_> = waiters
        .iter()
        .map(|waiter| waiter.request.position)
        .collect();
    assert_eq!(places, [1, 2, 3, 4]);
    drop(first);
    let mut tokens = Vec::new();
    for asked in asking {
        let guard = asked.join().unwrap().unwrap();
        tokens.push(guard.fencing_token());
    }
    assert!(tokens.is_sorted(), "{tokens:?}");
}

#[test]
fn node_locks_02_a_compatible_request_waits_for_an_earlier_conflicting_one() {
    let store = document();
    let reader = take(&store, "reader", Scope::new().read("a1"));
    let writer = ask(&store, "writer", Scope::new().write("a1"));
    assert!(
        blocked(&store, Scope::new().read("a1")),
        "the writer stands before it"
    );
    let later = ask(&store, "later", Scope::new().read("a1"));
    drop(reader);
    drop(writer.join().unwrap().unwrap());
    drop(later.join().unwrap().unwrap());
}

fn global(store: &DataStore, owner: &'static str) -> thread::JoinHandle<doclock::FencingToken> {
    let waiting = store.queue_length();
    let asking = {
        let store = store.clone();
        thread::spawn(move || {
            store
                .request(owner)
                .options(patient())
                .wait()
                .unwrap()
                .fencing_token()
        })
    };
    while store.queue_length() != waiting + 1 {
        thread::yield_now();
    }
    asking
}

fn nodes(
    store: &DataStore,
    owner: &'static str,
    id: &str,
) -> thread::JoinHandle<doclock::FencingToken> {
    let waiting = store.queue_length();
    let (locks, scope) = (store.node_locks(), Scope::new().write(id));
    let asking = thread::spawn(move || {
        let guard = locks
            .request(owner, scope)
            .options(patient())
            .wait()
            .unwrap();
        guard.fencing_token()
    });
    while store.queue_length() != waiting + 1 {
        thread::yield_now();
    }
    asking
}

/// Neither side starves: each request waits only for earlier ones.
#[test]
fn node_locks_02_document_requests_and_node_requests_share_one_queue() {
    let store = document();
    let holder = take(&store, "holder", Scope::new().write("a1"));
    let first = global(&store, "first global");
    let second = nodes(&store, "second on a node", "b1");
    let third = nodes(&store, "third on a node", "b2");
    let fourth = global(&store, "fourth global");
    let fifth = nodes(&store, "fifth on a node", "a1");
    assert!(
        blocked(&store, Scope::new().write("a2")),
        "no request overtakes the waiters"
    );
    let info = store.current_lock().unwrap();
    assert_eq!(info.owner_id.as_str(), "holder");
    drop(holder);
    let tokens = [first, second, third, fourth, fifth].map(|asked| asked.join().unwrap());
    assert!(tokens[0] < tokens[1] && tokens[0] < tokens[2]);
    assert!(
        tokens[1] < tokens[3] && tokens[2] < tokens[3] && tokens[3] < tokens[4],
        "{tokens:?}"
    );
    assert!(!store.is_locked());
}

/// After a request for the whole document times out, later requests for nodes are granted beside
/// the holders.
#[test]
fn node_locks_02_a_request_that_gives_up_frees_the_requests_behind_it() {
    let store = document();
    let _holder = take(&store, "holder", Scope::new().write("a1"));
    let token = doclock::lock::CancelToken::new();
    let giving_up = {
        let (store, token) = (store.clone(), token.clone());
        thread::spawn(move || {
            store
                .request("whole")
                .options(patient().cancel_token(&token))
                .wait()
                .map(drop)
        })
    };
    while store.queue_length() != 1 {
        thread::yield_now();
    }
    let behind = nodes(&store, "behind", "b1");
    token.cancel();
    assert!(matches!(
        giving_up.join().unwrap(),
        Err(LockError::Cancelled(_))
    ));
    behind.join().unwrap();
}

#[test]
fn node_locks_03_a_set_is_granted_completely_or_not_at_all() {
    let store = document();
    let locks = store.node_locks();
    let held = take(&store, "ann", Scope::new().write("b1"));
    let refused = locks.try_lock("bob", Scope::new().write("a1").write("b1"));
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("bob") && error.contains("of ann"), "{error}");
    assert!(
        !blocked(&store, Scope::new().write("a1")),
        "nothing is left of it"
    );
    drop(held);
    let both = locks.lock(
        "bob",
        [("a1", LockMode::NodeExclusive), ("b1", LockMode::Shared)],
    );
    assert_eq!(
        both.unwrap().id().to_string().split('-').next(),
        Some("lock")
    );
}

/// Random sets of 16 nodes by many threads, in no order: no deadlock, no timeout, no two holders of
/// one node.
#[test]
fn node_locks_03_sets_in_any_order_never_block_each_other() {
    const THREADS: u64 = 8;
    let rounds = if cfg!(debug_assertions) { 400 } else { 4_000 };
    let store = DataStore::new();
    let inside: Arc<Vec<AtomicU64>> = Arc::new((0..16).map(|_| AtomicU64::new(0)).collect());
    let threads = (1..=THREADS).map(|number| {
        let (locks, inside) = (store.node_locks(), Arc::clone(&inside));
        thread::spawn(move || {
            let mut dice = Dice(number);
            for _ in 0..rounds {
                let mut nodes: Vec<usize> =
                    (0..1 + dice.below(8)).map(|_| dice.below(16)).collect();
                let scope: Scope = nodes
                    .iter()
                    .map(|at| (format!("node {at}"), LockMode::Exclusive))
                    .map(|(id, mode)| (doclock::NodeId::from(id.as_str()), mode))
                    .collect();
                let guard = locks.request("worker", scope).wait().unwrap();
                nodes.sort_unstable();
                nodes.dedup();
                for &at in &nodes {
                    assert_eq!(
                        inside[at].swap(number, Ordering::Relaxed),
                        0,
                        "two on node {at}"
                    );
                }
                for &at in &nodes {
                    inside[at].store(0, Ordering::Relaxed);
                }
                drop(guard);
            }
        })
    });
    threads
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let stats = store.node_locks().stats();
    assert_eq!(
        (stats.total_timeouts, stats.total_deadlocks, stats.entries),
        (0, 0, 0)
    );
    assert_eq!(stats.total_acquisitions, THREADS * rounds);
    until_waiting(&store.node_locks(), 0);
}
