//! The cost of acquiring and releasing a free lock in a task.

use std::sync::Arc;

use doclock::lock::LockError;
use doclock::{DataStore, OwnerId};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::SUITE;
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

/// As in the suite `lock`.
const PAIRS: u32 = 1_000_000;

const ABOUT: &str = "\
A free lock: acquire and release it in one task of tokio's current-thread runtime, in batches of
1,000,000, incrementing a counter under it.";

struct Subject {
    name: &'static str,
    note: &'static str,
    /// Starts a task that acquires and releases so many times, and returns the counter.
    start: fn(&Runtime, u32) -> JoinHandle<std::result::Result<u32, LockError>>,
}

const SUBJECTS: [Subject; 4] = [
    Subject {
        name: "doclock (request, await)",
        note: "first in, first out; a named owner, a timeout and statistics with every grant",
        start: |runtime, pairs| {
            let (store, owner) = document();
            runtime.spawn(async move {
                let mut count = 0;
                for _ in 0..pairs {
                    let _guard = store.request(&owner).await?;
                    count += 1;
                }
                Ok(count)
            })
        },
    },
    Subject {
        name: "doclock (lock)",
        note: "the same lock; a request that waits blocks the thread of the runtime",
        start: |runtime, pairs| {
            let (store, owner) = document();
            runtime.spawn(async move {
                let mut count = 0;
                for _ in 0..pairs {
                    let _guard = store.lock(&owner)?;
                    count += 1;
                }
                Ok(count)
            })
        },
    },
    Subject {
        name: "tokio Mutex",
        note: "first in, first out; a guard that borrows; yields to other tasks now and then",
        start: |runtime, pairs| {
            let mutex = tokio::sync::Mutex::new(0);
            runtime.spawn(async move {
                for _ in 0..pairs {
                    *mutex.lock().await += 1;
                }
                Ok(mutex.into_inner())
            })
        },
    },
    Subject {
        name: "async-lock Mutex",
        note: "eventually fair: a task that waits for 0.5 ms blocks new ones; a guard that borrows",
        start: |runtime, pairs| {
            let mutex = Arc::new(async_lock::Mutex::new(0));
            runtime.spawn(async move {
                for _ in 0..pairs {
                    *mutex.lock().await += 1;
                }
                let count = *mutex.lock().await;
                Ok(count)
            })
        },
    },
];

fn document() -> (DataStore, OwnerId) {
    (DataStore::new(), OwnerId::from("benchmark"))
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let notes: Vec<_> = SUBJECTS.iter().map(|one| (one.name, one.note)).collect();
    report.heading(SUITE, ABOUT, &notes)?;
    let runtime = Builder::new_current_thread().build()?;
    let mut subjects = SUBJECTS;
    let spreads = interleaved(rounds, &mut subjects, |_, subject| {
        let time = timed(|| {
            let count = runtime.block_on((subject.start)(&runtime, PAIRS))??;
            match count == PAIRS {
                true => Ok(()),
                false => Err(format!("{}: {count} pairs", subject.name).into()),
            }
        })?;
        Ok(Some(time.as_secs_f64() * 1e9 / f64::from(PAIRS)))
    })?;
    let names = SUBJECTS.iter().map(|subject| subject.name);
    report.case(SUITE, "free lock", Unit::NsPerPair, names.zip(spreads))
}
