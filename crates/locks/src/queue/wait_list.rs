//! The order in which requests are served, and the position of each.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::Priority;
use crate::steps::step;

/// A position in the order of a [`WaitList`], whether or not its value is still there. Identifies
/// a value while it waits: positions are not reused.
///
/// Ordered as the queue is: by rank, and of two with the same rank the higher priority first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket {
    /// The number of the request, postponed by `overtaking` for each level below the highest.
    rank: u64,
    priority: Reverse<Priority>,
}

impl Ticket {
    pub(crate) fn priority(self) -> Priority {
        self.priority.0
    }
}

/// First in, first out for each priority; between priorities by [`Ticket`], which is fixed on
/// joining. Sorted by it.
///
/// Joining behind all others and serving cost O(1), finding a position O(log n). Joining and
/// leaving in the middle move the shorter part.
#[derive(Debug)]
pub(crate) struct WaitList<T> {
    values: VecDeque<(Ticket, T)>,
    /// How many ever joined. At one in each nanosecond this lasts for five hundred years.
    pub(crate) joined: u64,
    /// How many later requests can overtake one, for each level by which they are higher.
    overtaking: u32,
}

impl<T> WaitList<T> {
    /// Up to this many values have room that is never freed, so that bursts do not allocate again.
    pub(super) const KEPT: usize = 1024;

    pub(crate) fn new(overtaking: u32) -> Self {
        Self {
            values: VecDeque::new(),
            joined: 0,
            overtaking,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    #[inline]
    pub(crate) fn join(&mut self, priority: Priority, value: T) -> Ticket {
        let below = Priority::High as u64 - priority as u64;
        let ticket = Ticket {
            rank: self.joined + below * u64::from(self.overtaking),
            priority: Reverse(priority),
        };
        self.joined += 1;
        let len = self.values.len();
        if len == self.values.capacity() {
            // By an eighth instead of doubling: at most a ninth of a long queue's memory is unused.
            self.values.reserve_exact((len / 8).max(4));
        }
        match self.values.back() {
            Some((last, _)) if *last > ticket => {
                let at = self.bound(|other| other < ticket);
                self.values.insert(at, (ticket, value));
            }
            _ => self.values.push_back((ticket, value)),
        }
        ticket
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.values.front().map(|(_, value)| value)
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.take(0)
    }

    /// Removes a value from any position; `None` when it is not in the queue.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        self.take(self.ahead_of(ticket)?)
    }

    /// Returns how many values are ahead of this one; `None` when it is not in the queue.
    pub(crate) fn ahead_of(&self, ticket: Ticket) -> Option<usize> {
        let at = self.bound(|other| other < ticket);
        let found = self.values.get(at)?;
        (found.0 == ticket).then_some(at)
    }

    /// Iterates over the values ahead of this one with their indices, the nearest first; from the
    /// end if there is none.
    pub(crate) fn ahead(&self, ticket: Option<Ticket>) -> impl Iterator<Item = (usize, &T)> {
        let len = self.values.len();
        let at = ticket.map_or(len, |ticket| self.ahead_of(ticket).unwrap_or(0));
        let ahead = self.values.range(..at).enumerate().rev();
        ahead.map(|(at, (_, value))| (at, value))
    }

    pub(crate) fn last(&self) -> Option<(Ticket, &T)> {
        self.values.back().map(|(ticket, value)| (*ticket, value))
    }

    /// Iterates over all values behind a position, to the end; from the front if there is none.
    pub(crate) fn iter(&self, behind: Option<Ticket>) -> impl Iterator<Item = (Ticket, &T)> {
        let from = behind.map_or(0, |behind| self.bound(|other| other <= behind));
        let values = self.values.range(from..);
        values.map(|(ticket, value)| (*ticket, value))
    }

    /// Returns how many values have a position for which `before` holds.
    fn bound(&self, before: impl Fn(Ticket) -> bool) -> usize {
        self.values.partition_point(|(ticket, _)| {
            step();
            before(*ticket)
        })
    }

    /// Removes the value at an index, and shrinks the memory when three quarters of it are unused.
    #[inline]
    fn take(&mut self, at: usize) -> Option<T> {
        let (_, value) = self.values.remove(at)?;
        let (capacity, len) = (self.values.capacity(), self.values.len());
        if capacity > Self::KEPT && len < capacity / 4 {
            self.values.shrink_to(Self::KEPT.max(len * 2));
        }
        Some(value)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.values.capacity()
    }
}
