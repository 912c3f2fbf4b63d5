//! The tracks of a timeline: one for each owner, and more for requests of one owner that overlap.

mod chrome;
mod handoffs;
mod spans;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::id::OwnerId;
use crate::lock::Timeline;
use handoffs::handoffs;

pub use chrome::chrome_trace;

/// The requests of a [`Timeline`] as a program draws them: on tracks, with their hand-offs.
///
/// A position is that of an entry in [`Timeline::entries`]. On one track, a request ends before the
/// next one begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TimelineLayout<'a> {
    timeline: &'a Timeline,
    /// The positions of the entries, in the order of their requests.
    pub order: Vec<usize>,
    /// The owners, in the order of their first requests.
    pub owners: Vec<&'a OwnerId>,
    /// The tracks. Those of one owner follow one another, and owners are in their order.
    pub tracks: Vec<TimelineTrack<'a>>,
    /// For each entry, its index in `tracks`.
    pub track_of: Vec<usize>,
    /// For each entry, the position of the entry that handed it the lock, if one did.
    pub givers: Vec<Option<usize>>,
}

/// A track of a [`TimelineLayout`]. Prints as `ann`, or as `ann (2)` for a further track of the
/// owner.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TimelineTrack<'a> {
    /// The owner of all requests on the track.
    pub owner_id: &'a OwnerId,
    /// The index of the owner in [`TimelineLayout::owners`].
    pub owner: usize,
    /// The number among the tracks of the owner, counted from one.
    pub number: usize,
}

impl fmt::Display for TimelineTrack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            owner_id, number, ..
        } = self;
        match number {
            1 => write!(f, "{owner_id}"),
            _ => write!(f, "{owner_id} ({number})"),
        }
    }
}

impl<'a> TimelineLayout<'a> {
    /// Places the requests on tracks, for a program that draws them. The Chrome trace and the page
    /// of the tool `doclock` have this layout.
    ///
    /// ```
    /// use doclock::diagnostics::TimelineLayout;
    /// use doclock::lock::{FifoLock, LockOptions};
    ///
    /// let lock = FifoLock::with_options(LockOptions::new().timeline(1_000));
    /// drop(lock.lock("report")?);
    /// let timeline = lock.timeline().unwrap();
    /// let layout = TimelineLayout::new(&timeline);
    /// assert_eq!(layout.tracks[layout.track_of[0]].to_string(), "report");
    /// assert!(layout.wait(0).is_empty());
    /// assert_eq!(layout.hold(0).unwrap().start, layout.wait(0).end);
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn new(timeline: &'a Timeline) -> Self {
        let entries = &timeline.entries;
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|&position| entries[position].requested_at);

        let mut numbers = HashMap::new();
        let mut owners = Vec::new();
        let mut lanes: Vec<TrackLanes> = Vec::new();
        let mut places = vec![(0, 0); entries.len()];
        for &position in &order {
            let entry = &entries[position];
            let owner = *numbers.entry(&entry.owner_id).or_insert_with(|| {
                owners.push(&entry.owner_id);
                lanes.push(TrackLanes::default());
                owners.len() - 1
            });
            let wait = spans::wait(timeline, entry);
            let end = spans::hold(timeline, entry).map_or(wait.end, |hold| hold.end);
            let lane = lanes[owner].place(wait.start, end);
            places[position] = (owner, lane);
        }

        let mut tracks = Vec::new();
        let mut first = Vec::with_capacity(owners.len());
        for (owner, lanes) in lanes.iter().enumerate() {
            first.push(tracks.len());
            tracks.extend((1..=lanes.count).map(|number| TimelineTrack {
                owner_id: owners[owner],
                owner,
                number,
            }));
        }
        let places = places.into_iter();
        let track_of = places.map(|(owner, lane)| first[owner] + lane).collect();
        Self {
            timeline,
            order,
            owners,
            tracks,
            track_of,
            givers: handoffs(timeline),
        }
    }

    /// Returns when the request at a position waited: until its grant, or until its end if it was
    /// not granted. A request that still waits does so until the timeline was read.
    ///
    /// # Panics
    ///
    /// If the timeline has no entry at the position.
    pub fn wait(&self, position: usize) -> Range<Duration> {
        spans::wait(self.timeline, &self.timeline.entries[position])
    }

    /// Returns when the request at a position held, from its grant to its end or until the timeline
    /// was read. `None` if it was not granted, or only extended a grant, which has its own entry.
    ///
    /// # Panics
    ///
    /// If the timeline has no entry at the position.
    pub fn hold(&self, position: usize) -> Option<Range<Duration>> {
        spans::hold(self.timeline, &self.timeline.entries[position])
    }
}

/// The tracks of one owner, while requests are placed in their order.
#[derive(Default)]
struct TrackLanes {
    count: usize,
    busy: BinaryHeap<Reverse<(Duration, usize)>>,
    free: BinaryHeap<Reverse<usize>>,
}

impl TrackLanes {
    /// Returns the first lane that is free from a moment on, and uses it until another.
    fn place(&mut self, from: Duration, to: Duration) -> usize {
        while let Some(&Reverse((end, lane))) = self.busy.peek()
            && end <= from
        {
            self.busy.pop();
            self.free.push(Reverse(lane));
        }
        let lane = self.free.pop().map_or(self.count, |Reverse(lane)| lane);
        self.count = self.count.max(lane + 1);
        self.busy.push(Reverse((to, lane)));
        lane
    }
}
