//! Options for claims and failures of an inbox.

use std::time::Duration;

/// Options of an [`Inbox`](super::Inbox).
///
/// ```
/// use doclock::{DataStore, inbox::{Inbox, InboxOptions}};
/// use std::time::Duration;
///
/// let options = InboxOptions::new()
///     .claim_time(Duration::from_secs(60))
///     .attempts(8)
///     .backoff(Duration::from_millis(50), Duration::from_secs(10))
///     .jitter(7);
/// let inbox = Inbox::with_options(&DataStore::new(), "payments", options);
/// # assert_eq!(inbox.name(), "payments");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct InboxOptions {
    pub(super) claim_time: Duration,
    pub(super) attempts: u32,
    pub(super) waiting_bound: usize,
    first: Duration,
    longest: Duration,
    seed: Option<u64>,
}

/// Longer than any useful wait, and short enough for every clock.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl Default for InboxOptions {
    fn default() -> Self {
        Self {
            claim_time: Duration::from_secs(30),
            attempts: 5,
            waiting_bound: 10_000,
            first: Duration::from_millis(10),
            longest: Duration::from_secs(1),
            seed: None,
        }
    }
}

impl InboxOptions {
    /// Creates the options that [`Inbox::new`](super::Inbox::new) uses.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long a claim stays fresh; the next delivery takes over a stale claim. The default
    /// is thirty seconds, the maximum a year.
    ///
    /// The time should exceed a worker's wait for the store's lock plus the run time of its
    /// handler. If it is too short, no effect happens twice, because a superseded worker cannot
    /// commit. But its work is wasted.
    pub fn claim_time(mut self, time: Duration) -> Self {
        self.claim_time = time.min(YEAR);
        self
    }

    /// Sets how many attempts an event has, the first included. Zero counts as one. The default is
    /// five.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Sets the delay after a failed attempt until the next one is due.
    ///
    /// The delay is `first` after the first failure and doubles with each further one, up to
    /// `longest`. The default is ten milliseconds and one second, the maximum a year.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.longest = longest.min(YEAR);
        self.first = first.min(self.longest);
        self
    }

    /// Shortens each delay by up to a half, so that events that failed together are not retried
    /// together.
    ///
    /// The reduction depends only on the seed, the event's id and the number of the attempt. The
    /// default is no jitter.
    pub fn jitter(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Limits how many waiting messages a worker keeps.
    ///
    /// At the limit it takes no more from its channel until a waiting message is due. Zero counts
    /// as one. The default is 10,000.
    pub fn waiting_bound(mut self, messages: usize) -> Self {
        self.waiting_bound = messages.max(1);
        self
    }

    /// The delay after this attempt, counted from one, until the next one is due.
    pub(super) fn delay(&self, event: &str, attempt: u32) -> Duration {
        let doubled = 1_u32.checked_shl(attempt.saturating_sub(1));
        let whole = match doubled {
            Some(times) => self.first.saturating_mul(times).min(self.longest),
            None if self.first.is_zero() => Duration::ZERO,
            None => self.longest,
        };
        match self.seed {
            Some(seed) => whole - whole.mul_f64(0.5 * share(seed, event, attempt)),
            None => whole,
        }
    }
}

/// A number from zero up to one that depends only on the arguments: FNV-1a, and SplitMix64's last
/// step to spread it.
fn share(seed: u64, event: &str, attempt: u32) -> f64 {
    let start = seed ^ 0xcbf2_9ce4_8422_2325 ^ u64::from(attempt) << 32;
    let hashed = event.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hashed ^ (hashed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // A float holds the upper 53 bits exactly.
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
#[path = "../../../tests/unit/inbox_options.rs"]
mod tests;
