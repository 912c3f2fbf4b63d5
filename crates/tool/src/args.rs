//! The command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::error::exit_codes;

/// Runs scripts on documents, replays recorded histories, and reads the files of durable documents.
#[derive(Debug, Parser)]
#[command(name = "doclock", version, after_help = exit_codes(), subcommand_required = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a script on a document, in several editors at once, and prints the lock's statistics.
    #[command(after_help = exit_codes())]
    Run(RunArgs),
    /// Replays a recorded editing history, and compares the text at its end.
    #[command(after_help = exit_codes())]
    Replay(ReplayArgs),
    /// Lists the commits that a durable file has.
    #[command(after_help = exit_codes())]
    Log(LogArgs),
    /// Prints the document of a durable file, as of a version.
    #[command(after_help = exit_codes())]
    Show(ShowArgs),
    /// Prints what differs between two versions of a durable file.
    #[command(after_help = exit_codes())]
    Diff(DiffArgs),
    /// Checks a durable file: its checksums, and that the replayed log equals the checkpoint.
    #[command(after_help = exit_codes())]
    Verify(VerifyArgs),
    /// Exports what can still be read of a damaged durable file, and reports what is missing.
    #[command(after_help = exit_codes())]
    Salvage(SalvageArgs),
    /// Makes a durable file as small as it can be.
    #[command(after_help = exit_codes())]
    Compact(CompactArgs),
    /// Writes the document of a durable file, as of a version, to a JSON, Markdown or HTML file.
    #[command(after_help = exit_codes())]
    Export(ExportArgs),
    /// Makes a page or a trace of the timeline of a lock, which a program has written as JSON.
    #[command(after_help = exit_codes())]
    Timeline(TimelineArgs),
    /// Shows the diagnostics of a running program that has a diagnostics server, once a second.
    #[command(after_help = exit_codes())]
    Watch(WatchArgs),
    /// Prints the completions for a shell.
    #[command(after_help = exit_codes())]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Prints the man page, or writes one page for each command.
    #[command(after_help = exit_codes())]
    Man {
        /// Writes `doclock.1` and a page for each command to this folder.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// The document: Markdown (.md), HTML (.html), a snapshot (.json), or a durable file
    /// (.doclock), which is created if it does not exist and keeps the edits.
    pub(crate) doc: PathBuf,
    /// The script: the operations of one transaction, in the JSON form of the DSL.
    pub(crate) script: PathBuf,
    /// How many editors run the script, each in a thread of its own.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) editors: u32,
    /// How often each editor runs the script.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) repeat: u32,
    /// Lets other programs read the durable file meanwhile; each write then takes longer.
    #[arg(long)]
    pub(crate) allow_readers: bool,
    /// Writes the timeline of the lock to this file, which `doclock timeline` reads.
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Option<PathBuf>,
    /// Writes the document at the end to this file: .md, .html or .json.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Prints one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TimelineArgs {
    /// The timeline; `-` is the standard input.
    pub(crate) file: PathBuf,
    /// Writes a page to this file: which owner waited for which, on a zoomable timeline.
    #[arg(long, value_name = "OUT", required_unless_present = "chrome")]
    pub(crate) html: Option<PathBuf>,
    /// Writes a Chrome trace to this file, for Perfetto.
    #[arg(long, value_name = "OUT")]
    pub(crate) chrome: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WatchArgs {
    /// Where the program listens: the path of a Unix socket, `127.0.0.1:PORT`, or `PORT`.
    pub(crate) address: String,
    /// The time between two pictures, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    pub(crate) interval: u64,
    /// Prints one picture, as always if the output is no terminal.
    #[arg(long)]
    pub(crate) once: bool,
    /// Prints the pictures as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReplayArgs {
    /// The recorded history: .json or .json.gz.
    pub(crate) trace: PathBuf,
    /// How many editors replay it, each on a text of its own, in a thread of its own.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) editors: u32,
    /// Prints one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LogArgs {
    /// The durable file.
    pub(crate) file: PathBuf,
    /// The first version.
    #[arg(long, value_name = "V")]
    pub(crate) from: Option<u64>,
    /// The last version.
    #[arg(long, value_name = "V")]
    pub(crate) to: Option<u64>,
    /// Prints one JSON document, with the changes of each commit.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The form in which a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// An outline of all nodes, with their ids.
    Text,
    Markdown,
    Html,
    /// All nodes with ids, as `run` and the crate read them.
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// The durable file.
    pub(crate) file: PathBuf,
    /// The version; by default the last one.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    /// The form.
    #[arg(long, value_enum, default_value_t = Form::Text)]
    pub(crate) format: Form,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DiffArgs {
    /// The durable file.
    pub(crate) file: PathBuf,
    /// The version before.
    #[arg(value_name = "V1")]
    pub(crate) before: u64,
    /// The version after.
    #[arg(value_name = "V2")]
    pub(crate) after: u64,
    /// Prints one JSON document, with the changes that lead from one version to the other.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct VerifyArgs {
    /// The durable file.
    pub(crate) file: PathBuf,
    /// Prints one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SalvageArgs {
    /// The damaged file, which is only read.
    pub(crate) file: PathBuf,
    /// A new file to write: .doclock, which a program can open, or .json, .md or .html. Can be
    /// given several times; without it, only the report is printed.
    #[arg(long, value_name = "OUT")]
    pub(crate) to: Vec<PathBuf>,
    /// Prints the report as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CompactArgs {
    /// The durable file, which no program has open.
    pub(crate) file: PathBuf,
    /// Prints one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    /// The durable file.
    pub(crate) file: PathBuf,
    /// The version; by default the last one.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    /// The file to write: .json, .md or .html. An existing one is replaced.
    #[arg(long, value_name = "OUT")]
    pub(crate) to: PathBuf,
}
