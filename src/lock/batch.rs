//! How much one thread does for others.

use std::time::Duration;

use crate::time::Timestamp;

/// How much a thread does for others before it hands the lock over and returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimit {
    pub(crate) count: usize,
    pub(crate) time: Duration,
}

impl Default for BatchLimit {
    /// A thread is kept no longer than it would be by an unlucky turn of the scheduler.
    fn default() -> Self {
        Self {
            count: 256,
            time: Duration::from_micros(500),
        }
    }
}

/// What a thread has done for others since it was done with its own work.
#[derive(Debug)]
pub(super) struct Batch {
    limit: BatchLimit,
    served: usize,
    began: Option<Timestamp>,
}

impl Batch {
    pub(super) fn new(limit: BatchLimit) -> Self {
        Self {
            limit,
            served: 0,
            began: None,
        }
    }

    /// Whether one more is to be done. To be asked before each.
    pub(super) fn goes_on(&mut self, now: Timestamp) -> bool {
        let began = *self.began.get_or_insert(now);
        let goes_on = self.served < self.limit.count && now - began < self.limit.time;
        self.served += 1;
        goes_on
    }
}
