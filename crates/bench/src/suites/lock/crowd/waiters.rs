//! Threads that wait for a lock.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use doclock::{
    DataStore,
    lock::{AcquireOptions, CancelToken, LockError, LockGuard},
};

use crate::Result;

/// Enough for a wait; the system commits only used memory.
const STACK: usize = 64 * 1024;

/// Waiting threads, in order.
pub struct Waiters {
    holder: LockGuard,
    waiting: Vec<Waiter>,
}

pub struct Waiter {
    pub token: CancelToken,
    thread: JoinHandle<std::result::Result<(), LockError>>,
}

impl Waiters {
    /// Starts as many as requested or, if the machine refuses so many threads, as it allows.
    pub fn gather(store: &DataStore, count: usize) -> Result<Self> {
        // Unbound: this thread joins the queue as well.
        let holder = store
            .request("holder")
            .options(AcquireOptions::new().unbound())
            .wait()?;
        let mut waiting = Vec::with_capacity(count);
        for _ in 0..count {
            let token = CancelToken::new();
            let options = AcquireOptions::new().no_timeout().cancel_token(&token);
            let store = store.clone();
            let wait = move || store.request("waiter").options(options).wait().map(drop);
            let Ok(thread) = thread::Builder::new().stack_size(STACK).spawn(wait) else {
                break;
            };
            waiting.push(Waiter { token, thread });
        }
        while store.queue_length() < waiting.len() {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Self { holder, waiting })
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn take_middle(&mut self) -> Option<Waiter> {
        let middle = self.waiting.len() / 2;
        (middle < self.waiting.len()).then(|| self.waiting.remove(middle))
    }

    /// Grants the lock to each in turn and waits until the last has released it.
    pub fn let_go(self) -> Result {
        drop(self.holder);
        for waiter in self.waiting {
            waiter.end()?;
        }
        Ok(())
    }
}

impl Waiter {
    /// Waits for the end of its wait; returns whether it was cancelled.
    pub fn end(self) -> Result<bool> {
        match self
            .thread
            .join()
            .map_err(|_| "a waiting thread panicked")?
        {
            Ok(()) => Ok(false),
            Err(LockError::Cancelled(_)) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}
