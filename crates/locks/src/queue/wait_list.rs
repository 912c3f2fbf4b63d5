//! The order in which requests are served, and the position of each.

use std::cmp::Reverse;

use super::Priority;
use super::lane::Lane;

/// Identifies a value in a [`WaitList`] while it waits. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    sequence: u64,
    priority: Priority,
}

/// A position in the order of a [`WaitList`], whether or not a value is still there.
///
/// Ordered as the queue is: by rank, and of two with the same rank the higher priority first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cursor {
    /// The sequence number, postponed by `overtaking` for each level below the highest.
    rank: u64,
    priority: Reverse<Priority>,
}

/// First in, first out for each priority; between priorities by [`Cursor`], which is fixed on
/// joining.
///
/// Joining and serving cost O(1) amortized, finding a position O(log n), leaving O(log n)
/// amortized. The memory for values that left is never more than that for the waiting ones. Memory
/// is freed when three quarters of it are unused, except for a small rest.
#[derive(Debug)]
pub(crate) struct WaitList<T> {
    /// `None` until the first joins: most queues of a program are never joined.
    lanes: Option<Box<Lanes<T>>>,
    /// How many ever joined. At one in each nanosecond this lasts for five hundred years.
    joined: u64,
    /// How many later requests can overtake one, for each level by which they are higher.
    overtaking: u32,
    /// Each value is a thread, or takes memory of its own, so 32 bits are enough.
    len: u32,
}

type Lanes<T> = [Lane<T>; Priority::ALL.len()];

impl<T> WaitList<T> {
    pub(crate) fn new(overtaking: u32) -> Self {
        Self {
            lanes: None,
            joined: 0,
            overtaking,
            len: 0,
        }
    }

    /// How many later requests can overtake one, for each level.
    pub(crate) fn overtaking(&self) -> u32 {
        self.overtaking
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn join(&mut self, priority: Priority, value: T) -> Ticket {
        let sequence = self.joined;
        self.joined += 1;
        self.len += 1;
        let lanes = self.lanes.get_or_insert_with(Self::lanes);
        lanes[priority as usize].push(sequence, value);
        Ticket { sequence, priority }
    }

    /// Removes the front if `accept` returns `true`.
    #[inline]
    pub(crate) fn pop_if(&mut self, accept: impl FnOnce(&T) -> bool) -> Option<T> {
        let first = self.first()?;
        let lane = &mut self.lanes.as_mut()?[first as usize];
        let (_, value) = lane.front()?;
        if !accept(value) {
            return None;
        }
        self.len -= 1;
        lane.pop()
    }

    /// Removes a value from any position; `None` when it is not in the queue.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let lanes = self.lanes.as_mut()?;
        let value = lanes[ticket.priority as usize].remove(ticket.sequence)?;
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&T> {
        self.lane(ticket.priority)?.get(ticket.sequence)
    }

    /// Returns how many values are ahead of this one; `None` when it is not in the queue.
    pub(crate) fn ahead_of(&self, ticket: Ticket) -> Option<usize> {
        self.get(ticket)?;
        let own = self.cursor(ticket.priority, ticket.sequence);
        let before = Priority::ALL.map(|priority| {
            let before = |sequence| self.cursor(priority, sequence) < own;
            let lane = self.lane(priority);
            lane.map_or(0, |lane| lane.values_before(lane.bound(before)))
        });
        Some(before.into_iter().sum())
    }

    /// Returns the value directly ahead of this one, if this one is in the queue and not its front.
    pub(crate) fn directly_ahead(&self, ticket: Ticket) -> Option<&T> {
        self.get(ticket)?;
        let own = self.cursor(ticket.priority, ticket.sequence);
        let nearest = Priority::ALL.into_iter().filter_map(|priority| {
            let lane = self.lane(priority)?;
            let before = |sequence| self.cursor(priority, sequence) < own;
            let (sequence, value) = lane.last_before(lane.bound(before))?;
            Some((self.cursor(priority, sequence), value))
        });
        let (_, value) = nearest.max_by_key(|(cursor, _)| *cursor)?;
        Some(value)
    }

    /// Iterates over all values from the front to the end.
    pub(crate) fn iter(&self) -> InOrder<'_, T> {
        InOrder {
            list: self,
            indices: [0; Priority::ALL.len()],
        }
    }

    /// Iterates over all values behind a position, to the end.
    pub(crate) fn iter_behind(&self, position: Cursor) -> InOrder<'_, T> {
        let indices = Priority::ALL.map(|priority| {
            let before = |sequence| self.cursor(priority, sequence) <= position;
            let lane = self.lane(priority);
            lane.map_or(0, |lane| lane.next_value(lane.bound(before)))
        });
        InOrder {
            list: self,
            indices,
        }
    }

    /// Returns the position of this value, even if it has left.
    pub(crate) fn cursor_of(&self, ticket: Ticket) -> Cursor {
        self.cursor(ticket.priority, ticket.sequence)
    }

    /// Returns the lane of the front.
    #[inline]
    fn first(&self) -> Option<Priority> {
        let fronts = Priority::ALL.into_iter().filter_map(|priority| {
            let (sequence, _) = self.lane(priority)?.front()?;
            Some(self.cursor(priority, sequence))
        });
        fronts.min().map(|cursor| cursor.priority.0)
    }

    #[inline]
    fn lane(&self, priority: Priority) -> Option<&Lane<T>> {
        let lanes = self.lanes.as_ref()?;
        Some(&lanes[priority as usize])
    }

    #[cold]
    fn lanes() -> Box<Lanes<T>> {
        Box::default()
    }

    #[inline]
    fn cursor(&self, priority: Priority, sequence: u64) -> Cursor {
        let below = Priority::High as u64 - priority as u64;
        Cursor {
            rank: sequence + below * u64::from(self.overtaking),
            priority: Reverse(priority),
        }
    }

    /// Returns the sums over the lanes: slots, memory for slots, memory for counting gaps.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 3] {
        let mut sums = [0; 3];
        for lane in self.lanes.iter().flat_map(|lanes| &**lanes) {
            for (sum, size) in sums.iter_mut().zip(lane.sizes()) {
                *sum += size;
            }
        }
        sums
    }
}

/// The values of a [`WaitList`], in order. Each costs O(1), or O(log n) where others have left
/// before it.
#[derive(Debug)]
pub(crate) struct InOrder<'a, T> {
    list: &'a WaitList<T>,
    /// The slot of the next value for each lane.
    indices: [usize; Priority::ALL.len()],
}

impl<'a, T> Iterator for InOrder<'a, T> {
    type Item = (Ticket, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        let list = self.list;
        let nexts = Priority::ALL.into_iter().filter_map(|priority| {
            let (sequence, value) = list.lane(priority)?.at(self.indices[priority as usize])?;
            Some((Ticket { sequence, priority }, value))
        });
        let next = nexts.min_by_key(|(ticket, _)| list.cursor_of(*ticket))?;
        let priority = next.0.priority;
        let index = &mut self.indices[priority as usize];
        *index = list.lane(priority)?.next_value(*index + 1);
        Some(next)
    }
}
