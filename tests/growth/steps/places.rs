//! The place of a node among its siblings is found in as many steps among many as among a few.

use crate::dsl::*;
use crate::steps::counted;
use crate::{
    DataStore, Editor, View,
    document::NodeSpec,
    transaction::{NodeOperation, Operation, TextSpan},
};

/// Numbers of siblings.
const SIZES: [usize; 3] = [300, 3_000, 30_000];

/// The steps of a lookup: a leaf of 64 children, and a few nodes above it.
const LOOKUP: usize = 100;

fn item(nth: usize) -> NodeSpec {
    text_node("x", "ab").with_id(format!("n{nth}"))
}

/// An editor of a list of siblings, which were looked up once.
fn editor(siblings: usize) -> Editor {
    let editor = Editor::new(DataStore::new(), "ann");
    let list = element("list", (0..siblings).map(item)).with_id("list");
    editor.execute([create(list)]).unwrap();
    editor.store().snapshot().index_in_parent("n0");
    editor
}

#[test]
fn an_index_among_siblings_is_found_in_a_tree() {
    for size in SIZES {
        let editor = editor(size);
        let snapshot = editor.store().snapshot();
        for nth in [size - 1, 0, size / 2, size / 3] {
            let id = format!("n{nth}");
            let (index, steps) = counted(|| snapshot.index_in_parent(id.as_str()));
            assert_eq!(index, Some(nth));
            assert!(steps <= LOOKUP, "{steps} steps for {nth} of {size}");
        }
    }
}

/// Each search went through the siblings from the last one that was found.
#[test]
fn operations_on_positions_among_siblings_follow_no_number_of_them() {
    type Kind = fn(usize) -> Operation;
    let kinds: [(&str, Kind); 5] = [
        ("copyRange", |nth| {
            copy_range(span(nth)).on(format!("n{nth}"))
        }),
        ("selectRange", |nth| {
            select_range(span(nth)).on(format!("n{nth}"))
        }),
        ("applyMark", |nth| {
            apply_mark("em", span(nth)).on(format!("n{nth}"))
        }),
        ("moveBlockUp", |nth| move_block_up().on(format!("n{nth}"))),
        ("deleteNode", |nth| delete_node().on(format!("n{nth}"))),
    ];
    for (what, kind) in kinds {
        let taken = SIZES.map(|size| {
            let editor = editor(size);
            let at = [size / 2, size - 10, size / 5];
            let execute = |at| drop(editor.execute([kind(at)]).unwrap());
            at.map(|at| counted(|| execute(at)).1)
                .into_iter()
                .max()
                .unwrap_or_default()
        });
        println!("{what}: {taken:?} steps");
        let [small, .., large] = taken;
        assert!(large <= small + 4 * LOOKUP, "{what}: {taken:?}");
    }
}

fn span(nth: usize) -> TextSpan {
    TextSpan::to(1, format!("n{}", nth + 3), 1)
}

/// Many leaves lie between where a node was noted and where it is.
#[test]
fn siblings_behind_many_new_ones_are_searched_once() {
    for size in SIZES {
        let editor = editor(size);
        let middle = size / 2;
        for nth in 0..2_000 {
            let new = NodeSpec::new("x").with_id(format!("m{nth}"));
            editor
                .execute([add_child(new, middle + nth).on("list")])
                .unwrap();
        }
        let snapshot = editor.store().snapshot();
        let find = |nth: usize| {
            let (index, steps) = counted(|| snapshot.index_in_parent(format!("n{nth}").as_str()));
            assert_eq!(index, Some(if nth < middle { nth } else { nth + 2_000 }));
            steps
        };
        // For one node of each leaf, the new ones are read in both directions and note their place.
        let stale = (middle..middle + 64).chain([size - 1, 0]);
        let first: usize = stale.map(find).sum();
        assert!(first <= 5 * 4 * 2_000, "{first} steps among {size}");
        for nth in [middle - 1, middle, middle + 40, size - 1, 0] {
            let steps = find(nth);
            assert!(steps <= LOOKUP, "{steps} steps for {nth} of {size}");
        }
    }
}

/// Both paths were climbed to the root.
#[test]
fn neighbours_are_compared_in_the_same_steps_at_any_depth() {
    type Kind = fn(TextSpan) -> NodeOperation;
    let kinds: [(&str, Kind); 2] = [("copyRange", copy_range), ("selectRange", select_range)];
    for (what, kind) in kinds {
        let taken = [100, 1_000, 10_000].map(|depth| {
            let editor = Editor::new(DataStore::new(), "ann");
            let pair = element("x", [item(0), item(1)]);
            let deep = (0..depth).fold(pair, |inner, _| element("x", [inner]));
            editor.execute([create(deep)]).unwrap();
            let operation = kind(TextSpan::to(1, "n1", 1)).on("n0");
            counted(|| drop(editor.execute([operation]).unwrap())).1
        });
        println!("{what}: {taken:?} steps");
        assert!(taken[2] <= taken[0] + 10, "{what}: {taken:?}");
    }
}
