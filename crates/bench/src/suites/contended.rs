//! The throughput of many threads that edit one document, by the lock that they use.
//!
//! A fair lock is known to be slow under contention: every transaction waits for a sleeping thread
//! to wake. For short and for long transactions, this suite shows how much of one thread's rate
//! remains, how the threads share it and how long each waits.

mod actor;
pub mod bare;
pub mod doclock;
mod locked;
mod parking_lot;
mod standard;
pub mod table;
mod tokio;
pub mod trial;
pub mod usage;
pub mod work;

use std::sync::Arc;
use std::time::Duration;

use ::doclock::transaction::{Operation, TransactionError};
use ::doclock::{NodeId, Snapshot};

use crate::Result;
use crate::measure::take_turns;
use crate::options::Contended;
use crate::report::Report;
use table::Case;
use work::Length;

const SUITE: &str = "contended";

/// The durations of a transaction without a lock, in microseconds.
const LENGTHS: [f64; 3] = [0.5, 5.0, 50.0];

const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

pub const ROUNDS: usize = 5;

/// The measured time of one run: some twenty time slices for each of eight threads on two
/// processors. In fewer, the scheduler determines the shares.
pub const MILLIS: u64 = 500;

/// A way for several threads to edit one document.
pub trait Subject {
    fn name(&self) -> &'static str;

    /// How the order is determined, and which thread runs the operations.
    fn note(&self) -> &'static str;

    /// Opens a document with the texts, and a client for each thread.
    fn open(&self, threads: usize) -> Result<Opened>;
}

pub struct Opened {
    pub texts: Arc<[NodeId]>,
    pub clients: Vec<Box<dyn Client>>,
}

/// The client of one thread.
pub trait Client: Send {
    /// Runs an operation batch as one transaction, and returns after it.
    fn execute(&mut self, operations: Vec<Operation>) -> std::result::Result<(), TransactionError>;

    /// The current document.
    fn document(&mut self) -> Result<Snapshot>;
}

/// The document without a lock comes first: it is the reference.
fn subjects() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(bare::Unlocked),
        Box::new(doclock::Execute),
        Box::new(doclock::Begin),
        Box::new(parking_lot::PLAIN),
        Box::new(parking_lot::FAIR),
        Box::new(standard::STD),
        Box::new(tokio::TOKIO),
        Box::new(actor::Actor),
    ]
}

pub fn run(rounds: Option<usize>, options: &Contended, report: &Report) -> Result {
    let rounds = rounds.unwrap_or(ROUNDS);
    let threads = options.threads.as_deref().unwrap_or(&THREADS);
    let span = Duration::from_millis(options.millis.unwrap_or(MILLIS));
    let mut subjects = subjects();
    let notes: Vec<_> = subjects.iter().map(|s| (s.name(), s.note())).collect();
    table::heading(report, SUITE, table::ABOUT, span, rounds, &notes)?;
    for &micros in options.lengths.as_deref().unwrap_or(&LENGTHS) {
        let length = Length::calibrated(micros)?;
        for &threads in threads {
            let trials = take_turns(rounds, &mut subjects, |_, subject| {
                trial::run(&mut **subject, threads, length, span).map(Some)
            })?;
            let names = subjects.iter().map(|subject| subject.name());
            let case = Case::new(SUITE, length, threads, names.zip(trials).collect());
            table::print(report, &case)?;
        }
    }
    Ok(())
}
