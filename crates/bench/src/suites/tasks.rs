//! Tasks of an async runtime that use one document.
//!
//! The suite measures a free lock, the throughput of many tasks with short batches, and what a
//! blocking call costs the other tasks of the runtime.

mod batches;
mod blocking;
mod clients;
mod free;

use crate::Result;
use crate::report::Report;
use crate::suites::contended::ROUNDS;

const SUITE: &str = "tasks";

/// The number of tasks that edit one document.
const TASKS: usize = 8;

/// The duration of a transaction without a lock, in microseconds.
const MICROS: f64 = 0.5;

pub fn run(rounds: Option<usize>, report: &Report) -> Result {
    let rounds = rounds.unwrap_or(ROUNDS);
    free::run(rounds, report)?;
    blocking::run(rounds, report)?;
    batches::run(rounds, report)
}
