//! A waiting call, and the slots that it was granted and has not taken yet.

use std::sync::{Arc, Weak};

use super::state::{Granted, LeftCall};
use super::{InFlightLimiter, LimiterKey, LimiterShared};
use crate::mailbox::Mailbox;
use crate::wait::WaitDeadline;

/// What a waiting call gets.
type Verdict<K> = Result<UntakenSlots<K>, Box<LeftCall>>;

/// What the queue keeps of a waiting call.
pub(super) struct WaitingCaller<K: LimiterKey> {
    pub(super) mailbox: Arc<Mailbox<Verdict<K>>>,
    /// The timeout of a task, or that it has none. `None` for a thread.
    pub(super) task: Option<WaitDeadline>,
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
