//! The requests of one priority, first in first out, which can leave from the middle.

use std::collections::VecDeque;

use super::gaps::Gaps;
use crate::steps::step;

/// A ring of slots, ordered by sequence number. A request that leaves from the middle leaves a gap.
///
/// Invariants:
/// 1. Sequence numbers ascend.
/// 2. The first slot is no gap.
/// 3. At most half of the slots are gaps.
/// 4. LaneSlot `i` is position `first + i` of `gaps`, and `first` is at most the number of slots.
///    Without gaps, `gaps` is clear and `first` is zero, so joining and serving a queue without
///    withdrawals is a push and a pop.
#[derive(Debug)]
pub(super) struct Lane<T> {
    slots: VecDeque<LaneSlot<T>>,
    /// How many slots are gaps.
    left: usize,
    gaps: Gaps,
    first: usize,
}

#[derive(Debug)]
struct LaneSlot<T> {
    sequence: u64,
    /// `None` in a gap.
    value: Option<T>,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            slots: VecDeque::new(),
            left: 0,
            gaps: Gaps::default(),
            first: 0,
        }
    }
}

impl<T> Lane<T> {
    /// Up to this many slots are never freed, so that bursts do not allocate again and again.
    pub(super) const KEPT: usize = 1024;

    const FIRST: usize = 4;

    /// Appends a value; its number must be larger than all before.
    #[inline]
    pub(super) fn push(&mut self, sequence: u64, value: T) {
        debug_assert!(
            self.slots
                .back()
                .is_none_or(|last| last.sequence < sequence)
        );
        let len = self.slots.len();
        if len == self.slots.capacity() {
            // By an eighth instead of doubling: at most a ninth of a long queue's memory is unused.
            self.slots.reserve_exact((len / 8).max(Self::FIRST));
        }
        self.slots.push_back(LaneSlot {
            sequence,
            value: Some(value),
        });
    }

    #[inline]
    pub(super) fn front(&self) -> Option<(u64, &T)> {
        self.at(0)
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let value = self.slots.pop_front()?.value;
        if !self.gaps.is_clear() {
            self.close_ranks();
        }
        self.fit();
        value
    }

    pub(super) fn remove(&mut self, sequence: u64) -> Option<T> {
        let index = self.find(sequence)?;
        if index == 0 {
            return self.pop();
        }
        let value = self.slots.get_mut(index)?.value.take()?;
        self.gaps.add(self.first + index);
        self.left += 1;
        if self.left > self.slots.len() / 2 {
            self.compact();
        }
        self.fit();
        Some(value)
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&T> {
        let (_, value) = self.at(self.find(sequence)?)?;
        Some(value)
    }

    /// Returns the value of a slot that is no gap.
    #[inline]
    pub(super) fn at(&self, index: usize) -> Option<(u64, &T)> {
        let slot = self.slots.get(index)?;
        Some((slot.sequence, slot.value.as_ref()?))
    }

    /// Returns how many slots, including gaps, have a number for which `before` holds. It must hold
    /// for a prefix of the slots.
    pub(super) fn bound(&self, mut before: impl FnMut(u64) -> bool) -> usize {
        self.slots.partition_point(|slot| {
            step();
            before(slot.sequence)
        })
    }

    /// Returns how many values are in front of a slot.
    pub(super) fn values_before(&self, index: usize) -> usize {
        index + self.gaps.before(self.first) - self.gaps.before(self.first + index)
    }

    /// Returns the first slot from this one on that is no gap.
    pub(super) fn next_value(&self, index: usize) -> usize {
        step();
        match self.slots.get(index) {
            Some(LaneSlot { value: None, .. }) => {
                self.gaps.next_kept(self.first + index) - self.first
            }
            _ => index,
        }
    }

    /// Returns the last value before a slot. Steps over gaps one by one.
    pub(super) fn last_before(&self, index: usize) -> Option<(u64, &T)> {
        let mut before = self.slots.range(..index).rev();
        before.find_map(|slot| {
            step();
            Some((slot.sequence, slot.value.as_ref()?))
        })
    }

    fn find(&self, sequence: u64) -> Option<usize> {
        let found = self.slots.binary_search_by(|slot| {
            step();
            slot.sequence.cmp(&sequence)
        });
        found.ok()
    }

    /// Restores the invariants after the removal of the first slot: each gap that comes to the
    /// front is removed, once.
    #[cold]
    fn close_ranks(&mut self) {
        self.first += 1;
        while self.slots.front().is_some_and(|slot| slot.value.is_none()) {
            step();
            self.slots.pop_front();
            self.first += 1;
            self.left -= 1;
        }
        if self.left == 0 {
            self.gaps.clear();
            self.first = 0;
        } else if self.first > self.slots.len() || self.left > self.slots.len() / 2 {
            self.compact();
        }
    }

    /// Drops the gaps. It reads each slot; at least half as many requests have left since the last
    /// time.
    fn compact(&mut self) {
        self.slots.retain(|slot| {
            step();
            slot.value.is_some()
        });
        self.gaps.clear();
        self.left = 0;
        self.first = 0;
    }

    /// Shrinks the memory when three quarters of it are unused. Before the next allocation, at
    /// least half of the remaining values must leave, or as many must come.
    #[inline]
    fn fit(&mut self) {
        let capacity = self.slots.capacity();
        if capacity > Self::KEPT && self.slots.len() < capacity / 4 {
            self.slots.shrink_to(Self::KEPT.max(self.slots.len() * 2));
        }
    }

    /// Returns the number of slots, including gaps, and the memory for slots and for nodes of the
    /// tree.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 3] {
        [
            self.slots.len(),
            self.slots.capacity(),
            self.gaps.allocated(),
        ]
    }
}
