//! Programs that hang. Each one hangs until a look is taken, and then ends.

use std::error::Error;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use doclock::lock::keyed::KeyedLock;
use doclock::lock::limiter::{InFlightLimiter, LimiterOptions};
use doclock::lock::node::Scope;
use doclock::lock::{AcquireOptions, CancelToken, LockError, LockGuard, Priority};
use doclock::{DataStore, StoreOptions, TransactionManager, dsl::*};

/// A program that hangs.
pub(crate) struct Hang {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What its user sees.
    pub(crate) symptom: &'static str,
    stage: fn(&mut Look<'_>) -> Result<(), Box<dyn Error>>,
}

/// A look at the store while the program hangs, with the lines that cause it.
pub(crate) type Look<'a> = dyn FnMut(&DataStore, &[Culprit]) + 'a;

/// A line of code that causes a hang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Culprit(pub(crate) String);

/// A line of this file.
macro_rules! culprit {
    ($line:expr) => {
        Culprit(format!("{}:{}:", file!(), $line))
    };
}

// After the macro, which it uses.
#[path = "threads.rs"]
mod threads;

pub(crate) const HANGS: [Hang; 15] = [
    Hang {
        name: "slow-io",
        symptom: "edits wait while another window saves to a network drive",
        stage: slow_io,
    },
    Hang {
        name: "forgotten-id",
        symptom: "no edit succeeds any more, and no thread is busy",
        stage: forgotten_id,
    },
    Hang {
        name: "starved",
        symptom: "the word count never changes while the user types",
        stage: starved,
    },
    Hang {
        name: "deadlock",
        symptom: "two windows that move paragraphs make no progress",
        stage: deadlock,
    },
    Hang {
        name: "convoy",
        symptom: "thirty windows wait, each for the paragraph of another",
        stage: convoy,
    },
    Hang {
        name: "lossless-subscriber",
        symptom: "edits wait although the lock has no holder",
        stage: lossless_subscriber,
    },
    Hang {
        name: "unpolled-task",
        symptom: "edits wait for a task that does nothing",
        stage: unpolled_task,
    },
    Hang {
        name: "slow-call",
        symptom: "a server answers no request while a payment service is down",
        stage: threads::slow_call,
    },
    Hang {
        name: "two-stores",
        symptom: "typing stops while the search index is rebuilt, for ever",
        stage: threads::two_stores,
    },
    Hang {
        name: "mutex",
        symptom: "typing stops when a cache is refreshed, for ever",
        stage: threads::mutex,
    },
    Hang {
        name: "full-pool",
        symptom: "an export never ends, and the pool that runs it is not busy",
        stage: threads::full_pool,
    },
    Hang {
        name: "shutdown",
        symptom: "the program does not end while a save waits",
        stage: threads::shutdown,
    },
    Hang {
        name: "slow-disk",
        symptom: "edits wait although nothing is locked and no subscriber is there",
        stage: threads::slow_disk,
    },
    Hang {
        name: "keyed-lock",
        symptom: "edits wait for a transfer that waits for a thread of its own",
        stage: keyed_lock,
    },
    Hang {
        name: "leaked-permit",
        symptom: "edits wait for an upload, and no upload runs",
        stage: leaked_permit,
    },
];

impl Hang {
    /// Stages the hang, takes the look, and lets the program end.
    pub(crate) fn stage(&self, look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
        (self.stage)(look)
    }
}

/// A store that reports holds and waits of more than 50 ms, and records what its lock does.
fn store() -> DataStore {
    DataStore::with_options(reporting())
}

fn reporting() -> StoreOptions {
    let long = Duration::from_millis(50);
    let options = StoreOptions::new().lock_timeout(None).timeline(1_000);
    options.report_holds(long).report_waits(long)
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// Runs an editor window, which waits for the lock, and takes a look while it waits.
fn look_beside_a_window(store: &DataStore, take_look: impl FnOnce()) -> Result<(), LockError> {
    let window = store.clone();
    let window = thread::spawn(move || {
        let keystroke = AcquireOptions::new().label("keystroke");
        window
            .request("window-1")
            .options(keystroke)
            .wait()
            .map(drop)
    });
    until(|| has_waiter(store));
    take_look();
    window.join().expect("the window does not panic")
}

fn has_waiter(store: &DataStore) -> bool {
    store.queue_length() > 0
}

/// A thread keeps the lock while it writes to a slow drive.
fn slow_io(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let (written, drive) = mpsc::channel::<()>();
    let (locked, is_locked) = mpsc::channel();
    let culprit = culprit!(line!() + 1);
    let save = |store: DataStore| store.request("window-2").label("save").wait();
    let saves = store.clone();
    let saves = thread::spawn(move || {
        let _guard = save(saves)?;
        let _ = locked.send(());
        // The drive answers when it likes.
        let _ = drive.recv();
        Ok::<(), LockError>(())
    });
    is_locked.recv()?;
    look_beside_a_window(&store, || {
        look(&store, &[culprit]);
        drop(written);
    })?;
    saves.join().expect("the save does not panic")?;
    Ok(())
}

/// An early return leaves the lock held by its id.
fn forgotten_id(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let culprit = culprit!(line!() + 1);
    let request = store.request("export").label("export as PDF");
    let export = request.wait()?.into_id();
    look_beside_a_window(&store, || {
        look(&store, &[culprit]);
        store.release_lock(export).expect("it is held");
    })?;
    Ok(())
}

/// Requests of high priority overtake one of low priority.
fn starved(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let keystroke = |store: &DataStore| {
        let high = AcquireOptions::new()
            .priority(Priority::High)
            .label("keystroke");
        store.request("window-1").options(high).wait()
    };
    let culprit = culprit!(line!() - 2);
    let typing = keystroke(&store)?;
    let mut waiting = Vec::new();
    let mut wait = |request: fn(&DataStore) -> Result<LockGuard, LockError>| {
        let other = store.clone();
        waiting.push(thread::spawn(move || request(&other).map(drop)));
        until(|| store.queue_length() == waiting.len());
    };
    wait(|store| {
        let background = AcquireOptions::new().priority(Priority::Low);
        store
            .request("word-count")
            .options(background.label("count words"))
            .wait()
    });
    (0..3).for_each(|_| wait(keystroke));
    look(&store, &[culprit]);
    drop(typing);
    for thread in waiting {
        thread.join().expect("no request panics")?;
    }
    Ok(())
}

/// Two windows lock two paragraphs in opposite order, ignore the error, and try again.
fn deadlock(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let paragraphs = ["one", "two"].map(|id| create(text_node("paragraph", id).with_id(id)));
    TransactionManager::new(store.clone()).execute(paragraphs)?;
    let locks = store.node_locks();
    let unbound = || AcquireOptions::new().unbound().label("move");
    let (first, second) = (Scope::new().write("one"), Scope::new().write("two"));
    let one = culprit!(line!() + 1);
    let request = locks.request("window-1", first.clone());
    let mut ann = request.options(unbound()).wait()?;
    let two = culprit!(line!() + 1);
    let request = locks.request("window-2", second.clone());
    let mut ben = request.options(unbound()).wait()?;
    let moves = thread::spawn(move || ann.extend(second));
    until(|| locks.stats().waiting == 1);
    // The program drops the error and tries again, with the same paragraphs locked.
    let refused = ben.extend(first);
    assert!(
        matches!(refused, Err(LockError::Deadlock(_))),
        "{refused:?}"
    );
    look(&store, &[one, two]);
    drop(ben);
    moves.join().expect("the move does not panic")?;
    Ok(())
}

/// Each window holds a paragraph and waits for the next one. The last one is checked for spelling.
fn convoy(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    const WINDOWS: usize = 29;
    let store = store();
    let id = |nth: usize| format!("p{nth}");
    let paragraphs = (0..=WINDOWS).map(|nth| create(text_node("paragraph", "").with_id(id(nth))));
    TransactionManager::new(store.clone()).execute(paragraphs.collect::<Vec<_>>())?;
    let locks = store.node_locks();
    let unbound = || AcquireOptions::new().unbound();
    let held = (0..WINDOWS).map(|nth| {
        let request = locks.request(format!("window-{nth}"), Scope::new().write(id(nth)));
        request.options(unbound()).wait()
    });
    let held = held.collect::<Result<Vec<_>, _>>()?;
    // It comes last.
    let culprit = culprit!(line!() + 1);
    let request = locks.request("spell-checker", Scope::new().write(id(WINDOWS)));
    let checked = request.options(unbound().label("check")).wait()?;
    let windows = held.into_iter().enumerate().map(|(nth, mut window)| {
        let next = Scope::new().write(id(nth + 1));
        thread::spawn(move || window.extend(next))
    });
    let windows: Vec<_> = windows.collect();
    until(|| locks.stats().waiting == WINDOWS);
    look(&store, &[culprit]);
    drop(checked);
    for window in windows {
        window.join().expect("no window panics")?;
    }
    Ok(())
}

/// A lossless subscriber does not read, so no request is granted.
fn lossless_subscriber(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let culprit = culprit!(line!() + 1);
    let audit = store.subscription().lossless(0).all();
    TransactionManager::new(store.clone()).execute(create(text_node("paragraph", "Hello")))?;
    look_beside_a_window(&store, || {
        look(&store, &[culprit]);
        let _ = audit.recv();
    })?;
    Ok(())
}

/// A task is granted the lock while it waits for something else.
fn unpolled_task(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let held = store.lock("window-2")?;
    let culprit = culprit!(line!() + 1);
    let mut request = Box::pin(store.request("sync").label("pull").into_future());
    let mut context = Context::from_waker(Waker::noop());
    // It joins the queue, as in a `select!` that continues with another branch.
    let first = Pin::new(&mut request).poll(&mut context);
    assert!(first.is_pending());
    drop(held);
    look_beside_a_window(&store, || {
        look(&store, &[culprit]);
        drop(request);
    })?;
    Ok(())
}

/// A task for a key holds the lock, and waits for a thread that wants the same key.
fn keyed_lock(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let (store, stop) = (store(), CancelToken::new());
    let accounts = KeyedLock::<String>::new();
    store.register("accounts", &accounts);
    let culprit = culprit!(line!() + 1);
    let begin = |accounts: &KeyedLock<String>| accounts.request("ann", "transfer").wait();
    let (edits, keys, stopped) = (store.clone(), accounts.clone(), stop.clone());
    let transfer = thread::spawn(move || {
        begin(&keys)?.execute(|| {
            let _guard = edits.lock("transfer").expect("it has no timeout");
            // A part of the work, in a thread of its own, for the same account.
            let part = thread::spawn(move || {
                let part = keys.request("ann", "part").cancel_token(&stopped);
                part.wait().map(drop)
            });
            let _ = part.join();
        })
    });
    until(|| accounts.queue_length("ann") == 1);
    look_beside_a_window(&store, || {
        look(&store, &[culprit]);
        stop.cancel();
    })?;
    transfer.join().expect("the transfer does not panic")?;
    Ok(())
}

/// Uploads that have failed keep their permits, and the holder of the lock waits for a slot.
fn leaked_permit(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let uploads = InFlightLimiter::with_options(LimiterOptions::new(2).timeout(None));
    store.register("uploads", &uploads);
    let culprit = culprit!(line!() + 1);
    let start = || uploads.acquire("pictures");
    // They are kept to be tried again.
    let failed = [start()?, start()?];
    let (edits, slots) = (store.clone(), uploads.clone());
    let insert = thread::spawn(move || {
        let _guard = edits.request("window-2").label("insert picture").wait()?;
        let upload = slots.run("pictures", |_| ());
        upload.expect("it has no timeout");
        Ok::<(), LockError>(())
    });
    until(|| uploads.load(&"pictures").queued == 1);
    look_beside_a_window(&store, || {
        look(&store, &[culprit]);
        drop(failed);
    })?;
    insert.join().expect("the upload does not panic")?;
    Ok(())
}
