//! Sessions that read the commits of others late: what they show and undo does not depend on when
//! they catch up.

use doclock::{DataStore, Editor, NodeId, View, document::Selection, dsl::*, history::UndoError};
use proptest::prelude::*;

use crate::common::{Dice, cases, image, store_with_log};
use crate::session::{edit, four_editors};
use crate::{exists, run, text, type_in};

/// When the sessions read the commits of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    AfterEachCommit,
    WhenUsed,
}

/// Lets turns of random editors pass, and returns what each of them saw.
fn transcript(seed: u64, reading: Reading) -> Vec<String> {
    let dice = &mut Dice(seed);
    let store = store_with_log(1 << 20);
    let editors = four_editors(&store);
    let turns = 1 + dice.below(60);
    let turns = (0..turns).map(|_| {
        let seen = any_turn(dice, &editors);
        if reading == Reading::AfterEachCommit {
            editors.iter().for_each(|editor| drop(editor.selection()));
        }
        format!("{seen}: {}", image(&store.snapshot()))
    });
    turns.collect()
}

/// Edits, undoes, redoes or selects.
fn any_turn(dice: &mut Dice, editors: &[Editor; 4]) -> String {
    let editor = &editors[dice.below(4)];
    let outcome = match dice.below(10) {
        0..3 => editor.undo().commit(),
        3 => editor.redo().commit(),
        4 => {
            let document = editor.store().snapshot();
            let ids: Vec<NodeId> = document.nodes().map(|node| node.id().clone()).collect();
            let at = Selection::caret(ids[dice.below(ids.len())].clone(), dice.below(9));
            return format!("{:?} {:?}", editor.select(at), editor.selection());
        }
        _ => {
            edit(dice, editor);
            return format!("{:?}", editor.selection());
        }
    };
    let outcome = outcome.map(|result| (result.changes, result.selection_after));
    if outcome.is_err() && dice.one_in(2) {
        editor.discard_undo();
    }
    format!("{outcome:?}")
}

/// Edits, or reads all selections.
fn edit_or_look(dice: &mut Dice, editors: &[Editor; 4]) -> String {
    match editors.get(dice.below(5)) {
        Some(editor) => {
            edit(dice, editor);
            String::new()
        }
        None => format!("{:?}", editors.each_ref().map(Editor::selection)),
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn undo_03_a_session_that_reads_late_undoes_as_one_that_reads_each_commit(seed in any::<u64>()) {
        let [late, early] = [Reading::WhenUsed, Reading::AfterEachCommit]
            .map(|reading| transcript(seed, reading));
        prop_assert_eq!(late, early);
    }

    /// All edit, then one undoes everything. The log composes each commit at once, or none.
    #[test]
    fn undo_03_a_session_undoes_over_composed_commits_as_over_single_ones(seed in any::<u64>()) {
        let [composed, single] = [0, usize::MAX].map(|log_limit| {
            let dice = &mut Dice(seed);
            let store = store_with_log(log_limit);
            let editors = four_editors(&store);
            let document = store.snapshot();
            let blocks: Vec<&NodeId> = document.children("page").map(|node| node.id()).collect();
            for editor in &editors {
                let at = Selection::caret(blocks[dice.below(4)].clone(), dice.below(40));
                editor.select(at).unwrap();
            }
            let turns = 1 + dice.below(60);
            let mut seen: Vec<String> = (0..turns).map(|_| edit_or_look(dice, &editors)).collect();
            let ann = &editors[0];
            while ann.can_undo() {
                let outcome = match ann.undo().commit() {
                    // The log no longer has the owner of a composed commit.
                    Err(UndoError::Conflict { conflict, .. }) => {
                        ann.discard_undo();
                        Err(conflict)
                    }
                    outcome => Ok(outcome.map(|result| (result.changes, result.selection_after))),
                };
                seen.push(format!("{outcome:?}: {}", image(&store.snapshot())));
            }
            seen
        });
        prop_assert_eq!(composed, single);
    }
}

/// Once the selection was lost with its node for good.
#[test]
fn undo_03_a_selection_returns_with_its_node() {
    let store = DataStore::new();
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    run(&ann, create(text_node("inline-text", "abc").with_id("t")));
    ann.select(Selection::caret("t", 2)).unwrap();
    run(&bob, delete_node().on("t"));
    assert_eq!(ann.selection(), None);
    bob.undo().commit().unwrap();
    type_in(&bob, 0, "x");
    assert_eq!(ann.selection(), Some(Selection::caret("t", 3)));
}

/// Sessions at many versions: a stretch of composed commits ends where each of them goes on.
#[test]
fn undo_03_sessions_that_stopped_at_different_commits_each_undo_their_own_edit() {
    let store = store_with_log(0);
    let all: Vec<Editor> = (0..9)
        .map(|nth| Editor::new(store.clone(), format!("{nth}")))
        .collect();
    run(&all[0], create(text_node("inline-text", "").with_id("t")));
    for (nth, editor) in all.iter().enumerate() {
        type_in(editor, 0, &nth.to_string());
    }
    let mut left = String::from("876543210");
    for nth in [4, 0, 8, 2, 6, 1, 7, 3, 5] {
        all[nth].undo().commit().unwrap();
        left.retain(|letter| letter.to_string() != nth.to_string());
        assert_eq!(text(&all[0]), left);
    }
    assert!(exists(&all[0], "t"));
}

/// An undo of more commits than an entry keeps the versions of. Once a late session took only the
/// last of them for undone.
#[test]
fn undo_03_a_late_session_follows_the_undo_of_a_long_entry() {
    for log_limit in [0, 1 << 20] {
        let store = store_with_log(log_limit);
        let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
        run(&bob, create(text_node("inline-text", "-").with_id("t")));
        bob.select(Selection::caret("t", 1)).unwrap();
        let group = ann.group();
        for _ in 0..300 {
            run(&ann, insert_text(0, "x").on("t"));
        }
        drop(group);
        ann.undo().commit().unwrap();
        for _ in 0..100 {
            run(&ann, insert_text(0, "y").on("t"));
        }
        assert_eq!(bob.selection(), Some(Selection::caret("t", 101)));
        bob.undo().commit().unwrap();
        assert_eq!(text(&ann), "y".repeat(100));
    }
}
