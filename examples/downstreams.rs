//! Three downstreams, one of them slow, with and without a limiter.
//!
//! ```text
//! cargo run --release --example downstreams -- [--millis N] [--limit N] [--json]
//! ```
//!
//! A service has a few worker threads. Calls arrive at a steady pace, in turn for `payments`,
//! `inventory` and `shipping`. `shipping` takes fifty times as long as the others. Without a
//! limiter it soon occupies every worker, and calls to the others wait in the service's backlog.
//! With a limiter it occupies at most its limit, and further calls are rejected at once.
//!
//! Exits with 0, or with 2 if the input was invalid.

mod common;

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use common::{Given, number, print_line, wanted};
use doclock::lock::limiter::{InFlightLimiter, LimiterError, LimiterOptions, LimiterSnapshot};
use lexopt::prelude::*;

const HELP: &str = "\
Three downstreams, one of them slow, behind a few worker threads: without a limiter, and with one.

usage: downstreams [--millis N] [--limit N] [--json]

  --millis N   how long calls arrive, each time; 600 unless given, 100 to 10000
  --limit N    how many workers the slow downstream may have; 2 unless given, 1 to 8
  --json       prints one JSON object instead of tables
  -h, --help   prints this

exit code: 0, or 2 if the input was bad
";

/// The downstream of a call, and its duration.
const DOWNSTREAMS: [(&str, Duration); 3] = [
    ("payments", Duration::from_millis(1)),
    ("inventory", Duration::from_millis(1)),
    (SLOW, Duration::from_millis(50)),
];
const SLOW: &str = "shipping";
const WORKERS: usize = 8;
/// The time between two arrivals.
const PACE: Duration = Duration::from_millis(1);

struct Options {
    span: Duration,
    limit: usize,
    json: bool,
}

fn main() -> ExitCode {
    let options = match wanted(parse(lexopt::Parser::from_env()), HELP) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    let limits = LimiterOptions::new(WORKERS)
        .limit(SLOW, options.limit)
        .queue_bound(0);
    let limiter = InFlightLimiter::with_options(limits);
    let without = Outcome::of(None, options.span);
    let with = Outcome::of(Some(&limiter), options.span);
    match options.json {
        true => print_line!("{}", json(&without, &with, &limiter.snapshot())),
        false => show(&options, &without, &with, &limiter.snapshot()),
    }
    ExitCode::SUCCESS
}

fn parse(mut words: lexopt::Parser) -> Result<Option<Options>, String> {
    let mut options = Options {
        span: Duration::from_millis(600),
        limit: 2,
        json: false,
    };
    let told = |error: lexopt::Error| error.to_string();
    let mut given = Given::default();
    while let Some(word) = words.next().map_err(told)? {
        given.once(&word)?;
        match word {
            Long("help") | Short('h') => return Ok(None),
            Long("json") => options.json = true,
            Long("millis") => {
                options.span = Duration::from_millis(number("--millis", &mut words, 100..=10_000)?);
            }
            Long("limit") => {
                options.limit = number("--limit", &mut words, 1..=WORKERS as u64)? as usize;
            }
            other => return Err(told(other.unexpected())),
        }
    }
    Ok(Some(options))
}

/// The results for each downstream: the time of each call from its arrival, and how many calls were
/// rejected or still in the backlog at the end.
#[derive(Default)]
struct Outcome {
    arrived: u32,
    latencies: [Vec<Duration>; DOWNSTREAMS.len()],
    turned_away: [usize; DOWNSTREAMS.len()],
}

impl Outcome {
    /// Each worker takes call after call, each once it has arrived.
    fn of(limiter: Option<&InFlightLimiter<&'static str>>, span: Duration) -> Self {
        let arrived = u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
        let outcome = Mutex::new(Self {
            arrived,
            ..Self::default()
        });
        let arrivals = Mutex::new(0..arrived);
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Some(nth) = next(&arrivals) {
                        let arrived = began + PACE * nth;
                        thread::sleep(arrived.saturating_duration_since(Instant::now()));
                        // A call that still waits at the end has waited in vain.
                        if began.elapsed() > span {
                            break;
                        }
                        let which = nth as usize % DOWNSTREAMS.len();
                        let answered = call(limiter, which);
                        let mut outcome = outcome.lock().unwrap_or_else(|torn| torn.into_inner());
                        match answered {
                            Ok(()) => outcome.latencies[which].push(arrived.elapsed()),
                            Err(_) => outcome.turned_away[which] += 1,
                        }
                    }
                });
            }
        });
        outcome
            .into_inner()
            .unwrap_or_else(|torn| torn.into_inner())
    }

    fn row(&self, which: usize) -> Row {
        let mut latencies = self.latencies[which].clone();
        latencies.sort();
        let at = |part: usize| latencies.get(latencies.len() * part / 100).copied();
        let (answered, turned_away) = (latencies.len(), self.turned_away[which]);
        let all = (which..self.arrived as usize)
            .step_by(DOWNSTREAMS.len())
            .len();
        Row {
            answered,
            turned_away,
            in_vain: all - answered - turned_away,
            p50: at(50).unwrap_or_default(),
            p95: at(95).unwrap_or_default(),
        }
    }
}

fn next(arrivals: &Mutex<Range<u32>>) -> Option<u32> {
    let mut arrivals = arrivals.lock().unwrap_or_else(|torn| torn.into_inner());
    arrivals.next()
}

fn call(limiter: Option<&InFlightLimiter<&'static str>>, which: usize) -> Result<(), LimiterError> {
    let (name, takes) = DOWNSTREAMS[which];
    match limiter {
        None => {
            thread::sleep(takes);
            Ok(())
        }
        Some(limiter) => limiter.run(name, |_| thread::sleep(takes)),
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    answered: usize,
    turned_away: usize,
    in_vain: usize,
    #[serde(serialize_with = "millis")]
    p50: Duration,
    #[serde(serialize_with = "millis")]
    p95: Duration,
}

fn millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64() * 1e3)
}

fn json(without: &Outcome, with: &Outcome, limiter: &LimiterSnapshot<&str>) -> serde_json::Value {
    let rows = |outcome: &Outcome| -> serde_json::Map<String, serde_json::Value> {
        let named = DOWNSTREAMS.iter().enumerate();
        named
            .map(|(which, (name, _))| ((*name).into(), serde_json::json!(outcome.row(which))))
            .collect()
    };
    serde_json::json!({
        "without": rows(without),
        "with": rows(with),
        "limiter": limiter,
    })
}

fn show(options: &Options, without: &Outcome, with: &Outcome, limiter: &LimiterSnapshot<&str>) {
    print_line!(
        "{WORKERS} workers, a call every {PACE:?} for {:?}; {SLOW} takes 50 ms, the others 1 ms\n",
        options.span
    );
    print_line!(
        "{:<12}{:<14}{:>9}{:>13}{:>9}{:>10}{:>10}   answered",
        "downstream",
        "",
        "answered",
        "turned away",
        "in vain",
        "p50",
        "p95"
    );
    let limited = format!("{SLOW} limited to {}", options.limit);
    let most = (0..DOWNSTREAMS.len())
        .flat_map(|which| [without, with].map(|outcome| outcome.row(which).answered))
        .max()
        .unwrap_or(1)
        .max(1);
    for (which, (name, _)) in DOWNSTREAMS.iter().enumerate() {
        for (how, outcome, lead) in [("no limiter", without, *name), ("with limiter", with, "")] {
            let row = outcome.row(which);
            print_line!(
                "{lead:<12}{how:<14}{:>9}{:>13}{:>9}{:>10}{:>10}   {}",
                row.answered,
                row.turned_away,
                row.in_vain,
                short(row.p50),
                short(row.p95),
                "█".repeat((row.answered * 30).div_ceil(most)),
            );
        }
    }
    print_line!("in vain: it still waited in the service's backlog when the time was up");
    print_line!("\nlatency at p95, from arrival to answer, each █ a fiftieth of the time\n");
    for (which, (name, _)) in DOWNSTREAMS.iter().enumerate() {
        for (how, outcome, lead) in [("no limiter", without, *name), ("with limiter", with, "")] {
            let p95 = outcome.row(which).p95;
            let bar = (p95.as_secs_f64() / options.span.as_secs_f64() * 50.0).ceil();
            print_line!(
                "{lead:<12}{how:<14}{:>9}  {}",
                short(p95),
                "█".repeat(bar as usize)
            );
        }
    }
    print_line!("\nwhat the limiter says ({limited}):\n{limiter}");
    let fast = |outcome: &Outcome| outcome.row(0).answered + outcome.row(1).answered;
    print_line!(
        "\nIn the same time the two fast downstreams answered {} calls without the limiter, and {} with it.",
        fast(without),
        fast(with)
    );
}

fn short(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
