//! What a picture of a store costs, and how long it delays the transactions of other threads.

mod recorded;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use doclock::dsl::{create, element, insert_text, text_node};
use doclock::lock::AcquireOptions;
use doclock::{DataStore, TransactionManager};

use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

const SUITE: &str = "diagnostics";

const WAITERS: [(usize, &str); 3] = [
    (0, "doclock (no waiters)"),
    (100, "doclock (100 waiters)"),
    (MOST, "doclock (10,000 waiters)"),
];

/// They are tasks, so that no machine needs as many threads.
const MOST: usize = 10_000;

/// The transactions of one turn, of which the slowest counts.
const TRANSACTIONS: usize = 20_000;

const ABOUT: &str = "\
`picture`: `DataStore::diagnostics()` of a held lock, with so many tasks that wait for it.
`slowest`, `one in 1,000`: one thread commits 20,000 edits, alone and while another thread takes
pictures without a pause. The longest time of a transaction, and the time that one transaction in a
thousand exceeds. The delay is the difference. Time slices of the operating system are in both, in
the first above all.";

/// A store whose lock is held, and the tasks that wait for it.
struct Held {
    store: DataStore,
    runtime: tokio::runtime::Runtime,
}

impl Held {
    fn with(waiters: usize) -> Result<Self> {
        let store = DataStore::new();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()?;
        store.request("benchmark").label("import").wait()?.into_id();
        for nth in 0..waiters {
            let options = AcquireOptions::new().no_timeout().label("keystroke");
            let guard = store
                .request(format!("window {nth}"))
                .options(options)
                .into_future();
            runtime.spawn(async move { guard.await.map(drop) });
        }
        while store.queue_length() < waiters {
            thread::yield_now();
        }
        Ok(Self { store, runtime })
    }

    fn picture(&self, waiters: usize) -> Result<f64> {
        let mut listed = 0;
        let time = timed(|| {
            listed = self.store.diagnostics().lock.waiters.len();
            Ok(())
        })?;
        match listed == waiters {
            true => Ok(time.as_secs_f64() * 1e9),
            false => Err(format!("{listed} of {waiters} waiters").into()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // All waiters get the lock in turn, so that the runtime ends.
        if let Some(holder) = self.store.current_lock() {
            let _ = self.store.release_lock(holder.lock_id);
        }
        while self.runtime.metrics().num_alive_tasks() > 0 {
            thread::yield_now();
        }
    }
}

/// The longest time of a transaction and the time that one in a thousand exceeds, in nanoseconds.
fn slowest(pictures: bool) -> Result<[f64; 2]> {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let text = text_node("text", "The quick brown fox").with_id("text");
    manager.execute([create(element("page", [text]))])?;
    let ends = AtomicBool::new(false);
    let mut times = Vec::with_capacity(TRANSACTIONS);
    thread::scope(|threads| {
        if pictures {
            threads.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    drop(store.diagnostics());
                }
            });
        }
        let edited = (0..TRANSACTIONS).try_for_each(|_| {
            let begin = Instant::now();
            manager.execute([insert_text(0, "x").on("text")])?;
            times.push(begin.elapsed());
            Ok::<_, Box<dyn std::error::Error>>(())
        });
        ends.store(true, Ordering::Relaxed);
        edited
    })?;
    times.sort_unstable();
    let nanos = |at: usize| times[at].as_secs_f64() * 1e9;
    Ok([
        nanos(TRANSACTIONS - 1),
        nanos(TRANSACTIONS - TRANSACTIONS / 1000),
    ])
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.heading(SUITE, ABOUT, &[])?;
    let mut subjects = Vec::new();
    for (waiters, _) in WAITERS {
        subjects.push((waiters, Held::with(waiters)?));
    }
    let spreads = interleaved(rounds, &mut subjects, |_, (waiters, held)| {
        held.picture(*waiters).map(Some)
    })?;
    drop(subjects);
    let names = WAITERS.map(|(_, name)| name).into_iter();
    report.case(SUITE, "picture", Unit::NsPerCall, names.zip(spreads))?;

    for (case, nth) in [("slowest", 0), ("one in 1,000", 1)] {
        let mut subjects = [false, true];
        let spreads = interleaved(rounds, &mut subjects, |_, pictures| {
            slowest(*pictures).map(|times| Some(times[nth]))
        })?;
        let names = ["doclock (no pictures)", "doclock (pictures in a loop)"];
        let names = names.into_iter().zip(spreads);
        report.case(SUITE, case, Unit::NsPerTransaction, names)?;
    }
    recorded::run(rounds, report)
}
