//! Durations that were measured: their sum and maximum, and how they are distributed.

mod code;
mod sparse;

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::DurationSummary;
use sparse::Sparse;

/// Sum and maximum of what was measured; percentiles of it within one per cent.
#[derive(Default)]
pub(crate) struct Samples {
    /// For how many samples those that were measured stand.
    count: u64,
    /// In nanoseconds, which are enough for five centuries.
    total: u64,
    max: u64,
    kept: Kept,
}

/// How the distribution is kept. An idle object keeps next to nothing, and one that is used without contention some hundred bytes:
/// a histogram with a counter for each bucket takes 37 kB.
#[derive(Default)]
enum Kept {
    #[default]
    Nothing,
    Sparse(Box<Sparse>),
    /// Counts fastest.
    Dense(Box<Histogram<u64>>),
}

impl Samples {
    /// The longest time that the histogram tells apart. Longer ones count as this in percentiles only.
    const HIGHEST: Duration = Duration::from_secs(3600);

    /// Where so many requests have waited, time counts more than memory.
    const CONTENDED: u64 = 1024;

    /// Takes in a sample that stands for `weight` of them.
    pub(crate) fn record(&mut self, sample: Duration, weight: u64) {
        let nanos = nanos(sample);
        self.count += weight;
        self.total = self.total.saturating_add(nanos.saturating_mul(weight));
        self.max = self.max.max(nanos);
        match &mut self.kept {
            Kept::Nothing => {
                let mut sparse = Box::<Sparse>::default();
                sparse.record(nanos, weight);
                self.kept = Kept::Sparse(sparse);
            }
            Kept::Sparse(sparse) => sparse.record(nanos, weight),
            Kept::Dense(histogram) => histogram.saturating_record_n(nanos, weight),
        }
    }

    /// Takes in how long a request waited for what it holds then. Where many wait, both distributions are kept dense.
    pub(crate) fn record_wait(&mut self, waited: Duration, holds: &mut Self) {
        self.record(waited, 1);
        if self.count == Self::CONTENDED {
            self.unfold();
            holds.unfold();
        }
    }

    /// How many samples there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Takes in all samples of another.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.max = self.max.max(other.max);
        let own = self.unfold();
        match &other.kept {
            Kept::Nothing => {}
            Kept::Sparse(sparse) => sparse.add_to(own),
            Kept::Dense(histogram) => {
                let added = own.add(&**histogram);
                debug_assert!(added.is_ok(), "both have the same bounds");
            }
        }
    }

    /// Keeps the distribution dense from here on.
    fn unfold(&mut self) -> &mut Histogram<u64> {
        if !matches!(self.kept, Kept::Dense(_)) {
            let histogram = match &self.kept {
                Kept::Sparse(sparse) => dense(sparse),
                _ => empty(),
            };
            self.kept = Kept::Dense(Box::new(histogram));
        }
        match &mut self.kept {
            Kept::Dense(histogram) => histogram,
            _ => unreachable!("it was just made dense"),
        }
    }

    /// The distribution of `count` samples: these, scaled to the number of all that were not `zero`.
    pub(crate) fn summary(&self, count: u64, zeros: u64) -> DurationSummary {
        let measured = count - zeros;
        let unfolded;
        let histogram = match &self.kept {
            Kept::Nothing => None,
            Kept::Sparse(sparse) => {
                unfolded = dense(sparse);
                Some(&unfolded)
            }
            Kept::Dense(histogram) => Some(&**histogram),
        };
        let at = |quantile: f64| {
            let rank = (quantile * count as f64).ceil() as u64;
            let Some(histogram) = histogram.filter(|_| rank > zeros) else {
                return Duration::ZERO;
            };
            let among = (rank - zeros) as f64 / measured as f64;
            // A bucket's upper edge may lie above the largest sample in it.
            Duration::from_nanos(histogram.value_at_quantile(among).min(self.max))
        };
        let all = u128::from(self.total) * u128::from(measured);
        let mean = all.checked_div(u128::from(self.count) * u128::from(count));
        let mean = mean.and_then(|mean| u64::try_from(mean).ok());
        DurationSummary {
            count,
            mean: Duration::from_nanos(mean.unwrap_or(0)),
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(self.max),
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
        fmt::Debug::fmt(&self.summary(self.count, 0), f)
    }
}

#[cfg(test)]
mod tests;
