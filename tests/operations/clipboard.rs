//! Operations: copying, cutting and pasting.

use doclock::dsl::*;
use doclock::{
    Draft, Editor, NodeId, View,
    document::{EditError, Fragment, Mark, NodeSpec, Position, Selection, check},
    transaction::{Operation, OperationError, TextSpan, TransactionError},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::{Dice, cases, id, marks};
use super::range::{
    characters, committed, editor, extent, follow, random_editor, random_range, refused, run,
    script,
};

/// A page: `page[p[text"one two" link"!"] p[text"three"] list[…]]`, where the list is
/// `list[item[p[text"four"]] item[p[text"five" link"?"]]]`.
pub(super) fn page() -> Editor {
    let p = |name, nodes: Vec<NodeSpec>| element("p", nodes).with_id(name);
    let t = |name: &str, kind: &str, text: &str| text_node(kind, text).with_id(name);
    editor([element(
        "page",
        [
            p("p1", vec![t("a", "text", "one two"), t("a2", "link", "!")]),
            p("p2", vec![t("m", "text", "three")]),
            element(
                "list",
                [
                    element("item", [p("p3", vec![t("b", "text", "four")])]),
                    element(
                        "item",
                        [p("p4", vec![t("c", "text", "five"), t("c2", "link", "?")])],
                    ),
                ],
            ),
        ],
    )
    .with_id("page")])
}

/// The clipboard after an operation.
fn clipboard(editor: &Editor, operation: Operation) -> Option<Fragment> {
    let mut transaction = editor.store().begin("trial").unwrap();
    transaction.run(operation).unwrap();
    transaction.clipboard().cloned()
}

fn copied(editor: &Editor, from: &str, extent: impl Into<TextSpan>) -> Value {
    serde_json::to_value(clipboard(editor, copy_range(extent).on(from)).unwrap()).unwrap()
}

// --- Copying ---

#[test]
fn characters_of_one_node_are_copied_with_its_type_attributes_and_marks() {
    let editor = editor([text_node("text", "one two")
        .with_id("a")
        .with_attributes([("lang", "en".into())])
        .with_marks([Mark::new("bold", 2..5)])]);
    let expected = json!({
        "nodes": [{
            "type": "text",
            "attributes": {"lang": "en"},
            "text": "e tw",
            "marks": [{"type": "bold", "range": [0, 3]}],
        }],
        "openStart": true,
        "openEnd": true,
    });
    assert_eq!(copied(&editor, "a", 2..6), expected);
    let whole = clipboard(&editor, copy_range(..).on("a")).unwrap();
    assert_eq!((whole.open_start, whole.open_end), (false, false));
    assert_eq!(clipboard(&editor, copy_range(3..3).on("a")), None);
}

#[test]
fn a_range_is_copied_from_the_lowest_common_ancestor_down_clipped_at_both_ends() {
    let editor = page();
    let expected = json!({
        "nodes": [
            {"type": "p", "children": [{"type": "text", "text": "two"}, {"type": "link", "text": "!"}]},
            {"type": "p", "children": [{"type": "text", "text": "three"}]},
            {"type": "list", "children": [{"type": "item", "children": [
                {"type": "p", "children": [{"type": "text", "text": "fo"}]},
            ]}]},
        ],
        "openStart": true,
        "openEnd": true,
    });
    assert_eq!(copied(&editor, "a", TextSpan::to(4, "b", 2)), expected);
    let items = json!([
        {"type": "item", "children": [{"type": "p", "children": [{"type": "text", "text": "ur"}]}]},
        {"type": "item", "children": [{"type": "p", "children": [{"type": "text", "text": "five"}]}]},
    ]);
    assert_eq!(
        copied(&editor, "b", TextSpan::to(2, "c", 4))["nodes"],
        items
    );
    let texts = json!([{"type": "text", "text": "two"}, {"type": "link", "text": "!"}]);
    assert_eq!(
        copied(&editor, "a", TextSpan::to(4, "a2", 1))["nodes"],
        texts
    );
}

#[test]
fn a_copied_branch_is_open_where_the_range_cuts_it() {
    let editor = page();
    let open = |from: &str, extent: TextSpan| {
        let fragment = clipboard(&editor, copy_range(extent).on(from)).unwrap();
        (fragment.open_start, fragment.open_end)
    };
    assert_eq!(
        open("a", TextSpan::to(0, "m", 5)),
        (false, false),
        "two whole paragraphs"
    );
    assert_eq!(open("a", TextSpan::to(1, "m", 5)), (true, false));
    assert_eq!(open("a", TextSpan::to(0, "m", 4)), (false, true));
    assert_eq!(
        open("a2", TextSpan::to(0, "m", 5)),
        (true, false),
        "a is not there"
    );
    assert_eq!(
        open("b", TextSpan::to(0, "c", 4)),
        (false, true),
        "c2 is not there"
    );
    assert_eq!(
        open("page", TextSpan::to(0, "c2", 1)),
        (false, false),
        "all of it"
    );
    assert_eq!(open("page", TextSpan::to(0, "c", 4)), (false, true));
    assert_eq!(
        open("p1", TextSpan::to(0, "p2", 0)),
        (false, true),
        "p2 without its text"
    );
}

#[test]
fn copying_changes_nothing() {
    let editor = page();
    let result = run(&editor, copy_range(TextSpan::to(4, "c", 2)).on("a"));
    assert!(!result.changed);
    let error = refused(&editor, copy_range(TextSpan::to(0, "a", 0)).on("b"));
    assert!(matches!(error, OperationError::RangeReversed { .. }));
    refused(&editor, cut_range(8..).on("a"));
}

// --- Pasting ---

#[test]
fn text_of_the_same_type_goes_into_the_text() {
    let editor = editor([text_node("text", "one two").with_id("a")]);
    run(
        &editor,
        [
            apply_mark("bold", ..4).on("a"),
            copy_range(2..6).on("a"),
            paste(1).on("a"),
        ],
    );
    let snapshot = editor.store().snapshot();
    assert_eq!(committed(&editor, "a"), r#"text"oe twne two""#);
    let bold = |start, end| (start, end, "bold".to_owned());
    assert_eq!(
        marks(&snapshot, "a"),
        [bold(0, 3), bold(5, 8)],
        "as it was marked"
    );
    assert_eq!(snapshot.len(), 1);
}

#[test]
fn other_text_comes_between_the_halves() {
    let paste_here = |offset: usize| {
        let editor = page();
        run(&editor, [copy_range(..).on("a2"), paste(offset).on("m")]);
        committed(&editor, "p2")
    };
    assert_eq!(paste_here(2), r#"p[text"th" link"!" text"ree"]"#);
    assert_eq!(paste_here(0), r#"p[link"!" text"three"]"#, "no empty half");
    assert_eq!(paste_here(5), r#"p[text"three" link"!"]"#);
    let paste_both = |offset: usize, extent: TextSpan, from: &str| {
        let editor = page();
        run(
            &editor,
            [copy_range(extent).on(from), paste(offset).on("m")],
        );
        assert!(editor.store().snapshot().contains(id("m")));
        committed(&editor, "p2")
    };
    let text_and_link = || TextSpan::to(4, "a2", 1);
    assert_eq!(
        paste_both(2, text_and_link(), "a"),
        r#"p[text"thtwo" link"!" text"ree"]"#
    );
    assert_eq!(
        paste_both(0, text_and_link(), "a"),
        r#"p[text"two" link"!" text"three"]"#
    );
    assert_eq!(
        paste_both(5, text_and_link(), "a"),
        r#"p[text"threetwo" link"!"]"#
    );
}

#[test]
fn blocks_come_between_the_halves_of_the_block() {
    let paste_here = |offset: usize, extent: TextSpan| {
        let editor = page();
        run(&editor, [copy_range(extent).on("a"), paste(offset).on("c")]);
        assert!(
            editor.store().snapshot().contains(id("c")),
            "the node stays"
        );
        let page = committed(&editor, "page");
        page.split_once(r#""four"]] "#)
            .unwrap()
            .1
            .trim_end_matches(']')
            .to_owned()
    };
    let whole = || TextSpan::to(0, "m", 5);
    let clipped = || TextSpan::to(4, "m", 3);
    let whole_ones = r#"p[text"one two" link"!"] p[text"three"]"#;
    assert_eq!(
        paste_here(2, whole()),
        format!(r#"item[p[text"fi"] {whole_ones} p[text"ve" link"?""#)
    );
    assert_eq!(
        paste_here(0, whole()),
        format!(r#"item[{whole_ones} p[text"five" link"?""#)
    );
    assert_eq!(
        paste_here(2, clipped()),
        r#"item[p[text"fitwo" link"!"] p[text"thrve" link"?""#
    );
    assert_eq!(
        paste_here(0, clipped()),
        r#"item[p[text"two" link"!"] p[text"thrfive" link"?""#
    );
    assert_eq!(
        paste_here(4, clipped()),
        r#"item[p[text"fivetwo" link"!"] p[text"thr" link"?""#
    );
}

#[test]
fn one_block_that_is_open_at_both_ends_joins_the_halves() {
    let editor = page();
    let inner = json!({"nodes": [{"type": "p", "children": [
        {"type": "text", "text": "A"}, {"type": "link", "text": "B"}, {"type": "text", "text": "C"},
    ]}], "openStart": true, "openEnd": true});
    let inner: Fragment = serde_json::from_value(inner).unwrap();
    run(&editor, paste_fragment(3, inner).on("a"));
    let expected = r#"p[text"oneA" link"B" text"C two" link"!"]"#;
    assert_eq!(committed(&editor, "p1"), expected);
}

#[test]
fn a_pasted_block_of_another_structure_stays_separate() {
    let editor = page();
    run(
        &editor,
        [
            copy_range(TextSpan::to(2, "c", 2)).on("b"),
            paste(2).on("m"),
        ],
    );
    let expected = r#"p[text"th"] item[p[text"ur"]] item[p[text"fi"]] p[text"ree"] list"#;
    assert!(committed(&editor, "page").contains(expected));
}

#[test]
fn blocks_that_hold_text_and_blocks_go_beside_the_node_itself() {
    let editor = editor([element(
        "page",
        [text_node("item", "one").with_id("a").with_children([
            text_node("item", "two").with_id("b"),
            text_node("item", "three").with_id("c"),
        ])],
    )
    .with_id("page")]);
    run(
        &editor,
        [
            copy_range(TextSpan::to(1, "b", 2)).on("a"),
            paste(2).on("c"),
        ],
    );
    let expected = r#"page[item"one"[item"two" item"thne"[item"tw"] item"ree"]]"#;
    assert_eq!(committed(&editor, "page"), expected);
}

#[test]
fn pasted_nodes_have_new_ids() {
    let editor = page();
    let fragment = Fragment {
        nodes: vec![element("p", [text_node("text", "x").with_id("m")]).with_id("p1")],
        ..Fragment::default()
    };
    let result = run(
        &editor,
        [
            paste_fragment(0, fragment.clone()).on("m"),
            paste_fragment(0, fragment).on("m"),
        ],
    );
    let created: Vec<&NodeId> = result
        .operations
        .iter()
        .flat_map(|done| &done.created)
        .collect();
    assert_eq!(created.len(), 4);
    assert!(
        created
            .iter()
            .all(|created| !["m", "p1"].contains(&created.to_string().as_str()))
    );
}

#[test]
fn pasting_an_empty_clipboard_or_at_an_invalid_position_is_refused() {
    let editor = page();
    let empty = |operations: Vec<Operation>| {
        let error = refused(&editor, operations);
        assert!(matches!(error, OperationError::EmptyClipboard));
        assert_eq!(error.to_string(), "the clipboard is empty");
    };
    empty(vec![paste(0).on("a")]);
    empty(vec![copy_range(2..2).on("a"), paste(0).on("a")]);
    empty(vec![paste_fragment(0, Fragment::default()).on("a")]);

    let far = refused(&editor, [copy_range(..).on("m"), paste(8).on("a")]);
    let expected = EditError::TextOutOfRange {
        id: id("a"),
        start: 8,
        end: 8,
        len: 7,
    };
    assert!(matches!(far, OperationError::Edit(edit) if edit == expected));
    refused(&editor, [copy_range(..).on("m"), paste(0).on("nowhere")]);
    let beside_the_top = refused(&editor, [copy_range(..).on("m"), paste(0).on("page")]);
    assert!(
        matches!(beside_the_top, OperationError::Edit(EditError::NoParent { id: node }) if node == id("page"))
    );

    let mark = Mark::new("bold", 0..2);
    for marked in [text_node("text", "x"), text_node("link", "x")] {
        let nodes = vec![marked.with_marks([mark.clone()])];
        let error = refused(
            &editor,
            paste_fragment(
                0,
                Fragment {
                    nodes,
                    ..Fragment::default()
                },
            )
            .on("a"),
        );
        assert!(matches!(
            error,
            OperationError::Edit(EditError::MarkOutOfRange { len: 1, .. })
        ));
    }
}

#[test]
fn a_caret_ends_after_the_pasted_content() {
    let editor = page();
    let caret = |from: (&str, TextSpan), at: (&str, usize)| {
        let mut transaction = editor.store().begin("trial").unwrap();
        transaction
            .select(doclock::document::Selection::caret(at.0, at.1))
            .unwrap();
        transaction
            .run([copy_range(from.1).on(from.0), paste(at.1).on(at.0)])
            .unwrap();
        let Some(doclock::document::Selection::Text(text)) = transaction.selection().cloned()
        else {
            panic!("nothing is selected");
        };
        assert_eq!(text.anchor, text.focus);
        let node = transaction.node(&text.focus.node_id).unwrap();
        let (before, behind) = (0..text.focus.offset, text.focus.offset..node.text().len());
        let slice = |range| node.text().slice(range).unwrap().to_string();
        format!("{}|{}", slice(before), slice(behind))
    };
    let link = || ("a2", TextSpan::from(..));
    assert_eq!(caret(("a", (4..).into()), ("m", 2)), "thtwo|ree");
    assert_eq!(caret(("a", (4..).into()), ("m", 5)), "threetwo|");
    assert_eq!(caret(link(), ("m", 2)), "|ree");
    assert_eq!(caret(link(), ("m", 0)), "|three");
    assert_eq!(caret(link(), ("m", 5)), "!|");
    let blocks = || ("a", TextSpan::to(4, "m", 3));
    assert_eq!(caret(blocks(), ("c", 2)), "thr|ve");
    assert_eq!(caret(blocks(), ("c", 0)), "thr|five");
    assert_eq!(caret(blocks(), ("c", 4)), "thr|");
    assert_eq!(
        caret(blocks(), ("b", 4)),
        "thr|",
        "the block ends there, too"
    );
    let whole = || ("a", TextSpan::to(0, "m", 5));
    assert_eq!(caret(whole(), ("b", 4)), "three|");

    let elsewhere = follow(
        &editor,
        ("a", 3),
        ("b", 4),
        [copy_range(..).on("a2"), paste(5).on("m")],
    );
    assert_eq!(elsewhere, Some((("a".to_owned(), 3), ("b".to_owned(), 4))));
}

#[test]
fn cutting_is_copying_and_deleting() {
    let editor = page();
    let before = clipboard(&editor, copy_range(TextSpan::to(4, "b", 2)).on("a"));
    assert_eq!(
        clipboard(&editor, cut_range(TextSpan::to(4, "b", 2)).on("a")),
        before
    );
    run(&editor, cut_range(TextSpan::to(4, "b", 2)).on("a"));
    let expected = r#"page[p[text"one ur"] list[item[p[text"five" link"?"]]]]"#;
    assert_eq!(committed(&editor, "page"), expected);
}

#[test]
fn cutting_and_pasting_restores_paragraphs() {
    let editor = page();
    let before = committed(&editor, "page");
    run(
        &editor,
        [cut_range(TextSpan::to(4, "m", 3)).on("a"), paste(4).on("a")],
    );
    assert_eq!(committed(&editor, "page"), before);
}

#[test]
fn operations_on_the_clipboard_read_from_json() {
    let editor = page();
    run(
        &editor,
        script(json!([
            {"type": "copy", "payload": {"nodeId": "a", "start": 4, "end": 1, "endNodeId": "a2"}},
            {"type": "paste", "payload": {"nodeId": "m", "offset": 5}},
            {"type": "cut", "payload": {"nodeId": "b", "end": 2}},
            {"type": "paste", "payload": {"nodeId": "c", "offset": 0}},
            {"type": "paste", "payload": {"nodeId": "c", "offset": 0, "fragment":
                {"nodes": [{"type": "link", "text": "L"}], "openStart": true}}},
        ])),
    );
    let expected = r#"page[p[text"one two" link"!"] p[text"threetwo" link"!"] list[item[p[text"ur"]] item[p[link"L" text"fofive" link"?"]]]]"#;
    assert_eq!(committed(&editor, "page"), expected);
}

/// Runs operations, or reports that they need a sibling position and the node has no parent.
fn run_unless_beside_the_top(
    transaction: &mut Draft,
    operation: Operation,
) -> Result<bool, TransactionError> {
    match transaction.run(operation) {
        Ok(()) => Ok(true),
        Err(TransactionError::Operation {
            cause: OperationError::Edit(EditError::NoParent { id: node }),
            ..
        }) if node == id("n0") => Ok(false),
        Err(error) => Err(error),
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_copied_range_that_is_pasted_anywhere_exists_twice(seed in any::<u64>()) {
        let dice = &mut Dice(seed);
        let editor = random_editor(dice);
        let mut transaction = editor.store().begin("test").unwrap();
        let [(start, from), (end, to)] = random_range(&transaction, dice);
        let [(target, place), _] = random_range(&transaction, dice);
        let mut expected = characters(&transaction, &id("n0"));
        let piece = expected[from..to].to_vec();
        expected.splice(place..place, piece);

        transaction.run(copy_range(extent(&start, &end)).on(&start.node_id)).unwrap();
        prop_assert!(transaction.changes().is_empty());
        if start == end {
            return Ok(());
        }
        if run_unless_beside_the_top(&mut transaction, paste(target.offset).on(&target.node_id)).unwrap() {
            check(&transaction).unwrap();
            prop_assert_eq!(characters(&transaction, &id("n0")), expected);
        }
    }

    #[test]
    fn cutting_and_pasting_at_the_same_position_restores_the_text(seed in any::<u64>()) {
        let dice = &mut Dice(seed);
        let editor = random_editor(dice);
        let mut transaction = editor.store().begin("test").unwrap();
        let [(start, _), (end, _)] = random_range(&transaction, dice);
        let before = characters(&transaction, &id("n0"));
        if start == end {
            return Ok(());
        }
        let Position { node_id, offset } = &start;
        transaction.run(cut_range(extent(&start, &end)).on(node_id)).unwrap();
        if run_unless_beside_the_top(&mut transaction, paste(*offset).on(node_id)).unwrap() {
            check(&transaction).unwrap();
            prop_assert_eq!(characters(&transaction, &id("n0")), before);
            let changes = transaction.changes().to_vec();
            for change in changes.iter().rev() {
                transaction.apply(change.inverse()).unwrap();
            }
            let snapshot = editor.store().snapshot();
            prop_assert_eq!(super::common::image(&transaction), super::common::image(&snapshot));
        }
    }
}

#[test]
fn nodes_that_a_paste_reports_as_created_exist() {
    let editor = page();
    let operations = [
        copy_range(TextSpan::to(4, "m", 2)).on("a"),
        paste(2).on("b").named("pasted"),
        set_attrs([("new", true.into())]).on(alias("pasted")),
    ];
    let pasted = run(&editor, operations);
    let created = &pasted.operations[1].created;
    let snapshot = editor.store().snapshot();
    assert!(!created.is_empty());
    for id in created {
        assert!(snapshot.contains(id), "{id}");
    }
}

/// A copy of no characters emptied the clipboard, and the next paste failed its transaction.
#[test]
fn copying_or_cutting_no_characters_leaves_the_clipboard_as_it_is() {
    for nothing in [
        copy_range(2..2),
        cut_range(3..3),
        copy_range(TextSpan::to(7, "a", 7)),
    ] {
        let editor = page();
        run(&editor, copy_range(..3).on("m"));
        let copied = editor.clipboard();
        assert!(copied.is_some());
        let result = run(&editor, nothing.on("a"));
        assert!(!result.changed);
        assert_eq!(editor.clipboard(), copied);
        editor.execute(paste(0).on("a")).unwrap();
        assert_eq!(committed(&editor, "p1"), r#"p[text"throne two" link"!"]"#);
    }
}

/// A position that did not exist was accepted, and silently dropped by the next transaction.
#[test]
fn an_editor_refuses_a_selection_that_does_not_exist() {
    let editor = page();
    editor.select(Selection::caret("m", 5)).unwrap();
    let at = |node: &str, offset| Position::new(node, offset);
    let refused = [
        (
            Selection::new(at("m", 1), at("gone", 0)),
            "node gone does not exist",
        ),
        (
            Selection::new(at("b", 5), at("m", 1)),
            "characters 5..5 are out of range: the text of node b has 4",
        ),
        (Selection::node("gone"), "node gone does not exist"),
    ];
    for (selection, why) in refused {
        let error = editor.select(selection).unwrap_err();
        assert!(error.to_string().starts_with(why), "{error}");
        assert_eq!(editor.selection(), Some(Selection::caret("m", 5)));
    }
    run(&editor, delete_range(TextSpan::to(4, "b", 2)).on("a"));
    editor.select(Selection::caret("m", 0)).unwrap_err();
    editor.select(Selection::node("p1")).unwrap();
    editor.select(None).unwrap();
    assert_eq!(editor.selection(), None);
}
