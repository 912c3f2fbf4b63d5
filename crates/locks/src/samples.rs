//! Measured durations: their sum, maximum and distribution.

mod code;
mod sparse;

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::DurationSummary;
use sparse::Sparse;

/// The sum, the maximum and the percentiles of durations, percentiles within one per cent. Takes
/// one word while it is empty.
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

/// The distribution of the samples. Without contention it takes some hundred bytes: a histogram
/// with a counter for each bucket takes 37 kB.
enum Spread {
    Sparse(Sparse),
    /// The fastest to record.
    Dense(Box<Histogram<u64>>),
}

impl Default for Spread {
    fn default() -> Self {
        Self::Sparse(Sparse::default())
    }
}

impl Distribution {
    /// Keeps the distribution dense from here on.
    fn unfold(&mut self) -> &mut Histogram<u64> {
        if let Spread::Sparse(sparse) = &self.spread {
            self.spread = Spread::Dense(Box::new(dense(sparse)));
        }
        match &mut self.spread {
            Spread::Dense(histogram) => histogram,
            Spread::Sparse(_) => unreachable!("it was just made dense"),
        }
    }
}

impl Samples {
    /// The longest duration that the histogram tells apart. A longer one counts as this in
    /// percentiles only.
    const HIGHEST: Duration = Duration::from_secs(3600);

    /// From this many waits on, time counts more than memory.
    const CONTENDED: u64 = 1024;

    /// Records a sample that stands for `weight` of them. Returns whether that took long, as it
    /// sometimes does: see [`Sampling::excuse`](super::sampling::Sampling::excuse).
    pub fn record(&mut self, sample: Duration, weight: u64) -> bool {
        let nanos = nanos(sample);
        let measured = self.0.get_or_insert_default();
        measured.count += weight;
        measured.total = measured.total.saturating_add(nanos.saturating_mul(weight));
        measured.max = measured.max.max(nanos);
        match &mut measured.spread {
            Spread::Sparse(sparse) => sparse.record(nanos, weight),
            Spread::Dense(histogram) => {
                histogram.saturating_record_n(nanos, weight);
                false
            }
        }
    }

    /// Records the wait of a request that holds now. After many waits, both distributions are kept
    /// dense.
    pub fn record_wait(&mut self, waited: Duration, holds: &mut Self) {
        self.record(waited, 1);
        if self.count() == Self::CONTENDED {
            self.unfold();
            holds.unfold();
        }
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
        let measured = self.0.get_or_insert_default();
        measured.count += other.count;
        measured.total = measured.total.saturating_add(other.total);
        measured.max = measured.max.max(other.max);
        let own = measured.unfold();
        match &other.spread {
            Spread::Sparse(sparse) => sparse.add_to(own),
            Spread::Dense(histogram) => {
                let added = own.add(&**histogram);
                debug_assert!(added.is_ok(), "both have the same bounds");
            }
        }
    }

    /// Keeps the distribution dense from here on: 37 kB, in which a sample is recorded at once.
    pub fn unfold(&mut self) {
        self.0.get_or_insert_default().unfold();
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
        let unfolded;
        let histogram = match &samples.spread {
            Spread::Dense(histogram) => &**histogram,
            Spread::Sparse(sparse) => {
                unfolded = dense(sparse);
                &unfolded
            }
        };
        let at = |quantile: f64| {
            let rank = (quantile * count as f64).ceil() as u64;
            if rank <= zeros {
                return Duration::ZERO;
            }
            let among = (rank - zeros) as f64 / measured as f64;
            // A bucket's upper edge may lie above the largest sample in it.
            Duration::from_nanos(histogram.value_at_quantile(among).min(samples.max))
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

/// With two significant digits.
fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, nanos(Samples::HIGHEST), 2)
        .expect("the bounds are constants that the histogram accepts")
}

fn dense(sparse: &Sparse) -> Histogram<u64> {
    let mut histogram = empty();
    sparse.add_to(&mut histogram);
    histogram
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.summary(self.count(), 0), f)
    }
}

#[cfg(test)]
mod tests;
