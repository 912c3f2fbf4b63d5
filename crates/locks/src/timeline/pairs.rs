//! Who waited for whom: how long requests of one owner waited while another owner held.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use super::Timeline;
use super::layout::Layout;

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
pub(super) fn pairs(timeline: &Timeline, layout: &Layout<'_>) -> Vec<Pair> {
    let classes = Classes::new(timeline, layout);
    let mut sweep = Sweep::new(classes.count());
    sweep.run(timeline, layout, &classes);
    for (waiter, holder) in own_holds(timeline) {
        let [wait, hold] = [waiter, holder].map(|position| &timeline.entries[position]);
        let Some(hold) = timeline.spans(hold).hold else {
            continue;
        };
        let time = timeline.spans(wait).wait.overlap(hold);
        if time > 0 {
            let [waiter, holder] = [waiter, holder].map(|entry| classes.of(layout.owner_of(entry)));
            sweep.remove(holder, waiter, time);
        }
    }
    sweep.pairs(&classes)
}

/// Maps owners to classes: owners with much time have one each, and the last one has the others.
struct Classes {
    classes: Vec<usize>,
    owners: Vec<Option<usize>>,
}

impl Classes {
    fn new(timeline: &Timeline, layout: &Layout<'_>) -> Self {
        let mut times = vec![0u64; layout.owners.len()];
        for (position, entry) in timeline.entries.iter().enumerate() {
            let spans = timeline.spans(entry);
            let time = &mut times[layout.owner_of(position)];
            *time = time.saturating_add(spans.end() - spans.wait.from);
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

    fn of(&self, owner: usize) -> usize {
        self.classes[owner]
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

    fn run(&mut self, timeline: &Timeline, layout: &Layout<'_>, classes: &Classes) {
        let class = |position: usize| classes.of(layout.owner_of(position));
        let spans = |position: usize| timeline.spans(&timeline.entries[position]);
        let waits = |position: &usize| spans(*position).wait.length() > 0;
        let holds = |position: &usize| spans(*position).hold.is_some_and(|hold| hold.length() > 0);

        let begins: Vec<usize> = layout.order.iter().copied().filter(waits).collect();
        let mut turns = layout.order.clone();
        turns.sort_by_key(|&position| spans(position).wait.to);
        let mut ends: Vec<usize> = layout.order.iter().copied().filter(holds).collect();
        ends.sort_by_key(|&position| spans(position).end());
        let mut begins = begins.into_iter().peekable();
        let mut ends = ends.into_iter().peekable();

        // At one moment, what ends comes before what begins: only the inside of spans overlaps.
        for turn in turns.chunk_by(|&one, &other| spans(one).wait.to == spans(other).wait.to) {
            let at = spans(turn[0]).wait.to;
            loop {
                let end = ends.peek().map(|&position| spans(position).end());
                let begin = begins.peek().map(|&position| spans(position).wait.from);
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
            self.hold_ends(class(position), spans(position).end());
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

    fn pairs(&self, classes: &Classes) -> Vec<Pair> {
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

/// Returns the requests that waited for more nodes under a grant, each with the entry of the grant.
fn own_holds(timeline: &Timeline) -> Vec<(usize, usize)> {
    let entries = timeline.entries.iter().enumerate();
    let (holds, waits): (Vec<_>, Vec<_>) = entries
        .filter(|(_, entry)| entry.nodes)
        .partition(|(_, entry)| entry.outcome.is_hold());
    let holds = holds.into_iter();
    let holds: HashMap<_, _> = holds
        .map(|(position, entry)| (entry.lock_id, position))
        .collect();
    let waits = waits.into_iter();
    waits
        .filter_map(|(position, entry)| Some((position, *holds.get(&entry.lock_id)?)))
        .collect()
}
