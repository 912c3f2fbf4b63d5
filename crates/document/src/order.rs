//! The moves from one order of siblings to another.
//!
//! Indexes are counted in logarithmic time instead of searched for.

use crate::steps::step;

/// Siblings by their original positions, some of which have moved since.
pub struct Siblings {
    /// A Fenwick tree of how many siblings each position has: entry `n` covers as many positions up
    /// to `n` as its lowest bit says. A moved sibling counts at the position of the sibling that it
    /// precedes.
    counts: Vec<usize>,
}

impl Siblings {
    /// Siblings of this number, and the position after the last.
    pub fn new(len: usize) -> Self {
        let lowest_bit = |at: usize| at & at.wrapping_neg();
        let mut counts: Vec<usize> = (0..=len + 1).map(lowest_bit).collect();
        if let Some(last) = counts.last_mut() {
            // The position after the last is empty.
            *last -= 1;
        }
        Self { counts }
    }

    /// How many siblings precede a position.
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

    /// Takes out the sibling at a position. Returns its index before that.
    pub fn take(&mut self, place: usize) -> usize {
        self.covering(place, |count| *count -= 1);
        self.before(place)
    }

    /// Puts a sibling before a position, and before those put there earlier. Returns its index.
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

/// A move of one sibling; `to` is its index afterwards.
#[derive(Debug)]
pub struct Move {
    /// Its index in the new order.
    pub nth: usize,
    pub from: usize,
    pub to: usize,
}

/// The fewest moves to a new order, which lists the siblings by their old positions.
pub fn moves(order: &[usize]) -> Vec<Move> {
    let mut siblings = Siblings::new(order.len());
    let mut moves = Vec::new();
    // From the end, so each is put before a sibling that stays, and before those put there earlier.
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

/// Marks the members of a longest ascending subsequence of these distinct numbers.
pub fn ascending(numbers: &[usize]) -> Vec<bool> {
    // For each length, the end of the subsequence of that length with the smallest last number.
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
