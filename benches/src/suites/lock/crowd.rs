//! What the line costs when it is long: joining it, leaving it, asking how long it is.

mod waiters;

use std::hint::black_box;
use std::time::{Duration, Instant};

use doclock::dsl::{create, text_node};
use doclock::{
    AcquireOptions, DataStore, LockError, OwnerId, TransactionError, TransactionManager,
};

use super::SUITE;
use crate::Result;
use crate::measure::{Spread, interleaved};
use crate::report::{Report, Unit};
use waiters::Waiters;

const SIZES: [(usize, &str); 3] = [
    (10, "10 waiting"),
    (1_000, "1,000 waiting"),
    (10_000, "10,000 waiting"),
];

/// Calls of each kind per round, where the line is long enough for as many.
const CALLS: usize = 1_000;

/// Requests that are withdrawn per round.
const CANCELLED: usize = 100;

const ABOUT: &str = "\
Crowd: so many threads wait for the lock. Medians of single calls.
  join, time out          one more request for the lock, which gives up at once: in at the end and out again
  list joins, times out   the same for a list of operations that is executed
  cancel                  withdrawing a request in the middle of the line, its thread woken
  queue_length            asking how many wait";

/// What is done beside a line.
type Call = fn(&mut Crowd, &mut Vec<f64>) -> Result;

const CALLED: [(&str, Call); 4] = [
    ("join, time out", Crowd::join),
    ("list joins, times out", Crowd::join_with_list),
    ("cancel", Crowd::cancel),
    ("queue_length", Crowd::queue_length),
];

/// A line of so many.
struct Crowd {
    name: &'static str,
    size: usize,
    /// How many threads the machine gave, where that was fewer.
    given: usize,
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    let mut crowds: Vec<_> = SIZES
        .iter()
        .map(|&(size, name)| {
            let given = size;
            Box::new(Crowd { name, size, given })
        })
        .collect();
    for (case, call) in CALLED {
        let spreads = interleaved(rounds, &mut crowds, |_, crowd| {
            let mut times = Vec::new();
            call(crowd, &mut times)?;
            Ok(Spread::of(times).map(|spread| spread.median))
        })?;
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
    fn gather(&mut self, store: &DataStore) -> Result<Waiters> {
        let waiters = Waiters::gather(store, self.size)?;
        self.given = self.given.min(waiters.len());
        Ok(waiters)
    }

    fn join(&mut self, times: &mut Vec<f64>) -> Result {
        let store = DataStore::new();
        let waiters = self.gather(&store)?;
        let owner = OwnerId::from("latecomer");
        for _ in 0..CALLS {
            let options = at_once();
            let (refused, time) = timed(|| store.lock_with(&owner, options));
            let Err(LockError::Timeout(_)) = refused else {
                return Err("a request behind others did not time out".into());
            };
            times.push(time);
        }
        waiters.let_go()
    }

    fn join_with_list(&mut self, times: &mut Vec<f64>) -> Result {
        let store = DataStore::new();
        let waiters = self.gather(&store)?;
        let manager = TransactionManager::for_owner(store, "latecomer");
        for _ in 0..CALLS {
            let (list, options) = ([create(text_node("inline-text", ""))], at_once());
            let (refused, time) = timed(|| manager.execute_with(list, options));
            let Err(TransactionError::Lock(LockError::Timeout(_))) = refused else {
                return Err("a list behind others did not time out".into());
            };
            times.push(time);
        }
        waiters.let_go()
    }

    /// Short lines are gathered again and again, so that they stay about as long.
    fn cancel(&mut self, times: &mut Vec<f64>) -> Result {
        let each = (self.size / 10).clamp(1, CANCELLED);
        while times.len() < CANCELLED.min(self.size) {
            let store = DataStore::new();
            let mut waiters = self.gather(&store)?;
            for _ in 0..each {
                let Some(waiter) = waiters.take_middle() else {
                    break;
                };
                let ((), time) = timed(|| waiter.token.cancel());
                times.push(time);
                // Gone before the next is measured.
                if !waiter.end()? {
                    return Err("a request was not cancelled".into());
                }
            }
            waiters.let_go()?;
        }
        Ok(())
    }

    fn queue_length(&mut self, times: &mut Vec<f64>) -> Result {
        let store = DataStore::new();
        let waiters = self.gather(&store)?;
        let ((), time) = timed(|| {
            for _ in 0..CALLS {
                black_box(store.queue_length());
            }
        });
        times.push(time / CALLS as f64);
        waiters.let_go()
    }
}

/// In line for no longer than it takes to join it.
fn at_once() -> AcquireOptions {
    AcquireOptions::new().wait_limit(Duration::from_nanos(1))
}

/// What came of it, and the nanoseconds that it took.
fn timed<T>(call: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let outcome = call();
    (outcome, start.elapsed().as_secs_f64() * 1e9)
}
