//! What tasks that wait for the lock cost the other tasks of their runtime.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{SendError, bounded};
use doclock::DataStore;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;

use super::clients::{self, Blocking, Call, Caller, Client, ExecuteAsync, SpawnBlocking};
use super::{MICROS, SUITE, TASKS};
use crate::Result;
use crate::measure::{Spread, take_turns};
use crate::report::{Report, Unit};
use crate::suites::contended::MILLIS;
use crate::suites::contended::work::Length;

/// Of the runtime.
const WORKERS: usize = 2;

/// How long the lock is held at a time, and how long each message follows the reply to the last.
const HOLD: Duration = Duration::from_millis(1);

const ABOUT: &str = "\
Beside tasks that wait: 8 tasks on 2 workers edit one document, and two threads hold its lock in
turn, 1 ms each. Another task of the runtime waits for messages of a thread. The delay is from
sending a message until that task receives it.";

struct Subject {
    name: &'static str,
    run: fn(Length, Duration) -> Result<Found>,
}

struct Found {
    /// Transactions a second.
    rate: Option<f64>,
    /// Sorted, in nanoseconds.
    delays: Vec<f64>,
}

const SUBJECTS: [Subject; 4] = [
    tasks::<ExecuteAsync>(),
    tasks::<SpawnBlocking>(),
    tasks::<Blocking>(),
    Subject {
        name: "no other task",
        run: |_, span| {
            let ((), delays) = beside(&runtime()?, || thread::sleep(span))?;
            Ok(Found { rate: None, delays })
        },
    },
];

const fn tasks<C: Call>() -> Subject {
    Subject {
        name: C::NAME,
        run: |length, span| {
            let (texts, clients) = Caller::<C>::open(TASKS)?;
            let store = clients[0].manager.store().clone();
            let runtime = runtime()?;
            let edit = || clients::run(&runtime, (texts, clients), length, span);
            let held = || while_held(&store, || while_held(&store, edit));
            let (trial, delays) = beside(&runtime, held)?;
            let rate = Some(trial???.rate);
            Ok(Found { rate, delays })
        },
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .build()?)
}

/// Runs the work while a thread holds the lock of the store again and again. Between two holds it
/// may lose its processor, so one thread is not enough.
fn while_held<T>(store: &DataStore, work: impl FnOnce() -> T) -> Result<T> {
    meanwhile(work, || {
        let _guard = store.lock("holder")?;
        thread::sleep(HOLD);
        Ok(())
    })
}

/// Runs the work, and returns the delays of messages to a task of the runtime meanwhile.
fn beside<T>(runtime: &Runtime, work: impl FnOnce() -> T) -> Result<(T, Vec<f64>)> {
    let (sender, mut messages) = unbounded_channel::<Instant>();
    let (reply, replies) = bounded(1);
    runtime.spawn(async move {
        while let Some(sent) = messages.recv().await {
            reply.send(sent.elapsed())?;
        }
        Ok::<_, SendError<Duration>>(())
    });
    let mut delays = Vec::new();
    let result = meanwhile(work, || {
        sender.send(Instant::now())?;
        delays.push(replies.recv()?.as_secs_f64() * 1e9);
        thread::sleep(HOLD);
        Ok(())
    })?;
    delays.sort_by(f64::total_cmp);
    Ok((result, delays))
}

/// Runs the work, and in another thread repeats a step until the work is done.
fn meanwhile<T>(work: impl FnOnce() -> T, mut step: impl FnMut() -> Result + Send) -> Result<T> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let steps = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                step().map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        });
        let result = work();
        over.store(true, Ordering::Relaxed);
        steps
            .join()
            .map_err(|_| "a thread beside the tasks panicked")??;
        Ok(result)
    })
}

/// The delay that so large a part does not exceed.
fn at(delays: &[f64], part: f64) -> Option<f64> {
    let last = delays.len().checked_sub(1)?;
    Some(delays[(last as f64 * part) as usize])
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    let length = Length::calibrated(MICROS)?;
    let span = Duration::from_millis(MILLIS);
    let mut subjects = SUBJECTS;
    let found = take_turns(rounds, &mut subjects, |_, subject| {
        (subject.run)(length, span).map(Some)
    })?;
    let case = |name, unit, value: fn(&Found) -> Option<f64>| {
        let spreads = found
            .iter()
            .map(|rounds| Spread::of(rounds.iter().filter_map(value).collect()));
        let names = SUBJECTS.iter().map(|subject| subject.name);
        report.case(SUITE, name, unit, names.zip(spreads))
    };
    case("delay, median", Unit::NsPerCall, |found| {
        at(&found.delays, 0.5)
    })?;
    case("delay, p99", Unit::NsPerCall, |found| {
        at(&found.delays, 0.99)
    })?;
    case("beside holders", Unit::TransactionsPerSecond, |found| {
        found.rate
    })
}
