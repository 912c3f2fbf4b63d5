//! The threads that write journals, which all stores of the process share. A separate binary,
//! because all threads of the process count.
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use doclock::document::NodeSpec;
use doclock::durable::{
    Durability, DurableOptions, Journal, JournalError, JournalWrite, StoredPart,
};
use doclock::{DataStore, TransactionManager, dsl::*};

/// How many stores are open.
const STORES: usize = 1_000;

const PATIENCE: Duration = Duration::from_secs(60);

/// Threads of concurrent tests would count.
static ALONE: Mutex<()> = Mutex::new(());

/// A journal that waits for the other end before each write but the first, which numbers the open.
struct Gate {
    opens: Option<mpsc::Receiver<()>>,
    writes: usize,
}

impl Journal for Gate {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, _: &JournalWrite) -> Result<(), JournalError> {
        self.writes += 1;
        if let Some(gate) = self.opens.as_ref().filter(|_| self.writes > 1) {
            // Nothing comes: it waits until the other end is gone.
            let _ = gate.recv();
        }
        Ok(())
    }
}

fn open(opens: Option<mpsc::Receiver<()>>) -> DataStore {
    let options = DurableOptions::new().durability(Durability::Later);
    DataStore::open_journal(Gate { opens, writes: 0 }, options).unwrap()
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
    let stores: Vec<_> = (0..STORES).map(|_| open(None)).collect();
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
    let (gates, blocked): (Vec<_>, Vec<_>) = (0..20)
        .map(|_| {
            let (gate, opens) = mpsc::channel();
            (gate, open(Some(opens)))
        })
        .unzip();
    blocked.iter().for_each(commit);
    let free = open(None);
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
