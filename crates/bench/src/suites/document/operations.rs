//! One edit after another, each in another block.

use std::time::Duration;

use super::edits::{EDITS, Edit, Kind, Start};
use super::{SUITE, doclock, prosemirror};
use crate::Result;
use crate::measure::{Spread, interleaved, timed};
use crate::report::{Report, Unit};

/// The size of a document.
#[derive(Clone, Copy)]
pub struct Size {
    pub blocks: usize,
    /// How often the edits are made to a new document, so that they take long enough to be
    /// measured.
    pub passes: usize,
}

pub const SIZES: [Size; 2] = [
    Size {
        blocks: 100,
        passes: 20,
    },
    Size {
        blocks: 10_000,
        passes: 2,
    },
];

/// A subject with one document.
pub trait Subject {
    fn name(&self) -> &'static str;

    /// What an edit does, and its guarantees at its end.
    fn note(&self) -> &'static str;

    /// Drops the document, opens a new one, and prepares the edits as far as an editor could.
    fn reset(&mut self, start: &Start, edits: &[Edit]) -> Result;

    /// Makes the edits.
    fn run(&mut self, edits: &[Edit]) -> Result;

    /// The blocks, each as [`line`](super::edits::line) writes it.
    fn blocks(&self) -> Result<Vec<String>>;
}

/// doclock's forms come first; ratios compare the first of them.
fn subjects() -> Result<Vec<Box<dyn Subject>>> {
    Ok(vec![
        Box::new(doclock::Doclock::editor("doclock (editor)")),
        Box::new(doclock::Doclock::manager("doclock (manager)")),
        Box::new(prosemirror::ProseMirror::open()?),
    ])
}

pub fn notes() -> Result<Vec<(&'static str, &'static str)>> {
    let subjects = subjects()?;
    Ok(subjects.iter().map(|s| (s.name(), s.note())).collect())
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects = subjects()?;
    for size in SIZES {
        for kind in Kind::ALL {
            let case = format!("{}/{}", kind.name(), size.blocks);
            let spreads = measure(rounds, &mut subjects, kind, size)?;
            let names = subjects.iter().map(|subject| subject.name());
            report.case(SUITE, &case, Unit::NsPerTransaction, names.zip(spreads))?;
        }
    }
    Ok(())
}

/// The cost of an edit for each subject, in nanoseconds, after a check that all do the same.
pub fn measure(
    rounds: usize,
    subjects: &mut [Box<dyn Subject>],
    kind: Kind,
    Size { blocks, passes }: Size,
) -> Result<Vec<Option<Spread>>> {
    let start = Start::new(kind, blocks);
    let edits = kind.edits(&start);
    check(subjects, &start, &edits)?;
    interleaved(rounds, subjects, |_, subject| {
        let mut time = Duration::ZERO;
        for _ in 0..passes {
            subject.reset(&start, &edits)?;
            time += timed(|| subject.run(&edits))?;
        }
        Ok(Some(time.as_secs_f64() * 1e9 / (passes * EDITS) as f64))
    })
}

/// Checks that all start from the same document and end with the same document.
fn check(subjects: &mut [Box<dyn Subject>], start: &Start, edits: &[Edit]) -> Result {
    let mut expected = None;
    for subject in subjects {
        subject.reset(start, edits)?;
        let before = subject.blocks()?;
        subject.run(edits)?;
        let after = subject.blocks()?;
        let name = subject.name();
        if before == after {
            return Err(format!("{name}: the edits change nothing").into());
        }
        let (begin, end) = expected.get_or_insert_with(|| (before.clone(), after.clone()));
        same(name, &before, begin)?;
        same(name, &after, end)?;
    }
    Ok(())
}

fn same(name: &str, found: &[String], expected: &[String]) -> Result {
    let mut pairs = found.iter().zip(expected);
    if let Some((found, expected)) = pairs.find(|(found, expected)| found != expected) {
        return Err(format!("{name}: a block is {found:?}, not {expected:?}").into());
    }
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Err(format!("{name}: there are {found} blocks, not {expected}").into());
    }
    Ok(())
}
