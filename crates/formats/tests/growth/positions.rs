//! A step of ProseMirror takes as many steps in a long document as in a short one.

use doclock::document::NodeSpec;
use doclock::{DataStore, NodeId};
use doclock_document::internal::steps;
use serde_json::{Value, json};

use crate::prosemirror::{ProseMirrorNames, ProseMirrorOptions, ProseMirrorStep, to_steps};
use crate::steps::counted;

/// Numbers of blocks.
const SIZES: [usize; 3] = [300, 3_000, 30_000];

/// The steps of an edit in a document of any of these sizes: its own, and a few nodes of each tree
/// of children, with up to 64 entries.
const MOST: usize = 4_000;

/// A document of blocks with two letters, each of size four, and its root.
fn document(blocks: usize) -> (DataStore, NodeId) {
    let text = || NodeSpec::new("inline-text").with_text("ab");
    let paragraph = |_| NodeSpec::new("paragraph").with_children([text()]);
    let store = DataStore::new();
    let mut on = store.begin("ann").unwrap();
    let document = NodeSpec::new("document").with_children((0..blocks).map(paragraph));
    let root = on.create(document).unwrap();
    on.commit().unwrap();
    (store, root)
}

fn replace(from: usize, to: usize, slice: &Value) -> Value {
    json!({"stepType": "replace", "from": from, "to": to, "slice": slice})
}

/// Steps of each kind near the end of a document of a size.
fn edits(end: usize) -> Vec<(&'static str, Value)> {
    let text = json!([{"type": "text", "text": "x"}]);
    let paragraph = json!([{"type": "paragraph", "content": text}]);
    let halves = json!([{"type": "paragraph"}, {"type": "paragraph"}]);
    let mark = |kind| json!({"stepType": kind, "mark": {"type": "strong"}, "from": end - 15, "to": end - 2});
    let attr = json!({"stepType": "attr", "pos": end - 4, "attr": "level", "value": 2});
    vec![
        (
            "a letter",
            replace(end - 2, end - 2, &json!({"content": text})),
        ),
        (
            "a paragraph",
            replace(end, end, &json!({"content": paragraph})),
        ),
        (
            "a split",
            replace(
                end - 2,
                end - 2,
                &json!({"content": halves, "openStart": 1, "openEnd": 1}),
            ),
        ),
        ("a join", replace(end - 5, end - 3, &json!({}))),
        ("a deletion", replace(end - 14, end - 3, &json!({}))),
        ("a mark", mark("addMark")),
        ("no mark", mark("removeMark")),
        ("an attribute", attr),
    ]
}

/// Each step read all nodes before its end.
#[test]
fn a_step_of_prosemirror_reads_few_nodes_of_many() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    for at_end in [true, false] {
        for (nth, (what, _)) in edits(100).into_iter().enumerate() {
            let taken = SIZES.map(|size| {
                let (store, root) = document(size);
                let end = if at_end { 4 * size } else { 2 * size };
                let (_, edit) = edits(end).swap_remove(nth);
                let edit = ProseMirrorStep::from_json(&edit.to_string(), &options).unwrap();
                let apply = |edit: &ProseMirrorStep, at: &str| {
                    let mut on = store.begin(at).unwrap();
                    edit.apply(&mut on, &root, &options).unwrap();
                    on.commit().unwrap();
                };
                // The first one counts all nodes, and notes where they are.
                let letter = replace(
                    end - 2,
                    end - 2,
                    &json!({"content": [{"type": "text", "text": "y"}]}),
                );
                let letter = ProseMirrorStep::from_json(&letter.to_string(), &options).unwrap();
                apply(&letter, "ann");
                let back = replace(end - 2, end - 1, &json!({}));
                let back = ProseMirrorStep::from_json(&back.to_string(), &options).unwrap();
                apply(&back, "ann");
                let ((_, in_document), here) = counted(|| steps::counted(|| apply(&edit, "bob")));
                here + in_document
            });
            println!("{what}, at the end: {at_end}: {taken:?} steps");
            let [small, .., large] = taken;
            assert!(
                large <= MOST && large <= 2 * small + 500,
                "{what}: {taken:?}"
            );
        }
    }
}

/// A position that does not exist is no reason to count.
#[test]
fn a_step_behind_the_end_reads_few_nodes_of_many() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    let taken = SIZES.map(|size| {
        let (store, root) = document(size);
        let apply = |at| {
            let step = replace(at, at, &json!({})).to_string();
            let step = ProseMirrorStep::from_json(&step, &options).unwrap();
            step.apply(&mut store.begin("ann").unwrap(), &root, &options)
        };
        apply(0).unwrap();
        let failing = || apply(4 * size + 1).unwrap_err();
        let ((_, in_document), here) = counted(|| steps::counted(failing));
        here + in_document
    });
    assert!(taken[2] <= taken[0] + 100, "{taken:?}");
}

/// The steps of a commit take as many steps in a long document as in a short one.
#[test]
fn the_steps_of_a_commit_read_few_nodes_of_many() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    for (nth, (what, _)) in edits(100).into_iter().enumerate() {
        let taken = SIZES.map(|size| {
            let (store, root) = document(size);
            let commit = |step: &Value| {
                let step = ProseMirrorStep::from_json(&step.to_string(), &options).unwrap();
                let mut on = store.begin("ann").unwrap();
                step.apply(&mut on, &root, &options).unwrap();
                (on.commit().unwrap().changes, store.snapshot())
            };
            // The first one counts all nodes, and notes where they are.
            let letter = json!({"content": [{"type": "text", "text": "y"}]});
            let (_, before) = commit(&replace(2 * size - 2, 2 * size - 2, &letter));
            let (changes, now) = commit(&replace(2 * size - 2, 2 * size - 1, &json!({})));
            to_steps(&before, &now, &changes, &root, &options).unwrap();
            let (_, edit) = edits(2 * size).swap_remove(nth);
            let (changes, after) = commit(&edit);
            let steps = || to_steps(&now, &after, &changes, &root, &options).unwrap();
            let ((_, in_document), here) = counted(|| steps::counted(steps));
            here + in_document
        });
        println!("{what}: {taken:?} steps");
        let [small, .., large] = taken;
        assert!(
            large <= MOST && large <= 2 * small + 500,
            "{what}: {taken:?}"
        );
    }
}

/// A letter in a long text is read alone.
#[test]
fn the_steps_of_a_letter_read_few_letters_of_many() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    let taken = SIZES.map(|size| {
        let store = DataStore::new();
        let mut on = store.begin("ann").unwrap();
        let text = NodeSpec::new("inline-text").with_text("漢🦀".repeat(size));
        let code = NodeSpec::new("code-block").with_children([text.with_id("t")]);
        let root = on
            .create(NodeSpec::new("document").with_children([code]))
            .unwrap();
        on.commit().unwrap();
        let commit = || {
            let before = store.snapshot();
            let mut on = store.begin("ann").unwrap();
            on.insert_text("t", size, "a").unwrap();
            (before, on.commit().unwrap().changes, store.snapshot())
        };
        let (before, changes, after) = commit();
        to_steps(&before, &after, &changes, &root, &options).unwrap();
        let (before, changes, after) = commit();
        let steps = || to_steps(&before, &after, &changes, &root, &options).unwrap();
        let ((steps, in_document), here) = counted(|| steps::counted(steps));
        assert_eq!(steps[0]["from"], 1 + size + size / 2, "{steps:?}");
        here + in_document
    });
    println!("{taken:?} steps");
    assert!(taken[2] <= taken[0] + 100, "{taken:?}");
}
