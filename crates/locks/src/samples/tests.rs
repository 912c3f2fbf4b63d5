//! The compact distribution against the histogram.

use proptest::prelude::*;

use super::*;

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
    for (found, micros) in [(summary.p95, 45.0), (summary.p99, 49.0)] {
        let error = found.as_secs_f64() * 1e6 / micros - 1.0;
        assert!((0.0..0.01).contains(&error), "{found:?} for {micros} µs");
    }
}

#[test]
fn merged_samples_count_like_recorded_ones() {
    let (mut odd, mut even, mut all) = <(Samples, Samples, Samples)>::default();
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

/// Records samples with their weights, in the histogram and in the compact form.
fn both(samples: &[(u64, u64)]) -> (Samples, Samples) {
    let (mut dense, mut sparse) = <(Samples, Samples)>::default();
    dense.unfold();
    for &(nanos, weight) in samples {
        for kept in [&mut dense, &mut sparse] {
            kept.record(Duration::from_nanos(nanos), weight);
        }
    }
    (dense, sparse)
}

fn quantiles(summary: &DurationSummary) -> [f64; 4] {
    [summary.p50, summary.p95, summary.p99, summary.p999].map(|at| at.as_nanos() as f64)
}

/// Returns how many bytes the bits of a compact distribution take.
fn bits(samples: &Samples) -> usize {
    match &samples.0.as_ref().unwrap().spread {
        Spread::Sparse(sparse) => sparse.len(),
        Spread::Dense(_) => panic!("it is not compact"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Few distinct durations: the same answers, bit for bit, also beyond the histogram's bounds.
    #[test]
    fn few_durations_are_summarized_exactly_like_the_histogram(
        times in prop::collection::vec(prop_oneof![0..300u64, any::<u64>().prop_map(|at| at >> (at % 64))], 1..40),
        chosen in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec![1, 1, 64, 7])), 1..400),
    ) {
        let samples: Vec<_> = chosen.iter().map(|(at, weight)| (*at.get(&times), *weight)).collect();
        let (dense, mut sparse) = both(&samples);
        let count = dense.count();
        prop_assert_eq!(dense.summary(count, 0), sparse.summary(count, 0));
        sparse.unfold();
        prop_assert_eq!(dense.summary(count, 0), sparse.summary(count, 0));
    }

    /// Many distinct durations: within one per cent of the sample that the histogram finds.
    #[test]
    fn many_durations_are_summarized_within_one_per_cent(
        samples in prop::collection::vec((2.0..10.0f64).prop_map(|power| (10f64.powf(power) as u64, 1)), 1_000),
    ) {
        let (dense, sparse) = both(&samples);
        let mut sorted: Vec<_> = samples.iter().map(|sample| sample.0).collect();
        sorted.sort_unstable();
        let [dense, sparse] = [dense, sparse].map(|kept| kept.summary(1_000, 0));
        prop_assert_eq!((dense.mean, dense.max, dense.count), (sparse.mean, sparse.max, sparse.count));
        for (found, rank) in quantiles(&sparse).into_iter().zip([500, 950, 990, 999]) {
            let error = found / sorted[rank - 1] as f64 - 1.0;
            prop_assert!(error.abs() < 0.01, "{} for {}", found, sorted[rank - 1]);
        }
    }
}

/// Each bucket of the histogram is one of the compact form, and the other way round.
#[test]
fn the_buckets_are_those_of_the_histogram() {
    let histogram = empty();
    let edges = (0..43).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << bit]);
    for nanos in (0..5_000).chain(edges).filter(|nanos| nanos >> 42 == 0) {
        let mut sparse = Sparse::default();
        sparse.record(nanos, 1);
        let mut found = empty();
        sparse.add_to(&mut found);
        assert_eq!(
            found.min(),
            histogram.lowest_equivalent(nanos),
            "{nanos} ns"
        );
    }
}

/// The memory of a thousand holds of very different lengths; the bounds on idle objects allow for
/// it.
#[test]
fn a_thousand_times_over_four_decades_take_few_bytes() {
    let mut sparse = Samples::default();
    let mut seed = 1u64;
    for nth in 1..=100_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let power = (seed >> 40) as f64 / (1u64 << 24) as f64;
        sparse.record(Duration::from_secs_f64(1e-7 * 10f64.powf(4.0 * power)), 1);
        if [1_000, 10_000, 100_000].contains(&nth) {
            println!("{nth} samples: {} bytes", bits(&sparse));
        }
        assert!(
            nth > 1_000 || bits(&sparse) <= 320,
            "{nth}: {}",
            bits(&sparse)
        );
    }
}
