//! Where an interface scrolls to after an undo or a redo.

use doclock::document::{EditError, NodeSpec, Position, SplitPoint};
use doclock::{Draft, Editor, NodeId, dsl::*};

use super::carets::editors;
use super::run;
use crate::common::{Dice, seed};

fn place(editor: &Editor, redo: bool) -> Option<Position> {
    let result = match redo {
        true => editor.redo().commit(),
        false => editor.undo().commit(),
    };
    let result = result.unwrap();
    let of_changes = result.changes.first_place(&editor.store().snapshot());
    assert_eq!(result.first_place.as_deref(), of_changes.as_ref());
    of_changes
}

#[test]
fn undo_04_the_changes_of_an_undo_say_where_the_first_one_is() {
    let [ann] = editors();
    let (undo, redo) = (false, true);
    let at = |id: &str, offset| Some(Position::new(id, offset));
    run(&ann, insert_text(2, "xy").on("t1"));
    assert_eq!(place(&ann, undo), at("t1", 2));
    assert_eq!(place(&ann, redo), at("t1", 2));
    run(&ann, delete_node().on("t2"));
    assert_eq!(place(&ann, undo), at("t2", 0));
    assert_eq!(place(&ann, redo), at("t3", 0), "what follows it");
    run(&ann, delete_node().on("t3"));
    assert_eq!(place(&ann, undo), at("t3", 0));
    assert_eq!(place(&ann, redo), at("t1", 0), "the last child");
    run(&ann, delete_node().on("t1"));
    assert_eq!(place(&ann, undo), at("t1", 0));
    assert_eq!(place(&ann, redo), at("p", 0), "the parent");
    run(&ann, delete_node().on("p"));
    assert_eq!(place(&ann, undo), at("p", 0));
    assert_eq!(place(&ann, redo), None);
}

/// A place moves along with the later changes, and one that is gone at the end is none.
#[test]
fn undo_04_the_first_place_is_one_of_the_document_after_all_changes() {
    let [ann] = editors();
    let edits = op(|on: &mut Draft| {
        on.delete("t2")?;
        on.insert_text("t3", 8, "x")?;
        on.insert_text("t3", 0, "first ")
    });
    run(&ann, edits);
    assert_eq!(place(&ann, false), Some(Position::new("t3", 0)));
    // It follows the deleted text, and comes behind what is typed there then.
    assert_eq!(place(&ann, true), Some(Position::new("t3", 6)));
    run(
        &ann,
        op(|on: &mut Draft| {
            on.insert_text("t1", 2, "x")?;
            on.delete("t1")?;
            on.insert_text("t3", 20, "y")
        }),
    );
    assert_eq!(place(&ann, false), Some(Position::new("t3", 20)));
    // The letter in the deleted text is nowhere, and the text before the next one.
    assert_eq!(place(&ann, true), Some(Position::new("t3", 0)));
}

/// A new node can have the id of one that the changes delete.
#[test]
fn undo_04_the_first_place_is_in_the_text_that_has_the_id_now() {
    let [ann] = editors();
    let new = text_node("inline-text", "a").with_id("t1");
    let edits = [
        insert_text(13, "x").on("t1"),
        delete_node().on("t1"),
        add_child(new, 0).on("p"),
    ];
    ann.execute(edits).unwrap();
    assert_eq!(place(&ann, false), Some(Position::new("t1", 0)));
    assert_eq!(place(&ann, true), Some(Position::new("t1", 0)));
}

/// Its index is that among the children before the later changes.
#[test]
fn undo_04_the_first_place_of_a_removed_node_is_what_followed_it() {
    let [ann] = editors();
    let new = |id: &str| text_node("inline-text", "new").with_id(id);
    let edits = [
        add_child(new("x"), 0).on("p"),
        add_child(new("y"), 2).on("p"),
    ];
    ann.execute(edits).unwrap();
    assert_eq!(place(&ann, false), Some(Position::new("t2", 0)));
    assert_eq!(place(&ann, true), Some(Position::new("x", 0)));
    let cut = [
        split_text_node(2).on("t3").named("r"),
        delete_node().on(alias("r")),
    ];
    ann.execute(cut).unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(place(&ann, true).map(|it| it.node_id), Some("t3".into()));
}

/// Two paragraphs of two texts each, `p1` with `a` and `b`, `p2` with `c` and `d`, in `body`.
fn two_paragraphs() -> Editor {
    let [ann] = editors();
    let paragraph = |id: &str, of: [&'static str; 2]| {
        let texts = of.map(|id| text_node("inline-text", "text").with_id(id));
        element("paragraph", texts).with_id(id)
    };
    let both = [paragraph("p1", ["a", "b"]), paragraph("p2", ["c", "d"])];
    run(&ann, create(element("body", both).with_id("body")));
    ann
}

fn cut(
    on: &mut Draft,
    id: impl Into<NodeId>,
    text: usize,
    children: usize,
) -> Result<NodeId, EditError> {
    on.split_node(id.into(), SplitPoint { text, children }, None)
}

/// Once the caret was in another paragraph.
#[test]
fn undo_04_the_first_place_of_a_removed_node_moves_through_splits_and_joins() {
    type Edits = fn(&mut Draft) -> Result<(), EditError>;
    let cases: [(Edits, &str, usize); 7] = [
        (
            |on| {
                let right = cut(on, "p1", 0, 1)?;
                on.insert(NodeSpec::new("image"), right, 0).map(drop)
            },
            "b",
            0,
        ),
        (
            |on| {
                on.join_nodes("p1", "p2")?;
                on.insert(NodeSpec::new("image"), "p1", 3).map(drop)
            },
            "d",
            0,
        ),
        (
            |on| {
                cut(on, "p1", 0, 1)?;
                on.insert(NodeSpec::new("image"), "body", 1).map(drop)
            },
            "b",
            0,
        ),
        (
            |on| {
                cut(on, "a", 2, 0)?;
                on.insert(NodeSpec::new("image"), "p1", 1).map(drop)
            },
            "a",
            2,
        ),
        (
            |on| {
                on.join_nodes("p1", "p2")?;
                on.join_nodes("b", "c")?;
                on.insert(NodeSpec::new("image"), "p1", 2).map(drop)
            },
            "d",
            0,
        ),
        (
            |on| {
                cut(on, "p1", 0, 0)?;
                on.insert(NodeSpec::new("image"), "body", 1).map(drop)
            },
            "a",
            0,
        ),
        (
            |on| {
                let empty = cut(on, "a", 2, 0)?;
                cut(on, empty, 0, 0)?;
                on.insert(NodeSpec::new("image"), "p1", 2).map(drop)
            },
            "a",
            2,
        ),
    ];
    for (nth, (edits, id, offset)) in cases.into_iter().enumerate() {
        let ann = two_paragraphs();
        run(&ann, op(edits));
        assert_eq!(place(&ann, false), Some(Position::new(id, offset)), "{nth}");
    }
}

/// The paragraphs with the names of their children, among which `None` is where the first child was
/// removed: it is moved with the names, and not by its index.
type Paragraphs = Vec<(NodeId, Vec<Option<NodeId>>)>;

/// Makes an edit of the paragraphs, in both the document and the model.
fn edit_paragraphs(on: &mut Draft, model: &mut Paragraphs, dice: &mut Dice) {
    let nth = dice.below(model.len());
    let (id, children) = model[nth].clone();
    let at = dice.below(children.len() + 1);
    // What does not count in the document.
    let index = children[..at].iter().flatten().count();
    match dice.below(5) {
        0 => {
            let new = on.insert(NodeSpec::new("item"), &id, index).unwrap();
            // At the place itself, it comes behind it.
            let is_there = children.get(at) == Some(&None);
            model[nth].1.insert(at + usize::from(is_there), Some(new));
        }
        1 => {
            if let Some(Some(child)) = children.get(at) {
                on.delete(child).unwrap();
                model[nth].1.remove(at);
            }
        }
        2 => {
            let right = cut(on, id.clone(), 0, index).unwrap();
            // The place goes along with what follows it.
            let is_behind = at > 0 && children[at - 1].is_none();
            let rest = model[nth].1.split_off(at - usize::from(is_behind));
            model.insert(nth + 1, (right, rest));
        }
        3 if nth + 1 < model.len() => {
            let (right, rest) = model.remove(nth + 1);
            on.join_nodes(&id, &right).unwrap();
            model[nth].1.extend(rest);
        }
        _ => {
            let to = dice.below(model.len());
            if to != nth
                && let Some(Some(child)) = children.get(at)
            {
                let end = model[to].1.iter().flatten().count();
                on.move_node(child, &model[to].0, end).unwrap();
                let moved = model[nth].1.remove(at);
                // At the place itself, it comes behind it.
                model[to].1.push(moved);
            }
        }
    }
}

#[test]
fn undo_04_the_first_place_is_among_the_same_nodes_after_random_edits() {
    let mut dice = Dice(seed());
    for _ in 0..500 {
        let ann = two_paragraphs();
        let mut model: Paragraphs = Vec::new();
        let mut transaction = ann.store().begin("ann").unwrap();
        for (id, children) in [("p1", ["a", "b"]), ("p2", ["c", "d"])] {
            model.push((id.into(), children.map(|id| Some(id.into())).to_vec()));
        }
        let (nth, at) = (dice.below(2), dice.below(2));
        let removed = model[nth].1[at].take().unwrap();
        transaction.delete(removed).unwrap();
        for _ in 0..dice.below(12) {
            edit_paragraphs(&mut transaction, &mut model, &mut dice);
        }
        let changes = transaction.commit().unwrap().changes;
        let has_place = |(_, children): &&(NodeId, Vec<_>)| children.contains(&None);
        let (parent, children) = model.iter().find(has_place).unwrap();
        let at = children.iter().position(Option::is_none).unwrap();
        let next = children[at + 1..].first().or(children[..at].last());
        let next = next.cloned().flatten().unwrap_or(parent.clone());
        let found = changes.first_place(&ann.store().snapshot());
        assert_eq!(found, Some(Position::new(next, 0)), "{model:?}");
    }
}

/// The first change is of a node without a parent, which is removed again: it was nowhere.
#[test]
fn undo_04_the_first_place_is_that_of_another_change_if_the_first_was_nowhere() {
    let [ann] = editors();
    let note = text_node("inline-text", "note").with_id("note");
    ann.execute([
        create(note),
        insert_text(2, "x").on("t1"),
        delete_node().on("note"),
    ])
    .unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(place(&ann, true), Some(Position::new("t1", 2)));
}

/// A front end that is no Rust program has the place from the JSON.
#[test]
fn undo_04_the_json_of_an_undo_and_of_its_event_have_the_first_place() {
    let [ann, bob] = editors();
    let events = ann.store().subscribe();
    run(&ann, insert_text(2, "xy").on("t1"));
    run(&bob, insert_text(0, "z").on("t1"));
    let undo = || ann.undo().idempotent("undo 1").commit().unwrap();
    let redo = || ann.redo().commit().unwrap();
    let results = [undo(), redo(), undo()];
    let place = |value: serde_json::Value| value.get("firstPlace").cloned();
    let of_result = |result| place(serde_json::to_value(result).unwrap());
    let of_events = events.try_iter().map(|event| {
        let event = serde_json::to_value(&event).unwrap();
        place(event["commit"].clone())
    });
    let there = Some(serde_json::json!({"nodeId": "t1", "offset": 3}));
    assert!(results[2].repeated, "the first result of the key");
    let of_results = results.map(of_result);
    assert_eq!(of_results, [there.clone(), there.clone(), there.clone()]);
    let edits = [None, None];
    let expected = edits.into_iter().chain([there.clone(), there]);
    assert!(of_events.eq(expected), "an edit has none");
}
