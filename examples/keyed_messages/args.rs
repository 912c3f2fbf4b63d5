//! The command line.

use std::ops::RangeInclusive;
use std::time::Duration;

use lexopt::prelude::*;

use crate::common::Given;

pub const HELP: &str = "\
Books a batch of messages to accounts by a few worker threads: with a lock for each account, and without.

usage: keyed_messages [--messages N] [--workers N] [--work MS]

  --messages N  how many there are; 24 unless given, 1 to 200
  --workers N   how many threads book them; 4 unless given, 1 to 9
  --work MS     for how many milliseconds a short message keeps a worker; 10 unless given, 1 to 30
  -h, --help    prints this

exit code: 0 if everything came out as it should, 1 if not, 2 if the input was bad
";

pub enum Command {
    Help,
    Run(Options),
}

#[derive(Clone, Copy)]
pub struct Options {
    pub messages: u32,
    pub workers: u32,
    /// The duration of a short message.
    pub work: Duration,
}

/// Parses the command line; an error is a sentence for the user.
pub fn parse(mut words: lexopt::Parser) -> Result<Command, String> {
    let mut options = Options {
        messages: 24,
        workers: 4,
        work: Duration::from_millis(10),
    };
    let mut given = Given::default();
    while let Some(word) = words.next().map_err(hint)? {
        given.once(&word)?;
        match word {
            Long("help") | Short('h') => return Ok(Command::Help),
            Long("messages") => options.messages = number("--messages", &mut words, 1..=200)?,
            Long("workers") => options.workers = number("--workers", &mut words, 1..=9)?,
            Long("work") => {
                let millis = number("--work", &mut words, 1..=30)?;
                options.work = Duration::from_millis(millis.into());
            }
            unknown => return Err(hint(unknown.unexpected())),
        }
    }
    Ok(Command::Run(options))
}

fn number(
    option: &str,
    words: &mut lexopt::Parser,
    range: RangeInclusive<u32>,
) -> Result<u32, String> {
    let word = words.value().map_err(hint)?;
    let number = word.to_str().and_then(|word| word.parse().ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (least, most) = range.into_inner();
            let word = word.display();
            format!("{option} takes a number from {least} to {most}, not `{word}`")
        })
}

fn hint(error: lexopt::Error) -> String {
    format!("{error}; --help lists what there is")
}
