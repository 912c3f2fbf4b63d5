//! Who was there when somebody began to wait for all who are.

use std::collections::VecDeque;

use crate::queue::Capacity;

/// Counts requests by generation. A generation ends when somebody begins to wait for all who are
/// there; whoever comes later is of a later one. So whoever comes and goes meanwhile is a number
/// that goes up and down.
///
/// Invariant: each of the past generations has somebody left. So there are never more of them than
/// requests.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// The number of the present one.
    number: u64,
    present: usize,
    /// Those before, the oldest first: its number, and how many are left of it.
    past: Option<Box<Past>>,
}

type Past = VecDeque<(u64, usize)>;

impl Generations {
    fn past(&self) -> impl Iterator<Item = &(u64, usize)> {
        self.past.iter().flat_map(|past| past.iter())
    }

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
        let past = self.past.get_or_insert_default();
        let Ok(at) = past.binary_search_by_key(&generation, |&(number, _)| number) else {
            debug_assert!(false, "somebody goes who is not there");
            return false;
        };
        if let Some((_, left)) = past.get_mut(at)
            && *left > 1
        {
            *left -= 1;
            return false;
        }
        past.remove(at);
        at == 0
    }

    /// Ends the present generation, if anybody is of it. Tells the last one of which anybody is
    /// left: whoever waits for it and all before it waits for all who are there now, and for nobody
    /// else. `None` when nobody is there.
    pub(super) fn close(&mut self) -> Option<u64> {
        if self.present > 0 {
            let present = std::mem::take(&mut self.present);
            let past = self.past.get_or_insert_default();
            past.push_back((self.number, present));
            self.number += 1;
        }
        let last = self.past.as_ref().and_then(|past| past.back());
        last.map(|&(number, _)| number)
    }

    /// The oldest generation of which anybody may be left.
    pub(super) fn oldest(&self) -> u64 {
        let first = self.past().next();
        first.map_or(self.number, |&(number, _)| number)
    }

    /// How many are left of all generations up to this one.
    pub(super) fn left(&self, up_to: u64) -> usize {
        let generations = self.past().take_while(|(number, _)| *number <= up_to);
        generations.map(|(_, left)| left).sum()
    }

    pub(super) fn len(&self) -> usize {
        let past: usize = self.past().map(|(_, left)| left).sum();
        self.present + past
    }
}

/// What those stand before who wait for generations to be gone: a demand is the last of them.
#[derive(Debug, Default)]
pub(super) struct Gone {
    oldest: u64,
}

impl Capacity for Gone {
    type Demand = u64;

    /// Fits as soon as all generations up to that one are gone. Nothing is taken: the next may have
    /// waited for the same.
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
    fn what_is_kept_is_in_proportion_to_who_is_left() {
        let mut there = Generations::default();
        let stays = there.arrive();
        let first = there.close();
        // Others come and go, and somebody waits for all of them each time.
        for _ in 0..1_000 {
            let comes = there.arrive();
            let last = there.close().unwrap();
            assert_eq!(last, comes);
            assert!(!there.leave(comes));
            assert_eq!((there.left(last), there.close()), (1, first));
        }
        assert_eq!((there.len(), there.past().count()), (1, 1));
        assert!(there.leave(stays));
        assert!(there.oldest() > 1_000 && there.past().next().is_none());
    }

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
        assert_eq!(
            (there.len(), there.past.unwrap().capacity() < 64),
            (0, true)
        );
    }
}
