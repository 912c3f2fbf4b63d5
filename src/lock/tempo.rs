//! When to read the clock.
//!
//! Reading it costs as much as all else that an uncontended lock does. A lock that is taken now and
//! then can afford it; one that is taken hundreds of thousands of times a second measures one hold
//! in [`Tempo::RUN`] and lets it stand for all of them. That the rate has fallen is noticed with
//! the next that is measured; from then on all are.

use std::time::Duration;

use crate::time::{Clock, Timestamp};

/// Decides which of the holds that nobody waited for are measured.
#[derive(Debug)]
pub(super) struct Tempo {
    /// Whether the clock is so cheap that all of them are.
    always: bool,
    /// Whether the next may come late.
    pardoned: bool,
    /// How many are still to go without.
    unmeasured: u32,
    /// Taken again within so many nanoseconds, the lock is in a hurry.
    within: u32,
    /// How many times in succession the lock was taken quickly.
    quick: u32,
    last: Timestamp,
}

/// A grant that is measured, and how many it stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) at: Timestamp,
    pub(super) weight: u64,
}

impl Measured {
    /// A grant that stands for itself alone.
    pub(super) fn once(at: Timestamp) -> Self {
        Self { at, weight: 1 }
    }
}

impl Tempo {
    /// In a run, one hold is measured.
    pub(super) const RUN: u32 = 64;
    /// Taken again within this time, a lock is in a hurry.
    const QUICK: Duration = Duration::from_micros(2);
    /// As often in succession, it is believed.
    const BELIEVED: u32 = 64;

    pub(super) fn new(clock: &Clock) -> Self {
        Self::of_a_share(clock, 1)
    }

    /// Of one of so many shares of a lock, which is taken as many times less often than the whole.
    pub(super) fn of_a_share(clock: &Clock, shares: u32) -> Self {
        Self {
            always: clock.is_manual(),
            pardoned: false,
            unmeasured: 0,
            within: Self::QUICK.as_nanos() as u32 * shares,
            quick: 0,
            last: Timestamp::default(),
        }
    }

    /// One by which all are measured, whatever that costs.
    pub(super) fn steady() -> Self {
        Self {
            always: true,
            pardoned: false,
            unmeasured: 0,
            within: 0,
            quick: 0,
            last: Timestamp::default(),
        }
    }

    /// Whether the grant that is about to be made is measured. To be asked once for each behind
    /// which nobody waits.
    #[inline]
    pub(super) fn measure(&mut self, now: impl FnOnce() -> Timestamp) -> Option<Measured> {
        if self.unmeasured > 0 {
            self.unmeasured -= 1;
            return None;
        }
        Some(self.measured(now()))
    }

    /// Measures all again, until there is a hurry again.
    pub(super) fn calm(&mut self) {
        (self.unmeasured, self.quick) = (0, 0);
    }

    /// Has the next count as quick enough, because the figures have just taken their time: that
    /// says nothing of a hurry.
    pub(super) fn pardon(&mut self) {
        self.pardoned = true;
    }

    /// As after many quick takes. In a model time stands still, so this alone brings on a hurry at
    /// once.
    #[cfg(loom)]
    pub(super) fn hurry(&mut self) {
        (self.unmeasured, self.quick) = (Self::RUN - 1, Self::BELIEVED);
    }

    fn measured(&mut self, at: Timestamp) -> Measured {
        let hurried = self.quick >= Self::BELIEVED;
        let grants = if hurried { Self::RUN } else { 1 };
        let within = Duration::from_nanos(u64::from(self.within) * u64::from(grants));
        self.quick = match at - self.last < within {
            true => (self.quick + 1).min(Self::BELIEVED),
            false if self.pardoned => self.quick,
            false => 0,
        };
        self.pardoned = false;
        self.last = at;
        if self.always || self.quick < Self::BELIEVED {
            return Measured::once(at);
        }
        self.unmeasured = Self::RUN - 1;
        Measured {
            at,
            weight: u64::from(Self::RUN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ManualClock;

    const NANO: Duration = Duration::from_nanos(1);

    /// A lock's tempo, on a clock that is told when the lock is taken and is as dear to read as the
    /// system's.
    struct Taken {
        tempo: Tempo,
        clock: ManualClock,
    }

    impl Taken {
        fn new() -> Self {
            let tempo = Tempo::new(&Clock::system());
            let clock = ManualClock::new();
            let mut taken = Self { tempo, clock };
            // Long after the clock began.
            assert_eq!(taken.after(Duration::from_secs(1)), Some(1));
            taken
        }

        /// For how many holds the one stands that begins after so much time, if it is measured.
        fn after(&mut self, pause: Duration) -> Option<u64> {
            self.clock.advance(pause);
            let measured = self.tempo.measure(|| self.clock.clock().now());
            measured.map(|measured| measured.weight)
        }

        /// Takes the lock again and again until it is in a hurry.
        fn hurry(&mut self) {
            while self.after(Tempo::QUICK / 2) != Some(u64::from(Tempo::RUN)) {}
        }
    }

    #[test]
    fn who_takes_the_lock_now_and_then_is_measured_each_time() {
        let mut taken = Taken::new();
        for _ in 0..1000 {
            assert_eq!(taken.after(Tempo::QUICK), Some(1));
        }
    }

    #[test]
    fn a_hurry_is_believed_when_it_has_lasted_for_a_while() {
        let mut taken = Taken::new();
        let quick = Tempo::QUICK - NANO;
        for _ in 1..Tempo::BELIEVED {
            assert_eq!(taken.after(quick), Some(1));
        }
        // One pause, and it counts from the beginning.
        assert_eq!(taken.after(Tempo::QUICK), Some(1));
        for _ in 1..Tempo::BELIEVED {
            assert_eq!(taken.after(quick), Some(1));
        }
        assert_eq!(taken.after(quick), Some(u64::from(Tempo::RUN)));
    }

    #[test]
    fn in_a_hurry_one_of_a_run_is_measured_and_stands_for_all() {
        let mut taken = Taken::new();
        taken.hurry();
        for _ in 0..100 {
            for _ in 1..Tempo::RUN {
                assert_eq!(taken.after(Tempo::QUICK / 2), None);
            }
            assert_eq!(taken.after(Tempo::QUICK / 2), Some(u64::from(Tempo::RUN)));
        }
    }

    #[test]
    fn when_the_hurry_is_over_each_is_measured_again() {
        let mut taken = Taken::new();
        taken.hurry();
        // The rest of the run, in which nobody looks at the clock, is the longest that it takes to
        // notice.
        for _ in 1..Tempo::RUN {
            assert_eq!(taken.after(Tempo::QUICK), None);
        }
        assert_eq!(taken.after(Tempo::QUICK), Some(1));
        for _ in 1..Tempo::BELIEVED {
            assert_eq!(taken.after(Tempo::QUICK), Some(1));
        }
    }

    #[test]
    fn a_tempo_that_is_calmed_measures_the_next_at_once() {
        let mut taken = Taken::new();
        taken.hurry();
        assert_eq!(taken.after(NANO), None);
        taken.tempo.calm();
        for _ in 1..Tempo::BELIEVED {
            assert_eq!(taken.after(NANO), Some(1));
        }
        assert_eq!(taken.after(NANO), Some(u64::from(Tempo::RUN)));
    }

    /// Once the figures of a lock took so long now and then that no hurry was believed, and every
    /// hold was measured.
    #[test]
    fn what_the_figures_take_is_no_pause() {
        let mut taken = Taken::new();
        for nth in 1..Tempo::BELIEVED + 3 {
            if nth % 20 == 0 {
                taken.tempo.pardon();
                assert_eq!(taken.after(Tempo::QUICK), Some(1));
            } else {
                assert_eq!(taken.after(NANO), Some(1));
            }
        }
        assert_eq!(taken.after(NANO), Some(u64::from(Tempo::RUN)));
        // Only the next is pardoned.
        taken.tempo.calm();
        taken.tempo.pardon();
        for _ in 1..Tempo::BELIEVED {
            assert_eq!(taken.after(NANO), Some(1));
        }
        assert_eq!(taken.after(Tempo::QUICK), Some(1));
        assert_eq!(taken.after(NANO), Some(1));
    }

    #[test]
    fn a_share_of_a_lock_is_in_a_hurry_when_the_whole_would_be() {
        let mut taken = Taken::new();
        taken.tempo = Tempo::of_a_share(&Clock::system(), 8);
        let quick = 8 * Tempo::QUICK - NANO;
        assert_eq!(taken.after(Duration::from_secs(1)), Some(1));
        for _ in 1..Tempo::BELIEVED {
            assert_eq!(taken.after(quick), Some(1));
        }
        assert_eq!(taken.after(quick), Some(u64::from(Tempo::RUN)));
    }

    #[test]
    fn a_manual_clock_is_read_each_time_and_so_is_any_by_a_steady_tempo() {
        let mut taken = Taken::new();
        for tempo in [Tempo::new(&taken.clock.clock()), Tempo::steady()] {
            taken.tempo = tempo;
            for _ in 0..1000 {
                assert_eq!(taken.after(NANO), Some(1));
            }
        }
    }
}
