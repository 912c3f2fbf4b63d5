//! Each kind of refusal is necessary: without it, an undo would lose an edit of another editor, or
//! claim to have reverted what is still there. When the other editor undoes the edit, the refused
//! undo succeeds. An undo with nothing left to revert is not refused.

use doclock::{
    Draft, Editor,
    codes::CodedError,
    document::{EditError, SplitPoint, UndoConflict},
    dsl::*,
    history::UndoError,
    transaction::Operation,
};

use super::{exists, image, run, undo_without_effect};
use crate::common::{self, children, store};

/// Ann and Bob, with the text nodes `a`, `b` and `c` in a list.
fn two() -> [Editor; 2] {
    let store = store();
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    let items = ["a", "b", "c"].map(|id| text_node("item", id.repeat(4)).with_id(id));
    let page = element("page", [element("list", items).with_id("list")]);
    run(&bob, create(page.with_id("page")));
    [ann, bob]
}

/// Ann edits, then Bob. The undo of Ann is refused until Bob undoes his edit.
fn refused(edit: Operation, other: Operation) -> UndoConflict {
    let [ann, bob] = two();
    let before = image(&ann);
    run(&ann, edit);
    let edited = image(&ann);
    run(&bob, other);
    let both = image(&ann);
    let error = ann.undo().commit().unwrap_err();
    assert_eq!(image(&ann), both);
    let UndoError::Conflict { conflict, .. } = error else {
        panic!("expected a conflict, found {error}");
    };
    // To do nothing would be no undo.
    assert_ne!(both, before);
    bob.undo().commit().unwrap();
    assert_eq!(image(&ann), edited);
    ann.undo().commit().unwrap();
    assert_eq!(image(&ann), before);
    conflict
}

/// Ann edits, then Bob, and nothing of Ann's edit is left. Her undo succeeds. Her edit does not
/// come back when Bob undoes his, but when she redoes it.
fn undone_without_effect(edit: Operation, other: Operation) {
    let [ann, bob] = two();
    let before = image(&ann);
    run(&ann, edit);
    let edited = image(&ann);
    run(&bob, other);
    undo_without_effect(&ann);
    bob.undo().commit().unwrap();
    assert_eq!(image(&ann), before);
    ann.redo().commit().unwrap();
    assert_eq!(image(&ann), edited);
}

fn changed(id: &str, aspect: &'static str) -> UndoConflict {
    let id = id.into();
    UndoConflict::Changed { id, aspect }
}

fn split(id: &'static str, text: usize) -> Operation {
    op(move |on: &mut Draft| {
        let at = SplitPoint { text, children: 0 };
        on.split_node(id, at, None).map(drop)
    })
}

fn set(value: i32) -> Operation {
    set_attrs([("key", value.into())]).on("a")
}

/// An attribute has one value: the earlier one would overwrite that of Bob.
#[test]
fn undo_03_an_attribute_or_a_type_that_another_editor_changed_is_a_necessary_refusal() {
    assert_eq!(refused(set(1), set(2)), changed("a", "set of attributes"));
    let kind = |kind: &'static str| transform_node::<&str>(kind, []).on("a");
    assert_eq!(
        refused(kind("heading"), kind("quote")),
        changed("a", "type")
    );
}

/// A document has one root: the earlier one would replace that of Bob.
#[test]
fn undo_03_a_root_that_another_editor_set_is_a_necessary_refusal() {
    let root = |id: &'static str| {
        op(move |on: &mut Draft| {
            let root = on.create(element("page", []).with_id(id))?;
            on.set_root(Some(&root))
        })
    };
    let UndoConflict::Changed { aspect, .. } = refused(root("one"), root("two")) else {
        panic!("expected another root");
    };
    assert_eq!(aspect, "root");
}

/// Without a node, characters have no place: the node would come back, which Bob deleted.
#[test]
fn undo_03_characters_whose_node_another_editor_deleted_are_a_necessary_refusal() {
    let conflict = refused(delete_text_range(1, 3).on("a"), delete_node().on("a"));
    assert_eq!(conflict, UndoConflict::NodeGone { id: "a".into() });
    // The same for a node whose list was deleted.
    let conflict = refused(delete_node().on("a"), delete_node().on("list"));
    assert_eq!(conflict, UndoConflict::NodeGone { id: "list".into() });
}

/// A node has one place: the earlier one would revert the move of Bob.
#[test]
fn undo_03_a_node_that_another_editor_moved_is_a_necessary_refusal() {
    let conflict = refused(move_node("list", 0).on("c"), move_node("page", 0).on("c"));
    assert_eq!(conflict, UndoConflict::Moved { id: "c".into() });
}

/// A join would move the text of a half over the node of Bob, before it or behind it.
#[test]
fn undo_03_halves_between_which_another_editor_put_a_node_are_a_necessary_refusal() {
    let between = add_child(element("image", []).with_id("image"), 1).on("list");
    assert!(matches!(
        refused(split("a", 2), between),
        UndoConflict::Moved { .. }
    ));
}

/// The created node cannot go without the one that Bob put in it.
#[test]
fn undo_03_a_created_node_with_one_of_another_editor_is_a_necessary_refusal() {
    let create = add_child(element("box", []).with_id("box"), 0).on("list");
    let put = add_child(element("image", []).with_id("image"), 0).on("box");
    let conflict = refused(create, put);
    let id = "box".into();
    assert_eq!(conflict, UndoConflict::SubtreeChanged { id });
}

/// A node would be its own ancestor, or two nodes would have one id.
#[test]
fn undo_03_an_inverse_that_would_break_the_tree_is_a_necessary_refusal() {
    let conflict = refused(move_node("page", 0).on("b"), move_node("b", 0).on("list"));
    let cycle = EditError::Cycle {
        id: "b".into(),
        parent: "list".into(),
    };
    assert_eq!(conflict, UndoConflict::Impossible(cycle));
    let again = create(text_node("item", "new").with_id("b"));
    let conflict = refused(delete_node().on("b"), again);
    let taken = EditError::IdTaken { id: "b".into() };
    assert_eq!(conflict, UndoConflict::Impossible(taken));
}

/// The text of a later node of the same id is not that of Ann.
#[test]
fn undo_03_text_in_a_later_node_of_the_same_id_is_left_alone() {
    let other = op(|on: &mut Draft| {
        on.delete("a")?;
        let node = text_node("item", "another").with_id("a");
        on.insert(node, "list", 0).map(drop)
    });
    undone_without_effect(insert_text(1, "xyz").on("a"), other);
}

/// Once such an undo was refused.
#[test]
fn undo_03_an_undo_with_nothing_left_to_revert_succeeds_and_changes_nothing() {
    undone_without_effect(insert_text(1, "x").on("a"), delete_text_range(1, 2).on("a"));
    // The same for a node that is gone.
    undone_without_effect(insert_text(1, "x").on("a"), delete_node().on("a"));
    undone_without_effect(set(1), delete_node().on("list"));
}

/// Once a split was not undone if others had joined its halves and split them again: the end of the
/// left half was taken for a part of the right one.
#[test]
fn undo_03_halves_that_others_joined_and_split_again_are_joined() {
    for typed in ["", "XY"] {
        let [ann, bob] = two();
        let carl = Editor::new(ann.store().clone(), "carl");
        run(&ann, split("a", 2));
        let half = children(&ann.store().snapshot(), "list")[1].clone();
        let right = half.clone();
        let join = move |on: &mut Draft| on.join_nodes("a", right.as_str());
        run(&bob, op(join));
        run(&carl, insert_text(2, typed).on("a"));
        run(&carl, set(1));
        bob.undo().commit().unwrap();
        assert!(exists(&ann, &half));
        ann.undo().commit().unwrap();
        let document = ann.store().snapshot();
        assert_eq!(common::text(&document, "a"), format!("aa{typed}aa"));
        assert_eq!(children(&document, "list"), ["a", "b", "c"]);
        ann.redo().commit().unwrap();
        assert!(exists(&ann, &half));
    }
}

/// Once the place of the half that others had moved away and back still counted in its list after
/// the halves were joined, or no longer counted although the half stayed. An older entry then
/// restored its node behind the wrong neighbour.
#[test]
fn undo_03_a_list_is_followed_over_the_undo_of_a_split_whose_half_others_moved() {
    // Away and back.
    let [ann, bob] = two();
    run(&ann, delete_node().on("c"));
    run(&ann, split("a", 2));
    let half = children(&ann.store().snapshot(), "list")[1].clone();
    run(&bob, move_node("page", 0).on(half.as_str()));
    run(&bob, move_node("list", 1).on(half.as_str()));
    run(
        &bob,
        add_child(element("item", []).with_id("d"), None).on("list"),
    );
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    let document = ann.store().snapshot();
    assert_eq!(children(&document, "list"), ["a", "b", "c", "d"]);
}

/// The same for a created node, which stays where the others moved it.
#[test]
fn undo_03_a_list_is_followed_over_the_undo_of_a_creation_whose_node_others_moved() {
    let [ann, bob] = two();
    run(&ann, delete_node().on("c"));
    run(
        &ann,
        add_child(element("item", []).with_id("x"), 1).on("list"),
    );
    run(&bob, move_node("page", 0).on("x"));
    run(&bob, move_node("list", 1).on("x"));
    run(
        &bob,
        add_child(element("item", []).with_id("d"), None).on("list"),
    );
    let error = ann.undo().commit().unwrap_err();
    assert_eq!(
        (error.code(), error.node()),
        ("undoConflict", Some(&"x".into()))
    );
    let list = || children(&ann.store().snapshot(), "list");
    ann.undo().commit().unwrap();
    assert_eq!(list(), ["a", "x", "b", "c", "d"]);
    // Until Bob undoes that.
    for _ in 0..3 {
        bob.undo().commit().unwrap();
    }
    ann.undo().commit().unwrap();
    assert_eq!(list(), ["a", "b", "c"]);
}

#[test]
fn undo_03_a_list_is_followed_over_the_undo_of_a_split_whose_half_stays() {
    let [ann, bob] = two();
    run(&ann, delete_node().on("c"));
    let group = ann.group();
    run(&ann, set_attrs([("key", 1.into())]).on("b"));
    run(&ann, split("a", 2));
    drop(group);
    let half = children(&ann.store().snapshot(), "list")[1].clone();
    run(&bob, delete_node().on("a"));
    run(
        &bob,
        add_child(element("item", []).with_id("d"), None).on("list"),
    );
    let error = ann.undo().commit().unwrap_err();
    assert_eq!(error.node(), Some(&"a".into()), "{error}");
    ann.undo().commit().unwrap();
    let document = ann.store().snapshot();
    assert_eq!(children(&document, "list"), [half.as_str(), "b", "c", "d"]);
    bob.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    let document = ann.store().snapshot();
    assert_eq!(children(&document, "list"), ["a", "b", "c"]);
}
