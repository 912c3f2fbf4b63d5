//! The same work with increasing inputs.

use std::time::Instant;

use serde::Serialize;

use crate::Result;

pub const SUITE: &str = "growth";

/// Half a decade apart.
pub const SIZES: &[usize] = &[100, 300, 1_000, 3_000, 10_000, 30_000, 100_000];

/// The growth of a quadratic cost from one size to the next.
const SQUARE: f64 = 10.0;

/// The most time for one size, in seconds.
const TIME: f64 = 5.0;

/// The most bytes for one size.
const BYTES: f64 = 1e9;

/// The time after which a size has no further round, in seconds.
const ROUNDS: f64 = 1.0;

/// Measures the cost of work with an input of this size.
pub type Measure = fn(usize) -> Result<Sample>;

/// Work whose cost depends on the size of an input.
pub struct Dimension {
    pub measure: Measure,
    pub name: &'static str,
    pub title: &'static str,
    /// The units of the sizes.
    pub input: &'static str,
    pub unit: Unit,
    pub sizes: &'static [usize],
}

impl Dimension {
    /// A dimension that is measured at all sizes.
    pub const fn new(
        unit: Unit,
        measure: Measure,
        name: &'static str,
        title: &'static str,
        input: &'static str,
    ) -> Self {
        Self {
            measure,
            name,
            title,
            input,
            unit,
            sizes: SIZES,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[allow(dead_code, reason = "each of the two packages measures one")]
pub enum Unit {
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "bytes")]
    Bytes,
}

/// The cost of one size.
pub struct Sample {
    pub value: f64,
    /// The error of the work, if it failed.
    pub refused: Option<String>,
    /// The time with all preparations, in seconds.
    pub took: f64,
}

/// The median of one size.
#[derive(Serialize)]
pub struct Row {
    suite: String,
    pub case: String,
    pub title: String,
    pub input: String,
    pub size: usize,
    pub value: f64,
    pub unit: Unit,
    pub refused: Option<String>,
}

impl Dimension {
    pub fn heading(&self) -> String {
        format!("\n{} ({})", self.title, self.name)
    }

    /// Measures one size after the other, each for up to `rounds` rounds, up to the size `most`.
    /// Ends early if the projected cost of the next size is too high.
    pub fn climb(
        &self,
        rounds: usize,
        most: Option<usize>,
        mut report: impl FnMut(&Row) -> Result,
    ) -> Result {
        let sizes = self.sizes.iter().copied();
        let mut share_before = None;
        for size in sizes.take_while(|&size| most.is_none_or(|most| size <= most)) {
            let mut samples = vec![self.sample(size)?];
            let spent = |samples: &[Sample]| samples.iter().map(|one| one.took).sum::<f64>();
            while samples.len() < rounds && spent(&samples) < ROUNDS {
                samples.push(self.sample(size)?);
            }
            let took = samples.iter().map(|one| one.took).fold(f64::MAX, f64::min);
            samples.sort_by(|one, other| one.value.total_cmp(&other.value));
            let median = samples.swap_remove(samples.len() / 2);
            let bytes = match self.unit {
                Unit::Nanoseconds => 0.0,
                Unit::Bytes => median.value,
            };
            report(&self.row(size, median))?;
            let share = f64::max(took / TIME, bytes / BYTES);
            let growth = share_before.map_or(1.0, |before| f64::min(share / before, SQUARE));
            if share * growth > 1.0 {
                break;
            }
            share_before = Some(share);
        }
        Ok(())
    }

    fn sample(&self, size: usize) -> Result<Sample> {
        let start = Instant::now();
        let mut sample = (self.measure)(size)?;
        sample.took = start.elapsed().as_secs_f64();
        Ok(sample)
    }

    fn row(&self, size: usize, sample: Sample) -> Row {
        Row {
            suite: SUITE.into(),
            case: self.name.into(),
            title: self.title.into(),
            input: self.input.into(),
            size,
            value: sample.value,
            unit: self.unit,
            refused: sample.refused,
        }
    }
}

impl Sample {
    pub const fn new(value: f64) -> Self {
        Self {
            value,
            refused: None,
            took: 0.0,
        }
    }
}

impl Row {
    pub fn line(&self) -> String {
        let Self { size, input, .. } = self;
        let value = self.unit.show(self.value);
        let refused = self.refused.as_deref();
        let refused = refused.map_or(String::new(), |reason| format!("  refused: {reason}"));
        format!("  {size:>7} {input:<12} {value:>10}{refused}")
    }
}

impl Unit {
    /// A value with three digits.
    pub fn show(self, value: f64) -> String {
        let (scaled, name) = self.scale(value);
        let digits = match scaled {
            100.0.. => 0,
            10.0.. => 1,
            _ => 2,
        };
        format!("{scaled:.digits$} {name}")
    }

    /// The value in the largest unit in which it is at least one, and that unit.
    fn scale(self, value: f64) -> (f64, &'static str) {
        let scales = match self {
            Self::Nanoseconds => [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
            Self::Bytes => [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
        };
        let fits = |(scale, _): &(f64, _)| value >= *scale;
        let (scale, name) = scales.into_iter().find(fits).unwrap_or(scales[3]);
        (value / scale, name)
    }
}
