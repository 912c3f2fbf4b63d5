//! The cost of a commit beside other editors of the same document, and that of catching up.

use std::time::Duration;

use doclock::dsl::{create, element, insert_text, text_node};
use doclock::{DataStore, Editor, NodeId, View, document::Selection, history::HistoryOptions};

use crate::Result;
use crate::measure::{Spread, interleaved, take_turns, timed};
use crate::random::SplitMix;
use crate::report::{Report, Unit};

const SUITE: &str = "editors";

const NODES: usize = 1_000;

/// Commits per turn.
const COMMITS: usize = 20_000;

const MOST_OTHERS: usize = 1_000;

/// The entries of each other editor.
const ENTRIES: usize = 20;

const OTHERS: [(usize, &str); 5] = [
    (0, "doclock (alone)"),
    (1, "doclock (1 other)"),
    (10, "doclock (10 others)"),
    (100, "doclock (100 others)"),
    (MOST_OTHERS, "doclock (1,000 others)"),
];

/// The commits that an editor has missed.
const MISSED: [(usize, &str); 3] = [
    (1_000, "doclock (1,000 commits)"),
    (10_000, "doclock (10,000 commits)"),
    (100_000, "doclock (100,000 commits)"),
];

const ABOUT: &str = "\
One editor commits beside others that have made 20 edits each and are idle since. The document has
1,000 texts and is the same for any number of others. `typing`: twenty letters in a row at a pseudo-random text; `anywhere`: each letter at a
pseudo-random position of a pseudo-random text. All commits count, also the time in which the commit
log drops its oldest records, of which only the edits stay.
Then an editor that has missed commits catches up: it reads its selection, then undoes its latest
edit.";

/// Where the letters are inserted.
#[derive(Clone, Copy)]
enum Place {
    Typing,
    Anywhere,
}

const PLACES: [(&str, Place); 2] = [("typing", Place::Typing), ("anywhere", Place::Anywhere)];

/// An editor at work in a document, with the idle ones beside it.
struct Document {
    editor: Editor,
    texts: Vec<NodeId>,
    idle: Vec<Editor>,
    random: SplitMix,
    /// The next position, and how many letters remain in the row.
    at: (usize, usize),
    left: usize,
}

impl Document {
    /// Opens a document that `edited_by` editors have edited. `others` of them still exist.
    fn open(others: usize, edited_by: usize) -> Result<Self> {
        let store = DataStore::new();
        let texts = (0..NODES).map(|_| text_node("text", "The quick brown fox jumps"));
        let setup = Editor::new(store.clone(), "setup");
        setup.execute([create(element("page", texts).with_id("page"))])?;
        drop(setup);
        let document = store.snapshot();
        let texts: Vec<NodeId> = document
            .children("page")
            .map(|node| node.id().clone())
            .collect();
        drop(document);
        let options = HistoryOptions::new().group_interval(Duration::ZERO);
        let open = |name: String| Editor::new(store.clone(), name).with_history(options.clone());
        let idle: Vec<Editor> = (0..others)
            .map(|nth| open(format!("editor {nth}")))
            .collect();
        // For any number of others the same edits are made, so that the documents are the same.
        let gone = open("gone".into());
        for nth in 0..ENTRIES {
            for other in 0..edited_by {
                let editor = idle.get(other).unwrap_or(&gone);
                let text = &texts[(other * 7 + nth) % NODES];
                editor.execute([insert_text(0, "a").on(text)])?;
            }
        }
        drop(gone);
        Ok(Self {
            editor: open("benchmark".into()),
            texts,
            idle,
            random: SplitMix(1),
            at: (0, 0),
            left: 0,
        })
    }

    fn commit(&mut self, count: usize, place: Place) -> Result {
        for _ in 0..count {
            match place {
                Place::Typing if self.left > 0 => {
                    self.left -= 1;
                    self.at.1 += 1;
                }
                _ => {
                    self.left = 19;
                    self.at = (self.random.below(NODES), self.random.below(20));
                }
            }
            let (text, offset) = self.at;
            self.editor
                .execute([insert_text(offset, "x").on(&self.texts[text])])?;
        }
        Ok(())
    }
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.heading(SUITE, ABOUT, &[])?;
    for (case, place) in PLACES {
        let mut others = OTHERS.map(|(others, _)| others);
        let spreads = interleaved(rounds, &mut others, |_, others| {
            let mut document = Document::open(*others, MOST_OTHERS)?;
            document.commit(COMMITS / 10, place)?;
            let time = timed(|| document.commit(COMMITS, place))?;
            if document
                .idle
                .iter()
                .any(|editor| editor.undo_depth() != ENTRIES)
            {
                return Err("an idle editor lost its history".into());
            }
            Ok(Some(time.as_secs_f64() * 1e9 / COMMITS as f64))
        })?;
        let names = OTHERS.map(|(_, name)| name).into_iter();
        report.case(SUITE, case, Unit::NsPerTransaction, names.zip(spreads))?;
    }
    for (case, place) in PLACES {
        let mut missed = MISSED.map(|(missed, _)| missed);
        let times = take_turns(rounds, &mut missed, |_, missed| {
            catch_up(*missed, place).map(Some)
        })?;
        for (nth, step) in ["catch up", "then undo"].into_iter().enumerate() {
            let steps = |times: &Vec<[f64; 2]>| times.iter().map(|times| times[nth]).collect();
            let spreads = times.iter().map(|times| Spread::of(steps(times)));
            let names = MISSED.map(|(_, name)| name).into_iter();
            let case = format!("{step}/{case}");
            report.case(SUITE, &case, Unit::NsPerCall, names.zip(spreads))?;
        }
    }
    Ok(())
}

/// How long a late editor takes to read its selection, and then to undo, in nanoseconds.
fn catch_up(missed: usize, place: Place) -> Result<[f64; 2]> {
    let mut document = Document::open(1, 1)?;
    let late = document.idle.remove(0);
    late.select(Selection::caret(document.texts[0].clone(), 3))?;
    document.commit(missed, place)?;
    let read = timed(|| match late.selection() {
        Some(_) => Ok(()),
        None => Err("the selection is lost".into()),
    })?;
    let undone = timed(|| late.undo().commit().map(drop).map_err(Into::into))?;
    Ok([read, undone].map(|time| time.as_secs_f64() * 1e9))
}
