//! The cost of a hold limit with many waiters: grants per second without it and with it, in one
//! run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use doclock::{DataStore, StoreOptions, lock::AcquireOptions};

use crate::Result;
use crate::measure::{Spread, take_turns};
use crate::report::Report;
use crate::suites::contended::usage::usage;

const WAITERS: [usize; 2] = [3_000, 10_000];

const LIMIT: Duration = Duration::from_millis(5);

/// The duration of each hold, far below the limit.
const HOLD: Duration = Duration::from_micros(300);

const STACK: usize = 64 * 1024;

/// The warm-up, and the measured time.
const PHASES: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(2)];

const ABOUT: &str = "\
Limited: so many threads ask again and again for a lock, and hold it for 300 µs, without a limit on holding and with one of
5 ms. Medians of the rounds; revocations are those of all rounds, and each is one of a holder that the system interrupted.";

/// The results of one round.
struct Found {
    turns: f64,
    processors: f64,
    revocations: u64,
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    for waiters in WAITERS {
        let mut limits = [None, Some(LIMIT)];
        let found = take_turns(rounds, &mut limits, |_, limit| {
            turns(waiters, *limit).map(Some)
        })?;
        let mut medians = Vec::new();
        for (limit, found) in limits.iter().zip(&found) {
            let median =
                |metrics: Vec<f64>| Spread::of(metrics).map_or(0.0, |spread| spread.median);
            let turns = median(found.iter().map(|one| one.turns).collect());
            let processors = median(found.iter().map(|one| one.processors).collect());
            let revocations: u64 = found.iter().map(|one| one.revocations).sum();
            let name = if limit.is_some() { "5 ms" } else { "none" };
            report.text(&format!(
                "{waiters} threads, limit {name}: {turns:.0} turns/s, {processors:.2} processors, {revocations} revocations"
            ))?;
            medians.push(turns);
        }
        if let [without, with] = medians[..] {
            report.remark(&format!(
                "{waiters} threads: with a limit at {:.3} times the rate",
                with / without
            ))?;
        }
    }
    Ok(())
}

fn turns(waiters: usize, limit: Option<Duration>) -> Result<Found> {
    let options = StoreOptions::new().lock_timeout(None);
    let options = match limit {
        None => options,
        Some(limit) => options.hold_limit(limit),
    };
    let store = DataStore::with_options(options);
    let first = store
        .request("first")
        .options(AcquireOptions::new().unbound())
        .wait()?;
    let (stop, turns) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for _ in 0..waiters {
        let (store, stop, turns) = (store.clone(), Arc::clone(&stop), Arc::clone(&turns));
        let work = move || {
            while !stop.load(Ordering::Relaxed)
                && let Ok(guard) = store.lock("waiter")
            {
                let began = Instant::now();
                while began.elapsed() < HOLD && !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                turns.fetch_add(1, Ordering::Relaxed);
                drop(guard);
            }
        };
        let Ok(thread) = thread::Builder::new().stack_size(STACK).spawn(work) else {
            break;
        };
        threads.push(thread);
    }
    drop(first);
    thread::sleep(PHASES[0]);
    let (usage_before, turns_before) = (usage(), turns.load(Ordering::Relaxed));
    let revoked_before = store.lock_stats().total_revocations;
    let began = Instant::now();
    thread::sleep(PHASES[1]);
    let seconds = began.elapsed().as_secs_f64();
    let used = usage().zip(usage_before);
    let found = Found {
        turns: (turns.load(Ordering::Relaxed) - turns_before) as f64 / seconds,
        processors: used.map_or(0.0, |(now, before)| {
            now.since(before).processor.as_secs_f64() / seconds
        }),
        revocations: store.lock_stats().total_revocations - revoked_before,
    };
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a waiting thread panicked")?;
    }
    Ok(found)
}
