//! A waiting call, and the slots that it was granted and has not taken yet.

use std::sync::Weak;

use super::state::{Granted, LeftCall};
use super::{InFlightLimiter, LimiterKey, LimiterShared};
use crate::mailbox::{Mailbox, Waiter};
use crate::wait::WaitDeadline;

/// What a waiting call gets.
type Verdict<K> = Result<UntakenSlots<K>, Box<LeftCall>>;

/// The mailbox through which a waiting call gets its verdict.
pub(super) struct WaitingCaller<K: LimiterKey> {
    pub(super) mailbox: Mailbox<Verdict<K>>,
    /// The timeout of a task, or that it has none. `None` for a thread.
    pub(super) task: Option<WaitDeadline>,
}

impl<K: LimiterKey> WaitingCaller<K> {
    pub(super) fn new(task: Option<WaitDeadline>) -> Self {
        Self {
            mailbox: Mailbox::new(),
            task,
        }
    }
}

impl<K: LimiterKey> Waiter for WaitingCaller<K> {
    type Outcome = Verdict<K>;

    fn mailbox(&self) -> &Mailbox<Verdict<K>> {
        &self.mailbox
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
