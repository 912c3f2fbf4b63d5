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
#[path = "../../tests/unit/epochs.rs"]
mod tests;
