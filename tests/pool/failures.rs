//! Stores that accept no commits, openers that fail or panic, and hostile values beside a store.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::DataStore;
use doclock::codes::{CodedError, Retry};
use doclock::durable::{DurableOptions, OpenError};
use doclock::lock::LockError;
use doclock::pool::{Documents, PoolError, PoolOptions};

use crate::add;
use crate::common::Task;
use crate::journal::Forgetful;

#[test]
fn pool_05_a_store_whose_journal_has_failed_is_opened_again() {
    let fails = Arc::new(AtomicBool::new(false));
    let disk = Arc::clone(&fails);
    let documents = Documents::new(PoolOptions::new(1), move |_| {
        let journal = Forgetful {
            fails: Arc::clone(&disk),
            ..Forgetful::default()
        };
        Ok((DataStore::open_journal(journal, DurableOptions::new())?, ()))
    });
    let old = documents.get("notes").wait().unwrap();
    fails.store(true, Ordering::SeqCst);
    add(&old, "p").unwrap_err();
    fails.store(false, Ordering::SeqCst);
    assert_eq!(add(&old, "q").unwrap_err().code(), "commitReadOnly");

    // The slot passes on, although the old handle still exists.
    let new = documents.get("notes").no_wait().wait().unwrap();
    add(&new, "p").unwrap();
    let snapshot = documents.snapshot();
    assert_eq!((snapshot.open, snapshot.documents[0].uses), (1, 1));
    // The old use ends nothing of the new one.
    let copy = old.clone();
    drop((old, copy));
    assert_eq!(documents.snapshot().documents[0].uses, 1);
    assert!(documents.get("letters").no_wait().wait().is_err());
    add(&new, "q").unwrap();
    drop(new);
    assert!(documents.get("letters").no_wait().wait().is_ok());
}

#[test]
fn pool_05_a_store_that_was_closed_by_hand_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let documents = Documents::in_folder(folder.path(), PoolOptions::new(1));
    let old = documents.get("notes").wait().unwrap();
    add(&old, "p").unwrap();
    old.close().unwrap();
    let new = Task::new(documents.get("notes")).finish().unwrap();
    add(&new, "q").unwrap();
    assert_eq!(new.snapshot().len(), 2);
}

#[test]
fn pool_06_the_error_of_an_opener_reaches_its_request_and_frees_the_slot() {
    let documents: Documents = Documents::new(PoolOptions::new(1), |opening| {
        match opening.name() {
            "missing" => Err(OpenError::Missing)?,
            "nested" => Err(PoolError::InUse {
                name: "other".to_owned(),
                uses: 1,
            })?,
            "foreign" => Err(io::Error::other("no paper"))?,
            _ => {}
        }
        Ok((DataStore::new(), ()))
    });
    for _ in 0..3 {
        let error = documents.get("missing").no_wait().wait().unwrap_err();
        assert!(
            matches!(error, PoolError::Open(OpenError::Missing)),
            "{error:?}"
        );
        let error = documents.get("nested").no_wait().wait().unwrap_err();
        assert!(matches!(error, PoolError::InUse { .. }), "{error:?}");
        let error = Task::new(documents.get("foreign").no_wait())
            .finish()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "document foreign was not opened: no paper"
        );
        assert_eq!((error.code(), error.retry()), ("openerFailed", Retry::No));
    }
    assert!(documents.get("notes").no_wait().wait().is_ok());
}

#[test]
fn pool_06_the_next_request_in_the_queue_opens_after_a_failure() {
    let left = Mutex::new(2);
    let documents: Documents = Documents::new(PoolOptions::new(1).timeout(None), move |_| {
        let mut left = left.lock().unwrap();
        if *left > 0 {
            *left -= 1;
            Err("not yet")?;
        }
        Ok((DataStore::new(), ()))
    });
    let closed = documents.close("notes").wait().unwrap();
    let requests = [(); 3].map(|()| Task::waiting(documents.get("notes")));
    drop(closed);
    let ends = requests.map(|request| request.finish().is_ok());
    assert_eq!(ends, [false, false, true]);
}

#[test]
fn pool_06_the_panic_of_an_opener_resumes_in_its_request() {
    let documents = Documents::new(PoolOptions::new(1), |opening| {
        assert_ne!(opening.name(), "bad", "the opener panics");
        Ok((DataStore::new(), ()))
    });
    let in_thread = || documents.get("bad").wait();
    let in_task = || Task::new(documents.get("bad")).finish();
    for request in [&in_thread as &dyn Fn() -> _, &in_task] {
        let panic = catch_unwind(AssertUnwindSafe(request)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("the opener panics"), "{message}");
        let snapshot = documents.snapshot();
        assert_eq!(
            (snapshot.open, snapshot.opening, snapshot.waiting),
            (0, 0, 0)
        );
        assert!(documents.get("good").no_wait().wait().is_ok());
        documents.close_idle(Duration::ZERO).wait().unwrap();
    }
}

/// A pool that the code of a test can use while it is called.
type Cell<T> = Arc<Mutex<Option<Documents<T>>>>;

fn pool_in<T: Send + Sync + 'static>(cell: &Cell<T>) -> Option<Documents<T>> {
    cell.lock().unwrap().clone()
}

#[test]
fn pool_06_an_opener_that_requests_its_own_document_gets_an_error() {
    let cell = Cell::<()>::default();
    let own = Arc::clone(&cell);
    let documents = Documents::new(PoolOptions::new(4).timeout(None), move |opening| {
        if let Some(documents) = pool_in(&own) {
            documents.get("other").wait()?;
            documents.get(opening.name()).wait()?;
        }
        Ok((DataStore::new(), ()))
    });
    // So that the request of the opener for another document does not call it.
    documents.get("other").wait().unwrap();
    *cell.lock().unwrap() = Some(documents.clone());
    let errors = [
        documents.get("notes").wait().unwrap_err(),
        Task::new(documents.get("notes")).finish().unwrap_err(),
    ];
    for error in errors {
        let is_own = matches!(error, PoolError::Lock(LockError::Reentrant { .. }));
        assert!(is_own, "{error:?}");
    }
    cell.lock().unwrap().take();
}

#[test]
fn pool_06_a_look_for_a_document_that_requests_it_gets_an_error() {
    let cell = Cell::<()>::default();
    let own = Arc::clone(&cell);
    let (sender, errors) = channel();
    let exists = move |name: &str| {
        if let Some(documents) = pool_in(&own) {
            let limit = Duration::from_secs(20);
            let same = documents.get(name).timeout(limit).wait().map(drop);
            let closed = documents.close(name).timeout(limit).wait().map(drop);
            sender.send([same, closed]).unwrap();
        }
        false
    };
    let options = PoolOptions::new(4).timeout(None).exists(exists);
    let documents = Documents::new(options, |_| Ok((DataStore::new(), ())));
    *cell.lock().unwrap() = Some(documents.clone());
    let missing = documents.get_existing("notes").wait().unwrap_err();
    assert_eq!(missing.code(), "openMissing");
    for error in errors.recv().unwrap().map(Result::unwrap_err) {
        let is_own = matches!(error, PoolError::Lock(LockError::Reentrant { .. }));
        assert!(is_own, "{error:?}");
    }
    cell.lock().unwrap().take();
}

/// A value beside a store whose drop requests the document that is being closed.
struct Returning(Cell<Returning>, Sender<Result<(), PoolError>>);

impl Drop for Returning {
    fn drop(&mut self) {
        if let Some(documents) = pool_in(&self.0) {
            let limit = Duration::from_secs(20);
            let again = documents.get("notes").timeout(limit).wait().map(drop);
            self.1.send(again).unwrap();
        }
    }
}

#[test]
fn pool_06_a_value_that_requests_its_document_while_that_is_closed_gets_an_error() {
    let (cell, (sender, errors)) = (Cell::<Returning>::default(), channel());
    let own = Arc::clone(&cell);
    let documents = Documents::new(PoolOptions::new(4).timeout(None), move |_| {
        let value = Returning(Arc::clone(&own), sender.clone());
        Ok((DataStore::new(), value))
    });
    *cell.lock().unwrap() = Some(documents.clone());
    for is_task in [false, true] {
        documents.get("notes").wait().unwrap();
        drop(match is_task {
            false => documents.close("notes").wait().unwrap(),
            true => Task::new(documents.close("notes")).finish().unwrap(),
        });
        let error = errors.recv().unwrap().unwrap_err();
        let is_own = matches!(error, PoolError::Lock(LockError::Reentrant { .. }));
        assert!(is_own, "{error:?}");
    }
    cell.lock().unwrap().take();
}

/// A value beside a store whose drop uses the pool and panics.
struct Hostile(Cell<Hostile>);

impl Drop for Hostile {
    fn drop(&mut self) {
        if let Some(documents) = pool_in(&self.0) {
            let snapshot = documents.snapshot();
            assert_eq!(snapshot.closing, 1);
            assert!(documents.get("used").no_wait().wait().is_ok());
            // It is being closed by this thread.
            assert!(documents.get("notes").wait().is_err());
            assert_eq!(documents.close_idle(Duration::ZERO).wait().unwrap(), 0);
            self.0.lock().unwrap().take();
            drop(documents);
            panic!("a panic of it is caught");
        }
    }
}

#[test]
fn pool_06_the_drop_of_a_value_may_use_the_pool_and_panic() {
    let cell = Cell::default();
    let own = Arc::clone(&cell);
    let documents = Documents::new(PoolOptions::new(2).timeout(None), move |_| {
        Ok((DataStore::new(), Hostile(Arc::clone(&own))))
    });
    let used = documents.get("used").wait().unwrap();
    // By the thread of the pool, by a call for all, and by a call for one.
    let closes: [&dyn Fn(); 3] = [
        &|| drop(documents.get("letters").wait().unwrap()),
        &|| assert_eq!(documents.close_idle(Duration::ZERO).wait().unwrap(), 1),
        &|| drop(documents.close("notes").wait().unwrap()),
    ];
    for close in closes {
        documents.get("notes").wait().unwrap();
        *cell.lock().unwrap() = Some(documents.clone());
        close();
        assert!(pool_in(&cell).is_none(), "the drop has run");
        documents.close_idle(Duration::ZERO).wait().unwrap();
        let snapshot = documents.snapshot();
        assert_eq!((snapshot.open, snapshot.closing), (1, 0));
    }
    drop(used);
}
