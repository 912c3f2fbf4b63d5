//! The line in which everything waits: a pure state machine, first in first out for each priority.
//!
//! A [`Queue`] decides who is next and nothing else. It owns no thread, reads no clock and knows no
//! document, so every interleaving of its callers is an ordering of plain method calls. What it
//! guards is a [`Capacity`]: one holder for the global lock; other faces bring other capacities.
//!
//! Invariants, for every sequence of calls in which [`Queue::next`] is drained after whatever can
//! make room for the head: each [`Queue::give_back`], and, where demands differ (with one holder
//! they do not), each [`Queue::withdraw`] and each [`Queue::join`], which can bring another head:
//!
//! 1. Requests of one priority are granted in the order in which they joined. Of two priorities,
//!    the later and higher request is granted first if and only if it joined within the next
//!    `overtaking * levels` requests. A withdrawn request is as if it had only taken a number.
//! 2. If somebody waits, the head of the line does not fit into what is free. For the global lock
//!    this reads: nobody holds implies nobody waits.
//! 3. [`Queue::try_take`] succeeds only when nobody waits, so it never overtakes.
//! 4. A ticket never names another's place.
//! 5. A request is overtaken by at most `overtaking` requests for each level that there is above
//!    its own.
//! 6. Reading by [`Queue::page`] lists whoever waits throughout exactly once, in order, whoever
//!    leaves meanwhile.
//! 7. What is kept of those who left is no more than what is kept of those who wait.
//!
//! `docs/design.md`, "The line", has the reasons.

mod capacity;
mod gaps;
mod lane;
mod line;
mod mode;
mod priority;
mod table;

pub(crate) use capacity::{Capacity, Divisible, Exclusive, Part, Slots};
use line::Line;
pub(crate) use line::{Cursor, Ticket};
pub use mode::LockMode;
pub(crate) use mode::Rights;
pub use priority::Priority;
pub(crate) use table::{Asked, Link, LockTable, Party};

/// A line in front of a capacity. `T` is what a face keeps of each waiting request.
#[derive(Debug)]
pub(crate) struct Queue<C: Capacity, T> {
    capacity: C,
    line: Line<Waiting<C::Demand, T>>,
}

#[derive(Debug)]
struct Waiting<D, T> {
    demand: D,
    request: T,
}

impl<C: Capacity, T> Queue<C, T> {
    /// `overtaking` bounds by how many later requests one may be overtaken for each level that they
    /// are above it; zero makes the line first in first out whatever the priorities.
    pub(crate) fn new(capacity: C, overtaking: u32) -> Self {
        Self {
            capacity,
            line: Line::new(overtaking),
        }
    }

    /// Takes `demand` at once if nobody waits and it fits.
    pub(crate) fn try_take(&mut self, demand: &C::Demand) -> bool {
        self.line.is_empty() && self.capacity.take(demand)
    }

    /// Joins the line. To be called only after [`Queue::try_take`] has declined.
    #[inline]
    pub(crate) fn join(&mut self, demand: C::Demand, priority: Priority, request: T) -> Ticket {
        self.line.join(priority, Waiting { demand, request })
    }

    /// Leaves the line from wherever the request stands; `None` when it no longer waits. O(log n),
    /// amortized.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> Option<T> {
        self.line.remove(ticket).map(|waiting| waiting.request)
    }

    /// Returns what a granted request had taken.
    pub(crate) fn give_back(&mut self, demand: &C::Demand) {
        self.capacity.give_back(demand);
    }

    /// Changes what a granted request has taken into something that leaves more room, or as much.
    pub(crate) fn exchange(&mut self, taken: &C::Demand, instead: &C::Demand) {
        self.capacity.give_back(taken);
        let fits = self.capacity.take(instead);
        debug_assert!(fits, "what takes less fits where more was taken");
    }

    /// Grants the head of the line if it fits.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<T> {
        let capacity = &mut self.capacity;
        let granted = self.line.pop_if(|head| capacity.take(&head.demand));
        granted.map(|waiting| waiting.request)
    }

    /// What the line stands in front of.
    pub(crate) fn capacity(&self) -> &C {
        &self.capacity
    }

    /// As [`Queue::capacity`]. What makes room for the head is followed by draining
    /// [`Queue::next`], as ever.
    pub(crate) fn capacity_mut(&mut self) -> &mut C {
        &mut self.capacity
    }

    /// What the head of the line demands.
    pub(crate) fn head(&self) -> Option<&C::Demand> {
        let (_, waiting) = self.line.iter().next()?;
        Some(&waiting.demand)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether nobody waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// The waiting requests in the order in which they would be granted.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Ticket, &T)> {
        requests(self.line.iter())
    }

    /// Up to `count` waiting requests (zero counts as one) from a position on, and the position at
    /// which the next page begins; `None` is the head of the line, and then its end. O(log n) for
    /// the page and each of its requests.
    ///
    /// A position remains one after whoever stood there has left. Requests that join meanwhile are
    /// listed where they stand behind it.
    pub(crate) fn page(
        &self,
        after: Option<Cursor>,
        count: usize,
    ) -> (Vec<(Ticket, &T)>, Option<Cursor>) {
        let members = match after {
            None => self.line.iter(),
            Some(after) => self.line.iter_behind(after),
        };
        let mut members = requests(members);
        let page: Vec<_> = members.by_ref().take(count.max(1)).collect();
        let last = page.last().map(|&(ticket, _)| self.line.position(ticket));
        (page, last.filter(|_| members.next().is_some()))
    }

    /// Whether this request waits. O(log n).
    pub(crate) fn waits(&self, ticket: Ticket) -> bool {
        self.line.get(ticket).is_some()
    }

    /// A request that is not granted soon: one from the rear half of a lane where there is any.
    /// O(log² n).
    pub(crate) fn late(&self) -> Option<&T> {
        self.line.late().map(|waiting| &waiting.request)
    }

    /// How many stand before this request; `None` when it no longer waits. O(log n).
    pub(crate) fn place(&self, ticket: Ticket) -> Option<usize> {
        self.line.place(ticket)
    }
}

fn requests<'a, D: 'a, T: 'a>(
    members: impl Iterator<Item = (Ticket, &'a Waiting<D, T>)>,
) -> impl Iterator<Item = (Ticket, &'a T)> {
    members.map(|(ticket, waiting)| (ticket, &waiting.request))
}

#[cfg(test)]
mod tests;
