//! Measured durations.

use std::time::Duration;

use doclock_common::{DurationSummary, Samples};
use proptest::prelude::*;

/// Whether a percentile exceeds the sample that it stands for by at most 1/128.
fn is_near(found: Duration, nanos: u64) -> bool {
    (u128::from(nanos)..=u128::from(nanos) * 129 / 128).contains(&found.as_nanos())
}

#[test]
fn a_summary_is_true_to_its_samples() {
    let mut samples = Samples::default();
    assert_eq!(samples.summary(0, 0), DurationSummary::default());
    for micros in 1..=50 {
        samples.record(Duration::from_micros(micros), 1);
    }
    let summary = samples.summary(100, 50);
    assert_eq!(summary.count, 100);
    assert_eq!(summary.mean, Duration::from_nanos(12_750));
    assert_eq!(summary.p50, Duration::ZERO);
    assert_eq!(summary.max, Duration::from_micros(50));
    assert!(is_near(summary.p95, 45_000), "{:?}", summary.p95);
    assert!(is_near(summary.p99, 49_000), "{:?}", summary.p99);
}

#[test]
fn merged_samples_count_like_recorded_ones() {
    let (mut odd, mut even, mut all) = <(Samples, Samples, Samples)>::default();
    all.distribute();
    even.distribute();
    for micros in 1..=100 {
        let part = if micros % 2 == 0 { &mut even } else { &mut odd };
        for samples in [part, &mut all] {
            samples.record(Duration::from_micros(micros), 1);
        }
    }
    odd.add(&even);
    assert_eq!(odd.count(), 100);
    assert_eq!(odd.summary(100, 0), all.summary(100, 0));
}

#[test]
fn the_percentiles_are_those_of_the_last_samples_until_a_request_has_waited() {
    let (mut waits, mut holds) = <(Samples, Samples)>::default();
    let record = |holds: &mut Samples, micros, times| {
        (0..times).for_each(|_| holds.record(Duration::from_micros(micros), 1));
    };
    record(&mut holds, 1, 1_000);
    record(&mut holds, 9, Samples::RECENT);
    assert!(is_near(holds.summary(1_128, 0).p50, 9_000));
    waits.record_wait(Duration::from_micros(5), &mut holds);
    record(&mut holds, 1, Samples::RECENT + 1);
    let summary = holds.summary(1_257, 0);
    assert!(is_near(summary.p50, 1_000) && is_near(summary.p95, 9_000));
    assert_eq!(summary.mean, Duration::from_nanos(1_814));
    assert!(is_near(waits.summary(1, 0).p50, 5_000));
}

#[test]
fn each_duration_is_near_the_upper_edge_of_its_bucket() {
    let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << bit]);
    for nanos in (0..5_000).chain(edges) {
        let mut samples = Samples::default();
        // A percentile is at most the longest sample.
        for sample in [nanos, nanos, u64::MAX] {
            samples.record(Duration::from_nanos(sample), 1);
        }
        assert!(is_near(samples.summary(3, 0).p50, nanos), "{nanos} ns");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn percentiles_are_those_of_the_sorted_samples(
        samples in prop::collection::vec(
            (any::<u64>().prop_map(|at| at >> (at % 64)), prop::sample::select(vec![1, 1, 64, 7])),
            1..1_000,
        ),
    ) {
        let mut measured = Samples::default();
        measured.distribute();
        for &(nanos, weight) in &samples {
            measured.record(Duration::from_nanos(nanos), weight);
        }
        let each = samples.iter().flat_map(|&(nanos, weight)| (0..weight).map(move |_| nanos));
        let mut sorted: Vec<_> = each.collect();
        sorted.sort_unstable();
        let count = sorted.len() as u64;
        prop_assert_eq!(measured.count(), count);
        let summary = measured.summary(count, 0);
        let quantiles = [(summary.p50, 0.5), (summary.p95, 0.95), (summary.p99, 0.99), (summary.p999, 0.999)];
        for (found, quantile) in quantiles {
            let rank = (quantile * count as f64).ceil() as usize;
            // The quantile of the scaled number may round to the next.
            let near = [rank - 1, rank.min(sorted.len() - 1)].map(|at| sorted[at]);
            prop_assert!(
                near.iter().any(|&nanos| is_near(found, nanos)),
                "{:?} for {:?}", found, near
            );
        }
    }
}
