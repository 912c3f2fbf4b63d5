//! The thread of a pool that closes idle documents: those that are unused for long enough, and the
//! longest idle ones while requests wait for a slot.
//!
//! It starts when it is first needed, ends when there is nothing to wait for, and keeps no pool
//! alive. While it closes a document, another one takes its place if it is needed.

use std::io;
use std::sync::{Arc, Weak};

use super::shared::{CloseAttempt, Shared};
use super::table::Table;
use crate::sync::{Condvar, Mutex, rank};
use crate::time::{Clock, Deadline, Pause, TimeListener};

/// Wakes the closer. It outlives the pool, so that the closer can wait without it.
#[derive(Default)]
pub(super) struct CloserSignal {
    is_called: Mutex<{ rank::POOL_CLOSER }, bool>,
    called: Condvar,
}

impl CloserSignal {
    /// Lets the closer look at the pool, now or when it next waits.
    pub(super) fn call(&self) {
        *self.is_called.lock() = true;
        self.called.notify_one();
    }

    /// Waits for a call, or until the deadline.
    fn wait(&self, clock: &Clock, deadline: Option<Deadline>) {
        let mut is_called = self.is_called.lock();
        while !std::mem::take(&mut *is_called) {
            is_called = match deadline.map(|deadline| clock.until(deadline)) {
                None | Some(Some(Pause::UntilAdvanced)) => self.called.wait(is_called),
                Some(Some(Pause::For(left))) => self.called.wait_for(is_called, left),
                Some(None) => return,
            };
        }
    }
}

impl TimeListener for CloserSignal {
    fn time_advanced(&self) {
        self.call();
    }
}

/// What the closer waits for.
enum Next {
    /// A call, or this deadline if there is one.
    Call(Option<Deadline>),
    /// Nothing: a request that needs the closer starts it again, or has done so.
    End,
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Starts the closer if it does not run. In a model, a thread of the model runs it.
    pub(super) fn start_closer(self: &Arc<Self>, table: &mut Table<T>) -> io::Result<()> {
        if table.closer_runs || cfg!(loom) {
            return Ok(());
        }
        let thread = std::thread::Builder::new().name("doclock-pool".into());
        thread.spawn(self.closer_thread())?;
        table.closer_runs = true;
        Ok(())
    }

    /// Returns the code of the closer.
    pub(super) fn closer_thread(self: &Arc<Self>) -> impl FnOnce() + Send + use<T> {
        let (pool, signal) = (Arc::downgrade(self), Arc::clone(&self.closer));
        let clock = self.options.clock.clone();
        move || run(&pool, &signal, &clock)
    }

    /// Closes all documents that have to be closed now.
    fn close_due(self: &Arc<Self>) -> Next {
        let idle_after = self.options.idle_after;
        loop {
            let now = self.now();
            let mut table = self.table.lock();
            let Some(name) = table.due(idle_after, now) else {
                return Self::next(&mut table, idle_after);
            };
            // Meanwhile others may need a closer, even code in the close: they start another one.
            table.closer_runs = false;
            drop(table);
            let is_due = |table: &Table<T>, last_use| table.is_due(last_use, idle_after, now);
            if let CloseAttempt::Nested = self.close_idle_one(&name, is_due) {
                debug_assert!(false, "the closer runs during no close");
                return Next::Call(None);
            }
            if std::mem::replace(&mut self.table.lock().closer_runs, true) {
                return Next::End;
            }
        }
    }

    fn next(table: &mut Table<T>, idle_after: Option<std::time::Duration>) -> Next {
        let watches = idle_after.filter(|_| !table.is_empty());
        // In a model, the closer is not started again.
        if watches.is_none() && !table.lacks_slots() && !cfg!(loom) {
            table.closer_runs = false;
            return Next::End;
        }
        Next::Call(watches.and_then(|unused| table.next_deadline(unused)))
    }
}

/// Serves the pool until it is gone, or there is nothing to wait for.
fn run<T: Send + Sync + 'static>(pool: &Weak<Shared<T>>, signal: &CloserSignal, clock: &Clock) {
    loop {
        let Some(pool) = pool.upgrade() else {
            return;
        };
        let next = pool.close_due();
        drop(pool);
        match next {
            Next::Call(deadline) => signal.wait(clock, deadline),
            Next::End => return,
        }
    }
}
