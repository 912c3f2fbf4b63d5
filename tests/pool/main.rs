//! A pool of documents: opened on demand, closed when idle, with a bound.

#![cfg(all(feature = "redb", not(loom)))]

#[path = "../tasks/common.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod common;
#[path = "../common/dice.rs"]
#[allow(dead_code, reason = "its random changes of JSON are not needed here")]
mod dice;

mod closes;
mod failures;
mod gets;
mod journal;
mod names;
mod random;
mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doclock::lock::AcquireOptions;
use doclock::pool::{Document, Documents, PoolOptions};
use doclock::{CommitError, DataStore, document::NodeSpec};

/// Counts the documents that are open at a time, and all opens.
#[derive(Clone, Default)]
struct Count(Arc<[AtomicUsize; 3]>);

/// Beside each store: a document counts until this is dropped.
struct Counted(Count);

impl Count {
    fn open(&self) -> Counted {
        let [open, most, opens] = &*self.0;
        most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        opens.fetch_add(1, Ordering::SeqCst);
        Counted(self.clone())
    }

    fn now(&self) -> usize {
        self.0[0].load(Ordering::SeqCst)
    }

    /// The most that were open at a time.
    fn most(&self) -> usize {
        self.0[1].load(Ordering::SeqCst)
    }

    fn opens(&self) -> usize {
        self.0[2].load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0[0].fetch_sub(1, Ordering::SeqCst);
    }
}

/// A pool of documents in memory that are counted.
fn counted(options: PoolOptions) -> (Documents<Counted>, Count) {
    let count = Count::default();
    let opened = count.clone();
    let documents = Documents::new(options, move |_| Ok((DataStore::new(), opened.open())));
    (documents, count)
}

/// A pool of at most so many documents in memory. Its requests wait without limit.
fn in_memory(most_open: usize) -> (Documents<Counted>, Count) {
    counted(PoolOptions::new(most_open).timeout(None))
}

/// Adds a node with this id.
fn add(store: &DataStore, id: &str) -> Result<(), CommitError> {
    let options = AcquireOptions::new().timeout(Duration::from_secs(60));
    let request = store.request_transaction("editor").options(options);
    let mut transaction = request.wait().expect("an edit takes less than a minute");
    transaction
        .create(NodeSpec::new("paragraph").with_id(id))
        .expect("each id is created once");
    transaction.commit().map(drop)
}

/// Looks a thousand times, so that other threads run in between.
fn stays(what: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        assert!(is_true(), "{what}");
        std::thread::yield_now();
    }
}

/// The names of the open documents.
fn open_names<T: Send + Sync + 'static>(documents: &Documents<T>) -> Vec<String> {
    let listed = documents.snapshot().documents.into_iter();
    listed.map(|document| document.name).collect()
}

/// Whether both are the same open document.
fn is_same(one: &Document<Counted>, other: &Document<Counted>) -> bool {
    std::ptr::eq(one.data(), other.data())
}
