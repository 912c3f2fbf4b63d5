//! What several examples read of their arguments.

use std::ops::RangeInclusive;

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
