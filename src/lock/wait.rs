//! How a thread waits in a line: until it is told, for as long as it may, unless somebody cancels.
//!
//! The one place where limits, cancel tokens and limits on holding meet a sleeping thread; every
//! face of the line waits here.

use std::sync::Arc;
use std::time::Duration;

use super::CancelToken;
use super::parker::Waiter;
use crate::time::{Clock, Deadline};

/// A line as seen by those who wait in it.
pub(super) trait Line: Send + Sync + 'static {
    /// Names one wait: no other wait in the line ever has an equal ticket, not even a later wait of
    /// the same holder. A withdrawal can come when its wait is over, because a token collects its
    /// requests before it withdraws them.
    type Ticket: Copy + Send + 'static;

    fn clock(&self) -> &Clock;

    /// Takes a request out of the line and tells it so. Does nothing when that wait is over: then
    /// the request was told already, or is about to be.
    fn withdraw(&self, ticket: Self::Ticket, reason: Reason);

    /// Takes back what was held for too long while others wait for it, and returns when this waiter
    /// is to look again.
    fn look(&self, ticket: Self::Ticket) -> Option<Deadline> {
        let _ = ticket;
        None
    }
}

/// Why a waiter leaves the line without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its limit has passed.
    Expired(Duration),
    Cancelled,
}

/// What a waiter waits for beside its outcome.
pub(super) struct Wait<T> {
    pub(super) ticket: T,
    /// Its limit, and when that will have passed.
    pub(super) deadline: Option<(Duration, Deadline)>,
    /// When it is to look whether something is held for too long, if it keeps watch.
    pub(super) alarm: Option<Deadline>,
    /// How long it spins.
    pub(super) looks: u32,
}

/// Waits until the waiter is told what became of its request, which happens exactly once: who gives
/// up withdraws it and waits for word of that, so that a grant which races it counts.
pub(super) fn wait<L: Line, W: Waiter>(
    line: &Arc<L>,
    waiter: &Arc<W>,
    cancel: Option<&CancelToken>,
    mut wait: Wait<L::Ticket>,
) -> W::Outcome {
    let ticket = wait.ticket;
    let _attached = cancel.map(|token| {
        let line = Arc::clone(line);
        token.attach(move || line.withdraw(ticket, Reason::Cancelled))
    });
    let clock = line.clock();
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
                line.withdraw(ticket, Reason::Expired(limit));
                (wait.deadline, wait.alarm) = (None, None);
            }
            _ => wait.alarm = line.look(ticket),
        }
    }
}
