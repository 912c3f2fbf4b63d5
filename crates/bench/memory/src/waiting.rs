//! The memory of a request while it waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Builder, ScopedJoinHandle};
use std::time::Duration;

use doclock::dsl::{create, insert_text, text_node};
use doclock::{
    DataStore, NodeId, OwnerId, TransactionManager,
    lock::AcquireOptions,
    transaction::{Operation, TransactionError},
};
use serde::{Deserialize, Serialize};
use stats_alloc::Stats;

use crate::{ALLOCATOR, Result};

/// Enough for a wait; the system commits only used memory.
const STACK: usize = 64 * 1024;

pub struct Case {
    pub name: &'static str,
    pub note: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Guard,
    List,
}

pub const CASES: [Case; 2] = [
    Case {
        name: "guard request",
        note: "DataStore::lock",
        kind: Kind::Guard,
    },
    Case {
        name: "executed list",
        note: "TransactionManager::execute with a list of one operation",
        kind: Kind::List,
    },
];

/// The memory of one request.
#[derive(Serialize, Deserialize)]
pub struct Row {
    suite: String,
    pub case: String,
    subject: String,
    /// Bytes allocated from the requests until all wait, by threads that have waited before.
    value: f64,
    unit: String,
    /// The number of allocations.
    pieces: f64,
    /// Bytes of the operation batch, which the caller allocated before.
    list: f64,
    /// Bytes that a thread keeps after its first wait, for any lock.
    thread: f64,
    /// How many threads wait, if the machine refused more.
    pub waiting: usize,
}

pub fn heading(waiting: usize) {
    println!("\n== waiting ==");
    println!(
        "{waiting} threads wait for the lock. Of each request: the bytes allocated from asking"
    );
    println!(
        "until all wait, in how many pieces; the bytes of the list of operations, which the caller has"
    );
    println!(
        "allocated before; what each thread keeps from the first time that it ever waited, before.\n"
    );
    for case in &CASES {
        println!("  {:14}  {}", case.name, case.note);
    }
    println!(
        "\n{:14} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "case", "bytes", "pieces", "list", "thread", "waiting"
    );
}

impl Row {
    pub fn line(&self) -> String {
        format!(
            "{:14} {:>9.1} {:>9.2} {:>9.1} {:>9.1} {:>9}",
            self.case, self.value, self.pieces, self.list, self.thread, self.waiting
        )
    }
}

/// A thread's request, completely prepared.
struct Request {
    store: DataStore,
    owner: OwnerId,
    /// Runs it, unless the request is for a guard.
    manager: TransactionManager,
    list: Option<Vec<Operation>>,
}

impl Request {
    /// Requests, waits, and ends.
    fn make(self) -> std::result::Result<(), TransactionError> {
        let options = AcquireOptions::new().no_timeout();
        match self.list {
            Some(list) => self
                .manager
                .transaction(list)
                .options(options)
                .commit()
                .map(drop),
            None => Ok(self
                .store
                .request(&self.owner)
                .options(options)
                .wait()
                .map(drop)?),
        }
    }
}

pub fn measured(case: &Case, waiting: usize) -> Result<Row> {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let created = manager.execute([create(text_node("inline-text", ""))])?;
    let text = created.operations[0].created.first().ok_or("no text")?;
    let mut lists = Vec::with_capacity(waiting);
    let before = ALLOCATOR.stats();
    if case.kind == Kind::List {
        lists.extend((0..waiting).map(|_| list(text)));
    }
    let listed = ALLOCATOR.stats() - before;
    let mut lists = lists.into_iter();
    let requests = (0..waiting).map(|_| Request {
        store: store.clone(),
        owner: manager.owner().clone(),
        manager: manager.clone(),
        list: lists.next(),
    });
    let holder = store.lock("holder")?;
    let gates = Gates::default();
    let (started, first, grown) = thread::scope(|scope| -> Result<_> {
        let threads = started(scope, &gates, requests);
        gates.first.await_arrivals(threads.len());
        let new = ALLOCATOR.stats();
        gates.first.open();
        gates.second.await_arrivals(threads.len());
        let ready = ALLOCATOR.stats();
        gates.second.open();
        while store.queue_length() < threads.len() {
            thread::sleep(Duration::from_millis(1));
        }
        let grown = ALLOCATOR.stats() - ready;
        drop(holder);
        let started = threads.len();
        for thread in threads {
            thread.join().map_err(|_| "a waiting thread panicked")??;
        }
        Ok((started, ready - new, grown))
    })?;
    Ok(Row {
        suite: "waiting".into(),
        case: case.name.into(),
        subject: "doclock".into(),
        value: per(started, bytes(&grown)),
        unit: "bytes/request".into(),
        pieces: per(
            started,
            grown.allocations as f64 - grown.deallocations as f64,
        ),
        list: per(waiting, bytes(&listed)),
        thread: per(started, bytes(&first)),
        waiting: started,
    })
}

fn list(text: &NodeId) -> Vec<Operation> {
    vec![insert_text(0, "x").on(text)]
}

fn bytes(stats: &Stats) -> f64 {
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}

fn per(count: usize, figure: f64) -> f64 {
    (figure / count as f64 * 100.0).round() / 100.0
}

type Waiter<'scope> = ScopedJoinHandle<'scope, std::result::Result<(), TransactionError>>;

/// A thread for each request, or as many as the machine allows. They wait for some lock behind the
/// first gate, and make their requests behind the second.
fn started<'scope, 'env: 'scope>(
    scope: &'scope thread::Scope<'scope, 'env>,
    gates: &'env Gates,
    requests: impl Iterator<Item = Request>,
) -> Vec<Waiter<'scope>> {
    requests
        .map_while(|request| {
            let wait = move || {
                gates.first.pass();
                wait_once();
                gates.second.pass();
                request.make()
            };
            let builder = Builder::new().stack_size(STACK);
            builder.spawn_scoped(scope, wait).ok()
        })
        .collect()
}

/// Waits for a lock of its own until a timeout, so the thread has all it needs for a wait.
fn wait_once() {
    let store = DataStore::new();
    let _held = store
        .request("holder")
        .options(AcquireOptions::new().unbound())
        .wait();
    let options = AcquireOptions::new().timeout(Duration::from_millis(1));
    let _timeout = store.request("waiter").options(options).wait();
}

#[derive(Default)]
struct Gates {
    first: Gate,
    second: Gate,
}

/// Blocks threads until all have arrived.
#[derive(Default)]
struct Gate {
    arrived: AtomicUsize,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = self.opened.wait_while(open, |open| !*open);
        drop(passed);
    }

    fn await_arrivals(&self, count: usize) {
        while self.arrived.load(Ordering::Relaxed) < count {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }
}
