//! Two editors in two sections of one document at once, and a deadlock between them.
//!
//! ```text
//! cargo run --release --example two_editors -- [--work MS]
//! ```
//!
//! Ann and Bob each rewrite a section: first with a lock on that section, then with the lock on the
//! whole document. A timeline shows when each lock was held. Then each editor proceeds, in code and
//! without declaring it, to the section of the other. One of the two requests fails with a report
//! of the cycle of waits, and its editor retries.
//!
//! Exits with 0 if all checks passed, with 1 if one failed, and with 2 if the input was invalid.

#![expect(
    unreachable_pub,
    reason = "in a program, nothing is public further than this"
)]

mod args;
#[path = "../common/mod.rs"]
mod common;
mod cycle;
mod document;
mod overlap;
mod timeline;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use args::Command;
use doclock::DataStore;
use doclock_formats::markdown::to_markdown;
use overlap::Locking;

/// An error crosses threads.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let command = match args::parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(reason) => return complain(&reason, 2),
    };
    let shown = match command {
        Command::Help => print(args::HELP),
        Command::Run { work } => match show(work) {
            Ok(text) => print(&text),
            Err(error) => return complain(&error.to_string(), 1),
        },
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string(), 1),
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout();
    output.write_all(text.as_bytes())?;
    output.flush()
}

fn complain(reason: &str, code: u8) -> ExitCode {
    common::complain(format_args!("two_editors: {reason}"));
    ExitCode::from(code)
}

/// The complete output.
fn show(work: Duration) -> Result<String, Failure> {
    let store = DataStore::new();
    let root = document::fill(&store)?;
    let on_nodes = overlap::run(&store, Locking::Section, work)?;
    let on_whole = overlap::run(&store, Locking::Document, work)?;
    let met = cycle::run(&store)?;
    let stats = store.node_locks().stats();
    if (stats.holders, stats.waiting, stats.entries) != (0, 0, 0) {
        return Err(format!("a lock is still held or waited for:\n{stats}").into());
    }
    Ok(format!(
        "{}\n{met}\nthe document now, version {}\n\n{}",
        timeline::compare(&on_nodes, &on_whole),
        store.version(),
        to_markdown(&store.snapshot(), &root)?,
    ))
}
