//! The tracks of a timeline: one for each owner, and more for requests of one owner that overlap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;

use super::Timeline;
use crate::id::OwnerId;

/// Requests on tracks. On one track, a request ends before the next one begins.
pub(super) struct Layout<'a> {
    /// The positions of the entries, in the order of their requests.
    pub(super) order: Vec<usize>,
    /// The owners, in the order of their first requests.
    pub(super) owners: Vec<&'a OwnerId>,
    /// The tracks. Those of one owner follow one another, and owners are in their order.
    pub(super) tracks: Vec<Track<'a>>,
    /// The track of the entry at each position.
    pub(super) track_of: Vec<usize>,
}

pub(super) struct Track<'a> {
    pub(super) name: &'a OwnerId,
    pub(super) owner: usize,
    /// The number among the tracks of the owner, counted from one.
    pub(super) number: usize,
}

impl fmt::Display for Track<'_> {
    /// Formats as `ann`, or as `ann (2)` for a further track of the owner.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, number, .. } = self;
        match number {
            1 => write!(f, "{name}"),
            _ => write!(f, "{name} ({number})"),
        }
    }
}

impl<'a> Layout<'a> {
    pub(super) fn new(timeline: &'a Timeline) -> Self {
        let entries = &timeline.entries;
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|&position| entries[position].requested_at);

        let mut numbers = HashMap::new();
        let mut owners = Vec::new();
        let mut lanes: Vec<Lanes> = Vec::new();
        let mut places = vec![(0, 0); entries.len()];
        for &position in &order {
            let entry = &entries[position];
            let owner = *numbers.entry(&entry.owner_id).or_insert_with(|| {
                owners.push(&entry.owner_id);
                lanes.push(Lanes::default());
                owners.len() - 1
            });
            let spans = timeline.spans(entry);
            let lane = lanes[owner].place(spans.wait.from, spans.end());
            places[position] = (owner, lane);
        }

        let mut tracks = Vec::new();
        let mut first = Vec::with_capacity(owners.len());
        for (owner, lanes) in lanes.iter().enumerate() {
            first.push(tracks.len());
            tracks.extend((1..=lanes.count).map(|number| Track {
                name: owners[owner],
                owner,
                number,
            }));
        }
        let places = places.into_iter();
        let track_of = places.map(|(owner, lane)| first[owner] + lane).collect();
        Self {
            order,
            owners,
            tracks,
            track_of,
        }
    }

    /// Returns the number of the owner of the entry at a position.
    pub(super) fn owner_of(&self, position: usize) -> usize {
        self.tracks[self.track_of[position]].owner
    }
}

/// The tracks of one owner, while requests are placed in their order.
#[derive(Default)]
struct Lanes {
    count: usize,
    busy: BinaryHeap<Reverse<(u64, usize)>>,
    free: BinaryHeap<Reverse<usize>>,
}

impl Lanes {
    /// Returns the first lane that is free from a moment on, and uses it until another.
    fn place(&mut self, from: u64, to: u64) -> usize {
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
