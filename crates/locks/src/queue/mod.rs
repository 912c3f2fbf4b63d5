//! The queue of waiting requests: a pure state machine, first in first out for each priority.
//!
//! A [`Queue`] decides the order of grants and nothing else. It owns no thread, reads no clock and
//! depends on no document, so every interleaving of its callers is an ordering of plain method
//! calls. It guards [`Slots`], of which each request takes some: all for the document lock, one for
//! capacities.
//!
//! Invariants, for every sequence of calls in which [`Queue::next`] is drained after each call that
//! can make room for the head: each [`Queue::give_back`], and, where demands differ (with one
//! holder they do not), each [`Queue::withdraw`] and each [`Queue::join`], which can bring another
//! head:
//!
//! 1. Requests of one priority are granted in the order in which they joined. Of two priorities,
//!    the later and higher request is granted first if and only if it joined within the next
//!    `overtaking * levels` requests. A withdrawn request has the effect of a number that was
//!    issued and never used.
//! 2. If a request waits, the head of the queue does not fit into the free capacity. For the
//!    document lock: if the lock is free, no request waits.
//! 3. [`Queue::try_take`] succeeds only when no request waits, so it never overtakes.
//! 4. A ticket never identifies the position of another request.
//! 5. A request is overtaken by at most `overtaking` requests for each level above its own.
//! 6. Reading by [`Queue::page`] lists each request that waits throughout exactly once, in order,
//!    whichever requests leave meanwhile.
//!
//! `docs/invariants/queue.md` has the reasons (Q1 to Q8).

mod mode;
mod table;
mod wait_list;

use serde::{Deserialize, Serialize};

pub use mode::LockMode;
#[doc(hidden)]
pub use mode::Rights;
pub(crate) use table::{Link, LockTable, MemberNumber};
pub(crate) use wait_list::{Ticket, WaitList};

/// A queue in front of slots. `T` is the data that a lock type keeps for each waiting request.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    slots: Slots,
    pub(crate) list: WaitList<QueuedRequest<T>>,
}

#[derive(Debug)]
pub(crate) struct QueuedRequest<T> {
    weight: usize,
    request: T,
}

impl<T> Queue<T> {
    /// Creates a queue. `overtaking` bounds how many later requests can overtake one, for each
    /// level by which they are higher. Zero makes the queue first in first out, whatever the
    /// priorities.
    pub(crate) fn new(slots: Slots, overtaking: u32) -> Self {
        Self {
            slots,
            list: WaitList::new(overtaking),
        }
    }

    /// Takes `weight` slots at once if no request waits and they fit.
    #[inline]
    pub(crate) fn try_take(&mut self, weight: usize) -> bool {
        self.list.is_empty() && self.slots.take(weight)
    }

    /// Joins the queue. Called only after [`Queue::try_take`] has declined.
    #[inline]
    pub(crate) fn join(&mut self, weight: usize, priority: Priority, request: T) -> Ticket {
        self.list.join(priority, QueuedRequest { weight, request })
    }

    /// Removes a request from any position; `None` when it no longer waits. Moves the
    /// requests ahead of it or behind it, whichever are fewer.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> Option<T> {
        self.list.remove(ticket).map(|waiting| waiting.request)
    }

    /// Returns the slots that a granted request had taken.
    #[inline]
    pub(crate) fn give_back(&mut self, weight: usize) {
        self.slots.give_back(weight);
    }

    /// Grants the head of the queue if it fits.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<T> {
        if !self.slots.take(self.list.front()?.weight) {
            return None;
        }
        self.list.pop().map(|granted| granted.request)
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Sets the limit of the slots. Below the taken ones, nothing fits until enough are given back.
    /// If there is room for the head now, drain [`Queue::next`].
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.slots.limit = limit;
    }

    pub(crate) fn head(&self) -> Option<usize> {
        self.list.front().map(|waiting| waiting.weight)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates over the waiting requests in the order in which they would be granted.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Ticket, &T)> {
        requests(self.list.iter(None))
    }

    /// Returns up to `count` waiting requests (zero counts as one) from a position on, and the
    /// position of the next page. As an argument `None` is the head of the queue, as a result its
    /// end. O(log n) for the page.
    ///
    /// A position stays valid after its request has left. Requests that join meanwhile are listed
    /// if they are behind it.
    pub(crate) fn page(
        &self,
        after: Option<Ticket>,
        count: usize,
    ) -> (Vec<(Ticket, &T)>, Option<Ticket>) {
        let mut members = requests(self.list.iter(after));
        let page: Vec<_> = members.by_ref().take(count.max(1)).collect();
        let last = page.last().map(|&(ticket, _)| ticket);
        (page, last.filter(|_| members.next().is_some()))
    }

    /// Returns how many requests are ahead of this one; `None` when it no longer waits. O(log n).
    pub(crate) fn ahead_of(&self, ticket: Ticket) -> Option<usize> {
        self.list.ahead_of(ticket)
    }
}

fn requests<'a, T: 'a>(
    members: impl Iterator<Item = (Ticket, &'a QueuedRequest<T>)>,
) -> impl Iterator<Item = (Ticket, &'a T)> {
    members.map(|(ticket, waiting)| (ticket, &waiting.request))
}

/// A number of slots, of which a request takes one or several: its weight.
#[derive(Debug)]
pub(crate) struct Slots {
    limit: usize,
    taken: usize,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, taken: 0 }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    #[inline]
    pub(crate) fn fits(&self, weight: usize) -> bool {
        weight <= self.limit && self.taken <= self.limit - weight
    }

    /// Takes the slots if they fit beside those that are taken already.
    #[inline]
    fn take(&mut self, weight: usize) -> bool {
        let fits = self.fits(weight);
        if fits {
            self.taken += weight;
        }
        fits
    }

    #[inline]
    fn give_back(&mut self, weight: usize) {
        debug_assert!(weight <= self.taken, "given back more than was taken");
        self.taken = self.taken.saturating_sub(weight);
    }
}

/// The part of a lock that a request takes, as a number of slots: all, or one of very many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum CapacityPart {
    Whole = u32::MAX,
    Share = 1,
}

/// The priority of a request.
///
/// Requests of one priority are granted in FIFO order. A request may be granted before earlier
/// requests of a lower priority, but only a bounded number of requests overtakes each of them, for
/// each level between the two. So a request of low priority is granted in the end, whatever else
/// arrives.
///
/// ```
/// use doclock_locks::Priority;
///
/// assert!(Priority::Low < Priority::Normal && Priority::Normal < Priority::High);
/// assert_eq!(Priority::default(), Priority::Normal);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Priority {
    /// Work in the background: imports, maintenance.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Work that a user watches.
    High,
}

impl Priority {
    /// Every priority, from the lowest to the highest.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];
}

#[cfg(test)]
#[path = "../../tests/unit/queue.rs"]
mod tests;
