//! The command-line tool of doclock: runs scripts, replays recorded histories, and reads the files
//! of durable documents.

mod args;
mod commands;
mod document;
mod error;
mod format;
mod input;
mod output;
mod progress;
mod recorded_history;
mod timeline;

use std::panic;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use error::{CommandOutcome, ToolError};

fn main() -> ExitCode {
    // A library that panics over a damaged file is caught by the crate, and reported as one line.
    panic::set_hook(Box::new(|_| {}));
    let outcome = panic::catch_unwind(|| match Args::try_parse() {
        Ok(args) => run(args.command),
        Err(error) => usage(&error),
    });
    match outcome {
        Ok(Ok(CommandOutcome::Fine)) => ExitCode::SUCCESS,
        Ok(Ok(CommandOutcome::Difference)) => ExitCode::from(1),
        Ok(Err(error)) => {
            output::complain(&error);
            ExitCode::from(error.exit_code())
        }
        Err(payload) => {
            let message = payload.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| payload.downcast_ref::<&str>().copied());
            let message = message.unwrap_or("no message");
            output::complain(format_args!("internal error: {message}"));
            ExitCode::from(INTERNAL_ERROR)
        }
    }
}

/// The exit code of a program of Rust that panics.
const INTERNAL_ERROR: u8 = 101;

fn run(command: Command) -> Result<CommandOutcome, ToolError> {
    match command {
        Command::Run(args) => commands::run::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Log(args) => commands::log::run(&args),
        Command::Show(args) => commands::show::run(&args),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Salvage(args) => commands::salvage::run(&args),
        Command::Compact(args) => commands::compact::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Timeline(args) => commands::timeline::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Completions { shell } => commands::generate::completions(shell),
        Command::Man { out } => commands::generate::man(out.as_deref()),
    }
}

/// Prints the help or the version that was requested, or returns the error in one line.
fn usage(error: &clap::Error) -> Result<CommandOutcome, ToolError> {
    use clap::error::ErrorKind;

    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::print(&text)?;
            return Ok(CommandOutcome::Fine);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            return Err(ToolError::Usage("a command is missing".to_owned()));
        }
        _ => {}
    }
    let reason = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = reason.lines().map(str::trim);
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    Err(ToolError::Usage(lines.join(" ")))
}
