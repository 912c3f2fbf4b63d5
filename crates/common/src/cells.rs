//! Cells of a table with a fixed width, for texts of any length and content.

use std::fmt::{self, Write};
use std::time::Duration;

/// The columns of a line.
pub const WIDTH: usize = 100;

/// How many columns a character takes at most. Wide characters are among those from U+1100 on.
fn width_of(character: char) -> usize {
    match character {
        ..'\u{1100}' | '‐'..='…' => 1,
        _ => 2,
    }
}

/// How many columns a text takes at most.
pub fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// Replaces characters that would move the cursor of a terminal or reorder the text: names come
/// from clients.
fn printable(character: char) -> char {
    let reorders = matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    match character.is_control() || reorders {
        true => '\u{fffd}',
        false => character,
    }
}

/// The part of a text that is kept when it is too long.
#[derive(Clone, Copy, PartialEq)]
pub enum KeptPart {
    Beginning,
    /// The end of a path says more than its beginning.
    End,
}

/// Writes a text into a cell of so many columns. A text that is too long is cut, with an ellipsis.
pub fn cut(text: impl fmt::Display, columns: usize, keep: KeptPart) -> String {
    let whole: String = text.to_string().chars().map(printable).collect();
    if width(&whole) <= columns {
        return whole;
    }
    let mut left = columns.saturating_sub(width_of('…'));
    let fits = |character: &char| {
        let fits = width_of(*character) <= left;
        left = if fits { left - width_of(*character) } else { 0 };
        fits
    };
    match keep {
        KeptPart::Beginning => {
            let kept: String = whole.chars().take_while(fits).collect();
            kept + "…"
        }
        KeptPart::End => {
            let kept: Vec<char> = whole.chars().rev().take_while(fits).collect();
            std::iter::once('…').chain(kept.into_iter().rev()).collect()
        }
    }
}

/// Breaks a text between words into lines of at most so many columns. A longer word has a line of
/// its own.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A line of a table.
#[derive(Default)]
pub struct Line {
    text: String,
    columns: usize,
}

impl Line {
    /// Adds a cell of so many columns, aligned left.
    pub fn cell(self, text: impl fmt::Display, columns: usize) -> Self {
        let text = cut(text, columns, KeptPart::Beginning);
        self.padded(&text, columns)
    }

    /// Adds a cell that shows the end of a text.
    pub fn path(self, text: impl fmt::Display, columns: usize) -> Self {
        let text = cut(text, columns, KeptPart::End);
        self.padded(&text, columns)
    }

    /// Adds a cell of so many columns, aligned right.
    pub fn number(mut self, text: impl fmt::Display, columns: usize) -> Self {
        let text = cut(text, columns, KeptPart::Beginning);
        let padding = columns.saturating_sub(width(&text));
        self.pad(padding);
        self.padded(&text, columns - padding)
    }

    /// Adds a gap.
    pub fn gap(mut self, columns: usize) -> Self {
        self.pad(columns);
        self
    }

    /// Adds a text that takes the rest of the line, and ends it.
    pub fn rest(self, text: impl fmt::Display) -> String {
        let left = WIDTH.saturating_sub(self.columns);
        let mut line = self.cell(text, left).text;
        line.truncate(line.trim_end().len());
        line
    }

    fn padded(mut self, text: &str, columns: usize) -> Self {
        self.text.push_str(text);
        let used = width(text);
        self.columns += used;
        self.pad(columns.saturating_sub(used));
        self
    }

    fn pad(&mut self, columns: usize) {
        self.columns += columns;
        // Writing to a string never fails.
        let _ = write!(self.text, "{:columns$}", "");
    }
}

/// A duration in at most seven columns, up to a thousand days.
pub struct ShortDuration(pub Duration);

impl fmt::Display for ShortDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let millis = self.0.as_secs_f64() * 1e3;
        match seconds {
            0 if millis < 1.0 => write!(f, "{:.0}µs", millis * 1e3),
            0 => write!(f, "{millis:.0}ms"),
            1..100 => write!(f, "{:.1}s", self.0.as_secs_f64()),
            100..6_000 => write!(f, "{}m {:02}s", seconds / 60, seconds % 60),
            6_000..360_000 => write!(f, "{}h {:02}m", seconds / 3600, seconds / 60 % 60),
            _ => write!(f, "{}d {:02}h", seconds / 86_400, seconds / 3600 % 24),
        }
    }
}

/// A size in at most eight columns.
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
        if self.0 < 1_000 {
            return write!(f, "{} B", self.0);
        }
        let (mut size, mut unit) = (self.0 as f64 / 1e3, 0);
        while size >= 1e3 && unit + 1 < UNITS.len() {
            (size, unit) = (size / 1e3, unit + 1);
        }
        write!(f, "{size:.1} {}", UNITS[unit])
    }
}

/// A count with its noun: `1 request`, `2 requests`.
pub struct Count<N>(pub N, pub &'static str);

impl<N: fmt::Display + PartialEq + From<u8>> fmt::Display for Count<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        let plural = match (*count == N::from(1), noun.ends_with('x')) {
            (true, _) => "",
            (false, true) => "es",
            (false, false) => "s",
        };
        write!(f, "{count} {noun}{plural}")
    }
}

#[cfg(test)]
#[path = "../tests/unit/cells.rs"]
mod tests;
