//! One run: threads edit for a while, and the results.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use doclock::transaction::{Operation, TransactionError};
use doclock::{NodeId, Snapshot};
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

// The stages of a run after the warm-up.
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
    let (gate, stage) = (Barrier::new(clients.len() + 1), Arc::default());
    let editors = editors(clients.len(), &texts, length, &stage)?;
    let (counted, editors) = thread::scope(|scope| {
        let pairs = clients.iter_mut().zip(editors);
        let editors: Vec<_> = pairs
            .map(|(client, editor)| {
                let gate = &gate;
                scope.spawn(move || {
                    gate.wait();
                    edit(client.as_mut(), editor)
                })
            })
            .collect();
        gate.wait();
        let counted = stage.direct(span);
        let editors = editors.into_iter().map(|editor| editor.join());
        (counted, editors.collect::<Vec<_>>())
    });
    let mut tallies = Vec::with_capacity(editors.len());
    for editor in editors {
        tallies.push(editor.map_err(|_| "an editing thread panicked")??);
    }
    check(subject.name(), before, &clients[0].document()?, &tallies)?;
    summary(&tallies, counted)
}

/// Runs the transactions of a thread.
fn edit(
    client: &mut dyn Client,
    mut editor: Editor,
) -> std::result::Result<Tally, TransactionError> {
    while let Some((operations, asked)) = editor.begin() {
        client.execute(operations)?;
        editor.finish(asked);
    }
    Ok(editor.end())
}

/// Compares the versions and characters of the document with the work of the editors.
pub fn check(name: &str, before: u64, document: &Snapshot, tallies: &[Tally]) -> Result {
    let done: u64 = tallies.iter().map(|tally| tally.done).sum();
    let left: usize = tallies.iter().map(|tally| tally.left).sum();
    let found = (document.version() - before, work::characters(document));
    let expected = (done, work::TEXTS * work::TEXT.len() + left);
    match found == expected {
        true => Ok(()),
        false => Err(format!("{name}: {found:?} versions and characters, not {expected:?}").into()),
    }
}

/// The measured time, and the usage of the process in it.
pub struct Counted {
    time: Duration,
    usage: Option<Usage>,
}

/// The stage of a run. It changes while editors are in the middle of a transaction.
#[derive(Default)]
pub struct Stage(AtomicU8);

impl Stage {
    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Moves the editors through the stages. The clock is read at each change, because this thread
    /// may wake late among many runnable threads.
    pub fn direct(&self, span: Duration) -> Counted {
        thread::sleep(span / 5);
        let (start, used) = (Instant::now(), usage());
        self.0.store(COUNTING, Ordering::Relaxed);
        thread::sleep(span);
        self.0.store(OVER, Ordering::Relaxed);
        Counted {
            time: start.elapsed(),
            usage: usage().zip(used).map(|(now, then)| now.since(then)),
        }
    }
}

/// A thread or a task at work.
pub struct Editor {
    work: Work,
    tally: Tally,
    clock: Clock,
    stage: Arc<Stage>,
    now: u8,
}

/// An editor for each thread or task of a run.
pub fn editors(
    count: usize,
    texts: &Arc<[NodeId]>,
    length: Length,
    stage: &Arc<Stage>,
) -> Result<Vec<Editor>> {
    let editor = |nth| {
        let work = Work::new(nth, Arc::clone(texts), length.operations);
        Editor::new(work, Arc::clone(stage))
    };
    (0..count).map(editor).collect()
}

/// The work of an editor.
pub struct Tally {
    /// All transactions.
    done: u64,
    /// Those that ended in the measured time.
    counted: u64,
    /// The durations of those that began in the measured time.
    times: Histogram<u32>,
    /// The number of its characters left in the texts.
    left: usize,
}

impl Editor {
    fn new(work: Work, stage: Arc<Stage>) -> Result<Self> {
        let tally = Tally {
            done: 0,
            counted: 0,
            times: Histogram::new_with_bounds(1, LONGEST, 2)?,
            left: 0,
        };
        Ok(Self {
            work,
            tally,
            clock: Clock::new(),
            now: stage.get(),
            stage,
        })
    }

    /// The next transaction, which must be run, and when it is requested. `None` if the run is
    /// over.
    pub fn begin(&mut self) -> Option<(Vec<Operation>, u64)> {
        (self.now != OVER).then(|| (self.work.next_list(), self.clock.raw()))
    }

    /// Records the result of the transaction.
    pub fn finish(&mut self, asked: u64) {
        let answered = self.clock.raw();
        self.tally.done += 1;
        if self.now == COUNTING {
            let time = self.clock.delta_as_nanos(asked, answered);
            self.tally.times.saturating_record(time.max(1));
        }
        self.now = self.stage.get();
        self.tally.counted += u64::from(self.now == COUNTING);
    }

    pub fn end(mut self) -> Tally {
        self.tally.left = self.work.left();
        self.tally
    }
}

pub fn summary(tallies: &[Tally], counted: Counted) -> Result<Trial> {
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
