//! The cost of a long queue: joining it, leaving it, reading its length.

pub mod waiters;

use std::hint::black_box;
use std::time::{Duration, Instant};

use doclock::dsl::{create, text_node};
use doclock::{
    DataStore, OwnerId, TransactionManager,
    lock::{AcquireOptions, LockError},
    transaction::TransactionError,
};

use super::SUITE;
use crate::Result;
use crate::measure::{Spread, take_turns};
use crate::report::{Report, Unit};
use waiters::Waiters;

const SIZES: [(usize, &str); 3] = [
    (10, "10 waiting"),
    (1_000, "1,000 waiting"),
    (10_000, "10,000 waiting"),
];

/// Calls of each kind per round.
const CALLS: usize = 1_000;

/// Requests that are withdrawn per round.
const CANCELLED: usize = 100;

const ABOUT: &str = "\
Crowd: so many threads wait for the lock. Medians of single calls.
  join, time out          one more request for the lock, which gives up at once: in at the end and out again
  list joins, times out   the same for a list of operations that is executed
  cancel                  withdrawing a request in the middle of the line, its thread woken
  queue_length            asking how many wait";

const CASES: [&str; 4] = [
    "join, time out",
    "list joins, times out",
    "cancel",
    "queue_length",
];

/// Nanoseconds of single calls, one list for each case.
type Times = [Vec<f64>; CASES.len()];

/// A queue of this length.
struct Crowd {
    name: &'static str,
    size: usize,
    /// The number of threads that the machine allowed, if fewer.
    given: usize,
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    let crowd = |(size, name)| {
        let given = size;
        Box::new(Crowd { name, size, given })
    };
    let mut crowds: Vec<_> = SIZES.map(crowd).into();
    let found = take_turns(rounds, &mut crowds, |_, crowd| crowd.times().map(Some))?;
    for (index, case) in CASES.into_iter().enumerate() {
        let medians = found.iter().map(|rounds| {
            let median = |times: &Times| Spread::of(times[index].clone()).map(|one| one.median);
            Spread::of(rounds.iter().filter_map(median).collect())
        });
        let spreads: Vec<_> = medians.collect();
        let names = crowds.iter().map(|crowd| crowd.name);
        let rows = names.zip(spreads.iter().copied());
        report.case(SUITE, case, Unit::NsPerCall, rows)?;
        if let [Some(shortest), _, Some(longest)] = spreads[..] {
            let ratio = longest.median / shortest.median;
            report.remark(&format!(
                "{case}: the longest line at {ratio:.2} times the shortest"
            ))?;
        }
    }
    for crowd in crowds.iter().filter(|crowd| crowd.given < crowd.size) {
        let Crowd { name, given, .. } = **crowd;
        report.remark(&format!(
            "{name}: the machine gave no more than {given} threads"
        ))?;
    }
    Ok(())
}

impl Crowd {
    /// Short queues are rebuilt repeatedly, so their length stays about the same while waiters
    /// leave.
    fn times(&mut self) -> Result<Times> {
        let leaving = (self.size / 10).min(CANCELLED);
        let gatherings = CANCELLED / leaving;
        let calls = CALLS / gatherings;
        let mut times = Times::default();
        let [join, list, cancel, length] = &mut times;
        for _ in 0..gatherings {
            let store = DataStore::new();
            let mut waiters = Waiters::gather(&store, self.size)?;
            self.given = self.given.min(waiters.len());
            join_and_leave(&store, calls, join)?;
            join_with_batch(&store, calls, list)?;
            length.push(queue_length(&store, calls));
            cancel_in_the_middle(&mut waiters, leaving, cancel)?;
            waiters.let_go()?;
        }
        Ok(times)
    }
}

fn join_and_leave(store: &DataStore, calls: usize, times: &mut Vec<f64>) -> Result {
    let owner = OwnerId::from("latecomer");
    for _ in 0..calls {
        let options = at_once();
        let (refused, time) = timed(|| store.request(&owner).options(options).wait());
        let Err(LockError::Timeout(_)) = refused else {
            return Err("a request behind others did not time out".into());
        };
        times.push(time);
    }
    Ok(())
}

fn join_with_batch(store: &DataStore, calls: usize, times: &mut Vec<f64>) -> Result {
    let manager = TransactionManager::for_owner(store.clone(), "latecomer");
    for _ in 0..calls {
        let (list, options) = ([create(text_node("inline-text", ""))], at_once());
        let (refused, time) = timed(|| manager.transaction(list).options(options).commit());
        let Err(TransactionError::Lock(LockError::Timeout(_))) = refused else {
            return Err("a list behind others did not time out".into());
        };
        times.push(time);
    }
    Ok(())
}

/// One of many calls, because one is too short to be timed.
fn queue_length(store: &DataStore, calls: usize) -> f64 {
    let ((), time) = timed(|| {
        for _ in 0..calls {
            black_box(store.queue_length());
        }
    });
    time / calls as f64
}

fn cancel_in_the_middle(waiters: &mut Waiters, leaving: usize, times: &mut Vec<f64>) -> Result {
    for _ in 0..leaving {
        let Some(waiter) = waiters.take_middle() else {
            break;
        };
        let ((), time) = timed(|| waiter.token.cancel());
        times.push(time);
        // It has left before the next is measured.
        if !waiter.end()? {
            return Err("a request was not cancelled".into());
        }
    }
    Ok(())
}

/// Leaves the queue as soon as it has joined.
fn at_once() -> AcquireOptions {
    AcquireOptions::new().timeout(Duration::from_nanos(1))
}

/// The result, and the nanoseconds of the call.
fn timed<T>(call: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let outcome = call();
    (outcome, start.elapsed().as_secs_f64() * 1e9)
}
