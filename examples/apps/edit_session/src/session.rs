//! The session: one store, writers, a reader that checks, and a replica that follows.

use std::error::Error;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock::{DataStore, Snapshot, View, document::NodeSpec, lock::LockStats};
use serde::Serialize;

use crate::reader;
use crate::replica::Replica;
use crate::stored::Stored;
use crate::walk::TEXT;

/// The work of one writing thread; it reports every transaction that ended.
pub type Worker<'a> = Box<dyn FnOnce(&DataStore, &Ended<'_>) -> Tally + Send + 'a>;

/// Called with the version of a transaction that was committed, or `None` if one was not.
pub type Ended<'a> = dyn Fn(Option<u64>) + Sync + 'a;

/// The results of transactions.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    pub committed: u64,
    /// Transactions that failed as planned.
    pub rolled_back: u64,
    /// Transactions that failed because another editor was faster.
    pub stale: u64,
    /// Committed transactions that undid or redid others.
    pub undone: u64,
    /// Undos and redos that had nothing left to change.
    pub without_effect: u64,
    /// Undos and redos that failed with a conflict.
    pub conflicts: u64,
    /// Any other failures.
    pub unexpected: u64,
    /// The first of these failures.
    #[serde(skip)]
    pub surprise: Option<String>,
}

impl Tally {
    pub fn surprise(&mut self, what: impl fmt::Display) {
        self.unexpected += 1;
        self.surprise.get_or_insert_with(|| what.to_string());
    }

    pub fn total(&self) -> u64 {
        let undos = self.without_effect + self.conflicts;
        self.committed + self.rolled_back + self.stale + undos + self.unexpected
    }

    fn and(self, other: Self) -> Self {
        Self {
            committed: self.committed + other.committed,
            rolled_back: self.rolled_back + other.rolled_back,
            stale: self.stale + other.stale,
            undone: self.undone + other.undone,
            without_effect: self.without_effect + other.without_effect,
            conflicts: self.conflicts + other.conflicts,
            unexpected: self.unexpected + other.unexpected,
            surprise: self.surprise.or(other.surprise),
        }
    }
}

/// The size of a document.
#[derive(Clone, Copy, Serialize)]
pub struct Size {
    pub nodes: usize,
    pub blocks: usize,
    pub characters: usize,
}

impl Size {
    fn of(document: &Snapshot) -> Self {
        let texts = document.nodes().filter(|node| node.kind() == TEXT);
        let lengths: Vec<_> = texts.map(|node| node.text().len()).collect();
        Self {
            nodes: document.len(),
            // The root does not count.
            blocks: (document.len() - lengths.len()).saturating_sub(1),
            characters: lengths.into_iter().sum(),
        }
    }
}

/// The results of a session.
pub struct Outcome {
    pub before: Size,
    pub after: Size,
    pub tally: Tally,
    pub elapsed: Duration,
    pub lock: LockStats,
    /// The final document.
    pub document: Snapshot,
    /// The number of versions after the import.
    pub versions: u64,
    /// The number of valid snapshots that the reader saw, or its error.
    pub read: Result<u64, String>,
    /// The document of the replica, or its error.
    pub replica: Result<Snapshot, String>,
    /// The file that keeps the document, which was closed and opened again.
    pub stored: Option<Stored>,
}

/// Imports the document, if one is given, and runs the workers.
pub fn run(
    store: DataStore,
    mut stored: Option<Stored>,
    document: Option<NodeSpec>,
    workers: Vec<Worker<'_>>,
) -> Result<Outcome, Box<dyn Error>> {
    // The replica misses no commit. If it is more than a megabyte behind, the editors wait for it.
    let events = store.subscription().lossless(1 << 20).all();
    let replica = Replica::of(store.snapshot())?;
    let follower = thread::spawn(move || replica.follow(events));
    if let Some(document) = document {
        import(&store, document)?;
    }
    let before = store.snapshot();
    store.reset_lock_stats();

    let ended: &Ended<'_> = &|_| {};
    let done = AtomicBool::new(false);
    let started = Instant::now();
    let (tally, elapsed, read) = thread::scope(|scope| {
        let reader = scope.spawn(|| reader::watch(&store, &done));
        let store = &store;
        let spawned = workers
            .into_iter()
            .map(|worker| scope.spawn(move || worker(store, ended)));
        let writers: Vec<_> = spawned.collect();
        // All threads end before the first panic resumes; otherwise the reader would never stop.
        let tallies: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        let elapsed = started.elapsed();
        done.store(true, Ordering::Release);
        let tallies = tallies.into_iter().map(unwound);
        let tally = tallies.fold(Tally::default(), Tally::and);
        (tally, elapsed, unwound(reader.join()))
    });

    let document = store.snapshot();
    let lock = store.lock_stats();
    let closed = store.close();
    // The last handle: the end of the store ends the stream of events, and the replica is complete.
    drop(store);
    if let Some(stored) = &mut stored {
        stored.open_again(closed, &document);
    }
    Ok(Outcome {
        before: Size::of(&before),
        after: Size::of(&document),
        tally,
        elapsed,
        lock,
        versions: document.version() - before.version(),
        document,
        read,
        replica: unwound(follower.join()),
        stored,
    })
}

pub fn import(store: &DataStore, document: NodeSpec) -> Result<(), Box<dyn Error>> {
    let mut transaction = store.begin("import")?;
    let root = transaction.create(document)?;
    transaction.set_root(&root)?;
    transaction.commit()?;
    Ok(())
}

/// Resumes the panic of a joined thread.
fn unwound<T>(joined: thread::Result<T>) -> T {
    joined.unwrap_or_else(|panic| resume_unwind(panic))
}
