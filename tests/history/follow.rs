//! Undo after changes by others that are hard to follow.

use doclock::{
    Draft, Editor, NodeId, View,
    document::{Mark, Position, Selection, SplitPoint, UndoConflict},
    dsl::*,
    history::{HistoryMode, UndoError},
};
use proptest::prelude::*;

use super::{editor_of, image, run, text, type_in, undo_without_effect};
use crate::common::{self, Dice, cases, store};

fn three(text: &str) -> [Editor; 3] {
    let ann = editor_of(&store(), text);
    let others = ["bob", "carl"].map(|name| Editor::new(ann.store().clone(), name));
    let [bob, carl] = others;
    [ann, bob, carl]
}

fn conflict(editor: &Editor) -> UndoConflict {
    let before = (image(editor), editor.undo_depth());
    let error = editor.undo().commit().unwrap_err();
    assert_eq!((image(editor), editor.undo_depth()), before);
    match error {
        UndoError::Conflict { conflict, .. } => conflict,
        other => panic!("expected a conflict, found {other}"),
    }
}

/// Code that undoes more than the operation did.
#[test]
fn undo_03_writes_of_an_inverse_of_another_editor_are_kept() {
    let [ann, bob, _] = three("");
    type_in(&ann, 0, "abc");
    let write = |on: &mut Draft| on.insert_text("t", 3, "x");
    let note = |on: &mut Draft| on.insert_text("t", 0, "undone ");
    run(&bob, op_with_inverse(write, note));
    bob.undo().commit().unwrap();
    assert_eq!(text(&ann), "undone abc");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "undone ");
}

#[test]
fn undo_03_a_node_that_took_the_id_of_a_deleted_one_is_left_alone() {
    let [ann, bob, _] = three("");
    type_in(&ann, 0, "abc");
    run(&bob, delete_node().on("t"));
    run(&bob, create(text_node("inline-text", "hello").with_id("t")));
    undo_without_effect(&ann);
}

#[test]
fn undo_03_text_is_found_in_a_restored_half_with_text_of_others() {
    let [ann, bob, carl] = three("");
    let lines = ["L", "123"]
        .map(|text| text_node("text", text).with_id(if text == "L" { "l" } else { "r" }));
    run(&carl, create(element("p", lines).with_id("p")));
    run(&ann, insert_text(0, "abc").on("r"));
    run(&bob, op(|on: &mut Draft| on.join_nodes("l", "r")));
    run(&carl, insert_text(2, "XYZ").on("l"));
    bob.undo().commit().unwrap();
    assert_eq!(common::text(&ann.store().snapshot(), "r"), "aXYZbc123");
    ann.undo().commit().unwrap();
    assert_eq!(common::text(&ann.store().snapshot(), "r"), "XYZ123");
}

#[test]
fn undo_03_a_node_that_was_changed_and_deleted_at_once_comes_back_as_it_was() {
    let [ann, bob, carl] = three("xyz0123456");
    type_in(&ann, 3, "abc");
    run(
        &bob,
        op(|on: &mut Draft| {
            on.delete_text("t", 0..3)?;
            on.delete("t")
        }),
    );
    run(&carl, create(element("p", [])));
    bob.undo().commit().unwrap();
    assert_eq!(text(&ann), "xyzabc0123456");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "xyz0123456");
}

#[test]
fn undo_03_an_entry_can_be_merged_into_again_after_an_undo() {
    let [ann, ..] = three("");
    let merge = |value: i32| {
        transaction(&ann, set_attrs([("a", value.into())]).on("t"))
            .in_history(HistoryMode::MergedInto("u".into()))
            .commit()
            .unwrap()
    };
    let before = image(&ann);
    merge(1);
    run(&ann, create(element("p", [])));
    merge(2);
    ann.undo().commit().unwrap();
    merge(3);
    ann.undo().commit().unwrap();
    assert_eq!(image(&ann), before);
}

#[test]
fn undo_03_a_named_group_without_edits_creates_no_entry_to_merge_into() {
    let [ann, ..] = three("");
    drop(ann.group_named("upload"));
    type_in(&ann, 0, "a");
    run(&ann, create(element("p", []).with_id("p")));
    transaction(&ann, set_attrs([("a", 1.into())]).on("t"))
        .in_history(HistoryMode::MergedInto("upload".into()))
        .commit()
        .unwrap();
    assert_eq!(ann.undo_depth(), 3);
}

/// A restored caret was placed before a letter that another editor had typed right after it; a live
/// one moves behind that letter.
#[test]
fn undo_04_a_restored_caret_is_where_a_live_caret_would_be() {
    let [ann, bob, _] = three("abc");
    ann.select(Selection::caret("t", 3)).unwrap();
    type_in(&ann, 3, "d");
    type_in(&bob, 4, "x");
    assert_eq!(ann.selection(), Some(Selection::caret("t", 5)));
    ann.undo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t", 4)));
    ann.redo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t", 5)));
}

/// For typing at any position, the caret is where it would be without the entry.
#[test]
fn undo_04_a_caret_after_an_undo_is_where_it_would_be_without_the_entry() {
    // The position in the text without the entry.
    let without = |text: &str, place: usize| {
        let before = text.chars().take(place);
        before.filter(|letter| !"DE".contains(*letter)).count()
    };
    for at in 0..=3 {
        for first in 0..=5 {
            for second in 0..=6 {
                let [ann, bob, _] = three("abc");
                ann.select(Selection::caret("t", at)).unwrap();
                type_in(&ann, at, "DE");
                let mut expected = at;
                for (place, letter) in [(first, "x"), (second, "y")] {
                    expected += usize::from(without(&text(&ann), place) <= expected);
                    type_in(&bob, place, letter);
                }
                let live = ann.selection();
                ann.undo().commit().unwrap();
                let found = ann.selection();
                assert_eq!(
                    found,
                    Some(Selection::caret("t", expected)),
                    "{at} {first} {second}"
                );
                ann.redo().commit().unwrap();
                assert_eq!(ann.selection(), live, "{at} {first} {second}");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// For any edits by others, as long as the selected nodes exist.
    #[test]
    fn undo_04_undo_and_redo_together_keep_the_selection(seed in any::<u64>()) {
        let dice = &mut Dice(seed);
        let [ann, bob, carl] = three("");
        let line = text_node("text", "0123456789").with_id("l");
        run(&carl, create(element("p", [line]).with_id("p")));
        let (anchor, focus) = (dice.below(11), dice.below(11));
        let place = |offset| Position::new("l", offset);
        ann.select(Selection::new(place(anchor), place(focus))).unwrap();
        let (start, end) = (anchor.min(focus), anchor.max(focus));
        run(&ann, replace_text(start, end, "new".repeat(dice.below(3))).on("l"));
        for _ in 0..1 + dice.below(4) {
            let other = if dice.one_in(2) { &bob } else { &carl };
            let document = other.store().snapshot();
            let texts: Vec<&NodeId> = document.children("p").map(|node| node.id()).collect();
            let id = texts[dice.below(texts.len())];
            let len = document.node(id).unwrap().text().len();
            let (one, two) = (dice.below(len + 1), dice.below(len + 1));
            let (from, to) = (one.min(two), one.max(two));
            let change = match dice.below(6) {
                0 => split_text_node(from),
                1 if texts.len() > 1 => auto_merge_text_nodes(),
                2 => delete_text_range(from, to),
                3 => replace_text(from, to, "xy"),
                _ => insert_text(from, "z"),
            };
            let on = if change == auto_merge_text_nodes() { NodeId::from("p") } else { id.clone() };
            run(other, change.on(on));
        }
        let live = ann.selection();
        let before = image(&ann);
        if ann.undo().commit().is_ok() && ann.redo().commit().is_ok() && image(&ann) == before {
            prop_assert_eq!(ann.selection(), live);
        }
    }
}

#[test]
fn undo_04_the_selection_that_comes_back_has_moved_along() {
    let [ann, bob, _] = three("abc");
    ann.select(Selection::caret("t", 3)).unwrap();
    type_in(&ann, 3, "def");
    type_in(&bob, 0, "xx");
    ann.undo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t", 5)));
    type_in(&bob, 0, "y");
    ann.redo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t", 9)));
    ann.undo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t", 6)));
}

#[test]
fn undo_03_a_node_that_another_editor_moved_in_its_list_stays_there() {
    let [ann, bob, _] = three("");
    let items = ["a", "b", "c", "d"].map(|id| element("item", []).with_id(id));
    run(&bob, create(element("list", items).with_id("list")));
    run(&ann, move_node("list", 0).on("d"));
    run(&bob, move_node("list", 2).on("d"));
    assert_eq!(conflict(&ann), UndoConflict::Moved { id: "d".into() });
}

/// Whether the entry inserted text or a mark.
#[test]
fn undo_03_an_edit_in_text_that_another_editor_split_is_undone_in_both_halves() {
    let cut = |on: &mut Draft| {
        let at = SplitPoint {
            text: 3,
            children: 0,
        };
        on.split_node("l", at, None).map(drop)
    };
    let edits = [
        insert_text(1, "hello").on("l"),
        set_marks([Mark::new("bold", 1..5)]).on("l"),
    ];
    for edit in edits {
        let [ann, bob, _] = three("");
        let line = text_node("text", "......").with_id("l");
        run(&bob, create(element("p", [line]).with_id("p")));
        run(&ann, edit);
        run(&bob, op(cut));
        let before = image(&ann);
        ann.undo().commit().unwrap();
        let document = ann.store().snapshot();
        let texts: Vec<String> = document
            .children("p")
            .map(|half| half.text().to_string())
            .collect();
        assert_eq!(texts.concat(), "......");
        assert!(document.children("p").all(|half| half.marks().is_empty()));
        ann.redo().commit().unwrap();
        assert_eq!(image(&ann), before);
        ann.undo().commit().unwrap();
        bob.undo().commit().unwrap();
        assert_eq!(common::text(&ann.store().snapshot(), "l"), "......");
    }
}

#[test]
fn undo_03_edits_to_a_later_node_of_the_same_id_are_ignored() {
    let [ann, bob, _] = three("");
    type_in(&ann, 0, "abc");
    run(&ann, delete_node().on("t"));
    run(&bob, create(text_node("inline-text", "zz").with_id("t")));
    type_in(&bob, 0, "y");
    run(&bob, delete_node().on("t"));
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "abc");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "");
}

#[test]
fn undo_03_a_group_keeps_the_order_of_interleaved_edits_by_others() {
    let [ann, bob, _] = three("");
    let group = ann.group();
    run(&ann, insert_text(0, "abc").on("t"));
    type_in(&bob, 0, "x");
    run(&ann, insert_text(4, "d").on("t"));
    run(&bob, delete_text_range(0, 1).on("t"));
    drop(group);
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "");
}

#[test]
fn undo_03_late_merges_into_one_text_are_undone_together() {
    let [ann, ..] = three("");
    let before = image(&ann);
    let merge = |text: &'static str| {
        transaction(&ann, insert_text(0, text).on("t"))
            .in_history(HistoryMode::MergedInto("upload".into()))
            .commit()
            .unwrap();
    };
    merge("abc");
    run(&ann, create(element("p", [])));
    merge("de");
    merge("f");
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("fdeabc", 2));
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(image(&ann), before);
}
