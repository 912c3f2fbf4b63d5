//! Measured durations: their sum, maximum and distribution.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::DurationSummary;
use super::sampling::Sampling;

/// The sum, the maximum and the percentiles of durations. Takes one word while it is empty.
///
/// The percentiles are those of an array of buckets, of which the upper edge exceeds each duration
/// by less than one per cent. The array is made by [`distribute`](Self::distribute); before that,
/// the percentiles are those of the last [`RECENT`](Self::RECENT) samples.
#[derive(Default)]
pub struct Samples(Option<Box<Distribution>>);

#[derive(Default)]
struct Distribution {
    /// How many samples the measured ones stand for.
    count: u64,
    /// In nanoseconds, which are enough for five centuries.
    total: u64,
    max: u64,
    spread: Spread,
}

/// The distribution of the samples.
enum Spread {
    /// The buckets of the last samples, with [`RUN`](Self::RUN) for a sample that stands for a run.
    Recent {
        samples: Box<[u16; Samples::RECENT]>,
        next: u8,
    },
    All(Buckets),
}

impl Default for Spread {
    fn default() -> Self {
        Self::Recent {
            samples: Box::new([Self::EMPTY; Samples::RECENT]),
            next: 0,
        }
    }
}

impl Samples {
    /// The last samples that are kept before [`distribute`](Self::distribute).
    pub(crate) const RECENT: usize = 128;

    /// Records a sample that stands for `weight` of them.
    pub(crate) fn record(&mut self, sample: Duration, weight: u16) {
        let nanos = nanos(sample);
        let bucket = Buckets::of(nanos);
        let measured = self.0.get_or_insert_default();
        measured.count += u64::from(weight);
        let weighed = nanos.saturating_mul(weight.into());
        measured.total = measured.total.saturating_add(weighed);
        measured.max = measured.max.max(nanos);
        measured.spread.add(bucket, weight);
    }

    /// Records a sample that is to count in the percentiles for good, without a request that waits.
    pub fn record_each(&mut self, sample: Duration) {
        if self.count() >= Self::RECENT as u64 {
            self.distribute();
        }
        self.record(sample, 1);
    }

    /// Records the wait of a request that holds now. From the first wait on, both distributions
    /// count all samples.
    pub(crate) fn record_wait(&mut self, waited: Duration, holds: &mut Self) {
        self.distribute();
        holds.distribute();
        self.record(waited, 1);
    }

    /// Makes the array of buckets: from here on, all samples count in the percentiles.
    pub(crate) fn distribute(&mut self) {
        let measured = self.0.get_or_insert_default();
        measured.spread.distribute();
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |measured| measured.count)
    }

    /// Adds all samples of another.
    pub(crate) fn add(&mut self, other: &Self) {
        let Some(other) = &other.0 else {
            return;
        };
        self.distribute();
        let measured = self.0.get_or_insert_default();
        measured.count += other.count;
        measured.total = measured.total.saturating_add(other.total);
        measured.max = measured.max.max(other.max);
        if let Spread::All(own) = &mut measured.spread {
            for (bucket, count) in other.spread.buckets().iter() {
                own.add(bucket, count);
            }
        }
    }

    /// Summarizes `count` samples: the measured ones, scaled to the number of all that were not
    /// zero.
    pub fn summary(&self, count: u64, zeros: u64) -> DurationSummary {
        let Some(samples) = &self.0 else {
            return DurationSummary {
                count,
                ..DurationSummary::default()
            };
        };
        let measured = count - zeros;
        let buckets = samples.spread.buckets();
        let at = |quantile: f64| {
            let rank = (quantile * count as f64).ceil() as u64;
            if rank <= zeros {
                return Duration::ZERO;
            }
            let among = (rank - zeros) as f64 / measured as f64;
            // The upper edge of a bucket may exceed the largest sample in it.
            Duration::from_nanos(buckets.quantile(among).min(samples.max))
        };
        let all = u128::from(samples.total) * u128::from(measured);
        let mean = all.checked_div(u128::from(samples.count) * u128::from(count));
        let mean = mean.and_then(|mean| u64::try_from(mean).ok());
        DurationSummary {
            count,
            mean: Duration::from_nanos(mean.unwrap_or(0)),
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(samples.max),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Spread {
    const EMPTY: u16 = u16::MAX;
    const RUN: u16 = 1 << 15;

    fn add(&mut self, bucket: u16, weight: u16) {
        let recent = match weight {
            1 => Some(bucket),
            Sampling::RUN => Some(bucket | Self::RUN),
            _ => None,
        };
        match (self, recent) {
            (Self::Recent { samples, next }, Some(recent)) => {
                samples[usize::from(*next)] = recent;
                *next = (*next + 1) % Samples::RECENT as u8;
            }
            (spread, _) => spread.distribute().add(bucket, weight.into()),
        }
    }

    fn distribute(&mut self) -> &mut Buckets {
        if let Self::Recent { .. } = self {
            *self = Self::All(self.buckets().into_owned());
        }
        match self {
            Self::All(buckets) => buckets,
            Self::Recent { .. } => unreachable!("it was just distributed"),
        }
    }

    fn buckets(&self) -> Cow<'_, Buckets> {
        match self {
            Self::All(buckets) => Cow::Borrowed(buckets),
            Self::Recent { samples, .. } => {
                let mut buckets = Buckets::default();
                for &sample in samples.iter().filter(|sample| **sample != Self::EMPTY) {
                    match sample & Self::RUN {
                        0 => buckets.add(sample, 1),
                        _ => buckets.add(sample & !Self::RUN, Sampling::RUN.into()),
                    }
                }
                Cow::Owned(buckets)
            }
        }
    }
}

/// How many samples each bucket has. A row of buckets covers the durations between two powers of
/// two (the first row those below), and exists once it has a sample.
#[derive(Clone, Default)]
struct Buckets(Vec<Option<Box<[u64; Buckets::ROW]>>>);

impl Buckets {
    /// The buckets of a row have the same width: at most 1/128 of the durations in them.
    const ROW: usize = 128;
    const BITS: u32 = Self::ROW.ilog2();

    /// Returns the bucket of a duration.
    fn of(nanos: u64) -> u16 {
        let shift = (nanos | Self::ROW as u64).ilog2() - Self::BITS;
        (Self::ROW as u64 * u64::from(shift) + (nanos >> shift)) as u16
    }

    /// Returns the longest duration of a bucket.
    fn highest(bucket: u16) -> u64 {
        let row = bucket / Self::ROW as u16;
        let shift = row.saturating_sub(1);
        let lowest = u64::from(bucket - Self::ROW as u16 * shift) << shift;
        lowest + ((1 << shift) - 1)
    }

    fn add(&mut self, bucket: u16, count: u64) {
        let (row, at) = (
            usize::from(bucket) / Self::ROW,
            usize::from(bucket) % Self::ROW,
        );
        if self.0.len() <= row {
            self.0.resize_with(row + 1, || None);
        }
        self.0[row].get_or_insert_with(|| Box::new([0; Self::ROW]))[at] += count;
    }

    /// Returns the buckets that have samples, with the number of these.
    fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        let rows = self.0.iter().enumerate();
        let rows = rows.filter_map(|(nth, row)| Some((nth * Self::ROW, row.as_ref()?)));
        let buckets = rows.flat_map(|(first, row)| (first..).zip(row.iter()));
        let buckets = buckets.filter(|(_, count)| **count > 0);
        buckets.map(|(bucket, count)| (bucket as u16, *count))
    }

    /// Returns the upper edge of the bucket that this part of the samples does not exceed.
    fn quantile(&self, part: f64) -> u64 {
        let count: u64 = self.iter().map(|(_, count)| count).sum();
        let rank = (part * count as f64).ceil() as u64;
        let mut below = 0;
        let found = self.iter().find(|(_, count)| {
            below += count;
            below >= rank
        });
        found.map_or(u64::MAX, |(bucket, _)| Self::highest(bucket))
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.summary(self.count(), 0), f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        assert!((0..5_000).map(Buckets::of).is_sorted());
        for nanos in (0..5_000).chain(edges) {
            let bucket = Buckets::of(nanos);
            let highest = Buckets::highest(bucket);
            assert!(is_near(Duration::from_nanos(highest), nanos), "{nanos} ns");
            assert_eq!(Buckets::of(highest), bucket, "{nanos} ns");
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
}
