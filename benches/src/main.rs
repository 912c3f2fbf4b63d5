//! Side-by-side benchmarks: doclock beside well-kept crates that do comparable work.
//!
//! ```text
//! cargo run --release -p doclock-bench -- SUITE [--json] [--rounds N]
//! ```
//!
//! No figure is quoted from elsewhere: whatever is compared runs in this process, in alternating
//! rounds, on the same machine and allocator, doing the same work.

mod measure;
mod random;
mod report;
mod suites;

use std::process::ExitCode;

use report::Report;

/// Errors only end the run, so any of them will do.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str =
    "usage: doclock-bench lock|transaction|text|document|replay|all [--json] [--rounds N]";

/// A suite measures all its subjects for so many rounds and hands its rows to the report.
type Suite = fn(usize, &Report) -> Result;

struct Arguments {
    suites: Vec<Suite>,
    rounds: usize,
    json: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let arguments = match parse(words) {
        Ok(arguments) => arguments,
        Err(reason) => {
            eprintln!("{reason}; {USAGE}");
            return ExitCode::from(2);
        }
    };
    let report = Report::new(arguments.json);
    for suite in arguments.suites {
        if let Err(error) = suite(arguments.rounds, &report) {
            eprintln!("benchmark failed: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn parse(words: Vec<String>) -> std::result::Result<Arguments, String> {
    let mut suites = None;
    let mut rounds = 7;
    let mut json = false;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => json = true,
            "--rounds" => {
                rounds = words
                    .next()
                    .and_then(|number| number.parse().ok())
                    .filter(|&number| number > 0)
                    .ok_or("--rounds needs a number above 0")?;
            }
            name if suites.is_none() && !name.starts_with('-') => {
                suites = Some(named(name).ok_or_else(|| format!("no suite named {name:?}"))?);
            }
            other => return Err(format!("unexpected argument {other:?}")),
        }
    }
    let suites = suites.ok_or("no suite named")?;
    Ok(Arguments {
        suites,
        rounds,
        json,
    })
}

fn named(name: &str) -> Option<Vec<Suite>> {
    use suites::{document, lock, replay, text, transaction};
    Some(match name {
        "lock" => vec![lock::run],
        "transaction" => vec![transaction::run],
        "text" => vec![text::run],
        "document" => vec![document::run],
        "replay" => vec![replay::run],
        "all" => vec![
            lock::run,
            transaction::run,
            text::run,
            document::run,
            replay::run,
        ],
        _ => return None,
    })
}
