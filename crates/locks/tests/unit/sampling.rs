//! Which holds are measured, and for how many each stands.

use super::*;
use crate::time::ManualClock;

/// Returns how many holds each of the next ones stands for.
fn weights(mut sampling: Sampling, holds: usize) -> Vec<u16> {
    let mut weight = || sampling.measure(MonotonicTime::default);
    (0..holds).map(|_| weight().weight).collect()
}

#[test]
fn one_hold_of_a_run_is_measured_and_stands_for_all() {
    let run = usize::from(Samples::RUN);
    let weights = weights(Sampling::new(&Clock::system()), 3 * run);
    for (nth, weight) in weights.into_iter().enumerate() {
        assert_eq!(weight, if nth % run == 0 { Samples::RUN } else { 0 });
    }
}

#[test]
fn each_hold_is_measured_by_a_manual_clock_and_where_it_is_asked_for() {
    let manual = Sampling::new(&ManualClock::new().clock());
    assert_eq!(weights(manual, 3), [1; 3]);
    assert_eq!(weights(Sampling::of_each(), 3), [1; 3]);
}
