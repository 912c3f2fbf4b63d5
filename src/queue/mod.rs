//! The line in which everything waits: a pure, first-in-first-out state machine.
//!
//! A [`Queue`] decides who is next and nothing else. It owns no thread, reads no clock and knows no document, so
//! every interleaving of its callers is an ordering of plain method calls. What it guards is a [`Capacity`]: one
//! holder for the global lock; other faces bring other capacities.
//!
//! Invariants, for every sequence of calls in which [`Queue::next`] is drained after whatever can make room for the
//! head: each [`Queue::give_back`], and each [`Queue::withdraw`] where demands differ (with one holder they do not):
//!
//! 1. Requests are granted in the order in which they joined; a withdrawn request is as if it had never been.
//! 2. If somebody waits, the head of the line does not fit into what is free. For the global lock this reads:
//!    nobody holds implies nobody waits.
//! 3. [`Queue::try_take`] succeeds only when nobody waits, so it never overtakes.

mod capacity;
mod line;

pub(crate) use capacity::{Capacity, Exclusive};
use line::Line;
pub(crate) use line::Ticket;

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
    pub(crate) fn new(capacity: C) -> Self {
        Self {
            capacity,
            line: Line::default(),
        }
    }

    /// Takes `demand` at once if nobody waits and it fits.
    pub(crate) fn try_take(&mut self, demand: &C::Demand) -> bool {
        self.line.is_empty() && self.capacity.take(demand)
    }

    /// Joins the end of the line. To be called only after [`Queue::try_take`] has declined.
    pub(crate) fn join(&mut self, demand: C::Demand, request: T) -> Ticket {
        self.line.push_back(Waiting { demand, request })
    }

    /// Leaves the line from wherever the request stands; `None` when it no longer waits.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> Option<T> {
        self.line.remove(ticket).map(|waiting| waiting.request)
    }

    /// Returns what a granted request had taken.
    pub(crate) fn give_back(&mut self, demand: &C::Demand) {
        self.capacity.give_back(demand);
    }

    /// Grants the head of the line if it fits.
    pub(crate) fn next(&mut self) -> Option<T> {
        let head = self.line.front()?;
        if !self.capacity.take(&head.demand) {
            return None;
        }
        self.line.pop_front().map(|waiting| waiting.request)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    /// The waiting requests from the head of the line to its end.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Ticket, &T)> {
        self.line
            .iter()
            .map(|(ticket, waiting)| (ticket, &waiting.request))
    }

    /// How many stand before this request; `None` when it no longer waits. Costs one step for each of them.
    pub(crate) fn place(&self, ticket: Ticket) -> Option<usize> {
        self.line.place(ticket)
    }
}

#[cfg(test)]
mod tests;
