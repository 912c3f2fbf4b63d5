//! Operations: marks over ranges, which may span nodes.

use std::collections::BTreeMap;

use doclock::dsl::*;
use doclock::{
    Editor, View,
    document::{Attributes, EditError, Mark, Selection},
    transaction::{NodeOperation, OperationError, TextSpan},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::{Dice, cases, id};
use super::range::{
    Styles, attributes, characters, editor, extent, follow, random_editor, random_range, refused,
    run, script,
};

/// Three adjacent texts, the second empty, with a link over the first and the third.
fn paragraph() -> Editor {
    let link = |range| Mark::new("link", range).with_attributes([("href", "x".into())]);
    editor([element(
        "p",
        [
            text_node("text", "one two")
                .with_id("a")
                .with_marks([link(2..6)]),
            text_node("text", "").with_id("m"),
            text_node("text", "three")
                .with_id("b")
                .with_marks([link(0..5)]),
        ],
    )])
}

/// The marks of a node: `bold 0..3, link 2..6 {"href":"x"}`.
pub(super) fn marks(editor: &Editor, of: &str) -> String {
    let snapshot = editor.store().snapshot();
    let marks = snapshot.node(id(of)).unwrap().marks();
    let plain = marks.iter().map(|mark| {
        let plain = format!("{} {:?}", mark.kind, mark.range.clone().unwrap());
        match mark.attributes.is_empty() {
            true => plain,
            false => format!("{plain} {}", attributes(mark)),
        }
    });
    plain.collect::<Vec<_>>().join(", ")
}

fn href(target: &str) -> Attributes {
    Attributes::from([("href", target.into())])
}

#[test]
fn marks_04_a_range_that_spans_nodes_marks_every_node_of_it() {
    let editor = paragraph();
    run(&editor, apply_mark("bold", TextSpan::to(4, "b", 2)).on("a"));
    assert_eq!(marks(&editor, "a"), r#"link 2..6 {"href":"x"}, bold 4..7"#);
    assert_eq!(marks(&editor, "m"), "");
    assert_eq!(marks(&editor, "b"), r#"bold 0..2, link 0..5 {"href":"x"}"#);
    run(
        &editor,
        remove_mark("link", TextSpan::to(3, "b", 4)).on("a"),
    );
    assert_eq!(marks(&editor, "a"), r#"link 2..3 {"href":"x"}, bold 4..7"#);
    assert_eq!(marks(&editor, "b"), r#"bold 0..2, link 4..5 {"href":"x"}"#);
    run(&editor, clear_formatting(TextSpan::to(5, "b", 1)).on("a"));
    assert_eq!(marks(&editor, "a"), r#"link 2..3 {"href":"x"}, bold 4..5"#);
    assert_eq!(marks(&editor, "b"), r#"bold 1..2, link 4..5 {"href":"x"}"#);
}

#[test]
fn marks_04_removing_from_the_middle_leaves_two() {
    let editor = paragraph();
    run(&editor, remove_mark("link", 3..4).on("a"));
    let expected = r#"link 2..3 {"href":"x"}, link 4..6 {"href":"x"}"#;
    assert_eq!(marks(&editor, "a"), expected);
    run(&editor, apply_mark_with("link", href("x"), 3..4).on("a"));
    assert_eq!(
        marks(&editor, "a"),
        r#"link 2..6 {"href":"x"}"#,
        "and they become one again"
    );
}

#[test]
fn a_mark_with_other_attributes_ends_where_the_new_one_begins() {
    let editor = paragraph();
    run(&editor, apply_mark_with("link", href("y"), 3..5).on("a"));
    let expected = r#"link 2..3 {"href":"x"}, link 3..5 {"href":"y"}, link 5..6 {"href":"x"}"#;
    assert_eq!(marks(&editor, "a"), expected);
    run(&editor, apply_mark_with("link", href("x"), 0..4).on("a"));
    let expected = r#"link 0..4 {"href":"x"}, link 4..5 {"href":"y"}, link 5..6 {"href":"x"}"#;
    assert_eq!(marks(&editor, "a"), expected);
    run(&editor, apply_mark("link", 0..7).on("a"));
    assert_eq!(marks(&editor, "a"), "link 0..7");
}

#[test]
fn toggling_removes_a_mark_only_if_all_characters_have_it() {
    let editor = paragraph();
    let toggle = |extent: TextSpan| run(&editor, toggle_mark("bold", extent).on("a"));
    toggle((2..4).into());
    assert_eq!(marks(&editor, "a"), r#"bold 2..4, link 2..6 {"href":"x"}"#);
    toggle((1..3).into());
    assert_eq!(marks(&editor, "a"), r#"bold 1..4, link 2..6 {"href":"x"}"#);
    toggle((2..3).into());
    assert_eq!(
        marks(&editor, "a"),
        r#"bold 1..2, link 2..6 {"href":"x"}, bold 3..4"#
    );
    toggle(TextSpan::to(1, "b", 3));
    assert_eq!(marks(&editor, "a"), r#"bold 1..7, link 2..6 {"href":"x"}"#);
    assert_eq!(marks(&editor, "b"), r#"bold 0..3, link 0..5 {"href":"x"}"#);
    toggle(TextSpan::to(2, "b", 2));
    assert_eq!(marks(&editor, "a"), r#"bold 1..2, link 2..6 {"href":"x"}"#);
    assert_eq!(marks(&editor, "b"), r#"link 0..5 {"href":"x"}, bold 2..3"#);
}

#[test]
fn toggling_compares_the_kind_and_not_the_attributes() {
    let editor = paragraph();
    run(&editor, toggle_mark_with("link", href("y"), 2..6).on("a"));
    assert_eq!(marks(&editor, "a"), "");
    run(&editor, toggle_mark_with("link", href("y"), 2..6).on("a"));
    assert_eq!(marks(&editor, "a"), r#"link 2..6 {"href":"y"}"#);
    // Two marks side by side cover a range together.
    run(&editor, apply_mark("link", 6..7).on("a"));
    run(&editor, toggle_mark("link", 3..7).on("a"));
    assert_eq!(marks(&editor, "a"), r#"link 2..3 {"href":"y"}"#);
}

#[test]
fn updating_changes_attributes_only_within_the_range() {
    let editor = paragraph();
    let update = update_mark("link", [("title", json!("t"))], TextSpan::to(4, "b", 2));
    run(&editor, update.on("a"));
    let expected = r#"link 2..4 {"href":"x"}, link 4..6 {"href":"x","title":"t"}"#;
    assert_eq!(marks(&editor, "a"), expected);
    let expected = r#"link 0..2 {"href":"x","title":"t"}, link 2..5 {"href":"x"}"#;
    assert_eq!(marks(&editor, "b"), expected);
    let update = update_mark("link", [("href", Value::Null), ("title", json!("u"))], ..);
    run(&editor, update.on("a"));
    assert_eq!(
        marks(&editor, "a"),
        r#"link 2..6 {"title":"u"}"#,
        "what has become equal is one"
    );
}

#[test]
fn updating_a_mark_that_is_not_there_is_refused() {
    let editor = paragraph();
    let update = |extent: TextSpan| update_mark("link", [("href", json!("y"))], extent);
    let error = refused(&editor, update((0..2).into()).on("a"));
    assert!(
        matches!(&error, OperationError::MarkNotFound { kind, start, end }
        if kind == "link" && (start.offset, end.offset) == (0, 2))
    );
    assert_eq!(
        error.to_string(),
        "no mark link lies between character 0 of node a and character 2 of node a"
    );
    refused(&editor, update(TextSpan::to(6, "b", 0)).on("a"));
    refused(&editor, update((3..3).into()).on("a"));
    refused(&editor, update_mark("bold", [("x", json!(1))], ..).on("a"));
    run(&editor, update(TextSpan::to(6, "b", 1)).on("a"));
}

#[test]
fn marks_05_a_mark_operation_without_effect_makes_no_change() {
    let editor = paragraph();
    let all = || TextSpan::to(0, "b", 5);
    let idle: [NodeOperation; 9] = [
        apply_mark_with("link", href("x"), 3..5),
        apply_mark("bold", 3..3),
        toggle_mark("bold", 3..3),
        remove_mark("link", 3..3),
        clear_formatting(3..3),
        apply_mark("bold", TextSpan::to(7, "b", 0)),
        clear_formatting(0..2),
        remove_mark("bold", all()),
        update_mark("link", [("href", json!("x"))], all()),
    ];
    for operation in idle {
        let name = format!("{operation:?}");
        assert!(!run(&editor, operation.on("a")).changed, "{name}");
    }
}

#[test]
fn marks_on_an_invalid_range_are_refused() {
    let editor = paragraph();
    let far = || TextSpan::to(0, "b", 6);
    for operation in [
        apply_mark("bold", far()),
        remove_mark("link", far()),
        toggle_mark("link", far()),
        update_mark("link", [("x", json!(1))], far()),
        clear_formatting(far()),
    ] {
        let error = refused(&editor, operation.on("a"));
        let expected = EditError::TextOutOfRange {
            id: id("b"),
            start: 6,
            end: 6,
            len: 5,
        };
        assert!(matches!(error, OperationError::Edit(edit) if edit == expected));
    }
    let reversed = refused(&editor, apply_mark("bold", TextSpan::to(0, "a", 1)).on("b"));
    assert!(matches!(reversed, OperationError::RangeReversed { .. }));
}

#[test]
fn marks_move_no_selection() {
    let editor = paragraph();
    let at = |node: &str, offset| (node.to_owned(), offset);
    let all = || TextSpan::to(0, "b", 5);
    for operation in [
        apply_mark("bold", all()),
        remove_mark("link", all()),
        toggle_mark("bold", all()),
        update_mark("link", [("x", json!(1))], all()),
        clear_formatting(all()),
    ] {
        let after = follow(&editor, ("a", 3), ("b", 2), operation.on("a"));
        assert_eq!(after, Some((at("a", 3), at("b", 2))));
    }
    editor.select(Selection::caret("a", 3)).unwrap();
    let result = run(&editor, apply_mark("bold", all()).on("a"));
    assert_eq!(result.selection_after, Some(Selection::caret("a", 3)));
}

#[test]
fn operations_on_marks_read_from_json() {
    let editor = paragraph();
    run(
        &editor,
        script(json!([
            {"type": "applyMark", "payload": {"nodeId": "a", "mark": "bold", "start": 1, "endNodeId": "b", "end": 2}},
            {"type": "applyMark", "payload": {"nodeId": "a", "mark": "color", "attributes": {"value": "red"}, "end": 1}},
            {"type": "toggleMark", "payload": {"nodeId": "b", "mark": "bold", "start": 1, "end": 2}},
            {"type": "removeMark", "payload": {"nodeId": "a", "mark": "link", "start": 4}},
            {"type": "updateMark", "payload": {"nodeId": "a", "mark": "link", "attributes": {"href": "y"}, "start": 3}},
            {"type": "clearFormatting", "payload": {"nodeId": "b", "start": 3}},
        ])),
    );
    let expected =
        r#"color 0..1 {"value":"red"}, bold 1..7, link 2..3 {"href":"x"}, link 3..4 {"href":"y"}"#;
    assert_eq!(marks(&editor, "a"), expected);
    assert_eq!(marks(&editor, "b"), r#"bold 0..1, link 0..3 {"href":"x"}"#);
}

/// The effect of an operation on marks, character by character.
fn plainly(kind: usize, mark: &str, attrs: &BTreeMap<String, Value>, over: &mut [(char, Styles)]) {
    let has = |styles: &Styles| styles.iter().any(|(kind, _)| kind == mark);
    let json = |attrs: &BTreeMap<String, Value>| serde_json::to_string(attrs).unwrap();
    let all_have = over.iter().all(|(_, styles)| has(styles));
    for (_, styles) in over {
        let marked = has(styles);
        let of_kind = styles
            .iter()
            .filter(|(kind, _)| kind == mark)
            .cloned()
            .collect::<Vec<_>>();
        match kind {
            0 | 2 if kind == 0 || !all_have => {
                styles.retain(|(kind, _)| kind != mark);
                styles.insert((mark.to_owned(), json(attrs)));
            }
            1 | 2 => styles.retain(|(kind, _)| kind != mark),
            3 if marked => {
                styles.retain(|(kind, _)| kind != mark);
                for (kind, before) in of_kind {
                    let mut after: BTreeMap<String, Value> = serde_json::from_str(&before).unwrap();
                    after.extend(attrs.clone());
                    styles.insert((kind, json(&after)));
                }
            }
            4 => styles.clear(),
            _ => {}
        }
    }
}

/// A text with a bold image, two equal mentions, and an image with a description.
fn leaves() -> Editor {
    let attributes = |name: &str, value: &str| Attributes::from([(name, value.into())]);
    let text = text_node("text", "a\u{fffc}b\u{fffc}\u{fffc}c words").with_id("a");
    editor([element(
        "p",
        [text.with_marks([
            Mark::new("image", 1..2).with_attributes(attributes("src", "x")),
            Mark::new("bold", 0..3),
            Mark::new("mention", 3..5).with_attributes(attributes("id", "ann")),
            Mark::new("image", 7..12).with_attributes(attributes("src", "y")),
        ])],
    )])
}

const LEAVES: &str =
    r#"image 1..2 {"src":"x"}, mention 3..5 {"id":"ann"}, image 7..12 {"src":"y"}"#;

#[test]
fn marks_06_leaves_survive_every_operation_on_marks() {
    for (operation, others) in [
        (clear_formatting(..), None),
        (set_marks([]), None),
        (set_marks([Mark::new("em", 0..6)]), Some("em 0..6")),
        (
            update_node::<&str>([], None, vec![Mark::new("em", 0..6)]),
            Some("em 0..6"),
        ),
        (remove_mark("image", ..), Some("bold 0..3")),
        (toggle_mark("mention", 3..5), Some("bold 0..3")),
        (apply_mark("bold", ..), Some("bold 0..12")),
        (remove_mark("bold", ..), None),
    ] {
        let editor = leaves();
        let name = format!("{operation:?}");
        run(&editor, operation.on("a"));
        let found = marks(&editor, "a");
        let mut found: Vec<&str> = found.split(", ").collect();
        if let Some(others) = others {
            let at = found.iter().position(|mark| *mark == others);
            found.remove(at.unwrap_or_else(|| panic!("{name}: {found:?}")));
        }
        assert_eq!(found.join(", "), LEAVES, "{name}");
    }
}

#[test]
fn marks_06_set_marks_replaces_a_leaf_only_by_another() {
    let editor = leaves();
    let image = |range| Mark::new("image", range).with_attributes([("src", "z".into())]);
    run(
        &editor,
        set_marks([image(1..2), image(4..5), Mark::new("em", 0..3)]).on("a"),
    );
    assert_eq!(
        marks(&editor, "a"),
        r#"em 0..3, image 1..2 {"src":"z"}, mention 3..4 {"id":"ann"}, image 4..5 {"src":"z"}, image 7..12 {"src":"y"}"#
    );
}

#[test]
fn marks_06_a_text_between_two_equal_leaves_is_neither_of_them() {
    for operation in [
        insert_text(4, "xy"),
        replace_text(4, 4, "xy"),
        wrap_text("x", "y", 4..4),
    ] {
        let editor = leaves();
        run(&editor, operation.on("a"));
        let found = marks(&editor, "a");
        assert!(
            found.contains(r#"mention 3..4 {"id":"ann"}, mention 6..7"#),
            "{found}"
        );
    }
    // Within a description, the description grows.
    let editor = leaves();
    run(&editor, insert_text(9, "xy").on("a"));
    assert!(marks(&editor, "a").contains("image 7..14"));
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn marks_04_any_mark_operation_agrees_with_a_reference_by_character(seed in any::<u64>()) {
        let dice = &mut Dice(seed);
        let editor = random_editor(dice);
        for _ in 0..4 {
            let before = editor.store().snapshot();
            let [(start, from), (end, to)] = random_range(&before, dice);
            let mark = ["bold", "link"][dice.below(2)];
            let mut attrs = BTreeMap::new();
            if dice.one_in(2) {
                attrs.insert("href".to_owned(), json!(1 + dice.below(2)));
            }
            let attributes: Attributes = attrs.clone().into_iter().collect();
            let over = || extent(&start, &end);
            let kind = dice.below(5);
            let operation = match kind {
                0 => apply_mark_with(mark, attributes, over()),
                1 => remove_mark(mark, over()),
                2 => toggle_mark_with(mark, attributes, over()),
                3 => update_mark(mark, attrs.clone(), over()),
                _ => clear_formatting(over()),
            };
            let mut expected = characters(&before, &id("n0"));
            let range = &mut expected[from..to];
            let found = range.iter().any(|(_, styles)| styles.iter().any(|(kind, _)| kind == mark));
            if kind == 3 && !found {
                refused(&editor, operation.on(&start.node_id));
                continue;
            }
            plainly(kind, mark, &attrs, range);
            run(&editor, operation.on(&start.node_id));
            prop_assert_eq!(characters(&editor.store().snapshot(), &id("n0")), expected);
        }
    }
}
