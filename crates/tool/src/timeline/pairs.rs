//! Who waited for whom: how long requests of one owner waited while another owner held.

use std::cmp::Reverse;
use std::collections::HashMap;

use doclock::{diagnostics::TimelineLayout, lock::Timeline};
use serde::Serialize;

use super::{hold, length, wait};

/// How many owners are told apart. The others count as one.
const OWNERS: usize = 250;

/// The waits of one owner during the holds of another. Owners are numbers of the layout.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pair {
    /// `None` for the owners that are not told apart.
    pub(super) waiter: Option<usize>,
    pub(super) holder: Option<usize>,
    /// The sum of the times, in nanoseconds, in which a request waited and a request held.
    pub(super) waited: u64,
    /// How many waits and holds overlapped.
    pub(super) times: u64,
}

/// Returns the pairs of owners of which one waited for the other, the longest time first.
///
/// A wait for nodes counts all holders of its time, because a timeline has no names of nodes. A
/// request that waits for more nodes does not wait for itself.
pub(super) fn pairs(timeline: &Timeline, layout: &TimelineLayout<'_>) -> Vec<Pair> {
    let classes = OwnerClasses::new(layout);
    let mut sweep = Sweep::new(classes.count());
    sweep.run(layout, &classes);
    for (waiter, holder) in own_holds(timeline, layout) {
        let Some(held) = hold(layout, holder) else {
            continue;
        };
        let waited = wait(layout, waiter);
        let (from, to) = (held.start.max(waited.start), held.end.min(waited.end));
        if from < to {
            let [waiter, holder] = [waiter, holder].map(|position| classes.of(layout, position));
            sweep.remove(holder, waiter, to - from);
        }
    }
    sweep.pairs(&classes)
}

/// Maps owners to classes: owners with much time have one each, and the last one has the others.
struct OwnerClasses {
    classes: Vec<usize>,
    owners: Vec<Option<usize>>,
}

impl OwnerClasses {
    fn new(layout: &TimelineLayout<'_>) -> Self {
        let mut times = vec![0u64; layout.owners.len()];
        for (position, &track) in layout.track_of.iter().enumerate() {
            let time = &mut times[layout.tracks[track].owner];
            let lasted = end(layout, position) - wait(layout, position).start;
            *time = time.saturating_add(lasted);
        }
        let mut owners: Vec<usize> = (0..times.len()).collect();
        owners.sort_by_key(|&owner| Reverse(times[owner]));
        let mut classes = vec![OWNERS; times.len()];
        for (class, &owner) in owners.iter().take(OWNERS).enumerate() {
            classes[owner] = class;
        }
        let mut named: Vec<Option<usize>> = owners.iter().copied().take(OWNERS).map(Some).collect();
        if owners.len() > OWNERS {
            named.push(None);
        }
        Self {
            classes,
            owners: named,
        }
    }

    /// The class of the owner of a request.
    fn of(&self, layout: &TimelineLayout<'_>, position: usize) -> usize {
        self.classes[layout.tracks[layout.track_of[position]].owner]
    }

    fn count(&self) -> usize {
        self.owners.len()
    }
}

/// Goes once through the begins and ends of waits and holds, in the order of time.
///
/// `waited(t)` of a class is the sum of its waits up to `t`, which is `waiting * t - base` while no
/// wait begins or ends. A hold adds `waited` of its end less `waited` of its begin. All arithmetic
/// wraps, so that only the differences have to fit.
struct Sweep {
    waiting: Vec<u64>,
    base: Vec<u64>,
    started: Vec<u64>,
    /// Rows of holders, with a column for each waiter: time and overlaps.
    sums: Vec<(u64, u64)>,
}

impl Sweep {
    fn new(classes: usize) -> Self {
        Self {
            waiting: vec![0; classes],
            base: vec![0; classes],
            started: vec![0; classes],
            sums: vec![(0, 0); classes * classes],
        }
    }

    fn run(&mut self, layout: &TimelineLayout<'_>, classes: &OwnerClasses) {
        let class = |position: usize| classes.of(layout, position);
        let wait = |position: usize| wait(layout, position);
        let end = |position: usize| end(layout, position);
        let waits = |position: &usize| length(wait(*position)) > 0;
        let holds = |position: &usize| hold(layout, *position).map_or(0, length) > 0;

        let begins: Vec<usize> = layout.order.iter().copied().filter(waits).collect();
        let mut turns = layout.order.clone();
        turns.sort_by_key(|&position| wait(position).end);
        let mut ends: Vec<usize> = layout.order.iter().copied().filter(holds).collect();
        ends.sort_by_key(|&position| end(position));
        let mut begins = begins.into_iter().peekable();
        let mut ends = ends.into_iter().peekable();

        // At one moment, what ends comes before what begins: only the inside of spans overlaps.
        for turn in turns.chunk_by(|&one, &other| wait(one).end == wait(other).end) {
            let at = wait(turn[0]).end;
            loop {
                let end = ends.peek().map(|&position| end(position));
                let begin = begins.peek().map(|&position| wait(position).start);
                match (end, begin) {
                    (Some(end), begin) if end <= at && begin.is_none_or(|begin| end <= begin) => {
                        ends.next()
                            .map(|position| self.hold_ends(class(position), end))
                    }
                    (_, Some(begin)) if begin < at => begins
                        .next()
                        .map(|position| self.wait_begins(class(position), begin)),
                    _ => break,
                };
            }
            for &position in turn.iter().filter(|position| waits(position)) {
                self.wait_ends(class(position), at);
            }
            for &position in turn.iter().filter(|position| holds(position)) {
                self.hold_begins(class(position), at);
            }
        }
        for position in ends {
            self.hold_ends(class(position), end(position));
        }
    }

    fn wait_begins(&mut self, class: usize, at: u64) {
        self.waiting[class] += 1;
        self.started[class] += 1;
        self.base[class] = self.base[class].wrapping_add(at);
    }

    fn wait_ends(&mut self, class: usize, at: u64) {
        self.waiting[class] -= 1;
        self.base[class] = self.base[class].wrapping_sub(at);
    }

    fn hold_begins(&mut self, class: usize, at: u64) {
        let count = self.waiting.len();
        let row = &mut self.sums[class * count..][..count];
        for (waiter, (waited, times)) in row.iter_mut().enumerate() {
            let waiting = self.waiting[waiter];
            let before = waiting.wrapping_mul(at).wrapping_sub(self.base[waiter]);
            *waited = waited.wrapping_sub(before);
            *times = times.wrapping_sub(self.started[waiter] - waiting);
        }
    }

    fn hold_ends(&mut self, class: usize, at: u64) {
        let count = self.waiting.len();
        let row = &mut self.sums[class * count..][..count];
        for (waiter, (waited, times)) in row.iter_mut().enumerate() {
            let before = self.waiting[waiter]
                .wrapping_mul(at)
                .wrapping_sub(self.base[waiter]);
            *waited = waited.wrapping_add(before);
            *times = times.wrapping_add(self.started[waiter]);
        }
    }

    fn remove(&mut self, holder: usize, waiter: usize, time: u64) {
        let (waited, times) = &mut self.sums[holder * self.waiting.len() + waiter];
        *waited = waited.wrapping_sub(time);
        *times = times.wrapping_sub(1);
    }

    fn pairs(&self, classes: &OwnerClasses) -> Vec<Pair> {
        let count = self.waiting.len();
        let sums = self.sums.iter().enumerate();
        let pairs = sums.filter(|(_, (_, times))| *times > 0);
        let mut pairs: Vec<Pair> = pairs
            .map(|(cell, &(waited, times))| Pair {
                waiter: classes.owners[cell % count],
                holder: classes.owners[cell / count],
                waited,
                times,
            })
            .collect();
        pairs.sort_by_key(|pair| (Reverse(pair.waited), pair.waiter, pair.holder));
        pairs
    }
}

/// When a request ended, in nanoseconds since the recorder began.
fn end(layout: &TimelineLayout<'_>, position: usize) -> u64 {
    let hold = hold(layout, position);
    hold.unwrap_or_else(|| wait(layout, position)).end
}

/// Returns the requests that waited for more nodes under a grant, each with the entry of the grant.
fn own_holds(timeline: &Timeline, layout: &TimelineLayout<'_>) -> Vec<(usize, usize)> {
    let entries = timeline.entries.iter().enumerate();
    let (holds, waits): (Vec<_>, Vec<_>) = entries
        .filter(|(_, entry)| entry.nodes)
        .partition(|(position, _)| layout.hold(*position).is_some());
    let holds = holds.into_iter();
    let holds: HashMap<_, _> = holds
        .map(|(position, entry)| (entry.lock_id, position))
        .collect();
    let waits = waits.into_iter();
    waits
        .filter_map(|(position, entry)| Some((position, *holds.get(&entry.lock_id)?)))
        .collect()
}
