//! The state of a key.

use std::sync::Arc;

use super::adaptive::Adaptive;
use super::metrics::CallMetrics;
use super::{CallEvidence, LimiterKey, Permit};
use crate::mailbox::Mailbox;
use crate::queue::{Queue, Slots, Ticket};
use crate::sampling::Measured;
use crate::time::MonotonicTime;
use crate::wait::{Reason, WaitDeadline};

/// A call in the queue of its key.
pub(super) struct WaitingCall<K: LimiterKey> {
    pub(super) weight: usize,
    pub(super) since: MonotonicTime,
    pub(super) mailbox: Arc<CallMailbox<K>>,
    /// The timeout of a task, or that it has none. `None` for a thread.
    pub(super) task: Option<WaitDeadline>,
}

/// The mailbox through which a waiting call gets its slots. They are returned if the call is gone.
pub(super) type CallMailbox<K> = Mailbox<Result<Permit<K>, LeftCall>>;

/// Why a call left the queue without slots, and the state that it observed, without its key.
pub(super) type LeftCall = Box<(Reason, CallEvidence)>;

/// The state of a key beside its name.
pub(super) struct KeyState<K: LimiterKey> {
    pub(super) queue: Queue<WaitingCall<K>>,
    pub(super) turn: Option<KeyTicket>,
    /// Set for a key that was configured by name.
    pub(super) own: Option<Box<OwnQueue>>,
}

/// The ticket of a key in the queue of keys, and its demand there.
pub(super) struct KeyTicket {
    pub(super) ticket: Ticket,
    pub(super) weight: usize,
}

pub(super) struct OwnQueue {
    pub(super) metrics: CallMetrics,
    pub(super) adaptive: Option<Adaptive>,
}

impl<K: LimiterKey> KeyState<K> {
    pub(super) fn new(limit: usize, own: Option<Box<OwnQueue>>) -> Self {
        Self {
            queue: Queue::new(Slots::new(limit), 0),
            turn: None,
            own,
        }
    }

    /// Whether the key is idle and was not configured by name.
    pub(super) fn is_over(&self) -> bool {
        self.own.is_none() && self.queue.is_empty() && self.queue.slots().taken() == 0
    }

    /// Returns the lowest number of slots that the limit can fall to.
    pub(super) fn least_limit(&self) -> usize {
        let adaptive = self.own.as_ref().and_then(|own| own.adaptive.as_ref());
        adaptive.map_or(self.queue.slots().limit(), Adaptive::least)
    }

    /// Returns the metrics in which its calls count.
    pub(super) fn metrics<'a>(&'a mut self, others: &'a mut CallMetrics) -> &'a mut CallMetrics {
        match &mut self.own {
            Some(own) => &mut own.metrics,
            None => others,
        }
    }

    /// Updates an adaptive limit with a call that returns its slots.
    #[inline(always)]
    pub(super) fn learn(&mut self, began: Option<Measured>, ended: MonotonicTime, whole: bool) {
        let own = self.own.as_mut();
        let adaptive = own.and_then(|own| own.adaptive.as_mut());
        if let (Some(adaptive), Some(began)) = (adaptive, began) {
            let in_flight = self.queue.slots().taken();
            adaptive.take_in([began.at, ended], whole, in_flight);
            self.queue.slots_mut().set_limit(adaptive.limit());
        }
    }
}
