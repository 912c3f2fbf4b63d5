//! A request in a queue, and its wait.

use std::convert::Infallible;
use std::sync::Arc;

use super::entry::KeyedPosition;
use super::shards::KeyedShards;
use crate::keeper::Keeper;
use crate::request::{QueuedWork, Request, RequestOutcome, Requester, Waiting};
use crate::sync::{Mutex, thread_number};
use crate::time::Clock;
use crate::wait::{Look, Reason, Wait, WaitDeadline, WaitQueue, WaitsAs};
use crate::{AcquireOptions, CancelToken, LockError};

impl<K: Send + 'static, V: 'static> WaitQueue for KeyedShards<K, V> {
    type Ticket = KeyedPosition;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn withdraw(&self, waiting_at: KeyedPosition, reason: Reason) {
        let answer = {
            let mut shard = self.shard_of(waiting_at);
            let now = self.clock.now();
            shard.withdraw(waiting_at, reason, now)
        };
        if let Some((request, outcome)) = answer {
            request.deliver(outcome);
        }
    }

    fn keeper(&self) -> &Arc<Keeper> {
        self.keeper.get(&self.clock)
    }

    /// A turn that was granted is ended with its [`Reservation`].
    fn abandon(&self, waiting_at: KeyedPosition) {
        let mut shard = self.shard_of(waiting_at);
        if shard.take_out(waiting_at).is_some() {
            shard.state.counts.total_cancellations += 1;
        }
    }

    fn look_at_waits(&self, look: &mut Look<'_, KeyedPosition>) {
        for shard in self.each().map(Mutex::lock) {
            shard.each_waiting(|waiting_at, request| look.at(waiting_at, request.head().task()));
        }
    }
}

/// A request in a queue, which leaves it on drop.
pub(super) struct KeyedRequest<K: 'static, V: 'static, W: QueuedWork> {
    shared: Arc<KeyedShards<K, V>>,
    request: Arc<Request<W>>,
    waiting_at: KeyedPosition,
    spins: u32,
    pub(super) deadline: WaitDeadline,
    /// Whether it still waits for its outcome.
    is_queued: bool,
}

impl<K: 'static, V: 'static, W: QueuedWork> KeyedRequest<K, V, W> {
    pub(super) fn new(
        shared: &Arc<KeyedShards<K, V>>,
        waiting_at: KeyedPosition,
        request: Arc<Request<W>>,
        spins: u32,
        deadline: WaitDeadline,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            request,
            waiting_at,
            spins,
            deadline,
            is_queued: true,
        }
    }

    /// Lets its timeout begin now.
    pub(super) fn begin_timeout(&mut self, options: &AcquireOptions) {
        self.deadline = self.shared.deadline(options);
    }

    /// Refuses a wait for the calling thread itself.
    pub(super) fn refuse_self(&self) -> Result<(), LockError> {
        let requester = Requester {
            thread: thread_number(),
            ..self.request.head().requester()
        };
        let mut shard = self.shared.shard_of(self.waiting_at);
        let now = self.shared.clock.now();
        shard.refuse_self(self.waiting_at, &requester, now)
    }
}

impl<K: Send + 'static, V: 'static, W: QueuedWork> KeyedRequest<K, V, W> {
    pub(super) async fn wait(
        mut self,
        waits_as: WaitsAs,
        cancel: Option<&CancelToken>,
    ) -> RequestOutcome<W::Reply> {
        let deadline = self.deadline;
        let (shared, request) = (Arc::clone(&self.shared), Arc::clone(&self.request));
        if let Err(error) = waits_as.attend(&shared) {
            let error = LockError::no_keeper(request.head().requester().owner, &error);
            return RequestOutcome::Failed(Box::new(error));
        }
        if waits_as == WaitsAs::Task {
            request.wait_in_task(deadline);
        }
        self.is_queued = false;
        let wait = Wait {
            ticket: self.waiting_at,
            deadline,
            spins: self.spins,
            keeper_looks: None,
        };
        let answered = waits_as.wait(&shared, &request, cancel, wait).await;
        request.open(answered).0
    }
}

impl<K: Send + 'static, V: 'static> KeyedRequest<K, V, Infallible> {
    pub(super) async fn wait_for_grant(
        self,
        waits_as: WaitsAs,
        cancel: Option<&CancelToken>,
    ) -> Result<(), LockError> {
        match self.wait(waits_as, cancel).await {
            RequestOutcome::Granted(_) => Ok(()),
            RequestOutcome::Failed(error) => Err(*error),
            RequestOutcome::Done(never) => match never {},
            RequestOutcome::Panicked(panic) => panic.resume(),
        }
    }
}

impl<K: 'static, V: 'static, W: QueuedWork> Drop for KeyedRequest<K, V, W> {
    fn drop(&mut self) {
        if self.is_queued {
            self.shared
                .shard_of(self.waiting_at)
                .take_out(self.waiting_at);
        }
    }
}
