//! The cost of acquiring and releasing an uncontended lock.
//!
//! A store that locks the document for every edit pays this each time. Contention is rare, and then
//! the wait itself dominates.
//!
//! The suite also measures the lock's share of a whole edit, and the cost of a long queue.

pub mod crowd;
mod doclock;
mod limited;
mod lockable;
mod operation;
mod parking_lot;
mod standard;
mod tokio;

use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

const SUITE: &str = "lock";

/// Long enough for the clock's cost to be negligible, short enough to alternate often.
const PAIRS: u32 = 1_000_000;

const ABOUT: &str = "Acquire and release a free lock from one thread, in batches of 1,000,000, \
incrementing a counter under it.";

/// A lock.
trait Subject {
    fn name(&self) -> &'static str;

    /// The order in which it is granted: the guarantees for its cost.
    fn note(&self) -> &'static str;

    /// Acquires and releases so many times, incrementing a counter in between.
    fn run(&mut self, pairs: u32) -> Result;
}

/// doclock's forms come first; ratios compare the first of them.
fn subjects() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(doclock::Guard::default()),
        Box::new(doclock::Id::default()),
        Box::new(standard::Std::default()),
        Box::new(parking_lot::Plain::default()),
        Box::new(parking_lot::Fair::default()),
        Box::new(parking_lot::Owned::default()),
        Box::new(tokio::Tokio::default()),
        Box::new(lockable::Pool::default()),
    ]
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects = subjects();
    let notes: Vec<_> = subjects.iter().map(|s| (s.name(), s.note())).collect();
    report.heading(SUITE, ABOUT, &notes)?;
    let spreads = interleaved(rounds, &mut subjects, |_, subject| {
        let time = timed(|| subject.run(PAIRS))?;
        Ok(Some(time.as_secs_f64() * 1e9 / f64::from(PAIRS)))
    })?;
    let names = subjects.iter().map(|subject| subject.name());
    report.case(SUITE, "uncontended", Unit::NsPerPair, names.zip(spreads))?;
    operation::run(rounds, report)?;
    crowd::run(rounds, report)?;
    limited::run(rounds, report)
}
