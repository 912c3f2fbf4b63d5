//! One active key: its holder and its waiters.

use std::sync::Arc;

use super::join::Joiner;
use crate::key_table::{KeyEntry, KeyId};
use crate::queue::{Ticket, WaitList};
use crate::request::{RequestSource, Requester, Waiting};
use crate::sampling::{HoldStart, Measured};
use crate::time::MonotonicTime;

/// A key that is held, with its holder and its waiters.
pub(super) type ActiveKey<K, V> = KeyEntry<K, KeyHolder<V>>;

/// A grant of a key, with the number of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) key: KeyId,
    pub(super) number: u64,
}

/// The position where a request waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyedPosition {
    /// In the queue of a key.
    Turn(KeyId, Ticket),
    /// Among the requests for the result of the task that held the key at that moment.
    Join(KeyId, Ticket),
    /// For all requests of a shard up to this epoch.
    Drain {
        shard: usize,
        epoch: u64,
        ticket: Ticket,
    },
}

pub(super) struct KeyHolder<V> {
    pub(super) number: u64,
    pub(super) epoch: u64,
    pub(super) source: RequestSource,
    pub(super) since: HoldStart,
    /// Set by the first waiter. Kept until the key is idle, because tickets name positions in these
    /// queues.
    pub(super) queues: Option<Box<KeyQueues<V>>>,
}

/// The two queues of a key: requests for the key, and requests for the result of its task. The end
/// of a task grants the first request of the one, and answers all requests of the other.
pub(super) struct KeyQueues<V> {
    pub(super) turns: WaitList<InEpoch>,
    pub(super) joins: WaitList<KeyedWaiter<dyn Joiner<V>>>,
}

/// A request of an epoch, or a wait for all requests up to it.
pub(super) struct InEpoch {
    pub(super) waiter: KeyedWaiter<dyn Waiting>,
    pub(super) epoch: u64,
}

pub(super) struct KeyedWaiter<R: ?Sized> {
    pub(super) number: u64,
    pub(super) since: MonotonicTime,
    pub(super) request: Arc<R>,
}

impl<V> KeyHolder<V> {
    pub(super) fn vacant() -> Self {
        Self {
            number: 0,
            epoch: 0,
            source: RequestSource::vacant(),
            since: HoldStart::default(),
            queues: None,
        }
    }

    /// Makes the request the holder. Every field is written in place, see
    /// [`RequestSource::assign`].
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        number: u64,
        epoch: u64,
        requester: &Requester<'_>,
        measured: Option<Measured>,
    ) {
        self.number = number;
        self.epoch = epoch;
        self.source.assign(requester);
        self.since.begin(measured);
    }

    /// Drops every value that owns memory.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if self.queues.is_some() {
            self.queues = None;
        }
        self.source.forget();
    }

    pub(super) fn queues(&mut self) -> &mut KeyQueues<V> {
        self.queues.get_or_insert_with(Box::default)
    }

    /// Returns how many requests wait for the key.
    pub(super) fn waiting(&self) -> usize {
        self.queues.as_ref().map_or(0, |queues| queues.turns.len())
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = &KeyedWaiter<dyn Waiting>> {
        let turns = self
            .queues
            .iter()
            .flat_map(|queues| queues.turns.iter(None));
        turns.map(|(_, turn)| &turn.waiter)
    }
}

impl<V> Default for KeyQueues<V> {
    /// No request overtakes another.
    fn default() -> Self {
        Self {
            turns: WaitList::new(0),
            joins: WaitList::new(0),
        }
    }
}
