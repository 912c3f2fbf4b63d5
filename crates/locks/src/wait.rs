//! How a thread or a task waits in a queue: until its outcome, deadline or cancellation. A thread
//! ends its own wait, and the [keeper](super::keeper) that of a task, with the same code.

use std::io;
use std::mem::take;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::cancel::Attached;
pub use super::diagnostics::WaiterKind;
use super::keeper::{KeeperSlot, Kept};
use super::mailbox::{ClockListener, Mailbox, Recipient};
use super::{CancelToken, LockCounters, LockError, LockInfo, TimeoutEvidence};
use crate::caught::catch;
use crate::id::OwnerId;
use crate::queue::Priority;
use crate::sync::thread_number;
use crate::threads::Waits;
use crate::time::{Clock, Deadline};

/// A queue as its waiters see it.
pub trait WaitQueue: Send + Sync + 'static {
    /// Identifies one wait: no other one ever has an equal ticket, because a withdrawal can be
    /// late.
    type Ticket: Copy + Send + Unpin + 'static;

    /// Returns the number of the request or the key, for reports.
    fn waits_for(_: Self::Ticket) -> u64 {
        0
    }

    fn clock(&self) -> &Clock;

    /// Removes a request from the queue and fails it. Does nothing when that wait is over: then the
    /// request has its outcome, or is about to get it.
    fn withdraw(&self, ticket: Self::Ticket, reason: Reason);

    fn keeper(&self) -> &KeeperSlot;

    /// Removes the request of a task that is gone. If it was granted meanwhile, ends the grant.
    fn abandon(&self, ticket: Self::Ticket);

    /// Looks at all waits of tasks, revokes grants, and reports long holds and waits.
    fn check_waits_and_holds(&self, look: &mut Look<'_, Self::Ticket>);

    /// Called if the keeper could not be called: the next request or grant tries again.
    fn cannot_look(&self) {}
}

impl<Q: WaitQueue> Kept for Q {
    fn check_deadlines(&self) {
        let mut look = Look {
            clock: self.clock(),
            overdue: Vec::new(),
            deadline: Deadline::NEVER,
        };
        self.check_waits_and_holds(&mut look);
        if let Some(next) = look.first_deadline() {
            self.keeper().expect(next);
        }
        for (ticket, limit) in look.overdue {
            // It may drop a key of a user. A panic of that must not keep the other waits.
            drop(catch(|| self.withdraw(ticket, Reason::Expired(limit))));
        }
    }
}

/// A look of the keeper at a queue.
pub struct Look<'a, T> {
    clock: &'a Clock,
    /// The waits whose deadline has passed, each with its timeout.
    overdue: Vec<(T, Duration)>,
    deadline: Deadline,
}

impl<T> Look<'_, T> {
    /// Looks at one wait, if it is that of a task.
    pub fn at(&mut self, ticket: T, task: Option<WaitDeadline>) {
        if let Some((limit, deadline)) = task.flatten() {
            match self.clock.until(deadline) {
                None => self.overdue.push((ticket, limit)),
                Some(_) => self.again_at(deadline),
            }
        }
    }

    pub(super) fn again_at(&mut self, deadline: Deadline) {
        self.deadline = deadline.min(self.deadline);
    }

    pub(super) fn first_deadline(&self) -> Option<Deadline> {
        (self.deadline != Deadline::NEVER).then_some(self.deadline)
    }
}

/// Why a waiter leaves the queue without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Expired(Duration),
    Cancelled,
}

impl Reason {
    /// How many of the requests ahead its error lists.
    pub(super) fn listed(self) -> usize {
        match self {
            Self::Expired(_) => TimeoutEvidence::AHEAD,
            Self::Cancelled => 0,
        }
    }
}

/// The timeout of a wait, with its deadline. `None` for a wait without a limit.
pub type WaitDeadline = Option<(Duration, Deadline)>;

/// How a request waits, if it must: as its options and the settings of its lock say.
#[derive(Clone, Copy, Debug)]
pub(super) struct HowToWait {
    pub(super) deadline: WaitDeadline,
    /// The number of requests that may wait.
    pub(super) bound: usize,
    pub(super) priority: Priority,
}

impl HowToWait {
    pub(super) fn limit(self) -> Option<Duration> {
        self.deadline.map(|(limit, _)| limit)
    }

    /// Whether it may not wait.
    pub(super) fn is_at_once(self) -> bool {
        self.limit().is_some_and(|limit| limit.is_zero())
    }

    /// Whether it may wait beside so many other requests.
    pub(super) fn may_wait(self, waiting: usize) -> bool {
        !self.is_at_once() && waiting < self.bound
    }

    /// Refuses a request that may not wait, with the holder if that is because of its options.
    pub(super) fn refuse(
        self,
        owner: &OwnerId,
        waiting: usize,
        holder: Option<Box<LockInfo>>,
        counts: &mut LockCounters,
    ) -> LockError {
        let (owner, bound) = (owner.clone(), self.bound);
        if let Some(holder) = holder {
            return LockError::WouldBlock {
                owner,
                holder,
                waiting,
            };
        }
        counts.total_rejections += 1;
        LockError::QueueFull {
            owner,
            waiting,
            bound,
        }
    }
}

/// A request that has joined a queue.
#[derive(Clone, Copy)]
pub struct Wait<T> {
    pub ticket: T,
    pub deadline: WaitDeadline,
    /// How often it spins before it sleeps.
    pub spins: u32,
    /// When the keeper must look at this wait and its holders, unless it does so before anyway.
    pub keeper_looks: Option<Deadline>,
}

#[doc(hidden)]
impl WaiterKind {
    /// Returns the thread that would wait for itself; zero for a task.
    pub(super) fn thread(self) -> u64 {
        (self == Self::Thread).then(thread_number).unwrap_or(0)
    }

    /// Returns the deadline of a wait that the keeper ends: that of a task, unless it ends at once.
    pub fn ended_by_keeper(self, deadline: WaitDeadline) -> Option<Deadline> {
        let (limit, deadline) = deadline?;
        (self == Self::Task && !limit.is_zero()).then_some(deadline)
    }

    /// Begins the wait of a task that `may_wait`: the keeper serves the queue from now on.
    pub fn attend<Q: WaitQueue>(self, queue: &Arc<Q>, may_wait: bool) -> io::Result<()> {
        match self {
            Self::Task if may_wait => queue.keeper().attend(queue, queue.clock()),
            _ => Ok(()),
        }
    }

    /// Waits until the request has its outcome. A waiter that times out withdraws its request and
    /// waits for the answer to that, so a grant that races it counts.
    pub async fn wait<Q: WaitQueue, W: Recipient>(
        self,
        queue: &Arc<Q>,
        waiter: &Arc<W>,
        cancel: Option<&CancelToken>,
        mut wait: Wait<Q::Ticket>,
    ) -> W::Outcome {
        if let Some(deadline) = wait.keeper_looks {
            call_keeper(queue, deadline);
        }
        let (ticket, clock, mailbox) = (wait.ticket, queue.clock(), waiter.mailbox());
        let attach = |token: &CancelToken| {
            let queue = Arc::clone(queue);
            token.attach(move || queue.withdraw(ticket, Reason::Cancelled))
        };
        if self == Self::Task {
            // From here on, a panic leaves the queue too.
            let mut task = TaskWait {
                queue: &**queue,
                mailbox,
                ticket,
                attached: None,
                spins: wait.spins,
                is_over: false,
            };
            task.attached = cancel.map(attach);
            if let Some((limit, _)) = wait.deadline.filter(|(limit, _)| limit.is_zero()) {
                queue.withdraw(ticket, Reason::Expired(limit));
            }
            return task.await;
        }
        let _attached = cancel.map(attach);
        let _noted = Waits::in_queue(queue, Q::waits_for(ticket));
        let _listener = wait.deadline.filter(|_| clock.is_manual()).map(|_| {
            let listener = Arc::new(ClockListener(Arc::clone(waiter)));
            clock.listen(&listener);
            listener
        });
        loop {
            let deadline = wait.deadline.map(|(_, deadline)| deadline);
            let spins = take(&mut wait.spins);
            if let Some(outcome) = mailbox.wait_until(spins, clock, deadline) {
                return outcome;
            }
            if let Some((limit, _)) = wait.deadline.take() {
                // Whatever the outcome will be, it is on its way.
                queue.withdraw(ticket, Reason::Expired(limit));
            }
        }
    }
}

/// Lets the keeper look at the queue. If no thread starts, a long wait is reported at its end.
pub(super) fn call_keeper<Q: WaitQueue>(queue: &Arc<Q>, deadline: Deadline) {
    match queue.keeper().attend(queue, queue.clock()) {
        Ok(()) => queue.keeper().expect(deadline),
        Err(_) => queue.cannot_look(),
    }
}

/// Runs code that waits as a thread, in the calling thread.
#[inline]
pub fn blocking<T>(code: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(code).poll(&mut context) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("code that waits as a thread is never pending"),
    }
}

/// The wait of a task. On drop before its outcome, the request leaves, or ends its grant.
struct TaskWait<'a, Q: WaitQueue, O: Send + 'static> {
    queue: &'a Q,
    mailbox: &'a Mailbox<O>,
    ticket: Q::Ticket,
    attached: Option<Attached>,
    spins: u32,
    is_over: bool,
}

impl<Q: WaitQueue, O: Send + 'static> Future for TaskWait<'_, Q, O> {
    type Output = O;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<O> {
        // It spins only before it first waits.
        let outcome = self.mailbox.poll(take(&mut self.spins), context);
        self.is_over = outcome.is_ready();
        outcome
    }
}

impl<Q: WaitQueue, O: Send + 'static> Drop for TaskWait<'_, Q, O> {
    fn drop(&mut self) {
        if !self.is_over {
            self.mailbox.forget_task();
            // The last step, because it may drop a key of a user, which may panic.
            self.queue.abandon(self.ticket);
        }
    }
}
