//! With the feature `tracing` or `metrics`: one observation for each transaction.

use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

use super::TransactionKind;
#[cfg(feature = "metrics")]
use super::metrics::StoreMetrics;
use super::outcome::{OutcomeDetails, TransactionOutcome};
#[cfg(feature = "tracing")]
use super::span::TransactionSpan;
use crate::caught::catch;
use crate::lock::Requester;
use crate::store::TransactionResult;
use crate::sync::assert_unlocked;
use crate::time::{Clock, MonotonicTime};

/// Begins the observations of a store. It does not keep the store alive.
pub(in crate::store) struct Observer(Arc<SharedObserver>);

struct SharedObserver {
    clock: Clock,
    #[cfg(feature = "metrics")]
    metrics: StoreMetrics,
}

/// A transaction under observation, or nothing.
#[derive(Default)]
pub(crate) struct ObservedTransaction(Option<Observing>);

/// With a span, an observation is boxed: a transaction is moved several times, which would cost
/// more than the allocation.
#[cfg(feature = "tracing")]
type Observing = Box<Observation>;
#[cfg(not(feature = "tracing"))]
type Observing = Observation;

struct Observation {
    shared: Arc<SharedObserver>,
    /// When the last measured part ended.
    measured: MonotonicTime,
    /// `None` until it is granted, or has ended without a grant.
    wait: Option<Duration>,
    /// `None` until it has ended, and if it was not granted.
    hold: Option<Duration>,
    ended: Option<OutcomeDetails>,
    #[cfg(feature = "tracing")]
    span: TransactionSpan,
}

impl Observer {
    pub(in crate::store) fn new(store: &SmolStr, clock: &Clock) -> Self {
        #[cfg(not(feature = "metrics"))]
        let _ = store;
        Self(Arc::new(SharedObserver {
            clock: clock.clone(),
            #[cfg(feature = "metrics")]
            metrics: StoreMetrics::register(store),
        }))
    }

    #[inline]
    pub(super) fn observe(
        &self,
        store: &str,
        kind: TransactionKind,
        requester: &Requester<'_>,
    ) -> ObservedTransaction {
        #[cfg(feature = "tracing")]
        let span = TransactionSpan::open(store, kind, requester);
        #[cfg(feature = "tracing")]
        if cfg!(not(feature = "metrics")) && span.is_disabled() {
            return ObservedTransaction(None);
        }
        #[cfg(not(feature = "tracing"))]
        let _ = (store, kind, requester);
        ObservedTransaction(Some(Observing::from(Observation {
            shared: Arc::clone(&self.0),
            measured: self.0.clock.now(),
            wait: None,
            hold: None,
            ended: None,
            #[cfg(feature = "tracing")]
            span,
        })))
    }
}

#[cfg(feature = "metrics")]
impl Observer {
    pub(super) fn metrics(&self) -> &StoreMetrics {
        &self.0.metrics
    }
}

impl ObservedTransaction {
    /// Notes that the request was granted, after a wait.
    #[inline]
    pub(crate) fn granted(&mut self) {
        if let Some(observation) = &mut self.0 {
            observation.granted();
        }
    }

    /// Notes that the request was granted when it was made.
    #[inline]
    pub(crate) fn granted_at_once(&mut self) {
        if let Some(observation) = &mut self.0 {
            observation.wait = Some(Duration::ZERO);
        }
    }

    /// Notes the outcome, or the code of the error. The first call is the end of the hold, or of a
    /// wait without a grant. A later one corrects the outcome.
    #[inline]
    pub(crate) fn ended(&mut self, result: Result<&TransactionResult, &'static str>) {
        if let Some(observation) = &mut self.0 {
            observation.end_with(result.into());
        }
    }

    /// Notes that a transaction is dropped, unless its end was noted. With a batch, its future is.
    #[inline]
    pub(crate) fn dropped(&mut self, is_of_batch: bool) {
        if let Some(observation) = &mut self.0
            && observation.ended.is_none()
        {
            let outcome = match (std::thread::panicking(), is_of_batch) {
                (true, _) => TransactionOutcome::Panicked,
                (false, true) => TransactionOutcome::Cancelled,
                (false, false) => TransactionOutcome::RolledBack,
            };
            observation.end_with(outcome.into());
        }
    }

    /// Runs code of users that belongs to the transaction, in its span.
    #[inline]
    pub(crate) fn in_span<R>(&self, code: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tracing")]
        let _entered = self.0.as_ref().map(|observation| observation.span.enter());
        code()
    }
}

impl Observation {
    /// Returns the time since the last measured part.
    fn lap(&mut self) -> Duration {
        let now = self.shared.clock.now();
        now - std::mem::replace(&mut self.measured, now)
    }

    fn granted(&mut self) {
        let waited = self.lap();
        let before = self.wait.unwrap_or_default();
        self.wait = Some(before + waited);
    }

    fn end_with(&mut self, ended: OutcomeDetails) {
        if self.ended.replace(ended).is_some() {
            return;
        }
        let passed = self.lap();
        match self.wait {
            None => self.wait = Some(passed),
            Some(_) => self.hold = Some(passed),
        }
    }

    /// The outcome of a call that did not return: its future was dropped, or it panicked.
    fn end_of_call(&self) -> TransactionOutcome {
        match self.wait.is_some() || std::thread::panicking() {
            true => TransactionOutcome::Panicked,
            false => TransactionOutcome::Cancelled,
        }
    }

    fn report(&mut self) {
        if self.ended.is_none() {
            self.end_with(self.end_of_call().into());
        }
        let Some(ended) = self.ended else { return };
        let wait = self.wait.unwrap_or_default();
        // A panic of a subscriber or recorder changes no outcome: the transaction has ended. The
        // panic hook has reported it.
        #[cfg(feature = "metrics")]
        drop(catch(|| {
            let metrics = &self.shared.metrics;
            metrics.transaction(ended.outcome, wait, self.hold);
        }));
        #[cfg(feature = "tracing")]
        drop(catch(|| self.span.record(&ended, wait, self.hold)));
    }
}

impl Drop for ObservedTransaction {
    #[inline]
    fn drop(&mut self) {
        if let Some(observation) = &mut self.0 {
            assert_unlocked("a subscriber or recorder is called");
            observation.report();
        }
    }
}
