//! Unit tests of `src/store/log/unrecorded.rs`.

use std::time::Duration;

use crate::document::Change;
use crate::history::HistoryOptions;
use crate::{DataStore, Editor, dsl::*};

/// An editor of a text `t`, with this history.
fn editor(options: HistoryOptions) -> Editor {
    let store = DataStore::new();
    let mut transaction = store.begin("setup").unwrap();
    let text = text_node("paragraph", "").with_id("t");
    transaction.create(text).unwrap();
    transaction.commit().unwrap();
    Editor::new(store, "ann").with_history(options)
}

fn type_in(editor: &Editor, letters: std::ops::Range<usize>) {
    for at in letters {
        editor.execute([insert_text(at, "x").on("t")]).unwrap();
    }
}

/// How many commits wait. `None` if nothing is recorded.
fn waiting(editor: &Editor) -> Option<usize> {
    let log = editor.store().0.log.records.lock();
    let queue = &log.as_ref()?.unrecorded;
    queue.since.map(|_| queue.commits.len())
}

fn apart() -> HistoryOptions {
    HistoryOptions::new().group_interval(Duration::ZERO)
}

#[test]
fn undo_02_without_a_history_nothing_waits() {
    let ann = editor(HistoryOptions::new().limit(0));
    type_in(&ann, 0..9);
    assert_eq!(waiting(&ann), None);
}

#[test]
fn undo_02_letters_typed_in_a_row_wait_as_one_commit() {
    let ann = editor(HistoryOptions::new().group_interval(Duration::MAX));
    type_in(&ann, 0..20);
    assert_eq!(waiting(&ann), Some(1));
    ann.undo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(waiting(&ann), Some(1));
}

/// The events share the changes that are merged, and stay as they were.
#[test]
fn undo_02_letters_typed_in_a_row_wait_as_one_commit_beside_a_subscriber() {
    let ann = editor(HistoryOptions::new().group_interval(Duration::MAX));
    let events = ann.store().subscribe();
    type_in(&ann, 0..20);
    assert_eq!(waiting(&ann), Some(1));
    for _ in 0..20 {
        let commit = events.try_recv().unwrap().commit;
        let [Change::SpliceText { inserted, .. }] = &commit.changes[..] else {
            panic!("{:?}", commit.changes)
        };
        assert_eq!(inserted, "x");
    }
}

#[test]
fn undo_02_commits_that_no_history_has_any_more_wait_no_longer() {
    let ann = editor(apart().limit(10));
    type_in(&ann, 0..300);
    assert!(waiting(&ann) <= Some(12), "{:?}", waiting(&ann));
}

/// Each entry deletes backwards, which are several commits of one unit.
#[test]
fn undo_02_several_commits_of_an_old_unit_wait_no_longer() {
    let ann = editor(apart().group_interval(Duration::MAX).limit(10));
    for _ in 0..100 {
        type_in(&ann, 0..8);
        for end in (5..=8).rev() {
            let delete = delete_text_range(end - 1, end).on("t");
            ann.execute([delete]).unwrap();
        }
    }
    assert!(waiting(&ann) <= Some(60), "{:?}", waiting(&ann));
}

#[test]
fn undo_02_commits_of_long_units_wait_no_longer_than_their_entries() {
    let ann = editor(apart().limit(10));
    for group in 0..300 {
        let open = ann.group();
        for nth in 0..10 {
            let number = serde_json::json!(group * 10 + nth);
            ann.execute([set_attrs([("n", number)]).on("t")]).unwrap();
        }
        drop(open);
    }
    assert!(waiting(&ann) <= Some(105), "{:?}", waiting(&ann));
}

#[test]
fn undo_02_an_undone_commit_before_those_of_others_waits_no_longer() {
    let ann = editor(apart().limit(10));
    let bob = Editor::new(ann.store().clone(), "bob").with_history(apart().limit(10));
    type_in(&ann, 0..1);
    ann.undo().commit().unwrap();
    type_in(&bob, 0..1);
    drop(ann);
    type_in(&bob, 0..100);
    assert!(waiting(&bob) <= Some(14), "{:?}", waiting(&bob));
}

#[test]
fn undo_02_what_can_no_longer_be_redone_waits_no_longer() {
    let ann = editor(apart());
    type_in(&ann, 0..5);
    for _ in 0..3 {
        ann.undo().commit().unwrap();
    }
    assert_eq!(waiting(&ann), Some(5));
    type_in(&ann, 2..3);
    assert_eq!(waiting(&ann), Some(3));
    ann.undo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(waiting(&ann), Some(3));
}
