//! Undo and redo of any edits, alone and with another editor.

use doclock::dsl::{op, transaction};
use doclock::{
    Editor,
    document::{Selection, check},
    history::{HistoryOptions, UndoError},
    transaction::TransactionError,
};
use proptest::prelude::*;

use crate::common::{cases, image};
use crate::furnished;
use crate::generator::{Step, steps};

fn transactions() -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(steps(1..12), 1..8)
}

fn editor(store: &doclock::DataStore, name: &str) -> Editor {
    let editor = Editor::new(store.clone(), name);
    editor.with_history(HistoryOptions::new().group_interval(std::time::Duration::ZERO))
}

/// Commits the steps; a failing one is undone or left half done. Returns whether anything changed.
fn edit(editor: &Editor, steps: Vec<Step>) -> bool {
    let run = op(move |on| -> Result<(), TransactionError> {
        for step in &steps {
            let _ = step.run(on);
        }
        Ok(())
    });
    transaction(editor, run).commit().unwrap().changed
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn undo_01_undo_reverts_any_operations_and_redo_repeats_them(transactions in transactions()) {
        let store = furnished();
        let ann = editor(&store, "ann");
        ann.select(Selection::caret("a", 1)).unwrap();
        let seen = |editor: &Editor| (image(&editor.store().snapshot()), editor.selection());
        let mut states = vec![seen(&ann)];
        for steps in transactions {
            if edit(&ann, steps) {
                states.push(seen(&ann));
            } else {
                // A mere selection is no entry.
                *states.last_mut().unwrap() = seen(&ann);
            }
        }
        prop_assert_eq!(ann.undo_depth(), states.len() - 1);
        for _ in 0..2 {
            for before in states.iter().rev().skip(1) {
                ann.undo().commit().unwrap();
                prop_assert_eq!(&image(&store.snapshot()), &before.0);
            }
            for after in &states[1..] {
                ann.redo().commit().unwrap();
                prop_assert_eq!(&image(&store.snapshot()), &after.0);
            }
        }
        prop_assert_eq!(check(&store.snapshot()), Ok(()));
    }

    /// Two editors edit, undo and redo at random. The document stays valid. A failing undo changes
    /// neither the document nor the history. One of an entry of which nothing is left changes only
    /// the history.
    #[test]
    fn undo_02_an_undo_beside_other_editors_succeeds_or_changes_nothing(
        turns in prop::collection::vec((any::<bool>(), 0..4u8, steps(1..6)), 1..20),
    ) {
        let store = furnished();
        let editors = [editor(&store, "ann"), editor(&store, "bob")];
        for (who, what, steps) in turns {
            let editor = &editors[usize::from(who)];
            let depths = |editor: &Editor| (editor.undo_depth(), editor.redo_depth());
            let seen = || (image(&store.snapshot()), store.version());
            let (before, (undo, redo)) = (seen(), depths(editor));
            let result = match what {
                0 => editor.undo().commit(),
                1 => editor.redo().commit(),
                _ => {
                    edit(editor, steps);
                    continue;
                }
            };
            prop_assert_eq!(check(&store.snapshot()), Ok(()));
            match result {
                Ok(result) => {
                    prop_assert!(result.changed || seen() == before);
                    prop_assert_eq!(result.version, store.version());
                    let moved = if what == 0 { (undo - 1, redo + 1) } else { (undo + 1, redo - 1) };
                    prop_assert_eq!(depths(editor), moved);
                }
                Err(UndoError::NothingToUndo | UndoError::NothingToRedo | UndoError::Conflict { .. }) => {
                    prop_assert_eq!((seen(), depths(editor)), (before, (undo, redo)));
                }
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
            }
        }
    }
}
