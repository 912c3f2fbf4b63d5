//! Rows of this suite, with more columns than those of the others.

use std::time::Duration;

use serde::Serialize;

use super::bare;
use super::trial::Trial;
use super::work::Length;
use crate::Result;
use crate::measure::Spread;
use crate::report::{Report, rounded};

pub const ABOUT: &str = "\
Threads edit one document, each on and on: build a list of operations (insert a character into one
of 64 texts of 40 characters; later delete it again), have it carried out as one transaction. A
length is what a transaction takes without a lock; by how many operations, is measured at the start.
After each run versions and characters are compared with what the threads did.

  txn/s    transactions a second, of all threads together, with the slowest and the fastest round
  of 1     the same in % of one thread without a lock
  share    what the thread with the fewest and the one with the most got of an equal share
  p50..    from asking to the answer; half, 1 % and 0.1 % took longer than this
  queue    p99.9 divided by what one transaction of each thread takes without a lock
  CPU/txn  processor time of the whole process, building the lists included; times txn/s, it is how
           many processors were busy
  sw/txn   context switches, voluntary and not
";

/// All results for one duration and number of threads.
pub struct Case {
    subjects: Vec<(&'static str, Row)>,
}

/// Medians over the rounds.
#[derive(Serialize)]
pub struct Row {
    suite: &'static str,
    case: String,
    subject: &'static str,
    value: f64,
    unit: &'static str,
    length: f64,
    operations: usize,
    threads: usize,
    /// The slowest and the fastest round.
    min: f64,
    max: f64,
    /// Of the rate of one thread without a lock.
    percent: f64,
    least_share: f64,
    most_share: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    p999_of_queue: f64,
    processor_ns: Option<f64>,
    switches: Option<f64>,
}

impl Case {
    /// The first subject is the one without a lock.
    pub fn new(
        suite: &'static str,
        length: Length,
        threads: usize,
        trials: Vec<(&'static str, Vec<Trial>)>,
    ) -> Self {
        let alone = trials.first().map_or(0.0, |(_, alone)| rate(alone).median);
        let row = |(subject, trials)| {
            (
                subject,
                Row::new(suite, length, threads, subject, trials, alone),
            )
        };
        Self {
            subjects: trials.into_iter().map(row).collect(),
        }
    }
}

impl Row {
    fn new(
        suite: &'static str,
        length: Length,
        threads: usize,
        subject: &'static str,
        trials: Vec<Trial>,
        alone: f64,
    ) -> Self {
        let rate = rate(&trials);
        let of = |figure: fn(&Trial) -> f64| median(trials.iter().map(figure)).unwrap_or(0.0);
        let queue = if subject == bare::NAME { 1 } else { threads };
        Self {
            suite,
            case: format!("{} us/{threads}", length.micros),
            subject,
            value: rounded(rate.median, 1),
            unit: "txn/s",
            length: length.micros,
            operations: length.operations,
            threads,
            min: rounded(rate.min, 1),
            max: rounded(rate.max, 1),
            percent: rounded(100.0 * rate.median / alone, 2),
            least_share: rounded(of(|trial| trial.least), 4),
            most_share: rounded(of(|trial| trial.most), 4),
            p50: of(|trial| trial.p50),
            p99: of(|trial| trial.p99),
            p999: of(|trial| trial.p999),
            p999_of_queue: rounded(of(|trial| trial.p999) * alone / 1e9 / queue as f64, 2),
            processor_ns: median(trials.iter().filter_map(|trial| trial.processor))
                .map(|time| rounded(time, 1)),
            switches: median(trials.iter().filter_map(|trial| trial.switches))
                .map(|switches| rounded(switches, 4)),
        }
    }

    fn line(&self) -> String {
        let Self { subject, .. } = self;
        let rates = format!("{}..{}", frequency(self.min), frequency(self.max));
        let share = format!("{:.2}..{:.2}", self.least_share, self.most_share);
        let [p50, p99, p999] = [self.p50, self.p99, self.p999].map(time);
        format!(
            "{:>6} {:>7} {subject:24} {:>8} {rates:>18} {:>6.1}% {share:>12} {p50:>8} {p99:>8} {p999:>8} {:>6.1} {:>8} {:>6}",
            self.length,
            self.threads,
            frequency(self.value),
            self.percent,
            self.p999_of_queue,
            self.processor_ns.map_or("-".into(), time),
            self.switches
                .map_or("-".into(), |count| format!("{count:.2}")),
        )
    }
}

pub fn heading(
    report: &Report,
    suite: &str,
    about: &str,
    span: Duration,
    rounds: usize,
    notes: &[(&str, &str)],
) -> Result {
    report.subjects(suite, notes)?;
    report.text(&format!(
        "== {suite} ==\n{about}\nRounds of {} ms: {rounds}. Medians of them.\n",
        span.as_millis()
    ))?;
    for (name, note) in notes {
        report.text(&format!("  {name:24}  {note}"))?;
    }
    report.text(&format!(
        "\n{:>6} {:>7} {:24} {:>8} {:>18} {:>7} {:>12} {:>8} {:>8} {:>8} {:>6} {:>8} {:>6}",
        "us",
        "threads",
        "subject",
        "txn/s",
        "min..max",
        "of 1",
        "share",
        "p50",
        "p99",
        "p99.9",
        "queue",
        "CPU/txn",
        "sw/txn"
    ))
}

pub fn print(report: &Report, case: &Case) -> Result {
    for (_, row) in &case.subjects {
        report.row(row, &row.line())?;
    }
    report.text("")
}

fn rate(trials: &[Trial]) -> Spread {
    let rates = trials.iter().map(|trial| trial.rate).collect();
    Spread::of(rates).unwrap_or_default()
}

fn median(metrics: impl Iterator<Item = f64>) -> Option<f64> {
    Spread::of(metrics.collect()).map(|spread| spread.median)
}

fn frequency(rate: f64) -> String {
    match rate {
        1e6.. => format!("{:.2} M", rate / 1e6),
        _ => format!("{:.1} k", rate / 1e3),
    }
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        1e9.. => format!("{:.2} s", nanoseconds / 1e9),
        1e6.. => format!("{:.2} ms", nanoseconds / 1e6),
        1e3.. => format!("{:.1} us", nanoseconds / 1e3),
        _ => format!("{nanoseconds:.0} ns"),
    }
}
