//! What models do in place of a timer, with the code of the limiter.

use super::*;

impl<K: LimiterKey> InFlightLimiter<K> {
    /// Makes the first waiting call time out, if there is one: runs the same code as a waiter at
    /// its deadline.
    #[doc(hidden)]
    pub fn expire(&self) {
        let mut waiting = None;
        let state = self.0.state.lock();
        state.each_waiting(|ticket, _| {
            waiting.get_or_insert(ticket);
        });
        drop(state);
        if let Some(ticket) = waiting {
            self.0.withdraw(ticket, Reason::Expired(Duration::ZERO));
        }
    }
}
