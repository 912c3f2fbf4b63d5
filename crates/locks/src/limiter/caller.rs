//! A waiting call, and the slots that it was granted and has not taken yet.

use std::sync::Weak;
use std::task::{Context, Poll};

use super::state::{Granted, LeftCall};
use super::{InFlightLimiter, LimiterKey, LimiterShared};
use crate::parker::{Mailbox, TaskWaiter, Waiter};
use crate::request::TaskRequest;
use crate::time::{Clock, Deadline, TimeListener};

/// What a waiting call gets.
type Verdict<K> = Result<UntakenSlots<K>, Box<LeftCall>>;

/// The mailbox through which a waiting call gets its verdict.
pub(super) struct WaitingCaller<K: LimiterKey> {
    mailbox: Mailbox<Verdict<K>>,
    /// Set if a task waits.
    pub(super) task: Option<TaskRequest>,
}

impl<K: LimiterKey> WaitingCaller<K> {
    pub(super) fn new(task: Option<TaskRequest>) -> Self {
        Self {
            mailbox: Mailbox::new(),
            task,
        }
    }

    pub(super) fn answer(&self, verdict: Verdict<K>) {
        self.mailbox.answer(verdict);
    }
}

impl<K: LimiterKey> Waiter for WaitingCaller<K> {
    type Outcome = Verdict<K>;

    fn wait_until(
        &self,
        spins: u32,
        clock: &Clock,
        deadline: Option<Deadline>,
    ) -> Option<Verdict<K>> {
        self.mailbox.wait_until(spins, clock, deadline)
    }
}

impl<K: LimiterKey> TaskWaiter for WaitingCaller<K> {
    fn poll_outcome(&self, spins: u32, context: &mut Context<'_>) -> Poll<Verdict<K>> {
        self.mailbox.poll_outcome(spins, context)
    }

    fn forget_task(&self) {
        self.mailbox.forget_task();
    }
}

impl<K: LimiterKey> TimeListener for WaitingCaller<K> {
    fn time_advanced(&self) {
        self.mailbox.time_advanced();
    }
}

/// Granted slots on the way to their call. They are returned if it is gone.
pub(super) struct UntakenSlots<K: LimiterKey> {
    limiter: Weak<LimiterShared<K>>,
    granted: Option<Granted>,
}

impl<K: LimiterKey> UntakenSlots<K> {
    pub(super) fn new(limiter: &Weak<LimiterShared<K>>, granted: Granted) -> Self {
        Self {
            limiter: limiter.clone(),
            granted: Some(granted),
        }
    }

    pub(super) fn take(mut self) -> Granted {
        let granted = self.granted.take();
        granted.expect("slots are taken once")
    }
}

impl<K: LimiterKey> Drop for UntakenSlots<K> {
    fn drop(&mut self) {
        if let Some(granted) = self.granted.take()
            && let Some(limiter) = self.limiter.upgrade()
        {
            InFlightLimiter(limiter).give_back(granted, false, true);
        }
    }
}
