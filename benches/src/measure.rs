//! Fair timing on a machine that is not quiet.
//!
//! Measuring one subject after the other would charge a slow period of the machine to one subject.
//! So the subjects alternate, one short batch each per round, and each round begins with another
//! subject. The median over the rounds is the result, and the extremes show its precision.

use std::time::{Duration, Instant};

use crate::Result;

/// What one subject needed (or achieved) over its rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub rounds: usize,
}

impl Spread {
    /// Of at least one figure.
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        let rounds = figures.len();
        let median = (figures[(rounds - 1) / 2] + figures[rounds / 2]) / 2.0;
        Some(Self {
            median,
            min,
            max,
            rounds,
        })
    }
}

/// Lets the subjects take turns for `rounds` rounds. `turn` is given the round (from 0) and
/// returns its figure, or `None` where a subject sits that turn out; a subject that never takes
/// part has no spread.
pub fn interleaved<S>(
    rounds: usize,
    subjects: &mut [S],
    turn: impl FnMut(usize, &mut S) -> Result<Option<f64>>,
) -> Result<Vec<Option<Spread>>> {
    let figures = take_turns(rounds, subjects, turn)?;
    Ok(figures.into_iter().map(Spread::of).collect())
}

/// As [`interleaved`], for turns that find more than one figure: all that each subject found.
pub fn take_turns<S, T>(
    rounds: usize,
    subjects: &mut [S],
    mut turn: impl FnMut(usize, &mut S) -> Result<Option<T>>,
) -> Result<Vec<Vec<T>>> {
    let count = subjects.len();
    let mut found: Vec<Vec<T>> = subjects
        .iter()
        .map(|_| Vec::with_capacity(rounds))
        .collect();
    for round in 0..rounds {
        for index in (0..count).map(|offset| (round + offset) % count) {
            found[index].extend(turn(round, &mut subjects[index])?);
        }
    }
    Ok(found)
}

/// How long `work` takes.
pub fn timed(work: impl FnOnce() -> Result) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}
