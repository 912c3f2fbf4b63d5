//! Entries that cannot be undone: they block no other, and are undone when their conflict is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use doclock::{
    DataStore, Draft, Editor, StoreOptions, View,
    codes::CodedError,
    document::{EditError, Selection},
    dsl::*,
    history::{HistoryMode, HistoryOptions, UndoError},
    schema::{AttributeSpec, NodeType, Schema, ValueType},
    transaction::{NodeOperation, Operation, OperationError},
};

use super::{editor_of, exists, image, run, text, type_in, undo_without_effect};
use crate::common::{self, store};

/// Ann and Bob, with a text node `t` and a list of the nodes `a` and `b`.
fn two(text: &str) -> (Editor, Editor) {
    let ann = editor_of(&store(), text);
    let bob = Editor::new(ann.store().clone(), "bob");
    let items = ["a", "b"].map(|id| text_node("item", id).with_id(id));
    run(&bob, create(element("list", items).with_id("list")));
    (ann, bob)
}

fn set(value: i32) -> Operation {
    set_attrs([("key", value.into())]).on("t")
}

fn value(editor: &Editor) -> Option<i64> {
    let document = editor.store().snapshot();
    let attributes = document.node("t").unwrap().attributes();
    attributes.get("key").map(|value| value.as_i64().unwrap())
}

/// The node at which an undo is refused. A refused undo changes nothing.
fn refused(editor: &Editor) -> String {
    let depths = || (editor.undo_depth(), editor.redo_depth());
    let before = (image(editor), depths(), editor.store().version());
    let error = editor.undo().commit().unwrap_err();
    assert_eq!((image(editor), depths(), editor.store().version()), before);
    assert!(matches!(error, UndoError::Conflict { .. }), "{error}");
    error.node().unwrap().to_string()
}

fn list(editor: &Editor) -> String {
    let document = editor.store().snapshot();
    ["a", "b"].map(|id| common::text(&document, id)).join(" ")
}

/// Once it was on top of the history until it was discarded, so no older entry could be undone.
#[test]
fn undo_03_a_stuck_entry_blocks_no_entry_of_another_node() {
    let (ann, bob) = two("");
    run(&ann, insert_text(1, "1").on("a"));
    run(&ann, insert_text(1, "2").on("b"));
    run(&ann, set(1));
    run(&bob, set(2));
    run(&bob, insert_text(0, "bob").on("a"));
    assert_eq!(refused(&ann), "t");
    assert_eq!(ann.undo_depth(), 3);
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "boba1 b");
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "boba b");
    assert_eq!((value(&ann), ann.undo_depth()), (Some(2), 1));
    // Nothing else is left. The user is told again.
    assert_eq!(refused(&ann), "t");
    assert_eq!(refused(&ann), "t");
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!((list(&ann), value(&ann)), ("boba1 b2".into(), Some(2)));
}

#[test]
fn undo_03_a_stuck_entry_is_undone_first_when_its_conflict_is_gone() {
    let (ann, bob) = two("");
    run(&ann, insert_text(1, "1").on("a"));
    run(&ann, insert_text(1, "2").on("b"));
    run(&ann, set(1));
    run(&bob, set(2));
    assert_eq!(refused(&ann), "t");
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), value(&ann)), ("a1 b", Some(2)));
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), value(&ann)), ("a1 b", None));
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), ann.undo_depth()), ("a b", 0));
    for expected in [("a1 b", None), ("a1 b", Some(1)), ("a1 b2", Some(1))] {
        ann.redo().commit().unwrap();
        assert_eq!((list(&ann).as_str(), value(&ann)), expected);
    }
}

#[test]
fn undo_03_an_older_edit_of_the_same_attribute_is_refused_on_its_own() {
    let (ann, bob) = two("");
    run(&ann, insert_text(1, "1").on("a"));
    for value in [1, 2] {
        run(&ann, set(value));
    }
    run(&bob, set(3));
    assert_eq!((refused(&ann), refused(&ann)), ("t".into(), "t".into()));
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), value(&ann)), ("a b", Some(3)));
    bob.undo().commit().unwrap();
    for expected in [Some(1), None] {
        ann.undo().commit().unwrap();
        assert_eq!(value(&ann), expected);
    }
    assert!(!ann.can_undo());
}

#[test]
fn undo_03_newer_edits_are_undone_before_a_stuck_entry() {
    let (ann, bob) = two("");
    run(&ann, set(1));
    run(&bob, set(2));
    assert_eq!(refused(&ann), "t");
    run(&ann, insert_text(1, "1").on("a"));
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), value(&ann)), ("a b", Some(1)));
    ann.undo().commit().unwrap();
    assert_eq!(value(&ann), None);
}

/// Bob deletes the node and restores it. What Ann did meanwhile does not make it inexact.
#[test]
fn undo_03_stuck_entries_of_a_restored_node_are_undone_exactly() {
    let (ann, bob) = two("-");
    let mut images = vec![text(&ann)];
    let mut edit = |edit: NodeOperation| {
        run(&ann, edit.on("t"));
        images.push(text(&ann));
    };
    edit(insert_text(1, "hello"));
    run(&ann, insert_text(1, "1").on("a"));
    edit(replace_text(1, 6, "bye"));
    edit(delete_text_range(0, 2));
    run(&bob, delete_node().on("t"));
    // The deleted characters cannot come back.
    assert_eq!((refused(&ann), refused(&ann)), ("t".into(), "t".into()));
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "a b");
    run(&ann, insert_text(1, "2").on("b"));
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "a b");
    for expected in images.iter().rev().skip(1) {
        ann.undo().commit().unwrap();
        assert_eq!(text(&ann), *expected);
    }
    assert!(!ann.can_undo());
}

/// Ann, with a stuck entry above an edit of `a` and, below that, `zz` in `t`. The edit of `a` is
/// undone, so `zz` is followed beside the stuck entry.
fn with_branch() -> (Editor, Editor) {
    let (ann, bob) = two("");
    run(&ann, insert_text(0, "zz").on("t"));
    run(&ann, insert_text(1, "1").on("a"));
    let upload = transaction(&ann, set(1));
    let mode = HistoryMode::Named("upload".into());
    upload.in_history(mode).commit().unwrap();
    run(&bob, set(2));
    assert_eq!(refused(&ann), "t");
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "a b");
    (ann, bob)
}

#[test]
fn undo_03_an_entry_below_a_stuck_one_is_followed_over_newer_edits() {
    let (ann, bob) = with_branch();
    run(&ann, insert_text(0, "new").on("t"));
    type_in(&bob, 0, "bob");
    assert_eq!(text(&ann), "bobnewzz");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "bobzz");
    ann.undo().commit().unwrap();
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("bob", 1));
}

#[test]
fn undo_03_an_entry_below_a_stuck_one_is_followed_over_edits_that_join_that() {
    let (ann, _bob) = with_branch();
    transaction(&ann, insert_text(0, "up").on("t"))
        .in_history(HistoryMode::MergedInto("upload".into()))
        .commit()
        .unwrap();
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("upzz", 2));
    ann.undo().commit().unwrap();
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("zz", 1));
}

#[test]
fn undo_03_a_stuck_entry_is_followed_over_the_undo_of_an_older_one_in_its_text() {
    let (ann, bob) = two("");
    run(&ann, insert_text(0, "abc").on("t"));
    let group = ann.group();
    run(&ann, insert_text(3, "xy").on("t"));
    run(&ann, set(1));
    drop(group);
    run(&bob, set(2));
    assert_eq!(refused(&ann), "t");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "xy");
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!((text(&ann).as_str(), value(&ann)), ("", None));
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!((text(&ann).as_str(), value(&ann)), ("abcxy", Some(1)));
}

/// Once the restored text counted as typed by another editor, and stayed.
#[test]
fn undo_03_an_edit_merged_late_is_undone_after_its_text_was_deleted_and_restored() {
    let (ann, _bob) = two("");
    let upload = |text: &'static str| {
        transaction(&ann, insert_text(0, text).on("t"))
            .in_history(HistoryMode::MergedInto("upload".into()))
            .commit()
            .unwrap()
    };
    upload("first");
    run(&ann, insert_text(1, "1").on("a"));
    upload("late");
    run(&ann, delete_text_range(0, 4).on("t"));
    for _ in 0..3 {
        ann.undo().commit().unwrap();
    }
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("", 0));
}

/// Once such an undo was refused, although there was nothing to revert.
#[test]
fn undo_03_an_entry_of_which_nothing_is_left_is_undone_without_a_change() {
    let (ann, bob) = two("");
    run(&ann, insert_text(1, "1").on("a"));
    type_in(&ann, 0, "abc");
    run(&bob, delete_text_range(0, 3).on("t"));
    undo_without_effect(&ann);
    assert_eq!((list(&ann).as_str(), ann.undo_depth()), ("a1 b", 1));
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), ann.undo_depth()), ("a b", 0));
    assert!(matches!(ann.undo().commit(), Err(UndoError::NothingToUndo)));
}

#[test]
fn undo_03_text_of_an_entry_that_was_undone_without_a_change_does_not_come_back() {
    let (ann, bob) = two("");
    type_in(&ann, 0, "abc");
    run(&bob, delete_text_range(0, 3).on("t"));
    undo_without_effect(&ann);
    bob.undo().commit().unwrap();
    assert_eq!(text(&ann), "");
    ann.redo().commit().unwrap();
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("abc", 1));
    bob.redo().commit().unwrap();
    assert_eq!(text(&ann), "");
}

/// A created node that others wrote in is still there, so its entry is not passed by in silence.
#[test]
fn undo_03_an_entry_whose_created_node_stays_is_refused_once() {
    let (ann, bob) = two("");
    run(&ann, insert_text(1, "1").on("a"));
    let group = ann.group();
    run(&ann, insert_text(0, "x").on("t"));
    run(&ann, create(element("p", []).with_id("p")));
    drop(group);
    run(&bob, delete_node().on("t"));
    run(&bob, add_child(element("q", []), 0).on("p"));
    assert_eq!(refused(&ann), "p");
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "a b");
}

#[test]
fn undo_03_a_redo_that_is_refused_blocks_no_other() {
    let (ann, bob) = two("");
    let create = || create(element("p", []).with_id("p"));
    run(&ann, create());
    run(&ann, insert_text(1, "1").on("a"));
    run(&ann, insert_text(1, "2").on("b"));
    for _ in 0..3 {
        ann.undo().commit().unwrap();
    }
    // The id is taken.
    run(&bob, create());
    let error = ann.redo().commit().unwrap_err();
    assert!(matches!(error, UndoError::Conflict { redo: true, .. }));
    ann.redo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), ann.redo_depth()), ("a1 b", 2));
    bob.undo().commit().unwrap();
    assert!(!exists(&ann, "p"));
    ann.redo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), exists(&ann, "p")), ("a1 b", true));
    ann.redo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), ann.redo_depth()), ("a1 b2", 0));
    // The order in which they are undone is the opposite one.
    for expected in [("a1 b", true), ("a1 b", false), ("a b", false)] {
        ann.undo().commit().unwrap();
        assert_eq!((list(&ann).as_str(), exists(&ann, "p")), expected);
    }
    // An edit clears them, those that were refused too.
    run(&bob, create());
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap_err();
    run(&ann, insert_text(1, "3").on("b"));
    assert!(!ann.can_redo());
}

/// Once such a redo was refused.
#[test]
fn undo_03_a_redo_below_a_later_value_of_another_editor_succeeds_and_changes_nothing() {
    let (ann, bob) = two("");
    run(&ann, set(1));
    ann.undo().commit().unwrap();
    run(&bob, set(2));
    let result = ann.redo().commit().unwrap();
    assert_eq!((result.changed, value(&ann)), (false, Some(2)));
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 0));
    assert_eq!(refused(&ann), "t");
    bob.undo().commit().unwrap();
    assert_eq!(value(&ann), Some(1));
    ann.undo().commit().unwrap();
    assert_eq!(value(&ann), None);
}

/// A client that has not received the error repeats the undo. It must not undo an older edit.
#[test]
fn undo_02_a_refused_undo_that_is_repeated_with_its_key_is_refused_again() {
    let (ann, bob) = two("");
    run(&ann, insert_text(1, "1").on("a"));
    run(&ann, set(1));
    run(&bob, set(2));
    let undo = |key: &str| ann.undo().idempotent(key).commit();
    for _ in 0..3 {
        let error = undo("first").unwrap_err();
        assert!(matches!(error, UndoError::Conflict { .. }), "{error}");
    }
    assert_eq!(list(&ann), "a1 b");
    undo("second").unwrap();
    assert_eq!(list(&ann), "a b");
    bob.undo().commit().unwrap();
    undo("first").unwrap();
    assert_eq!((value(&ann), ann.undo_depth()), (None, 0));
}

/// The history is restored without the errors that were returned before.
#[test]
fn undo_02_a_new_editor_does_not_know_the_keys_of_refused_undos() {
    let store = DataStore::with_options(StoreOptions::new().kept_commits(1 << 20));
    let [ann, bob] = ["ann", "bob"].map(|owner| Editor::new(store.clone(), owner));
    for id in ["older", "t"] {
        run(&ann, create(text_node("item", "one").with_id(id)));
    }
    run(&bob, set_text("two").on("t"));
    let undo = |editor: &Editor, key: &str| editor.undo().idempotent(key).commit();
    undo(&ann, "first").unwrap_err();
    drop(ann);
    let ann = Editor::new(store.clone(), "ann").with_restored_history();
    let error = undo(&ann, "second").unwrap_err();
    assert!(matches!(error, UndoError::Conflict { .. }), "{error}");
    undo(&ann, "first").unwrap();
    assert!(!exists(&ann, "older") && exists(&ann, "t"));
}

/// Typing that went on joined the entry that could not be undone, and was stuck with it.
#[test]
fn undo_03_edits_after_a_refused_undo_do_not_join_the_stuck_entry() {
    let (ann, bob) = two("");
    let group = ann.group();
    run(&ann, set(1));
    run(&bob, set(2));
    assert_eq!(refused(&ann), "t");
    run(&ann, insert_text(1, "1").on("a"));
    run(&ann, insert_text(1, "2").on("b"));
    drop(group);
    assert_eq!(ann.undo_depth(), 2);
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), value(&ann)), ("a b", Some(2)));
}

#[test]
fn undo_02_the_limit_counts_stuck_entries() {
    let (ann, bob) = two("");
    let ann = ann.with_history(HistoryOptions::new().limit(2));
    run(&ann, set(1));
    run(&bob, set(2));
    run(&ann, insert_text(1, "1").on("a"));
    ann.undo().commit().unwrap();
    assert_eq!(refused(&ann), "t");
    for (at, id) in [(0, "a"), (0, "b")] {
        assert_eq!(ann.undo_depth(), 1 + usize::from(id == "b"));
        run(&ann, insert_text(at, "x").on(id));
    }
    // The stuck entry was the oldest.
    assert_eq!(ann.undo_depth(), 2);
    for _ in 0..2 {
        ann.undo().commit().unwrap();
    }
    assert!(matches!(ann.undo().commit(), Err(UndoError::NothingToUndo)));
}

#[test]
fn undo_02_discard_removes_the_newest_entry_and_clear_all_also_if_they_are_stuck() {
    let (ann, bob) = two("");
    run(&ann, insert_text(1, "1").on("a"));
    run(&ann, insert_text(1, "2").on("b"));
    run(&ann, set(1));
    run(&bob, set(2));
    assert_eq!(refused(&ann), "t");
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "a1 b");
    assert!(ann.discard_undo());
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), value(&ann)), ("a b", Some(1)));
    assert!(!ann.can_undo());

    run(&ann, set(3));
    run(&bob, set(4));
    assert_eq!(refused(&ann), "t");
    ann.clear_history();
    bob.undo().commit().unwrap();
    assert!(matches!(ann.undo().commit(), Err(UndoError::NothingToUndo)));
    assert_eq!(value(&ann), Some(3));
}

#[test]
fn undo_03_an_edit_that_is_merged_into_a_stuck_entry_is_undone_with_it() {
    let (ann, bob) = two("");
    let named = |operation: Operation| {
        let mode = HistoryMode::MergedInto("upload".into());
        transaction(&ann, operation)
            .in_history(mode)
            .commit()
            .unwrap();
    };
    let before = (image(&ann), list(&ann));
    run(&ann, insert_text(1, "1").on("a"));
    named(set(1));
    run(&bob, set(2));
    assert_eq!(refused(&ann), "t");
    ann.undo().commit().unwrap();
    named(insert_text(1, "2").on("b"));
    run(&ann, insert_text(0, "3").on("b"));
    named(insert_text(0, "4").on("b"));
    assert_eq!((list(&ann).as_str(), ann.undo_depth()), ("a 43b2", 2));
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "a 4b2");
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!((image(&ann), list(&ann)), before);
}

#[test]
fn undo_04_the_selection_comes_back_when_a_stuck_entry_is_undone() {
    let (ann, bob) = two("abc");
    run(&ann, insert_text(1, "1").on("a"));
    ann.select(Selection::caret("t", 2)).unwrap();
    run(&ann, set(1));
    ann.select(Selection::caret("a", 0)).unwrap();
    run(&bob, set(2));
    assert_eq!(refused(&ann), "t");
    assert_eq!(ann.selection(), Some(Selection::caret("a", 0)));
    ann.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    type_in(&bob, 0, "x");
    ann.undo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t", 3)));
}

/// An inverse that failed was on top of the history as well.
#[test]
fn undo_03_an_inverse_that_fails_blocks_no_entry_and_is_tried_again() {
    let (ann, _) = two("");
    let works = Arc::new(AtomicBool::new(false));
    let is_ready = Arc::clone(&works);
    run(&ann, insert_text(1, "1").on("a"));
    run(&ann, insert_text(1, "2").on("b"));
    let inverse = move |_: &mut Draft| match is_ready.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err("the printer is on fire"),
    };
    let write = |on: &mut Draft| on.set_text("t", "b");
    run(&ann, op_with_inverse(write, inverse));
    let error = ann.undo().commit().unwrap_err();
    let inverse = UndoError::Inverse(OperationError::Failed("".into()));
    assert_eq!(error.code(), inverse.code());
    ann.undo().commit().unwrap();
    assert_eq!((text(&ann).as_str(), list(&ann).as_str()), ("b", "a1 b"));
    works.store(true, Ordering::Relaxed);
    ann.undo().commit().unwrap();
    assert_eq!((text(&ann).as_str(), list(&ann).as_str()), ("", "a1 b"));
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "a b");
}

/// An entry whose undo would violate the schema was on top of the history as well.
#[test]
fn undo_03_an_undo_that_would_violate_the_schema_blocks_no_entry() {
    // No item can be added in the place of the last one.
    let name = AttributeSpec::new(ValueType::String);
    let schema = Schema::builder()
        .node("page", NodeType::new().content("item+"))
        .node("item", NodeType::new().attribute("name", name.required()))
        .build()
        .unwrap();
    let store = DataStore::with_options(StoreOptions::new().schema(schema));
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    let item = |id: &str| {
        let item = element("item", []).with_id(id);
        item.with_attributes([("name", id.into())])
    };
    run(&bob, create(element("page", [item("one")]).with_id("page")));
    run(&ann, create(element("page", [item("a")]).with_id("other")));
    run(&ann, add_child(item("two"), 1).on("page"));
    run(&bob, delete_node().on("one"));
    let error = ann.undo().commit().unwrap_err();
    assert!(matches!(error, UndoError::Commit(_)), "{error}");
    ann.undo().commit().unwrap();
    assert!(exists(&ann, "two") && !exists(&ann, "other"));
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert!(exists(&ann, "one") && !exists(&ann, "two"));
}

/// The code of an inverse discards the stuck entry above its own.
#[test]
fn undo_02_a_stuck_entry_that_is_discarded_during_an_undo_stays_discarded() {
    let (ann, bob) = two("");
    let ann = Arc::new(ann);
    let own = Arc::downgrade(&ann);
    run(&ann, insert_text(1, "1").on("a"));
    let inverse = move |_: &mut Draft| {
        let ann = own.upgrade().unwrap();
        assert!(ann.discard_undo());
        Ok::<_, EditError>(())
    };
    let write = |on: &mut Draft| on.insert_text("b", 1, "2");
    run(&ann, op_with_inverse(write, inverse));
    run(&ann, set(1));
    run(&bob, set(2));
    assert_eq!(refused(&ann), "t");
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), ann.undo_depth()), ("a1 b", 1));
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!((list(&ann).as_str(), value(&ann)), ("a b", Some(1)));
    assert!(!ann.can_undo());
}

/// The entry below follows it by then, so the undo must not take it for a later change again.
#[test]
fn undo_02_a_stuck_entry_that_its_failed_inverse_discards_is_followed_once() {
    let (ann, _bob) = two("");
    let ann = Arc::new(ann);
    let (own, calls) = (Arc::downgrade(&ann), AtomicUsize::new(0));
    run(&ann, insert_text(1, "1").on("a"));
    run(&ann, insert_text(0, "zz").on("t"));
    let inverse = move |_: &mut Draft| {
        if calls.fetch_add(1, Ordering::Relaxed) == 1 {
            assert!(own.upgrade().unwrap().discard_undo());
        }
        Err::<(), _>("the printer is on fire")
    };
    let write = |on: &mut Draft| on.insert_text("t", 0, "x");
    run(&ann, op_with_inverse(write, inverse));
    assert!(matches!(ann.undo().commit(), Err(UndoError::Inverse(_))));
    assert_eq!(ann.undo_depth(), 3);
    ann.undo().commit().unwrap();
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("x", 1));
    ann.undo().commit().unwrap();
    assert_eq!(list(&ann), "a b");
}
