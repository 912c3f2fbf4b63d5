//! Options of a keyed lock.

use std::time::Duration;

use crate::time::Clock;

/// Options of a new [`KeyedLock`](super::KeyedLock).
///
/// ```
/// use doclock_locks::keyed::{KeyedLock, KeyedOptions};
/// use std::time::Duration;
///
/// let options = KeyedOptions::new().timeout(Duration::from_secs(1)).queue_bound(100);
/// let accounts: KeyedLock<u64> = KeyedLock::with_options(options);
/// # accounts.execute_exclusive(&1, || ())?;
/// # Ok::<(), doclock_locks::LockError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct KeyedOptions {
    pub(super) clock: Clock,
    pub(super) timeout: Option<Duration>,
    pub(super) queue_bound: Option<usize>,
}

impl KeyedOptions {
    /// Returns the options of [`KeyedLock::new`](super::KeyedLock::new).
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the timeout of all waits on this lock that set none. Zero: they do not wait. `None`:
    /// they wait without limit. There is no timeout by default: a task that is passed to the lock
    /// is executed, however many are ahead.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// Bounds how many requests wait for one key. A full queue rejects the next request at once.
    /// There is no bound by default.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Sets the clock that the lock reads. The default is the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}
