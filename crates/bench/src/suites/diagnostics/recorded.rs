//! The cost of the timeline and of reports: for a free lock, for a transaction, and for threads
//! that wait for each other.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use doclock::dsl::{create, delete_text_range, insert_text, text_node};
use doclock::{DataStore, NodeId, OwnerId, StoreOptions, TransactionManager};

use super::SUITE;
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

/// As in the suite `lock`.
const PAIRS: u32 = 1_000_000;

/// Transactions per subject and round.
const TRANSACTIONS: usize = 200_000;

/// The threads that wait for each other, and the transactions of each in a round.
const THREADS: usize = 8;
const SHARED: usize = 10_000;

/// No hold and no wait of a benchmark takes so long.
const LONG: Duration = Duration::from_secs(10);

const ABOUT: &str = "\
What is recorded, and what it costs.
  off        no timeline, no reports: the store of all other suites
  timeline   the last 100,000 requests are recorded; a pair is two events, the grant and the release
  reports    holds and waits of more than 10 s are reported; there are none
  both       both
Free lock: a guard, acquired and released. One operation: insert a character into a text, or delete
it again. 8 threads: the same from 8 threads at a time.";

/// Sets what a store records.
type Recorded = fn(StoreOptions) -> StoreOptions;

const SUBJECTS: [(&str, Recorded); 4] = [
    ("off", |options| options),
    ("timeline", |options| options.timeline(100_000)),
    ("reports", |options| {
        options.report_holds(LONG).report_waits(LONG)
    }),
    ("both", |options| {
        options
            .timeline(100_000)
            .report_holds(LONG)
            .report_waits(LONG)
    }),
];

struct Subject {
    store: DataStore,
    text: NodeId,
}

impl Subject {
    fn new(recorded: Recorded) -> Result<Self> {
        let store = DataStore::with_options(recorded(StoreOptions::new()));
        let created =
            TransactionManager::new(store.clone()).execute(create(text_node("p", "text")))?;
        let text = created.operations[0].created[0].clone();
        Ok(Self { store, text })
    }

    fn lock(&self) -> Result {
        let owner = OwnerId::from("benchmark");
        for _ in 0..PAIRS {
            drop(self.store.lock(&owner)?);
        }
        Ok(())
    }

    fn edit(&self, transactions: usize) -> Result {
        let manager = TransactionManager::for_owner(self.store.clone(), "benchmark");
        for _ in 0..transactions / 2 {
            manager.execute(insert_text(0, "x").on(&self.text))?;
            manager.execute(delete_text_range(0, 1).on(&self.text))?;
        }
        Ok(())
    }

    /// Edits from many threads. Returns how long all of them took.
    fn edit_together(&self) -> Result<Duration> {
        let start = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        self.edit(SHARED).map_err(|error| error.to_string())
                    })
                })
                .collect();
            start.wait();
            let began = Instant::now();
            for thread in threads {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            Ok(began.elapsed())
        })
    }
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    let mut subjects = SUBJECTS
        .iter()
        .map(|(_, recorded)| Subject::new(*recorded))
        .collect::<Result<Vec<_>>>()?;
    let names = || SUBJECTS.iter().map(|(name, _)| *name);
    let nanos = |time: Duration, count: usize| Some(time.as_secs_f64() * 1e9 / count as f64);

    let free = interleaved(rounds, &mut subjects, |_, subject| {
        Ok(nanos(timed(|| subject.lock())?, PAIRS as usize))
    })?;
    report.case(SUITE, "free lock", Unit::NsPerPair, names().zip(free))?;
    let alone = interleaved(rounds, &mut subjects, |_, subject| {
        Ok(nanos(timed(|| subject.edit(TRANSACTIONS))?, TRANSACTIONS))
    })?;
    let unit = Unit::NsPerTransaction;
    report.case(SUITE, "one operation", unit, names().zip(alone))?;
    let together = interleaved(rounds, &mut subjects, |_, subject| {
        Ok(nanos(subject.edit_together()?, THREADS * SHARED))
    })?;
    report.case(SUITE, "8 threads", unit, names().zip(together))
}
