//! One run: threads edit for a while, and the results.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock::transaction::TransactionError;
use hdrhistogram::Histogram;
use quanta::Clock;

use super::usage::{Usage, usage};
use super::work::{self, Length, Work};
use super::{Client, Opened, Subject};
use crate::Result;

/// The results of a run. Times are in nanoseconds, values of the process per transaction.
pub struct Trial {
    /// Transactions a second.
    pub rate: f64,
    /// The share of the thread with the fewest transactions, relative to an equal share.
    pub least: f64,
    /// The share of the thread with the most.
    pub most: f64,
    /// From request to result: the median, and the 99 and 99.9 % percentiles.
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub processor: Option<f64>,
    pub switches: Option<f64>,
}

// The stages of a run. They change while threads are in the middle of a transaction.
const WARMING_UP: u8 = 0;
const COUNTING: u8 = 1;
const OVER: u8 = 2;

/// The longest wait with its own bucket, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

pub fn run(
    subject: &mut dyn Subject,
    threads: usize,
    length: Length,
    span: Duration,
) -> Result<Trial> {
    let Opened { texts, mut clients } = subject.open(threads)?;
    let before = clients[0].document()?.version();
    let (gate, stage) = (Barrier::new(clients.len() + 1), AtomicU8::new(WARMING_UP));
    let clock = Clock::new();
    let (counted, editors) = thread::scope(|scope| {
        let editors: Vec<_> = clients
            .iter_mut()
            .enumerate()
            .map(|(thread, client)| {
                let work = Work::new(thread, &texts, length.operations);
                let (gate, stage, clock) = (&gate, &stage, &clock);
                scope.spawn(move || {
                    let editor = Editor::new(work)?;
                    gate.wait();
                    editor.edit(client.as_mut(), stage, clock)
                })
            })
            .collect();
        gate.wait();
        let counted = direct(&stage, span);
        let editors = editors.into_iter().map(|editor| editor.join());
        (counted, editors.collect::<Vec<_>>())
    });
    let mut tallies = Vec::with_capacity(editors.len());
    for editor in editors {
        tallies.push(editor.map_err(|_| "an editing thread panicked")??);
    }
    let document = clients[0].document()?;
    let done: u64 = tallies.iter().map(|tally| tally.done).sum();
    let left: usize = tallies.iter().map(|tally| tally.left).sum();
    let found = (document.version() - before, work::characters(&document));
    let expected = (done, work::TEXTS * work::TEXT.len() + left);
    if found != expected {
        let name = subject.name();
        return Err(format!("{name}: {found:?} versions and characters, not {expected:?}").into());
    }
    summary(&tallies, counted)
}

/// The measured time, and the usage of the process in it.
struct Counted {
    time: Duration,
    usage: Option<Usage>,
}

/// Moves the threads through the stages. The clock is read at each change, because this thread may
/// wake late among many runnable threads.
fn direct(stage: &AtomicU8, span: Duration) -> Counted {
    thread::sleep(span / 5);
    let (start, used) = (Instant::now(), usage());
    stage.store(COUNTING, Ordering::Relaxed);
    thread::sleep(span);
    stage.store(OVER, Ordering::Relaxed);
    Counted {
        time: start.elapsed(),
        usage: usage().zip(used).map(|(now, then)| now.since(then)),
    }
}

/// A thread at work.
struct Editor<'a> {
    work: Work<'a>,
    tally: Tally,
}

/// The work of a thread.
struct Tally {
    /// All transactions.
    done: u64,
    /// Those that ended in the measured time.
    counted: u64,
    /// The durations of those that began in the measured time.
    times: Histogram<u32>,
    /// The number of its characters left in the texts.
    left: usize,
}

impl<'a> Editor<'a> {
    fn new(work: Work<'a>) -> std::result::Result<Self, String> {
        let times = Histogram::new_with_bounds(1, LONGEST, 2).map_err(|error| error.to_string())?;
        let tally = Tally {
            done: 0,
            counted: 0,
            times,
            left: 0,
        };
        Ok(Self { work, tally })
    }

    fn edit(
        mut self,
        client: &mut dyn Client,
        stage: &AtomicU8,
        clock: &Clock,
    ) -> std::result::Result<Tally, String> {
        let failed = |error: TransactionError| error.to_string();
        let mut now = stage.load(Ordering::Relaxed);
        while now != OVER {
            let operations = self.work.next_list();
            let asked = clock.raw();
            client.execute(operations).map_err(failed)?;
            let answered = clock.raw();
            self.tally.done += 1;
            if now == COUNTING {
                let time = clock.delta_as_nanos(asked, answered);
                self.tally.times.saturating_record(time.max(1));
            }
            now = stage.load(Ordering::Relaxed);
            self.tally.counted += u64::from(now == COUNTING);
        }
        self.tally.left = self.work.left();
        Ok(self.tally)
    }
}

fn summary(tallies: &[Tally], counted: Counted) -> Result<Trial> {
    let mut times = Histogram::<u32>::new_with_bounds(1, LONGEST, 2)?;
    for tally in tallies {
        times.add(&tally.times)?;
    }
    let counts = || tallies.iter().map(|tally| tally.counted);
    let all = counts().sum::<u64>() as f64;
    let share = |count: Option<u64>| count.unwrap_or(0) as f64 * tallies.len() as f64 / all;
    let usage = counted.usage.filter(|_| all > 0.0);
    Ok(Trial {
        rate: all / counted.time.as_secs_f64(),
        least: share(counts().min()),
        most: share(counts().max()),
        p50: times.value_at_quantile(0.5) as f64,
        p99: times.value_at_quantile(0.99) as f64,
        p999: times.value_at_quantile(0.999) as f64,
        processor: usage.map(|usage| usage.processor.as_secs_f64() * 1e9 / all),
        switches: usage.map(|usage| usage.switches as f64 / all),
    })
}
