//! The keyed lock: free keys, many threads and many keys, and the memory of a million idle keys.

mod doclock;
mod kept;
mod lockable;

use std::thread;

use super::SUITE;
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::random::SplitMix;
use crate::report::{Report, Unit};

/// Long enough for the clock's cost to be negligible, short enough to alternate often.
const PAIRS: u64 = 1_000_000;

const THREADS: u64 = 8;

/// Keys that several threads share.
const KEYS: u64 = 1_000;

const ABOUT: &str = "\
Keyed locks. A pair is: take a key's lock, add to a counter under it, give it back.
  one free key            the same key, from one thread
  1,000,000 free keys     each once, from one thread
  8 threads, 1,000 keys   keys at random; nanoseconds of the clock on the wall for a pair, of all threads together
  8 threads, one key      all threads contend, in order where the lock has one";

/// Locks with keys.
trait Subject: Send + Sync {
    fn name(&self) -> &'static str;

    /// The guarantees for its cost.
    fn note(&self) -> &'static str;

    /// Locks each of these keys, one after the other, and increments a counter under each lock.
    fn run(&self, keys: &mut dyn Iterator<Item = u64>, count: &mut u64) -> Result;
}

fn subjects() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(doclock::Keyed::default()),
        Box::new(doclock::Named::default()),
        Box::new(lockable::Pool::default()),
    ]
}

/// The keys of one of several threads, in a round.
type Keys = fn(round: usize, thread: u64, pairs: u64) -> Box<dyn Iterator<Item = u64>>;

struct Case {
    name: &'static str,
    threads: u64,
    pairs: u64,
    keys: Keys,
}

const CASES: [Case; 4] = [
    Case {
        name: "one free key",
        threads: 1,
        pairs: PAIRS,
        keys: |_, _, pairs| Box::new((0..pairs).map(|_| 1)),
    },
    Case {
        name: "1,000,000 free keys",
        threads: 1,
        pairs: PAIRS,
        keys: |_, _, pairs| Box::new(0..pairs),
    },
    Case {
        name: "8 threads, 1,000 keys",
        threads: THREADS,
        pairs: PAIRS,
        keys: |round, thread, pairs| {
            let mut random = SplitMix(round as u64 * THREADS + thread);
            Box::new((0..pairs).map(move |_| random.below(KEYS as usize) as u64))
        },
    },
    Case {
        name: "8 threads, one key",
        threads: THREADS,
        pairs: PAIRS / 20,
        keys: |_, _, pairs| Box::new((0..pairs).map(|_| 1)),
    },
];

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects = subjects();
    let notes: Vec<_> = subjects.iter().map(|s| (s.name(), s.note())).collect();
    report.heading(SUITE, ABOUT, &notes)?;
    for case in &CASES {
        let spreads = interleaved(rounds, &mut subjects, |round, subject| {
            let time = timed(|| case.run(&**subject, round))?;
            Ok(Some(time.as_secs_f64() * 1e9 / case.pairs as f64))
        })?;
        let names = subjects.iter().map(|subject| subject.name());
        report.case(SUITE, case.name, Unit::NsPerPair, names.zip(spreads))?;
    }
    kept::run(rounds, report)
}

impl Case {
    fn run(&self, subject: &dyn Subject, round: usize) -> Result {
        let share = self.pairs / self.threads;
        let work = |thread| {
            let mut count = 0;
            let done = subject.run(&mut *(self.keys)(round, thread, share), &mut count);
            done.map_err(|error| error.to_string())?;
            (count == share)
                .then_some(())
                .ok_or("a key's lock was not taken as often as asked")?;
            Ok::<(), String>(())
        };
        if self.threads == 1 {
            return Ok(work(0)?);
        }
        thread::scope(|threads| {
            let work = &work;
            let running: Vec<_> = (0..self.threads)
                .map(|thread| threads.spawn(move || work(thread)))
                .collect();
            for thread in running {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            Ok(())
        })
    }
}
