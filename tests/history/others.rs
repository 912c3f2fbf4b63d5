//! Undo with other editors: their changes are kept, or the undo returns a conflict.

use std::time::Duration;

use doclock::{
    DataStore, Draft, Editor, StoreOptions, TransactionManager, View,
    document::{EditError, Mark, Selection, SplitPoint, UndoConflict},
    dsl::*,
    history::{HistoryOptions, UndoError},
};

use super::{editor_of, exists, image, run, text, type_in, undo_without_effect};
use crate::common::{children, marks, store};

/// Ann, with a text node that others can change, and Bob.
fn two(text: &str) -> (Editor, Editor) {
    let ann = editor_of(&store(), text);
    let bob = Editor::new(ann.store().clone(), "bob");
    (ann, bob)
}

/// The same, with an entry for each edit of Ann. Her undos go on after entries without an effect.
fn two_of_whom_ann_goes_on(text: &str) -> (Editor, Editor) {
    let (ann, bob) = two(text);
    let options = HistoryOptions::new().undo_next_effective(true);
    (
        ann.with_history(options.group_interval(Duration::ZERO)),
        bob,
    )
}

fn refused(editor: &Editor) -> UndoError {
    let before = (image(editor), editor.undo_depth(), editor.store().version());
    let error = editor.undo().commit().unwrap_err();
    let after = (image(editor), editor.undo_depth(), editor.store().version());
    assert_eq!(after, before, "a failed undo changes nothing");
    error
}

fn conflict(editor: &Editor) -> UndoConflict {
    match refused(editor) {
        UndoError::Conflict { conflict, .. } => conflict,
        other => panic!("expected a conflict, found {other}"),
    }
}

#[test]
fn undo_03_text_typed_by_others_around_and_within_is_kept() {
    let (ann, bob) = two("<>");
    type_in(&ann, 1, "abc");
    type_in(&bob, 2, "X");
    type_in(&bob, 0, "Y");
    assert_eq!(text(&ann), "Y<aXbc>");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "Y<X>");
    ann.redo().commit().unwrap();
    assert_eq!(text(&ann), "Y<aXbc>");
}

#[test]
fn undo_03_text_deleted_by_others_stays_deleted() {
    let (ann, bob) = two("<>");
    type_in(&ann, 1, "abc");
    run(&bob, delete_text_range(2, 3).on("t"));
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "<>");
}

#[test]
fn undo_03_an_undo_of_text_that_others_deleted_succeeds_and_changes_nothing() {
    let (ann, bob) = two("<>");
    type_in(&ann, 1, "abc");
    run(&bob, delete_text_range(0, 5).on("t"));
    undo_without_effect(&ann);
    bob.undo().commit().unwrap();
    assert_eq!(text(&ann), "<>");
    ann.redo().commit().unwrap();
    assert_eq!(text(&ann), "<abc>");
}

#[test]
fn undo_03_several_entries_with_others_between_them() {
    let (ann, bob) = two("0123456789");
    type_in(&ann, 5, "a");
    type_in(&bob, 0, "x");
    run(&ann, delete_text_range(1, 4).on("t"));
    type_in(&bob, 1, "y");
    assert_eq!(text(&ann), "xy34a56789");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "x012y34a56789");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "x012y3456789");
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(text(&ann), "xy34a56789");
    while bob.undo().commit().is_ok() {}
    assert_eq!(text(&bob), "34a56789");
}

#[test]
fn undo_03_a_group_with_interleaved_edits_by_others_is_undone_as_one() {
    let (ann, bob) = two("--");
    let group = ann.group();
    type_in(&ann, 1, "a");
    type_in(&bob, 0, "x");
    type_in(&ann, 3, "b");
    drop(group);
    type_in(&bob, 4, "y");
    assert_eq!((text(&ann).as_str(), ann.undo_depth()), ("x-aby-", 1));
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "x-y-");
}

#[test]
fn undo_03_a_restored_node_returns_to_its_position_among_moved_siblings() {
    let (ann, bob) = two("");
    let items = ["a", "b", "c"].map(|id| element("item", []).with_id(id));
    run(&bob, create(element("list", items).with_id("list")));
    run(&ann, delete_node().on("b"));
    run(
        &bob,
        add_child(element("item", []).with_id("new"), 0).on("list"),
    );
    run(&bob, delete_node().on("a"));
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann.store().snapshot(), "list"), ["new", "b", "c"]);
}

#[test]
fn undo_03_a_moved_node_goes_back_unless_another_editor_moved_it() {
    let (ann, bob) = two("");
    let items = ["a", "b", "c"].map(|id| element("item", []).with_id(id));
    run(&bob, create(element("list", items).with_id("list")));
    run(&ann, move_node("list", 0).on("c"));
    run(
        &bob,
        add_child(element("item", []).with_id("new"), 1).on("list"),
    );
    ann.undo().commit().unwrap();
    assert_eq!(
        children(&ann.store().snapshot(), "list"),
        ["new", "a", "b", "c"]
    );
    ann.redo().commit().unwrap();
    run(&bob, remove_child("c").on("list"));
    assert_eq!(conflict(&ann), UndoConflict::Moved { id: "c".into() });
}

#[test]
fn undo_03_a_created_node_that_others_wrote_in_stays() {
    let (ann, bob) = two("");
    run(
        &ann,
        create(element("p", [text_node("t", "x").with_id("x")]).with_id("p")),
    );
    run(&ann, create(element("q", []).with_id("q")));
    run(&bob, insert_text(0, "y").on("x"));
    run(&bob, add_child(text_node("t", "z"), 0).on("q"));
    assert_eq!(
        refused(&ann).to_string(),
        "the entry can no longer be undone: node q or its subtree was changed, by bob in version 5"
    );
    // Until Bob undoes that.
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert!(!exists(&ann, "q"));
    // Only the text of Ann's other node goes: Bob wrote in it.
    ann.undo().commit().unwrap();
    assert_eq!(crate::common::text(&ann.store().snapshot(), "x"), "y");
    ann.redo().commit().unwrap();
    assert_eq!(crate::common::text(&ann.store().snapshot(), "x"), "yx");
}

/// Once such a node stayed for Bob's text without a parent: Ann's move of it was undone.
#[test]
fn undo_03_a_node_that_was_created_and_then_moved_never_stays_outside_of_the_tree() {
    let (ann, bob) = two("");
    run(&bob, create(element("p", []).with_id("p")));
    let paste = |on: &mut doclock::Draft| {
        on.create(text_node("x", "abc").with_id("x"))?;
        on.move_node("x", "p", 0)
    };
    run(&ann, op(paste));
    run(&bob, insert_text(0, "y").on("x"));
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann.store().snapshot(), "p"), ["x"]);
    bob.undo().commit().unwrap();
    assert!(!exists(&ann, "x"));
}

/// Once it followed its earlier neighbour into the list where that had been moved.
#[test]
fn undo_03_a_restored_node_returns_to_its_list_when_its_neighbour_is_in_another() {
    let (ann, bob) = two("");
    let items = ["a", "b", "c"].map(|id| text_node("item", id).with_id(id));
    run(&bob, create(element("list", items).with_id("two")));
    run(&bob, create(element("list", []).with_id("one")));
    run(&ann, delete_node().on("c"));
    run(&ann, op(|on: &mut doclock::Draft| on.join_nodes("a", "b")));
    run(&bob, move_node("one", 0).on("a"));
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann.store().snapshot(), "one"), ["a"]);
    assert_eq!(children(&ann.store().snapshot(), "two"), ["b"]);
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann.store().snapshot(), "two"), ["b", "c"]);
}

#[test]
fn undo_03_a_conflict_over_a_deleted_node_names_the_editor_that_deleted_it() {
    let (ann, bob) = two("abc");
    run(&ann, delete_text_range(0, 1).on("t"));
    run(&bob, delete_node().on("t"));
    assert_eq!(conflict(&ann), UndoConflict::NodeGone { id: "t".into() });
    assert_eq!(
        ann.undo().commit().unwrap_err().to_string(),
        "the entry can no longer be undone: node t was deleted, by bob in version 3"
    );
}

#[test]
fn undo_03_attributes_and_types_that_others_changed_are_kept() {
    let (ann, bob) = two("");
    run(&ann, set_attrs([("a", 1.into()), ("b", 1.into())]).on("t"));
    run(&bob, set_attrs([("c", 2.into())]).on("t"));
    ann.undo().commit().unwrap();
    ann.redo().commit().unwrap();
    run(&bob, set_attrs([("a", 2.into())]).on("t"));
    let aspect = "set of attributes";
    assert_eq!(
        conflict(&ann),
        UndoConflict::Changed {
            id: "t".into(),
            aspect
        }
    );

    let kind = |kind: &'static str| transform_node::<&str>(kind, []).on("t");
    run(&ann, kind("heading"));
    run(&bob, kind("quote"));
    let aspect = "type";
    assert_eq!(
        conflict(&ann),
        UndoConflict::Changed {
            id: "t".into(),
            aspect
        }
    );
}

#[test]
fn undo_03_marks_are_undone_without_those_of_others() {
    let (ann, bob) = two("0123456789");
    run(&ann, set_marks([Mark::new("bold", 2..8)]).on("t"));
    type_in(&bob, 5, "xx");
    run(
        &bob,
        set_marks([Mark::new("bold", 2..10), Mark::new("em", 0..4)]).on("t"),
    );
    ann.undo().commit().unwrap();
    let left = marks(&ann.store().snapshot(), "t");
    // Bob typed the two letters into the mark.
    assert_eq!(left, [(0, 4, "em".to_owned()), (5, 7, "bold".to_owned())]);
    ann.redo().commit().unwrap();
    let left = marks(&ann.store().snapshot(), "t");
    assert_eq!(left, [(0, 4, "em".to_owned()), (2, 10, "bold".to_owned())]);
}

#[test]
fn undo_03_deleted_text_comes_back_with_its_marks() {
    let (ann, bob) = two("0123456789");
    run(&bob, set_marks([Mark::new("bold", 3..6)]).on("t"));
    run(&ann, delete_text_range(2, 8).on("t"));
    type_in(&bob, 0, "x");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "x0123456789");
    let back = marks(&ann.store().snapshot(), "t");
    assert_eq!(back, [(4, 7, "bold".to_owned())]);
}

#[test]
fn undo_03_a_split_is_joined_again_with_what_was_typed_in_both_halves() {
    let (ann, bob) = two("");
    let line = text_node("text", "onetwo").with_id("l");
    run(&bob, create(element("p", [line]).with_id("p")));
    run(&ann, split_at(3));
    let right = children(&ann.store().snapshot(), "p")[1].clone();
    run(&bob, insert_text(3, "!").on("l"));
    run(&bob, insert_text(3, "?").on(right.as_str()));
    ann.undo().commit().unwrap();
    assert_eq!(
        crate::common::text(&ann.store().snapshot(), "l"),
        "one!two?"
    );
    ann.redo().commit().unwrap();
    assert_eq!(crate::common::text(&ann.store().snapshot(), "l"), "one!");
}

/// The join of the halves computed the length of the left one, so Ann's marks moved to Bob's
/// letters.
#[test]
fn undo_03_a_split_is_rejoined_after_text_that_others_joined_to_its_left_half() {
    let (ann, bob) = two("");
    let line = text_node("text", "onetwo").with_id("l");
    run(&bob, create(element("p", [line]).with_id("p")));
    let group = ann.group();
    run(&ann, set_marks([Mark::new("bold", 3..6)]).on("l"));
    run(&ann, split_at(3));
    drop(group);
    let insert = |on: &mut doclock::Draft| {
        let line = text_node("text", "XYZ").with_id("b");
        on.insert(line, "p", 1).map(drop)
    };
    run(&bob, op(insert));
    let join = |on: &mut doclock::Draft| on.join_nodes("l", "b");
    run(&bob, op(join));
    let line = || {
        let now = ann.store().snapshot();
        (crate::common::text(&now, "l"), marks(&now, "l"))
    };
    ann.undo().commit().unwrap();
    assert_eq!(line(), ("oneXYZtwo".to_owned(), vec![]));
    ann.redo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(line(), ("oneXYZtwo".to_owned(), vec![]));
}

fn split_at(text: usize) -> doclock::transaction::Operation {
    op(move |on: &mut doclock::Draft| {
        let cut = doclock::document::SplitPoint { text, children: 0 };
        on.split_node("l", cut, None).map(drop)
    })
}

#[test]
fn undo_03_an_entry_with_a_conflict_can_be_discarded() {
    let (ann, bob) = two("");
    type_in(&ann, 0, "ab");
    run(&ann, set_attrs([("a", 1.into())]).on("t"));
    run(&bob, set_attrs([("a", 2.into())]).on("t"));
    type_in(&bob, 0, "x");
    conflict(&ann);
    assert!(ann.discard_undo());
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "x");
    assert!(!ann.discard_undo());
}

#[test]
fn undo_04_a_selection_moves_along_with_edits_by_others() {
    let (ann, bob) = two("abc");
    ann.select(Selection::caret("t", 2)).unwrap();
    type_in(&bob, 0, "xyz");
    assert_eq!(ann.selection(), Some(Selection::caret("t", 5)));
    run(&bob, delete_node().on("t"));
    assert_eq!(ann.selection(), None);
}

/// Bob deletes everything and then undoes the deletion.
#[test]
fn undo_03_edits_that_others_undid_at_once_have_no_effect() {
    let (ann, bob) = two("<>");
    type_in(&ann, 1, "abc");
    run(&ann, delete_text_range(4, 5).on("t"));
    for _ in 0..2 {
        run(&bob, delete_text_range(0, 2).on("t"));
    }
    run(&bob, set_attrs([("a", 1.into())]).on("t"));
    bob.undo().commit().unwrap();
    bob.redo().commit().unwrap();
    bob.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    assert_eq!(text(&ann), "<abc");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "<abc>");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "<>");
}

/// A conflict from an edit error had no node, so neither the undo nor its JSON named the node or
/// its last editor.
#[test]
fn undo_02_a_refused_undo_names_its_node_and_the_last_editor() {
    let (ann, bob) = two("");
    let item = |id: &str| element("item", []).with_id(id);
    run(
        &bob,
        create(element("list", [item("a"), item("b")]).with_id("list")),
    );
    run(&bob, create(item("other")));

    run(&ann, move_node("other", 0).on("b"));
    run(&bob, move_node("b", 0).on("list"));
    let error = ann.undo().commit().unwrap_err();
    let cycle = EditError::Cycle {
        id: "b".into(),
        parent: "list".into(),
    };
    let text = format!("the entry can no longer be undone: {cycle}");
    assert_eq!((error.to_string(), error.node()), (text, Some(&"b".into())));

    run(&bob, move_node("other", 0).on("list"));
    run(&ann, delete_node().on("a"));
    run(&bob, create(item("a")));
    let error = ann.undo().commit().unwrap_err();
    let text = "the entry can no longer be undone: node a exists already, by bob in version 8";
    assert_eq!(
        (error.to_string().as_str(), error.node()),
        (text, Some(&"a".into()))
    );
    assert_eq!(
        serde_json::to_value(&error).unwrap(),
        serde_json::json!({
            "code": "undoConflict",
            "message": text,
            "redo": false,
            "node": "a",
            "owner": "bob",
            "version": 8,
            "returns": true,
            "cause": {"code": "nodeIdTaken", "message": "node a exists already", "id": "a"},
        })
    );
}

/// An entry returns if the edit in its way can be undone, by an editor that still has it.
#[test]
fn undo_03_a_refusal_tells_whether_the_entry_can_become_possible_again() {
    for is_discarded in [false, true] {
        let (ann, bob) = two("abc");
        run(&ann, set_attrs([("a", 1.into())]).on("t"));
        run(&bob, set_attrs([("a", 2.into())]).on("t"));
        if is_discarded {
            assert!(bob.discard_undo());
        }
        let UndoError::Conflict { returns, .. } = refused(&ann) else {
            panic!("another error");
        };
        assert_eq!(returns, !is_discarded);
        assert_eq!(bob.undo().commit().is_ok(), returns);
        assert_eq!(ann.undo().commit().is_ok(), returns);
    }
}

#[test]
fn undo_03_an_undo_goes_on_to_the_next_entry_with_an_effect_if_it_is_told_to() {
    for goes_on in [false, true] {
        let (ann, bob) = two("");
        let ann = ann.with_history(HistoryOptions::new().undo_next_effective(goes_on));
        run(&ann, insert_text(0, "one").on("t"));
        run(&ann, create(element("p", []).with_id("p")));
        run(&ann, insert_text(3, "two").on("t"));
        run(&bob, delete_text_range(3, 6).on("t"));
        let result = ann.undo().commit().unwrap();
        assert_eq!((result.changed, exists(&ann, "p")), (goes_on, !goes_on));
        assert_eq!(ann.undo_depth(), if goes_on { 1 } else { 2 });
    }
}

/// The entry without an effect left the history, and the call failed.
#[test]
fn undo_03_an_undo_that_goes_on_succeeds_before_an_entry_that_is_refused() {
    let (ann, bob) = two_of_whom_ann_goes_on("one");
    let attribute = |value: u32| set_attrs([("a", value.into())]).on("t");
    run(&ann, attribute(1));
    run(&ann, insert_text(3, " two").on("t"));
    run(&bob, attribute(2));
    run(&bob, delete_text_range(3, 7).on("t"));
    let result = ann.undo().commit().unwrap();
    assert!(!result.changed);
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 1));
    assert!(matches!(conflict(&ann), UndoConflict::Changed { .. }));
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 1));
}

/// A commit that no session followed was passed over.
#[test]
fn undo_03_a_refused_undo_of_a_restored_history_names_a_commit_outside_of_sessions() {
    let store = DataStore::with_options(StoreOptions::new().kept_commits(1 << 20));
    let attribute = |value: u32| set_attrs([("x", value.into())]).on("p");
    let agent = TransactionManager::for_owner(store.clone(), "agent");
    let node = text_node("paragraph", "").with_id("p");
    agent.execute(create(node)).unwrap();
    let [ann, bob] = ["ann", "bob"].map(|owner| Editor::new(store.clone(), owner));
    ann.selection();
    run(&bob, attribute(1));
    run(&ann, attribute(2));
    drop((ann, bob));
    let latest = agent.execute(attribute(3)).unwrap().version;
    let ann = Editor::new(store, "ann").with_restored_history();
    let UndoError::Conflict { by, .. } = refused(&ann) else {
        panic!("another error");
    };
    assert_eq!(by, Some(("agent".into(), latest)));
}

#[test]
fn undo_03_an_undo_that_goes_on_passes_an_entry_that_was_refused_before() {
    let (ann, bob) = two_of_whom_ann_goes_on("one");
    let attribute = |value: u32| set_attrs([("a", value.into())]).on("t");
    run(&ann, insert_text(0, "x").on("t"));
    run(&ann, insert_text(4, " two").on("t"));
    run(&ann, attribute(1));
    run(&bob, attribute(2));
    run(&bob, delete_text_range(4, 8).on("t"));
    assert!(matches!(conflict(&ann), UndoConflict::Changed { .. }));
    assert!(ann.undo().commit().unwrap().changed);
    assert_eq!(text(&ann), "one");
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 2));
}

/// Once the next undo found all text behind such text one character too early.
#[test]
fn undo_03_text_that_was_undone_in_a_deleted_node_does_not_return_with_it() {
    let store = store();
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    let list = element("list", [text_node("item", "abc").with_id("n")]);
    run(&bob, create(list.with_id("list")));
    let cut = SplitPoint {
        text: 0,
        children: 0,
    };
    run(
        &ann,
        op(move |on: &mut Draft| -> Result<(), EditError> {
            on.set_marks("n", [Mark::new("bold", 1..3)])?;
            on.split_node("n", cut, None).map(drop)
        }),
    );
    let right = children(&store.snapshot(), "list")[1].clone();
    let (typed, deleted) = (
        insert_text(0, "q").on("n"),
        delete_text_range(2, 3).on(right),
    );
    transaction(&ann, [typed, deleted]).commit().unwrap();
    run(&bob, delete_node().on("n"));
    ann.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    let document = store.snapshot();
    let node = document.node("n").unwrap();
    assert_eq!(node.text(), &"abc");
    assert!(node.marks().is_empty(), "{:?}", node.marks());
}

/// As for text.
#[test]
fn undo_03_a_child_that_was_undone_in_a_deleted_list_does_not_return_with_it() {
    let store = store();
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    let items = ["a", "b", "c"].map(|id| element("item", []).with_id(id));
    let page = element("page", [element("list", items).with_id("list")]);
    run(&bob, create(page.with_id("page")));
    run(&ann, delete_node().on("b"));
    let child = add_child(element("item", []).with_id("x"), 0).on("list");
    let other = set_attrs([("key", 1.into())]).on("page");
    transaction(&ann, [child, other]).commit().unwrap();
    run(&bob, delete_node().on("list"));
    ann.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(children(&store.snapshot(), "list"), ["a", "b", "c"]);
}

/// Once the map of older entries had the node back in its list, where it did not return to.
#[test]
fn undo_03_a_list_is_followed_over_the_undo_of_a_move_whose_node_others_deleted() {
    let store = store();
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    let items = ["a", "b", "c"].map(|id| element("item", []).with_id(id));
    let lists = [
        element("list", items).with_id("list"),
        element("list", []).with_id("other"),
    ];
    run(&bob, create(element("page", lists).with_id("page")));
    run(&ann, delete_node().on("c"));
    let other = set_attrs([("key", 1.into())]).on("page");
    transaction(&ann, [move_node("other", 0).on("a"), other])
        .commit()
        .unwrap();
    run(&bob, delete_node().on("a"));
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(children(&store.snapshot(), "list"), ["b", "c"]);
}

/// Once the list was numbered as if the join had not taken a node from it.
#[test]
fn undo_03_a_list_is_followed_over_the_undo_of_a_join_whose_node_others_deleted() {
    let store = store();
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    let items = ["a", "b", "c", "d"].map(|id| element("item", []).with_id(id));
    run(&bob, create(element("list", items).with_id("list")));
    run(&ann, delete_node().on("c"));
    let other = set_attrs([("key", 1.into())]).on("list");
    transaction(
        &ann,
        [op(|on: &mut doclock::Draft| on.join_nodes("a", "b")), other],
    )
    .commit()
    .unwrap();
    run(&bob, delete_node().on("a"));
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(children(&store.snapshot(), "list"), ["c", "d"]);
}

/// Once the redo took the newest commit of Bob out of effect: what the code had changed, which was
/// nothing, counted as a part of that commit.
#[test]
fn undo_03_inverse_code_that_changes_nothing_is_no_part_of_the_edit_of_another() {
    let (ann, bob) = two("<>");
    let code = |on: &mut Draft| on.insert_text("t", 1, "x");
    run(&ann, op_with_inverse(code, |_| Ok::<_, EditError>(())));
    run(&bob, delete_text_range(1, 2).on("t"));
    undo_without_effect(&ann);
    ann.redo().commit().unwrap();
    assert_eq!(text(&ann), "<>");
    bob.undo().commit().unwrap();
    assert_eq!(text(&ann), "<x>");
    ann.undo().commit().unwrap();
    assert_eq!(text(&ann), "<>");
}

#[test]
fn undo_03_an_undo_takes_a_node_that_stayed_for_others_back_to_where_it_was() {
    let store = store();
    let items = [text_node("item", "a").with_id("t")];
    let from = element("list", items).with_id("from");
    let page = element("page", [from, element("list", []).with_id("to")]);
    run(&Editor::new(store.clone(), "setup"), create(page));
    let [ann, bob] = ["ann", "bob"].map(|owner| Editor::new(store.clone(), owner));
    run(&bob, insert_text(1, "b").on("t"));
    bob.undo().commit().unwrap();
    let away = op(|on: &mut Draft| -> Result<(), EditError> {
        on.set_attrs("t", [("level", 2.into())])?;
        on.move_node("t", "to", 0)?;
        on.delete("t")
    });
    run(&ann, away);
    ann.undo().commit().unwrap();
    bob.redo().commit().unwrap();
    let before = image(&ann);

    // Without Ann's letter, the node stays for that of Bob, where Ann's entry put it.
    ann.redo().commit().unwrap();
    assert_eq!(text(&ann), "b");
    assert_eq!(children(&store.snapshot(), "to"), ["t"]);
    ann.undo().commit().unwrap();
    assert_eq!(image(&ann), before);
}
