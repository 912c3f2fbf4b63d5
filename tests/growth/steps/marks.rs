//! A keystroke beside many marks of its text takes about as many steps as beside a few.

use std::time::Duration;

use super::budget::grows_evenly;
use crate::dsl::*;
use crate::history::HistoryOptions;
use crate::steps::counted;
use crate::{
    DataStore, Editor, Snapshot, StoreOptions, TransactionManager,
    document::{Limit, Limits, Mark},
    schema::{MarkType, NodeType, Schema},
    transaction::{NodeOperation, Operation},
};

/// The steps of a keystroke beside any number of marks.
const MOST: usize = 1_200;

/// An editor of a text with marks that do not touch and one around them, under a schema and limits.
fn editor(marks: usize) -> Editor {
    let types = Schema::builder().node("x", NodeType::new().text(true));
    let types = types.mark("bold", MarkType::new());
    let schema = types.mark("em", MarkType::new()).build().unwrap();
    let store = StoreOptions::new().schema(schema);
    let store = store.document(Snapshot::default()).unwrap();
    let mark = |nth| Mark::new("bold", 4 * nth..4 * nth + 2);
    // One over all of them, which ends with the last one.
    let all = Mark::new("em", 1..4 * marks - 2);
    let text = text_node("x", "ab  ".repeat(marks));
    let text = text.with_marks((1..marks).map(mark).chain([all]));
    let history = HistoryOptions::new().group_interval(Duration::ZERO);
    let editor = Editor::new(store, "ann").with_history(history);
    editor.execute([create(text.with_id("t"))]).unwrap();
    editor.with_limits(Limits::new().with(Limit::Marks, marks))
}

/// Each keystroke read and moved all marks of its text, and the schema checked them.
#[test]
fn a_keystroke_reads_few_of_many_marks() {
    type Keystroke = fn(usize) -> Operation;
    let keystrokes: [(&str, Keystroke); 4] = [
        ("a letter", |at| insert_text(at, "x").on("t")),
        ("a letter within a mark", |at| {
            insert_text(at + 1, "x").on("t")
        }),
        ("a letter deleted at the end of a mark", |at| {
            delete_text_range(at + 1, at + 2).on("t")
        }),
        ("a mark replaced", |at| {
            replace_text(at, at + 2, "x").on("t")
        }),
    ];
    for size in [1_000, 10_000, 100_000] {
        let places = [
            ("in front of", 1),
            ("between", size / 2),
            ("behind", size - 1),
        ];
        for (place, nth) in places {
            for (what, keystroke) in keystrokes {
                let editor = editor(size);
                let other = Editor::new(editor.store().clone(), "bob");
                let beside = || drop(other.execute([create(text_node("x", ""))]).unwrap());
                let mut last = [0; 2];
                // The first keystroke makes a tree of the marks, and the first undo beside another
                // editor a record of the text.
                for _ in 0..4 {
                    let type_one = || drop(editor.execute([keystroke(4 * nth)]).unwrap());
                    let undo = || drop(editor.undo().commit().unwrap());
                    last[0] = counted(type_one).1;
                    undo();
                    type_one();
                    beside();
                    last[1] = counted(undo).1;
                }
                println!("{what}, {place} {size} marks: {last:?} steps with the undo");
                assert!(last.into_iter().max() < Some(MOST), "{what}: {last:?}");
            }
        }
    }
}

/// Each removed piece of text copied the marks around it twice, and sorted them.
#[test]
fn an_operation_on_lines_reads_the_marks_around_each_line_a_few_times() {
    const LINES: usize = 50;
    let operations: [(&str, NodeOperation); 3] = [
        ("indentText", indent_text("  ", ..)),
        ("outdentText", outdent_text("  ", ..)),
        ("replacePattern", replace_pattern("  ", "-")),
    ];
    for size in [100, 1_000] {
        let text = "  words of a line\n".repeat(LINES);
        let len = text.chars().count();
        // They are nested, and all lines but the outermost ones are in all of them.
        let mark = |nth: usize| {
            let inset = 20 * nth / size;
            Mark::new("link", inset..len - inset).with_attributes([("href", nth.into())])
        };
        let marks: Vec<Mark> = (0..size).map(mark).collect();
        for (what, operation) in &operations {
            let text = text_node("x", text.as_str()).with_marks(marks.clone());
            let editor = Editor::new(DataStore::new(), "ann");
            editor.execute([create(text.with_id("t"))]).unwrap();
            let operation = operation.clone().on("t");
            let steps = counted(|| drop(editor.execute([operation]).unwrap())).1;
            println!("{what} on {LINES} lines in {size} marks: {steps} steps");
            let most = LINES * (60 + 6 * size);
            assert!(steps <= most, "{what} in {size} marks: {steps} steps");
        }
    }
}

/// All marks over each stretch between two edges were read, to find those that are removed there.
#[test]
fn the_marks_of_nested_marks_are_removed_one_by_one() {
    let operations: [(&str, NodeOperation); 2] = [
        ("clearFormatting", clear_formatting(5..)),
        ("removeMark", remove_mark("link", 5..)),
    ];
    for (what, operation) in operations {
        grows_evenly(what, |size| {
            let mark = |nth: usize| {
                Mark::new("link", nth..3 * size - nth).with_attributes([("href", nth.into())])
            };
            let text = text_node("x", "abc".repeat(size)).with_marks((0..size).map(mark));
            let manager = TransactionManager::new(DataStore::new());
            manager.execute([create(text.with_id("t"))]).unwrap();
            let operation = operation.clone().on("t");
            move || drop(manager.execute([operation]).unwrap())
        });
    }
}

/// All marks over each stretch between two edges were read, and those of a schema with exclusions
/// were compared with each other.
#[test]
fn an_operation_that_sets_marks_reads_each_of_nested_marks_a_few_times() {
    let excluding = [
        ("link", "link"),
        ("code", "_"),
        ("bold", "bold em"),
        ("em", "em"),
    ];
    let excluding = [
        &excluding[..],
        &[("sub", "sub super"), ("super", "sub super")],
    ]
    .concat();
    let schema = Schema::builder().node("x", NodeType::new().text(true));
    let schema = excluding.iter().fold(schema, |schema, (kind, others)| {
        let mark = MarkType::new().excludes(*others);
        schema.mark(*kind, mark.unknown_attributes(true))
    });
    let schema = schema.build().unwrap();
    // Nested marks, of one kind after the other.
    let nested = |size: usize, kinds: &[&str]| {
        let mark = |nth: usize| {
            let mark = Mark::new(kinds[nth % kinds.len()], nth..3 * size - nth);
            mark.with_attributes([("n", nth.into())])
        };
        set_marks((0..size).map(mark))
    };
    let many = ["link", "code", "bold", "em", "sub", "super"];
    let new_ones = |size| nested(size, &many);
    type Operate<'o> = &'o dyn Fn(usize) -> NodeOperation;
    let operations: [(&str, &[&str], Operate<'_>); 7] = [
        ("a mark toggled on", &["link"], &|_| {
            toggle_mark("bold", 5..)
        }),
        ("a mark toggled off", &["link"], &|_| {
            toggle_mark("link", 5..)
        }),
        ("a mark over others", &["link"], &|_| {
            apply_mark("bold", 5..)
        }),
        ("a mark in place of others", &many[2..], &|_| {
            apply_mark("code", 5..)
        }),
        ("a mark that others exclude", &["bold"], &|_| {
            apply_mark("em", 5..)
        }),
        ("marks in place of others", &["link"], &new_ones),
        ("marks in place of two kinds", &["sub", "super"], &new_ones),
    ];
    for (what, kinds, operation) in operations {
        grows_evenly(what, |size| {
            let store = StoreOptions::new().schema(schema.clone());
            let manager = TransactionManager::new(store.document(Snapshot::default()).unwrap());
            let text = create(text_node("x", "abc".repeat(size)).with_id("t"));
            manager
                .execute([text, nested(size, kinds).on("t")])
                .unwrap();
            let operation = operation(size).on("t");
            move || drop(manager.execute([operation]).unwrap())
        });
    }
}

/// All marks were made anew for each mark of each stretch that an undo changed, beside the edit of
/// another editor.
#[test]
fn an_undo_of_nested_marks_reads_them_once_for_each_stretch() {
    for size in [50, 100, 200] {
        let mark = |nth: usize| {
            Mark::new("link", nth..3 * size - nth).with_attributes([("href", nth.into())])
        };
        let store = DataStore::new();
        let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
        let text = text_node("x", "abc".repeat(size)).with_id("t");
        ann.execute([create(text)]).unwrap();
        ann.execute([set_marks((0..size).map(mark)).on("t")])
            .unwrap();
        bob.execute([insert_text(size, "x").on("t")]).unwrap();
        let steps = counted(|| drop(ann.undo().commit().unwrap())).1;
        println!("the undo of {size} nested marks: {steps} steps");
        assert!(
            steps <= 2_000 + 10 * size * size,
            "{size} marks: {steps} steps"
        );
    }
}
