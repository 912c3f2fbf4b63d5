//! Requests for documents: the bound, one open at a time, order, timeouts.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use doclock::DataStore;
use doclock::codes::{CodedError, Retry};
use doclock::lock::{CancelToken, LockError};
use doclock::pool::{Documents, PoolError, PoolOptions};
use doclock::time::ManualClock;

use crate::common::Task;
use crate::{add, counted, in_memory, is_same, open_names};

#[test]
fn pool_01_idle_documents_make_room_within_the_bound() {
    let (documents, count) = in_memory(2);
    for name in ["a", "b", "c", "d", "a"] {
        documents.get(name).wait().unwrap();
    }
    assert_eq!((count.opens(), count.most(), count.now()), (5, 2, 2));
    let snapshot = documents.snapshot();
    assert_eq!(
        (snapshot.most_open, snapshot.open, snapshot.in_use),
        (2, 2, 0)
    );
    assert_eq!(
        (snapshot.opening, snapshot.closing, snapshot.waiting),
        (0, 0, 0)
    );
}

#[test]
fn pool_01_a_bound_of_zero_counts_as_one() {
    let (documents, count) = in_memory(0);
    documents.get("a").wait().unwrap();
    documents.get("b").wait().unwrap();
    assert_eq!(count.most(), 1);
}

#[test]
fn pool_02_requests_for_one_document_open_it_once() {
    let (documents, count) = in_memory(4);
    let together = Barrier::new(8);
    let opened: Vec<_> = thread::scope(|threads| {
        let get = || {
            together.wait();
            documents.get("notes").wait().unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| threads.spawn(get)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(count.opens(), 1);
    assert!(opened.iter().all(|document| is_same(document, &opened[0])));
    assert_eq!(documents.snapshot().documents[0].uses, 8);
}

#[test]
fn pool_02_requests_for_other_documents_do_not_wait_for_an_open() {
    let (opens, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let documents = Documents::new(PoolOptions::new(2).timeout(None), move |opening| {
        if opening.name() == "slow" {
            let _ = blocked.lock().unwrap().recv();
        }
        Ok((DataStore::new(), ()))
    });
    let slow = Task::waiting(documents.get("slow"));
    assert_eq!(documents.get("fast").wait().unwrap().name(), "fast");
    drop(opens);
    assert_eq!(slow.finish().unwrap().name(), "slow");
}

#[test]
fn pool_03_a_document_in_use_is_not_closed() {
    let (documents, count) = in_memory(1);
    let notes = documents.get("notes").wait().unwrap();
    let copy = notes.clone();
    drop(notes);
    let mut other = Task::waiting(documents.get("letters"));
    assert_eq!(documents.close_idle(Duration::ZERO).wait().unwrap(), 0);
    add(&copy, "p").unwrap();
    assert_eq!(copy.snapshot().len(), 1);
    assert!(other.poll().is_none());
    assert_eq!(
        (count.opens(), open_names(&documents)),
        (1, vec!["notes".to_owned()])
    );
    drop(copy);
    assert_eq!(other.finish().unwrap().name(), "letters");
}

#[test]
fn pool_04_requests_for_a_slot_are_granted_in_order() {
    let (documents, _) = in_memory(1);
    let held = documents.get("held").wait().unwrap();
    // Threads and tasks have one queue. The thread in the middle is the second.
    let first = Task::waiting(documents.get("first"));
    let waiting = |count| {
        while documents.snapshot().waiting < count {
            thread::yield_now();
        }
    };
    thread::scope(|threads| {
        let second = threads.spawn(|| documents.get("second").wait().unwrap());
        waiting(2);
        let mut third = Task::waiting(documents.get("third"));
        waiting(3);
        drop(held);
        let first = first.finish().unwrap();
        assert!(!second.is_finished() && third.poll().is_none());
        drop(first);
        let second = second.join().unwrap();
        assert!(third.poll().is_none());
        drop(second);
        assert_eq!(third.finish().unwrap().name(), "third");
    });
}

#[test]
fn pool_04_a_wait_for_a_slot_ends_at_its_timeout_with_evidence() {
    let clock = ManualClock::new();
    let options = PoolOptions::new(1).clock(clock.clock());
    let (documents, _) = counted(options.timeout(Duration::from_millis(200)));
    let _held = documents.get("held").wait().unwrap();
    let mut late = Task::waiting(documents.get("late"));
    clock.advance(Duration::from_millis(199));
    assert!(late.poll().is_none());
    clock.advance(Duration::from_millis(1));
    let error = late.finish().unwrap_err();
    assert_eq!((error.code(), error.retry()), ("poolFull", Retry::Later));
    assert_eq!(
        error.to_string(),
        "document late was not opened within 200ms, because all 1 documents that may be open are \
         in use: call to open documents timed out after 200ms: queue position 1, 1 of 1 slots \
         taken, 1 call waiting",
    );
    assert_eq!(documents.snapshot().waiting, 0);
}

#[test]
fn pool_04_a_wait_for_a_name_ends_at_its_timeout_with_evidence() {
    let clock = ManualClock::new();
    let (documents, _) = counted(PoolOptions::new(1).clock(clock.clock()).timeout(None));
    let closed = documents
        .close("notes")
        .label("moves the file")
        .wait()
        .unwrap();
    let limit = Duration::from_millis(200);
    let late = Task::waiting(documents.get("notes").timeout(limit));
    clock.advance(limit);
    match late.finish() {
        Err(PoolError::Busy {
            name,
            waited,
            cause,
        }) => {
            assert_eq!((name.as_str(), waited), ("notes", limit));
            let LockError::Timeout(evidence) = *cause else {
                panic!("{cause}");
            };
            assert_eq!(evidence.holder.label.as_deref(), Some("moves the file"));
            assert!(evidence.holder.call_site.file.ends_with("gets.rs"));
        }
        other => panic!("{other:?}"),
    }
    drop(closed);
}

#[test]
fn pool_04_all_waits_of_a_request_have_one_deadline() {
    let clock = ManualClock::new();
    let (documents, _) = counted(PoolOptions::new(1).clock(clock.clock()).timeout(None));
    let _held = documents.get("held").wait().unwrap();
    // The first request has the name and waits for a slot, the second waits for the name.
    let ahead = Task::waiting(documents.get("notes"));
    let mut late = Task::waiting(documents.get("notes").timeout(Duration::from_millis(100)));
    clock.advance(Duration::from_millis(60));
    drop(ahead);
    assert!(late.is_woken() && late.poll().is_none(), "it has the name");
    clock.advance(Duration::from_millis(39));
    assert!(late.poll().is_none());
    clock.advance(Duration::from_millis(1));
    match late.finish() {
        Err(PoolError::AllInUse { waited, .. }) => assert_eq!(waited, Duration::from_millis(100)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pool_04_a_request_that_may_not_wait_gets_what_is_free() {
    let (documents, count) = in_memory(1);
    let held = documents.get("held").no_wait().wait().unwrap();
    assert!(documents.get("held").no_wait().wait().is_ok());
    let refused = documents.get("other").no_wait().wait().unwrap_err();
    assert!(matches!(refused, PoolError::AllInUse { .. }), "{refused:?}");
    // An idle document makes room.
    drop(held);
    drop(documents.get("other").no_wait().wait().unwrap());
    let third = Task::new(documents.get("third").no_wait())
        .finish()
        .unwrap();
    assert_eq!((count.opens(), count.most()), (3, 1));
    // It does not get the slot before a request that waits.
    let ahead = Task::waiting(documents.get("ahead"));
    let refused = documents.get("other").no_wait().wait().unwrap_err();
    assert!(matches!(refused, PoolError::AllInUse { .. }), "{refused:?}");
    drop(third);
    assert!(ahead.finish().is_ok());
}

#[test]
fn pool_04_a_token_cancels_a_waiting_request() {
    let (documents, _) = in_memory(1);
    let held = documents.get("held").wait().unwrap();
    let token = CancelToken::new();
    let by_slot = Task::waiting(documents.get("notes").cancel_token(&token));
    let by_name = Task::waiting(documents.get("notes").cancel_token(&token));
    token.cancel();
    let error = by_name.finish().unwrap_err();
    assert!(
        matches!(error, PoolError::Lock(LockError::Cancelled(_))),
        "{error:?}"
    );
    assert_eq!(by_slot.finish().unwrap_err().code(), "limiterCancelled");
    let error = documents
        .get("held")
        .cancel_token(&token)
        .wait()
        .unwrap_err();
    assert_eq!(error.code(), "lockCancelled");
    drop(held);
    assert!(documents.get("notes").wait().is_ok());
}

#[test]
fn pool_04_full_queues_reject_requests() {
    let (documents, _) = counted(PoolOptions::new(1).timeout(None).queue_bound(1));
    let _held = documents.get("held").wait().unwrap();
    let _first = Task::waiting(documents.get("a"));
    let error = documents.get("b").wait().unwrap_err();
    assert!(error.to_string().contains("is full: bound 1"), "{error}");
    let _second = Task::waiting(documents.get("a"));
    let error = documents.get("a").wait().unwrap_err();
    assert_eq!(error.code(), "documentBusy");
}

/// Says that it is dropped, and waits for a message before it goes on.
struct SlowDrop(Sender<()>, Receiver<()>);

impl Drop for SlowDrop {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
        self.1.recv().unwrap();
    }
}

/// The try closes "a" for itself, so its slot is none that the waiting request gets.
#[test]
fn pool_01_a_request_that_waits_beside_a_try_gets_the_slot_when_it_is_idle() {
    let ((dropping, is_dropping), (go_on, goes_on)) = (bounded(1), bounded(1));
    let slow = Mutex::new(Some(SlowDrop(dropping, goes_on)));
    let options = PoolOptions::new(1).timeout(Duration::from_secs(10));
    let documents = Documents::new(options, move |_| {
        Ok((DataStore::new(), slow.lock().unwrap().take()))
    });
    drop(documents.get("a").wait().unwrap());
    thread::scope(|threads| {
        let tries = threads.spawn(|| documents.get("b").no_wait().wait().unwrap());
        is_dropping.recv().unwrap();
        let waits = threads.spawn(|| documents.get("c").wait().map(drop));
        while documents.snapshot().waiting == 0 {
            thread::yield_now();
        }
        go_on.send(()).unwrap();
        drop(tries.join().unwrap());
        waits.join().unwrap().unwrap();
    });
}
