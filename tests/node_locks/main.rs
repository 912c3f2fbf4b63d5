//! The guarantees of node locks, by number.

mod deadlocks;
mod editors;
mod ends;
mod modes;
mod order;
mod outdated;
mod regressions;
mod retries;
mod stale;
mod transactions;
mod waits;
mod watch;

#[path = "../common/mod.rs"]
mod common;

use std::thread::{self, JoinHandle};

use doclock::{
    DataStore, NodeGuard, NodeId, NodeLocks, StoreOptions,
    document::NodeSpec,
    lock::{AcquireOptions, LockError, node::Scope},
    time::ManualClock,
};

/// Two sections with two paragraphs each, below the root: `a` with `a1` and `a2`, `b` with `b1` and
/// `b2`.
fn fill(store: &DataStore) {
    let mut transaction = store.begin("setup").unwrap();
    let paragraph = |id: &str| NodeSpec::new("paragraph").with_id(id).with_text(id);
    let section = |id: &str| {
        let paragraphs = ["1", "2"].map(|nth| paragraph(&format!("{id}{nth}")));
        NodeSpec::new("section")
            .with_id(id)
            .with_children(paragraphs)
    };
    let sections = ["a", "b"].map(section);
    let root = NodeSpec::new("document")
        .with_id("root")
        .with_children(sections);
    let root = transaction.create(root).unwrap();
    transaction.set_root(&root).unwrap();
    transaction.commit().unwrap();
}

fn document() -> DataStore {
    let store = DataStore::new();
    fill(&store);
    store
}

/// The same on a clock that the test moves.
fn timed() -> (DataStore, ManualClock) {
    timed_with(StoreOptions::new())
}

fn timed_with(options: StoreOptions) -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let store = DataStore::with_options(options.clock(clock.clock()));
    fill(&store);
    (store, clock)
}

/// Returns once exactly this many requests wait for nodes.
fn until_waiting(locks: &NodeLocks, count: usize) {
    while locks.stats().waiting != count {
        thread::yield_now();
    }
}

fn patient() -> AcquireOptions {
    AcquireOptions::new().no_timeout()
}

/// Requests in a separate thread, and returns once the request waits for nodes.
fn ask(
    store: &DataStore,
    owner: &'static str,
    scope: impl Into<Scope>,
) -> JoinHandle<Result<NodeGuard, LockError>> {
    ask_with(store, owner, scope, patient())
}

fn ask_with(
    store: &DataStore,
    owner: &'static str,
    scope: impl Into<Scope>,
    options: AcquireOptions,
) -> JoinHandle<Result<NodeGuard, LockError>> {
    let (locks, scope) = (store.node_locks(), scope.into());
    let waiting = locks.stats().waiting;
    let asking = {
        let locks = locks.clone();
        thread::spawn(move || locks.request(owner, scope).options(options).wait())
    };
    until_waiting(&locks, waiting + 1);
    asking
}

/// Acquires nodes in a thread that then ends, so one test can represent several owners.
fn take(store: &DataStore, owner: &str, scope: impl Into<Scope>) -> NodeGuard {
    let locks = store.node_locks();
    locks
        .request(owner, scope)
        .options(AcquireOptions::new().no_wait().unbound())
        .wait()
        .unwrap()
}

fn blocked(store: &DataStore, scope: impl Into<Scope>) -> bool {
    let options = AcquireOptions::new().no_wait().unbound();
    match store
        .node_locks()
        .request("probe", scope)
        .options(options)
        .wait()
    {
        Ok(_) => false,
        Err(LockError::WouldBlock { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

fn node(id: &str) -> NodeId {
    id.into()
}
