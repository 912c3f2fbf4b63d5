//! Flat combining: how many queued batches one thread runs for other threads.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Grant;
use super::mailbox::Rest;
use super::request::Waiting;
use super::state::AfterUnlock;
use super::wake_chain::WakeChain;
use crate::sync::yield_now;
use crate::time::MonotonicTime;

/// Limits how much a thread runs for other threads before it releases the lock and returns.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimit {
    pub count: usize,
    pub time: Duration,
}

impl Default for BatchLimit {
    /// A thread is delayed no longer than by an unfavourable decision of the scheduler.
    fn default() -> Self {
        Self {
            count: 256,
            time: Duration::from_micros(500),
        }
    }
}

impl BatchLimit {
    /// Returns the limit for a task, which delays others of its thread. The keeper runs the rest.
    pub fn for_task(self) -> Self {
        Self {
            count: self.count.min(32),
            time: self.time.min(Duration::from_micros(50)),
        }
    }
}

/// The work that a combiner has run for others. On drop, it wakes the waiters that slept meanwhile.
pub(super) struct Batch<'a> {
    limit: BatchLimit,
    wake_chain: &'a WakeChain<dyn Waiting>,
    served: usize,
    began: Option<MonotonicTime>,
    /// Answered waiters that sleep, with the time from which the first of them could be awake.
    sleepers: SmallVec<[Arc<dyn Waiting>; 8]>,
    asleep_since: MonotonicTime,
    /// The requests of tasks. Work of those that are gone drops users' values after the hand-off.
    of_tasks: Vec<Arc<dyn Waiting>>,
    /// The reports of its steps, whose observers, code of users too, run after that.
    reports: Vec<AfterUnlock>,
}

impl<'a> Batch<'a> {
    /// An answered waiter may sleep on for this long, if the batch lasts longer.
    const PATIENCE: Duration = Duration::from_micros(500);

    pub(super) fn new(limit: BatchLimit, wake_chain: &'a WakeChain<dyn Waiting>) -> Self {
        Self {
            limit,
            wake_chain,
            served: 0,
            began: None,
            sleepers: SmallVec::new(),
            asleep_since: MonotonicTime::default(),
            of_tasks: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// Whether to run one more request. Called before each.
    pub(super) fn goes_on(&mut self, now: MonotonicTime) -> bool {
        let began = *self.began.get_or_insert(now);
        if self.sleepers.is_empty() {
            self.asleep_since = now;
        }
        let goes_on = self.served < self.limit.count && now - began < self.limit.time;
        self.served += 1;
        goes_on
    }

    /// Runs the work of a request. Sleeping waiters are woken together at the end of the batch: one
    /// that is woken before could take the processor of this thread while all others wait for it.
    /// But none sleeps on behind work that could take long, or could wait for that waiter itself.
    pub(super) fn serve(&mut self, request: Arc<dyn Waiting>, grant: Grant, now: MonotonicTime) {
        if !request.head().brief || now - self.asleep_since >= Self::PATIENCE {
            self.wake();
        }
        if request.head().is_left_by_task() {
            self.of_tasks.push(Arc::clone(&request));
        }
        if request.serve(grant) != Rest::Awake {
            self.sleepers.push(request);
        }
    }

    /// Keeps the reports of a step that grants the lock to another request of the batch.
    pub(super) fn hold_back(&mut self, outbox: &mut Vec<AfterUnlock>) {
        let is_report = |next: &mut AfterUnlock| matches!(next, AfterUnlock::Report(_));
        self.reports.extend(outbox.extract_if(.., is_report));
    }

    /// Ends the batch. Returns the reports that were kept, to deliver them now.
    pub(super) fn end(mut self) -> Vec<AfterUnlock> {
        std::mem::take(&mut self.reports)
    }

    /// Whether the end of the batch drops work of tasks that are gone.
    pub(super) fn drops_work(&self) -> bool {
        let mut of_tasks = self.of_tasks.iter();
        of_tasks.any(|request| Arc::strong_count(request) == 1)
    }

    /// Starts to wake the sleeping waiters. Returns whether there are any.
    fn wake(&mut self) -> bool {
        !self.sleepers.is_empty() && self.wake_chain.begin(self.sleepers.drain(..))
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // A woken waiter may have been scheduled on this processor.
        if self.wake() {
            yield_now();
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/batch.rs"]
mod tests;
