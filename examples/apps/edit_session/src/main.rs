//! doclock's main job on a real document: many editors, one store, everything checked.
//!
//! ```text
//! cargo run --release -p edit_session -- [FILE.md] [--editors N] [--store PATH [--kill-after N]]
//! cargo run --release -p edit_session -- --trace FILE.json[.gz] [--store PATH]
//! ```
//!
//! Reads a Markdown file into a tree of nodes. Several threads edit it at once, and a part of their
//! transactions is made to fail. Alternatively each thread replays a recorded editing history.
//! Meanwhile a reader checks snapshots, and a replica follows the commit events. The program prints
//! the results of the checks, and the metrics of the lock.
//!
//! With `--store` a file keeps the document, and is opened again at the end. With `--kill-after`
//! another process edits it first and is killed, and all of its acknowledged commits have to be
//! there.
//!
//! Exits with 0 if all checks passed, with 1 if one failed, and with 2 if the input was invalid.

#![expect(
    unreachable_pub,
    reason = "in a program, nothing is public further than this"
)]

mod args;
#[path = "../../../common/mod.rs"]
mod common;
mod doom;
mod editors;
mod input;
mod kill;
mod plan;
mod random;
mod reader;
mod replica;
mod report;
mod rich;
mod session;
mod splice;
mod stored;
mod trace;
mod walk;

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use doclock::{DataStore, document::NodeSpec};

use args::{Command, Options, Work};
use input::BadInput;
use report::Report;
use stored::Stored;

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
    let mut words = env::args_os().skip(1).peekable();
    let is_child = words.next_if(|word| word == kill::CHILD).is_some();
    let command = args::parse(lexopt::Parser::from_args(words))?;
    let (text, held) = match command {
        Command::Help => (args::HELP.to_owned(), true),
        Command::Run(options) if is_child => {
            kill::edit(&options)?;
            return Ok(false);
        }
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
            kill_after,
        } => {
            let given = file.as_deref().map(markdown).transpose()?;
            let (mut store, mut stored) = open(options, given.is_some())?;
            let (source, mut document) = match (file, &stored) {
                (None, Some(stored)) if store.version() > 0 => (stored.path.clone(), None),
                (None, _) => (args::readme(), Some(markdown(&args::readme())?)),
                (Some(file), _) => (file.clone(), given),
            };
            if let (Some(stored), Some(kill_after)) = (&mut stored, kill_after) {
                if let Some(document) = document.take() {
                    session::import(&store, document)?;
                }
                store = kill::kill(stored, store, options, *seed, *kill_after)?;
            }
            let nodes = document.as_ref().map(NodeSpec::len);
            let nodes = nodes.unwrap_or_else(|| store.snapshot().len());
            let workers = editors::workers(editors, *transactions, *seed, nodes);
            let outcome = session::run(store, stored, document, workers)?;
            Ok(Report::of_edits(&source, editors, *seed, outcome))
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
            let (store, stored) = open(options, true)?;
            let document = Some(trace.document(editors));
            let outcome = session::run(store, stored, document, workers)?;
            Ok(Report::of_replay(file, editors, &trace, outcome))
        }
    }
}

fn markdown(file: &Path) -> Result<NodeSpec, BadInput> {
    Ok(doclock_formats::markdown::from_markdown(&input::text(
        file,
    )?))
}

/// Opens the store: in a file, if the options name one.
fn open(
    options: &Options,
    document_is_given: bool,
) -> Result<(DataStore, Option<Stored>), BadInput> {
    let Some(path) = &options.store else {
        return Ok((DataStore::new(), None));
    };
    let (store, stored) = Stored::open(path, document_is_given)?;
    Ok((store, Some(stored)))
}
