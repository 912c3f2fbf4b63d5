//! The threads that write the journals of all stores of the process.
//!
//! A store that has something to write calls one. So a store that is idle has no thread, and one
//! whose journal blocks keeps no other waiting: if all threads write, another one is started.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, LazyLock};
use std::thread::Builder;
use std::time::Duration;

use super::SharedWriter;
use crate::sync::{Condvar, Mutex, rank};

/// A thread without work ends after so long, unless it is the last one and stores are open.
const IDLE: Duration = Duration::from_secs(1);

struct JournalThreads {
    state: Mutex<{ rank::JOURNAL_THREADS }, ThreadsState>,
    /// Notified when a store calls, and when the last store is gone.
    called: Condvar,
}

struct ThreadsState {
    /// The stores that call, and that no thread serves yet.
    calls: VecDeque<Arc<SharedWriter>>,
    threads: usize,
    /// How many of them wait for a call.
    idle: usize,
    /// How many stores are open.
    stores: usize,
}

static THREADS: LazyLock<JournalThreads> = LazyLock::new(|| JournalThreads {
    state: Mutex::new(ThreadsState {
        calls: VecDeque::new(),
        threads: 0,
        idle: 0,
        stores: 0,
    }),
    called: Condvar::default(),
});

/// The use of the threads by one store: while there is one, there is a thread. So a call is served
/// even if no more threads can be started.
pub(super) struct UsedThreads(());

impl UsedThreads {
    /// Fails if there is no thread, and none can be started.
    pub(super) fn new() -> io::Result<Self> {
        let mut state = THREADS.state.lock();
        if state.threads == 0 {
            state.start()?;
        }
        state.stores += 1;
        Ok(Self(()))
    }
}

impl Drop for UsedThreads {
    fn drop(&mut self) {
        let mut state = THREADS.state.lock();
        state.stores -= 1;
        if state.stores == 0 {
            THREADS.called.notify_one();
        }
    }
}

/// Lets a thread serve the journal of a store.
pub(super) fn call(writer: Arc<SharedWriter>) {
    let mut state = THREADS.state.lock();
    state.calls.push_back(writer);
    match state.calls.len() > state.idle {
        // Otherwise a thread that writes now serves it later.
        true => drop(state.start()),
        false => THREADS.called.notify_one(),
    }
}

impl ThreadsState {
    fn start(&mut self) -> io::Result<()> {
        let thread = Builder::new().name("doclock-journal".into());
        thread.spawn(run)?;
        self.threads += 1;
        Ok(())
    }
}

fn run() {
    while let Some(writer) = next_call() {
        writer.serve();
    }
}

/// Waits for the next call. `None` if the thread is not needed any more.
fn next_call() -> Option<Arc<SharedWriter>> {
    let mut state = THREADS.state.lock();
    let mut has_waited = false;
    loop {
        if let Some(writer) = state.calls.pop_front() {
            return Some(writer);
        }
        let is_last = state.threads == 1;
        if (has_waited && !is_last) || (is_last && state.stores == 0) {
            state.threads -= 1;
            if state.stores == 0 {
                // The next one ends, too.
                THREADS.called.notify_one();
            }
            return None;
        }
        state.idle += 1;
        state = match is_last {
            true => THREADS.called.wait(state),
            false => THREADS.called.wait_for(state, IDLE),
        };
        state.idle -= 1;
        // Also after a wake-up that was for another thread.
        has_waited = !is_last;
    }
}
