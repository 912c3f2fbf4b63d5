//! Undo and redo of one editor alone.

use doclock::{
    Draft, Editor,
    document::{EditError, Mark, Selection},
    dsl::*,
    history::{HistoryOptions, UndoError},
    transaction::{OperationError, parse_operations},
};

use super::{editor_of, exists, image, run, text, type_in};
use crate::common::store;

#[test]
fn undo_01_a_deleted_subtree_comes_back_with_ids_order_and_marks() {
    let store = store();
    let ann = Editor::new(store.clone(), "ann");
    let marked = text_node("inline-text", "bold").with_marks([Mark::whole("strong")]);
    let list = element("list", [element("item", [marked]), element("item", [])]);
    run(
        &ann,
        create(element("page", [list.with_id("list")]).with_id("page")),
    );
    let before = image(&ann);
    run(&ann, delete_node().on("list"));
    let after = image(&ann);
    ann.undo().commit().unwrap();
    assert_eq!(image(&ann), before);
    ann.redo().commit().unwrap();
    assert_eq!(image(&ann), after);
    ann.undo().commit().unwrap();
    assert_eq!(image(&ann), before);
}

#[test]
fn undo_01_goes_back_step_by_step_and_forward_again() {
    let store = store();
    let ann = editor_of(&store, "");
    let mut images = vec![image(&ann)];
    for step in 0..20 {
        run(&ann, set_attrs([("step", step.into())]).on("t"));
        images.push(image(&ann));
    }
    for expected in images.iter().rev().skip(1) {
        ann.undo().commit().unwrap();
        assert_eq!(&image(&ann), expected);
    }
    assert!(matches!(ann.undo().commit(), Err(UndoError::NothingToUndo)));
    for expected in &images[1..] {
        ann.redo().commit().unwrap();
        assert_eq!(&image(&ann), expected);
    }
    assert!(matches!(ann.redo().commit(), Err(UndoError::NothingToRedo)));
}

#[test]
fn undo_01_an_undo_is_a_separate_commit_marked_as_an_undo() {
    let store = store();
    let ann = editor_of(&store, "a");
    let events = store.subscribe();
    run(&ann, set_text("b").on("t"));
    let result = ann.undo().commit().unwrap();
    assert_eq!((result.version, result.changed), (3, true));
    assert_eq!(result.operations[0].name, "undo");
    ann.redo().commit().unwrap();
    let names: Vec<String> = events
        .try_iter()
        .map(|event| event.commit.operations[0].name.to_string())
        .collect();
    assert_eq!(names, ["setText", "undo", "redo"]);
}

#[test]
fn undo_01_an_undo_and_a_redo_are_one_executed_operation_without_nodes() {
    let store = store();
    let ann = editor_of(&store, "a");
    run(&ann, delete_node().on("t"));
    let events = store.subscribe();
    for (name, result) in [
        ("undo", ann.undo().commit().unwrap()),
        ("redo", ann.redo().commit().unwrap()),
    ] {
        let operations = serde_json::to_value(&result.operations).unwrap();
        // Also where nodes come back.
        assert_eq!(
            operations,
            serde_json::json!([{"type": name, "created": []}])
        );
        assert_eq!(result.changes.len(), 1);
        assert_eq!(*events.try_recv().unwrap().commit, result);
        let script = format!(r#"[{{"type": "{name}"}}]"#);
        assert!(
            parse_operations(&script).is_err(),
            "no operation of a batch"
        );
    }
}

#[test]
fn undo_02_an_edit_after_undo_clears_redo() {
    let store = store();
    let ann = editor_of(&store, "a");
    run(&ann, set_text("b").on("t"));
    ann.undo().commit().unwrap();
    assert!(ann.can_redo());
    run(&ann, set_text("c").on("t"));
    assert!(!ann.can_redo());
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "a");
}

#[test]
fn undo_02_an_edit_that_changes_nothing_or_fails_leaves_redo_alone() {
    let store = store();
    let ann = editor_of(&store, "a");
    run(&ann, set_text("b").on("t"));
    ann.undo().commit().unwrap();
    run(&ann, set_text("a").on("t"));
    transaction(&ann, insert_text(9, "x").on("t"))
        .commit()
        .unwrap_err();
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (0, 1));
}

#[test]
fn undo_02_the_limit_drops_the_oldest() {
    let store = store();
    let ann = editor_of(&store, "0").with_history(HistoryOptions::new().limit(3));
    for number in 1..=5 {
        run(&ann, set_text(number.to_string()).on("t"));
    }
    assert_eq!(ann.undo_depth(), 3);
    while ann.undo().commit().is_ok() {}
    assert_eq!(text(&ann), "2");

    let bob = Editor::new(store, "bob").with_history(HistoryOptions::new().limit(0));
    run(&bob, set_text("9").on("t"));
    assert!(!bob.can_undo());
}

#[test]
fn undo_02_a_failed_undo_changes_neither_document_nor_stack() {
    let store = store();
    let ann = editor_of(&store, "a");
    let fail = |_: &mut Draft| Err::<(), _>("the printer is on fire");
    let write = |on: &mut Draft| on.set_text("t", "b");
    run(&ann, op_with_inverse(write, fail));
    let before = (image(&ann), store.version());
    let error = ann.undo().commit().unwrap_err();
    assert!(matches!(
        error,
        UndoError::Inverse(OperationError::Failed(_))
    ));
    assert_eq!(
        error.to_string(),
        "the inverse of an operation failed: the printer is on fire"
    );
    assert_eq!((image(&ann), store.version()), before);
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 0));
    assert!(!store.is_locked());
}

#[test]
fn undo_02_a_panic_in_an_inverse_is_a_failed_undo() {
    let store = store();
    let ann = editor_of(&store, "a");
    let write = |on: &mut Draft| on.set_text("t", "b");
    let panic = |_: &mut Draft| -> Result<(), EditError> { panic!("no way back") };
    run(&ann, op_with_inverse(write, panic));
    let error = ann.undo().commit().unwrap_err();
    assert!(matches!(
        error,
        UndoError::Inverse(OperationError::Panicked(_))
    ));
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("b", 1));
    assert!(!store.is_locked());
}

#[test]
fn undo_01_an_inverse_runs_after_the_document_is_back_and_is_part_of_the_undo() {
    let store = store();
    let ann = editor_of(&store, "a");
    let write = |on: &mut Draft| on.set_text("t", "b");
    let note = |on: &mut Draft| {
        use doclock::View;
        let text = on.node("t").map(|node| node.text().to_string());
        on.set_attrs("t", [("was", text.into())])
    };
    run(&ann, op_with_inverse(write, note));
    ann.undo().commit().unwrap();
    let node = store.snapshot();
    let was = |view: &doclock::Snapshot| {
        use doclock::View;
        view.node("t").unwrap().attributes().get("was").cloned()
    };
    assert_eq!(was(&node), Some("a".into()));
    ann.redo().commit().unwrap();
    assert_eq!((text(&ann).as_str(), was(&store.snapshot())), ("b", None));
}

#[test]
fn undo_04_selection_is_restored_with_the_entry() {
    let store = store();
    let ann = editor_of(&store, "abc");
    ann.select(Selection::caret("t", 3)).unwrap();
    type_in(&ann, 3, "def");
    ann.select(Selection::caret("t", 0)).unwrap();
    let result = ann.undo().commit().unwrap();
    assert_eq!(result.selection_before, Some(Selection::caret("t", 0)));
    assert_eq!(result.selection_after, Some(Selection::caret("t", 3)));
    assert_eq!(ann.selection(), Some(Selection::caret("t", 3)));
    ann.redo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t", 6)));
}

#[test]
fn undo_04_a_selection_in_a_deleted_node_comes_back_with_it() {
    let store = store();
    let ann = editor_of(&store, "abc");
    ann.select(Selection::caret("t", 2)).unwrap();
    run(&ann, delete_node().on("t"));
    assert_eq!(ann.selection(), None);
    ann.undo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t", 2)));
}

#[test]
fn undo_01_history_can_be_forgotten() {
    let store = store();
    let ann = editor_of(&store, "a");
    run(&ann, set_text("b").on("t"));
    run(&ann, create(element("p", []).with_id("p")));
    ann.undo().commit().unwrap();
    assert!(!exists(&ann, "p"));
    ann.clear_history();
    assert_eq!((ann.can_undo(), ann.can_redo()), (false, false));
}

/// Calls its editor when it is dropped, which would deadlock under the editor's own mutex.
struct Nosy(
    std::sync::Weak<Editor>,
    std::sync::Arc<std::sync::atomic::AtomicUsize>,
);

impl Drop for Nosy {
    fn drop(&mut self) {
        if let Some(editor) = self.0.upgrade() {
            editor.undo_depth();
            editor.store().try_lock("nosy").map(drop).unwrap();
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[test]
fn undo_02_captures_of_an_inverse_are_dropped_without_locks_held() {
    use std::sync::{Arc, atomic::Ordering};
    let dropped = Arc::default();
    let ann = Arc::new(editor_of(&store(), "").with_history(HistoryOptions::new().limit(1)));
    let edit = |text: &'static str| {
        let nosy = Nosy(Arc::downgrade(&ann), Arc::clone(&dropped));
        let write = move |on: &mut Draft| on.set_text("t", text);
        let inverse = move |_: &mut Draft| {
            let _ = &nosy;
            Ok::<(), EditError>(())
        };
        run(&ann, op_with_inverse(write, inverse));
    };
    edit("a");
    edit("b");
    assert_eq!(dropped.load(Ordering::Relaxed), 1, "the limit");
    ann.undo().commit().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 2, "undone");
    edit("c");
    assert!(ann.discard_undo());
    assert_eq!(dropped.load(Ordering::Relaxed), 3, "discarded");
    edit("d");
    ann.clear_history();
    assert_eq!(dropped.load(Ordering::Relaxed), 4, "cleared");
}
