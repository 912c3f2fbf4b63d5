//! Undo beside others, compared with a text that forgets nothing.

use doclock::{Editor, HistoryOptions, UndoError, dsl::*};
use proptest::prelude::*;
use std::time::Duration;

use super::{editor_of, run, text};
use crate::common::{cases, store};

/// A letter, and whose edits put it there and took it away. One that is not shown keeps its place.
#[derive(Debug)]
struct Letter {
    letter: char,
    came: usize,
    gone: Vec<usize>,
}

/// Every letter that ever was, in order, and which edits hold at present.
#[derive(Debug, Default)]
struct Tombstones {
    letters: Vec<Letter>,
    undone: Vec<bool>,
}

impl Tombstones {
    fn shown(&self, letter: &Letter) -> bool {
        !self.undone[letter.came] && letter.gone.iter().all(|edit| self.undone[*edit])
    }

    fn text(&self) -> String {
        let shown = self.letters.iter().filter(|letter| self.shown(letter));
        shown.map(|letter| letter.letter).collect()
    }

    /// Where the letter stands that is shown as the nth; the end for the one behind the last.
    fn find(&self, nth: usize) -> usize {
        let mut shown = (0..self.letters.len()).filter(|at| self.shown(&self.letters[*at]));
        shown.nth(nth).unwrap_or(self.letters.len())
    }

    fn edit(&mut self) -> usize {
        self.undone.push(false);
        self.undone.len() - 1
    }

    fn insert(&mut self, at: usize, text: &str) -> usize {
        let (at, came) = (self.find(at), self.edit());
        let letters = text.chars().map(|letter| Letter {
            letter,
            came,
            gone: Vec::new(),
        });
        self.letters.splice(at..at, letters.collect::<Vec<_>>());
        came
    }

    fn delete(&mut self, start: usize, end: usize) -> usize {
        let found: Vec<usize> = (start..end).map(|nth| self.find(nth)).collect();
        let edit = self.edit();
        for at in found {
            self.letters[at].gone.push(edit);
        }
        edit
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(bool, u8, String),
    Delete(bool, u8, u8),
    Undo,
    Redo,
}

fn step() -> impl Strategy<Value = Step> {
    let insert = (any::<bool>(), any::<u8>(), "[a-zß漢]{1,3}");
    let delete = (any::<bool>(), any::<u8>(), 1..4u8);
    prop_oneof![
        3 => insert.prop_map(|(who, at, text)| Step::Insert(who, at, text)),
        2 => delete.prop_map(|(who, at, len)| Step::Delete(who, at, len)),
        2 => Just(Step::Undo),
        1 => Just(Step::Redo),
    ]
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// What Ann undid is as if it had never been, whatever Bob did meanwhile: a letter is shown if the edit that put it
    /// there holds and none that took it away does.
    #[test]
    fn undo_03_an_undone_edit_is_as_if_it_had_never_been(
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let ann = editor_of(&store(), "");
        let bob = Editor::new(ann.store().clone(), "bob");
        let ann = ann.with_history(HistoryOptions::new().group_interval(Duration::ZERO));
        let mut model = Tombstones::default();
        let (mut done, mut undone): (Vec<usize>, Vec<usize>) = Default::default();
        for step in steps {
            let len = model.text().chars().count();
            let edit = match step {
                Step::Insert(own, at, text) => {
                    let at = usize::from(at) % (len + 1);
                    run(if own { &ann } else { &bob }, insert_text(at, text.as_str()).on("t"));
                    own.then_some(model.insert(at, &text))
                }
                Step::Delete(own, at, count) => {
                    let at = usize::from(at) % (len + 1);
                    let end = (at + usize::from(count)).min(len);
                    run(if own { &ann } else { &bob }, delete_text_range(at, end).on("t"));
                    let edit = model.delete(at, end);
                    (own && at < end).then_some(edit)
                }
                Step::Undo => {
                    turn(ann.undo(), &mut model, true, &mut done, &mut undone)?;
                    None
                }
                Step::Redo => {
                    turn(ann.redo(), &mut model, false, &mut undone, &mut done)?;
                    None
                }
            };
            if let Some(edit) = edit {
                done.push(edit);
                undone.clear();
            }
            prop_assert_eq!(text(&ann), model.text());
            prop_assert_eq!((ann.undo_depth(), ann.redo_depth()), (done.len(), undone.len()));
        }
    }
}

/// Does to the model what was done to the text. What is a conflict would have changed nothing that is shown.
fn turn(
    result: Result<doclock::TransactionResult, UndoError>,
    model: &mut Tombstones,
    undone: bool,
    from: &mut Vec<usize>,
    to: &mut Vec<usize>,
) -> Result<(), TestCaseError> {
    let Some(edit) = from.last().copied() else {
        prop_assert!(matches!(
            result,
            Err(UndoError::NothingToUndo | UndoError::NothingToRedo)
        ));
        return Ok(());
    };
    let before = model.text();
    model.undone[edit] = undone;
    match result {
        Ok(_) => to.extend(from.pop()),
        Err(UndoError::Conflict { .. }) => {
            prop_assert_eq!(model.text(), before);
            model.undone[edit] = !undone;
        }
        Err(other) => return Err(TestCaseError::fail(other.to_string())),
    }
    Ok(())
}
