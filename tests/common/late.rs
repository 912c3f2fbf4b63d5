//! A cancellation that pauses between collecting the requests of a token and withdrawing them.

use std::cell::RefCell;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use doclock::lock::{
    CancelToken,
    limiter::{InFlightLimiter, LimiterError, LimiterOptions, Permit},
};

/// The first request of the token waits for a limiter. Its withdrawal drops its key, which pauses
/// the thread.
pub(crate) struct LateCancel {
    token: CancelToken,
    gate: Arc<[Barrier; 2]>,
    call: JoinHandle<Result<(), LimiterError>>,
    _slot: Permit<Option<Key>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key;

thread_local! {
    /// The pause of this thread: it starts at the first barrier and ends at the second.
    static GATE: RefCell<Option<Arc<[Barrier; 2]>>> = const { RefCell::new(None) };
}

impl Drop for Key {
    fn drop(&mut self) {
        if let Some(gate) = GATE.take() {
            for barrier in &*gate {
                barrier.wait();
            }
        }
    }
}

fn until_attached(token: &CancelToken, requests: usize) {
    while !format!("{token:?}").contains(&format!("waiting: {requests} ")) {
        thread::yield_now();
    }
}

impl LateCancel {
    pub(crate) fn new() -> Self {
        let token = CancelToken::new();
        let limiter = InFlightLimiter::with_options(LimiterOptions::new(1).global_limit(1));
        let slot = limiter.acquire(None).unwrap();
        let call = {
            let call = limiter.request(Some(Key)).no_timeout();
            let call = call.cancel_token(&token);
            thread::spawn(move || call.run(|_| ()))
        };
        until_attached(&token, 1);
        Self {
            token,
            gate: Arc::new([Barrier::new(2), Barrier::new(2)]),
            call,
            _slot: slot,
        }
    }

    /// For the request that is collected with the first one.
    pub(crate) fn token(&self) -> &CancelToken {
        &self.token
    }

    /// Cancels as soon as the token has a second request. Returns when both are collected, and only
    /// the first one is withdrawn.
    pub(crate) fn begin(&self) -> JoinHandle<()> {
        until_attached(&self.token, 2);
        let (token, gate) = (self.token.clone(), Arc::clone(&self.gate));
        let canceller = thread::spawn(move || {
            GATE.set(Some(gate));
            token.cancel();
        });
        self.gate[0].wait();
        canceller
    }

    /// Returns when both are withdrawn.
    pub(crate) fn finish(self, canceller: JoinHandle<()>) {
        self.gate[1].wait();
        canceller.join().unwrap();
        let call = self.call.join().unwrap();
        assert!(matches!(call, Err(LimiterError::Cancelled { .. })));
    }
}
