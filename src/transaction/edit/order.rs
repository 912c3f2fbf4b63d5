//! From one order of siblings to another.
//!
//! Where each stands is counted, in a logarithm of their number, and not looked for.

use crate::steps::step;

/// Siblings by the places that they had at first, some of which have moved since.
pub(super) struct Siblings {
    /// How many stand in which places, as a Fenwick tree: entry `n` is for as many places up to `n`
    /// as the lowest bit of `n` says. What has moved stands in the place of the sibling that it was
    /// put before.
    counts: Vec<usize>,
}

impl Siblings {
    /// So many siblings, and the place behind them.
    pub(super) fn new(len: usize) -> Self {
        let lowest_bit = |at: usize| at & at.wrapping_neg();
        let mut counts: Vec<usize> = (0..=len + 1).map(lowest_bit).collect();
        if let Some(last) = counts.last_mut() {
            // Nothing stands there yet.
            *last -= 1;
        }
        Self { counts }
    }

    /// How many come before a place.
    fn before(&self, place: usize) -> usize {
        let mut sum = 0;
        let mut at = place;
        while at > 0 {
            step();
            sum += self.counts[at];
            at &= at - 1;
        }
        sum
    }

    /// Takes out the one that stands in a place. Returns its index until then.
    pub(super) fn take(&mut self, place: usize) -> usize {
        self.covering(place, |count| *count -= 1);
        self.before(place)
    }

    /// Puts one before a place and those that have been put there. Returns its index.
    fn put(&mut self, place: usize) -> usize {
        self.covering(place, |count| *count += 1);
        self.before(place)
    }

    fn covering(&mut self, place: usize, change: impl Fn(&mut usize)) {
        let mut at = place + 1;
        while let Some(count) = self.counts.get_mut(at) {
            step();
            change(count);
            at += at & at.wrapping_neg();
        }
    }
}

/// One sibling that moves from an index to another, which it has then.
#[derive(Debug)]
pub(super) struct Move {
    /// Which one, in the new order.
    pub(super) nth: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The fewest moves to a new order, in which each sibling is given by its place in the old one.
pub(super) fn moves(order: &[usize]) -> Vec<Move> {
    let mut siblings = Siblings::new(order.len());
    let mut moves = Vec::new();
    // From the end, so that each is put before one that stays, and before those that were put
    // there.
    let mut next = order.len();
    let stay = ascending(order);
    for (nth, (&place, stays)) in order.iter().zip(stay).enumerate().rev() {
        if stays {
            next = place;
        } else {
            let from = siblings.take(place);
            let to = siblings.put(next);
            moves.push(Move { nth, from, to });
        }
    }
    moves
}

/// Which of these numbers, all different, make up a longest ascending sequence among them.
fn ascending(numbers: &[usize]) -> Vec<bool> {
    // For each length the end of a sequence of that length, of several the one that ends with the
    // smallest number.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = Vec::with_capacity(numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        let length = ends.partition_point(|&end| numbers[end] < *number);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut chosen = vec![false; numbers.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        chosen[at] = true;
        next = before[at];
    }
    chosen
}
