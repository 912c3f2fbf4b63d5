//! Measured durations: their sum, maximum and distribution.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::millis;

/// At most the number that a clock can count.
#[doc(hidden)]
#[inline]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A distribution of durations.
///
/// The count is exact, and so are the mean and the maximum of the measured samples. A percentile
/// exceeds a sample by at most 1/128, less than one per cent. Until the first request waits,
/// percentiles are those of the last 128 measured samples; then of all later ones too.
/// `LockStats` documents what is measured. All values are zero while there is no sample.
/// Serializes in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DurationSummary {
    /// The number of samples.
    pub count: u64,
    /// The arithmetic mean.
    #[serde(with = "millis::duration")]
    pub mean: Duration,
    /// The median.
    #[serde(with = "millis::duration")]
    pub p50: Duration,
    /// The 95th percentile.
    #[serde(with = "millis::duration")]
    pub p95: Duration,
    /// The 99th percentile.
    #[serde(with = "millis::duration")]
    pub p99: Duration,
    /// The 99.9th percentile.
    #[serde(with = "millis::duration")]
    pub p999: Duration,
    /// The maximum.
    #[serde(with = "millis::duration")]
    pub max: Duration,
}

/// The sum, the maximum and the percentiles of durations. Takes one word while it is empty.
///
/// The percentiles are those of an array of buckets, of which the upper edge exceeds each duration
/// by less than one per cent. The array is made by [`distribute`](Self::distribute); before that,
/// the percentiles are those of the last [`RECENT`](Self::RECENT) samples.
#[derive(Default)]
#[doc(hidden)]
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
    /// The buckets of the last samples, with [`OF_RUN`](Self::OF_RUN) for a sample that stands for
    /// a run.
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
    pub const RECENT: usize = 128;

    /// How many holds one measured hold counts for in a long row of holds without a wait.
    pub const RUN: u16 = 64;

    /// Records a sample that stands for `weight` of them.
    pub fn record(&mut self, sample: Duration, weight: u16) {
        let nanos = nanos(sample);
        let measured = self.0.get_or_insert_default();
        measured.count += u64::from(weight);
        let weighed = nanos.saturating_mul(weight.into());
        measured.total = measured.total.saturating_add(weighed);
        measured.max = measured.max.max(nanos);
        let bucket = Buckets::of(nanos);
        let recent = match weight {
            1 => Some(bucket),
            Self::RUN => Some(bucket | Spread::OF_RUN),
            _ => None,
        };
        match (&mut measured.spread, recent) {
            (Spread::Recent { samples, next }, Some(recent)) => {
                samples[usize::from(*next)] = recent;
                *next = (*next + 1) % Self::RECENT as u8;
            }
            (spread, _) => spread.distribute().add(bucket, weight.into()),
        }
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
    pub fn record_wait(&mut self, waited: Duration, holds: &mut Self) {
        self.distribute();
        holds.distribute();
        self.record(waited, 1);
    }

    /// Makes the array of buckets: from here on, all samples count in the percentiles.
    pub fn distribute(&mut self) {
        self.0.get_or_insert_default().spread.distribute();
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |measured| measured.count)
    }

    /// Adds all samples of another.
    pub fn add(&mut self, other: &Self) {
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

impl Spread {
    const EMPTY: u16 = u16::MAX;
    const OF_RUN: u16 = 1 << 15;

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
                    match sample & Self::OF_RUN {
                        0 => buckets.add(sample, 1),
                        _ => buckets.add(sample & !Self::OF_RUN, Samples::RUN.into()),
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
