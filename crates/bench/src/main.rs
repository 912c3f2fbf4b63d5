//! Side-by-side benchmarks: doclock and well-maintained crates that do comparable work.
//!
//! ```text
//! cargo run --release -p doclock-bench -- SUITE [--json] [--rounds N]
//! ```
//!
//! No result is quoted from elsewhere: all subjects run in this process, in alternating rounds, on
//! the same machine and allocator, with the same work.

mod bare;
mod machine;
mod measure;
mod options;
mod page;
mod random;
mod report;
mod suites;

use std::process::ExitCode;

use machine::Machine;
use options::{Cluster, Contended, Growth, Options};
use report::Report;
use suites::{
    cluster, contended, diagnostics, document, durable, editors, growth, lock, node_locks,
    observed, primitives, replay, tasks, text, transaction,
};

/// Errors only end the run, so any type is fine.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
usage: doclock-bench lock|node-locks|contended|tasks|primitives|transaction|text|document|durable|editors|diagnostics|observed|replay|growth|cluster|all [--json] [--rounds N]
       doclock-bench report FILE... --out FOLDER
       contended also takes [--threads N,N..] [--lengths MICROSECONDS,..] [--millis N]
       growth also takes [--most SIZE]
       cluster also takes [--commits N], and needs a PostgreSQL server and a feature:
       scripts/with-postgres cargo run --release -p doclock-bench --features cluster -- cluster
       all includes cluster only with that feature, and if PGHOST is set";

/// A suite measures all its subjects for some rounds and passes its rows to the report.
type Suite = fn(&Options, &Report) -> Result;

const SUITES: [(&str, Suite); 15] = [
    ("lock", |options, report| lock::run(rounds(options), report)),
    ("node-locks", |options, report| {
        node_locks::run(rounds(options), report)
    }),
    (CONTENDED, |options, report| {
        contended::run(options.rounds, &options.contended, report)
    }),
    ("tasks", |options, report| {
        tasks::run(options.rounds, report)
    }),
    ("primitives", |options, report| {
        primitives::run(rounds(options), report)
    }),
    ("transaction", |options, report| {
        transaction::run(rounds(options), report)
    }),
    ("observed", |options, report| {
        observed::run(rounds(options), report)
    }),
    ("text", |options, report| text::run(rounds(options), report)),
    ("document", |options, report| {
        document::run(rounds(options), report)
    }),
    ("durable", |options, report| {
        durable::run(options.rounds.unwrap_or(3), report)
    }),
    ("editors", |options, report| {
        editors::run(rounds(options), report)
    }),
    ("diagnostics", |options, report| {
        diagnostics::run(rounds(options), report)
    }),
    ("replay", |options, report| {
        replay::run(rounds(options), report)
    }),
    (GROWTH, |options, report| {
        growth::run(options.rounds, &options.growth, report)
    }),
    (CLUSTER, |options, report| {
        cluster::run(options.rounds.unwrap_or(5), &options.cluster, report)
    }),
];

const CONTENDED: &str = "contended";
const GROWTH: &str = "growth";
const CLUSTER: &str = "cluster";

/// All suites, one after the other.
const ALL: &str = "all";

fn rounds(options: &Options) -> usize {
    options.rounds.unwrap_or(7)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match words
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        Some(("report", words)) => return ended(page::run(words)),
        // The suite starts this program as the owner that it kills.
        Some((cluster::OWNER, words)) => return ended(cluster::owner(words)),
        _ => {}
    }
    let (options, suites) = match asked(words) {
        Ok(asked) => asked,
        Err(reason) => {
            eprintln!("{reason}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    ended(measured(&options, &suites))
}

fn measured(options: &Options, suites: &[Suite]) -> Result {
    let report = Report::new(options.json);
    report.machine(&Machine::found(options.rounds))?;
    suites.iter().try_for_each(|suite| suite(options, &report))
}

fn ended(result: Result) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("benchmark failed: {error}");
            // The error of a database says in its source what it is.
            let mut source = error.source();
            while let Some(error) = source {
                eprint!(": {error}");
                source = error.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn asked(words: Vec<String>) -> std::result::Result<(Options, Vec<Suite>), String> {
    let options = Options::parse(words.into_iter())?;
    let name = options.suite.as_deref().ok_or("no suite named")?;
    let suites: Vec<Suite> = SUITES
        .iter()
        .filter(|(suite, _)| name == *suite || (name == ALL && is_possible(suite)))
        .map(|(_, run)| *run)
        .collect();
    if suites.is_empty() {
        return Err(format!("no suite named {name:?}"));
    }
    for (suite, unused) in [
        (CONTENDED, options.contended == Contended::default()),
        (GROWTH, options.growth == Growth::default()),
        (CLUSTER, options.cluster == Cluster::default()),
    ] {
        if !unused && name != suite && name != ALL {
            return Err(format!("only the suite {suite} has those options"));
        }
    }
    Ok((options, suites))
}

/// Whether all suites include this one.
fn is_possible(suite: &str) -> bool {
    suite != CLUSTER || cluster::is_possible()
}
