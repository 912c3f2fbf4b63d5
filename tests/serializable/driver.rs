//! Runs random transactions on lists from several threads and checks their reads. It is independent
//! of the store: closures run a transaction and read a list at the end.

use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::anomaly::Anomaly;
use crate::checker::{Level, check};
use crate::common::Dice;
use crate::history::{History, Key, Op, Transaction, Value};

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Determines the transactions, but not their timing.
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) transactions: usize,
    pub(crate) keys: Key,
}

/// A planned transaction.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The thread that runs it.
    pub(crate) process: usize,
    /// The operations, in order, of one transaction. Results of reads are stored in them.
    pub(crate) ops: Vec<Op>,
    /// Whether it is rolled back at the end, so its changes must never be visible.
    pub(crate) roll_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    /// Rolled back, as planned or after a failure. There is no retry.
    Aborted,
}

impl Load {
    const TRANSACTIONS: usize = 1_000;

    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice(seed);
        Self {
            seed,
            threads: 2 + dice.below(7),
            transactions: Self::TRANSACTIONS,
            keys: 1 + dice.below(8) as Key,
        }
    }

    /// The transactions of each thread.
    fn plans(&self) -> Vec<Vec<Plan>> {
        let mut dice = Dice(self.seed);
        let mut values = 1..;
        let mut plans: Vec<Vec<Plan>> = Vec::new();
        plans.resize_with(self.threads, Vec::new);
        for nth in 0..self.transactions {
            let process = nth % self.threads;
            let ops = (0..=dice.below(4)).map(|_| self.op(&mut dice, &mut values));
            plans[process].push(Plan {
                process,
                ops: ops.collect(),
                roll_back: dice.one_in(10),
            });
        }
        plans
    }

    fn op(&self, dice: &mut Dice, values: &mut impl Iterator<Item = Value>) -> Op {
        let key = dice.below(self.keys as usize) as Key;
        match values.next().filter(|_| dice.one_in(2)) {
            Some(value) => Op::Append { key, value },
            None => Op::Read {
                key,
                observed: Vec::new(),
            },
        }
    }
}

/// Runs the transactions with `execute`, all threads at once, then reads the lists with `read`.
pub(crate) fn run(
    load: &Load,
    execute: impl Fn(&mut Plan) -> Outcome + Sync,
    read: impl Fn(Key) -> Vec<Value>,
) -> History {
    let ticks = AtomicU64::new(0);
    let start = Barrier::new(load.threads);
    let work = |plans: Vec<Plan>| {
        start.wait();
        let run = |plan| timed(&ticks, plan, &execute);
        plans.into_iter().map(run).collect::<Vec<Transaction>>()
    };
    let transactions = thread::scope(|scope| {
        let spawn = |plans| scope.spawn(|| work(plans));
        let threads: Vec<_> = load.plans().into_iter().map(spawn).collect();
        let done = threads.into_iter().map(|thread| thread.join().unwrap());
        done.flatten().collect()
    });
    let finals = (0..load.keys).map(|key| (key, read(key))).collect();
    History {
        transactions,
        finals,
    }
}

fn timed(ticks: &AtomicU64, mut plan: Plan, execute: impl Fn(&mut Plan) -> Outcome) -> Transaction {
    let tick = || ticks.fetch_add(1, Ordering::SeqCst);
    let invoked = tick();
    let outcome = execute(&mut plan);
    let completed = tick();
    Transaction {
        process: plan.process,
        ops: plan.ops,
        committed: outcome == Outcome::Committed,
        time: Some(invoked..completed),
    }
}

/// The result for one history. It prints all the evidence for debugging.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) load: Load,
    pub(crate) history: History,
    pub(crate) anomalies: Vec<Anomaly>,
}

impl Verdict {
    pub(crate) fn on(load: Load, history: History, level: Level) -> Self {
        let anomalies = check(&history, level);
        Self {
            load,
            history,
            anomalies,
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.anomalies.is_empty()
    }
}

/// The most anomalies shown; one bug can cause thousands.
const SHOWN: usize = 5;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load {
            seed,
            threads,
            keys,
            ..
        } = self.load;
        let (all, history) = (self.history.transactions.len(), &self.history);
        let (committed, overlapped) = (history.committed(), history.overlapped());
        write!(
            f,
            "SEED={seed}: {all} transactions of {threads} threads on {keys} lists, {committed} committed, \
             {overlapped} overlapped; {} anomalies",
            self.anomalies.len()
        )?;
        // The cycle, if there is one, is the last.
        let (cycle, others): (Vec<_>, Vec<_>) =
            (self.anomalies.iter()).partition(|anomaly| matches!(anomaly, Anomaly::Cycle(_)));
        for anomaly in cycle.into_iter().chain(others).take(SHOWN) {
            write!(f, "\n  {anomaly}")?;
            if let Anomaly::Cycle(cycle) = anomaly {
                for edge in &cycle.edges {
                    let Transaction { process, time, .. } = &history.transactions[edge.from];
                    write!(f, "\n    {} is of thread {process}, {time:?}", edge.from)?;
                }
            }
        }
        Ok(())
    }
}
