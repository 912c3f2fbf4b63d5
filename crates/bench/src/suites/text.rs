//! The cost of a keystroke by the length of the text.
//!
//! A store that copied the text of a changed node would be as slow as its longest text. The copying
//! string shows this.

mod doclock;
mod string;

use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

const SUITE: &str = "text";

/// Characters of the only text, at a byte each.
const LENGTHS: [usize; 4] = [100, 10_000, 100_000, 1_000_000];

/// Keystrokes per subject and round, half of them inserts and half deletes.
const KEYSTROKES: usize = 2_000;

const ABOUT: &str = "\
One transaction per keystroke in one text of so many characters: insert a character in the middle,
commit; delete it again, commit. The version before is kept by a reader all along.";

/// A subject with one text whose versions it publishes.
trait Subject {
    fn name(&self) -> &'static str;

    /// What a commit does.
    fn note(&self) -> &'static str;

    /// Starts over with a text of so many characters.
    fn reset(&mut self, length: usize) -> Result;

    /// Commits so many keystrokes in the middle of the text.
    fn run(&mut self, keystrokes: usize) -> Result;
}

/// doclock comes first: ratios compare it.
fn subjects() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(doclock::Doclock::default()),
        Box::new(string::Copied::default()),
    ]
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects = subjects();
    let notes: Vec<_> = subjects.iter().map(|s| (s.name(), s.note())).collect();
    report.heading(SUITE, ABOUT, &notes)?;
    for length in LENGTHS {
        for subject in &mut subjects {
            subject.reset(length)?;
        }
        let spreads = interleaved(rounds, &mut subjects, |_, subject| {
            let time = timed(|| subject.run(KEYSTROKES))?;
            Ok(Some(time.as_secs_f64() * 1e9 / KEYSTROKES as f64))
        })?;
        let names = subjects.iter().map(|subject| subject.name());
        let case = format!("{length} characters");
        report.case(SUITE, &case, Unit::NsPerTransaction, names.zip(spreads))?;
    }
    Ok(())
}
