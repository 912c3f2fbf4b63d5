//! Undo with others, compared with a model that keeps every letter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use doclock::{
    Editor,
    dsl::*,
    history::{HistoryOptions, UndoError},
    transaction::TransactionResult,
};
use proptest::prelude::*;

use super::{editor_of, run, text};
use crate::common::{cases, store};

/// Every letter ever typed, all distinct, and which edits are in effect.
#[derive(Debug, Default)]
struct Letters {
    /// The edit that inserted the letter, and those that deleted it.
    known: BTreeMap<char, (usize, Vec<usize>)>,
    undone: Vec<bool>,
    /// Letters that were visible together, in this order.
    ordered: BTreeSet<(char, char)>,
}

impl Letters {
    fn shown(&self) -> BTreeSet<char> {
        let shown = self.known.iter().filter(|(_, (came, gone))| {
            !self.undone[*came] && gone.iter().all(|edit| self.undone[*edit])
        });
        shown.map(|(letter, _)| *letter).collect()
    }

    fn edit(&mut self) -> usize {
        self.undone.push(false);
        self.undone.len() - 1
    }

    fn insert(&mut self, count: usize) -> (usize, String) {
        let came = self.edit();
        let first = '一' as u32 + self.known.len() as u32;
        let new: String = (first..).take(count).filter_map(char::from_u32).collect();
        let letters = new.chars().map(|letter| (letter, (came, Vec::new())));
        self.known.extend(letters);
        (came, new)
    }

    fn delete(&mut self, letters: &[char]) -> usize {
        let edit = self.edit();
        for letter in letters {
            self.known.get_mut(letter).unwrap().1.push(edit);
        }
        edit
    }

    /// The visible letters are those in effect, in the old order.
    fn compare(&mut self, text: &[char]) -> Result<(), TestCaseError> {
        prop_assert_eq!(
            text.iter().copied().collect::<BTreeSet<char>>(),
            self.shown()
        );
        prop_assert_eq!(text.len(), self.shown().len());
        for (nth, one) in text.iter().enumerate() {
            for other in &text[nth + 1..] {
                prop_assert!(
                    !self.ordered.contains(&(*other, *one)),
                    "{} and {} changed places",
                    one,
                    other
                );
                self.ordered.insert((*one, *other));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(bool, u8, usize),
    Delete(bool, u8, usize),
    Undo,
    Redo,
}

fn step() -> impl Strategy<Value = Step> {
    let edit = || (any::<bool>(), any::<u8>(), 1..4usize);
    prop_oneof![
        3 => edit().prop_map(|(own, at, count)| Step::Insert(own, at, count)),
        2 => edit().prop_map(|(own, at, count)| Step::Delete(own, at, count)),
        2 => Just(Step::Undo),
        1 => Just(Step::Redo),
    ]
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// An undone edit of Ann is as if it had never been, for any edits of Bob: a letter is visible
    /// if its insertion is in effect and no deletion of it is. Letters that were visible together
    /// keep their order.
    #[test]
    fn undo_03_an_undone_edit_has_no_effect(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let ann = editor_of(&store(), "");
        let bob = Editor::new(ann.store().clone(), "bob");
        let ann = ann.with_history(HistoryOptions::new().group_interval(Duration::ZERO));
        let mut letters = Letters::default();
        let (mut done, mut undone): (Vec<usize>, Vec<usize>) = Default::default();
        for step in steps {
            let shown: Vec<char> = text(&ann).chars().collect();
            let edit = match step {
                Step::Insert(own, at, count) => {
                    let at = usize::from(at) % (shown.len() + 1);
                    let (edit, new) = letters.insert(count);
                    run(if own { &ann } else { &bob }, insert_text(at, new).on("t"));
                    own.then_some(edit)
                }
                Step::Delete(own, at, count) => {
                    let at = usize::from(at) % (shown.len() + 1);
                    let end = (at + count).min(shown.len());
                    run(if own { &ann } else { &bob }, delete_text_range(at, end).on("t"));
                    let edit = letters.delete(&shown[at..end]);
                    (own && at < end).then_some(edit)
                }
                Step::Undo => {
                    turn(ann.undo().commit(), &mut letters, true, &mut done, &mut undone)?;
                    None
                }
                Step::Redo => {
                    turn(ann.redo().commit(), &mut letters, false, &mut undone, &mut done)?;
                    None
                }
            };
            if let Some(edit) = edit {
                done.push(edit);
                undone.clear();
            }
            letters.compare(&text(&ann).chars().collect::<Vec<_>>())?;
            prop_assert_eq!((ann.undo_depth(), ann.redo_depth()), (done.len(), undone.len()));
        }
    }
}

/// Undoes the newest edit. If nothing of it is left, the document stays as it is.
fn turn(
    result: Result<TransactionResult, UndoError>,
    letters: &mut Letters,
    undone: bool,
    from: &mut Vec<usize>,
    to: &mut Vec<usize>,
) -> Result<(), TestCaseError> {
    if from.is_empty() {
        let nothing = UndoError::NothingToUndo.to_string();
        let nothing_either = UndoError::NothingToRedo.to_string();
        let found = result.map(drop).unwrap_err().to_string();
        prop_assert!([nothing, nothing_either].contains(&found));
        return Ok(());
    }
    let before = letters.shown();
    to.extend(from.pop().inspect(|edit| letters.undone[*edit] = undone));
    match result {
        Ok(result) => prop_assert_eq!(result.changed, letters.shown() != before),
        Err(error) => prop_assert!(false, "{}", error),
    }
    Ok(())
}
