//! An undo within a subtree, or of an origin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doclock::{
    DataStore, Draft, Editor, StoreOptions, View,
    codes::{CodedError, Retry},
    document::EditError,
    dsl::*,
    history::{HistoryMode, HistoryOptions, UndoError},
    transaction::{Operation, PendingTransaction},
};

use super::{image, run};
use crate::common::{self, SESSION};

/// Editors of a page with two chapters. Chapter `one` has the texts `a`, `b` and a box with `c`,
/// chapter `two` has `d` and `e`. Each commit is an entry.
pub(super) fn editors<const N: usize>() -> [Editor; N] {
    let options = StoreOptions::new().session(SESSION).kept_commits(1 << 24);
    let store = DataStore::with_options(options);
    let text = |id: &str| text_node("text", id).with_id(id);
    let boxed = element("box", [text("c")]).with_id("box");
    let one = element("chapter", [text("a"), text("b"), boxed]).with_id("one");
    let two = element("chapter", [text("d"), text("e")]).with_id("two");
    let page = element("page", [one, two]).with_id("page");
    run(&Editor::new(store.clone(), "setup"), create(page));
    std::array::from_fn(|nth| {
        let options = HistoryOptions::new().group_interval(Duration::ZERO);
        Editor::new(store.clone(), ["ann", "bob"][nth]).with_history(options)
    })
}

pub(super) fn type_at_end(editor: &Editor, text: &str, of: &str) {
    let at = shown(editor, of).chars().count();
    run(editor, insert_text(at, text).on(of));
}

pub(super) fn type_in(editor: &Editor, text: &str, of: &str, origin: &str) {
    let at = shown(editor, of).chars().count();
    let edit = editor.transaction(insert_text(at, text).on(of));
    let edit = edit.in_history(HistoryMode::Origin(origin.into()));
    edit.commit().unwrap();
}

pub(super) fn shown(editor: &Editor, of: &str) -> String {
    common::text(&editor.store().snapshot(), of)
}

pub(super) fn texts(editor: &Editor) -> String {
    ["a", "b", "c", "d", "e"]
        .map(|of| shown(editor, of))
        .join(" ")
}

fn undo(editor: &Editor, node: &str) -> Result<bool, UndoError> {
    Ok(editor.undo().within(node).commit()?.changed)
}

fn redo(editor: &Editor, node: &str) -> Result<bool, UndoError> {
    Ok(editor.redo().within(node).commit()?.changed)
}

pub(super) fn depths(editor: &Editor) -> (usize, usize) {
    (editor.undo_depth(), editor.redo_depth())
}

/// Nothing of the scope is left to undo, and nothing changes.
fn check_nothing(editor: &Editor, node: &str) {
    let before = (image(editor), depths(editor), editor.store().version());
    let error = undo(editor, node).unwrap_err();
    assert!(matches!(error, UndoError::NothingToUndo), "{error}");
    let after = (image(editor), depths(editor), editor.store().version());
    assert_eq!(after, before);
}

#[test]
fn undo_06_an_undo_within_a_node_takes_the_last_entry_of_its_subtree() {
    let [ann] = editors();
    for of in ["a", "d", "c", "e"] {
        type_at_end(&ann, "!", of);
    }
    assert!(undo(&ann, "one").unwrap());
    assert_eq!(texts(&ann), "a! b c d! e!");
    assert!(undo(&ann, "d").unwrap());
    assert_eq!(texts(&ann), "a! b c d e!");
    assert!(undo(&ann, "one").unwrap());
    assert_eq!(texts(&ann), "a b c d e!");
    check_nothing(&ann, "one");
    assert_eq!(depths(&ann), (1, 3));
    for (node, expected) in [
        ("d", "a b c d! e!"),
        ("one", "a! b c d! e!"),
        ("box", "a! b c! d! e!"),
    ] {
        assert!(redo(&ann, node).unwrap());
        assert_eq!(texts(&ann), expected);
    }
    assert!(matches!(redo(&ann, "one"), Err(UndoError::NothingToRedo)));
    // The order without a scope is that of the last undos and redos.
    for expected in ["a! b c d! e!", "a b c d! e!", "a b c d e!", "a b c d e"] {
        ann.undo().commit().unwrap();
        assert_eq!(texts(&ann), expected);
    }
}

#[test]
fn undo_06_an_entry_that_also_changes_nodes_outside_is_not_in_the_scope() {
    let [ann] = editors();
    type_at_end(&ann, "1", "a");
    let both = [insert_text(1, "x").on("b"), insert_text(1, "x").on("d")];
    transaction(&ann, both).commit().unwrap();
    type_at_end(&ann, "2", "e");
    assert!(undo(&ann, "one").unwrap());
    assert_eq!(texts(&ann), "a bx c dx e2");
    check_nothing(&ann, "one");
    assert!(undo(&ann, "page").unwrap());
    assert!(undo(&ann, "page").unwrap());
    assert_eq!(texts(&ann), "a b c d e");
}

/// The undo takes a node away or brings it back that has no parent: it is in one document only.
#[test]
fn undo_06_an_entry_with_a_node_without_a_parent_is_in_no_other_subtree() {
    let [ann, bob] = editors();
    run(&bob, create(element("note", []).with_id("old")));
    let others = [
        create(element("note", []).with_id("new")),
        delete_node().on("old"),
    ];
    for other in others {
        let both = [insert_text(1, "!").on("a"), other];
        transaction(&ann, both).commit().unwrap();
        check_nothing(&ann, "page");
    }
    assert_eq!(texts(&ann), "a!! b c d e");
}

#[test]
fn undo_06_the_content_of_a_node_is_in_its_scope_and_its_own_place_is_not() {
    let [ann] = editors();
    let edits = [
        set_attrs([("key", 1.into())]).on("box"),
        add_child(text_node("text", "new").with_id("new"), 0).on("box"),
        delete_node().on("c"),
    ];
    edits.into_iter().for_each(|edit| run(&ann, edit));
    run(&ann, move_node("two", 0).on("box"));
    let moved = image(&ann);
    for depth in [3, 2, 1] {
        assert!(undo(&ann, "box").unwrap());
        assert_eq!(ann.undo_depth(), depth);
    }
    check_nothing(&ann, "box");
    check_nothing(&ann, "one");
    for _ in 0..3 {
        assert!(redo(&ann, "box").unwrap());
    }
    assert_eq!(image(&ann), moved);
    // The move is the last but three by now, and in no smaller scope than the page.
    for _ in 0..3 {
        assert!(undo(&ann, "two").unwrap());
    }
    check_nothing(&ann, "two");
    assert!(undo(&ann, "page").unwrap());
    assert_eq!(texts(&ann), "a b c d e");
}

#[test]
fn undo_06_the_creation_of_a_node_without_a_parent_is_not_in_its_own_scope() {
    let [ann] = editors();
    run(&ann, create(text_node("text", "new").with_id("new")));
    check_nothing(&ann, "new");
    type_at_end(&ann, "1", "new");
    assert!(undo(&ann, "new").unwrap());
    check_nothing(&ann, "new");
    // Nor is that of a node in its place.
    let again = create(text_node("text", "again").with_id("new"));
    transaction(&ann, [delete_node().on("new"), again])
        .commit()
        .unwrap();
    check_nothing(&ann, "new");
}

#[test]
fn undo_06_moved_text_is_in_the_scope_in_which_it_is_now() {
    let [ann, bob] = editors();
    type_at_end(&ann, "1", "a");
    type_at_end(&ann, "2", "d");
    run(&bob, move_node("two", 0).on("a"));
    run(&bob, move_node("one", 0).on("d"));
    assert!(undo(&ann, "one").unwrap());
    assert_eq!(texts(&ann), "a1 b c d e");
    check_nothing(&ann, "one");
    assert!(undo(&ann, "two").unwrap());
    assert_eq!(texts(&ann), "a b c d e");
    // Half of a text is in one scope, half of it in the other.
    type_at_end(&ann, "34", "a");
    run(&bob, split_text_node(2).on("a"));
    let right = bob
        .store()
        .snapshot()
        .next_sibling("a")
        .unwrap()
        .id()
        .clone();
    run(&bob, move_node("one", 0).on(right.clone()));
    assert_eq!(
        (
            shown(&ann, "a"),
            common::text(&ann.store().snapshot(), &right.to_string())
        ),
        ("a3".into(), "4".into())
    );
    check_nothing(&ann, "one");
    check_nothing(&ann, "two");
    assert!(undo(&ann, "page").unwrap());
    assert_eq!(shown(&ann, "a"), "a");
}

#[test]
fn undo_06_a_scope_that_was_deleted_is_an_error_until_it_is_back() {
    let [ann, bob] = editors();
    type_at_end(&ann, "1", "a");
    run(&bob, delete_node().on("one"));
    let before = (image(&ann), depths(&ann), ann.store().version());
    let error = undo(&ann, "one").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the node of the undo scope does not exist: one"
    );
    let facts = (error.code(), error.node(), error.retry());
    assert_eq!(facts, ("undoScopeNotFound", Some(&"one".into()), Retry::No));
    assert_eq!((image(&ann), depths(&ann), ann.store().version()), before);
    bob.undo().commit().unwrap();
    assert!(undo(&ann, "one").unwrap());
    assert_eq!(texts(&ann), "a b c d e");
}

#[test]
fn undo_06_an_entry_without_an_effect_is_in_no_subtree_and_stays() {
    let [ann, bob] = editors();
    type_at_end(&ann, "1", "a");
    type_at_end(&ann, "2", "b");
    run(&bob, delete_text_range(1, 2).on("b"));
    assert!(undo(&ann, "one").unwrap(), "not the newer one");
    assert_eq!((texts(&ann).as_str(), depths(&ann)), ("a b c d e", (1, 1)));
    check_nothing(&ann, "one");
    // Without the limit it is undone.
    assert!(!ann.undo().commit().unwrap().changed);
}

#[test]
fn undo_06_inverse_code_runs_in_no_subtree() {
    let [ann] = editors();
    type_at_end(&ann, "1", "a");
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let code = |on: &mut Draft| on.insert_text("b", 1, "2");
    let inverse = move |_: &mut Draft| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok::<(), EditError>(())
    };
    run(&ann, op_with_inverse(code, inverse));
    assert!(undo(&ann, "one").unwrap());
    assert_eq!(texts(&ann), "a b2 c d e");
    check_nothing(&ann, "one");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    ann.undo().commit().unwrap();
    assert_eq!(
        (texts(&ann).as_str(), ran.load(Ordering::Relaxed)),
        ("a b c d e", 1)
    );
    // The redo runs no code, so it is in the scope.
    assert!(redo(&ann, "b").unwrap());
    assert_eq!(texts(&ann), "a b2 c d e");
}

/// The attribute of a node, set by Ann and then by Bob: the undo of Ann is refused.
fn set_by_both(ann: &Editor, bob: &Editor, node: &str) {
    for (editor, value) in [(ann, 1), (bob, 2)] {
        run(editor, set_attrs([("key", value.into())]).on(node));
    }
}

#[test]
fn undo_06_a_conflict_is_reported_in_the_scope_of_its_node_only() {
    let [ann, bob] = editors();
    type_at_end(&ann, "1", "a");
    type_at_end(&ann, "2", "d");
    set_by_both(&ann, &bob, "b");
    set_by_both(&ann, &bob, "e");
    let error = undo(&ann, "one").unwrap_err();
    assert_eq!(
        (error.code(), error.node()),
        ("undoConflict", Some(&"b".into()))
    );
    assert!(undo(&ann, "one").unwrap(), "it is reported once");
    assert_eq!(texts(&ann), "a b c d2 e");
    // The entry of `e` was not tried yet for the user, so it is reported now.
    let error = undo(&ann, "two").unwrap_err();
    assert_eq!(error.node(), Some(&"e".into()));
    assert!(undo(&ann, "two").unwrap());
    assert_eq!((texts(&ann).as_str(), depths(&ann)), ("a b c d e", (2, 2)));
}

/// The node of the conflict is in no subtree any more, so the entry before is undone.
#[test]
fn undo_06_a_conflict_at_a_deleted_node_is_reported_without_a_scope_only() {
    let [ann, bob] = editors();
    type_at_end(&ann, "old", "b");
    type_at_end(&bob, "word", "a");
    run(&ann, delete_text_range(1, 5).on("a"));
    run(&bob, delete_node().on("a"));
    assert!(undo(&ann, "one").unwrap());
    assert_eq!(shown(&ann, "b"), "b");
    check_nothing(&ann, "one");
    let error = ann.undo().commit().unwrap_err();
    assert_eq!(
        (error.code(), error.node()),
        ("undoConflict", Some(&"a".into()))
    );
    assert_eq!(depths(&ann), (1, 1));
}

#[test]
fn undo_06_a_later_edit_of_the_editor_itself_outside_of_the_scope_can_conflict() {
    let [ann] = editors();
    run(&ann, move_node("box", 0).on("a"));
    run(&ann, move_node("two", 0).on("a"));
    check_nothing(&ann, "one");
    run(&ann, set_attrs([("key", 1.into())]).on("b"));
    let both = [
        set_attrs([("key", 2.into())]).on("b"),
        insert_text(0, "x").on("d"),
    ];
    transaction(&ann, both).commit().unwrap();
    let error = undo(&ann, "one").unwrap_err();
    let UndoError::Conflict {
        by: Some((by, _)),
        returns: true,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((by.as_str(), error.node()), ("ann", Some(&"b".into())));
    for depth in [3, 2, 1, 0] {
        ann.undo().commit().unwrap();
        assert_eq!(ann.undo_depth(), depth);
    }
}

#[test]
fn undo_06_an_edit_outside_of_the_scope_keeps_what_can_be_redone_in_it() {
    let [ann] = editors();
    type_at_end(&ann, "1", "a");
    undo(&ann, "one").unwrap();
    type_at_end(&ann, "2", "d");
    assert!(redo(&ann, "one").unwrap());
    assert_eq!(texts(&ann), "a1 b c d2 e");
    undo(&ann, "one").unwrap();
    // An edit that also touches the scope, if only by a node that leaves it.
    run(&ann, move_node("two", 0).on("b"));
    assert!(matches!(redo(&ann, "one"), Err(UndoError::NothingToRedo)));
    undo(&ann, "d").unwrap();
    type_at_end(&ann, "3", "a");
    ann.undo().commit().unwrap();
    // What was undone without a limit is cleared by any edit.
    type_at_end(&ann, "4", "e");
    assert_eq!(depths(&ann), (2, 1));
    ann.redo().commit().unwrap();
    assert_eq!(texts(&ann), "a b c d2 e4");
}

#[test]
fn undo_06_the_limit_of_the_history_also_bounds_what_can_be_redone() {
    let [ann] = editors();
    let options = HistoryOptions::new()
        .group_interval(Duration::ZERO)
        .limit(3);
    let ann = ann.with_history(options);
    for of in ["a", "b", "c", "d", "e"] {
        type_at_end(&ann, "!", of);
        undo(&ann, of).unwrap();
    }
    assert_eq!(depths(&ann), (0, 3));
    while ann.can_redo() {
        ann.redo().commit().unwrap();
    }
    assert_eq!(texts(&ann), "a b c! d! e!");
}

#[test]
fn undo_06_a_key_stands_for_the_undo_in_its_scope() {
    let [ann] = editors();
    type_at_end(&ann, "1", "a");
    type_at_end(&ann, "2", "d");
    let keyed = |node: &str| ann.undo().within(node).idempotent("key").commit();
    assert!(!keyed("one").unwrap().repeated);
    assert!(keyed("one").unwrap().repeated);
    assert_eq!(texts(&ann), "a b c d2 e");
    for other in [
        keyed("two"),
        ann.undo().idempotent("key").commit(),
        ann.undo().of("one").idempotent("key").commit(),
    ] {
        assert!(matches!(other, Err(UndoError::IdempotencyMismatch(_))));
    }
}

#[test]
fn undo_06_an_editor_that_locks_nodes_undoes_in_a_scope_beside_a_lock_outside() {
    let [ann] = editors();
    let ann = ann.with_node_locks(3);
    type_at_end(&ann, "1", "a");
    type_at_end(&ann, "2", "d");
    let scope = doclock::lock::node::Scope::new().write_subtree("two");
    let job = ann.store().begin_on("job", scope).unwrap();
    let typing = std::thread::scope(|threads| threads.spawn(|| undo(&ann, "one")).join().unwrap());
    assert!(typing.unwrap());
    drop(job);
    assert_eq!(texts(&ann), "a b c d2 e");
}

/// The undo finds the edit in the queue of the commits that are not recorded yet.
#[test]
fn undo_06_a_scoped_undo_that_waits_behind_its_own_edit_can_be_redone() {
    type Undo<'a> = PendingTransaction<'a, UndoError>;
    let scopes: [fn(Undo<'_>) -> Undo<'_>; 2] = [|it| it.within("a"), |it| it.of("form")];
    for scope in scopes {
        let [ann] = editors();
        // Otherwise the undo does not wait: there is nothing to undo.
        type_at_end(&ann, "W", "e");
        let store = ann.store();
        let job = store.begin("job").unwrap();
        let wait_for = |length| {
            while store.queue_length() < length {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(|| type_in(&ann, "X", "a", "form"));
            wait_for(1);
            let undo = threads.spawn(|| scope(ann.undo()).commit().unwrap().changed);
            wait_for(2);
            drop(job);
            assert!(undo.join().unwrap());
        });
        assert_eq!(texts(&ann), "a b c d eW");
        type_at_end(&ann, "Y", "d");
        assert_eq!(depths(&ann), (2, 1));
        assert!(scope(ann.redo()).commit().unwrap().changed);
        assert_eq!(texts(&ann), "aX b c dY eW");
    }
}

/// The redo changes nothing either: another editor has deleted the text.
#[test]
fn undo_06_a_restored_history_knows_the_redo_without_an_effect_after_an_edit_outside() {
    let [ann, bob] = editors();
    type_in(&ann, "X", "a", "form");
    run(&bob, delete_text_range(1, 2).on("a"));
    assert!(!ann.undo().of("form").commit().unwrap().changed);
    type_at_end(&ann, "Y", "e");
    assert!(!ann.redo().of("form").commit().unwrap().changed);
    bob.undo().commit().unwrap();
    assert_eq!(
        (texts(&ann).as_str(), depths(&ann)),
        ("aX b c d eY", (2, 0))
    );
    let store = ann.store().clone();
    drop(ann);
    let ann = Editor::new(store, "ann").with_restored_history();
    assert_eq!(depths(&ann), (2, 0));
    // The redo is later than the edit.
    for expected in ["a b c d eY", "a b c d e"] {
        ann.undo().commit().unwrap();
        assert_eq!(texts(&ann), expected);
    }
}

/// A redo in a scope after a later edit is repeated in a restored history, too.
#[test]
fn undo_06_a_restored_history_knows_the_redo_after_an_edit_outside_of_the_scope() {
    let [ann] = editors();
    type_at_end(&ann, "1", "a");
    undo(&ann, "one").unwrap();
    type_at_end(&ann, "2", "d");
    redo(&ann, "one").unwrap();
    let store = ann.store().clone();
    drop(ann);
    let ann = Editor::new(store, "ann").with_restored_history();
    assert_eq!(depths(&ann), (2, 0));
    for expected in ["a b c d2 e", "a b c d e"] {
        ann.undo().commit().unwrap();
        assert_eq!(texts(&ann), expected);
    }
}

/// Whatever the scope is, the operations of a scoped undo are those of a plain one.
#[test]
fn undo_06_the_result_of_a_scoped_undo_names_no_scope() {
    let [ann] = editors();
    type_at_end(&ann, "1", "a");
    let operation: Operation = insert_text(1, "2").on("d");
    run(&ann, operation);
    let result = ann
        .undo()
        .within("one")
        .label("undo in a chapter")
        .commit()
        .unwrap();
    assert_eq!(result.operations[0].name, "undo");
    assert_eq!(result.first_place.unwrap().node_id, "a".into());
}
