//! The command line.

use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use lexopt::prelude::*;

use crate::common::Given;
use crate::input::BadInput;

pub const HELP: &str = "\
Lets several editors work on one document at once and checks that everything holds.

usage: edit_session [FILE.md] [--editors N] [--transactions N] [--seed N] [--json]
                    [--store PATH [--kill-after N]]
       edit_session --trace FILE.json[.gz] [--editors N] [--json] [--store PATH]

  FILE.md            the Markdown file to edit; the repository's README.md unless given
  --trace FILE       replays a recorded, sequential editing history instead, once per editor
  --editors N        how many editors work side by side, each in a thread of its own; 4 unless given
  --transactions N   how many transactions they run in total; 20000 unless given
  --seed N           makes the same plans again; with one editor, the same run. Random unless given
  --store PATH       keeps the document in a file. If PATH exists, its document is edited further,
                     and neither FILE.md nor --trace may be given
  --kill-after N     before these transactions, the editors of another process edit the document. It
                     is killed after N acknowledged commits, and all of them have to be in the file
  --json             prints one JSON object instead of tables
  -h, --help         prints this

exit code: 0 if everything held, 1 if something did not, 2 if the input was bad
";

/// More threads than this show nothing new.
const EDITORS: RangeInclusive<u64> = 1..=1000;
/// The most: the channel for commit events has a slot for each, allocated at the start.
pub const TRANSACTIONS: u64 = 10_000_000;

pub enum Command {
    Help,
    Run(Options),
}

pub struct Options {
    pub work: Work,
    pub editors: usize,
    /// The file that keeps the document.
    pub store: Option<PathBuf>,
    pub json: bool,
}

/// The work of the editors.
pub enum Work {
    /// Edits of all kinds on a Markdown file.
    Markdown {
        file: Option<PathBuf>,
        transactions: usize,
        seed: u64,
        /// After how many acknowledged commits a process is killed first.
        kill_after: Option<u64>,
    },
    /// A recorded editing history.
    Trace(PathBuf),
}

/// Reads the command line.
pub fn parse(mut words: lexopt::Parser) -> Result<Command, BadInput> {
    let mut file: Option<PathBuf> = None;
    let mut trace: Option<PathBuf> = None;
    let mut editors = 4;
    let mut transactions = None;
    let mut seed = None;
    let mut store: Option<PathBuf> = None;
    let mut kill_after = None;
    let mut json = false;
    let mut given = Given::default();
    while let Some(word) = words.next().map_err(hint)? {
        given.once(&word).map_err(BadInput)?;
        match word {
            Long("help") | Short('h') => return Ok(Command::Help),
            Long("json") => json = true,
            Long("editors") => editors = number("--editors", &mut words, EDITORS)? as usize,
            Long("transactions") => {
                transactions =
                    Some(number("--transactions", &mut words, 0..=TRANSACTIONS)? as usize);
            }
            Long("seed") => seed = Some(number("--seed", &mut words, 0..=u64::MAX)?),
            Long("store") => store = Some(words.value().map_err(hint)?.into()),
            Long("kill-after") => {
                kill_after = Some(number("--kill-after", &mut words, 1..=TRANSACTIONS)?);
            }
            Long("trace") => trace = Some(words.value().map_err(hint)?.into()),
            Value(path) if file.is_none() => file = Some(path.into()),
            Value(path) => return bad(format!("more than one file: {}", path.display())),
            unknown => return Err(hint(unknown.unexpected())),
        }
    }
    if kill_after.is_some() && store.is_none() {
        return bad(
            "--kill-after needs --store, because a document in memory dies with its process",
        );
    }
    let work = match trace {
        Some(_) if file.is_some() => {
            return bad("a file and --trace: one of them is to be given, not both");
        }
        Some(_) if transactions.is_some() || seed.is_some() => {
            return bad("--trace leaves nothing for --transactions and --seed to say");
        }
        Some(_) if kill_after.is_some() => {
            return bad("--kill-after kills editors of a Markdown file, not of --trace");
        }
        Some(trace) => Work::Trace(trace),
        None => Work::Markdown {
            file,
            transactions: transactions.unwrap_or(20_000),
            seed: seed.unwrap_or_else(random_seed),
            kill_after,
        },
    };
    Ok(Command::Run(Options {
        work,
        editors,
        store,
        json,
    }))
}

fn number(
    option: &str,
    words: &mut lexopt::Parser,
    range: RangeInclusive<u64>,
) -> Result<u64, BadInput> {
    let word = words.value().map_err(hint)?;
    let number = word.to_str().and_then(|word| word.parse().ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (least, most) = range.into_inner();
            let word = word.display();
            BadInput(format!(
                "{option} takes a number from {least} to {most}, not `{word}`"
            ))
        })
}

fn bad<T>(reason: impl Into<String>) -> Result<T, BadInput> {
    Err(BadInput(reason.into()))
}

fn hint(error: lexopt::Error) -> BadInput {
    BadInput(format!("{error}; --help lists what there is"))
}

fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(3).unwrap_or(package)
}

/// The file that is edited unless another is given.
pub fn readme() -> PathBuf {
    repository().join("README.md")
}

/// Short enough to be typed again, and exact in any reader of JSON numbers.
fn random_seed() -> u64 {
    RandomState::new().hash_one("seed") >> 32
}
