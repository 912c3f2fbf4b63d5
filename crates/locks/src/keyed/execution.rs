//! The execution of a task under a hold, and the hand-off of the key at its end.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::entry::Hold;
use super::join::Ending;
use super::shard::AnsweredRequests;
use super::shards::KeyedShards;
use crate::caught::{CaughtPanic, catch};
use crate::sync::assert_unlocked;

impl<K, V> KeyedShards<K, V> {
    /// Executes a task under a hold, and ends the hold.
    #[inline(always)]
    pub(super) fn execute(&self, hold: Hold, task: impl FnOnce() -> V) -> V {
        // Nothing observes the state that a panic leaves before the panic resumes.
        assert_unlocked("a task is called");
        self.end_with(hold, catch(task))
    }

    /// Ends the hold of a task with its result or its panic.
    #[inline(always)]
    pub(super) fn end_with(&self, hold: Hold, ended: Result<V, CaughtPanic>) -> V {
        match ended {
            Ok(value) => {
                self.end(hold, &Ending::Done(&value));
                value
            }
            Err(panic) => {
                self.end(hold, &Ending::Panicked(&panic));
                panic.resume()
            }
        }
    }

    /// Ends a hold. The next request in the queue gets the key in the same step.
    #[inline(always)]
    pub(super) fn end(&self, hold: Hold, ending: &Ending<'_, V>) {
        let mut shard = self.shard_with(hold.key.number);
        let ended = shard.end(hold, &self.clock);
        drop(shard);
        let Some(ended) = ended else {
            return;
        };
        if ended.held.is_some() || ended.waited.is_some() {
            self.answer(ended.held, ended.waited, ending);
        }
        drop(ended.gone);
    }

    /// Answers the requests that waited for the end of a hold.
    #[cold]
    fn answer(
        &self,
        held: Option<(Duration, u16)>,
        waited: Option<Box<AnsweredRequests<V>>>,
        ending: &Ending<'_, V>,
    ) {
        let wait = waited.as_ref().and_then(|waited| waited.wait);
        let joined = waited.map(|waited| {
            let answers = waited.answers.into_iter();
            answers.for_each(|(request, outcome)| request.deliver(outcome));
            (waited.task, waited.joiners)
        });
        let mut metrics = self.metrics.lock();
        if let Some((held, weight)) = held {
            metrics.record_hold(held, weight);
        }
        if let Some(wait) = wait {
            metrics.record_wait(wait);
        }
        drop(metrics);
        if let Some((task, joiners)) = joined {
            // Requests that left meanwhile leave their clones behind, and dropping these is code of
            // users. So no handle is dropped before all requests are answered.
            for joiner in &joiners {
                joiner.share(&task, ending);
            }
        }
    }

    /// Binds a hold to the thread that executes its task; zero for a task of an executor, which
    /// knows of the hold from now on.
    pub(super) fn bind(&self, hold: Hold, thread: u64) {
        if let Some(active) = self.shard_with(hold.key.number).active(hold.key) {
            let source = &mut active.entry.state.source;
            (source.thread, source.untaken) = (thread, false);
        }
    }
}

/// Polls a future of a user to its end, or to its panic.
pub(super) async fn run_to_end<V>(
    mut task: Pin<&mut impl Future<Output = V>>,
) -> Result<V, CaughtPanic> {
    assert_unlocked("a task is polled");
    // Nothing observes the state that a panic leaves before the panic resumes.
    poll_fn(|context| match catch(|| task.as_mut().poll(context)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
