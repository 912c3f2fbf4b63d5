//! The throughput of tasks with short batches on one document.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::clients::{
    self, Caller, Client, ExecuteAsync, LockedDocument, LockedStore, SpawnBlocking,
};
use super::{MICROS, TASKS};
use crate::Result;
use crate::measure::take_turns;
use crate::report::Report;
use crate::suites::contended::table::{self, Case};
use crate::suites::contended::trial::{self, Trial};
use crate::suites::contended::work::Length;
use crate::suites::contended::{self, MILLIS, bare, doclock};

/// Its rows have the columns of the suite `contended`.
const SUITE: &str = "task-batches";

const ABOUT: &str = "\
Tasks of tokio's multi-thread runtime, with a worker for each processor, edit one document as the
threads of the suite contended do, with its work and its columns. The rows with threads are those of
that suite. Between its calls, a task yields only when it has used up tokio's budget.
";

struct Subject {
    name: &'static str,
    note: &'static str,
    run: fn(Length, Duration) -> Result<Trial>,
}

/// The document without a lock comes first: it is the reference.
const SUBJECTS: [Subject; 6] = [
    Subject {
        name: bare::NAME,
        note: "doclock's operations on a document of the thread's own: 100 %",
        run: |length, span| threads(&mut bare::Unlocked, length, span),
    },
    tasks::<Caller<ExecuteAsync>>(),
    Subject {
        name: "doclock (8 threads)",
        note: "first in, first out; execute, and each waiting thread blocks",
        run: |length, span| threads(&mut doclock::Execute, length, span),
    },
    tasks::<Caller<SpawnBlocking>>(),
    tasks::<LockedStore>(),
    tasks::<LockedDocument>(),
];

const fn tasks<C: Client>() -> Subject {
    Subject {
        name: C::NAME,
        note: C::NOTE,
        run: |length, span| clients::run(&Runtime::new()?, C::open(TASKS)?, length, span),
    }
}

fn threads(subject: &mut dyn contended::Subject, length: Length, span: Duration) -> Result<Trial> {
    trial::run(subject, TASKS, length, span)
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let span = Duration::from_millis(MILLIS);
    let notes: Vec<_> = SUBJECTS.iter().map(|one| (one.name, one.note)).collect();
    table::heading(report, SUITE, ABOUT, span, rounds, &notes)?;
    let length = Length::calibrated(MICROS)?;
    let mut subjects = SUBJECTS;
    let trials = take_turns(rounds, &mut subjects, |_, subject| {
        (subject.run)(length, span).map(Some)
    })?;
    let names = SUBJECTS.iter().map(|subject| subject.name);
    table::print(
        report,
        &Case::new(SUITE, length, TASKS, names.zip(trials).collect()),
    )
}
