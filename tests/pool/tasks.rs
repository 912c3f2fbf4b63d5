//! Requests of tasks: an open in a thread of its own, dropped futures, tasks that are not polled.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use doclock::DataStore;
use doclock::pool::{Documents, PoolOptions};

use crate::common::{Task, eventually};
use crate::{Count, Counted, in_memory, stays};

/// A pool of documents whose opens wait for a message, or for the drop of the sender.
fn gated(most_open: usize) -> (Documents<Counted>, Count, mpsc::Sender<()>) {
    let (opens, gate) = mpsc::channel();
    let (gate, count) = (Mutex::new(gate), Count::default());
    let opened = count.clone();
    let documents = Documents::new(PoolOptions::new(most_open).timeout(None), move |_| {
        let _ = gate.lock().unwrap().recv();
        Ok((DataStore::new(), opened.open()))
    });
    (documents, count, opens)
}

#[test]
fn pool_09_a_future_that_is_dropped_during_the_open_leaves_the_document_idle() {
    let (documents, count, gate) = gated(1);
    let opens = Task::waiting(documents.get("notes"));
    let mut behind = Task::waiting(documents.get("notes"));
    eventually("it is being opened", || documents.snapshot().opening == 1);
    drop(opens);
    assert!(behind.poll().is_none());
    gate.send(()).unwrap();
    let behind = behind.finish().unwrap();
    assert_eq!((behind.name(), count.opens()), ("notes", 1));
    drop(behind);
    eventually("it is idle", || documents.snapshot().in_use == 0);
    assert_eq!((documents.snapshot().open, count.now()), (1, 1));
    assert!(Task::new(documents.get("notes")).poll().is_some());
}

#[test]
fn pool_09_a_future_that_is_dropped_while_it_waits_leaves_no_trace() {
    let (documents, count) = in_memory(1);
    let held = documents.get("held").wait().unwrap();
    let by_slot = Task::waiting(documents.get("a"));
    let by_name = Task::waiting(documents.get("a"));
    let other = Task::waiting(documents.get("b"));
    drop(by_name);
    drop(by_slot);
    assert_eq!(documents.snapshot().waiting, 1);
    drop(held);
    drop(other.finish().unwrap());
    // A slot that was granted and not taken is granted to the next.
    let held = documents.get("b").wait().unwrap();
    let granted = Task::waiting(documents.get("a"));
    let next = Task::waiting(documents.get("c"));
    drop(held);
    eventually("it is granted", || granted.is_woken());
    drop(granted);
    assert_eq!(next.finish().unwrap().name(), "c");
    assert_eq!((count.opens(), documents.snapshot().waiting), (3, 0));
}

#[test]
fn pool_09_a_future_does_nothing_before_its_first_poll() {
    let (documents, count) = in_memory(1);
    drop(documents.get("notes").into_future());
    drop(documents.close("notes").into_future());
    assert_eq!(count.opens(), 0);
}

#[test]
fn pool_09_the_last_handle_waits_for_an_open_whose_future_was_dropped() {
    let (documents, count, gate) = gated(1);
    let opens = Task::waiting(documents.get("notes"));
    eventually("it is being opened", || documents.snapshot().opening == 1);
    drop(opens);
    let end = std::thread::spawn(move || drop(documents));
    stays("it waits for the open", || !end.is_finished());
    gate.send(()).unwrap();
    end.join().unwrap();
    assert_eq!((count.opens(), count.now()), (1, 0));
}

/// The pool never waits for the name of a document that it closes: a task that is not polled may
/// have it.
#[test]
fn pool_09_a_task_that_is_not_polled_keeps_no_idle_document_open() {
    let (documents, count, gate) = gated(1);
    let opens = Task::waiting(documents.get("a"));
    let mut not_polled = Task::waiting(documents.get("a"));
    gate.send(()).unwrap();
    drop(opens.finish().unwrap());
    // It has the name now, and does not know.
    assert!(not_polled.is_woken());
    drop(gate);
    drop(
        documents
            .get("b")
            .timeout(Duration::from_secs(30))
            .wait()
            .unwrap(),
    );
    assert_eq!((count.opens(), count.most()), (2, 1));
    let a = not_polled.poll();
    let a = a.unwrap_or_else(|| not_polled.finish());
    assert_eq!(a.unwrap().name(), "a");
}
