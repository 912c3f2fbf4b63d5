//! Figures without a peer, some with a goal.

use std::time::Duration;

use serde::Serialize;

use super::SUITE;
use crate::Result;
use crate::report::{Report, rounded};

/// Prints figures.
pub struct Figures<'a>(pub &'a Report);

#[derive(Serialize)]
struct Row<'a> {
    suite: &'a str,
    case: &'a str,
    figure: &'a str,
    value: f64,
    unit: &'a str,
    goal: Option<Goal>,
}

/// What a figure has to be.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn shown(self, value: f64) -> String {
        let (words, goal, is_reached) = match self {
            Self::AtLeast(goal) => ("at least", goal, value >= goal),
            Self::AtMost(goal) => ("at most", goal, value <= goal),
        };
        let reached = if is_reached { "yes" } else { "no" };
        format!("goal: {words} {goal}: {reached}")
    }
}

impl Figures<'_> {
    pub fn print(
        &self,
        case: &str,
        figure: &str,
        (value, unit): (f64, &str),
        goal: impl Into<Option<Goal>>,
    ) -> Result {
        let goal = goal.into();
        let row = Row {
            suite: SUITE,
            case,
            figure,
            value: rounded(value, 4),
            unit,
            goal,
        };
        let goal = goal.map_or(String::new(), |goal| goal.shown(value));
        let line = format!("{case:28} {figure:26} {value:>10.2} {unit:20} {goal}");
        self.0.row(&row, line.trim_end())
    }

    /// Prints the times that half of the values and one in a hundred exceed, in milliseconds.
    pub fn times(&self, case: &str, times: &[Duration]) -> Result<[f64; 2]> {
        let times = [millis(at(times, 0.5)?), millis(at(times, 0.99)?)];
        for (figure, time) in ["p50", "p99"].into_iter().zip(times) {
            self.print(case, figure, (time, "ms"), None)?;
        }
        Ok(times)
    }
}

/// The time that so large a part does not exceed.
pub fn at(times: &[Duration], part: f64) -> Result<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1).ok_or("no times")?;
    Ok(sorted[(last as f64 * part).ceil() as usize])
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
