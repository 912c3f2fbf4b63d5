//! The last requests of a lock that have ended, in a ring.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::SystemTime;

use smol_str::SmolStr;

use super::request::Requester;
use super::{Timeline, TimelineEntry, TimelineOutcome};
use crate::id::{LockId, OwnerId};
use crate::time::{Clock, MonotonicTime};

/// How many requests are in a chunk, which a copy shares.
const CHUNK: usize = 256;

/// Records requests when they end: at least the last `capacity` of them, and less than two chunks
/// more. In the steady state it allocates nothing but the handle of a chunk.
pub(super) struct Recording {
    began_at: SystemTime,
    began: MonotonicTime,
    capacity: usize,
    full: VecDeque<Arc<Vec<RecordedRequest>>>,
    open: Vec<RecordedRequest>,
    /// How many requests were removed.
    forgotten: u64,
}

/// A request that has ended, or one that holds or waits.
#[derive(Clone)]
pub(super) struct RecordedRequest {
    pub(super) number: u64,
    pub(super) owner: OwnerId,
    pub(super) label: Option<SmolStr>,
    pub(super) call_site: &'static Location<'static>,
    pub(super) nodes: bool,
    pub(super) requested: MonotonicTime,
    pub(super) granted: Option<MonotonicTime>,
    pub(super) ended: Option<MonotonicTime>,
    pub(super) outcome: TimelineOutcome,
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
            full: VecDeque::new(),
            open: Vec::new(),
            forgotten: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, request: RecordedRequest) {
        if self.open.len() == self.open.capacity() {
            self.open_chunk();
        }
        self.open.push(request);
    }

    /// Begins a chunk, in the memory of the oldest if that is no longer needed.
    #[cold]
    fn open_chunk(&mut self) {
        if !self.open.is_empty() {
            let full = std::mem::take(&mut self.open);
            self.full.push_back(Arc::new(full));
        }
        let is_enough = self.full.len().saturating_sub(1) * CHUNK >= self.capacity;
        let oldest = is_enough.then(|| self.full.pop_front()).flatten();
        self.forgotten += oldest.as_ref().map_or(0, |chunk| chunk.len() as u64);
        // A copy may have it too.
        let reused = oldest.and_then(|chunk| Arc::try_unwrap(chunk).ok());
        let mut chunk = reused.unwrap_or_else(|| Vec::with_capacity(CHUNK));
        chunk.clear();
        self.open = chunk;
    }

    /// Copies the recorded requests, in a time that hardly depends on their number.
    pub(super) fn copy(&self) -> RecordingCopy {
        RecordingCopy {
            began_at: self.began_at,
            began: self.began,
            capacity: self.capacity,
            forgotten: self.forgotten,
            full: self.full.iter().cloned().collect(),
            rest: self.open.clone(),
        }
    }
}

/// The requests of a moment, to be listed without the mutex.
pub(super) struct RecordingCopy {
    began_at: SystemTime,
    began: MonotonicTime,
    capacity: usize,
    forgotten: u64,
    full: Vec<Arc<Vec<RecordedRequest>>>,
    rest: Vec<RecordedRequest>,
}

impl RecordingCopy {
    /// Lists the requests that have ended, and after them those of `unfinished`.
    pub(super) fn timeline(
        self,
        lock: u32,
        read: MonotonicTime,
        unfinished: Vec<RecordedRequest>,
    ) -> Timeline {
        let ended = self.full.iter().map(|chunk| chunk.len()).sum::<usize>() + self.rest.len();
        let skipped = ended.saturating_sub(self.capacity);
        let recorded = self.full.iter().flat_map(|chunk| chunk.iter());
        let recorded = recorded.chain(&self.rest).skip(skipped);
        let entry = |request: &RecordedRequest| TimelineEntry {
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
        };
        Timeline {
            began_at: self.began_at,
            read_at: read - self.began,
            forgotten: self.forgotten + skipped as u64,
            entries: recorded.chain(&unfinished).map(entry).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn recording_of(capacity: usize, requests: u64) -> Recording {
        let mut recording = Recording::new(capacity, &Clock::system());
        for number in 1..=requests {
            recording.push(request(number));
        }
        recording
    }

    fn request(number: u64) -> RecordedRequest {
        RecordedRequest {
            number,
            owner: "ann".into(),
            label: None,
            call_site: Location::caller(),
            nodes: false,
            requested: MonotonicTime::default(),
            granted: None,
            ended: Some(MonotonicTime::default()),
            outcome: TimelineOutcome::TimedOut,
        }
    }

    fn numbers(recording: &Recording) -> Vec<u64> {
        let timeline = recording
            .copy()
            .timeline(0, MonotonicTime::default(), Vec::new());
        let entries = timeline.entries.iter();
        let numbers: Vec<_> = entries.map(|entry| entry.lock_id.number).collect();
        let first = numbers.first().map_or(1, |&first| first);
        assert_eq!(timeline.forgotten, first - 1);
        numbers
    }

    #[test]
    fn a_recording_keeps_the_last_requests_in_order() {
        for capacity in [1, 10, CHUNK - 1, CHUNK, CHUNK + 1, 1000] {
            for requests in [0, 1, 9, CHUNK, CHUNK + 1, 999, 1000, 5000] {
                let recording = recording_of(capacity, requests as u64);
                let first = requests.saturating_sub(capacity) as u64 + 1;
                let expected: Vec<_> = (first..=requests as u64).collect();
                assert_eq!(numbers(&recording), expected, "{capacity}, {requests}");
            }
        }
    }

    #[test]
    fn a_recording_has_less_than_two_chunks_more_than_its_capacity() {
        for capacity in [1, CHUNK, 1000] {
            let mut recording = recording_of(capacity, 0);
            for number in 1..5000 {
                recording.push(request(number));
                let kept = recording.full.len() * CHUNK + recording.open.len();
                assert!(kept < capacity + 2 * CHUNK + 1, "{kept} of {capacity}");
            }
        }
    }

    #[test]
    fn a_copy_stays_as_it_is_while_the_recording_goes_on() {
        let mut recording = recording_of(600, 1000);
        let copy = recording.copy();
        (1001..3000).for_each(|number| recording.push(request(number)));
        let timeline = copy.timeline(0, MonotonicTime::default(), Vec::new());
        let numbers = timeline.entries.iter().map(|entry| entry.lock_id.number);
        assert!(numbers.eq(401..=1000));
    }
}
