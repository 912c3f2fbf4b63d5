//! The last requests of a lock that have ended, in a ring.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::time::SystemTime;

use smol_str::SmolStr;

use super::request::Requester;
use super::{Timeline, TimelineEntry, TimelineOutcome};
use crate::id::{LockId, OwnerId};
use crate::time::{Clock, MonotonicTime};

/// How many requests are read at a time.
const PAGE: usize = 256;

/// Records requests when they end: the last `capacity` of them.
pub(super) struct Recording {
    began_at: SystemTime,
    began: MonotonicTime,
    capacity: usize,
    requests: VecDeque<RecordedRequest>,
    /// How many requests were removed.
    forgotten: u64,
}

/// A request that has ended, or one that holds or waits.
pub(super) struct RecordedRequest {
    number: u64,
    owner: OwnerId,
    label: Option<SmolStr>,
    call_site: &'static Location<'static>,
    nodes: bool,
    requested: MonotonicTime,
    granted: Option<MonotonicTime>,
    ended: Option<MonotonicTime>,
    outcome: TimelineOutcome,
}

impl RecordedRequest {
    /// A request that ends now without a grant, or goes on.
    pub(super) fn of(
        number: u64,
        requester: &Requester<'_>,
        nodes: bool,
        requested: MonotonicTime,
        ended: Option<MonotonicTime>,
        outcome: TimelineOutcome,
    ) -> Self {
        Self {
            number,
            owner: requester.owner.clone(),
            label: requester.label.cloned(),
            call_site: requester.call_site,
            nodes,
            requested,
            granted: None,
            ended,
            outcome,
        }
    }

    /// The same request, which was granted.
    pub(super) fn granted(self, at: MonotonicTime) -> Self {
        Self {
            granted: Some(at),
            ..self
        }
    }
}

impl Recording {
    pub(super) fn new(capacity: usize, clock: &Clock) -> Self {
        Self {
            began_at: SystemTime::now(),
            began: clock.now(),
            capacity,
            requests: VecDeque::new(),
            forgotten: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, request: RecordedRequest) {
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

    /// Returns a timeline without entries, read now. Its `forgotten` is how many requests have
    /// ended.
    pub(super) fn timeline(&self, now: MonotonicTime) -> Timeline {
        Timeline {
            began_at: self.began_at,
            read_at: now - self.began,
            forgotten: self.forgotten + self.requests.len() as u64,
            entries: Vec::new(),
        }
    }

    /// Returns the last of the first `end` requests that have ended, in order. None if they are
    /// forgotten.
    pub(super) fn page(&self, end: u64, lock: u32) -> Vec<TimelineEntry> {
        let end = end.saturating_sub(self.forgotten) as usize;
        let page = self.requests.range(end.saturating_sub(PAGE)..end);
        page.map(|request| self.entry(request, lock)).collect()
    }

    pub(super) fn entry(&self, request: &RecordedRequest, lock: u32) -> TimelineEntry {
        TimelineEntry {
            lock_id: LockId {
                number: request.number,
                lock,
            },
            owner_id: request.owner.clone(),
            label: request.label.clone(),
            call_site: request.call_site.into(),
            nodes: request.nodes,
            requested_at: request.requested - self.began,
            granted_at: request.granted.map(|at| at - self.began),
            ended_at: request.ended.map(|at| at - self.began),
            outcome: request.outcome,
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
