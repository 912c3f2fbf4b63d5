//! Groups of edits that one undo reverts.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use doclock::{
    DataStore, Editor, StoreOptions, View,
    dsl::*,
    history::{EditGroup, HistoryMode, HistoryOptions},
    time::ManualClock,
    transaction::Operation,
};
use smol_str::SmolStr;

use super::{editor_of, exists, image, run, text, type_in};
use crate::common::store;

fn timed() -> (Editor, ManualClock) {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    (editor_of(&store, ""), clock)
}

#[test]
fn undo_03_typing_without_a_pause_is_one_entry() {
    let (ann, clock) = timed();
    type_in(&ann, 0, "one");
    clock.advance(Duration::from_millis(499));
    type_in(&ann, 3, "two");
    clock.advance(Duration::from_millis(500));
    type_in(&ann, 6, "three");
    assert_eq!(ann.undo_depth(), 2);
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "onetwo");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "");
}

#[test]
fn undo_03_typing_that_also_selects_is_one_entry() {
    let (ann, _clock) = timed();
    for (at, letter) in ["a", "b", "c"].into_iter().enumerate() {
        let select = select_range(at..).on("t");
        ann.execute([insert_text(at, letter).on("t"), select])
            .unwrap();
    }
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("abc", 1));
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "");
    ann.redo().commit().unwrap();
    assert_eq!(text(&ann), "abc");
}

#[test]
fn undo_03_edits_of_other_kinds_or_elsewhere_are_other_entries() {
    let (ann, _clock) = timed();
    type_in(&ann, 0, "abcdef");
    // Backspace, backspace, delete.
    for (start, end) in [(5, 6), (4, 5), (3, 4)] {
        run(&ann, delete_text_range(start, end).on("t"));
    }
    type_in(&ann, 0, "X");
    run(&ann, set_attrs([("a", 1.into())]).on("t"));
    run(&ann, set_attrs([("a", 2.into())]).on("t"));
    assert_eq!(ann.undo_depth(), 5);
    let texts: Vec<String> = (0..5)
        .map(|_| {
            ann.undo().commit().unwrap();
            text(&ann)
        })
        .collect();
    assert_eq!(texts, ["Xabc", "Xabc", "abc", "abcdef", ""]);
}

/// A selection in one text is replaced by one operation; one over two blocks by several.
#[test]
fn undo_05_typing_over_a_selection_is_one_entry() {
    let (ann, _clock) = timed();
    run(&ann, create(text_node("text", "behind").with_id("u")));
    type_in(&ann, 0, "Hello world");
    run(&ann, set_attrs([("a", 1.into())]).on("t"));
    let before = image(&ann);
    let replace = |operations: Vec<Operation>| {
        ann.execute(operations).unwrap();
        type_in(&ann, 2, "iii");
        assert!(text(&ann).starts_with("HOiii"), "{}", text(&ann));
        ann.undo().commit().unwrap();
        assert_eq!(image(&ann), before);
    };
    replace(vec![
        delete_text_range(1, 5).on("t"),
        insert_text(1, "O").on("t"),
    ]);
    replace(vec![
        delete_text_range(1, 11).on("t"),
        delete_node().on("u"),
        insert_text(1, "O").on("t"),
    ]);
}

#[test]
fn undo_05_typing_with_a_mark_is_one_entry() {
    let (ann, _clock) = timed();
    type_in(&ann, 0, "a");
    for (at, letter) in [(1, "b"), (2, "c")] {
        let bold = apply_mark("bold", at..at + 1).on("t");
        ann.execute([insert_text(at, letter).on("t"), bold])
            .unwrap();
    }
    type_in(&ann, 3, "d");
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("abcd", 1));
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "");
}

/// Others type before the caret, at the caret, and split the paragraph before it.
#[test]
fn undo_05_typing_while_others_type_is_one_entry() {
    let (ann, clock) = timed();
    let bob = Editor::new(ann.store().clone(), "bob");
    run(
        &ann,
        create(element("doc", [text_node("text", "").with_id("u")])),
    );
    ann.clear_history();
    clock.advance(Duration::from_secs(1));
    let type_at = |editor: &Editor, at: usize, text: &str| {
        run(editor, insert_text(at, text).on("u"));
    };
    type_at(&ann, 0, "ab");
    type_at(&bob, 0, "xx");
    type_at(&ann, 4, "c");
    type_at(&bob, 5, "y");
    type_at(&ann, 6, "d");
    run(&bob, split_text_node(1).on("u"));
    let document = ann.store().snapshot();
    let right = document.nodes().find(|node| *node.text() == "xabcyd");
    let right = right.unwrap().id().clone();
    run(&ann, insert_text(6, "e").on(right.clone()));
    assert_eq!(ann.undo_depth(), 1);
    ann.undo().commit().unwrap();
    let document = ann.store().snapshot();
    assert_eq!(document.node(&right).unwrap().text(), &"xy");
}

/// The Delete key and Backspace, beside another editor.
#[test]
fn undo_05_deleting_while_others_type_is_one_entry() {
    let (ann, clock) = timed();
    let bob = Editor::new(ann.store().clone(), "bob");
    type_in(&ann, 0, "abcdef");
    clock.advance(Duration::from_secs(1));
    run(&ann, delete_text_range(3, 4).on("t"));
    type_in(&bob, 0, "xx");
    run(&ann, delete_text_range(5, 6).on("t"));
    run(&ann, delete_text_range(4, 5).on("t"));
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("xxabf", 2));
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "xxabcdef");
}

#[test]
fn undo_05_typing_elsewhere_than_others_moved_the_caret_is_another_entry() {
    let (ann, _clock) = timed();
    let bob = Editor::new(ann.store().clone(), "bob");
    type_in(&ann, 0, "ab");
    type_in(&bob, 0, "xx");
    type_in(&ann, 2, "c");
    assert_eq!(ann.undo_depth(), 2);
}

/// The group object is dropped late, and then it closes neither the next group nor a nested one.
#[test]
fn undo_05_a_group_is_closed_by_its_name() {
    let store = store();
    let ann = editor_of(&store, "a");
    assert!(!ann.close_group("drag"));
    let outer = ann.group_named("drag");
    let inner = ann.group();
    run(&ann, set_text("b").on("t"));
    assert!(!ann.close_group("other"));
    assert!(ann.close_group("drag"));
    assert!(!ann.close_group("drag"));
    run(&ann, set_text("c").on("t"));
    assert_eq!(ann.undo_depth(), 2);
    let next = ann.group_named("next");
    run(&ann, set_text("d").on("t"));
    drop((inner, outer));
    run(&ann, set_text("e").on("t"));
    assert_eq!(ann.undo_depth(), 3);
    drop(next);
    run(&ann, set_text("f").on("t"));
    assert_eq!(ann.undo_depth(), 4);
}

/// What the events say, beside what the methods say.
#[test]
fn undo_05_events_tell_what_happens_to_the_entries() {
    use doclock::history::HistoryEventKind::{Added, Joined, Redone, Removed, Undone};
    let (ann, _clock) = timed();
    let gone = ann.history_events();
    drop(gone);
    let events = ann.history_events();
    let expect = |kind, name: Option<&str>| {
        let event = events.try_recv().unwrap();
        assert_eq!((event.kind, event.name.as_deref()), (kind, name));
        let depths = (event.undo_depth, event.redo_depth);
        assert_eq!(depths, (ann.undo_depth(), ann.redo_depth()));
        assert!(events.is_empty());
    };
    type_in(&ann, 0, "a");
    expect(Added, None);
    type_in(&ann, 1, "b");
    expect(Joined, None);
    let named = |mode: fn(SmolStr) -> HistoryMode, text: &'static str| {
        let edit = transaction(&ann, set_text(text).on("t"));
        edit.in_history(mode("upload".into())).commit().unwrap();
    };
    named(HistoryMode::Named, "c");
    expect(Added, Some("upload"));
    run(&ann, set_attrs([("a", 1.into())]).on("t"));
    expect(Added, None);
    named(HistoryMode::MergedInto, "d");
    expect(Joined, Some("upload"));
    ann.undo().commit().unwrap();
    expect(Undone, None);
    ann.undo().commit().unwrap();
    expect(Undone, Some("upload"));
    ann.redo().commit().unwrap();
    expect(Redone, Some("upload"));
    assert!(ann.discard_undo());
    expect(Removed, Some("upload"));
    ann.clear_history();
    expect(Removed, None);
    let skipped = transaction(&ann, insert_text(0, "x").on("t"));
    skipped.in_history(HistoryMode::Skipped).commit().unwrap();
    ann.undo().commit().unwrap_err();
    assert!(events.is_empty());
    drop(ann);
    assert!(events.recv().is_err());
}

#[test]
fn undo_03_with_no_interval_each_edit_is_an_entry() {
    let store = store();
    let options = HistoryOptions::new().group_interval(Duration::ZERO);
    let ann = editor_of(&store, "").with_history(options);
    type_in(&ann, 0, "abc");
    assert_eq!(ann.undo_depth(), 3);
}

#[test]
fn undo_03_typing_after_an_undo_is_another_entry() {
    let (ann, _clock) = timed();
    type_in(&ann, 0, "ab");
    run(&ann, set_attrs([("a", 1.into())]).on("t"));
    ann.undo().commit().unwrap();
    type_in(&ann, 2, "c");
    assert_eq!(ann.undo_depth(), 2);
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "ab");
}

#[test]
fn undo_03_a_group_is_one_entry_with_any_contents() {
    let store = store();
    let ann = editor_of(&store, "a");
    let before = image(&ann);
    let outer = ann.group();
    run(&ann, set_text("b").on("t"));
    let inner = ann.group();
    run(&ann, create(element("p", []).with_id("p")));
    drop(inner);
    run(&ann, set_attrs([("a", 1.into())]).on("t"));
    drop(outer);
    run(&ann, set_text("c").on("t"));
    assert_eq!(ann.undo_depth(), 2);
    ann.undo().commit().unwrap();
    let grouped = image(&ann);
    ann.undo().commit().unwrap();
    assert_eq!(image(&ann), before);
    ann.redo().commit().unwrap();
    assert_eq!(image(&ann), grouped);
}

#[test]
fn undo_03_typing_does_not_join_across_the_ends_of_a_group() {
    let (ann, _clock) = timed();
    type_in(&ann, 0, "a");
    let group = ann.group();
    type_in(&ann, 1, "b");
    drop(group);
    type_in(&ann, 2, "c");
    assert_eq!(ann.undo_depth(), 3);
}

#[test]
fn undo_03_skipped_edits_are_kept() {
    let store = store();
    let ann = editor_of(&store, "world");
    run(&ann, insert_text(5, "!").on("t"));
    let skipped = transaction(&ann, insert_text(0, "Hello ").on("t"));
    skipped.in_history(HistoryMode::Skipped).commit().unwrap();
    assert_eq!(ann.undo_depth(), 1);
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "Hello world");
    ann.redo().commit().unwrap();
    assert_eq!(text(&ann), "Hello world!");
}

/// An image is inserted while its upload runs; the upload ends two edits later.
#[test]
fn undo_03_a_merged_late_edit_is_undone_with_its_entry() {
    let store = store();
    let ann = editor_of(&store, "text");
    let before = image(&ann);
    let begin = create(text_node("image", "loading").with_id("image"));
    transaction(&ann, begin)
        .in_history(HistoryMode::Named("upload".into()))
        .commit()
        .unwrap();
    run(&ann, set_text("more text").on("t"));
    run(&ann, insert_text(0, "still ").on("image"));
    let end = [
        insert_text(13, ": done").on("image"),
        set_attrs([("source", "cat.png".into())]).on("image"),
    ];
    transaction(&ann, end)
        .in_history(HistoryMode::MergedInto("upload".into()))
        .commit()
        .unwrap();
    let after = image(&ann);
    assert_eq!(ann.undo_depth(), 3);

    ann.undo().commit().unwrap();
    let caption = crate::common::text(&ann.store().snapshot(), "image");
    assert_eq!(caption, "loading: done", "the edits in between went alone");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "text");
    ann.undo().commit().unwrap();
    assert_eq!(image(&ann), before);
    assert!(!exists(&ann, "image"));
    for _ in 0..3 {
        ann.redo().commit().unwrap();
    }
    assert_eq!(image(&ann), after);
}

#[test]
fn undo_03_a_merge_into_a_missing_entry_creates_it() {
    let store = store();
    let ann = editor_of(&store, "");
    for text in ["a", "b"] {
        transaction(&ann, set_text(text).on("t"))
            .in_history(HistoryMode::MergedInto("upload".into()))
            .commit()
            .unwrap();
    }
    assert_eq!(ann.undo_depth(), 1);
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "");
}

#[test]
fn undo_03_a_named_group_can_be_merged_into() {
    let store = store();
    let ann = editor_of(&store, "");
    let group = ann.group_named("upload");
    run(&ann, set_text("a").on("t"));
    drop(group);
    run(&ann, create(element("p", []).with_id("p")));
    transaction(&ann, set_attrs([("a", 1.into())]).on("t"))
        .in_history(HistoryMode::MergedInto("upload".into()))
        .commit()
        .unwrap();
    assert_eq!(ann.undo_depth(), 2);
    ann.undo().commit().unwrap();
    assert!(!exists(&ann, "p"));
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "");
}

/// Two joined insertions longer than an inline string were put into one that cannot grow.
#[test]
fn undo_03_joined_insertions_may_have_any_length() {
    for (first, second) in [(15, 10), (12, 10), (11, 10), (22, 1), (1, 22), (30, 30)] {
        let store = store();
        let ann = editor_of(&store, "");
        let group = ann.group();
        run(&ann, insert_text(0, "a".repeat(first)).on("t"));
        run(&ann, insert_text(first, "b".repeat(second)).on("t"));
        drop(group);
        let whole = "a".repeat(first) + &"b".repeat(second);
        assert_eq!((text(&ann), ann.undo_depth()), (whole.clone(), 1));
        ann.undo().commit().unwrap();
        assert_eq!(text(&ann), "");
        ann.redo().commit().unwrap();
        assert_eq!(text(&ann), whole);
    }
}

/// The commands of a server: each runs in a thread of its own, and a group spans several.
#[test]
fn undo_03_a_group_lives_across_the_threads_and_calls_of_a_server() {
    let (ann, _clock) = timed();
    let open: HashMap<u32, EditGroup> = [(7, ann.group())].into();
    let command = |open: HashMap<u32, EditGroup>, at: i64| {
        run(&ann, set_attrs([("a", at.into())]).on("t"));
        open
    };
    let mut open = (0..3).fold(open, |open, at| {
        thread::scope(|scope| scope.spawn(|| command(open, at)).join().unwrap())
    });
    let close = move || drop(open.remove(&7));
    thread::spawn(close).join().unwrap();
    run(&ann, set_attrs([("a", 3.into())]).on("t"));
    assert_eq!(ann.undo_depth(), 2);
}

#[test]
fn undo_03_a_group_that_outlives_its_editor_has_no_effect() {
    let store = store();
    let [ann, again] = ["ann", "ann"].map(|owner| Editor::new(store.clone(), owner));
    let (group, own) = (ann.group(), again.group());
    drop(ann);
    again.execute([create(element("list", []))]).unwrap();
    drop(group);
    again.execute([create(element("list", []))]).unwrap();
    assert_eq!(again.undo_depth(), 1, "its own group is still open");
    drop(own);
    again.undo().commit().unwrap();
    assert!(store.snapshot().is_empty());
}

#[test]
fn undo_03_a_group_stays_open_when_the_history_is_replaced() {
    let (ann, _clock) = timed();
    let first = ann.group();
    let ann = ann.with_history(HistoryOptions::new());
    let second = ann.group();
    type_in(&ann, 0, "a");
    drop(first);
    run(&ann, set_attrs([("a", 1.into())]).on("t"));
    assert_eq!(ann.undo_depth(), 1, "the second is still open");
    drop(second);
    run(&ann, set_attrs([("a", 2.into())]).on("t"));
    assert_eq!(ann.undo_depth(), 2);
}
