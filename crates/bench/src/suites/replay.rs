//! The replay speed of recorded editing sessions of real documents.
//!
//! Synthetic edits say little about text: real ones cluster, continue and jump back. The traces are
//! not part of the project; without them the suite prints a remark and measures nothing.

mod automerge;
mod doclock;
mod loro;
mod ropey;
mod trace;
mod yrs;

use std::path::{Path, PathBuf};

use self::trace::Trace;
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

const SUITE: &str = "replay";

const TRACES: [&str; 3] = ["sveltecomponent", "friendsforever_flat", "seph-blog1"];

/// The variable with the folder of the traces, by default `shared/traces` next to the repository.
const VARIABLE: &str = "DOCLOCK_TRACES";

const ABOUT: &str = "\
Recorded keystroke histories, one commit per recorded transaction, into one text. Everything is in
memory, from one thread; opening and dropping a document and reading its text are not counted.
Every subject's final text is compared with the recorded one.";

/// A subject with one text.
trait Subject {
    fn name(&self) -> &'static str;

    /// What it stores besides the text, and what a commit publishes.
    fn note(&self) -> &'static str;

    /// Rounds after which a slow subject stops.
    fn max_rounds(&self) -> usize {
        usize::MAX
    }

    /// Drops the document and opens an empty one.
    fn reset(&mut self) -> Result;

    /// Applies all transactions of the trace to the empty document, a commit each.
    fn replay(&mut self, trace: &Trace) -> Result;

    fn text(&self) -> Result<String>;
}

/// doclock's forms come first; ratios compare the first of them.
fn subjects() -> Result<Vec<Box<dyn Subject>>> {
    Ok(vec![
        Box::new(doclock::Doclock::open(false)?),
        Box::new(doclock::Doclock::open(true)?),
        Box::new(ropey::InPlace::default()),
        Box::new(ropey::Cloned::default()),
        Box::new(loro::Loro::default()),
        Box::new(yrs::Yrs::default()),
        Box::new(automerge::Automerge::open()?),
    ])
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let folder = std::env::var_os(VARIABLE).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        return report.remark(&format!(
            "replay skipped: no traces at {}; {VARIABLE} can name their folder",
            folder.display()
        ));
    }
    let mut subjects = subjects()?;
    let notes: Vec<_> = subjects.iter().map(|s| (s.name(), s.note())).collect();
    report.heading(SUITE, ABOUT, &notes)?;
    for name in TRACES {
        let trace = Trace::load(&folder.join(format!("{name}.json.gz")))?;
        let transactions = trace.transactions.len() as f64;
        let spreads = interleaved(rounds, &mut subjects, |round, subject| {
            if round >= subject.max_rounds() {
                return Ok(None);
            }
            subject.reset()?;
            let time = timed(|| subject.replay(&trace))?;
            if round == 0 && subject.text()? != trace.end {
                return Err(format!("{}: {name} ends in another text", subject.name()).into());
            }
            subject.reset()?;
            Ok(Some(transactions / time.as_secs_f64()))
        })?;
        let names = subjects.iter().map(|subject| subject.name());
        report.case(SUITE, name, Unit::TransactionsPerSecond, names.zip(spreads))?;
    }
    Ok(())
}
