//! Epochs of requests, for waiting until all present requests have left.

use std::collections::VecDeque;

/// Counts requests by epoch. An epoch ends when a request begins to wait for all present
/// requests; later requests belong to a later epoch. So the requests that come and go meanwhile
/// cost one counter.
///
/// Invariant: each past epoch has at least one request left. So there are never more epochs than
/// requests.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    /// The number of the present epoch.
    number: u64,
    present: usize,
    /// The past epochs, oldest first: the number of each, and how many requests it has left.
    past: Option<Box<EarlierEpochs>>,
}

type EarlierEpochs = VecDeque<(u64, usize)>;

impl Epochs {
    fn past(&self) -> impl Iterator<Item = &(u64, usize)> {
        self.past.iter().flat_map(|past| past.iter())
    }

    /// Counts a request in. Returns its epoch, for [`Epochs::leave`].
    #[inline(always)]
    pub(super) fn arrive(&mut self) -> u64 {
        self.present += 1;
        self.number
    }

    /// Counts a request out. `true` if it was the last of the oldest epoch.
    #[inline(always)]
    pub(super) fn leave(&mut self, epoch: u64) -> bool {
        if epoch == self.number {
            self.present -= 1;
            return false;
        }
        self.leave_past(epoch)
    }

    #[cold]
    fn leave_past(&mut self, epoch: u64) -> bool {
        let past = self.past.get_or_insert_default();
        let Ok(at) = past.binary_search_by_key(&epoch, |&(number, _)| number) else {
            debug_assert!(false, "a request leaves twice");
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

    /// Ends the present epoch, if it has a request. Returns the last epoch that has one left: a
    /// wait for it and all before it is a wait for exactly the present requests. `None` when there
    /// is none.
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

    /// Returns the oldest epoch that may have requests left.
    pub(super) fn oldest(&self) -> u64 {
        let first = self.past().next();
        first.map_or(self.number, |&(number, _)| number)
    }

    /// Returns how many requests are left in all epochs up to this one.
    pub(super) fn left(&self, up_to: u64) -> usize {
        let epochs = self.past().take_while(|(number, _)| *number <= up_to);
        epochs.map(|(_, left)| left).sum()
    }

    pub(super) fn len(&self) -> usize {
        let past: usize = self.past().map(|(_, left)| left).sum();
        self.present + past
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_take_memory_in_proportion_to_present_requests() {
        let mut there = Epochs::default();
        let stays = there.arrive();
        let first = there.close();
        // Requests come and go, and each time another waits for all of them.
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
    fn an_epoch_does_not_wait_for_later_requests() {
        let mut there = Epochs::default();
        assert_eq!(there.close(), None);
        let (a, b) = (there.arrive(), there.arrive());
        let first = there.close().unwrap();
        assert_eq!(there.close(), Some(first), "no request came in between");
        let c = there.arrive();
        assert!(c > first && a == first);
        let second = there.close().unwrap();
        assert_eq!(
            (there.left(first), there.left(second), there.len()),
            (2, 3, 3)
        );

        // The later epoch may end first.
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
