//! Fair timing on a noisy machine.
//!
//! Measuring one subject after the other would charge a slow period of the machine to one subject.
//! So the subjects alternate, one short batch each per round, and each round begins with another
//! subject. The median over the rounds is the result, and the extremes show its precision.

use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// The results of one subject over its rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub rounds: usize,
}

impl Spread {
    /// The spread of at least one value.
    pub fn of(mut metrics: Vec<f64>) -> Option<Self> {
        metrics.sort_by(f64::total_cmp);
        let (min, max) = (*metrics.first()?, *metrics.last()?);
        let rounds = metrics.len();
        let median = (metrics[(rounds - 1) / 2] + metrics[rounds / 2]) / 2.0;
        Some(Self {
            median,
            min,
            max,
            rounds,
        })
    }
}

/// Alternates between the subjects for `rounds` rounds. `turn` gets the round (from 0) and returns
/// its value, or `None` if the subject skips that round. A subject that skips all rounds has no
/// spread.
pub fn interleaved<S>(
    rounds: usize,
    subjects: &mut [S],
    turn: impl FnMut(usize, &mut S) -> Result<Option<f64>>,
) -> Result<Vec<Option<Spread>>> {
    let metrics = take_turns(rounds, subjects, turn)?;
    Ok(metrics.into_iter().map(Spread::of).collect())
}

/// Like [`interleaved`], for turns with more than one value: returns all results of each subject.
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

/// Commits once.
pub type Commit = Box<dyn FnMut() -> Result + Send>;

/// Calls each in a thread of its own.
pub fn repeat(all: Vec<Commit>, commits: usize) -> Result {
    thread::scope(|scope| {
        let threads = all.into_iter().map(|mut commit| {
            scope.spawn(move || {
                let mut calls = (0..commits).map(|_| commit());
                calls
                    .try_for_each(|done| done)
                    .map_err(|error| error.to_string())
            })
        });
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}
