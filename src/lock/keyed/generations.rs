//! Who was there when somebody began to wait for all who are.

use std::collections::VecDeque;

use crate::queue::Capacity;

/// Counts requests by generation. A generation ends when somebody begins to wait for all who are there; whoever comes later
/// is of a later one. So what is kept does not depend on how many are there, and whoever comes and goes meanwhile is a number
/// that goes up and down.
///
/// Invariant: the oldest of the past generations has somebody left.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// The number of the present one.
    number: u64,
    present: usize,
    /// How many are left of those before, the oldest first.
    past: VecDeque<usize>,
}

impl Generations {
    /// Somebody comes. Tells the generation, to be given back to [`Generations::leave`].
    #[inline(always)]
    pub(super) fn arrive(&mut self) -> u64 {
        self.present += 1;
        self.number
    }

    /// Somebody goes. `true` if that was the last of the oldest generation.
    #[inline(always)]
    pub(super) fn leave(&mut self, generation: u64) -> bool {
        if generation == self.number {
            self.present -= 1;
            return false;
        }
        self.leave_past(generation)
    }

    #[cold]
    fn leave_past(&mut self, generation: u64) -> bool {
        let age = (self.number - generation) as usize;
        if let Some(left) = self
            .past
            .len()
            .checked_sub(age)
            .and_then(|at| self.past.get_mut(at))
        {
            *left -= 1;
        }
        let before = self.past.len();
        while self.past.front() == Some(&0) {
            self.past.pop_front();
        }
        self.past.len() < before
    }

    /// Ends the present generation, if anybody is of it. Tells the last one that has ended: whoever waits for it waits for all
    /// who are there now, and for nobody else. `None` when nobody is there.
    pub(super) fn close(&mut self) -> Option<u64> {
        if self.present > 0 {
            self.past.push_back(std::mem::take(&mut self.present));
            self.number += 1;
        }
        (!self.past.is_empty()).then(|| self.number - 1)
    }

    /// The oldest generation of which anybody may be left.
    pub(super) fn oldest(&self) -> u64 {
        self.number - self.past.len() as u64
    }

    /// How many are left of all generations up to this one.
    pub(super) fn left(&self, up_to: u64) -> usize {
        let generations = (up_to + 1).saturating_sub(self.oldest()) as usize;
        self.past.iter().take(generations).sum()
    }

    pub(super) fn len(&self) -> usize {
        self.present + self.past.iter().sum::<usize>()
    }
}

/// What those stand before who wait for generations to be gone: a demand is the last of them.
#[derive(Debug, Default)]
pub(super) struct Gone {
    oldest: u64,
}

impl Capacity for Gone {
    type Demand = u64;

    /// Fits as soon as all generations up to that one are gone. Nothing is taken: the next may have waited for the same.
    fn take(&mut self, last: &u64) -> bool {
        *last < self.oldest
    }

    /// All generations before this one are gone.
    fn give_back(&mut self, oldest: &u64) {
        self.oldest = *oldest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_later_is_not_waited_for() {
        let mut there = Generations::default();
        assert_eq!(there.close(), None);
        let (a, b) = (there.arrive(), there.arrive());
        let first = there.close().unwrap();
        assert_eq!(there.close(), Some(first), "nobody came in between");
        let c = there.arrive();
        assert!(c > first && a == first);
        let second = there.close().unwrap();
        assert_eq!(
            (there.left(first), there.left(second), there.len()),
            (2, 3, 3)
        );

        // The later generation may go first.
        assert!(!there.leave(c));
        assert_eq!((there.left(first), there.left(second)), (2, 2));
        let d = there.arrive();
        assert!(!there.leave(a));
        assert!(there.leave(b));
        assert_eq!(
            (there.left(first), there.left(second), there.len()),
            (0, 0, 1)
        );
        assert!(there.oldest() > second && there.oldest() == d);
        assert!(!there.leave(d));
        assert_eq!((there.len(), there.past.capacity() < 64), (0, true));
    }
}
