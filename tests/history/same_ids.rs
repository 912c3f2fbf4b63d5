//! Positions in nodes whose ids other nodes have before or after them.

use std::time::Duration;

use doclock::document::{EditError, Position, Side};
use doclock::history::HistoryOptions;
use doclock::{Editor, Snapshot, View, dsl::*};

use super::positions::{given, keeping, mapped, returns, with_text};
use super::run;
use crate::common::Dice;

/// Ann's undo once brought back the node that was deleted last, for a position in that one.
#[test]
fn a_position_is_not_in_another_node_that_an_undo_brings_back() {
    for has_code in [false, true] {
        let ann = with_text("abc");
        let bob = Editor::new(ann.store().clone(), "bob");
        let of_first = ann.store().version();
        let nothing = || op_with_inverse(|_| Ok::<_, EditError>(()), |_| Ok::<_, EditError>(()));
        let code = has_code.then(nothing);
        ann.execute((delete_node().on("t"), code)).unwrap();
        run(&bob, create(text_node("inline-text", "abc").with_id("t")));
        let of_second = ann.store().version();
        run(&bob, delete_node().on("t"));
        ann.undo().commit().unwrap();
        let is_deleted = |version| mapped(&ann, version, 2, Side::After).is_deleted;
        let both = [of_first, of_second].map(is_deleted);
        assert_eq!(both, [false, true], "with code: {has_code}");
    }
}

/// The commit itself has created and deleted the second one.
#[test]
fn a_position_returns_with_its_node_that_was_made_anew_and_deleted_in_one_commit() {
    let ann = with_text("abc");
    let version = ann.store().version();
    let again = create(text_node("inline-text", "xyz").with_id("t"));
    let edits = [delete_node().on("t"), again, delete_node().on("t")];
    transaction(&ann, edits).commit().unwrap();
    ann.undo().commit().unwrap();
    returns(&ann, version, "abc", "after the undo");
}

/// One of a few ids, with the number of the node that has it.
fn numbered(view: &Snapshot, id: &str) -> Option<i64> {
    view.node(id)?.attributes().get("made")?.as_i64()
}

/// Edits a random text of a few ids, whose nodes have numbers, or undoes or redoes edits. All
/// letters look alike.
fn edit_numbered(editors: &[Editor; 2], made: &mut i64, dice: &mut Dice) {
    let editor = &editors[dice.below(2)];
    let view = editor.store().snapshot();
    let id = ["x", "y"][dice.below(2)];
    let nothing = || op_with_inverse(|_| Ok::<_, EditError>(()), |_| Ok::<_, EditError>(()));
    let code = dice.one_in(4).then(nothing);
    let node = || {
        let text = text_node("inline-text", "abc").with_id(id);
        add_child(text.with_attributes([("made", (*made).into())]), None).on("p")
    };
    let edits = match (view.node(id).map(|it| it.text().len()), dice.below(8)) {
        (_, 0..=2) => return drop(editor.undo().commit()),
        (_, 3) => return drop(editor.redo().commit()),
        (None, _) => vec![node()],
        (Some(_), 4) => vec![delete_node().on(id)],
        (Some(_), 5) => vec![delete_node().on(id), node()],
        (Some(len), 6) => vec![insert_text(dice.below(len + 1), "b").on(id)],
        (Some(len), _) => vec![replace_text(0, len.min(1), "").on(id)],
    };
    *made += 1;
    drop(editor.execute((edits, code)));
}

/// The nodes have their numbers from the test, and keep them through undos.
#[test]
fn positions_stay_in_their_own_node_while_others_have_its_id() {
    let seed = given("SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("SEED={seed}");
    let (mut compared, mut returned, mut lost, mut misplaced) = (0, 0, 0, 0);
    for nth in 0..given("DOCLOCK_HISTORIES").unwrap_or(200) {
        let mut dice = Dice(seed.wrapping_add(nth));
        let store = keeping(&[]);
        let options = HistoryOptions::new().group_interval(Duration::ZERO);
        let editors = ["ann", "bob"]
            .map(|name| Editor::new(store.clone(), name).with_history(options.clone()));
        let (mut made, mut all) = (0, Vec::new());
        for _ in 0..30 {
            let before = store.snapshot();
            for id in ["x", "y"] {
                let number = numbered(&before, id);
                all.extend(number.map(|number| (before.version(), id, number)));
            }
            edit_numbered(&editors, &mut made, &mut dice);
            let to = store.snapshot();
            for (version, id, number) in &all {
                let at = Position::new(*id, 0);
                let found = to
                    .map_position(&store, *version, &at, Side::Before)
                    .unwrap();
                let is_there = numbered(&to, id) == Some(*number);
                compared += 1;
                returned += u64::from(!found.is_deleted);
                lost += u64::from(found.is_deleted && is_there);
                misplaced += u64::from(!found.is_deleted && !is_there);
            }
        }
    }
    println!("{compared} positions, {returned} returned, {lost} lost, {misplaced} misplaced");
    assert!(compared > 1000 && misplaced == 0);
    assert!(lost * 20 < returned);
}
