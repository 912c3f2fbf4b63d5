//! One edit after another, each of another block.

use std::time::Duration;

use super::edits::{EDITS, Edit, Kind, Start};
use super::{SUITE, doclock, prosemirror};
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

/// Blocks, and how often the edits are made to a new document, so that small ones take long enough to be measured.
const SIZES: [(usize, usize); 2] = [(100, 20), (10_000, 1)];

/// Something that holds one document.
pub trait Subject {
    fn name(&self) -> &'static str;

    /// What has been done, and is guaranteed, when an edit is over.
    fn note(&self) -> &'static str;

    /// Drops what there is, opens such a document, and prepares the edits as far as an editor could have.
    fn reset(&mut self, start: &Start, edits: &[Edit]) -> Result;

    /// Makes the edits.
    fn run(&mut self, edits: &[Edit]) -> Result;

    /// The blocks, each as [`line`](super::edits::line) writes it.
    fn blocks(&self) -> Result<Vec<String>>;
}

/// doclock's forms come first, their first being the one that ratios compare.
fn subjects() -> Result<Vec<Box<dyn Subject>>> {
    Ok(vec![
        Box::new(doclock::Doclock::editor()),
        Box::new(doclock::Doclock::manager()),
        Box::new(prosemirror::ProseMirror::open()?),
    ])
}

pub fn notes() -> Result<Vec<(&'static str, &'static str)>> {
    let subjects = subjects()?;
    Ok(subjects.iter().map(|s| (s.name(), s.note())).collect())
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects = subjects()?;
    for (blocks, passes) in SIZES {
        for kind in Kind::ALL {
            let start = Start::new(kind, blocks);
            let edits = kind.edits(&start);
            check(&mut subjects, &start, &edits)?;
            let spreads = interleaved(rounds, &mut subjects, |_, subject| {
                let mut time = Duration::ZERO;
                for _ in 0..passes {
                    subject.reset(&start, &edits)?;
                    time += timed(|| subject.run(&edits))?;
                }
                Ok(Some(time.as_secs_f64() * 1e9 / (passes * EDITS) as f64))
            })?;
            let names = subjects.iter().map(|subject| subject.name());
            let case = format!("{}/{blocks}", kind.name());
            report.case(SUITE, &case, Unit::NsPerTransaction, names.zip(spreads))?;
        }
    }
    Ok(())
}

/// That all start from the same document and end with the same other one.
fn check(subjects: &mut [Box<dyn Subject>], start: &Start, edits: &[Edit]) -> Result {
    let mut seen: Option<[Vec<String>; 2]> = None;
    for subject in subjects {
        subject.reset(start, edits)?;
        let before = subject.blocks()?;
        subject.run(edits)?;
        let pair = [before, subject.blocks()?];
        let name = subject.name();
        if pair[0] == pair[1] {
            return Err(format!("{name}: the edits change nothing").into());
        }
        match &seen {
            None => seen = Some(pair),
            Some(seen) => {
                let differing = seen.iter().flatten().zip(pair.iter().flatten());
                let lengths = seen.each_ref().map(Vec::len) == pair.each_ref().map(Vec::len);
                if let Some((one, other)) = differing.into_iter().find(|(one, other)| one != other)
                {
                    return Err(format!("{name}: {other:?} where others have {one:?}").into());
                }
                if !lengths {
                    return Err(format!("{name}: another number of blocks").into());
                }
            }
        }
    }
    Ok(())
}
