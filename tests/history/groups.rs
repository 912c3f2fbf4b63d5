//! Groups of edits that one undo reverts.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use doclock::{
    DataStore, Editor, StoreOptions,
    dsl::*,
    history::{EditGroup, HistoryMode, HistoryOptions},
    time::ManualClock,
};

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
