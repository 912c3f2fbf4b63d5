//! How much one thread does for others.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Grant;
use super::relay::Relay;
use super::request::Waiting;
use crate::sync::yield_now;
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

/// What a thread has done for others since it was done with its own work. When it is dropped, who slept meanwhile is woken.
pub(super) struct Batch<'a> {
    limit: BatchLimit,
    relay: &'a Relay,
    served: usize,
    began: Option<Timestamp>,
    /// For whom word was left, and who sleep.
    sleepers: SmallVec<[Arc<dyn Waiting>; 8]>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(limit: BatchLimit, relay: &'a Relay) -> Self {
        Self {
            limit,
            relay,
            served: 0,
            began: None,
            sleepers: SmallVec::new(),
        }
    }

    /// Whether one more is to be done. To be asked before each.
    pub(super) fn goes_on(&mut self, now: Timestamp) -> bool {
        let began = *self.began.get_or_insert(now);
        let goes_on = self.served < self.limit.count && now - began < self.limit.time;
        self.served += 1;
        goes_on
    }

    /// Does the work of a request.
    ///
    /// Who sleeps is woken when the batch ends, with others and when the lock is in other hands: to be woken is to be given a
    /// processor, and it could be this thread's, with everybody waiting for it. Nobody sleeps on behind work that could take
    /// long, or could even wait for who sleeps.
    pub(super) fn serve(&mut self, request: Arc<dyn Waiting>, grant: Grant) {
        if !request.is_brief() {
            self.wake();
        }
        if request.serve(grant) {
            self.sleepers.push(request);
        }
    }

    /// Has those woken who sleep. Whether there were any.
    fn wake(&mut self) -> bool {
        let any = !self.sleepers.is_empty();
        if any {
            self.relay.begin(self.sleepers.drain(..));
        }
        any
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // Some of those who were woken may have been given this processor.
        if self.wake() {
            yield_now();
        }
    }
}
