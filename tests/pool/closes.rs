//! Closing: idle documents, one document, the end of the pool, and what a close waits for.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use doclock::DataStore;
use doclock::codes::CodedError;
use doclock::durable::{Durability, DurableOptions};
use doclock::pool::{Documents, PoolError, PoolOptions};
use doclock::time::ManualClock;

use crate::common::{Task, eventually};
use crate::journal::Forgetful;
use crate::{add, counted, in_memory, open_names, stays};

#[test]
fn pool_08_a_document_is_closed_when_it_was_unused_for_long_enough() {
    let clock = ManualClock::new();
    let options = PoolOptions::new(4).clock(clock.clock());
    let (documents, count) = counted(options.idle_after(Duration::from_millis(50)));
    let used = documents.get("used").wait().unwrap();
    documents.get("a").wait().unwrap();
    clock.advance(Duration::from_millis(30));
    documents.get("b").wait().unwrap();
    clock.advance(Duration::from_millis(20));
    eventually("a is closed", || count.now() == 2);
    assert_eq!(open_names(&documents), ["b", "used"]);
    clock.advance(Duration::from_millis(30));
    eventually("b is closed", || count.now() == 1);
    drop(used);
    clock.advance(Duration::from_millis(50));
    eventually("the last one is closed", || count.now() == 0);
    // The thread has ended, and starts again.
    documents.get("a").wait().unwrap();
    clock.advance(Duration::from_millis(50));
    eventually("a is closed again", || count.now() == 0);
}

#[test]
fn pool_08_the_machine_clock_closes_idle_documents_too() {
    let (documents, count) = counted(PoolOptions::new(4).idle_after(Duration::from_millis(1)));
    let used = documents.get("used").wait().unwrap();
    documents.get("a").wait().unwrap();
    eventually("a is closed", || count.now() == 1);
    // The thread sleeps without a deadline now, or is about to.
    drop(used);
    eventually("the last one is closed", || count.now() == 0);
}

#[test]
fn pool_08_the_longest_idle_document_makes_room() {
    let (documents, _) = in_memory(3);
    for name in ["a", "b", "c", "a"] {
        documents.get(name).wait().unwrap();
    }
    documents.get("d").wait().unwrap();
    assert_eq!(open_names(&documents), ["a", "c", "d"]);
}

/// A pool of documents whose close waits for a message, or for the drop of the sender.
fn gated(most_open: usize) -> (Documents, mpsc::Sender<()>) {
    let (closes, gate) = mpsc::channel();
    let gates = Mutex::new(vec![gate]);
    let documents = Documents::new(PoolOptions::new(most_open).timeout(None), move |opening| {
        let close = match opening.name() {
            "gated" => gates.lock().unwrap().pop(),
            _ => None,
        };
        let journal = Forgetful {
            close,
            ..Forgetful::default()
        };
        Ok((DataStore::open_journal(journal, DurableOptions::new())?, ()))
    });
    (documents, closes)
}

#[test]
fn pool_08_a_waiting_request_closes_one_idle_document() {
    let (documents, gate) = gated(2);
    documents.get("gated").wait().unwrap();
    documents.get("b").wait().unwrap();
    let mut c = Task::waiting(documents.get("c"));
    eventually("it is being closed", || documents.snapshot().closing == 1);
    let snapshot = documents.snapshot();
    assert_eq!((snapshot.open, snapshot.waiting), (1, 1));
    assert!(c.poll().is_none());
    gate.send(()).unwrap();
    c.finish().unwrap();
    assert_eq!(open_names(&documents), ["b", "c"]);
}

#[test]
fn pool_08_a_waiting_request_gets_the_slot_of_a_document_that_is_closed_anyway() {
    let (documents, gate) = gated(2);
    documents.get("gated").wait().unwrap();
    documents.get("b").wait().unwrap();
    let close = Task::waiting(documents.close("gated"));
    eventually("it is being closed", || documents.snapshot().closing == 1);
    let mut c = Task::waiting(documents.get("c"));
    stays("b is not closed", || {
        c.poll().is_none() && open_names(&documents) == ["b"]
    });
    gate.send(()).unwrap();
    c.finish().unwrap();
    drop(close.finish().unwrap());
    assert_eq!(open_names(&documents), ["b", "c"]);
}

/// The one thread that closes documents was busy with the first.
#[test]
fn pool_08_idle_documents_make_room_beside_a_close_that_takes_long() {
    let (documents, gate) = gated(2);
    documents.get("gated").wait().unwrap();
    documents.get("b").wait().unwrap();
    let mut c = Task::waiting(documents.get("c"));
    eventually("it is being closed", || documents.snapshot().closing == 1);
    let d = Task::waiting(documents.get("d"));
    eventually("b makes room", || c.poll().is_some());
    assert_eq!(open_names(&documents), ["c"]);
    gate.send(()).unwrap();
    d.finish().unwrap();
}

type Results = mpsc::Sender<Result<(), PoolError>>;

/// Gets another document when its own is closed.
struct AtClose(Option<(Documents<Self>, Results)>);

impl Drop for AtClose {
    fn drop(&mut self) {
        if let Some((documents, results)) = self.0.take() {
            let got = documents.get("log").wait();
            results.send(got.map(drop)).unwrap();
        }
    }
}

/// It waited for a slot that only its own end could return, until its timeout.
#[test]
fn pool_06_code_in_a_close_gets_another_document_of_a_full_pool() {
    let closes: [fn(&Documents<AtClose>); 3] = [
        |documents| drop(documents.get("c").wait().unwrap()),
        |documents| drop(documents.close("a").wait().unwrap()),
        // In threads of their own.
        |documents| {
            let close = Task::waiting(documents.close("a"));
            let c = Task::waiting(documents.get("c"));
            drop(c.finish().unwrap());
            drop(close.finish().unwrap());
        },
    ];
    for close in closes {
        let at_close = Arc::new(Mutex::new(None));
        let taken = Arc::clone(&at_close);
        let options = PoolOptions::new(2).timeout(Duration::from_secs(10));
        let documents = Documents::new(options, move |opening| {
            let at_close = match opening.name() {
                "a" => taken.lock().unwrap().take(),
                _ => None,
            };
            Ok((DataStore::new(), AtClose(at_close)))
        });
        let (results, got) = mpsc::channel();
        *at_close.lock().unwrap() = Some((documents.clone(), results));
        documents.get("a").wait().unwrap();
        documents.get("b").wait().unwrap();
        close(&documents);
        got.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
    }
}

#[test]
fn pool_02_a_document_is_opened_again_after_its_close() {
    let (documents, gate) = gated(2);
    documents.get("gated").wait().unwrap();
    let closes = Task::waiting(documents.close_idle(Duration::ZERO));
    eventually("it is being closed", || documents.snapshot().closing == 1);
    // A slot is free, but its file is open.
    let mut again = Task::waiting(documents.get("gated"));
    stays("it waits for the close", || again.poll().is_none());
    let limit = Duration::from_millis(1);
    let late = documents.get_existing("gated").timeout(limit).wait();
    assert_eq!(late.unwrap_err().code(), "documentBusy");
    gate.send(()).unwrap();
    assert_eq!(closes.finish().unwrap(), 1);
    again.finish().unwrap();
}

#[test]
fn pool_02_a_close_of_idle_documents_waits_for_those_of_the_pool() {
    let (documents, gate) = gated(1);
    documents.get("gated").wait().unwrap();
    let b = Task::waiting(documents.get("b"));
    eventually("it is being closed", || documents.snapshot().closing == 1);
    drop(b);
    let mut closes = Task::waiting(documents.close_idle(Duration::ZERO));
    stays("it waits for the close", || closes.poll().is_none());
    gate.send(()).unwrap();
    assert_eq!(closes.finish().unwrap(), 0);
    assert_eq!(documents.snapshot().closing, 0);
}

#[test]
fn pool_08_documents_that_are_unused_for_so_long_are_closed_by_a_call() {
    let clock = ManualClock::new();
    let (documents, count) = counted(PoolOptions::new(4).clock(clock.clock()));
    let used = documents.get("used").wait().unwrap();
    documents.get("a").wait().unwrap();
    clock.advance(Duration::from_secs(60));
    documents.get("b").wait().unwrap();
    assert_eq!(
        documents
            .close_idle(Duration::from_secs(61))
            .wait()
            .unwrap(),
        0
    );
    assert_eq!(
        documents
            .close_idle(Duration::from_secs(60))
            .wait()
            .unwrap(),
        1
    );
    assert_eq!(open_names(&documents), ["b", "used"]);
    let task = Task::new(documents.close_idle(Duration::ZERO));
    assert_eq!((task.finish().unwrap(), count.now()), (1, 1));
    drop(used);
}

#[test]
fn pool_03_a_document_in_use_is_not_closed_by_its_name() {
    let (documents, count) = in_memory(4);
    let notes = documents.get("notes").wait().unwrap();
    let second = notes.clone();
    let error = documents.close("notes").wait().unwrap_err();
    assert!(
        matches!(error, PoolError::InUse { uses: 2, .. }),
        "{error:?}"
    );
    drop((notes, second));
    let closed = documents.close("notes").wait().unwrap();
    assert_eq!((closed.name(), count.now()), ("notes", 0));
    let waits = Task::waiting(documents.get("notes"));
    drop(closed);
    assert!(waits.finish().is_ok());
    // One that is not open is granted as well, in a task too.
    let closed = Task::new(documents.close("letters")).finish().unwrap();
    assert_eq!(closed.name(), "letters");
}

#[test]
fn pool_02_a_dropped_close_keeps_the_name_until_the_file_is_closed() {
    let (documents, gate) = gated(4);
    documents.get("gated").wait().unwrap();
    let close = Task::waiting(documents.close("gated"));
    eventually("it is being closed", || documents.snapshot().closing == 1);
    drop(close);
    let mut again = Task::waiting(documents.get("gated"));
    assert!(again.poll().is_none());
    gate.send(()).unwrap();
    again.finish().unwrap();
}

#[test]
fn pool_05_a_failed_close_is_reported_and_returned() {
    let journal = Forgetful::default();
    let fails = Arc::clone(&journal.fails);
    let journals = Mutex::new(vec![Forgetful::default(), journal]);
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&reports);
    let options = PoolOptions::new(4).on_close_error(move |name, error| {
        reported
            .lock()
            .unwrap()
            .push((name.to_owned(), error.clone()));
        panic!("a panic of it is caught");
    });
    let documents = Documents::new(options, move |_| {
        let journal = journals.lock().unwrap().pop().ok_or("no more journals")?;
        let options = DurableOptions::new().durability(Durability::Later);
        Ok((DataStore::open_journal(journal, options)?, ()))
    });
    let notes = documents.get("notes").wait().unwrap();
    fails.store(true, Ordering::SeqCst);
    let _ = add(&notes, "p");
    drop(notes);
    let error = documents.close_idle(Duration::ZERO).wait().unwrap_err();
    let PoolError::Close { name, cause } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(
        reports.lock().unwrap().as_slice(),
        [(name.clone(), cause.clone())]
    );
    assert_eq!((name.as_str(), documents.snapshot().open), ("notes", 0));
    documents.get("notes").wait().unwrap();
}

#[test]
fn pool_03_the_drop_of_the_last_handle_closes_all_documents() {
    let folder = tempfile::tempdir().unwrap();
    let documents = Documents::in_folder(folder.path(), PoolOptions::new(4));
    let names = ["a", "b", "c"];
    for name in names {
        add(&documents.get(name).wait().unwrap(), "p").unwrap();
    }
    // A document is a handle, too.
    let last = documents.get("a").wait().unwrap();
    drop(documents);
    add(&last, "q").unwrap();
    drop(last);
    for (name, nodes) in names.into_iter().zip([2, 1, 1]) {
        let store = DataStore::open(folder.path().join(format!("{name}.doclock"))).unwrap();
        assert_eq!(store.snapshot().len(), nodes);
    }
}
