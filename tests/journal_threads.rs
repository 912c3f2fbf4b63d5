//! The threads that write journals, which all stores of the process share. A separate binary,
//! because all threads of the process count.
#![cfg(target_os = "linux")]

#[path = "common/gated.rs"]
mod gated;

use std::fs;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use doclock::document::NodeSpec;
use doclock::durable::{Durability, DurableOptions};
use doclock::{DataStore, TransactionManager, dsl::*};
use gated::Gated;

/// How many stores are open.
const STORES: usize = 1_000;

const PATIENCE: Duration = Duration::from_secs(60);

/// Threads of concurrent tests would count.
static ALONE: Mutex<()> = Mutex::new(());

/// A store whose writes wait until the other end is gone, but for the one that numbers the open.
fn open_gated() -> (mpsc::Sender<bool>, DataStore) {
    let (gate, writes) = mpsc::channel();
    gate.send(true).unwrap();
    let options = DurableOptions::new().durability(Durability::Later);
    let store = DataStore::open_journal(Gated(writes), options).unwrap();
    (gate, store)
}

/// A store whose writes wait for nothing.
fn open() -> DataStore {
    open_gated().1
}

/// How many threads of the process write journals or wait to do so.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.trim() == "doclock-journal")
        .count()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: {} threads", threads());
        yield_now();
    }
}

fn commit(store: &DataStore) {
    let mut transaction = store.begin("ann").unwrap();
    transaction.create(NodeSpec::new("x")).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn durable_13_idle_stores_share_one_thread_and_no_store_has_none() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stores: Vec<_> = (0..STORES).map(|_| open()).collect();
    assert_eq!(threads(), 1);
    for _ in 0..3 {
        stores.iter().for_each(commit);
        let written = |store: &DataStore| store.wait_durable(store.version()).wait();
        assert!(stores.iter().all(|store| written(store).is_ok()));
    }
    until("idle stores", || threads() == 1);
    let report = stores[7].close().unwrap();
    assert_eq!((report.durable_version, report.commits), (3, 3));
    drop(stores);
    until("no store", || threads() == 0);
}

/// Twenty journals wait in a write; another one is acknowledged.
#[test]
fn durable_13_a_journal_that_blocks_keeps_no_other_store_waiting() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (gates, blocked): (Vec<_>, Vec<_>) = (0..20).map(|_| open_gated()).unzip();
    blocked.iter().for_each(commit);
    let free = open();
    let manager = TransactionManager::new(free.clone()).with_durability(Durability::Durable);
    manager.execute(create(NodeSpec::new("x"))).unwrap();
    commit(&free);
    free.wait_durable(free.version())
        .timeout(PATIENCE)
        .wait()
        .unwrap();
    until("blocked journals", || threads() >= 20);
    drop(gates);
    let versions = blocked
        .iter()
        .map(|store| store.close().unwrap().durable_version);
    assert!(versions.eq([1; 20]));
    drop((blocked, free, manager));
    until("no store", || threads() == 0);
}
