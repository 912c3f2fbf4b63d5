//! A bound on the calls that run at a time, for each downstream and in all.
//!
//! **Use it** in front of services that fail under load: [`InFlightLimiter`] queues calls fairly
//! between keys, and can follow the latency of a service. **Do not use it** to bound calls per
//! second: it counts calls in flight.

mod error;
mod metrics;
mod options;
mod request;
mod state;

use std::fmt::{self, Debug};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use error::{CallEvidence, LimiterError, LimiterLoad};
pub use metrics::{KeySnapshot, LimiterCounters, LimiterMetrics, LimiterSnapshot, PermitSnapshot};
pub use options::{Aimd, LimiterOptions};
pub use request::{CallCancellation, CallRequest, Permit};
use state::{Answers, CallTicket, Granted, LimiterState};

use super::PendingRequest;
use super::diagnostics::{BUSY_AFTER, Inspected, Primitive, PrimitiveState, Registrable};
use super::keeper::KeeperSlot;
use super::wait::{Look, Reason, WaitQueue};
use crate::caught::{catch, run_all, shown};
use crate::hashing::Secret;
use crate::sync::{Mutex, MutexGuard, rank};
use crate::time::Clock;

/// The name of a downstream: text, a number, an enumeration. Implemented for every suitable type.
///
/// Keys should be cheap to clone (`&'static str`, a number, an `Arc<str>`). No panic of a key loses
/// a slot.
///
/// It is a logic error for `Eq` or `Clone` of a key to use a limiter or a keyed lock, also by the
/// drop of a [`Permit`] or the cancellation of a call: `Eq` runs while the limiter is locked, and
/// so does `Clone` when a [snapshot](InFlightLimiter::snapshot) is taken. The behavior is not
/// specified, but it is not undefined. It may include panics and deadlocks. `Hash`, `Drop` and
/// `Debug` may use the limiter.
pub trait LimiterKey: Clone + Eq + Hash + Debug + Send + 'static {}

impl<K: Clone + Eq + Hash + Debug + Send + 'static> LimiterKey for K {}

/// Limits how many calls run at a time, for each downstream and in all. It is a bulkhead: a slow
/// downstream cannot take the threads of all others.
///
/// A key names a downstream, and has a number of slots. A call takes one slot, or as many as its
/// [weight](PendingRequest::weight) says, and returns them when it ends or panics. A key that is
/// idle and was not configured by name takes no memory. Clones are handles of the same limiter.
/// Waiting calls and permits keep it alive.
///
/// # Fairness
///
/// - Calls to one key are granted in FIFO order. A call that ends passes its slots to the next
///   waiting call in the same step. No call comes in between, not even a `try`.
/// - A heavy call at the head of its queue blocks the calls behind it, even lighter ones. So it
///   waits only for calls that came before it, and for no later call to its key.
/// - Keys that compete for the global limit are served in turns, one call each. The limiter waits
///   for the next key in turn. So between two grants to a key that waits for the global limit
///   alone, each other key gets at most one grant. While a key waits for its turns, a call at
///   position `p` of its queue sees at most `p` grants to each other key.
///
/// # Blocking and cancel safety
///
/// [`run`](Self::run), [`acquire`](Self::acquire) and a [request](Self::request) block the calling
/// thread until the grant, a cancellation, or the end of the timeout (five seconds by default). No
/// other method waits. A thread that holds slots may request more. It waits for itself if it holds
/// all slots.
///
/// A call that is cancelled or times out while it waits leaves its queue and never runs; the order
/// of the others stays the same. If a grant races that, the grant wins. A running call has no
/// timeout; its [`CallCancellation`] reports whether it was cancelled.
pub struct InFlightLimiter<K: LimiterKey>(Arc<LimiterShared<K>>);

type LimiterGuard<'a, K> = MutexGuard<'a, { rank::KEYS }, LimiterState<K>>;

struct LimiterShared<K: LimiterKey> {
    state: Mutex<{ rank::KEYS }, LimiterState<K>>,
    clock: Clock,
    timeout: Option<Duration>,
    queue_bound: Option<usize>,
    keeper: KeeperSlot,
    /// Itself, for granted slots that no call has taken yet.
    this: Weak<Self>,
}

impl<K: LimiterKey> InFlightLimiter<K> {
    /// Creates a limiter with this limit for each key and no global limit.
    pub fn new(limit: usize) -> Self {
        Self::with_options(LimiterOptions::new(limit))
    }

    /// Creates a limiter with options.
    pub fn with_options(options: LimiterOptions<K>) -> Self {
        let (clock, limit) = (options.clock, options.default_limit);
        let state = LimiterState::new(limit, options.global_limit, options.keys, &clock);
        Self(Arc::new_cyclic(|this| LimiterShared {
            state: Mutex::new(state),
            clock,
            timeout: options.timeout,
            queue_bound: options.queue_bound,
            keeper: KeeperSlot::default(),
            this: this.clone(),
        }))
    }

    /// Runs a task in the calling thread when a slot of the key is granted, and returns its result.
    /// If it panics, its slot is returned and the panic resumes in the caller.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); the task has not run then.
    #[track_caller]
    pub fn run<R>(
        &self,
        key: K,
        task: impl FnOnce(&CallCancellation) -> R,
    ) -> Result<R, LimiterError> {
        self.request(key).run(task)
    }

    /// Acquires a slot of the key for the life of the returned permit. Blocks until the grant, or
    /// the end of the timeout.
    ///
    /// # Errors
    ///
    /// [`LimiterError`]: the wait timed out, or was not allowed; the queue was full; the key has no
    /// slots. No slot is held then.
    ///
    /// ```
    /// use doclock_locks::limiter::InFlightLimiter;
    ///
    /// let limiter = InFlightLimiter::new(4);
    /// let permit = limiter.acquire("shipping")?;
    /// assert_eq!(limiter.load(&"shipping").in_flight, 1);
    /// drop(permit);
    /// assert_eq!(limiter.load(&"shipping").in_flight, 0);
    /// # Ok::<(), doclock_locks::limiter::LimiterError>(())
    /// ```
    #[track_caller]
    pub fn acquire(&self, key: K) -> Result<Permit<K>, LimiterError> {
        self.request(key).wait()
    }

    /// Requests the slots of a call with options, to be ended with [`wait`](PendingRequest::wait)
    /// or `.await` for a [`Permit`], or with [`run`](PendingRequest::run).
    ///
    /// A cancel token cancels the call while it waits; a running call reads it from its
    /// [`CallCancellation`]. With [`no_wait`](PendingRequest::no_wait) it never waits and never
    /// overtakes: the error is [`LimiterError::Busy`]. A label, a priority and a hold limit have no
    /// effect here, nor have the other options of a holder.
    ///
    /// ```
    /// use doclock_locks::limiter::{InFlightLimiter, LimiterError};
    /// use std::time::Duration;
    ///
    /// let limiter = InFlightLimiter::new(4);
    /// let call = limiter.request("inventory").weight(2).timeout(Duration::from_millis(50));
    /// let answer = call.run(|signal| match signal.is_cancelled() {
    ///     true => "never mind",
    ///     false => "12 in stock",
    /// })?;
    /// assert_eq!(answer, "12 in stock");
    ///
    /// # pollster::block_on(async {
    /// let permit = limiter.request("inventory").weight(4).await?;
    /// let error = limiter.request("inventory").no_wait().wait().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "no free slot for \"inventory\": 4 of 4 slots taken, 0 calls waiting",
    /// );
    /// # Ok::<(), LimiterError>(())
    /// # })?;
    /// # Ok::<(), LimiterError>(())
    /// ```
    #[track_caller]
    pub fn request(&self, key: K) -> PendingRequest<'static, CallRequest<K>> {
        PendingRequest::new(CallRequest {
            limiter: self.clone(),
            key: Some(key),
            weight: 1,
        })
    }

    /// Returns the load of a key. An idle one has the limit that it would have in use.
    pub fn load(&self, key: &K) -> LimiterLoad {
        let hash = Secret.hash_one(key);
        self.0.state.lock().load(key, hash)
    }

    /// Returns the metrics and the state of one moment. Other threads wait meanwhile, a few
    /// microseconds for each key that was configured by name.
    ///
    /// ```
    /// use doclock_locks::limiter::{InFlightLimiter, LimiterOptions};
    ///
    /// let limiter = InFlightLimiter::with_options(LimiterOptions::new(4).limit("payments", 2));
    /// limiter.run("payments", |_| ())?;
    /// limiter.run("shipping", |_| ())?;
    /// let snapshot = limiter.snapshot();
    /// assert_eq!(snapshot.total.acquired, 2);
    /// let payments = snapshot.key(&"payments").and_then(|key| key.metrics).unwrap();
    /// assert_eq!((payments.acquired, payments.latency.count), (1, 1));
    /// println!("{snapshot}");
    /// # Ok::<(), doclock_locks::limiter::LimiterError>(())
    /// ```
    pub fn snapshot(&self) -> LimiterSnapshot<K> {
        let (now, mut keys) = (self.0.clock.now(), Vec::new());
        let state = &mut *self.0.state.lock();
        let snapshot = state.snapshot(false, K::clone, &mut keys, now);
        LimiterSnapshot { keys, ..snapshot }
    }
}

impl<K: LimiterKey> LimiterShared<K> {
    #[inline]
    fn give_back(&self, granted: Granted, whole: bool, cancelled: bool) {
        let mut state = self.state.lock();
        let (answers, _gone) = state.give_back(granted, &self.clock, whole, cancelled);
        drop(state);
        if let Some(answers) = answers {
            self.answer(answers);
        }
    }

    /// Delivers the outcomes of calls. Runs without the mutex, before everything else.
    ///
    /// Slots of a call that is gone come back with the last handle of its mailbox, and may drop a
    /// key of a user. A panic of that must not keep the later outcomes.
    #[cold]
    fn answer(&self, answers: Answers<K>) {
        let Some(limiter) = self.this.upgrade().map(InFlightLimiter) else {
            debug_assert!(false, "a waiting call keeps its limiter");
            return;
        };
        run_all(answers.into_iter().map(|(mailbox, verdict)| {
            let verdict = verdict.map(|granted| Permit::new(&limiter, granted));
            move || mailbox.answer(verdict)
        }));
    }
}

impl<K: LimiterKey> WaitQueue for LimiterShared<K> {
    type Ticket = CallTicket;

    fn waits_for((key, _): CallTicket) -> u64 {
        key.number
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn withdraw(&self, position: CallTicket, reason: Reason) {
        let mut state = self.state.lock();
        let (answers, _gone) = state.withdraw(position, reason, self.clock.now());
        drop(state);
        if let Some(answers) = answers {
            self.answer(answers);
        }
    }

    fn keeper(&self) -> &KeeperSlot {
        &self.keeper
    }

    /// Slots that were granted are returned when the mailbox of the call is dropped.
    fn abandon(&self, position: CallTicket) {
        self.withdraw(position, Reason::Cancelled);
    }

    fn check_waits_and_holds(&self, look: &mut Look<'_, CallTicket>) {
        let state = self.state.lock();
        state.each_waiting(|position, task| look.at(position, task));
    }
}

impl<K: LimiterKey> Inspected for LimiterShared<K> {
    fn inspect(self: Arc<Self>) -> PrimitiveState {
        let Some(mut state) = self.state.lock_within(BUSY_AFTER) else {
            return PrimitiveState::Busy;
        };
        let (mut copies, mut keys, now) = (Vec::new(), Vec::new(), self.clock.now());
        let copy = |key: &K| {
            copies.push(catch(|| key.clone()));
            String::new()
        };
        let snapshot = state.snapshot(true, copy, &mut keys, now);
        drop(state);
        for (row, copy) in keys.iter_mut().zip(copies) {
            row.key = shown(copy);
        }
        PrimitiveState::Limiter(Box::new(LimiterSnapshot { keys, ..snapshot }))
    }
}

impl<K: LimiterKey> Registrable for InFlightLimiter<K> {
    fn primitive(&self) -> Primitive {
        Primitive::new(&self.0)
    }
}

impl<K: LimiterKey> Clone for InFlightLimiter<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: LimiterKey> Debug for InFlightLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlightLimiter")
            .field(&self.snapshot())
            .finish()
    }
}

#[cfg(loom)]
#[path = "../../loom-tests/limiter_steps.rs"]
mod model_steps;
