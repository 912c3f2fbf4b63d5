//! An undo of an origin, and the names of groups.

use doclock::{
    DataStore, Editor, StoreOptions,
    dsl::*,
    history::{HistoryEventKind, HistoryMode, UndoError},
    time::ManualClock,
};

use super::run;
use super::scopes::{depths, editors, shown, texts, type_at_end, type_in};
use crate::common::SESSION;

#[test]
fn undo_06_an_undo_of_an_origin_takes_the_last_entry_of_its_name() {
    let [ann] = editors();
    let events = ann.history_events();
    type_in(&ann, "1", "a", "form");
    type_at_end(&ann, "2", "b");
    let named = ann.transaction(insert_text(1, "3").on("c"));
    named
        .in_history(HistoryMode::Named("form".into()))
        .commit()
        .unwrap();
    let group = ann.group_named("form");
    type_at_end(&ann, "4", "d");
    type_in(&ann, "5", "d", "other");
    drop(group);
    type_in(&ann, "6", "e", "other");
    for expected in ["a1 b2 c3 d e6", "a1 b2 c d e6", "a b2 c d e6"] {
        ann.undo().of("form").commit().unwrap();
        assert_eq!(texts(&ann), expected);
    }
    let nothing = ann.undo().of("form").commit();
    assert!(matches!(nothing, Err(UndoError::NothingToUndo)));
    // An edit of another origin keeps what can be redone in this one.
    type_in(&ann, "7", "e", "other");
    ann.redo().of("form").commit().unwrap();
    assert_eq!(texts(&ann), "a1 b2 c d e67");
    type_in(&ann, "8", "e", "form");
    assert_eq!(depths(&ann), (5, 0));
    // Both limits hold.
    ann.undo().of("form").within("one").commit().unwrap();
    assert_eq!(texts(&ann), "a b2 c d e678");
    let undone = events
        .try_iter()
        .filter(|event| event.kind == HistoryEventKind::Undone);
    assert!(
        undone
            .into_iter()
            .all(|event| event.name.as_deref() == Some("form"))
    );
}

#[test]
fn undo_06_typing_joins_the_entry_of_its_own_origin_only() {
    let clock = ManualClock::new();
    let options = StoreOptions::new().session(SESSION).clock(clock.clock());
    let ann = Editor::new(DataStore::with_options(options), "ann");
    run(&ann, create(text_node("text", "").with_id("a")));
    for (text, origin) in [("1", "form"), ("2", "form"), ("3", "other")] {
        type_in(&ann, text, "a", origin);
    }
    type_at_end(&ann, "4", "a");
    type_at_end(&ann, "5", "a");
    assert_eq!(ann.undo_depth(), 4);
    ann.undo().of("form").commit().unwrap();
    assert_eq!(shown(&ann, "a"), "345");
    ann.undo().commit().unwrap();
    assert_eq!(shown(&ann, "a"), "3");
}

#[test]
fn undo_06_an_undo_in_a_scope_that_finds_nothing_keeps_the_group_whole() {
    let [ann] = editors();
    let group = ann.group_named("form");
    type_at_end(&ann, "1", "a");
    for nothing in [ann.undo().of("other"), ann.undo().within("two")] {
        assert!(matches!(nothing.commit(), Err(UndoError::NothingToUndo)));
    }
    type_at_end(&ann, "2", "b");
    drop(group);
    assert_eq!(ann.undo_depth(), 1);
    ann.undo().of("form").commit().unwrap();
    assert_eq!(texts(&ann), "a b c d e");
}

#[test]
fn undo_06_each_entry_of_a_named_group_has_its_name() {
    let [ann] = editors();
    let group = ann.group_named("form");
    type_at_end(&ann, "1", "a");
    ann.undo().of("form").commit().unwrap();
    type_at_end(&ann, "2", "b");
    type_in(&ann, "3", "b", "other");
    drop(group);
    type_at_end(&ann, "4", "d");
    ann.undo().of("form").commit().unwrap();
    assert_eq!(texts(&ann), "a b c d4 e");
    let nothing = ann.undo().of("form").commit();
    assert!(matches!(nothing, Err(UndoError::NothingToUndo)));
}

#[test]
fn undo_06_a_group_without_a_name_has_that_of_its_first_origin() {
    let [ann] = editors();
    let group = ann.group();
    type_at_end(&ann, "1", "a");
    type_in(&ann, "2", "b", "form");
    type_in(&ann, "3", "d", "other");
    drop(group);
    let nothing = ann.undo().of("other").commit();
    assert!(matches!(nothing, Err(UndoError::NothingToUndo)));
    ann.undo().of("form").commit().unwrap();
    assert_eq!(texts(&ann), "a b c d e");
}
