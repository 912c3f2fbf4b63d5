//! How often pictures are taken for clients, who may request them without a pause.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two pictures at least.
const PAUSE: Duration = Duration::from_millis(50);

/// Gives each request a moment, and ends all waits for one.
#[derive(Default)]
pub(super) struct RequestPacer {
    state: Mutex<PacerState>,
    ended: Condvar,
}

#[derive(Default)]
struct PacerState {
    last: Option<Instant>,
    ended: bool,
}

impl RequestPacer {
    /// Waits until the next picture may be taken. `false` if the server has ended.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let turn = state.last.map_or(now, |last| now.max(last + PAUSE));
        state.last = Some(turn);
        drop(state);
        self.sleep(turn.saturating_duration_since(now))
    }

    /// Waits for a time. `false` if the server has ended.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .ended
            .wait_timeout_while(state, time, |state| !state.ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.ended
    }

    pub(super) fn has_ended(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended
    }

    pub(super) fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        drop(state);
        self.ended.notify_all();
    }
}
