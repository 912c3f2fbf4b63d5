//! How a thread waits in a queue: until its outcome, its deadline or its cancellation.
//!
//! The only place where timeouts, cancel tokens and hold limits meet a sleeping thread; every lock
//! type waits here.

use std::sync::Arc;
use std::time::Duration;

use super::CancelToken;
use super::parker::Waiter;
use crate::time::{Clock, Deadline};

/// A queue as its waiters see it.
pub(super) trait WaitQueue: Send + Sync + 'static {
    /// Identifies one wait: no other wait in the queue ever has an equal ticket, not even a later
    /// wait of the same holder. A token collects its requests before it withdraws them, so a
    /// withdrawal can come after its wait is over.
    type Ticket: Copy + Send + 'static;

    fn clock(&self) -> &Clock;

    /// Removes a request from the queue and fails it. Does nothing when that wait is over: then the
    /// request has an outcome already, or is about to get one.
    fn withdraw(&self, ticket: Self::Ticket, reason: Reason);

    /// Revokes grants that exceed the hold limit while requests wait, and returns when this waiter
    /// must check again.
    fn look(&self, ticket: Self::Ticket) -> Option<Deadline> {
        let _ = ticket;
        None
    }
}

/// Why a waiter leaves the queue without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its timeout has passed.
    Expired(Duration),
    Cancelled,
}

/// The timeout of a wait, with its deadline. `None` for a wait without a limit.
pub(super) type WaitDeadline = Option<(Duration, Deadline)>;

/// The events that end a wait besides its outcome.
pub(super) struct Wait<T> {
    pub(super) ticket: T,
    pub(super) deadline: WaitDeadline,
    /// When it must check the hold limits, if it is a watcher.
    pub(super) alarm: Option<Deadline>,
    /// How many looks it spins for.
    pub(super) looks: u32,
}

/// Waits until the request has its outcome, which happens exactly once. A waiter that times out
/// withdraws its request and waits for the answer to that, so a grant that races it counts.
pub(super) fn wait<L: WaitQueue, W: Waiter>(
    queue: &Arc<L>,
    waiter: &Arc<W>,
    cancel: Option<&CancelToken>,
    mut wait: Wait<L::Ticket>,
) -> W::Outcome {
    let ticket = wait.ticket;
    let _attached = cancel.map(|token| {
        let queue = Arc::clone(queue);
        token.attach(move || queue.withdraw(ticket, Reason::Cancelled))
    });
    let clock = queue.clock();
    let mut listens = false;
    loop {
        let deadline = wait.deadline.map(|(_, deadline)| deadline);
        let first = [deadline, wait.alarm].into_iter().flatten().min();
        if first.is_some() && !listens {
            clock.listen(waiter);
            listens = true;
        }
        if let Some(outcome) = waiter.wait_until(wait.looks, clock, first) {
            return outcome;
        }
        wait.looks = 0;
        match wait.deadline {
            Some((limit, deadline)) if clock.until(deadline).is_none() => {
                // Whatever the outcome will be, it is on its way.
                queue.withdraw(ticket, Reason::Expired(limit));
                (wait.deadline, wait.alarm) = (None, None);
            }
            _ => wait.alarm = queue.look(ticket),
        }
    }
}
