//! doclock's main job on a real document: many editors, one store, everything checked.
//!
//! ```text
//! cargo run --release --example edit_session -- [FILE.md] [--editors N] [--transactions N] [--json]
//! cargo run --release --example edit_session -- --trace FILE.json[.gz] [--editors N] [--json]
//! ```
//!
//! Reads a Markdown file into a tree of nodes. Several threads edit it at once, and a part of their
//! transactions is made to fail. Alternatively each thread replays a recorded editing history.
//! Meanwhile a reader checks snapshots, and a replica follows the commit events. The program prints
//! the results of the checks, and the metrics of the lock.
//!
//! Exits with 0 if all checks passed, with 1 if one failed, and with 2 if the input was invalid.

#![expect(
    unreachable_pub,
    reason = "in a program, nothing is public further than this"
)]

mod args;
#[path = "../common/mod.rs"]
mod common;
mod doom;
mod editors;
mod input;
mod plan;
mod random;
mod reader;
mod replica;
mod report;
mod rich;
mod session;
mod splice;
mod trace;
mod walk;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use args::{Command, Options, Work};
use input::BadInput;
use report::Report;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            common::complain(format_args!("edit_session: {error}"));
            ExitCode::from(if error.is::<BadInput>() { 2 } else { 1 })
        }
    }
}

/// Whether all checks passed.
fn run() -> Result<bool, Box<dyn Error>> {
    let command = args::parse(lexopt::Parser::from_env())?;
    let (text, held) = match command {
        Command::Help => (args::HELP.to_owned(), true),
        Command::Run(options) => {
            let report = session(&options)?;
            let text = match options.json {
                true => serde_json::to_string(&report)? + "\n",
                false => report.to_string(),
            };
            (text, report.held)
        }
    };
    // All at once and last, so standard output has the complete report or nothing.
    let mut output = io::stdout();
    output.write_all(text.as_bytes())?;
    output.flush()?;
    Ok(held)
}

fn session(options: &Options) -> Result<Report, Box<dyn Error>> {
    let editors = options.editors;
    match &options.work {
        Work::Markdown {
            file,
            transactions,
            seed,
        } => {
            let markdown = input::text(file)?;
            let document = doclock::markdown::from_markdown(&markdown);
            let workers = editors::workers(editors, *transactions, *seed, document.len());
            let outcome = session::run(document, workers, *transactions)?;
            Ok(Report::of_edits(file, editors, *seed, outcome))
        }
        Work::Trace(file) => {
            let trace = trace::Trace::load(file)?;
            if trace.size().saturating_mul(editors) > input::TEXTS {
                let (size, most) = (trace.size(), input::TEXTS >> 20);
                let reason = format!(
                    "{editors} editors have {editors} texts of {size} bytes, more than {most} MiB"
                );
                return Err(BadInput::of(file, reason).into());
            }
            let workers = trace.workers(editors);
            let transactions = editors * trace.transactions();
            if transactions as u64 > args::TRANSACTIONS {
                let most = args::TRANSACTIONS;
                let reason = format!(
                    "{editors} editors make {transactions} transactions of it, more than {most}"
                );
                return Err(BadInput::of(file, reason).into());
            }
            let outcome = session::run(trace.document(editors), workers, transactions)?;
            Ok(Report::of_replay(file, editors, &trace, outcome))
        }
    }
}
