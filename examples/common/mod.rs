//! What several examples read of their arguments.

use std::ops::RangeInclusive;
use std::process::ExitCode;

/// What is to be done; or with what to end at once, when that was to list the options, or could not be read.
pub(crate) fn wanted<T>(read: Result<Option<T>, String>, help: &str) -> Result<T, ExitCode> {
    match read {
        Ok(Some(options)) => Ok(options),
        Ok(None) => {
            print!("{help}");
            Err(ExitCode::SUCCESS)
        }
        Err(reason) => {
            eprintln!("{reason}; --help lists what there is");
            Err(ExitCode::from(2))
        }
    }
}

/// The number that has to follow an option.
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
