//! The cost of the other lock types, beside crates with the same function.
//!
//! Each lock type has a folder with its subjects, and a section here.

mod inbox;
mod keyed;
mod limiter;

use crate::Result;
use crate::report::Report;

const SUITE: &str = "primitives";

pub fn run(rounds: usize, report: &Report) -> Result {
    keyed::run(rounds, report)?;
    limiter::run(rounds, report)?;
    inbox::run(rounds, report)
}
