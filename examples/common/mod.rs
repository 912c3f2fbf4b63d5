//! Code shared by several examples: arguments and output.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each example uses its part"
)]

use std::fmt;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::process::{self, ExitCode};

/// Like `println!`, but if standard output cannot be written, the program exits with 1 and without
/// a panic.
macro_rules! print_line {
    ($($text:tt)*) => {
        $crate::common::print(format_args!("{}\n", format_args!($($text)*)))
    };
}

pub(crate) use print_line;

/// Prints a text, or exits with 1.
pub(crate) fn print(text: fmt::Arguments<'_>) {
    let mut output = io::stdout().lock();
    if output
        .write_fmt(text)
        .and_then(|()| output.flush())
        .is_err()
    {
        process::exit(1);
    }
}

/// Prints one line to standard error, with control characters replaced by spaces. If that line
/// cannot be written, only the exit code reports the error.
pub(crate) fn complain(reason: impl fmt::Display) {
    let line = reason.to_string().replace(char::is_control, " ");
    let _ = writeln!(io::stderr(), "{line}");
}

/// The options given so far; each may be given once.
#[derive(Default)]
pub(crate) struct Given(Vec<String>);

impl Given {
    /// Records an option, and rejects a repeated one.
    pub(crate) fn once(&mut self, word: &lexopt::Arg<'_>) -> Result<(), String> {
        let lexopt::Arg::Long(option) = word else {
            return Ok(());
        };
        if self.0.iter().any(|given| given == option) {
            return Err(format!("more than one --{option}"));
        }
        self.0.push((*option).to_owned());
        Ok(())
    }
}

/// The parsed arguments, or the exit code if the program only lists its options or the arguments
/// are invalid.
pub(crate) fn wanted<T>(read: Result<Option<T>, String>, help: &str) -> Result<T, ExitCode> {
    match read {
        Ok(Some(options)) => Ok(options),
        Ok(None) => {
            print(format_args!("{help}"));
            Err(ExitCode::SUCCESS)
        }
        Err(reason) => {
            complain(format_args!("{reason}; --help lists what there is"));
            Err(ExitCode::from(2))
        }
    }
}

/// The number after an option.
pub(crate) fn number(
    option: &str,
    words: &mut lexopt::Parser,
    range: RangeInclusive<u64>,
) -> Result<u64, String> {
    let word = words.value().map_err(|error| error.to_string())?;
    let number = word.to_str().and_then(|word| word.parse().ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (least, most) = range.into_inner();
            let word = word.display();
            format!("{option} takes a number from {least} to {most}, not `{word}`")
        })
}
