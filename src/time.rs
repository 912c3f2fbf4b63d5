//! Clocks and deadlines. Everything that needs the time is handed a [`Clock`].
//!
//! The system clock counts with the processor's time-stamp counter (by the quanta crate), because two readings
//! of the operating system's clock would cost more than the lock that they measure. What a person waits for goes by
//! the operating system's monotonic clock, so a wait limit ends neither early nor never, however the counter was
//! calibrated and whatever becomes of it. [`ManualClock`] moves only when it is told to: tests of timeouts need no sleep.

use std::fmt;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use crate::sync::{Mutex, rank};

/// A moment on a [`Clock`]: nanoseconds since that clock began. Only moments of one clock compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(u64);

impl Sub for Timestamp {
    type Output = Duration;

    /// The time from `earlier` to `self`; zero where the clock stepped back.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// When something ends: by the clock that decides it, and by the machine's calendar, for whoever is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    pub(crate) at: Timestamp,
    pub(crate) date: SystemTime,
}

impl Expiry {
    /// So long after `now`. `None` if that is too far away to be expressed.
    pub(crate) fn after(now: Timestamp, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        Some(Self {
            at: Timestamp(now.0.checked_add(nanos)?),
            date: SystemTime::now().checked_add(duration)?,
        })
    }

    /// So many seconds after a clock's beginning, for rooms that know no durations.
    #[cfg(test)]
    pub(crate) fn after_start(seconds: u64) -> Option<Self> {
        Self::after(Timestamp(0), Duration::from_secs(seconds))
    }

    pub(crate) fn has_come(&self, now: Timestamp) -> bool {
        self.at <= now
    }

    /// How long it is until then; zero once it has come.
    pub(crate) fn left(&self, now: Timestamp) -> Duration {
        self.at - now
    }
}

/// Where a store takes its time from.
///
/// Cloning is cheap, and clones show the same time.
///
/// ```
/// use doclock::{Clock, DataStore, StoreOptions};
///
/// let store = DataStore::with_options(StoreOptions::new().clock(Clock::system()));
/// assert!(!store.is_locked());
/// ```
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System(SystemClock),
    Manual(ManualClock),
}

impl Clock {
    /// The machine's own time.
    pub fn system() -> Self {
        Self(Source::System(SystemClock::new()))
    }

    /// Whether it stands still unless it is told to move; reading it costs next to nothing.
    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(_))
    }

    pub(crate) fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System(clock) => clock.now(),
            Source::Manual(clock) => clock.now(),
        }
    }

    /// The moment `limit` from now. A limit too long for the clock to express is no limit.
    pub(crate) fn deadline(&self, limit: Duration) -> Option<Deadline> {
        match &self.0 {
            Source::System(_) => Instant::now().checked_add(limit).map(Deadline::System),
            Source::Manual(clock) => {
                let nanos = u64::try_from(limit.as_nanos()).ok()?;
                let at = clock.now().0.checked_add(nanos)?;
                Some(Deadline::Manual(Timestamp(at)))
            }
        }
    }

    /// How long to wait until `deadline`; `None` once it has passed.
    pub(crate) fn until(&self, deadline: Deadline) -> Option<Pause> {
        match deadline {
            Deadline::System(at) => {
                let left = at.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(Pause::For(left))
            }
            Deadline::Manual(at) => {
                let left = at - self.now();
                (!left.is_zero()).then_some(Pause::UntilAdvanced)
            }
        }
    }

    /// Asks that `listener` be told whenever the time jumps. The system clock never jumps.
    pub(crate) fn listen<L: TimeListener + 'static>(&self, listener: &Arc<L>) {
        if let Source::Manual(clock) = &self.0 {
            let listener = Arc::downgrade(listener);
            clock.listen(listener);
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::System(_) => f.write_str("Clock::System"),
            Source::Manual(clock) => write!(f, "Clock::Manual({:?})", clock.now() - Timestamp(0)),
        }
    }
}

/// A moment after which a wait is over. Only those of one clock compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deadline {
    System(Instant),
    Manual(Timestamp),
}

/// How a thread waits for a deadline that lies ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The clock runs by itself: look again after this long.
    For(Duration),
    /// The clock is moved by hand, and whoever moves it tells.
    UntilAdvanced,
}

/// Told after a manual clock moved.
pub(crate) trait TimeListener: Send + Sync {
    fn time_advanced(&self);
}

#[derive(Clone)]
struct SystemClock {
    #[cfg(not(loom))]
    counter: quanta::Clock,
    #[cfg(not(loom))]
    began: u64,
}

#[cfg(not(loom))]
impl SystemClock {
    fn new() -> Self {
        let counter = quanta::Clock::new();
        let began = counter.raw();
        Self { counter, began }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.counter.delta_as_nanos(self.began, self.counter.raw()))
    }
}

/// In a model time stands still: it must not steer one execution otherwise than the next.
#[cfg(loom)]
impl SystemClock {
    fn new() -> Self {
        Self {}
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

/// A clock that stands still until [`advance`](ManualClock::advance) moves it, for tests of anything timed.
///
/// ```
/// use doclock::{AcquireOptions, DataStore, ManualClock, StoreOptions};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
/// let guard = store.lock("editor")?;
/// clock.advance(Duration::from_millis(30));
/// assert_eq!(store.current_lock().unwrap().held_for, Duration::from_millis(30));
/// drop(guard);
/// # Ok::<(), doclock::LockError>(())
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Manual>);

#[derive(Default)]
struct Manual {
    now: AtomicU64,
    listeners: Mutex<{ rank::LISTENERS }, Vec<Weak<dyn TimeListener>>>,
}

impl ManualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// This clock in the form that a store takes.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(self.clone()))
    }

    /// Moves the time forward and wakes every waiter whose deadline may have come.
    ///
    /// Returns when all have been woken, not when they have acted on it.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let moved = |now: u64| Some(now.saturating_add(nanos));
        // `moved` never declines, so there is no error to look at.
        let _ = self
            .0
            .now
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved);
        let mut listeners = self.0.listeners.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        let awake: Vec<_> = listeners.iter().filter_map(Weak::upgrade).collect();
        drop(listeners);
        for listener in awake {
            listener.time_advanced();
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.0.now.load(Ordering::SeqCst))
    }

    fn listen(&self, listener: Weak<dyn TimeListener>) {
        let mut listeners = self.0.listeners.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({:?})", self.now() - Timestamp(0))
    }
}
