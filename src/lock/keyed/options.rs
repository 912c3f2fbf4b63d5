//! How a keyed lock starts out.

use std::time::Duration;

use crate::time::Clock;

/// Settings of a new [`KeyedLock`](super::KeyedLock).
///
/// ```
/// use doclock::lock::keyed::{KeyedLock, KeyedOptions};
/// use std::time::Duration;
///
/// let options = KeyedOptions::new().timeout(Duration::from_secs(1)).queue_bound(100);
/// let accounts: KeyedLock<u64> = KeyedLock::with_options(options);
/// # accounts.execute_exclusive(&1, || ())?;
/// # Ok::<(), doclock::lock::LockError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct KeyedOptions {
    pub(super) clock: Clock,
    pub(super) timeout: Option<Duration>,
    pub(super) queue_bound: Option<usize>,
}

impl KeyedOptions {
    /// The settings of [`KeyedLock::new`](super::KeyedLock::new).
    pub fn new() -> Self {
        Self::default()
    }

    /// How long whoever waits for anything of this lock does, unless it says otherwise; zero not at
    /// all, `None` without limit. No limit unless set: a task that is given to the lock is to be
    /// executed, however many are there before it.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// How many requests may wait for their turn at one key; the next is rejected at once. Any
    /// number unless set.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Where the time comes from. The system unless set.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}
