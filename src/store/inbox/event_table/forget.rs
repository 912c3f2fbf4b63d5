//! The done and dead events, in the orders in which they are forgotten.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Bound;
use std::time::{Duration, SystemTime};

use smol_str::SmolStr;

use super::{EventRecord, EventTable};
use crate::shrink::excess;
use crate::time::MonotonicTime;

/// The events that are done or dead. Each has exactly one entry.
#[derive(Default)]
pub(super) struct SettledEvents {
    /// Done events by time of sending: the oldest on top.
    done: BinaryHeap<Reverse<(SystemTime, SmolStr)>>,
    /// Done events whose messages carry no time, in the order in which they were done.
    done_untimed: VecDeque<SmolStr>,
    /// Dead events by time of sending, then by order of death. Events without a time come first.
    dead: BTreeMap<(Option<SystemTime>, u64), SmolStr>,
}

/// Capacity for this many events is never given back.
const KEPT: usize = 16;

impl SettledEvents {
    pub(super) fn add_done(&mut self, sent_at: Option<SystemTime>, id: SmolStr) {
        match sent_at {
            Some(sent_at) => self.done.push(Reverse((sent_at, id))),
            None => self.done_untimed.push_back(id),
        }
    }

    /// Adds an event that died with this number.
    pub(super) fn add_dead(&mut self, sent_at: Option<SystemTime>, number: u64, id: SmolStr) {
        self.dead.insert((sent_at, number), id);
    }

    /// The done events with their times of sending, in no particular order.
    #[cfg(feature = "redb")]
    pub(super) fn all_done(&self) -> impl Iterator<Item = (Option<SystemTime>, &SmolStr)> {
        let timed = self.done.iter();
        let timed = timed.map(|Reverse((sent_at, id))| (Some(*sent_at), id));
        timed.chain(self.done_untimed.iter().map(|id| (None, id)))
    }

    /// Removes an event that is not dead any more.
    pub(super) fn remove_dead(&mut self, sent_at: Option<SystemTime>, number: u64) {
        self.dead.remove(&(sent_at, number));
    }

    /// Removes the oldest done event that was sent before a moment.
    fn pop_done(&mut self, sent_before: SystemTime) -> Option<(SystemTime, SmolStr)> {
        let oldest = self.done.peek_mut()?;
        let Reverse((sent_at, _)) = &*oldest;
        (*sent_at < sent_before).then(|| PeekMut::pop(oldest).0)
    }

    /// Removes the oldest dead event that was sent before a moment.
    fn pop_dead(&mut self, sent_before: SystemTime) -> Option<(SystemTime, SmolStr)> {
        let timed = Bound::Excluded((None, u64::MAX));
        let end = Bound::Excluded((Some(sent_before), 0));
        let oldest = *self.dead.range((timed, end)).next()?.0;
        Some((oldest.0?, self.dead.remove(&oldest)?))
    }

    fn shrink(&mut self) {
        if let Some(room) = excess(self.done.capacity(), self.done.len(), KEPT) {
            self.done.shrink_to(room);
        }
        let untimed = &mut self.done_untimed;
        if let Some(room) = excess(untimed.capacity(), untimed.len(), KEPT) {
            untimed.shrink_to(room);
        }
    }
}

impl EventTable {
    /// Forgets up to `most` done or dead events that were sent before a moment. Returns how many it
    /// forgot, and whether no such event is left.
    pub(crate) fn prune(&mut self, sent_before: SystemTime, most: usize) -> (usize, bool) {
        for forgotten in 0..most {
            let sent_at = if let Some((sent_at, id)) = self.settled.pop_done(sent_before) {
                self.done.remove(&id);
                self.note_forgotten(&id);
                sent_at
            } else if let Some((sent_at, id)) = self.settled.pop_dead(sent_before) {
                self.not_done.remove(&id);
                self.note_forgotten(&id);
                sent_at
            } else {
                let is_old = |sent_at: Option<_>, _| sent_at.is_some_and(|at| at < sent_before);
                let without_id = self.without_id.forget(is_old);
                self.note_forgotten_letters(&without_id);
                self.shrink();
                if forgotten > 0 {
                    self.note_watermark(sent_before);
                }
                return (forgotten + without_id.len(), true);
            };
            self.watermark = self.watermark.max(Some(sent_at));
        }
        self.note_watermark(sent_before);
        (most, false)
    }

    /// Forgets up to `most` events whose messages carry no time and that have been done or dead for
    /// so long. Returns how many it forgot, and whether no such event is left.
    pub(crate) fn prune_untimed(
        &mut self,
        settled_for: Duration,
        most: usize,
        now: MonotonicTime,
    ) -> (usize, bool) {
        for forgotten in 0..most {
            if !self.forget_done_untimed(settled_for, now)
                && !self.forget_dead_untimed(settled_for, now)
            {
                let is_old = |sent_at: Option<_>, at| sent_at.is_none() && now - at >= settled_for;
                let without_id = self.without_id.forget(is_old);
                self.note_forgotten_letters(&without_id);
                self.shrink();
                return (forgotten + without_id.len(), true);
            }
        }
        (most, false)
    }

    fn forget_done_untimed(&mut self, settled_for: Duration, now: MonotonicTime) -> bool {
        let Some(id) = self.settled.done_untimed.front() else {
            return false;
        };
        if self
            .done
            .get(id)
            .is_some_and(|done| now - done.at < settled_for)
        {
            return false;
        }
        self.done.remove(id);
        if let Some(id) = self.settled.done_untimed.pop_front() {
            self.note_forgotten(&id);
        }
        true
    }

    fn forget_dead_untimed(&mut self, settled_for: Duration, now: MonotonicTime) -> bool {
        let Some(((None, _), id)) = self.settled.dead.first_key_value() else {
            return false;
        };
        let died_at = self.not_done.get(id).and_then(EventRecord::death);
        if died_at.is_some_and(|death| now - death.at < settled_for) {
            return false;
        }
        self.not_done.remove(id);
        if let Some((_, id)) = self.settled.dead.pop_first() {
            self.note_forgotten(&id);
        }
        true
    }

    /// Forgets an event if it is dead, and returns whether it was.
    pub(crate) fn forget(&mut self, id: &str) -> bool {
        let Some(event) = self.not_done.get(id) else {
            return false;
        };
        let Some(death) = event.death() else {
            return false;
        };
        self.settled.remove_dead(event.sent_at, death.number);
        self.not_done.remove(id);
        self.note_forgotten(id);
        self.shrink();
        true
    }

    /// Gives back the memory of forgotten events.
    fn shrink(&mut self) {
        self.settled.shrink();
        if let Some(room) = excess(self.not_done.capacity(), self.not_done.len(), KEPT) {
            self.not_done.shrink_to(room);
        }
    }
}
