//! The cost of undo, compared with that of the edits.

use std::time::Duration;

use doclock::dsl::insert_text;
use doclock::{Editor, NodeId, StoreOptions, history::HistoryOptions};

use super::SUITE;
use super::doclock::open;
use super::edits::{Kind, Start, TYPED};
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

pub const NOTE: (&str, &str) = (
    "doclock (undo)",
    "Editor::undo of a keystroke, committed; each an entry of its own; a transaction like any other",
);

/// Consecutive keystrokes, then undone, redone and undone; at most the limit of the history.
const ROW: usize = 50;

const ROWS: usize = 100;

const BLOCKS: usize = 100;

#[derive(Clone, Copy)]
enum Direction {
    Keystroke,
    Undo,
    Redo,
}

struct History {
    editor: Editor,
    texts: Vec<NodeId>,
}

impl History {
    fn open() -> Result<Self> {
        let (store, ids) = open(StoreOptions::new(), &Start::new(Kind::Type, BLOCKS))?;
        let options = HistoryOptions::new().group_interval(Duration::ZERO);
        Ok(Self {
            editor: Editor::new(store, "benchmark").with_history(options),
            texts: ids[2..].iter().step_by(2).cloned().collect(),
        })
    }

    /// The times of the keystrokes, the first undo and the redo.
    fn row(&self, text: &NodeId) -> Result<[Duration; 3]> {
        let keystrokes = timed(|| {
            for at in 0..ROW {
                self.editor
                    .execute([insert_text(10 + at, TYPED).on(text)])?;
            }
            Ok(())
        })?;
        let undo = || {
            for _ in 0..ROW {
                self.editor.undo().commit()?;
            }
            Ok(())
        };
        let undone = timed(undo)?;
        let redone = timed(|| {
            for _ in 0..ROW {
                self.editor.redo().commit()?;
            }
            Ok(())
        })?;
        undo()?;
        Ok([keystrokes, undone, redone])
    }

    fn time(&self, direction: Direction) -> Result<Duration> {
        let mut time = Duration::ZERO;
        for row in 0..ROWS {
            let [keystrokes, undone, redone] = self.row(&self.texts[row % self.texts.len()])?;
            time += match direction {
                Direction::Keystroke => keystrokes,
                Direction::Undo => undone,
                Direction::Redo => redone,
            };
        }
        Ok(time)
    }
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let history = History::open()?;
    let before = history.editor.store().snapshot();
    history.row(&history.texts[0])?;
    if before != history.editor.store().snapshot() {
        return Err("undo does not lead back".into());
    }
    drop(before);
    let cases = [
        ("undo", "doclock (undo)", Direction::Undo),
        ("redo", "doclock (redo)", Direction::Redo),
    ];
    for (case, name, direction) in cases {
        let mut directions = [direction, Direction::Keystroke];
        let spreads = interleaved(rounds, &mut directions, |_, direction| {
            let time = history.time(*direction)?;
            Ok(Some(time.as_secs_f64() * 1e9 / (ROWS * ROW) as f64))
        })?;
        let names = [name, "doclock (keystroke)"].into_iter();
        report.case(SUITE, case, Unit::NsPerTransaction, names.zip(spreads))?;
    }
    Ok(())
}
