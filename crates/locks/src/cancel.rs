//! Cancelling requests from another thread.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::caught::run_all;
use crate::mailbox::Mailbox;
use crate::sync::{Mutex, rank};

/// Cancels every waiting request that carries it, at once and for good. Clones share their state.
///
/// A request that was granted before keeps its grant. One with a cancelled token fails at once.
///
/// ```
/// use doclock::{DataStore, lock::{AcquireOptions, CancelToken, LockError}};
///
/// let store = DataStore::new();
/// let token = CancelToken::new();
/// token.cancel();
/// let refused = store.request("editor").cancel_token(&token).wait();
/// assert!(matches!(refused, Err(LockError::Cancelled(_))));
/// ```
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Mutex<{ rank::TOKEN }, TokenState>>);

#[derive(Default)]
struct TokenState {
    cancelled: bool,
    /// By the numbers of their registrations.
    requests: BTreeMap<u64, Withdraw>,
    registrations: u64,
    /// How many calls of `cancel` remove requests.
    calls: usize,
}

/// So many calls of `cancel` remove requests at a time: nested ones could exhaust the stack.
const CALLS: usize = 32;

/// Removes one cancelled request from its queue. Does nothing when it no longer waits.
type Withdraw = Box<dyn FnOnce() + Send>;

impl CancelToken {
    /// Creates a token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels all requests that wait with this token, and all later ones. Waits for no holder.
    ///
    /// When this returns, no request that waited when it was called is still in a queue. A request
    /// that joins at that moment may be visible there until its own thread removes it, and one that
    /// another call is removing until that call has: of calls at the same time, each removes the
    /// next request that is left, and none waits for another. Beyond 32 of them, in several threads
    /// or in wakers that they wake, a call leaves its part to the others and returns at once.
    ///
    /// # Panics
    ///
    /// If a key of a [limiter](super::limiter) panics on its drop. All requests are still
    /// cancelled.
    pub fn cancel(&self) {
        let mut state = self.0.lock();
        state.cancelled = true;
        if state.calls == CALLS {
            return;
        }
        state.calls += 1;
        let (mut first, mut are_left) = (Some(state), true);
        // A withdrawal may drop a key of a user, whose panic must not keep the later requests. It
        // locks without the token's mutex: waiters lock the two in the other order.
        run_all(iter::from_fn(|| {
            let lock = || are_left.then(|| self.0.lock());
            let mut state = first.take().or_else(lock)?;
            let next = state.requests.pop_first();
            are_left = !state.requests.is_empty();
            state.calls -= usize::from(!are_left);
            next.map(|(_, withdraw)| withdraw)
        }));
    }

    /// Returns whether [`cancel`](CancelToken::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.lock().cancelled
    }

    /// Waits in a task until [`cancel`](CancelToken::cancel) is called: for a program's own waits.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and then nothing waits any more.
    ///
    /// ```
    /// use doclock_locks::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// let cancelled = token.cancelled();
    /// std::thread::spawn(move || token.cancel());
    /// pollster::block_on(cancelled);
    /// ```
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        let mailbox = Arc::new(Mailbox::new());
        let answered = Arc::clone(&mailbox);
        let attached = self.attach(move || answered.answer(()));
        Cancelled { mailbox, attached }
    }

    /// Attaches a waiting request, by its `withdraw` function, for the life of the returned value.
    /// If the token is already cancelled, calls the function at once.
    #[doc(hidden)]
    pub fn attach(&self, withdraw: impl FnOnce() + Send + 'static) -> Attached {
        let (token, mut registration) = (self.clone(), None);
        let mut state = self.0.lock();
        if state.cancelled {
            drop(state);
            withdraw();
        } else {
            state.registrations += 1;
            registration = Some(state.registrations);
            let number = state.registrations;
            state.requests.insert(number, Box::new(withdraw));
        }
        Attached {
            token,
            registration,
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        let (cancelled, waiting) = (state.cancelled, state.requests.len());
        drop(state);
        let mut token = f.debug_struct("CancelToken");
        token.field("cancelled", &cancelled);
        token.field("waiting", &waiting).finish()
    }
}

/// A request that the token cancels.
#[derive(Debug)]
pub struct Attached {
    token: CancelToken,
    registration: Option<u64>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(registration) = self.registration {
            // Dropped without the token's mutex: it may hold the last keys of a user.
            let _withdraw = self.token.0.lock().requests.remove(&registration);
        }
    }
}

/// The wait of a task until a token is cancelled.
struct Cancelled {
    mailbox: Arc<Mailbox<()>>,
    attached: Attached,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.attached.token.is_cancelled() {
            true => Poll::Ready(()),
            false => self.mailbox.poll(0, context),
        }
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.mailbox.forget_task();
    }
}
