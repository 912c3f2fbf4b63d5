//! Sampling: which holds are measured.
//!
//! Reading the clock costs as much as the rest of an uncontended lock. A lock that is acquired now
//! and then measures every hold. A lock that is acquired hundreds of thousands of times a second
//! measures one hold in [`Sampling::RUN`], which stands for all of them. The next measured hold
//! shows that the rate has fallen; from then on every hold is measured.

use std::time::Duration;

use super::word::HoldEnd;
use crate::time::{Clock, Timestamp};

/// Decides which of the uncontended holds are measured.
#[derive(Debug)]
pub(super) struct Sampling {
    /// Whether all holds are measured.
    always: bool,
    /// Why the clock is read for holds that are not measured; `None` if it is not.
    timed: Option<Timed>,
    /// Whether the next grant counts as quick even if it comes late.
    excused: bool,
    /// How many more holds go without a measurement.
    unmeasured: u32,
    /// The rate counts as high if the lock is acquired again within this many nanoseconds.
    within: u32,
    /// How many times in succession the lock was acquired quickly.
    quick: u32,
    last: Timestamp,
}

/// What the clock is read for, at each hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    /// A timeline, which records each hold.
    Timeline,
    /// Reports of long holds. A brief hold ends without the mutex.
    Reports,
}

/// A grant that is measured, and how many it stands for: for none, if it is only timed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) at: Timestamp,
    pub(super) weight: u64,
    pub(super) end: HoldEnd,
}

impl Measured {
    /// A grant that stands for itself alone.
    pub(super) fn once(at: Timestamp) -> Self {
        Self {
            at,
            weight: 1,
            end: HoldEnd::Pinned,
        }
    }
}

impl Sampling {
    /// One hold in this many is measured at a high rate.
    pub(super) const RUN: u32 = 64;
    /// The rate counts as high if the lock is acquired again within this time.
    pub(super) const QUICK: Duration = Duration::from_micros(2);
    /// Sampling begins after this many quick grants in succession.
    const BELIEVED: u32 = 64;

    pub(super) fn new(clock: &Clock) -> Self {
        Self::of_a_share(clock, 1)
    }

    /// Samples one of several shards of a lock; each is acquired less often than the whole by this
    /// factor.
    pub(super) fn of_a_share(clock: &Clock, shares: u32) -> Self {
        Self {
            always: clock.is_manual(),
            timed: None,
            excused: false,
            unmeasured: 0,
            within: Self::QUICK.as_nanos() as u32 * shares,
            quick: 0,
            last: Timestamp::default(),
        }
    }

    /// Measures every hold, at any cost.
    pub(super) fn steady() -> Self {
        Self {
            always: true,
            timed: None,
            excused: false,
            unmeasured: 0,
            within: 0,
            quick: 0,
            last: Timestamp::default(),
        }
    }

    /// Reads the clock for every hold, for a timeline or for reports. To record each hold in the
    /// metrics as well would cost several times as much as the lock.
    pub(super) fn timed(clock: &Clock, timed: Timed) -> Self {
        Self {
            timed: Some(timed),
            ..Self::new(clock)
        }
    }

    /// Whether the next grant is measured. Called once for each grant behind which no request
    /// waits.
    #[inline]
    pub(super) fn measure(&mut self, now: impl FnOnce() -> Timestamp) -> Option<Measured> {
        if self.unmeasured > 0 {
            self.unmeasured -= 1;
            return self.timed.map(|timed| Measured {
                at: now(),
                weight: 0,
                end: match timed {
                    Timed::Timeline => HoldEnd::Pinned,
                    Timed::Reports => HoldEnd::FreeIfBrief,
                },
            });
        }
        Some(self.measured(now()))
    }

    /// Returns how many holds a hold of this length counts for in the metrics. One that is only
    /// timed counts if it is too long for the high rate at which others stand for it.
    pub(super) fn weight_of(hold: Duration, measured: u64) -> u64 {
        match measured {
            0 => u64::from(hold > Self::QUICK),
            weight => weight,
        }
    }

    /// Measures every hold, until the rate is high again.
    pub(super) fn measure_all(&mut self) {
        (self.unmeasured, self.quick) = (0, 0);
    }

    /// Counts the next grant as quick, because recording metrics has just taken long: that does not
    /// show a low rate.
    pub(super) fn excuse(&mut self) {
        self.excused = true;
    }

    /// Has the effect of many quick grants. In a model time stands still, so this alone starts
    /// sampling.
    #[cfg(loom)]
    pub(super) fn sample_sparsely(&mut self) {
        (self.unmeasured, self.quick) = (Self::RUN - 1, Self::BELIEVED);
    }

    fn measured(&mut self, at: Timestamp) -> Measured {
        let is_rate_high = self.quick >= Self::BELIEVED;
        let grants = if is_rate_high { Self::RUN } else { 1 };
        let within = Duration::from_nanos(u64::from(self.within) * u64::from(grants));
        self.quick = match at - self.last < within {
            true => (self.quick + 1).min(Self::BELIEVED),
            false if self.excused => self.quick,
            false => 0,
        };
        self.excused = false;
        self.last = at;
        if self.always || self.quick < Self::BELIEVED {
            return Measured::once(at);
        }
        self.unmeasured = Self::RUN - 1;
        Measured {
            at,
            weight: u64::from(Self::RUN),
            end: HoldEnd::Pinned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ManualClock;

    const NANO: Duration = Duration::from_nanos(1);

    /// The sampling of a lock, on a test clock that is as expensive to read as the system's.
    struct Taken {
        sampling: Sampling,
        clock: ManualClock,
    }

    impl Taken {
        fn new() -> Self {
            let sampling = Sampling::new(&Clock::system());
            let clock = ManualClock::new();
            let mut taken = Self { sampling, clock };
            // Long after the clock began.
            assert_eq!(taken.after(Duration::from_secs(1)), Some(1));
            taken
        }

        /// Returns how many holds the next one stands for, after this pause, if it is measured.
        fn after(&mut self, pause: Duration) -> Option<u64> {
            self.clock.advance(pause);
            let measured = self.sampling.measure(|| self.clock.clock().now());
            measured.map(|measured| measured.weight)
        }

        /// Acquires the lock until sampling begins.
        fn sample_sparsely(&mut self) {
            while self.after(Sampling::QUICK / 2) != Some(u64::from(Sampling::RUN)) {}
        }
    }

    #[test]
    fn every_hold_is_measured_when_grants_are_rare() {
        let mut taken = Taken::new();
        for _ in 0..1000 {
            assert_eq!(taken.after(Sampling::QUICK), Some(1));
        }
    }

    #[test]
    fn sparse_sampling_begins_after_a_run_of_quick_grants() {
        let mut taken = Taken::new();
        let quick = Sampling::QUICK - NANO;
        for _ in 1..Sampling::BELIEVED {
            assert_eq!(taken.after(quick), Some(1));
        }
        // One pause, and the count starts again.
        assert_eq!(taken.after(Sampling::QUICK), Some(1));
        for _ in 1..Sampling::BELIEVED {
            assert_eq!(taken.after(quick), Some(1));
        }
        assert_eq!(taken.after(quick), Some(u64::from(Sampling::RUN)));
    }

    #[test]
    fn sparse_sampling_measures_one_hold_per_run() {
        let mut taken = Taken::new();
        taken.sample_sparsely();
        for _ in 0..100 {
            for _ in 1..Sampling::RUN {
                assert_eq!(taken.after(Sampling::QUICK / 2), None);
            }
            assert_eq!(
                taken.after(Sampling::QUICK / 2),
                Some(u64::from(Sampling::RUN))
            );
        }
    }

    #[test]
    fn a_slow_grant_ends_sparse_sampling() {
        let mut taken = Taken::new();
        taken.sample_sparsely();
        // The rest of the run, without a measurement, is the longest time to notice.
        for _ in 1..Sampling::RUN {
            assert_eq!(taken.after(Sampling::QUICK), None);
        }
        assert_eq!(taken.after(Sampling::QUICK), Some(1));
        for _ in 1..Sampling::BELIEVED {
            assert_eq!(taken.after(Sampling::QUICK), Some(1));
        }
    }

    #[test]
    fn a_reset_sampling_measures_the_next_hold() {
        let mut taken = Taken::new();
        taken.sample_sparsely();
        assert_eq!(taken.after(NANO), None);
        taken.sampling.measure_all();
        for _ in 1..Sampling::BELIEVED {
            assert_eq!(taken.after(NANO), Some(1));
        }
        assert_eq!(taken.after(NANO), Some(u64::from(Sampling::RUN)));
    }

    /// Once the recording of metrics sometimes took so long that sampling never began, and every
    /// hold was measured.
    #[test]
    fn time_for_recording_metrics_does_not_delay_sparse_sampling() {
        let mut taken = Taken::new();
        for nth in 1..Sampling::BELIEVED + 3 {
            if nth % 20 == 0 {
                taken.sampling.excuse();
                assert_eq!(taken.after(Sampling::QUICK), Some(1));
            } else {
                assert_eq!(taken.after(NANO), Some(1));
            }
        }
        assert_eq!(taken.after(NANO), Some(u64::from(Sampling::RUN)));
        // Only the next grant is excused.
        taken.sampling.measure_all();
        taken.sampling.excuse();
        for _ in 1..Sampling::BELIEVED {
            assert_eq!(taken.after(NANO), Some(1));
        }
        assert_eq!(taken.after(Sampling::QUICK), Some(1));
        assert_eq!(taken.after(NANO), Some(1));
    }

    #[test]
    fn timed_sampling_reads_the_clock_for_the_holds_between() {
        let mut taken = Taken::new();
        taken.sampling = Sampling::timed(&Clock::system(), Timed::Timeline);
        assert_eq!(taken.after(Duration::from_secs(1)), Some(1));
        taken.sample_sparsely();
        for _ in 1..Sampling::RUN {
            assert_eq!(taken.after(NANO), Some(0));
        }
        assert_eq!(taken.after(NANO), Some(u64::from(Sampling::RUN)));
    }

    #[test]
    fn sampling_of_a_share_scales_its_threshold() {
        let mut taken = Taken::new();
        taken.sampling = Sampling::of_a_share(&Clock::system(), 8);
        let quick = 8 * Sampling::QUICK - NANO;
        assert_eq!(taken.after(Duration::from_secs(1)), Some(1));
        for _ in 1..Sampling::BELIEVED {
            assert_eq!(taken.after(quick), Some(1));
        }
        assert_eq!(taken.after(quick), Some(u64::from(Sampling::RUN)));
    }

    #[test]
    fn manual_clocks_and_steady_sampling_measure_every_hold() {
        let mut taken = Taken::new();
        for sampling in [Sampling::new(&taken.clock.clock()), Sampling::steady()] {
            taken.sampling = sampling;
            for _ in 0..1000 {
                assert_eq!(taken.after(NANO), Some(1));
            }
        }
    }
}
