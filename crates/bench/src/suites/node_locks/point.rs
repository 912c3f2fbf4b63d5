//! Many threads, few keys, several of them for each transaction.
//!
//! The workload of RocksDB's `point_lock_bench` with its default options: `-thread_count=64
//! -key_count=16 -max_num_keys_to_lock_per_txn=8 -lock_timeout_ms=1000 -lock_type=0` (exclusive)
//! `-max_sleep_after_lock_acquisition_ms=0`. That tool always locks the most keys; here that is one
//! case, and any number up to it the other. Its locks expire (`-lock_expiration_ms=100`), these do
//! not, so the data behind each key can be checked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use doclock::{
    DataStore, NodeId, OwnerId,
    codes::{CodedError, Retry},
    lock::{LockError, LockMode, node::Scope},
    transaction::retry,
};
use lockable::LockPool;
use serde::Serialize;

use super::{Ids, SUITE, document};
use crate::Result;
use crate::measure::{Spread, take_turns};
use crate::random::SplitMix;
use crate::report::{Report, rounded};

const THREADS: usize = 64;
const KEYS: usize = 16;
const MOST: usize = 8;
const WAIT_LIMIT: Duration = Duration::from_secs(1);

/// The duration of one run.
const SPAN: Duration = Duration::from_millis(500);

const ABOUT: &str = "\
3. Many for few (RocksDB's point_lock_bench: thread_count 64, key_count 16, max_num_keys_to_lock_per_txn 8,
   lock_timeout_ms 1000, lock_type 0): lock so many different keys of 16 exclusively, count up under each, release.
   sets          all keys in one step
   one by one    in random order; refused: released, and the same tried again (doclock::retry)
   sorted        one by one, the smallest first, so no request can deadlock
   whole         the global lock instead of keys
   The counts are sums of all rounds. A timeout (1 s) would be an undetected cycle, or starvation.
   Longest and median: from asking for the first key to release, with all that was tried again.";

/// Locks on keys.
trait Subject: Sync {
    fn name(&self) -> &'static str;

    /// Locks, works and releases.
    fn transact(&self, owner: &OwnerId, keys: &[usize], work: &mut dyn FnMut()) -> Result<Answer>;

    /// Whether the keys have to be requested in order.
    fn ordered(&self) -> bool {
        true
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Done,
    Refused,
    TimedOut,
}

/// The results of a run.
#[derive(Default)]
struct Tally {
    done: u64,
    keys: u64,
    refused: u64,
    timeouts: u64,
    /// How long each transaction took, in nanoseconds.
    times: Vec<u32>,
}

struct Trial {
    tally: Tally,
    time: Duration,
}

#[derive(Serialize)]
struct Row {
    suite: &'static str,
    case: &'static str,
    subject: &'static str,
    value: f64,
    unit: &'static str,
    locks_per_second: f64,
    deadlocks: u64,
    timeouts: u64,
    median_us: f64,
    longest_ms: f64,
}

const CASES: [(&str, usize); 2] = [("8 keys", MOST), ("1 to 8 keys", 1)];

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    for (case, least) in CASES {
        report.text(&format!(
            "\n{:12} {:24} {:>9} {:>17} {:>9} {:>9} {:>8} {:>10} {:>10}",
            case,
            "subject",
            "txn/s",
            "min..max",
            "locks/s",
            "deadlocks",
            "timeouts",
            "median us",
            "longest ms"
        ))?;
        let mut subjects = subjects()?;
        let found = take_turns(rounds, &mut subjects, |round, subject| {
            trial(&**subject, least, round as u64).map(Some)
        })?;
        for (subject, trials) in subjects.iter().zip(&found) {
            row(case, subject.name(), trials, report)?;
        }
    }
    report.text("")
}

fn row(case: &'static str, subject: &'static str, trials: &[Trial], report: &Report) -> Result {
    let per_second = |count: fn(&Tally) -> u64| {
        let rates = trials
            .iter()
            .map(|trial| count(&trial.tally) as f64 / trial.time.as_secs_f64());
        Spread::of(rates.collect()).unwrap_or_default()
    };
    let rate = per_second(|tally| tally.done);
    let sum = |count: fn(&Tally) -> u64| trials.iter().map(|trial| count(&trial.tally)).sum();
    let times = trials.iter().flat_map(|trial| &trial.tally.times);
    let mut times: Vec<_> = times.map(|&nanos| f64::from(nanos)).collect();
    times.sort_unstable_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let longest = times.last().copied().unwrap_or_default();
    let row = Row {
        suite: SUITE,
        case,
        subject,
        value: rounded(rate.median, 1),
        unit: "txn/s",
        locks_per_second: rounded(per_second(|tally| tally.keys).median, 1),
        deadlocks: sum(|tally| tally.refused),
        timeouts: sum(|tally| tally.timeouts),
        median_us: rounded(median / 1e3, 1),
        longest_ms: rounded(longest / 1e6, 1),
    };
    let line = format!(
        "{:12} {subject:24} {:>7.1} k {:>17} {:>7.0} k {:>9} {:>8} {:>10.1} {:>10.1}",
        "",
        row.value / 1e3,
        format!("{:.1}..{:.1} k", rate.min / 1e3, rate.max / 1e3),
        row.locks_per_second / 1e3,
        row.deadlocks,
        row.timeouts,
        row.median_us,
        row.longest_ms,
    );
    report.row(&row, &line)
}

fn subjects() -> Result<Vec<Box<dyn Subject>>> {
    let nodes = |name, way| -> Result<Box<dyn Subject>> {
        let (store, keys) = document(4, KEYS / 4, Ids::Generated)?;
        store.set_lock_timeout(WAIT_LIMIT);
        let nodes = Nodes {
            name,
            store,
            keys,
            way,
        };
        Ok(Box::new(nodes))
    };
    Ok(vec![
        nodes("doclock (sets)", Way::Sets)?,
        nodes("doclock (one by one)", Way::OneByOne)?,
        nodes("doclock (sorted)", Way::Sorted)?,
        nodes("doclock (whole)", Way::Whole)?,
        Box::new(Pool(LockPool::new())),
    ])
}

struct Nodes {
    name: &'static str,
    store: DataStore,
    keys: Vec<NodeId>,
    way: Way,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Sets,
    OneByOne,
    Sorted,
    Whole,
}

impl Nodes {
    fn lock(
        &self,
        owner: &OwnerId,
        keys: &[usize],
        work: &mut dyn FnMut(),
    ) -> std::result::Result<(), LockError> {
        let mut ids = keys.iter().map(|&key| &self.keys[key]);
        let locks = self.store.node_locks();
        match self.way {
            Way::Sets => {
                let _guard = locks.lock(owner, ids.fold(Scope::new(), |all, id| all.write(id)))?;
                work();
            }
            Way::OneByOne | Way::Sorted => {
                let first = ids.next().map(|id| Scope::new().write(id));
                let mut guard = locks.lock(owner, first.unwrap_or_default())?;
                ids.try_for_each(|id| guard.extend([(id, LockMode::NodeExclusive)]))?;
                work();
            }
            Way::Whole => {
                let _guard = self.store.request(owner).wait()?;
                work();
            }
        }
        Ok(())
    }
}

impl Subject for Nodes {
    fn name(&self) -> &'static str {
        self.name
    }

    fn transact(&self, owner: &OwnerId, keys: &[usize], work: &mut dyn FnMut()) -> Result<Answer> {
        match self.lock(owner, keys, work) {
            Ok(()) => Ok(Answer::Done),
            Err(LockError::Timeout(_)) => Ok(Answer::TimedOut),
            Err(error) if error.retry() == Retry::Now => Ok(Answer::Refused),
            Err(error) => Err(error.into()),
        }
    }

    fn ordered(&self) -> bool {
        self.way == Way::Sorted
    }
}

struct Pool(LockPool<u64>);

impl Subject for Pool {
    fn name(&self) -> &'static str {
        "lockable (sorted)"
    }

    fn transact(&self, _: &OwnerId, keys: &[usize], work: &mut dyn FnMut()) -> Result<Answer> {
        let guards: Vec<_> = keys
            .iter()
            .map(|&key| self.0.blocking_lock(key as u64))
            .collect();
        work();
        drop(guards);
        Ok(Answer::Done)
    }
}

/// The data of a key: read and written without atomic increments, as if unshared.
type Counters = [AtomicU64; KEYS];

fn trial(subject: &dyn Subject, least: usize, round: u64) -> Result<Trial> {
    let (gate, over) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
    let counters = Arc::new(Counters::default());
    let (time, tallies) = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as u64)
            .map(|thread| {
                let (gate, over, counters) = (&gate, &over, Arc::clone(&counters));
                scope.spawn(move || {
                    let client = Client {
                        subject,
                        owner: OwnerId::from(format!("thread {thread}")),
                        random: SplitMix(round * THREADS as u64 + thread),
                        least,
                        counters,
                    };
                    gate.wait();
                    client.run(over).map_err(|error| error.to_string())
                })
            })
            .collect();
        gate.wait();
        let start = Instant::now();
        thread::sleep(SPAN);
        over.store(true, Ordering::Relaxed);
        let tallies: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        // Including transactions still in progress.
        (start.elapsed(), tallies)
    });
    let mut tally = Tally::default();
    for one in tallies {
        let one = one.map_err(|_| "a locking thread panicked")??;
        tally.done += one.done;
        tally.keys += one.keys;
        tally.refused += one.refused;
        tally.timeouts += one.timeouts;
        tally.times.extend(one.times);
    }
    let counted: u64 = counters.iter().map(|key| key.load(Ordering::Relaxed)).sum();
    if counted != tally.keys {
        let name = subject.name();
        return Err(format!("{name}: two had one key, {counted} of {}", tally.keys).into());
    }
    Ok(Trial { tally, time })
}

/// How a failed attempt ended.
enum Ended {
    Refused,
    TimeUp,
    Failed(Box<dyn std::error::Error>),
}

impl CodedError for Ended {
    fn code(&self) -> &'static str {
        "ended"
    }

    fn retry(&self) -> Retry {
        matches!(self, Self::Refused).into()
    }
}

struct Client<'a> {
    subject: &'a dyn Subject,
    owner: OwnerId,
    random: SplitMix,
    least: usize,
    counters: Arc<Counters>,
}

impl Client<'_> {
    fn run(mut self, over: &AtomicBool) -> Result<Tally> {
        let mut tally = Tally::default();
        while !over.load(Ordering::Relaxed) {
            let keys = self.next_keys();
            let begun = Instant::now();
            let outcome = retry(u32::MAX, || match self.transact(&keys, &mut tally) {
                Ok(true) => Ok(()),
                Ok(false) if over.load(Ordering::Relaxed) => Err(Ended::TimeUp),
                Ok(false) => Err(Ended::Refused),
                Err(error) => Err(Ended::Failed(error)),
            });
            if let Err(Ended::Failed(error)) = outcome {
                return Err(error);
            }
            let time = u32::try_from(begun.elapsed().as_nanos());
            tally.times.push(time.unwrap_or(u32::MAX));
        }
        Ok(tally)
    }

    /// Returns whether it succeeded.
    fn transact(&self, keys: &[usize], tally: &mut Tally) -> Result<bool> {
        let mut work = || {
            for &key in keys {
                let counter = &self.counters[key];
                let count = counter.load(Ordering::Relaxed);
                counter.store(count + 1, Ordering::Relaxed);
            }
        };
        let answer = self.subject.transact(&self.owner, keys, &mut work)?;
        match answer {
            Answer::Done => {
                tally.done += 1;
                tally.keys += keys.len() as u64;
            }
            Answer::Refused => tally.refused += 1,
            Answer::TimedOut => tally.timeouts += 1,
        }
        Ok(answer == Answer::Done)
    }

    fn next_keys(&mut self) -> Vec<usize> {
        let count = self.least + self.random.below(MOST - self.least + 1);
        let mut keys: Vec<usize> = (0..KEYS).collect();
        for at in 0..count {
            let from = at + self.random.below(KEYS - at);
            keys.swap(at, from);
        }
        keys.truncate(count);
        if self.subject.ordered() {
            keys.sort_unstable();
        }
        keys
    }
}
