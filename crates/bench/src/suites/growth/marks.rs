//! Keystrokes in a text with many marks, in an editor with its default history.

use std::time::Instant;

use super::inputs::Marked;
use super::ladder::Sample;
use crate::Result;

const KEYSTROKES: usize = 31;

pub fn keystroke(marks: usize) -> Result<Sample> {
    let text = Marked::new(marks)?;
    let keystroke = |before| {
        let start = Instant::now();
        text.keystroke(before)?;
        Ok(start.elapsed().as_nanos() as f64)
    };
    let times: Result<_> = (0..KEYSTROKES).map(keystroke).collect();
    Sample::quantile(times?, 0.5)
}
