//! The cost of one small committed edit, by the size of the store and while readers hold snapshots.
//!
//! Every transaction changes one character of one text, which is the smallest edit. So the result
//! is the cost of the transaction around it: isolation, publication of a new version, and the
//! copies that a reader's snapshot makes necessary.

mod concread;
mod doclock;
mod redb;
mod sqlite;

use std::collections::HashMap;
use std::fmt;

use crate::Result;
use crate::measure::{interleaved, timed};
use crate::random::SplitMix;
use crate::report::{Report, Unit};

const SUITE: &str = "transaction";

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

/// Transactions per subject and round, half of them inserts and half deletes.
const TRANSACTIONS: usize = 20_000;

/// The text every node starts with: forty characters, one byte each.
const TEXT: &str = "The quick brown fox jumps over lazy dogs";

const ABOUT: &str = "\
One transaction per edit: insert one character into the 40-character text of a pseudo-random node,
commit; later delete it again, commit. Everything is in memory, all from one thread.
Cases are NODES/SNAPSHOTS: none = no snapshot alive, held = one opened before the round and held
through it (its release counts), fresh = a new one replaces the held one before every commit.
The peers look nodes up by u64, doclock by the ids that it generated.";

/// The snapshots that readers hold while the writer commits.
#[derive(Clone, Copy, PartialEq)]
enum Snapshots {
    None,
    Held,
    Fresh,
}

impl Snapshots {
    const ALL: [Self; 3] = [Self::None, Self::Held, Self::Fresh];
}

impl fmt::Display for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Held => "held",
            Self::Fresh => "fresh",
        })
    }
}

/// The work of one transaction.
#[derive(Clone, Copy)]
struct Edit {
    node: usize,
    offset: usize,
    change: Change,
}

#[derive(Clone, Copy)]
enum Change {
    Insert,
    Delete,
}

/// What [`Change::Insert`] inserts.
const INSERTED: &str = "x";

impl Edit {
    const fn inverse(self) -> Self {
        let change = match self.change {
            Change::Insert => Change::Delete,
            Change::Delete => Change::Insert,
        };
        Self { change, ..self }
    }

    /// The edit itself, for subjects that keep texts as strings. Offsets count characters, and
    /// all characters here are one byte.
    fn apply(self, text: &mut String) {
        match self.change {
            Change::Insert => text.insert_str(self.offset, INSERTED),
            Change::Delete => {
                text.remove(self.offset);
            }
        }
    }
}

/// A store that was filled with `nodes` texts when it was opened.
trait Subject {
    fn name(&self) -> &'static str;

    /// What a committed transaction guarantees: isolation, durability, validation, events.
    fn note(&self) -> &'static str;

    /// Whether a reader can keep a version while the writer commits the next.
    fn has_snapshots(&self) -> bool {
        true
    }

    /// Commits one transaction per edit.
    fn run(&mut self, edits: &[Edit], snapshots: Snapshots) -> Result;

    fn text(&self, node: usize) -> Result<String>;
}

/// Opens a store with so many nodes.
type Open = fn(usize) -> Result<Box<dyn Subject>>;

/// doclock's forms come first; ratios compare the first of them.
const SUBJECTS: &[Open] = &[
    doclock::open_raw,
    doclock::open_dsl,
    concread::open,
    redb::open,
    sqlite::open_explicit,
    sqlite::open_implicit,
];

pub fn run(rounds: usize, report: &Report) -> Result {
    for (index, nodes) in SIZES.into_iter().enumerate() {
        let mut subjects = SUBJECTS
            .iter()
            .map(|open| open(nodes))
            .collect::<Result<Vec<_>>>()?;
        if index == 0 {
            let notes: Vec<_> = subjects.iter().map(|s| (s.name(), s.note())).collect();
            report.heading(SUITE, ABOUT, &notes)?;
        }
        let edits = edits(nodes);
        for subject in &mut subjects {
            check(subject.as_mut(), &edits)?;
        }
        for snapshots in Snapshots::ALL {
            let spreads = interleaved(rounds, &mut subjects, |_, subject| {
                if snapshots != Snapshots::None && !subject.has_snapshots() {
                    return Ok(None);
                }
                let time = timed(|| subject.run(&edits, snapshots))?;
                Ok(Some(time.as_secs_f64() * 1e9 / edits.len() as f64))
            })?;
            let names = subjects.iter().map(|subject| subject.name());
            let case = format!("{nodes}/{snapshots}");
            report.case(SUITE, &case, Unit::NsPerTransaction, names.zip(spreads))?;
        }
    }
    Ok(())
}

/// The work of a round: inserts at pseudo-random positions, then their inverses in reverse order,
/// so every round starts from the same texts.
fn edits(nodes: usize) -> Vec<Edit> {
    let mut random = SplitMix(42);
    let mut edits: Vec<_> = (0..TRANSACTIONS / 2)
        .map(|_| Edit {
            node: random.below(nodes),
            offset: random.below(TEXT.len() + 1),
            change: Change::Insert,
        })
        .collect();
    let undo: Vec<_> = edits.iter().rev().map(|edit| edit.inverse()).collect();
    edits.extend(undo);
    edits
}

/// Checks that the subject really does the work, both halves of it. Also serves as warm-up.
fn check(subject: &mut dyn Subject, edits: &[Edit]) -> Result {
    let mut expected: HashMap<usize, String> = HashMap::new();
    for half in edits.chunks(edits.len() / 2) {
        subject.run(half, Snapshots::None)?;
        for edit in half {
            edit.apply(expected.entry(edit.node).or_insert_with(|| TEXT.into()));
        }
        for (&node, expected) in &expected {
            let found = subject.text(node)?;
            if found != *expected {
                let name = subject.name();
                return Err(format!("{name}: node {node} is {found:?}, not {expected:?}").into());
            }
        }
    }
    Ok(())
}
