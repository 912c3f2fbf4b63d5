use crate::timeline::durations::{Bin, DurationStatistics};

fn of(durations: &[u64]) -> DurationStatistics {
    let durations = durations.iter().copied();
    DurationStatistics::new(
        durations
            .enumerate()
            .map(|(position, duration)| (duration, position))
            .collect(),
    )
}

#[test]
fn percentiles_are_durations_that_occur() {
    let hundred: Vec<u64> = (1..=100).rev().collect();
    let all = of(&hundred);
    assert_eq!((all.p50, all.p95, all.p99, all.max), (50, 95, 99, 100));
    let one = of(&[7]);
    assert_eq!(
        (one.p50, one.p95, one.p99, one.max, one.count),
        (7, 7, 7, 7, 1)
    );
    // At least half of them are at most the median.
    assert_eq!(of(&[1, 2, 3]).p50, 2);
    assert_eq!(of(&[]), DurationStatistics::default());
}

#[test]
fn bins_are_1_2_5_and_have_every_duration() {
    let bin = |from, to, count| Bin { from, to, count };
    assert_eq!(
        of(&[0, 0, 3, 5, 9, 25]).bins,
        [
            bin(0, 1, 2),
            bin(2, 5, 1),
            bin(5, 10, 2),
            bin(10, 20, 0),
            bin(20, 50, 1)
        ]
    );
    let inner = [bin(2, 5, 1), bin(5, 10, 0), bin(10, 20, 1)];
    assert_eq!(of(&[3, 11]).bins, inner);
    let last = u64::MAX;
    assert_eq!(of(&[last]).bins, [bin(5_000_000_000_000_000_000, last, 1)]);
}

#[test]
fn the_longest_ten_have_a_length_and_the_earlier_one_comes_first() {
    assert_eq!(of(&[0, 5, 9, 5, 0]).longest, [2, 1, 3]);
    assert_eq!(of(&[1; 20]).longest, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}
