//! Brief holds: with reports of long holds, a hold that is certainly none ends without the mutex.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::sampling::Sampling;
use crate::sync::AtomicU64;
use crate::time::Timestamp;

/// When the present hold began, beside the lock's word, and how long a brief hold lasts.
#[derive(Debug)]
pub(super) struct BriefHolds {
    /// Written under the mutex before the word is set to the hold, so the holder reads its own
    /// start. A thread that is not the holder may read another one, and cannot end the hold.
    since: AtomicU64,
    below: Duration,
}

impl BriefHolds {
    /// For reports of holds from `threshold` on; `None` without them.
    pub(super) fn of(threshold: Option<Duration>) -> Option<Self> {
        threshold.map(|threshold| Self {
            since: AtomicU64::new(0),
            // A longer hold counts in the metrics, which are under the mutex.
            below: threshold.min(Sampling::QUICK),
        })
    }

    /// Records that a hold begins. Requires the mutex.
    #[inline]
    pub(super) fn begin(&self, since: Timestamp) {
        self.since.store(since.nanos(), Ordering::Relaxed);
    }

    /// Whether the present hold is brief if it ends at this moment.
    #[inline]
    pub(super) fn ends_at(&self, now: Timestamp) -> bool {
        let since = Timestamp::from_nanos(self.since.load(Ordering::Relaxed));
        now - since < self.below
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_brief_hold_is_below_the_threshold_of_reports_and_of_metrics() {
        let began = Timestamp::from_nanos(7_000);
        let ends_after = |brief: &BriefHolds, nanos| {
            brief.begin(began);
            brief.ends_at(began.saturating_add(Duration::from_nanos(nanos)))
        };
        let brief = BriefHolds::of(Some(Duration::from_nanos(100))).unwrap();
        assert!(ends_after(&brief, 99) && !ends_after(&brief, 100));
        let brief = BriefHolds::of(Some(Duration::from_secs(1))).unwrap();
        assert!(ends_after(&brief, 1_999) && !ends_after(&brief, 2_000));
        let brief = BriefHolds::of(Some(Duration::ZERO)).unwrap();
        assert!(!ends_after(&brief, 0));
        assert!(BriefHolds::of(None).is_none());
    }
}
