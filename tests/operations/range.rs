//! Operations: ranges that span nodes, and their deletion. Also helpers for the files about ranges.

use std::collections::BTreeSet;

use doclock::dsl::*;
use doclock::{
    Editor, NodeId, View,
    document::{EditError, Mark, Node, NodeSpec, Position, Selection, check},
    transaction::{
        IntoOperations, Operation, OperationError, TextSpan, TransactionError, TransactionResult,
        parse_operations,
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::{Dice, cases, commit, id, image, marks, store, text};

/// An editor of a document with these trees, the first of which has the root.
pub(super) fn editor(trees: impl IntoIterator<Item = NodeSpec>) -> Editor {
    let store = store();
    commit(&store, |transaction| {
        for tree in trees {
            let top = transaction.create(tree).unwrap();
            if transaction.root().is_none() {
                transaction.set_root(&top).unwrap();
            }
        }
    });
    Editor::new(store, "ann")
}

/// Runs operations and checks that the document is valid, and that the inverses restore it exactly.
pub(super) fn run(editor: &Editor, operations: impl IntoOperations) -> TransactionResult {
    let operations = operations.into_operations();
    let before = image(&editor.store().snapshot());
    let mut transaction = editor.store().begin("trial").unwrap();
    transaction.run(operations.clone()).unwrap();
    check(&transaction).unwrap();
    for change in transaction.changes().to_vec().iter().rev() {
        transaction.apply(change.inverse()).unwrap();
    }
    assert_eq!(image(&transaction), before, "the inverses do not lead back");
    transaction.rollback();
    editor.execute(operations).unwrap()
}

/// The error of operations; the document is unchanged.
pub(super) fn refused(editor: &Editor, operations: impl IntoOperations) -> OperationError {
    let before = image(&editor.store().snapshot());
    let error = editor.execute(operations).unwrap_err();
    assert_eq!(image(&editor.store().snapshot()), before);
    match error {
        TransactionError::Operation { cause, .. } => cause,
        other => panic!("not an operation failed: {other}"),
    }
}

/// The selection after operations of a transaction that starts with `selection`. Commits nothing.
pub(super) fn selected(
    editor: &Editor,
    selection: Selection,
    operations: impl IntoOperations,
) -> Option<Selection> {
    let mut transaction = editor.store().begin("trial").unwrap();
    transaction.select(selection).unwrap();
    transaction.run(operations).unwrap();
    transaction.selection().cloned()
}

/// Like [`selected`], for a text selection between two positions.
pub(super) fn follow(
    editor: &Editor,
    anchor: (&str, usize),
    focus: (&str, usize),
    operations: impl IntoOperations,
) -> Option<((String, usize), (String, usize))> {
    let place = |(node, offset): (&str, usize)| Position::new(node, offset);
    let selection = Selection::new(place(anchor), place(focus));
    let plain = |place: Position| (place.node_id.to_string(), place.offset);
    match selected(editor, selection, operations)? {
        Selection::Text(text) => Some((plain(text.anchor), plain(text.focus))),
        Selection::Node(_) => None,
    }
}

/// The operations of a script.
pub(super) fn script(json: Value) -> Vec<Operation> {
    parse_operations(&json.to_string()).unwrap()
}

/// Types, texts and children: `p[text"one" link"two"]`. For small trees.
pub(super) fn outline(view: &impl View, of: &str) -> String {
    let node = view.node(id(of)).unwrap();
    let text = match node.text().is_empty() {
        true => String::new(),
        false => format!("{:?}", node.text().to_string()),
    };
    let children: Vec<_> = view
        .children(node.id())
        .map(|child| outline(view, &child.id().to_string()))
        .collect();
    let children = match children.is_empty() {
        true => String::new(),
        false => format!("[{}]", children.join(" ")),
    };
    format!("{}{text}{children}", node.kind())
}

/// The outline of the committed document.
pub(super) fn committed(editor: &Editor, of: &str) -> String {
    outline(&editor.store().snapshot(), of)
}

/// The marks of a character.
pub(super) type Styles = BTreeSet<(String, String)>;

/// The characters of a tree in document order with their marks.
pub(super) fn characters(view: &impl View, of: &NodeId) -> Vec<(char, Styles)> {
    let mut all = Vec::new();
    for node in view.descendants(of) {
        let styles = |at: usize| {
            let marks = node.marks().iter();
            let over = marks.filter(move |mark| mark.range.as_ref().unwrap().contains(&at));
            over.map(|mark| (mark.kind.to_string(), attributes(mark)))
                .collect()
        };
        all.extend(
            node.text()
                .chars()
                .enumerate()
                .map(|(at, c)| (c, styles(at))),
        );
    }
    all
}

pub(super) fn attributes(mark: &Mark) -> String {
    serde_json::to_string(&mark.attributes).unwrap()
}

/// A random tree of nodes `n0` (the root), `n1`, …, with text and children mixed, and with random
/// marks.
pub(super) fn random_editor(dice: &mut Dice) -> Editor {
    let store = store();
    commit(&store, |transaction| {
        for nth in 0..2 + dice.below(12) {
            let letters: Vec<char> = "abcdefgßü漢🦀\n".chars().collect();
            let text: String = (0..dice.below(6))
                .map(|_| letters[dice.below(letters.len())])
                .collect();
            let len = text.chars().count();
            let marks: Vec<Mark> = (0..dice.below(3)).map(|_| random_mark(dice, len)).collect();
            let kind = ["text", "text", "p", "item"][dice.below(4)];
            let spec = text_node(kind, text)
                .with_marks(marks)
                .with_id(format!("n{nth}").as_str());
            if nth == 0 {
                let root = transaction.create(spec).unwrap();
                transaction.set_root(&root).unwrap();
            } else {
                let parent = id(&format!("n{}", dice.below(nth)));
                transaction.insert(spec, &parent, None).unwrap();
            }
        }
    });
    Editor::new(store, "ann")
}

fn random_mark(dice: &mut Dice, len: usize) -> Mark {
    let (one, other) = (dice.below(len + 1), dice.below(len + 1));
    let mark = Mark::new(
        ["bold", "link"][dice.below(2)],
        one.min(other)..one.max(other),
    );
    match dice.below(3) {
        0 => mark,
        href => mark.with_attributes([("href", href.into())]),
    }
}

/// Two positions in the tree of the root, the first not after the second, with the number of
/// characters before each.
pub(super) fn random_range(view: &impl View, dice: &mut Dice) -> [(Position, usize); 2] {
    let mut count = 0;
    let mut places = Vec::new();
    for node in view.descendants(id("n0")) {
        for offset in 0..=node.text().len() {
            places.push((Position::new(node.id().clone(), offset), count + offset));
        }
        count += node.text().len();
    }
    let (one, other) = (dice.below(places.len()), dice.below(places.len()));
    [
        places[one.min(other)].clone(),
        places[one.max(other)].clone(),
    ]
}

pub(super) fn extent(start: &Position, end: &Position) -> TextSpan {
    TextSpan::to(start.offset, &end.node_id, end.offset)
}

/// `page[p[text"one two" link"!"] p[text"three"] p[text"four five" link"?"]]`, named a, a2, m, b,
/// b2.
fn page() -> Editor {
    editor([element(
        "page",
        [
            element(
                "p",
                [
                    text_node("text", "one two").with_id("a"),
                    text_node("link", "!").with_id("a2"),
                ],
            )
            .with_id("p1"),
            element("p", [text_node("text", "three").with_id("m")]).with_id("p2"),
            element(
                "p",
                [
                    text_node("text", "four five").with_id("b"),
                    text_node("link", "?").with_id("b2"),
                ],
            )
            .with_id("p3"),
        ],
    )
    .with_id("page")])
}

// --- The characters of a range ---

#[test]
fn a_range_without_an_end_reaches_to_the_end_of_the_node_where_it_ends() {
    let editor = page();
    run(&editor, delete_range(4..).on("a"));
    assert_eq!(text(&editor.store().snapshot(), "a"), "one ");
    let to_b = TextSpan {
        start: 0,
        end: None,
        end_node_id: Some("b".into()),
    };
    run(&editor, apply_mark("bold", to_b).on("m"));
    let snapshot = editor.store().snapshot();
    assert_eq!(marks(&snapshot, "b"), [(0, 9, "bold".to_owned())]);
}

#[test]
fn a_range_with_invalid_ends_is_refused() {
    let editor = page();
    let out = |operation: doclock::transaction::NodeOperation| match refused(
        &editor,
        operation.on("a"),
    ) {
        OperationError::Edit(EditError::TextOutOfRange {
            id,
            start,
            end,
            len,
        }) => (id.to_string(), start, end, len),
        other => panic!("{other}"),
    };
    assert_eq!(out(delete_range(8..)), ("a".to_owned(), 8, 8, 7));
    assert_eq!(out(delete_range(0..8)), ("a".to_owned(), 0, 8, 7));
    let max = usize::MAX;
    assert_eq!(out(delete_range(8..max)), ("a".to_owned(), 8, max, 7));
    let to = |end| delete_range(TextSpan::to(0, "b", end));
    assert_eq!(out(to(10)), ("b".to_owned(), 10, 10, 9));
    let nowhere = refused(&editor, delete_range(TextSpan::to(0, "x", 0)).on("a"));
    assert_eq!(nowhere.to_string(), "node x does not exist");
    let nowhere = refused(&editor, delete_range(..).on("x"));
    assert_eq!(nowhere.to_string(), "node x does not exist");
    let unnamed = refused(
        &editor,
        delete_range(TextSpan::to(0, alias("x"), 0)).on("a"),
    );
    assert!(matches!(unnamed, OperationError::Alias(_)), "{unnamed}");
}

#[test]
fn a_range_that_ends_before_it_starts_is_refused() {
    let editor = page();
    let reversed = |operation: Operation| {
        let error = refused(&editor, operation);
        match &error {
            OperationError::RangeReversed { start, end } => {
                assert_ne!(start, end);
                error.to_string()
            }
            other => panic!("{other}"),
        }
    };
    assert_eq!(
        reversed(delete_range(TextSpan::to(1, "a", 3)).on("b")),
        "the range starts at character 1 of node b, which comes after its end at character 3 of node a"
    );
    #[expect(clippy::reversed_empty_ranges, reason = "that is the point")]
    reversed(delete_range(3..2).on("a"));
    // A node comes before its descendants.
    reversed(delete_range(TextSpan::to(0, "p3", 0)).on("b"));
    reversed(delete_range(TextSpan::to(0, "page", 0)).on("p1"));
}

#[test]
fn a_range_from_one_tree_to_another_is_refused() {
    let editor = editor([
        text_node("text", "one").with_id("a"),
        text_node("text", "two").with_id("b"),
    ]);
    let error = refused(&editor, apply_mark("bold", TextSpan::to(0, "b", 3)).on("a"));
    assert!(
        matches!(&error, OperationError::Edit(EditError::DifferentTrees { one, other })
        if (one, other) == (&id("a"), &id("b")))
    );
    assert_eq!(
        error.to_string(),
        "nodes a and b are in different trees, so neither comes first"
    );
}

// --- Deleting ---

#[test]
fn deleting_within_a_node_deletes_its_characters() {
    let editor = page();
    run(&editor, delete_range(1..5).on("a"));
    assert_eq!(text(&editor.store().snapshot(), "a"), "owo");
    assert!(!run(&editor, delete_range(1..1).on("a")).changed);
}

#[test]
fn deleting_between_siblings_joins_them_if_type_and_attributes_agree() {
    let siblings = || {
        editor([element(
            "p",
            [
                text_node("text", "one").with_id("a"),
                text_node("link", "two").with_id("m"),
                text_node("text", "three").with_id("b"),
                text_node("text", "four")
                    .with_id("c")
                    .with_attributes([("x", 1.into())]),
            ],
        )
        .with_id("p")])
    };
    let editor = siblings();
    run(&editor, delete_range(TextSpan::to(2, "b", 3)).on("a"));
    assert_eq!(committed(&editor, "p"), r#"p[text"onee" text"four"]"#);
    let editor = siblings();
    run(&editor, delete_range(TextSpan::to(2, "c", 3)).on("a"));
    assert_eq!(committed(&editor, "p"), r#"p[text"on" text"r"]"#);
    let editor = siblings();
    run(&editor, delete_range(TextSpan::to(2, "m", 1)).on("a"));
    assert_eq!(
        committed(&editor, "p"),
        r#"p[text"on" link"wo" text"three" text"four"]"#
    );
    let editor = siblings();
    run(&editor, delete_range(TextSpan::to(0, "m", 3)).on("a"));
    assert_eq!(
        committed(&editor, "p"),
        r#"p[text text"three" text"four"]"#,
        "nothing is left of m"
    );
}

#[test]
fn deleting_between_blocks_brings_the_rest_of_the_second_into_the_first() {
    let editor = page();
    run(&editor, delete_range(TextSpan::to(4, "b", 5)).on("a"));
    assert_eq!(
        committed(&editor, "page"),
        r#"page[p[text"one five" link"?"]]"#
    );
    let snapshot = editor.store().snapshot();
    assert_eq!(text(&snapshot, "a"), "one five");
    assert!(!snapshot.contains(id("b")) && !snapshot.contains(id("p3")));
    assert_eq!(snapshot.parent(id("b2")), Some(&id("p1")));

    let editor = page();
    run(&editor, delete_range(TextSpan::to(0, "b", 5)).on("a2"));
    let expected = r#"page[p[text"one two" link text"five" link"?"]]"#;
    assert_eq!(committed(&editor, "page"), expected, "types differ");

    let editor = page();
    run(&editor, delete_range(TextSpan::to(7, "m", 0)).on("a"));
    let expected = r#"page[p[text"one twothree"] p[text"four five" link"?"]]"#;
    assert_eq!(committed(&editor, "page"), expected);
}

#[test]
fn marks_outside_of_a_deleted_range_are_kept() {
    let editor = page();
    run(
        &editor,
        [
            apply_mark("bold", 0..6).on("a"),
            apply_mark("bold", TextSpan::to(3, "b", 7)).on("m"),
            delete_range(TextSpan::to(4, "b", 5)).on("a"),
        ],
    );
    let snapshot = editor.store().snapshot();
    assert_eq!(marks(&snapshot, "a"), [(0, 6, "bold".to_owned())]);
}

#[test]
fn blocks_whose_texts_cannot_be_joined_stay_separate() {
    let sections = || {
        editor([element(
            "page",
            [
                element("p", [text_node("text", "one").with_id("a")]),
                element(
                    "section",
                    [
                        text_node("heading", "two").with_id("h"),
                        element("p", [text_node("text", "three").with_id("b")]),
                    ],
                ),
            ],
        )
        .with_id("page")])
    };
    let editor = sections();
    run(&editor, delete_range(TextSpan::to(1, "h", 1)).on("a"));
    let expected = r#"page[p[text"o"] section[heading"wo" p[text"three"]]]"#;
    assert_eq!(
        committed(&editor, "page"),
        expected,
        "a heading is no part of a paragraph"
    );
    let editor = sections();
    run(&editor, delete_range(TextSpan::to(1, "b", 3)).on("h"));
    let expected = r#"page[p[text"one"] section[heading"t" p[text"ee"]]]"#;
    assert_eq!(committed(&editor, "page"), expected);
    let editor = sections();
    run(&editor, delete_range(TextSpan::to(1, "b", 3)).on("a"));
    assert_eq!(
        committed(&editor, "page"),
        r#"page[p[text"oee"]]"#,
        "the section is empty"
    );
}

/// Items with both text and children.
fn items() -> Editor {
    editor([element(
        "page",
        [
            text_node("item", "one").with_id("a").with_children([
                text_node("item", "two").with_id("b"),
                text_node("item", "three").with_id("c").with_children([
                    text_node("item", "four").with_id("d"),
                    text_node("item", "five").with_id("e"),
                ]),
                text_node("item", "six").with_id("f"),
            ]),
            text_node("item", "seven").with_id("g"),
        ],
    )
    .with_id("page")])
}

#[test]
fn deleting_into_a_descendant_keeps_its_later_siblings() {
    let editor = items();
    run(&editor, delete_range(TextSpan::to(1, "c", 2)).on("a"));
    let expected = r#"page[item"oree"[item"four" item"five" item"six"] item"seven"]"#;
    assert_eq!(committed(&editor, "page"), expected);
    assert_eq!(text(&editor.store().snapshot(), "a"), "oree");

    let editor = items();
    run(&editor, delete_range(TextSpan::to(1, "d", 2)).on("a"));
    let expected = r#"page[item"our"[item"five" item"six"] item"seven"]"#;
    assert_eq!(committed(&editor, "page"), expected);
}

#[test]
fn deleting_into_the_children_of_another_node_keeps_later_nodes() {
    let editor = items();
    run(&editor, delete_range(TextSpan::to(1, "d", 2)).on("b"));
    let expected = r#"page[item"one"[item"tur" item"five" item"six"] item"seven"]"#;
    assert_eq!(committed(&editor, "page"), expected);
    let editor = items();
    run(&editor, delete_range(TextSpan::to(1, "g", 2)).on("e"));
    let expected = r#"page[item"one"[item"two" item"three"[item"four" item"fven"]]]"#;
    assert_eq!(committed(&editor, "page"), expected);
}

#[test]
fn the_root_and_its_child_are_not_joined() {
    let editor = editor([text_node("item", "one")
        .with_id("a")
        .with_children([text_node("item", "two").with_id("b")])]);
    run(&editor, delete_range(TextSpan::to(1, "b", 1)).on("a"));
    assert_eq!(committed(&editor, "a"), r#"item"o"[item"wo"]"#);
    run(&editor, delete_range(TextSpan::to(0, "b", 2)).on("a"));
    assert_eq!(committed(&editor, "a"), "item", "nothing is left of b");
}

#[test]
fn a_selection_in_a_deleted_range_collapses_to_its_start() {
    let editor = page();
    let delete = || delete_range(TextSpan::to(4, "b", 5)).on("a");
    let at = |node: &str, offset| (node.to_owned(), offset);
    let whole = follow(&editor, ("a", 4), ("b", 5), delete());
    assert_eq!(whole, Some((at("a", 4), at("a", 4))));
    let beyond = follow(&editor, ("a", 2), ("b", 7), delete());
    assert_eq!(beyond, Some((at("a", 2), at("a", 6))));
    let within = follow(&editor, ("a2", 1), ("m", 3), delete());
    assert_eq!(within, Some((at("a", 4), at("a", 4))));
    let behind = follow(&editor, ("b2", 0), ("b2", 1), delete());
    assert_eq!(behind, Some((at("b2", 0), at("b2", 1))));
    let last = delete_range(TextSpan::to(0, "b2", 1)).on("a");
    let gone = follow(&editor, ("b2", 1), ("b2", 1), last);
    assert_eq!(gone, Some((at("a", 0), at("a", 0))));

    editor
        .select(Selection::new(
            Position::new("b", 7),
            Position::new("b2", 1),
        ))
        .unwrap();
    let result = run(&editor, delete());
    let expected = Selection::new(Position::new("a", 6), Position::new("b2", 1));
    assert_eq!(result.selection_after, Some(expected));
}

#[test]
fn deleting_a_range_reads_from_json() {
    let editor = page();
    run(
        &editor,
        script(json!([
            {"type": "deleteRange", "payload": {"nodeId": "a", "start": 4, "end": 5, "endNodeId": "b"}},
            {"type": "deleteRange", "payload": {"nodeId": "b2"}},
        ])),
    );
    assert_eq!(
        committed(&editor, "page"),
        r#"page[p[text"one five" link]]"#
    );
}

#[test]
fn ranges_reach_through_a_hundred_thousand_levels() {
    const LEVELS: usize = 100_000;
    let mut spec = text_node("item", "bottom").with_id("bottom");
    for _ in 0..LEVELS {
        spec = text_node("item", "x").with_children([spec]);
    }
    let editor = editor([element("page", [spec.with_id("top")]).with_id("page")]);
    let range = || TextSpan::to(0, "bottom", 3);
    editor
        .execute(apply_mark("bold", range()).on("top"))
        .unwrap();
    let snapshot = editor.store().snapshot();
    assert_eq!(
        snapshot
            .nodes()
            .filter(|node| !node.marks().is_empty())
            .count(),
        LEVELS + 1
    );
    editor
        .execute([cut_range(range()).on("top"), paste(0).on("top")])
        .unwrap();
    let snapshot = editor.store().snapshot();
    assert_eq!(characters(&snapshot, &id("page")).len(), LEVELS + 6);
}

proptest! {
    #![proptest_config(cases(400))]

    /// The plain model: the characters of the tree in document order without those of the range.
    #[test]
    fn deleting_any_range_leaves_the_other_characters_with_their_marks(seed in any::<u64>()) {
        let dice = &mut Dice(seed);
        let editor = random_editor(dice);
        let before = editor.store().snapshot();
        let [(start, from), (end, to)] = random_range(&before, dice);
        let mut expected = characters(&before, &id("n0"));
        expected.drain(from..to);

        run(&editor, delete_range(extent(&start, &end)).on(&start.node_id));
        let after = editor.store().snapshot();
        prop_assert_eq!(after.root(), Some(&id("n0")));
        prop_assert_eq!(characters(&after, &id("n0")), expected);
        prop_assert!(after.nodes().all(|node| *node.id() == id("n0") || node.parent().is_some()));
        // Nodes before and after the range stay.
        let all: Vec<&Node> = before.descendants(id("n0")).collect();
        let position = |of: &NodeId| all.iter().position(|node| node.id() == of).unwrap();
        let (first, last) = (position(&start.node_id), position(&end.node_id));
        for node in all[..=first].iter().chain(&all[last + 1..]) {
            prop_assert!(after.contains(node.id()), "{} is gone", node.id());
        }
    }
}
