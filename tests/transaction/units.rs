//! The unit of positions in scripts, and other code that reads operations with a unit.

use doclock::dsl::*;
use doclock::{
    DataStore, TransactionManager, View,
    document::{Limit, Limits, Mark, TextUnit},
    transaction::{Operation, ScriptError, TextSpan, TransactionError, parse_operations},
};
use serde_json::json;

use crate::common::{image, store, text};
use crate::manager;

fn with_crabs() -> DataStore {
    let store = store();
    let texts = [("t", "🦀🦀"), ("u", "a🦀")];
    let texts = texts.map(|(name, text)| text_node("text", text).with_id(name));
    let page = create(element("page", texts).with_id("page"));
    manager(&store).execute([page]).unwrap();
    store
}

fn after(script: &str) -> (String, String) {
    let store = with_crabs();
    let operations = parse_operations(script).unwrap();
    manager(&store).execute(operations).unwrap();
    let snapshot = store.snapshot();
    let of = |name: &str| {
        let node = snapshot.node(name);
        node.map(|node| node.text().to_string()).unwrap_or_default()
    };
    (of("t"), of("u"))
}

#[test]
fn transaction_04_a_script_sets_the_unit_of_an_operation_or_of_a_batch() {
    let insert = |offset: usize, text: &str, unit: &str| {
        format!(
            r#"{{"type":"insertText","payload":{{"nodeId":"t","offset":{offset},"text":"{text}"}}{unit}}}"#
        )
    };
    let plain = |offset, text| insert(offset, text, "");
    let utf16 = |offset, text| insert(offset, text, r#","unit":"utf16""#);
    let scalar = |offset, text| insert(offset, text, r#","unit":"scalar""#);
    let text_after = |script: String| after(&script).0;

    assert_eq!(text_after(plain(1, "-")), "🦀-🦀");
    assert_eq!(text_after(scalar(1, "-")), "🦀-🦀");
    assert_eq!(text_after(utf16(2, "-")), "🦀-🦀");
    // An operation in a list has only its own unit.
    let list = [utf16(2, "1"), plain(2, "2"), scalar(2, "3")].join(",");
    assert_eq!(text_after(format!("[{list}]")), "🦀132🦀");

    let batch =
        |unit: &str, operations: &str| format!(r#"{{"unit":"{unit}","operations":{operations}}}"#);
    let list = [utf16(2, "1"), plain(3, "2"), scalar(2, "3")].join(",");
    let inside = batch("utf16", &format!("[{list}]"));
    assert_eq!(text_after(inside.clone()), "🦀132🦀");
    // A batch can stand in the place of a list; the innermost unit counts.
    let list = [&inside, &plain(1, "4")].map(String::as_str).join(",");
    assert_eq!(text_after(format!("[[{list}]]")), "🦀4132🦀");
    let inner = batch("scalar", &plain(1, "5"));
    let list = batch("utf16", &format!("[[{inner}],{}]", plain(2, "6")));
    assert_eq!(text_after(list), "🦀65🦀");
    let fields_in_turn = format!(r#"{{"operations": [{}], "unit": "utf16"}}"#, plain(2, "-"));
    assert_eq!(text_after(fields_in_turn), "🦀-🦀");
    assert_eq!(parse_operations(&batch("utf16", "[]")).unwrap(), []);
    let none =
        r#"{"type":"insertText","unit":null,"payload":{"nodeId":"t","offset":1,"text":"-"}}"#;
    assert_eq!(text_after(none.to_owned()), "🦀-🦀");

    let control = r#"{"type":"control","unit":"utf16","payload":{"nodeId":"u","operations":[
        {"type":"insertText","payload":{"offset":1,"text":"🦀"}},
        {"type":"insertText","payload":{"offset":5,"text":"!"}}
    ]}}"#;
    assert_eq!(after(control).1, "a🦀🦀!");
    let across = r#"{"type":"deleteRange","unit":"utf16",
        "payload":{"nodeId":"t","start":2,"endNodeId":"u","end":3}}"#;
    assert_eq!(text_after(across.to_owned()), "🦀");
}

#[test]
fn transaction_04_an_operation_with_a_unit_reads_back_as_it_was_written() {
    let units = [None, Some(TextUnit::Scalar), Some(TextUnit::Utf16)];
    let operations = || {
        [
            create(text_node("text", "🦀").with_marks([Mark::new("em", 0..2)])).named("x"),
            insert_text(0, "x").on("t"),
            control(
                "t",
                [
                    apply_mark("em", 0..2),
                    select_range(TextSpan::to(0, "u", 1)),
                ],
            ),
            set_selection(doclock::document::Selection::caret("t", 2)),
        ]
    };
    for unit in units {
        let list = operations().map(|operation| match unit {
            Some(unit) => operation.in_unit(unit),
            None => operation,
        });
        let script = serde_json::to_string(&list).unwrap();
        let count = script.matches(r#""unit":"#).count();
        assert_eq!(count, if unit.is_some() { list.len() } else { 0 });
        assert_eq!(parse_operations(&script).unwrap(), list);
        let read: Vec<Operation> = serde_json::from_str(&script).unwrap();
        assert_eq!(read, list);
    }
    let [create, ..] = operations();
    assert_eq!(
        serde_json::to_value(create.in_unit(TextUnit::Utf16)).unwrap(),
        json!({
            "type": "create",
            "payload": {"node": {"type": "text", "text": "🦀", "marks": [{"type": "em", "range": [0, 2]}]}},
            "alias": "x",
            "unit": "utf16",
        }),
    );
    let without_positions = [clear_selection(), if_unchanged(1)];
    assert_eq!(utf16(without_positions.clone()), without_positions);
}

#[test]
fn transaction_04_a_bad_unit_is_an_error_with_its_position() {
    let delete = r#"{"type": "delete", "payload": {"nodeId": "t"}}"#;
    let cases = [
        (
            r#"{"type": "delete", "unit": "utf-16", "payload": {"nodeId": "t"}}"#.to_owned(),
            (0, r#""utf-16","#),
            "delete: unit: unknown variant `utf-16`, expected `scalar` or `utf16`",
        ),
        (
            r#"{"type": "delete", "unit": 16, "payload": {"nodeId": "t"}}"#.to_owned(),
            (0, r#"6, "payload""#),
            "delete: unit: invalid type",
        ),
        (
            r#"{"type": "delete", "unit": "utf16", "unit": "utf16", "payload": {"nodeId": "t"}}"#
                .to_owned(),
            (0, r#"": "utf16", "payload""#),
            "duplicate field `unit`",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "t", "operations": [{"type": "delete", "unit": "utf16"}]}}"#
                .to_owned(),
            (0, r#""utf16"}]}}"#),
            "control: operations[0]: delete: unit: an operation within a `control` counts in the unit of the `control`",
        ),
        (
            format!(r#"[{delete}, {{"unit": "utf8", "operations": [{delete}]}}]"#),
            (1, r#""utf8", "#),
            "unit: unknown variant `utf8`, expected `scalar` or `utf16`",
        ),
        (
            format!(r#"[{delete}, {{"unit": null, "operations": []}}]"#),
            (1, r#"l, "operations""#),
            "unit: ",
        ),
        (
            format!(r#"[{delete}, {{"operations": [{delete}]}}]"#),
            (1, "}]"),
            "missing field `unit`",
        ),
        (
            format!(r#"[{delete}, {{"unit": "utf16"}}]"#),
            (1, "}]"),
            "missing field `type`",
        ),
        (
            format!(r#"{{"unit": "utf16", "operations": [{delete}], "alias": "x"}}"#),
            (0, r#"": "x"}"#),
            "unknown field `alias`, expected `unit` or `operations`",
        ),
        (
            format!(r#"{{"unit": "utf16", "operations": [], "operations": [{delete}]}}"#),
            (0, r#"": [{"type""#),
            "duplicate field `operations`",
        ),
        (
            format!(r#"{{"type": "delete", "unit": "utf16", "operations": [{delete}]}}"#),
            (0, r#"": [{"type""#),
            "unknown field `operations`",
        ),
        (
            format!(r#"{{"unit": "utf16", "operations": [{delete}, 7]}}"#),
            (1, "7]}"),
            "invalid type: integer `7`",
        ),
        (
            r#"{"unit": "utf16", "operations": 7}"#.to_owned(),
            (0, "7}"),
            "invalid type: integer `7`",
        ),
    ];
    for (script, (index, rest), says) in cases {
        let error = parse_operations(&script).expect_err(&script);
        let ScriptError { line, message, .. } = &error;
        assert!(message.contains(says), "{script}: {error}");
        assert_eq!((error.index, *line), (Some(index), 1), "{script}: {error}");
        assert!(
            script[error.column - 1..].starts_with(rest),
            "{script}: {error}"
        );
    }
}

#[test]
fn transaction_04_the_depth_of_nested_batches_is_bounded() {
    let nested = |levels: usize| {
        let open = r#"{"unit": "utf16", "operations": "#.repeat(levels);
        format!("{open}[]{}", "}".repeat(levels))
    };
    assert_eq!(parse_operations(&nested(63)).unwrap(), []);
    for levels in [64, 65, 10_000] {
        let error = parse_operations(&nested(levels)).unwrap_err();
        assert!(error.message.contains("nested deeper"), "{error}");
    }
}

#[test]
fn transaction_07_a_batch_in_another_unit_is_another_batch() {
    let store = with_crabs();
    let once = |operations: Vec<Operation>| {
        manager(&store)
            .transaction(operations)
            .idempotent("key")
            .commit()
    };
    let insert = || vec![insert_text(2, "-").on("t")];
    assert!(!once(utf16(insert())).unwrap().repeated);
    assert!(once(utf16(insert())).unwrap().repeated);
    let error = once(insert()).unwrap_err();
    assert!(matches!(
        error,
        TransactionError::IdempotencyMismatch { .. }
    ));
    assert_eq!(text(&store.snapshot(), "t"), "🦀-🦀");
}

#[test]
fn transaction_03_limits_hold_for_operations_in_utf16() {
    let store = with_crabs();
    let before = image(&store.snapshot());
    let refused = |limit, most, operation: Operation| {
        let limits = Limits::new().with(limit, most);
        let manager = TransactionManager::new(store.clone()).with_limits(limits);
        let error = manager.execute(utf16([operation])).unwrap_err().to_string();
        let expected = format!("the limit `{}` is {most}", limit.name());
        assert!(error.ends_with(&expected), "{error}");
        assert_eq!(image(&store.snapshot()), before);
    };
    refused(Limit::Text, 5, insert_text(2, "🦀🦀🦀🦀").on("t"));
    refused(Limit::NameBytes, 5, apply_mark("longer", 0..2).on("t"));
    refused(
        Limit::Operations,
        1,
        control("t", [insert_text(0, "a"), insert_text(0, "b")]),
    );
    refused(Limit::Nodes, 1, create(element("a", [element("b", [])])));
    // Conversions count: without them these marks take some 200 steps.
    let marks: Vec<Mark> = (0..100).map(|_| Mark::new("em", 0..2)).collect();
    refused(Limit::Steps, 1_000, set_marks(marks.clone()).on("t"));
    refused(
        Limit::Steps,
        1_000,
        create(text_node("text", "🦀").with_marks(marks.clone())),
    );
    let limits = Limits::new().with(Limit::Steps, 1_000);
    let manager = TransactionManager::new(store.clone()).with_limits(limits);
    manager.execute([set_marks(marks).on("t")]).unwrap();
}

#[test]
fn transaction_03_an_attempt_in_utf16_that_fails_leaves_nothing() {
    let store = with_crabs();
    let mut transaction = store.begin("ann").unwrap();
    let batch = utf16([insert_text(2, "-").on("t"), insert_text(1, "-").on("t")]);
    let before = image(&transaction);
    let error = transaction
        .attempt(|transaction| transaction.run(batch))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("operation 1 (insertText on node t)"),
        "{error}"
    );
    assert_eq!(image(&transaction), before);
    transaction
        .run(utf16([insert_text(4, "-").on("t")]))
        .unwrap();
    assert_eq!(text(&transaction, "t"), "🦀🦀-");
}

#[test]
fn transaction_03_operations_in_utf16_lock_the_nodes_that_they_touch() {
    let store = with_crabs();
    let on_nodes = TransactionManager::new(store.clone()).with_node_locks(3);
    let batch = utf16([
        apply_mark("em", TextSpan::to(2, "u", 1)).on("t"),
        delete_range(TextSpan::to(2, "u", 1)).on("t"),
        control("t", [insert_text(4, "!")]),
    ]);
    on_nodes.execute(batch).unwrap();
    let snapshot = store.snapshot();
    assert_eq!(text(&snapshot, "t"), "🦀🦀!");
    assert!(!snapshot.contains("u"));
}
