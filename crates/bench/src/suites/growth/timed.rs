//! Costs in time.

use std::fmt::Display;
use std::time::Instant;

use super::ladder::Sample;
use crate::Result;

impl Sample {
    /// The time of work that may fail. Its result is dropped afterwards.
    pub fn timed<T, E: Display>(work: impl FnOnce() -> std::result::Result<T, E>) -> Self {
        let start = Instant::now();
        let done = work();
        let time = start.elapsed();
        Self {
            refused: done.err().map(|error| error.to_string()),
            ..Self::new(time.as_nanos() as f64)
        }
    }

    /// The sample at this quantile.
    pub fn quantile(mut values: Vec<f64>, share: f64) -> Result<Self> {
        values.sort_by(f64::total_cmp);
        let at = (values.len() as f64 * share) as usize;
        Ok(Self::new(*values.get(at).ok_or("no samples")?))
    }
}
