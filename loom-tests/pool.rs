//! Races of a pool: for one slot, and for a document that is closed.
//!
//! The documents are in memory. The thread of the pool that closes documents is an actor.

use std::sync::{Arc, Mutex};

use doclock::DataStore;
use doclock::lock::PendingRequest;
use doclock::pool::{DocumentRequest, Documents, PoolError, PoolOptions};
use loom::thread;

use crate::model::{Model, Run};

/// What was opened and closed, in order. Not loom's: it only records.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<String>>>);

/// Beside each store: its drop is the end of the close.
struct Beside(Record, String);

impl Record {
    fn push(&self, event: String) {
        self.0.lock().unwrap().push(event);
    }

    /// The names in the order of their opens. Each one was closed before the next was opened.
    fn opens(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let (pairs, rest) = events.as_chunks::<2>();
        assert!(rest.is_empty(), "{events:?}");
        for [open, close] in pairs {
            assert_eq!(*close, format!("-{open}"), "{events:?}");
        }
        pairs.iter().map(|[open, _]| open.clone()).collect()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.push(format!("-{}", self.1));
    }
}

/// A pool with one slot.
fn pool(record: &Record) -> Documents<Beside> {
    let record = record.clone();
    Documents::new(PoolOptions::new(1).timeout(None), move |opening| {
        let name = opening.name().to_owned();
        record.push(name.clone());
        Ok((DataStore::new(), Beside(record.clone(), name)))
    })
}

/// Gets and drops two documents that take turns in one slot. Without the closer, only the first of
/// them: the wait for the other would not end.
fn take_turns(run: &Run, documents: Documents<Beside>) {
    let closer = run.spawn("closer", documents.closer_thread());
    let other = documents.clone();
    let other = move || drop(other.get("b").wait().unwrap());
    let other = run.has("closer").then(|| thread::spawn(other));
    drop(documents.get("a").wait().unwrap());
    if let Some(other) = other {
        other.join().unwrap();
    }
    at_rest(&documents);
    drop(documents);
    closer.join();
}

fn at_rest(documents: &Documents<Beside>) {
    let snapshot = documents.snapshot();
    let counts = [
        snapshot.in_use,
        snapshot.opening,
        snapshot.closing,
        snapshot.waiting,
    ];
    assert_eq!(counts, [0; 4]);
}

#[test]
fn pool_two_documents_take_turns_in_one_slot() {
    let model = Model::new("pool: two documents in one slot", 3)
        .reaches_by("closer", "a, b")
        .reaches_by("closer", "b, a");
    model.check(|run| {
        let record = Record::default();
        take_turns(run, pool(&record));
        match record.opens().join(", ").as_str() {
            "a, b" => run.note("a, b"),
            "b, a" => run.note("b, a"),
            opens => assert!(!run.has("closer"), "{opens}"),
        }
    });
}

#[test]
fn pool_a_request_against_the_close_of_its_idle_document() {
    let model = Model::new("pool: request against the close of its idle document", 3)
        .reaches(["used before its close"])
        .reaches_by("closer", "opened again after the other")
        .reaches_by("closer", "opened again before the other");
    model.check(|run| {
        let record = Record::default();
        let documents = pool(&record);
        documents.get("a").wait().map(drop).unwrap();
        take_turns(run, documents);
        match record.opens().join(", ").as_str() {
            "a, b" | "a" => run.note("used before its close"),
            "a, b, a" => run.note("opened again after the other"),
            "a, a, b" => run.note("opened again before the other"),
            opens => panic!("{opens}"),
        }
    });
}

#[test]
fn pool_a_request_against_a_close_by_name() {
    let model = Model::new("pool: request against a close by name", None)
        .reaches(["used"])
        .reaches_by("closer", "refused")
        .reaches_by("closer", "opened again");
    model.check(|run| {
        let record = Record::default();
        let documents = pool(&record);
        documents.get("a").wait().map(drop).unwrap();
        let closer = run.spawn("closer", {
            let (documents, record) = (documents.clone(), record.clone());
            move || match documents.close("a").wait() {
                Ok(closed) => {
                    let before = record.0.lock().unwrap().len();
                    thread::yield_now();
                    let after = record.0.lock().unwrap().len();
                    assert_eq!((before, after), (2, 2), "it stays closed");
                    drop(closed);
                    true
                }
                Err(PoolError::InUse { uses: 1, .. }) => false,
                Err(error) => panic!("{error:?}"),
            }
        });
        let document = documents.get("a").wait().unwrap();
        assert_eq!(
            record.0.lock().unwrap().len() % 2,
            1,
            "it is open while it is in use"
        );
        drop(document);
        let was_closed = closer.join();
        drop(documents);
        match (was_closed, record.opens().len()) {
            (Some(false), 1) => run.note("refused"),
            (_, 1) => run.note("used"),
            (_, 2) => run.note("opened again"),
            other => panic!("{other:?}"),
        }
    });
}

/// A request that may not wait closes the idle document itself.
#[test]
fn pool_a_request_against_the_taker_of_its_slot() {
    let model = Model::new("pool: request against the taker of its slot", None)
        .reaches(["used"])
        .reaches_by("taker", "taken after its use")
        .reaches_by("taker", "taken before its use")
        .reaches_by("taker", "taken, and refused");
    model.check(|run| {
        let record = Record::default();
        let documents = pool(&record);
        documents.get("a").wait().map(drop).unwrap();
        let get = |documents: &Documents<Beside>, name: &str| match documents
            .get(name)
            .no_wait()
            .wait()
        {
            Ok(document) => {
                drop(document);
                true
            }
            Err(PoolError::AllInUse { .. } | PoolError::Busy { .. }) => false,
            Err(error) => panic!("{error:?}"),
        };
        let taker = documents.clone();
        let taker = run.spawn("taker", move || get(&taker, "b"));
        let was_granted = get(&documents, "a");
        let was_taken = taker.join().unwrap_or_default();
        at_rest(&documents);
        drop(documents);
        match (was_granted, was_taken, record.opens().join(", ").as_str()) {
            (true, false, "a") => run.note("used"),
            (true, true, "a, b") => run.note("taken after its use"),
            (true, true, "a, b, a") => run.note("taken before its use"),
            (false, true, "a, b") => run.note("taken, and refused"),
            other => panic!("{other:?}"),
        }
    });
}
