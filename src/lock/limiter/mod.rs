//! A bound on the calls that run at a time, for each downstream and in all.
//!
//! **Use it** in front of services that fail under load: [`InFlightLimiter`] queues calls fairly
//! between keys, and can follow the latency of a service. **Do not use it** to bound calls per
//! second: it counts calls in flight.
//!
//! ```
//! use doclock::lock::limiter::InFlightLimiter;
//!
//! let limiter = InFlightLimiter::new(2);
//! let permit = limiter.acquire("database")?;
//! assert_eq!(limiter.snapshot().in_flight, 1);
//! drop(permit);
//! assert_eq!(limiter.snapshot().in_flight, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adaptive;
mod error;
mod figures;
mod keys;
mod options;
mod permit;
mod state;

use std::fmt::{self, Debug};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

pub use adaptive::Aimd;
pub use error::{CallEvidence, LimiterError, Load};
pub use figures::{KeySnapshot, LimiterFigures, LimiterSnapshot};
use foldhash::fast::RandomState;
use keys::Name;
pub use options::{Call, LimiterOptions};
use permit::Held;
pub use permit::{Permit, Signal};
use state::{Granted, Left, Next, Place, State, Verdict};

use super::CancelToken;
use super::discard::Discard;
use super::pace::Pace;
use super::parker::Mailbox;
use super::wait::{self, Line, Reason, Wait};
use crate::sync::{Mutex, assert_unlocked, rank};
use crate::time::Clock;

/// What names a downstream: text, a number, an enumeration.
///
/// Implemented for each type that can be one. `Eq` of a key runs while the limiter is locked, and
/// so does `Clone` when a [snapshot](InFlightLimiter::snapshot) is taken. So they must not use a
/// limiter or a keyed lock, which panics, nor wait for a thread that does. A [`Permit`] that is
/// dropped there returns its slots when the comparison is over, and a [`CancelToken`] that is
/// cancelled there takes effect then. `Hash`, `Drop` and `Debug` may use the limiter.
///
/// Whatever of a key panics, no slot is lost. If a key panics in `Drop` while the thread unwinds
/// already, that panic ends there. A key that is cheap to clone (`&'static str`, a number, an
/// `Arc<str>`) is best.
pub trait LimiterKey: Clone + Eq + Hash + Debug + Send + 'static {}

impl<K: Clone + Eq + Hash + Debug + Send + 'static> LimiterKey for K {}

/// Lets so many calls run at a time, for each downstream and in all: a bulkhead, so that a slow
/// downstream does not take the threads of all others.
///
/// A downstream is named by a key. Each key has a number of slots; a call takes one, or as many as
/// its [weight](Call::weight) says, and returns them when it ends, also by a panic. A key that is
/// idle, and that was not configured by name, takes no memory.
///
/// # Fairness
///
/// - Calls to one key are granted in the order in which they asked. A call that ends hands its
///   slots to the next in line in the same step, so nobody can come in between, not even a `try`.
/// - A heavy call that is first in line is waited for: nobody behind it is granted before it,
///   however light. So it waits for those that asked before it and for no other call to its key.
/// - Keys that compete for the global limit are served in turns, one call each, and the key whose
///   turn it is is waited for. So between two grants to a key that waits for the global limit
///   alone, each other key is granted at most one call. A call at place `p` of its line sees at
///   most `p` calls of each other key granted while its key waits for its turns.
///
/// # Blocking
///
/// [`run`](Self::run) and [`acquire`](Self::acquire) block the calling thread until the grant, a
/// withdrawal, or the end of the timeout (five seconds unless set otherwise). All else does not
/// wait. The limit is on waiting: how long a call may take once it runs is its own affair, and its
/// [`Signal`] tells it when it is no longer wanted.
///
/// A thread that holds slots may ask for more, and waits for itself if it holds all there are.
///
/// # Errors
///
/// [`LimiterError`] says why a call did not run, and how things stood.
///
/// # Cancel safety
///
/// A call that is cancelled while it waits leaves its line and never runs; it disturbs nobody's
/// order. Of a grant and a cancellation or an expiry that race, the grant wins: then the call runs
/// and sees its signal. Clones are handles of the same limiter. Waiting calls and permits keep it
/// alive.
///
/// ```
/// use doclock::lock::limiter::{Call, InFlightLimiter, LimiterError, LimiterOptions};
/// use std::time::Duration;
///
/// let limiter = InFlightLimiter::with_options(LimiterOptions::new(8).limit("payments", 1));
///
/// let paid = limiter.run("payments", |_| "paid")?;
/// assert_eq!(paid, "paid");
///
/// // While one call runs, the next waits, or does not.
/// let permit = limiter.acquire("payments")?;
/// let impatient = Call::to("payments").timeout(Duration::from_millis(1));
/// let error = limiter.run(impatient, |_| "paid twice").unwrap_err();
/// assert!(matches!(error, LimiterError::Timeout { .. }));
/// assert_eq!(
///     error.to_string(),
///     "No slot for \"payments\" within 1ms: place 1 in line, 1 of 1 slots taken, 1 waiting",
/// );
/// drop(permit);
/// # Ok::<(), LimiterError>(())
/// ```
pub struct InFlightLimiter<K: LimiterKey>(Arc<Shared<K>>);

struct Shared<K: LimiterKey> {
    state: Mutex<{ rank::KEYS }, State<K, Caller>>,
    hashing: RandomState,
    clock: Clock,
    timeout: Option<Duration>,
    queue_bound: Option<usize>,
}

/// How a waiting call is told.
type Caller = Arc<Mailbox<Verdict>>;

impl<K: LimiterKey> InFlightLimiter<K> {
    /// So many slots for each key, and no global limit.
    pub fn new(limit: usize) -> Self {
        Self::with_options(LimiterOptions::new(limit))
    }

    /// A limiter with limits for single keys, a global limit, and so on.
    pub fn with_options(options: LimiterOptions<K>) -> Self {
        let clock = options.clock;
        let mut state = State::new(options.default_limit, options.global_limit, &clock);
        let hashing = RandomState::default();
        for (key, rule) in options.keys {
            let hash = hashing.hash_one(&key);
            state.configure(key, hash, rule, &clock);
        }
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            hashing,
            clock,
            timeout: options.timeout,
            queue_bound: options.queue_bound,
        }))
    }

    /// Runs a task when its slots are granted, in the calling thread, and returns what it returns.
    ///
    /// The task is given its [`Signal`]. If it panics, its slots are returned and the panic goes on
    /// in the caller.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); then the task has not run.
    ///
    /// ```
    /// use doclock::lock::limiter::{Call, InFlightLimiter};
    ///
    /// let limiter: InFlightLimiter<&str> = InFlightLimiter::new(4);
    /// let answer = limiter.run(Call::to("inventory").weight(2), |signal| match signal.is_cancelled() {
    ///     true => "never mind",
    ///     false => "12 in stock",
    /// })?;
    /// assert_eq!(answer, "12 in stock");
    /// # Ok::<(), doclock::lock::limiter::LimiterError>(())
    /// ```
    pub fn run<R>(
        &self,
        call: impl Into<Call<K>>,
        task: impl FnOnce(&Signal) -> R,
    ) -> Result<R, LimiterError> {
        let call = call.into();
        let limit = call.wait.or(self.0.timeout);
        let slots = Held::of(self, call, limit, |slots| slots)?;
        assert_unlocked("a call is made");
        Ok(task(&slots.signal))
    }

    /// As [`run`](Self::run), but does not wait, whatever the call says.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); then the task has not run.
    ///
    /// ```
    /// use doclock::lock::limiter::{InFlightLimiter, LimiterError};
    ///
    /// let limiter = InFlightLimiter::new(1);
    /// let nested = limiter.try_run("payments", |_| limiter.try_run("payments", |_| ()))?;
    /// assert!(matches!(nested, Err(LimiterError::Busy { .. })));
    /// # Ok::<(), LimiterError>(())
    /// ```
    pub fn try_run<R>(
        &self,
        call: impl Into<Call<K>>,
        task: impl FnOnce(&Signal) -> R,
    ) -> Result<R, LimiterError> {
        let slots = Held::of(self, call.into(), Some(Duration::ZERO), |slots| slots)?;
        assert_unlocked("a call is made");
        Ok(task(&slots.signal))
    }

    /// Acquires the slots of a call for the life of the returned permit.
    ///
    /// Blocks until the grant, a withdrawal, or the end of the timeout.
    ///
    /// # Errors
    ///
    /// [`LimiterError`]: the wait timed out, would have been needed where none was allowed, or was cancelled; the line was full; the
    /// call is heavier than its limit. No slot is held then.
    ///
    /// ```
    /// use doclock::lock::limiter::InFlightLimiter;
    ///
    /// let limiter = InFlightLimiter::new(4);
    /// let permit = limiter.acquire("shipping")?;
    /// assert_eq!(limiter.load(&"shipping").in_flight, 1);
    /// drop(permit);
    /// assert_eq!(limiter.load(&"shipping").in_flight, 0);
    /// # Ok::<(), doclock::lock::limiter::LimiterError>(())
    /// ```
    pub fn acquire(&self, call: impl Into<Call<K>>) -> Result<Permit<K>, LimiterError> {
        let call = call.into();
        let limit = call.wait.or(self.0.timeout);
        Held::of(self.clone(), call, limit, Permit)
    }

    /// Acquires the slots of a call if they are free and nobody waits for them; never waits, and
    /// never overtakes.
    ///
    /// # Errors
    ///
    /// [`LimiterError::Busy`] where [`acquire`](Self::acquire) would wait; or the call was
    /// cancelled, or is heavier than its limit.
    ///
    /// ```
    /// use doclock::lock::limiter::{InFlightLimiter, LimiterError};
    ///
    /// let limiter = InFlightLimiter::new(1);
    /// let permit = limiter.try_acquire("checkout")?;
    /// let error = limiter.try_acquire("checkout").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "No free slot for \"checkout\": 1 of 1 slots taken, 0 waiting",
    /// );
    /// # Ok::<(), LimiterError>(())
    /// ```
    pub fn try_acquire(&self, call: impl Into<Call<K>>) -> Result<Permit<K>, LimiterError> {
        Held::of(self.clone(), call.into(), Some(Duration::ZERO), Permit)
    }

    /// Acquires slots that are free, which whoever calls has to return.
    #[inline(always)]
    fn try_grant(&self, call: &mut Call<K>) -> Option<Granted> {
        if call.is_cancelled() {
            return None;
        }
        let shared = &self.0;
        let Name { hash, .. } = shared.name(call.key.get()?);
        let mut state = shared.state.lock();
        state.try_take(&mut call.key, hash, call.weight, &shared.clock)
    }

    /// As [`try_grant`](Self::try_grant), but waits if it has to and may, and says why if not.
    /// Returns the copy of the key, to be dropped when the slots are in the care of a [`Held`]:
    /// that is code of users.
    #[cold]
    fn grant(
        &self,
        call: &Call<K>,
        limit: Option<Duration>,
    ) -> Result<(Granted, Discard<K>), LimiterError> {
        let shared = &self.0;
        let name = shared.name(&*call.key);
        let cancelled = call.is_cancelled();
        // Copied without the mutex. The call keeps its key for the error.
        let mut copy = Discard::new(name.key.clone());
        let mut state = shared.state.lock();
        if cancelled {
            let load = state.turn_away(name, |counts| counts.cancelled += 1);
            drop(state);
            let call = call.evidence(load);
            return Err(LimiterError::Cancelled { call });
        }
        let most = state.most(name);
        if call.weight > most {
            state.turn_away(name, |counts| counts.too_heavy += 1);
            drop(state);
            return Err(call.too_heavy(most));
        }
        if let Some(granted) = state.try_take(&mut copy, name.hash, call.weight, &shared.clock) {
            return Ok((granted, copy));
        }
        if limit.is_some_and(|limit| limit.is_zero()) {
            let load = state.turn_away(name, |counts| counts.declined += 1);
            drop(state);
            let call = call.evidence(load);
            return Err(LimiterError::Busy { call });
        }
        let queued = state.load(name).queued;
        let bounds = [call.queue_bound, shared.queue_bound].into_iter().flatten();
        if let Some(bound) = bounds.min().filter(|&bound| queued >= bound) {
            let load = state.turn_away(name, |counts| counts.rejected += 1);
            drop(state);
            let call = call.evidence(load);
            return Err(LimiterError::QueueFull { bound, call });
        }
        // The deadline comes first: whoever sees the call in the line may count on its limit
        // running.
        let deadline = limit.and_then(|limit| Some((limit, shared.clock.deadline(limit)?)));
        let caller = Caller::new(Mailbox::new());
        let (now, told) = (shared.clock.now(), Arc::clone(&caller));
        let ticket = state.join(&mut copy, name.hash, call.weight, now, told);
        drop(state);
        let wait = Wait {
            ticket,
            deadline,
            alarm: None,
            // Calls to others last too long to spin for their end.
            looks: Pace::SLOW.looks(limit),
        };
        let verdict = wait::wait(shared, &caller, call.cancel.as_ref(), wait);
        match verdict {
            Ok(granted) => Ok((granted, copy)),
            Err(left) => Err(call.error(*left)),
        }
    }

    /// Returns what a permit held.
    #[inline]
    fn give_back(&self, granted: Granted, whole: bool, cancelled: bool) {
        let mut next = Next::default();
        let mut state = self.0.state.lock();
        state.give_back(granted, &self.0.clock, whole, cancelled, &mut next);
        drop(state);
        tell(&mut next);
    }

    /// How busy a key is at the moment. One that nobody uses is idle under the limit that it would
    /// have.
    pub fn load(&self, key: &K) -> Load {
        let name = self.0.name(key);
        self.0.state.lock().load(name)
    }

    /// Figures and state of one moment. Others wait while it is taken, for a few microseconds for
    /// each key that was configured by name.
    ///
    /// ```
    /// use doclock::lock::limiter::{InFlightLimiter, LimiterOptions};
    ///
    /// let limiter = InFlightLimiter::with_options(LimiterOptions::new(4).limit("payments", 2));
    /// limiter.run("payments", |_| ())?;
    /// limiter.run("shipping", |_| ())?;
    /// let snapshot = limiter.snapshot();
    /// assert_eq!(snapshot.total.acquired, 2);
    /// let payments = snapshot.key(&"payments").and_then(|key| key.figures).unwrap();
    /// assert_eq!((payments.acquired, payments.latency.count), (1, 1));
    /// println!("{snapshot}");
    /// # Ok::<(), doclock::lock::limiter::LimiterError>(())
    /// ```
    pub fn snapshot(&self) -> LimiterSnapshot<K> {
        let mut keys = Vec::new();
        let snapshot = self.0.state.lock().snapshot(&mut keys);
        LimiterSnapshot {
            keys: keys.into_iter().map(Discard::into_inner).collect(),
            ..snapshot
        }
    }

    /// Lets the timeout pass of who waits at this place (from 1) for a key: the very code that a
    /// waiter runs when its deadline comes.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn expire(&self, key: &K, place: usize) {
        let waiting = self.0.state.lock().waiting_at(self.0.name(key), place);
        if let Some(place) = waiting {
            self.0.withdraw(place, Reason::Expired(Duration::ZERO));
        }
    }
}

impl<K: Debug> Call<K> {
    #[inline]
    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// What it saw without having stood in line.
    fn evidence(&self, load: Load) -> Box<CallEvidence> {
        Box::new(CallEvidence {
            key: format!("{:?}", self.key),
            weight: self.weight,
            waited: Duration::ZERO,
            place: None,
            load,
        })
    }

    fn too_heavy(&self, limit: usize) -> LimiterError {
        LimiterError::TooHeavy {
            key: format!("{:?}", self.key),
            weight: self.weight,
            limit,
        }
    }

    fn error(&self, left: Left) -> LimiterError {
        let mut call = self.evidence(left.load);
        call.waited = left.waited;
        call.place = Some(left.place);
        match left.reason {
            Reason::Expired(limit) => LimiterError::Timeout { limit, call },
            Reason::Cancelled => LimiterError::Cancelled { call },
        }
    }
}

/// Tells callers what became of their calls. Without the mutex, and before anything else is done.
#[inline]
fn tell<K>(next: &mut Next<K, Caller>) {
    for (caller, verdict) in std::mem::take(&mut next.told) {
        caller.tell(verdict);
    }
}

impl<K: LimiterKey> Shared<K> {
    #[inline]
    fn name<'a>(&self, key: &'a K) -> Name<'a, K> {
        let hash = self.hashing.hash_one(key);
        Name { key, hash }
    }
}

impl<K: LimiterKey> Line for Shared<K> {
    type Ticket = Place;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn withdraw(&self, place: Place, reason: Reason) {
        let mut next = Next::default();
        let mut state = self.state.lock();
        let now = self.clock.now();
        state.withdraw(place, reason, now, &mut next);
        drop(state);
        tell(&mut next);
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
