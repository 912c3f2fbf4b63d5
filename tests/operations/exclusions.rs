//! Operations: marks that exclude others, or that a text may not have.

use std::ops::Range;

use doclock::dsl::*;
use doclock::{
    DataStore, Editor, StoreOptions, View,
    document::{Attributes, Mark, Marks, NodeSpec},
    schema::Schema,
    transaction::TextSpan,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::common::{SESSION, cases, commit, id};
use super::marks::marks;
use super::range::run;

fn editor_with(schema: Value, tree: NodeSpec) -> Editor {
    let schema: Schema = serde_json::from_value(schema).unwrap();
    let store = DataStore::with_options(StoreOptions::new().session(SESSION).schema(schema));
    commit(&store, |on| drop(on.create(tree).unwrap()));
    Editor::new(store, "ann")
}

#[test]
fn marks_07_a_mark_leaves_out_texts_whose_type_or_parent_does_not_allow_it() {
    let text = |kind: &str, id: &str| text_node(kind, "ab").with_id(id);
    let editor = editor_with(
        json!({
            "nodes": {
                "page": {"content": "(line | title)*"},
                "line": {"content": "(text | plain)*"},
                "title": {"content": "text*", "marks": "em"},
                "text": {},
                "plain": {"marks": ""},
            },
            "marks": {"bold": {}, "em": {}},
        }),
        element(
            "page",
            [
                element("line", [text("text", "a"), text("plain", "b")]),
                element("title", [text("text", "c")]),
            ],
        ),
    );
    let all = || TextSpan::to(0, "c", 2);
    run(&editor, apply_mark("bold", all()).on("a"));
    run(&editor, toggle_mark("em", TextSpan::to(1, "c", 2)).on("a"));
    let found = ["a", "b", "c"].map(|id| marks(&editor, id));
    assert_eq!(found, ["bold 0..2, em 1..2", "", "em 0..2"]);
    // All characters that may have it have it.
    run(&editor, toggle_mark("bold", all()).on("a"));
    let found = ["a", "b", "c"].map(|id| marks(&editor, id));
    assert_eq!(found, ["em 1..2", "", "em 0..2"]);
}

/// The marks of each character, by kind and number.
type Plain = Vec<Vec<(String, usize)>>;

/// Which marks exclude which, of the schema in the test below.
fn excludes(one: &str, other: &str) -> bool {
    match one {
        "note" => false,
        "code" => true,
        "bold" => matches!(other, "bold" | "em"),
        "sub" | "super" => matches!(other, "sub" | "super"),
        _ => one == other,
    }
}

/// A text with a leaf under that schema, and its marks.
fn with_exclusions() -> (Editor, Plain) {
    let image = Mark::new("image", 3..4).with_attributes([("n", 9.into())]);
    let marks = FORMATTING
        .into_iter()
        .zip(["", "_", "bold em", "em", "sub super", "sub super"]);
    let marks = marks.map(|(kind, excludes)| {
        let mark = json!({"attributes": {"n": {}}, "excludes": excludes, "leaf": false});
        (kind.to_owned(), mark)
    });
    let leaf = (
        "image".to_owned(),
        json!({"attributes": {"n": {}}, "leaf": true}),
    );
    let marks: Map<String, Value> = marks.chain([leaf]).collect();
    let editor = editor_with(
        json!({"nodes": {"text": {}}, "marks": marks}),
        text_node("text", "abc\u{fffc}defg")
            .with_id("a")
            .with_marks([image]),
    );
    let mut plain: Plain = vec![Vec::new(); 8];
    plain[3].push(("image".to_owned(), 9));
    (editor, plain)
}

const FORMATTING: [&str; 6] = ["note", "code", "bold", "em", "sub", "super"];

/// The marks of each character of that text, sorted.
fn plain(editor: &Editor) -> Plain {
    let snapshot = editor.store().snapshot();
    let found = snapshot.node(id("a")).unwrap().marks();
    let of = |at: usize| {
        let over = found
            .iter()
            .filter(|mark| mark.range.clone().unwrap().contains(&at));
        let number = |mark: &Mark| mark.attributes.get("n").unwrap().as_u64().unwrap();
        let over = over.map(|mark| (mark.kind.to_string(), number(mark) as usize));
        let mut over: Vec<_> = over.collect();
        over.sort();
        over
    };
    (0..8).map(of).collect()
}

fn add(on: &mut Vec<(String, usize)>, kind: &str, number: usize) {
    let is_leaf = |kind: &str| kind == "image";
    let excluded = on
        .iter()
        .any(|(other, _)| !is_leaf(other) && excludes(other, kind) && !excludes(kind, other));
    if !excluded {
        on.retain(|(other, of)| {
            is_leaf(other) || !excludes(kind, other) && (other.as_str(), *of) != (kind, number)
        });
        on.push((kind.to_owned(), number));
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn marks_07_any_mark_operation_obeys_exclusions_character_by_character(
        steps in prop::collection::vec((0..4usize, 0..6usize, 0..2usize, 0..8usize, 0..8usize), 1..8),
    ) {
        let number = |number: usize| Attributes::from([("n", number.into())]);
        let (editor, mut expected) = with_exclusions();
        for (act, kind, of, one, other) in steps {
            let kind = FORMATTING[kind];
            let (from, to) = (one.min(other), one.max(other) + 1);
            let operation = match act {
                0 => apply_mark_with(kind, number(of), from..to),
                1 => remove_mark(kind, from..to),
                2 => toggle_mark_with(kind, number(of), from..to),
                _ => clear_formatting(from..to),
            };
            let range = &mut expected[from..to];
            let can = |on: &[(String, usize)]| {
                let mut after = on.to_vec();
                add(&mut after, kind, of);
                after.iter().any(|(other, _)| other == kind)
            };
            let has = |on: &[(String, usize)]| on.iter().any(|(other, _)| other == kind);
            let is_applied = act == 0 || act == 2 && range.iter().any(|on| can(on) && !has(on));
            for on in range {
                match is_applied {
                    true => add(on, kind, of),
                    false if act == 3 => on.retain(|(other, _)| other == "image"),
                    false => on.retain(|(other, _)| other != kind),
                }
            }
            run(&editor, operation.on("a"));
            expected.iter_mut().for_each(|on| on.sort());
            prop_assert_eq!(&plain(&editor), &expected);
        }
    }

    /// Each mark is added in order, but stays beside those of its kind.
    #[test]
    fn marks_07_new_marks_of_a_node_obey_exclusions_character_by_character(
        given in prop::collection::vec((0..6usize, 0..3usize, 0..8usize, 0..8usize), 1..8),
    ) {
        let given = given.into_iter().map(|(kind, of, one, other)| {
            let mark = Mark::new(FORMATTING[kind], one.min(other)..one.max(other) + 1);
            mark.with_attributes([("n", of.into())])
        });
        let given = Marks::normal(given.collect(), 8).unwrap();
        let (editor, mut expected) = with_exclusions();
        for mark in &given {
            let Range { start, end } = mark.range.clone().unwrap();
            let number = mark.attributes.get("n").unwrap().as_u64().unwrap() as usize;
            for on in &mut expected[start..end] {
                let is_own = |(kind, _): &(String, usize)| *kind == mark.kind;
                let (own, mut others) = on.drain(..).partition::<Vec<_>, _>(is_own);
                add(&mut others, &mark.kind, number);
                // An excluded mark is excluded beside others of its kind, too.
                on.extend(others);
                on.extend(own);
            }
        }
        run(&editor, set_marks(given.iter().cloned()).on("a"));
        expected.iter_mut().for_each(|on| on.sort());
        prop_assert_eq!(&plain(&editor), &expected);
    }
}

/// As in ProseMirror: a mark that was left out excludes no other.
#[test]
fn marks_07_new_marks_of_a_node_exclude_each_other_as_if_they_were_added_in_order() {
    let cases = [
        (["a b", "b c", "c a"], "c 0..2"),
        (["a b", "b c", "c"], "a 0..2, c 0..2"),
        (["a c", "b c", "c a"], "a 0..2, b 0..2"),
        (["a b c", "b a", "c"], "b 0..2, c 0..2"),
    ];
    for (excludes, expected) in cases {
        let marks_of_schema = ["a", "b", "c"].into_iter().zip(excludes);
        let kinds: Map<String, Value> = marks_of_schema
            .map(|(kind, excludes)| (kind.to_owned(), json!({"excludes": excludes})))
            .collect();
        let editor = editor_with(
            json!({"nodes": {"text": {}}, "marks": kinds}),
            text_node("text", "xy").with_id("t"),
        );
        let new = ["a", "b", "c"].map(|kind| Mark::new(kind, 0..2));
        run(&editor, set_marks(new).on("t"));
        assert_eq!(marks(&editor, "t"), expected, "{excludes:?}");
    }
}
