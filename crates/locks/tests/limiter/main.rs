//! The guarantees of the limiter, by number.

mod adaptive;
mod ends;
mod grants;
mod keys;
mod metrics;
mod random;
mod weights;

use std::sync::Mutex;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use doclock_locks::{
    PendingRequest,
    limiter::{CallEvidence, CallRequest, InFlightLimiter, LimiterError, LimiterOptions, Permit},
    time::ManualClock,
};

const MS: Duration = Duration::from_millis(1);

type Limiter = InFlightLimiter<&'static str>;

type Call = PendingRequest<'static, CallRequest<&'static str>>;

/// A limiter on a clock that the test moves.
fn timed(options: LimiterOptions<&'static str>) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    let limiter = InFlightLimiter::with_options(options.clock(clock.clock()));
    (limiter, clock)
}

/// Returns once exactly this many calls wait for a key.
fn until_queued(limiter: &Limiter, key: &'static str, count: usize) {
    while limiter.load(&key).queued != count {
        thread::yield_now();
    }
}

/// The names of calls in the order of their runs.
#[derive(Default)]
struct Started(Mutex<Vec<&'static str>>);

impl Started {
    fn note(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }

    fn names(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }

    /// Runs a call in a separate thread, and returns once it waits.
    fn line_up<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        limiter: &'scope Limiter,
        key: &'static str,
        name: &'static str,
        call: Call,
    ) -> ScopedJoinHandle<'scope, Result<(), LimiterError>> {
        let queued = limiter.load(&key).queued;
        let caller = scope.spawn(move || call.run(|_| self.note(name)));
        until_queued(limiter, key, queued + 1);
        caller
    }
}

fn busy(result: Result<Permit<&'static str>, LimiterError>) -> CallEvidence {
    match result {
        Err(LimiterError::Busy { call }) => *call,
        other => panic!("expected a busy limiter, found {other:?}"),
    }
}

/// No call is in flight or waits; idle keys without a configuration are not kept.
fn at_rest(limiter: &Limiter, configured: usize) {
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.queued), (0, 0));
    assert_eq!(snapshot.keys.len(), configured);
    assert_eq!(snapshot.total.latency.count, snapshot.total.acquired);
}
