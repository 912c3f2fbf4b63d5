//! The last revoked holders, which may never return.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::LockInfo;
use super::info::Millis;
use crate::millis;
use crate::time::MonotonicTime;

/// A holder that was revoked because it exceeded its hold limit while requests waited.
///
/// It stays in the statistics even if its thread never returns. Serializes in camelCase, with the
/// fields of the holder beside the others, and durations in milliseconds.
///
/// ```
/// use std::{thread, time::Duration};
///
/// use doclock::{DataStore, StoreOptions, lock::AcquireOptions, time::ManualClock};
///
/// let clock = ManualClock::new();
/// let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
/// let stuck = AcquireOptions::new().hold_limit(Duration::from_secs(1)).label("import");
/// store.request("ann").options(stuck).wait()?.into_id();
/// let theirs = store.clone();
/// let next = thread::spawn(move || theirs.lock("ben").map(drop));
/// while store.queue_length() == 0 {
///     thread::yield_now();
/// }
/// clock.advance(Duration::from_secs(1));
/// next.join().unwrap()?;
///
/// let last = &store.lock_stats().last_revocations[0];
/// assert_eq!(last.holder.owner_id.as_str(), "ann");
/// assert_eq!(last.holder.held_for, Duration::from_secs(1));
/// # Ok::<(), doclock_locks::LockError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Revocation {
    /// The holder at the moment of its revocation.
    #[serde(flatten)]
    pub holder: LockInfo,
    /// The hold limit that it exceeded.
    #[serde(with = "millis::duration")]
    pub hold_limit: Duration,
    /// The time since its revocation, by the store's clock.
    #[serde(with = "millis::duration")]
    pub revoked_for: Duration,
}

impl Revocation {
    /// How many revocations the statistics list: the last ones.
    pub const LISTED: usize = 16;
}

impl fmt::Display for Revocation {
    /// Formats as `lock-3-x9 of ann (import) from src/main.rs:7:13, held for 1001ms, hold limit
    /// 1000ms, revoked 12ms ago`, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, hold limit {}, revoked {} ago",
            self.holder,
            Millis(self.hold_limit),
            Millis(self.revoked_for)
        )
    }
}

/// The holders of the last revocations with their hold limits and when they were revoked, oldest
/// first.
#[derive(Debug, Default)]
pub(super) struct LastRevocations(VecDeque<(LockInfo, Duration, MonotonicTime)>);

impl LastRevocations {
    pub(super) fn push(&mut self, holder: LockInfo, hold_limit: Duration, at: MonotonicTime) {
        if self.0.len() == Revocation::LISTED {
            self.0.pop_front();
        }
        self.0.push_back((holder, hold_limit, at));
    }

    pub(super) fn list(&self, now: MonotonicTime) -> Vec<Revocation> {
        let revocations = self.0.iter();
        let revocation =
            |(holder, hold_limit, at): &(LockInfo, Duration, MonotonicTime)| Revocation {
                holder: holder.clone(),
                hold_limit: *hold_limit,
                revoked_for: now - *at,
            };
        revocations.map(revocation).collect()
    }
}
