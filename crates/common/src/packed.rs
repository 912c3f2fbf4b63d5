//! An optional duration in eight bytes.

use std::num::NonZeroU64;
use std::time::Duration;

/// A duration in one word, also as an option.
#[derive(Clone, Copy, Debug)]
pub struct PackedDuration(NonZeroU64);

impl PackedDuration {
    /// `None` for a duration beyond 500 years, which counts as no limit.
    #[inline]
    pub fn new(limit: Duration) -> Option<Self> {
        let nanos = u64::try_from(limit.as_nanos()).ok()?;
        NonZeroU64::new(nanos.checked_add(1)?).map(Self)
    }

    #[inline(always)]
    pub fn get(self) -> Duration {
        Duration::from_nanos(self.0.get() - 1)
    }

    /// Returns the word of an optional duration: zero for none.
    pub fn pack(limit: Option<Duration>) -> u64 {
        limit.and_then(Self::new).map_or(0, |packed| packed.0.get())
    }

    #[inline]
    pub fn unpack(word: u64) -> Option<Duration> {
        NonZeroU64::new(word).map(|word| Self(word).get())
    }
}
