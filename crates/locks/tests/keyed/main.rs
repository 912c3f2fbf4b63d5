//! The guarantees of the keyed lock, by number.

#[path = "../../../../tests/common/mod.rs"]
mod common;

mod all_tasks;
mod code;
mod ends;
mod joins;
mod keys;
mod reservations;
mod waits;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use doclock_locks::{
    time::ManualClock,
    {
        AcquireOptions, CancelToken, LockError, TimeoutEvidence,
        keyed::{KeyedLock, KeyedOptions},
    },
};

use common::{LateCancel, PATIENCE};

const MS: Duration = Duration::from_millis(1);

type Lock = KeyedLock<String, u32>;

/// A lock on a clock that the test moves.
fn timed() -> (Lock, ManualClock) {
    let clock = ManualClock::new();
    let options = KeyedOptions::new().clock(clock.clock());
    (KeyedLock::with_options(options), clock)
}

/// A running task that returns a value on command.
struct Running {
    end: Sender<u32>,
    thread: JoinHandle<Result<u32, LockError>>,
}

/// Returns when the task runs.
fn running(lock: &Lock, key: &str, owner: &str) -> Running {
    let (begun, has_begun) = channel();
    let (end, ending) = channel();
    let thread = spawn(lock, key, owner, plain(), move || {
        begun.send(()).unwrap();
        recv(&ending)
    });
    recv(&has_begun);
    Running { end, thread }
}

impl Running {
    fn end(self, result: u32) -> Result<u32, LockError> {
        self.end.send(result).unwrap();
        self.thread.join().unwrap()
    }
}

fn recv<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(PATIENCE).expect("it comes at once")
}

/// Requests in a separate thread.
fn spawn(
    lock: &Lock,
    key: &str,
    owner: &str,
    options: AcquireOptions,
    task: impl FnOnce() -> u32 + Send + 'static,
) -> JoinHandle<Result<u32, LockError>> {
    let (lock, key, owner) = (lock.clone(), key.to_owned(), owner.to_owned());
    thread::spawn(move || execute(&lock, &key, &owner, options, task))
}

/// Executes a task with options.
#[track_caller]
fn execute(
    lock: &Lock,
    key: &str,
    owner: &str,
    options: AcquireOptions,
    task: impl FnOnce() -> u32,
) -> Result<u32, LockError> {
    let turn = lock.request(key, owner).options(options).wait()?;
    turn.execute(task)
}

/// Like [`spawn`]; returns when the request is in the queue.
fn queued(
    lock: &Lock,
    key: &str,
    owner: &str,
    options: AcquireOptions,
    task: impl FnOnce() -> u32 + Send + 'static,
) -> JoinHandle<Result<u32, LockError>> {
    let before = lock.queue_length(key);
    let thread = spawn(lock, key, owner, options, task);
    until(|| lock.queue_length(key) == before + 1);
    thread
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// Returns when so many requests wait with this token.
fn until_waiting_with(token: &CancelToken, count: usize) {
    let wanted = format!("waiting: {count} ");
    until(|| format!("{token:?}").contains(&wanted));
}

fn plain() -> AcquireOptions {
    AcquireOptions::new()
}

fn timeout_of<T: std::fmt::Debug>(result: Result<T, LockError>) -> TimeoutEvidence {
    match result {
        Err(LockError::Timeout(evidence)) => *evidence,
        other => panic!("expected a timeout, found {other:?}"),
    }
}

/// There are no requests, and no memory is kept for earlier ones.
fn at_rest(lock: &Lock) {
    let stats = lock.stats();
    assert_eq!((stats.active_keys, stats.queue_length), (0, 0));
    assert_eq!(stats.total_acquisitions, stats.total_releases);
    assert_eq!(stats.wait.count, stats.total_acquisitions);
    assert_eq!(stats.hold.count, stats.total_releases);
}

/// Recorded notes, in order.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<u32>>>);

impl Notes {
    fn note(&self, what: u32) -> u32 {
        self.0.lock().unwrap().push(what);
        what
    }

    fn all(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }
}
