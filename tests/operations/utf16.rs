//! Positions in UTF-16 units, in every operation with text positions.

use std::collections::BTreeSet;

use doclock::dsl::*;
use doclock::{
    Draft, Editor, View,
    document::{
        Attributes, EditError, Fragment, Mark, NodeSpec, OffsetError, Position, Selection, TextUnit,
    },
    transaction::{
        InputEffect, InputRule, Operation, OperationError, TextSpan, TransactionError,
        parse_operations,
    },
};
use serde_json::{Value, json};

use super::common::{each_position, image, in_utf16, text};
use super::range::editor;

/// `page[list[item[t u] item[v]]]`. Each text has surrogate pairs, `t` in three lines, `v` so many
/// that it is a rope.
fn crabs() -> Editor {
    let text = |name: &str, text: &str| text_node("text", text).with_id(name);
    let marks = [Mark::new("em", 1..4), Mark::new("link", 0..2)];
    let items = [
        element(
            "item",
            [
                text("t", "🦀a🦀\n🦀b\n🦀").with_marks(marks),
                text("u", "c🦀🦀"),
            ],
        )
        .with_id("i"),
        element(
            "item",
            [text("v", &"x🦀y".repeat(400)).with_marks([Mark::new("em", 0..900)])],
        ),
    ];
    editor([element("page", [element("list", items).with_id("list")]).with_id("page")])
}

/// A new node with a mark after a surrogate pair, in a child as well.
fn marked() -> NodeSpec {
    let text = |len| text_node("text", "🦀b🦀").with_marks([Mark::new("em", 1..len)]);
    text(3).with_children([text(2)])
}

/// Every operation with positions, with all its position fields.
fn with_positions() -> Vec<Operation> {
    let over = || TextSpan::to(1, "v", 800);
    let marks = || {
        vec![
            Mark::new("em", 1..3),
            Mark::new("em", 5..6),
            Mark::whole("b"),
        ]
    };
    let none: [(&str, Value); 0] = [];
    let fragment = Fragment {
        nodes: vec![marked(), marked()],
        ..Fragment::default()
    };
    let on_t = vec![
        insert_text(3, "🦀"),
        delete_text_range(1, 3),
        delete_range(1..5),
        delete_range(over()),
        replace_text(3, 5, "new"),
        wrap_text("(", ")", 1..3),
        unwrap_text("🦀", "🦀", 2..5),
        unwrap_text("🦀", "🦀", 4..),
        indent_text("  ", 3..5),
        outdent_text("🦀", 4..5),
        split_text_node(3),
        insert_paragraph(3),
        split_list_item(3, "item"),
        apply_mark("b", 1..3),
        apply_mark("b", over()),
        remove_mark("em", 2..3),
        remove_mark("em", over()),
        toggle_mark("em", 1..3),
        toggle_mark("em", over()),
        update_mark("link", [("href", json!("x"))], 1..3),
        update_mark("em", [("href", json!("x"))], over()),
        apply_mark_with("b", Attributes::default(), 2..),
        set_marks(marks()),
        clear_formatting(1..3),
        clear_formatting(over()),
        update_node(none.clone(), None, Some(marks())),
        update_node(none, Some("🦀🦀🦀🦀🦀🦀".into()), Some(marks())),
        copy_range(1..3),
        copy_range(over()),
        cut_range(1..3),
        cut_range(over()),
        paste_fragment(3, fragment),
        select_range(1..3),
        select_range(over()),
        wrap_node(marked()),
        add_child(marked(), 0),
    ];
    let mut all: Vec<Operation> = on_t
        .into_iter()
        .map(|operation| operation.on("t"))
        .collect();
    all.extend([
        create(marked()),
        control("t", [insert_text(3, "🦀")]),
        apply_input_rules_at(
            Position::new("t", 3),
            [InputRule::new("🦀$", InputEffect::Replace("new".into()))],
        ),
        set_selection(Selection::new(
            Position::new("t", 3),
            Position::new("v", 800),
        )),
        indent_node_in(marked()).on("u"),
        wrap_in_list(marked(), marked()).on("u"),
        delete_text_range(2, 1_000).on("v"),
        apply_mark("b", 700..701).on("v"),
    ]);
    all
}

/// The other operations. `addChild` and `paste` also have variants above.
const WITHOUT: [&str; 40] = [
    "joinNeighbours",
    "clearSelection",
    "ifUnchanged",
    "requireLease",
    "delete",
    "removeChild",
    "removeChildren",
    "moveNode",
    "moveChildren",
    "moveBlockUp",
    "moveBlockDown",
    "reorderChildren",
    "copyNode",
    "cloneNodeWithChildren",
    "liftNode",
    "outdentNode",
    "setText",
    "replacePattern",
    "mergeTextNodes",
    "splitBlockNode",
    "mergeBlockNodes",
    "autoMergeTextNodes",
    "joinBlock",
    "liftEmptyBlock",
    "addTableRow",
    "addTableColumn",
    "deleteTableRows",
    "deleteTableColumns",
    "mergeCells",
    "splitCell",
    "toggleHeader",
    "clearCells",
    "moveTableRow",
    "moveTableColumn",
    "fixTable",
    "setAttrs",
    "removeAttrs",
    "transformNode",
    "setRoot",
    "selectNode",
];

#[test]
fn the_tests_cover_every_operation_with_positions() {
    let with: BTreeSet<&str> = with_positions().iter().map(Operation::name).collect();
    let without = BTreeSet::from(WITHOUT);
    assert_eq!(with.intersection(&without).next(), None);
    assert_eq!(&with | &without, Operation::names().collect());
}

fn read(operation: &Value) -> Operation {
    let mut operations = parse_operations(&operation.to_string()).expect("it is well formed");
    operations.pop().unwrap()
}

/// The effects of an operation on an open transaction.
fn made(on: &mut Draft, operation: Operation) -> impl PartialEq + std::fmt::Debug + use<> {
    on.run(operation).unwrap();
    let selection = on.selection().cloned();
    let clipboard = on.clipboard().cloned();
    (image(on), on.changes().to_vec(), selection, clipboard)
}

#[test]
fn text_01_each_operation_has_the_same_effect_in_utf16_and_scalar_values() {
    for operation in with_positions() {
        let (one, other) = (crabs(), crabs());
        let mut scalar = one.store().begin("ann").unwrap();
        let mut utf16 = other.store().begin("ann").unwrap();
        let converted = in_utf16(&utf16, &operation);
        let plain = serde_json::to_value(&operation).unwrap();
        assert_ne!(converted["payload"], plain["payload"], "nothing is tested");
        let converted = read(&converted);
        assert_eq!(
            made(&mut scalar, operation),
            made(&mut utf16, converted),
            "{plain}"
        );
    }
}

/// Runs each operation in UTF-16 with one position replaced, which has to be an error.
fn refuses(replacement: impl Fn(&str) -> usize, is_cause: impl Fn(usize, usize) -> OffsetError) {
    let mut tried = 0;
    for operation in with_positions() {
        let editor = crabs();
        let mut on = editor.store().begin("ann").unwrap();
        for at in 0.. {
            let mut value = in_utf16(&on, &operation);
            let (mut nth, mut expected) = (0, None);
            each_position(&on, &mut value, &mut |text, position| {
                if nth == at {
                    let offset = replacement(text);
                    *position = json!(offset);
                    expected = Some(is_cause(offset, text.encode_utf16().count()));
                }
                nth += 1;
            });
            let Some(expected) = expected else {
                assert!(at > 0);
                break;
            };
            tried += 1;
            let before = image(&on);
            let error = on.run([clear_selection(), read(&value)]).unwrap_err();
            let (shown, whole) = (
                error.to_string(),
                format!("operation 1 ({}", name(&operation)),
            );
            assert!(shown.starts_with(&whole), "{shown}");
            assert!(
                shown.ends_with(&expected.to_string()),
                "{shown}, not {expected}"
            );
            let TransactionError::Operation {
                cause: OperationError::Edit(EditError::Offset { cause, .. }),
                ..
            } = error
            else {
                panic!("{value}: {error}");
            };
            assert_eq!(cause, expected, "{value}");
            assert_eq!((image(&on), on.changes()), (before, &[][..]), "{value}");
        }
    }
    assert!(tried > 90, "{tried}");
}

fn name(operation: &Operation) -> &str {
    match operation {
        Operation::Control { operations, .. } => operations[0].name(),
        operation => operation.name(),
    }
}

#[test]
fn text_01_a_position_inside_a_surrogate_pair_is_refused_in_each_operation() {
    refuses(
        |text| {
            text.encode_utf16()
                .position(|unit| (0xdc00..0xe000).contains(&unit))
                .unwrap()
        },
        |offset, len| OffsetError::InsidePair { offset, len },
    );
}

#[test]
fn text_01_a_position_beyond_the_end_is_refused_in_utf16_units() {
    for beyond in [1, usize::MAX >> 1] {
        refuses(
            |text| text.encode_utf16().count() + beyond,
            |offset, len| OffsetError::OutOfRange {
                offset,
                len,
                unit: TextUnit::Utf16,
            },
        );
    }
}

/// Runs operations on `page[list[…]]` and returns the text of `t`.
fn text_after(operations: impl doclock::transaction::IntoOperations) -> String {
    let editor = crabs();
    editor.execute(operations).unwrap();
    text(&editor.store().snapshot(), "t")
}

#[test]
fn text_01_positions_count_in_the_text_as_it_is_when_the_operation_runs() {
    let batch = [
        set_text("🦀").on("t"),
        insert_text(2, "🦀b").on("t"),
        insert_text(4, "-").on("t"),
    ];
    assert_eq!(text_after(utf16(batch)), "🦀🦀-b");
    let batch = [set_text("🦀"), insert_text(2, "🦀b"), insert_text(4, "-")];
    assert_eq!(text_after(utf16([control("t", batch)])), "🦀🦀-b");
    // A text that is new in the transaction, by its alias.
    let batch = [
        create(text_node("text", "🦀").with_id("n")).named("x"),
        insert_text(2, "!").on(alias("x")),
        apply_mark("b", TextSpan::to(0, "u", 3)).on("t"),
        move_node("i", 0).on("n"),
        delete_range(TextSpan::to(2, alias("y"), 3)).on("n"),
    ];
    let mut batch = utf16(batch);
    batch.insert(0, copy_node().on("u").named("y"));
    let editor = crabs();
    editor.execute(batch).unwrap();
    let snapshot = editor.store().snapshot();
    assert_eq!(text(&snapshot, "n"), "🦀🦀");
}

#[test]
fn text_01_an_operation_keeps_the_unit_that_it_has() {
    let insert = |offset, text| insert_text(offset, text).on("t");
    let batch = utf16([
        insert(3, "1"),
        insert(3, "2").in_unit(TextUnit::Scalar),
        insert(3, "3")
            .in_unit(TextUnit::Scalar)
            .in_unit(TextUnit::Utf16),
    ]);
    let start = "🦀a1";
    let after = text_after((batch, insert(3, "4")));
    assert_eq!(after, format!("{start}432🦀\n🦀b\n🦀"));
    let named = create(marked()).named("x").in_unit(TextUnit::Utf16);
    let error = crabs().execute([named]);
    assert!(matches!(
        error.unwrap_err(),
        TransactionError::Operation { name: "create", .. }
    ));
}

#[test]
fn text_01_a_reversed_range_is_refused_in_the_unit_of_the_operation() {
    let (start, end) = (3, 2);
    let operations = [
        delete_text_range(start, end),
        replace_text(start, end, "x"),
        wrap_text("(", ")", start..end),
        apply_mark("b", start..end),
        apply_mark("b", TextSpan::to(start, "t", end)),
        set_marks([Mark::new("b", start..end)]),
    ];
    for operation in operations {
        let operation = operation.on("t").in_unit(TextUnit::Utf16);
        let error = crabs().execute([operation]).unwrap_err().to_string();
        let expected = "range 3..2 ends before it starts: the text has 12 UTF-16 units";
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn text_01_utf16_edits_are_undone_and_reported_in_scalar_values() {
    let editor = crabs();
    let before = image(&editor.store().snapshot());
    let batch = utf16([delete_text_range(2, 5).on("t"), select_range(2..5).on("t")]);
    let result = editor.execute(batch).unwrap();
    let selection = Selection::new(Position::new("t", 1), Position::new("t", 3));
    assert_eq!(result.selection_after, Some(selection.clone()));
    let after = image(&editor.store().snapshot());
    editor.undo().commit().unwrap();
    assert_eq!(image(&editor.store().snapshot()), before);
    editor.redo().commit().unwrap();
    assert_eq!(image(&editor.store().snapshot()), after);

    let view = editor.store().snapshot();
    let shown = selection.to_utf16(&view).unwrap();
    assert_eq!(
        shown,
        Selection::new(Position::new("t", 2), Position::new("t", 5))
    );
    assert_eq!(shown.to_scalar(&view), Ok(selection));
    let node = Selection::node("t");
    assert_eq!(node.to_utf16(&view), Ok(node.clone()));
    assert_eq!(node.to_scalar(&view), Ok(node));
}

#[test]
fn text_01_a_position_that_does_not_exist_is_not_converted() {
    let editor = crabs();
    let view = editor.store().snapshot();
    let errors = [
        Position::new("t", 9).to_utf16(&view),
        Position::new("t", 4).to_scalar(&view),
        Position::new("t", 13).to_scalar(&view),
        Position::new("gone", 0).to_utf16(&view),
        Position::new("gone", 0).to_scalar(&view),
    ];
    let shown = errors.map(|error| error.unwrap_err().to_string());
    let expected = [
        "characters 9..9 are out of range: the text of node t has 8",
        "text of node t: offset 4 is inside a surrogate pair: the text has 12 UTF-16 units",
        "text of node t: offset 13 is out of range: the text has 12 UTF-16 units",
        "node gone does not exist",
        "node gone does not exist",
    ];
    assert_eq!(shown, expected);
    let at = |offset| Position::new("t", offset);
    assert!(Selection::new(at(2), at(4)).to_scalar(&view).is_err());
    assert!(view.node("t").is_some());
}
