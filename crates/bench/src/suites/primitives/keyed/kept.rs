//! The memory that the table keeps for idle keys.

use std::ops::Range;

use serde::Serialize;

use super::{Subject, doclock, lockable};
use crate::Result;
use crate::measure::{Spread, take_turns, timed};
use crate::report::{Report, rounded};
use crate::suites::primitives::SUITE;

const KEYS: u64 = 1_000_000;

/// The number of rounds does not matter.
const ROUNDS: usize = 3;

const ABOUT: &str = "\
Kept: 1,000,000 keys are locked and unlocked, one after the other or all before the first is unlocked. Keys that the
table has at the most and afterwards, keys for which it has room then without allocating (where it tells), and
nanoseconds a key. `cargo run --release -p doclock-memory` counts the bytes.";

/// The table of a lock with keys.
pub trait Table: Subject {
    /// Holds all of these keys at once, and releases them after `held`.
    fn hold(&self, keys: Range<u64>, held: &mut dyn FnMut()) -> Result;

    /// The number of keys.
    fn keys(&self) -> usize;

    /// The capacity in keys.
    fn room(&self) -> Option<usize>;
}

/// Sizes in keys.
#[derive(Clone, Copy, Serialize)]
struct Sizes {
    most: usize,
    kept: usize,
    #[serde(rename = "roomMost")]
    room_most: Option<usize>,
    #[serde(rename = "roomKept")]
    room_kept: Option<usize>,
}

#[derive(Serialize)]
struct Row {
    suite: &'static str,
    case: &'static str,
    subject: &'static str,
    value: f64,
    unit: &'static str,
    #[serde(flatten)]
    sizes: Sizes,
}

type Case = fn(&dyn Table) -> Result<(usize, Option<usize>)>;

const CASES: [(&str, Case); 2] = [
    ("one after the other", one_by_one),
    ("all at once", all_at_once),
];

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    report.text(&format!(
        "\n{:22} {:24} {:>9} {:>9} {:>10} {:>10} {:>8}",
        "case", "subject", "most", "kept", "room most", "room kept", "ns/key"
    ))?;
    for (name, case) in CASES {
        let mut subjects: Vec<Box<dyn Table>> = vec![
            Box::new(doclock::Keyed::default()),
            Box::new(lockable::Pool::default()),
        ];
        let found = take_turns(rounds.min(ROUNDS), &mut subjects, |_, subject| {
            counted(&**subject, case).map(Some)
        })?;
        for (subject, found) in subjects.iter().zip(found) {
            let times = found.iter().map(|(_, time)| *time).collect();
            let (Some((sizes, _)), Some(time)) = (found.last(), Spread::of(times)) else {
                continue;
            };
            let row = Row {
                suite: SUITE,
                case: name,
                subject: subject.name(),
                value: rounded(time.median, 1),
                unit: "ns/pair",
                sizes: *sizes,
            };
            report.row(&row, &row.line())?;
        }
    }
    report.text("")
}

impl Row {
    fn line(&self) -> String {
        let Sizes {
            most,
            kept,
            room_most,
            room_kept,
        } = self.sizes;
        let [room_most, room_kept] = [room_most, room_kept]
            .map(|room| room.map_or_else(|| "-".into(), |room| room.to_string()));
        format!(
            "{:22} {:24} {most:>9} {kept:>9} {room_most:>10} {room_kept:>10} {:>8.1}",
            self.case, self.subject, self.value
        )
    }
}

fn counted(table: &dyn Table, case: Case) -> Result<(Sizes, f64)> {
    let mut full = (0, None);
    let time = timed(|| {
        full = case(table)?;
        Ok(())
    })?;
    let (most, room_most) = full;
    let sizes = Sizes {
        most,
        kept: table.keys(),
        room_most,
        room_kept: table.room(),
    };
    Ok((sizes, time.as_secs_f64() * 1e9 / KEYS as f64))
}

/// At most one key at a time.
fn one_by_one(table: &dyn Table) -> Result<(usize, Option<usize>)> {
    let mut count = 0;
    table.run(&mut (0..KEYS), &mut count)?;
    Ok((1, table.room()))
}

fn all_at_once(table: &dyn Table) -> Result<(usize, Option<usize>)> {
    let mut most = (0, None);
    table.hold(0..KEYS, &mut || most = (table.keys(), table.room()))?;
    Ok(most)
}
