//! The command line.

use std::ops::RangeInclusive;
use std::time::Duration;

use lexopt::prelude::*;

use crate::common::Given;

pub const HELP: &str = "\
Lets two editors work in two sections of one document at once, and then run into each other.

usage: two_editors [--work MS]

  --work MS    for how many milliseconds each of them is at work in a section; 120 unless given
  -h, --help   prints this

exit code: 0 if everything came out as it should, 1 if not, 2 if the input was bad
";

/// Each editor works twice, the second time in sequence, so the program ends within two seconds.
const WORK: RangeInclusive<u64> = 1..=500;

pub enum Command {
    Help,
    Run { work: Duration },
}

/// Parses the command line; an error is a line for the user.
pub fn parse(mut words: lexopt::Parser) -> Result<Command, String> {
    let mut work = None;
    let mut given = Given::default();
    while let Some(word) = words.next().map_err(hint)? {
        given.once(&word)?;
        match word {
            Long("help") | Short('h') => return Ok(Command::Help),
            Long("work") => work = Some(millis(&mut words)?),
            unknown => return Err(hint(unknown.unexpected())),
        }
    }
    let work = Duration::from_millis(work.unwrap_or(120));
    Ok(Command::Run { work })
}

fn millis(words: &mut lexopt::Parser) -> Result<u64, String> {
    let word = words.value().map_err(hint)?;
    let millis = word.to_str().and_then(|word| word.parse().ok());
    millis
        .filter(|millis| WORK.contains(millis))
        .ok_or_else(|| {
            let (least, most) = WORK.into_inner();
            let word = word.display();
            format!("--work takes a number of milliseconds from {least} to {most}, not `{word}`")
        })
}

fn hint(error: lexopt::Error) -> String {
    format!("{error}; --help lists what there is")
}
