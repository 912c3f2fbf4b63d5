//! How much one thread does for others.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Grant;
use super::request::Waiting;
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
pub(super) struct Batch {
    limit: BatchLimit,
    served: usize,
    began: Option<Timestamp>,
    /// For whom word was left and who sleep, with the time since when the first of them could be awake.
    sleepers: SmallVec<[Arc<dyn Waiting>; 8]>,
    asleep_since: Timestamp,
}

impl Batch {
    /// For so long somebody who sleeps is let sleep on although there is word for them.
    const PATIENCE: Duration = Duration::from_micros(150);

    pub(super) fn new(limit: BatchLimit) -> Self {
        Self {
            limit,
            served: 0,
            began: None,
            sleepers: SmallVec::new(),
            asleep_since: Timestamp::default(),
        }
    }

    /// Whether one more is to be done. To be asked before each.
    pub(super) fn goes_on(&mut self, now: Timestamp) -> bool {
        let began = *self.began.get_or_insert(now);
        if self.sleepers.is_empty() {
            self.asleep_since = now;
        }
        let goes_on = self.served < self.limit.count && now - began < self.limit.time;
        self.served += 1;
        goes_on
    }

    /// Does the work of a request.
    ///
    /// Who sleeps is woken together with others, best when the lock is in other hands: to be woken is to be given a
    /// processor, and it could be this thread's, with everybody waiting for it. Nobody sleeps on behind work that could take
    /// long, or could even wait for who sleeps.
    pub(super) fn serve(&mut self, request: Arc<dyn Waiting>, grant: Grant, now: Timestamp) {
        if !request.is_brief() || now - self.asleep_since > Self::PATIENCE {
            self.wake();
        }
        if request.serve(grant) {
            self.sleepers.push(request);
        }
    }

    pub(super) fn wake(&mut self) {
        self.sleepers.drain(..).for_each(|sleeper| sleeper.wake());
    }
}
