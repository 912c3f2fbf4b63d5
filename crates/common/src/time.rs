//! Clocks. A store, a lock and an inbox read the time from the [`Clock`] that their options set.
//!
//! **Use it** in tests: a [`ManualClock`] moves only when it is advanced, so a test of a timeout
//! needs no sleep. **Do not use it** to measure time in a program.

use std::fmt;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;
#[cfg(not(loom))]
use std::time::Instant;

use crate::nanos;
use crate::sync::{Mutex, rank};

/// A moment: nanoseconds of monotonic time since a [`Clock`] began, which is before the process
/// did. Only moments of one clock compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub struct MonotonicTime(u64);

impl MonotonicTime {
    /// Returns the moment `duration` later. `None` if the clock cannot count that far.
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Self)
    }

    /// Returns the moment `duration` later, at most the last that a clock can count.
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// Returns the moment `duration` before, at least the beginning of the clock.
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl Sub for MonotonicTime {
    type Output = Duration;

    /// Returns the time from `earlier` to `self`; zero where `earlier` is the later one.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The clock of a store, a lock or an inbox.
///
/// Cloning is cheap, and clones show the same time. A [`ManualClock`] has the example.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System(Instant),
    Manual(ManualClock),
}

impl Clock {
    /// Returns the machine's own clock.
    pub fn system() -> Self {
        /// When the first system clock of the process began.
        static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
        Self(Source::System(*EPOCH))
    }
}

#[doc(hidden)]
impl Clock {
    /// Whether it moves only when it is advanced; reading it costs next to nothing.
    pub fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(..))
    }

    /// Returns the present moment.
    pub fn now(&self) -> MonotonicTime {
        /// About 146 years, so that stored dates before the process have moments too.
        const BEGINNING: MonotonicTime = MonotonicTime(1 << 62);
        match &self.0 {
            Source::System(epoch) => BEGINNING.saturating_add(epoch.elapsed()),
            Source::Manual(clock) => MonotonicTime(clock.nanos()),
        }
    }

    /// Returns the deadline `limit` from now. `None` for more nanoseconds than a clock can count.
    pub fn deadline(&self, limit: Duration) -> Option<Deadline> {
        Deadline::after(limit, self.now())
    }

    /// Returns the deadline `delay` from now, at most the last that the clock can count, so it
    /// always comes.
    pub fn due(&self, delay: Duration) -> Deadline {
        Deadline(self.now().saturating_add(delay))
    }

    /// Returns how long to wait until `deadline`; `None` once it has passed.
    pub fn until(&self, deadline: Deadline) -> Option<Pause> {
        let left = deadline.0 - self.now();
        (!left.is_zero()).then_some(match self.0 {
            Source::System(_) => Pause::For(left),
            _ => Pause::UntilAdvanced,
        })
    }

    /// Registers `listener` for jumps of the time. The system clock never jumps.
    pub fn listen<L: TimeListener + 'static>(&self, listener: &Arc<L>) {
        let clock = match &self.0 {
            Source::System(_) => return,
            Source::Manual(clock) => clock,
        };
        let listener = Arc::downgrade(listener);
        clock.listen(listener);
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
            Source::Manual(clock) => write!(f, "Clock::Manual({:?})", clock.elapsed()),
        }
    }
}

/// A moment after which a wait is over. Only deadlines of one clock compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub struct Deadline(MonotonicTime);

impl Deadline {
    /// The first moment, which has passed by every clock.
    pub const PASSED: Self = Self(MonotonicTime(0));
    /// The last moment that a clock can count.
    pub const NEVER: Self = Self(MonotonicTime(u64::MAX));
    /// As many nanoseconds as a clock can count.
    const FARTHEST: Duration = Duration::from_nanos(u64::MAX);

    /// Returns the deadline `limit` after `now`. `None` for more nanoseconds than a clock can
    /// count.
    pub fn after(limit: Duration, now: MonotonicTime) -> Option<Self> {
        (limit <= Self::FARTHEST).then(|| Self(now.saturating_add(limit)))
    }

    /// Returns the time until the deadline; zero once it has passed, `None` if it never comes.
    pub fn left(self, now: MonotonicTime) -> Option<Duration> {
        (self != Self::NEVER).then(|| self.0 - now)
    }
}

/// How a thread waits for a deadline that lies ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Pause {
    /// The clock runs by itself: check again after this long.
    For(Duration),
    /// The clock is manual: its advance notifies the listener.
    UntilAdvanced,
}

/// Notified after a manual clock moved.
#[doc(hidden)]
pub trait TimeListener: Send + Sync {
    /// Reads the clock again.
    fn time_advanced(&self);
}

/// In a model, the system's time stands still: it must not steer one execution differently from the
/// next.
#[cfg(loom)]
#[derive(Clone, Copy)]
struct Instant;

#[cfg(loom)]
impl Instant {
    fn now() -> Self {
        Self
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// A clock that stands still until [`advance`](ManualClock::advance) moves it, for tests of
/// timeouts and other durations.
///
/// ```
/// use doclock::{DataStore, StoreOptions, lock::AcquireOptions, time::ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
/// let guard = store.lock("editor")?;
/// clock.advance(Duration::from_millis(30));
/// assert_eq!(store.current_lock().unwrap().held_for, Duration::from_millis(30));
/// drop(guard);
/// # Ok::<(), doclock::lock::LockError>(())
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Manual>);

#[derive(Default)]
struct Manual {
    now: AtomicU64,
    listeners: Mutex<{ rank::LISTENERS }, Vec<Weak<dyn TimeListener>>>,
}

impl ManualClock {
    /// Creates a clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the [`Clock`] for the options of a store or a lock.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(self.clone()))
    }

    /// Moves the time forward and wakes every waiter whose deadline may have come.
    ///
    /// Returns when all of them have been woken, which may be before they run.
    pub fn advance(&self, by: Duration) {
        let moved = |now: u64| Some(now.saturating_add(nanos(by)));
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

    fn nanos(&self) -> u64 {
        self.0.now.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    fn listen(&self, listener: Weak<dyn TimeListener>) {
        let mut listeners = self.0.listeners.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({:?})", self.elapsed())
    }
}
