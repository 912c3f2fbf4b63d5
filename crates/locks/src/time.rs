//! Clocks. A store, a lock and an inbox read the time from the [`Clock`] that their options set.
//!
//! **Use it** in tests: a [`ManualClock`] moves only when it is advanced, so a test of a timeout
//! needs no sleep. **Do not use it** to measure time in a program.
//!
//! ```
//! use std::time::Duration;
//!
//! use doclock::lease::LeaseTarget;
//! use doclock_locks::time::ManualClock;
//! use doclock::{DataStore, StoreOptions};
//!
//! let clock = ManualClock::new();
//! let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
//! let lease = store.lease(LeaseTarget::Document, "ann", Duration::from_secs(60))?;
//! clock.advance(Duration::from_secs(61));
//! assert!(lease.release().is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the crate, a clock provides two kinds of time, each with a type of its own:
//!
//! - `Timestamp` measures. It serves statistics, the time for which a thread spins or combines, and
//!   the latency that an adaptive limit follows.
//! - `MonotonicTime` decides. Deadlines, hold limits, leases, claims, pauses before a retry and the
//!   intervals of undo groups use it, and no conversion leads from one type to the other. It begins
//!   before the process, so that stored dates have moments.
//!
//! The system clock reads both from the operating system's monotonic clock. In tests they may run
//! apart.

#[doc(hidden)]
pub mod millis;
#[cfg(any(feature = "tracing", feature = "metrics"))]
mod stopwatch;

use std::fmt;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
#[cfg(not(loom))]
use std::time::Instant;
use std::time::{Duration, SystemTime};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sync::{Mutex, rank};
#[cfg(any(feature = "tracing", feature = "metrics"))]
#[doc(hidden)]
pub use stopwatch::Stopwatch;

/// A moment for statistics: nanoseconds of the counter since a [`Clock`] began. Only moments of one
/// clock compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub struct Timestamp(u64);

/// A moment that decides an outcome: nanoseconds of monotonic time since a [`Clock`] began. Only
/// moments of one clock compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub struct MonotonicTime(u64);

impl Timestamp {
    /// Returns the moment `duration` later, at most the last that a clock can count.
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// Returns the moment as a number of nanoseconds.
    pub fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the moment of [`nanos`](Self::nanos).
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
}

impl MonotonicTime {
    /// Returns the moment `duration` later, at most the last that a clock can count.
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub for MonotonicTime {
    type Output = Duration;

    /// Returns the time from `earlier` to `self`; zero where `earlier` is the later one.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Now, by a clock and by the machine's calendar. Moments of a clock mean nothing to another
/// process, so stored times are dates.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Calendar {
    now: MonotonicTime,
    today: SystemTime,
}

impl Calendar {
    /// The moment `now` of a clock is now.
    pub fn at(now: MonotonicTime) -> Self {
        let today = SystemTime::now();
        Self { now, today }
    }

    /// Returns the moment that is now.
    pub fn now(&self) -> MonotonicTime {
        self.now
    }

    /// The date of a moment that has come.
    pub fn date_of(&self, past: MonotonicTime) -> Date {
        let date = self.today.checked_sub(self.now - past);
        Date(date.unwrap_or(self.today))
    }

    /// The moment of a date that has come, or the beginning of the clock for an earlier one.
    pub fn moment_of(&self, past: Date) -> MonotonicTime {
        let ago = self.today.duration_since(past.0).unwrap_or_default();
        MonotonicTime(self.now.0.saturating_sub(nanos(ago)))
    }

    /// The end of something that lasts until a date, but for at most `longest` from now. `None` if
    /// it has ended.
    pub fn expiry(&self, ends: Date, longest: Duration) -> Option<Expiry> {
        let left = ends.0.duration_since(self.today).unwrap_or_default();
        let left = left.min(longest);
        let expiry = Expiry {
            at: self.now.saturating_add(left),
            date: self.today.checked_add(left)?,
        };
        (!left.is_zero()).then_some(expiry)
    }
}

/// A date of the machine's calendar. Serializes as seconds since 1970 and nanoseconds, also before
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub struct Date(pub SystemTime);

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (since, sign) = match self.0.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => (after, 1),
            Err(before) => (before.duration(), -1),
        };
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        (sign * seconds, sign * i64::from(since.subsec_nanos())).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (seconds, nanos) = <(i64, i64)>::deserialize(deserializer)?;
        let is_before = seconds < 0 || nanos < 0;
        let since = u32::try_from(nanos.unsigned_abs())
            .ok()
            .filter(|nanos| *nanos < 1_000_000_000)
            .map(|nanos| Duration::new(seconds.unsigned_abs(), nanos));
        let epoch = SystemTime::UNIX_EPOCH;
        let date = since.and_then(|since| match is_before {
            true => epoch.checked_sub(since),
            false => epoch.checked_add(since),
        });
        date.map(Self)
            .ok_or_else(|| D::Error::custom("a date is out of range"))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Sub for Timestamp {
    type Output = Duration;

    /// Returns the time from `earlier` to `self`; zero where the clock stepped back.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The end of a lease or source: by the clock that decides it, and by the machine's calendar, for
/// messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Expiry {
    /// By the clock.
    pub at: MonotonicTime,
    /// By the calendar.
    pub date: SystemTime,
}

impl Expiry {
    /// Returns the end of `duration` from `now`. `None` if it is too far away to be expressed.
    pub fn after(now: MonotonicTime, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        Some(Self {
            at: MonotonicTime(now.0.checked_add(nanos)?),
            date: SystemTime::now().checked_add(duration)?,
        })
    }

    /// Whether it is over.
    pub fn has_come(&self, now: MonotonicTime) -> bool {
        self.at <= now
    }

    /// Returns the time until then; zero once it has come.
    pub fn left(&self, now: MonotonicTime) -> Duration {
        self.at - now
    }
}

/// The clock of a store, a lock or an inbox.
///
/// Cloning is cheap, and clones show the same time.
///
/// ```
/// use doclock::{DataStore, StoreOptions, time::Clock};
///
/// let store = DataStore::with_options(StoreOptions::new().clock(Clock::system()));
/// assert!(!store.is_locked());
/// ```
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System(SystemClock),
    /// Its counter runs so many times faster than its monotonic time. Once, but in tests of what
    /// may follow which of the two.
    Manual(ManualClock, u64),
}

impl Clock {
    /// Returns the machine's own clock.
    pub fn system() -> Self {
        Self(Source::System(SystemClock::new()))
    }
}

#[doc(hidden)]
impl Clock {
    /// Whether it moves only when it is advanced; reading it costs next to nothing.
    pub fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(..))
    }

    /// Returns the moment for statistics.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System(clock) => clock.now(),
            Source::Manual(clock, rate) => Timestamp(clock.nanos() * rate),
        }
    }

    /// Returns the moment for decisions.
    pub fn monotonic(&self) -> MonotonicTime {
        match &self.0 {
            Source::System(clock) => clock.monotonic(),
            Source::Manual(clock, _) => MonotonicTime(clock.nanos()),
        }
    }

    /// Returns the deadline `limit` from now. `None` for more nanoseconds than a clock can count.
    pub fn deadline(&self, limit: Duration) -> Option<Deadline> {
        u64::try_from(limit.as_nanos()).ok()?;
        Some(self.due(limit))
    }

    /// Returns the deadline `delay` from now, at most the last that the clock can count, so it
    /// always comes.
    pub fn due(&self, delay: Duration) -> Deadline {
        Deadline(self.monotonic().saturating_add(delay))
    }

    /// Returns how long to wait until `deadline`; `None` once it has passed.
    pub fn until(&self, deadline: Deadline) -> Option<Pause> {
        let left = deadline.0 - self.monotonic();
        (!left.is_zero()).then_some(match self.0 {
            Source::System(_) => Pause::For(left),
            _ => Pause::UntilAdvanced,
        })
    }

    /// Returns the time until `deadline`; zero once it has passed, `None` if it never comes.
    pub fn left(&self, deadline: Deadline) -> Option<Duration> {
        (deadline != Deadline::NEVER).then(|| deadline.0 - self.monotonic())
    }

    /// Registers `listener` for jumps of the time. The system clock never jumps.
    pub fn listen<L: TimeListener + 'static>(&self, listener: &Arc<L>) {
        let clock = match &self.0 {
            Source::System(_) => return,
            Source::Manual(clock, _) => clock,
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
            Source::Manual(clock, _) => write!(f, "Clock::Manual({:?})", clock.elapsed()),
        }
    }
}

/// A moment after which a wait is over. Only deadlines of one clock compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub struct Deadline(MonotonicTime);

impl Deadline {
    /// The last moment that a clock can count.
    pub const NEVER: Self = Self(MonotonicTime(u64::MAX));
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

#[derive(Clone)]
struct SystemClock {
    /// When the first system clock of the process began.
    #[cfg(not(loom))]
    epoch: Instant,
}

#[cfg(not(loom))]
impl SystemClock {
    fn new() -> Self {
        static EPOCH: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        Self { epoch: *EPOCH }
    }

    fn now(&self) -> Timestamp {
        Timestamp(nanos(self.epoch.elapsed()))
    }

    fn monotonic(&self) -> MonotonicTime {
        /// About 146 years, so that stored dates before the process have moments too.
        const BEGINNING: MonotonicTime = MonotonicTime(1 << 62);
        BEGINNING.saturating_add(self.epoch.elapsed())
    }
}

/// In a model, the system's time stands still: it must not steer one execution differently from the
/// next.
#[cfg(loom)]
impl SystemClock {
    fn new() -> Self {
        Self {}
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn monotonic(&self) -> MonotonicTime {
        MonotonicTime(0)
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
/// # Ok::<(), doclock_locks::LockError>(())
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
        Clock(Source::Manual(self.clone(), 1))
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

    /// Returns this clock with a counter that runs `rate` times as fast as its monotonic time.
    #[doc(hidden)]
    pub fn skewed(&self, rate: u64) -> Clock {
        Clock(Source::Manual(self.clone(), rate))
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn deadlines_and_expiries_follow_monotonic_time_with_a_skewed_counter() {
        let manual = ManualClock::new();
        let clock = manual.skewed(2);
        let deadline = clock.deadline(10 * SECOND).unwrap();
        let expiry = Expiry::after(clock.monotonic(), 10 * SECOND).unwrap();
        manual.advance(6 * SECOND);
        assert_eq!(clock.now() - Timestamp(0), 12 * SECOND);
        assert!(clock.until(deadline).is_some() && !expiry.has_come(clock.monotonic()));
        manual.advance(4 * SECOND);
        assert!(clock.until(deadline).is_none() && expiry.has_come(clock.monotonic()));
    }

    #[test]
    fn dates_can_be_stored_before_and_after_1970() {
        let epoch = SystemTime::UNIX_EPOCH;
        let step = Duration::new(7, 300);
        for date in [
            epoch - step,
            epoch - Duration::from_nanos(1),
            epoch,
            epoch + step,
        ] {
            let stored = serde_json::to_string(&Date(date)).unwrap();
            let read: Date = serde_json::from_str(&stored).unwrap();
            assert_eq!(read.0, date, "{stored}");
        }
        for wrong in ["[0,1000000000]", "[9223372036854775808,0]", "[0]"] {
            assert!(serde_json::from_str::<Date>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_stored_end_comes_at_its_date_and_never_later_than_it_lasts() {
        let calendar = Calendar::at(MonotonicTime(5));
        let ends = |after: Duration| Date(calendar.today + after);
        let left = |expiry: Option<Expiry>| expiry.map(|expiry| expiry.left(calendar.now));
        assert_eq!(
            left(calendar.expiry(ends(SECOND), 9 * SECOND)),
            Some(SECOND)
        );
        // The calendar was set back since.
        assert_eq!(
            left(calendar.expiry(ends(99 * SECOND), 9 * SECOND)),
            Some(9 * SECOND)
        );
        assert_eq!(calendar.expiry(Date(calendar.today), SECOND), None);
    }

    #[test]
    fn a_date_before_the_process_began_has_a_moment() {
        let calendar = Calendar::at(Clock::system().monotonic());
        let hour = 3600 * SECOND;
        let moment = calendar.moment_of(Date(calendar.today - hour));
        assert_eq!(calendar.now - moment, hour);
    }

    #[test]
    fn a_deadline_beyond_the_clock_range_is_the_last_moment() {
        let manual = ManualClock::new();
        let clock = manual.clock();
        manual.advance(Duration::from_nanos(u64::MAX) - SECOND);
        let deadline = clock.due(2 * SECOND);
        assert_eq!(clock.deadline(2 * SECOND), Some(deadline));
        assert!(clock.until(deadline).is_some());
        manual.advance(SECOND);
        assert!(clock.until(deadline).is_none());
        assert_eq!(clock.deadline(Duration::MAX), None, "no limit");
    }
}
