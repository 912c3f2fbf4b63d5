//! Withdrawing requests from another thread.

use std::fmt;
use std::sync::Arc;

use slotmap::SlotMap;

use crate::sync::{Mutex, key_code, rank};

/// Withdraws every waiting request that carries it, at once and for good.
///
/// Clones share their state. A request that was granted before the cancellation reached it keeps
/// its grant; a request that carries a cancelled token is refused without waiting.
///
/// ```
/// use doclock::{DataStore, lock::{AcquireOptions, CancelToken, LockError}};
///
/// let store = DataStore::new();
/// let token = CancelToken::new();
/// token.cancel();
/// let refused = store.lock_with("editor", AcquireOptions::new().cancel_token(&token));
/// assert!(matches!(refused, Err(LockError::Cancelled(_))));
/// ```
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Mutex<{ rank::TOKEN }, State>>);

#[derive(Default)]
struct State {
    cancelled: bool,
    requests: SlotMap<Registration, Withdraw>,
}

slotmap::new_key_type! {
    struct Registration;
}

/// Withdraws one request from the line in which it stands, because it was cancelled. Does nothing
/// when it no longer waits.
type Withdraw = Box<dyn FnOnce() + Send>;

impl CancelToken {
    /// A token that nobody has cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Withdraws all requests that wait with this token, and refuses those to come. Never blocks on
    /// a holder.
    ///
    /// When this returns, those that waited when it was called stand in no line any more. One that
    /// is just joining may be seen there for a moment, and is withdrawn by its own thread.
    pub fn cancel(&self) {
        let mut state = self.0.lock();
        state.cancelled = true;
        let requests: Vec<_> = state.requests.drain().map(|(_, request)| request).collect();
        // The locks are entered without the token's mutex: waiters take the two in the other order.
        drop(state);
        // Code of a key may cancel; a request may wait in the very table whose mutex guards that
        // code.
        for withdraw in requests {
            key_code::after(withdraw);
        }
    }

    /// Whether [`cancel`](CancelToken::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.lock().cancelled
    }

    /// Attaches a waiting request, by what withdraws it, for as long as the returned value lives. A
    /// request that comes after the cancellation is withdrawn here and now.
    pub(crate) fn attach(&self, withdraw: impl FnOnce() + Send + 'static) -> Attached<'_> {
        let mut state = self.0.lock();
        let registration = if state.cancelled {
            drop(state);
            withdraw();
            None
        } else {
            Some(state.requests.insert(Box::new(withdraw)))
        };
        Attached {
            token: self,
            registration,
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cancelled, waiting) = {
            let state = self.0.lock();
            (state.cancelled, state.requests.len())
        };
        f.debug_struct("CancelToken")
            .field("cancelled", &cancelled)
            .field("waiting", &waiting)
            .finish()
    }
}

pub(crate) struct Attached<'a> {
    token: &'a CancelToken,
    registration: Option<Registration>,
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        if let Some(registration) = self.registration {
            // Dropped without the token's mutex: it may hold the last handle of a lock.
            let _withdraw = {
                let mut state = self.token.0.lock();
                state.requests.remove(registration)
            };
        }
    }
}
