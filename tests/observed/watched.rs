//! A store whose subscriber and recorder keep all that they see.

use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use doclock::dsl::{create, text_node};
use doclock::lock::AcquireOptions;
use doclock::time::ManualClock;
use doclock::transaction::Operation;
use doclock::{DataStore, LockId, StoreOptions, TransactionManager};
use tracing::subscriber::DefaultGuard;

use crate::recorder::Metrics;
use crate::subscriber::{Seen, Spans};

/// The hold limit of the store.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Watched {
    pub(crate) store: DataStore,
    pub(crate) clock: ManualClock,
    pub(crate) spans: Spans,
    pub(crate) metrics: Metrics,
    _follows: DefaultGuard,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self::with(|options| options)
    }

    pub(crate) fn with(set: impl FnOnce(StoreOptions) -> StoreOptions) -> Self {
        let (spans, metrics, clock) = (Spans::default(), Metrics::default(), ManualClock::new());
        let options = StoreOptions::new()
            .name("notes")
            .hold_limit(LIMIT)
            .clock(clock.clock());
        let options = set(options);
        Self {
            store: metrics::with_local_recorder(&metrics, || DataStore::with_options(options)),
            _follows: spans.follow(),
            clock,
            spans,
            metrics,
        }
    }

    pub(crate) fn manager(&self) -> TransactionManager {
        TransactionManager::for_owner(self.store.clone(), "ann")
    }

    /// Runs code in another thread, with the same subscriber.
    pub(crate) fn spawn<'s, 'e, T: Send + 's>(
        &'e self,
        scope: &'s Scope<'s, 'e>,
        code: impl FnOnce() -> T + Send + 's,
    ) -> ScopedJoinHandle<'s, T> {
        scope.spawn(move || {
            let _follows = self.spans.follow();
            code()
        })
    }

    /// Waits until so many requests wait for the document lock.
    pub(crate) fn await_queue(&self, length: usize) {
        while self.store.queue_length() != length {
            thread::yield_now();
        }
    }

    /// Holds the lock, and advances the clock when the request of `code` waits. Then `end`
    /// is called.
    pub(crate) fn while_held<T: Send>(
        &self,
        code: impl FnOnce() -> T + Send,
        end: impl FnOnce(LockId),
    ) -> T {
        let lock = self.store.acquire_lock("holder").unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let _follows = self.spans.follow();
                code()
            });
            self.await_queue(1);
            end(lock);
            let outcome = waiter.join().unwrap();
            let _ = self.store.release_lock(lock);
            outcome
        })
    }

    /// Waits for the lock as the owner `other`.
    pub(crate) fn request_of_other(&self) -> LockId {
        let options = AcquireOptions::new().no_timeout();
        self.store
            .request("other")
            .options(options)
            .wait()
            .unwrap()
            .into_id()
    }

    /// Makes the holder, which calls this, exceed its limit, and returns when another owner was
    /// granted the lock.
    pub(crate) fn revoke_holder(&self) {
        thread::scope(|scope| {
            let other = scope.spawn(|| self.request_of_other());
            self.await_queue(1);
            self.clock.advance(2 * LIMIT);
            let other = other.join().unwrap();
            self.store.release_lock(other).unwrap();
        });
    }

    /// The spans that ended. Each was counted under its outcome, with its durations.
    #[track_caller]
    pub(crate) fn ended(&self) -> Vec<Seen> {
        let spans = self.spans.transactions();
        let seen = |name| self.metrics.values(name).len();
        assert_eq!(seen("doclock_transaction_wait_seconds"), spans.len());
        let held = spans
            .iter()
            .filter(|span| !span.field("hold_ms").is_empty());
        assert_eq!(seen("doclock_transaction_hold_seconds"), held.count());
        for span in &spans {
            let outcome = span.field("outcome");
            let same = spans.iter().filter(|span| span.field("outcome") == outcome);
            assert_eq!(
                self.metrics.outcome(outcome),
                same.count() as u64,
                "{outcome}"
            );
        }
        spans
    }

    /// The kind, the outcome and the code of each span that ended after the first `before`.
    #[track_caller]
    pub(crate) fn after(&self, before: usize) -> Vec<String> {
        let spans = self.ended();
        let words = spans[before..].iter().map(|span| {
            let words = ["kind", "outcome", "code"].map(|name| span.field(name));
            words.join(" ").trim().to_owned()
        });
        words.collect()
    }
}

pub(crate) fn note(id: &str) -> Operation {
    create(text_node("note", "Hello").with_id(id))
}
