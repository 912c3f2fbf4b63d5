//! A waiting call, and the slots that it was granted and has not taken yet.

use std::sync::{Arc, Weak};

use super::state::{Granted, LeftCall};
use super::{InFlightLimiter, LimiterKey, LimiterShared};
use crate::mailbox::Mailbox;
use crate::time::MonotonicTime;
use crate::wait::WaitDeadline;

/// A call in the queue of its key.
pub(super) struct WaitingCall<K: LimiterKey> {
    pub(super) weight: usize,
    pub(super) since: MonotonicTime,
    pub(super) mailbox: Arc<CallMailbox<K>>,
    /// The timeout of a task, or that it has none. `None` for a thread.
    pub(super) task: Option<WaitDeadline>,
}

/// The mailbox through which a waiting call gets its slots.
pub(super) type CallMailbox<K> = Mailbox<Result<UntakenSlots<K>, Box<LeftCall>>>;

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
