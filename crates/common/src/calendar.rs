//! Dates of the machine's calendar, for what is stored: moments of a clock mean nothing to another
//! process.

use std::time::{Duration, SystemTime};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::MonotonicTime;

/// Now, by a clock and by the machine's calendar.
#[derive(Clone, Copy, Debug)]
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
        self.now.saturating_sub(ago)
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

/// The end of a lease: by the clock that decides it, and by the machine's calendar, for
/// messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// By the clock.
    pub at: MonotonicTime,
    /// By the calendar.
    pub date: SystemTime,
}

impl Expiry {
    /// Returns the end of `duration` from `now`. `None` if it is too far away to be expressed.
    pub fn after(now: MonotonicTime, duration: Duration) -> Option<Self> {
        Some(Self {
            at: now.checked_add(duration)?,
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

#[cfg(all(test, not(loom)))]
#[path = "../tests/unit/calendar.rs"]
mod tests;
