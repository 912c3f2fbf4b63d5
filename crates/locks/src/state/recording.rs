//! The last requests of a lock that have ended, in a ring.

use std::collections::VecDeque;
use std::time::SystemTime;

use super::*;

/// How many requests are read at a time.
const PAGE: usize = 256;

/// Records requests when they end: the last `capacity` of them.
#[derive(Debug)]
pub(crate) struct Recording {
    began_at: SystemTime,
    began: MonotonicTime,
    capacity: usize,
    requests: VecDeque<TimelineEntry>,
    /// How many requests were removed.
    forgotten: u64,
}

impl Recording {
    pub(crate) fn new(capacity: usize, clock: &Clock) -> Self {
        Self {
            began_at: SystemTime::now(),
            began: clock.now(),
            capacity,
            requests: VecDeque::new(),
            forgotten: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, request: TimelineEntry) {
        let len = self.requests.len();
        if len >= self.capacity {
            self.forgotten += 1;
            if self.requests.pop_front().is_none() {
                return;
            }
        } else if len == self.requests.capacity() {
            // Doubling would take room for more requests than are ever kept.
            let more = len.max(PAGE).min(self.capacity - len);
            self.requests.reserve_exact(more);
        }
        self.requests.push_back(request);
    }

    /// Returns a timeline, read now, without entries: all that have ended count as `forgotten`.
    pub(crate) fn timeline(&self, now: MonotonicTime, entries: Vec<TimelineEntry>) -> Timeline {
        Timeline {
            began_at: self.began_at,
            read_at: now - self.began,
            forgotten: self.forgotten + self.requests.len() as u64,
            entries,
        }
    }

    /// Returns the last of the first `end` requests that have ended. None if they are forgotten.
    pub(crate) fn page(&self, end: u64) -> Vec<TimelineEntry> {
        let end = end.saturating_sub(self.forgotten) as usize;
        let page = self.requests.range(end.saturating_sub(PAGE)..end);
        page.cloned().collect()
    }

    /// Describes a hold, of the whole lock or of nodes.
    pub(super) fn hold(
        &self,
        hold: &LockHolder,
        nodes: bool,
        ended: Option<MonotonicTime>,
        outcome: TimelineOutcome,
    ) -> TimelineEntry {
        let began = hold.since.known().map(|(at, _)| at);
        let granted = began.or(ended).unwrap_or_default();
        let waited = hold.more.waited.get();
        let waited = waited.map_or(Duration::ZERO, PackedDuration::get);
        let requested = (hold.grant.id(), granted.saturating_sub(waited));
        TimelineEntry {
            nodes,
            granted_at: Some(granted - self.began),
            ..self.request(&hold.source, requested, ended, outcome)
        }
    }

    /// Describes a request that waits, or whose wait ended at `ended`.
    pub(crate) fn waiter(
        &self,
        waiter: &LockWaiter,
        lock: u32,
        ended: Option<MonotonicTime>,
        outcome: TimelineOutcome,
    ) -> TimelineEntry {
        let requested = (LockId::new(waiter.number, lock), waiter.since);
        let request = self.request(waiter.source(), requested, ended, outcome);
        TimelineEntry {
            nodes: waiter.more.part == CapacityPart::Share,
            granted_at: request
                .ended_at
                .filter(|_| outcome == TimelineOutcome::Extended),
            ..request
        }
    }

    #[inline(always)]
    fn request(
        &self,
        source: &RequestSource,
        (lock_id, requested): (LockId, MonotonicTime),
        ended: Option<MonotonicTime>,
        outcome: TimelineOutcome,
    ) -> TimelineEntry {
        TimelineEntry {
            lock_id,
            owner_id: source.owner.clone(),
            label: source.label.clone(),
            call_site: source.call_site.into(),
            nodes: false,
            requested_at: requested - self.began,
            granted_at: None,
            ended_at: ended.map(|at| at - self.began),
            outcome,
        }
    }
}
