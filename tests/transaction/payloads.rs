//! Payloads: unique fields, and errors at the exact position.

use doclock::dsl::*;
use doclock::{
    View,
    document::{AttributePatch, Attributes, Change, EditError, Fragment, Mark, Node, NodeSpec},
    events::Commit,
    schema::{AttributeSpec, Schema},
    transaction::{NodeOperation, Operation, OperationError, ScriptError, parse_operations},
};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::common::{Action, RefDoc, possible};
use crate::common::{Dice, cases, id, steps};
use crate::{failed, manager, with_note};

/// The position and the message of an error.
fn fault(script: &str) -> (Option<usize>, usize, usize, String) {
    let ScriptError {
        index,
        line,
        column,
        message,
        ..
    } = parse_operations(script).expect_err(script);
    (index, line, column, message)
}

/// The payload was read into a map first, which kept only the last of two fields.
#[test]
fn a_field_that_is_there_twice_is_refused_wherever_it_is() {
    // In each, the second of the two names is on a separate line.
    let scripts = [
        (
            r#"{"type": "delete",
            "type": "delete"}"#,
            "type",
        ),
        (
            r#"{"type": "delete", "payload": {"nodeId": "a",
            "nodeId": "b"}}"#,
            "nodeId",
        ),
        (
            r#"{"type": "insertText", "payload": {"nodeId": "a", "offset": 0, "text": "a",
            "text": "b"}}"#,
            "text",
        ),
        (
            r#"{"type": "insertText", "payload": {"nodeId": "a", "offset": 0, "text": "a",
            "te\u0078t": "b"}}"#,
            "text",
        ),
        (
            r#"{"type": "delete", "payload": {"nodeId": {"alias": "a",
            "alias": "b"}}}"#,
            "alias",
        ),
        (
            r#"{"type": "setAttrs", "payload": {"nodeId": "a", "attrs": {"b": 1, "c": 2,
            "b": 3}}}"#,
            "b",
        ),
        (
            r#"{"type": "setAttrs", "payload": {"nodeId": "a", "attrs": {"b": null,
            "b": 3}}}"#,
            "b",
        ),
        (
            r#"{"type": "setAttrs", "payload": {"nodeId": "a", "attrs": {"b": [{"c": 1,
            "c": 2}]}}}"#,
            "c",
        ),
        (
            r#"{"type": "update", "payload": {"nodeId": "a", "attrs": {"b": 1,
            "b": 3}}}"#,
            "b",
        ),
        (
            r#"{"type": "transformNode", "payload": {"nodeId": "a", "type": "p", "attrs": {"b": 1,
            "b": 3}}}"#,
            "b",
        ),
        (
            r#"{"type": "updateMark", "payload": {"nodeId": "a", "mark": "m", "attributes": {"b": 1,
            "b": 3}}}"#,
            "b",
        ),
        (
            r#"{"type": "applyMark", "payload": {"nodeId": "a", "mark": "m", "attributes": {"b": 1,
            "b": 3}}}"#,
            "b",
        ),
        (
            r#"{"type": "setMarks", "payload": {"nodeId": "a", "marks": [{"type": "m",
            "type": "m"}]}}"#,
            "type",
        ),
        (
            r#"{"type": "setMarks", "payload": {"nodeId": "a", "marks": [{"type": "m", "attributes": {"b": 1,
            "b": 3}}]}}"#,
            "b",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"type": "p"},
            "node": {"type": "p"}}}"#,
            "node",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"type": "p", "text": "",
            "text": "x"}}}"#,
            "text",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"type": "p", "children": [],
            "children": []}}}"#,
            "children",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"type": "p", "children": [{"type": "a",
            "type": "a"}]}}}"#,
            "type",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"type": "p", "attributes": {"b": 1,
            "b": 3}}}}"#,
            "b",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"type": "p", "attributes": {"x": {"b": 1,
            "b": 3}}}}}"#,
            "b",
        ),
        (
            r#"{"type": "addChild", "payload": {"nodeId": "a", "child": {"type": "p",
            "type": "p"}}}"#,
            "type",
        ),
        (
            r#"{"type": "addChild", "payload": {"nodeId": "a", "child": {"alias": "p",
            "alias": "p"}}}"#,
            "alias",
        ),
        (
            r#"{"type": "addChild", "payload": {"nodeId": "a", "child": {"type": "p", "attributes": {"b": 1,
            "b": 3}}}}"#,
            "b",
        ),
        (
            r#"{"type": "paste", "payload": {"nodeId": "a", "offset": 0, "fragment": {"nodes": [],
            "nodes": []}}}"#,
            "nodes",
        ),
        (
            r#"{"type": "setSelection", "payload": {"selection": {"nodeId": "a",
            "nodeId": "b"}}}"#,
            "nodeId",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "a", "operations": [],
            "operations": []}}"#,
            "operations",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "a", "operations": [{"type": "setText", "payload": {"text": "",
            "text": ""}}]}}"#,
            "text",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "a", "operations": [{"type": "setAttrs", "payload": {"attrs": {"b": 1,
            "b": 2}}}]}}"#,
            "b",
        ),
    ];
    for (script, name) in scripts {
        let says = format!("duplicate field `{name}`");
        let (index, line, _, message) = fault(&format!("[[\n{script}]]"));
        assert!(message.contains(&says), "{script}: {message}");
        assert_eq!((index, line), (Some(0), 3), "{script}: {message}");
        // Read with serde, as a part of a larger value.
        let error = serde_json::from_str::<Vec<Operation>>(&format!("[{script}]")).unwrap_err();
        assert!(error.to_string().contains(&says), "{script}: {error}");
    }
}

#[test]
fn a_field_that_is_there_twice_is_refused_in_every_type() {
    fn refused<T: DeserializeOwned>(json: &str) {
        let error = serde_json::from_str::<T>(json).err();
        let error = error
            .unwrap_or_else(|| panic!("{json} was read"))
            .to_string();
        assert!(error.contains("duplicate field"), "{json}: {error}");
    }
    refused::<Attributes>(r#"{"a": 1, "a": 1}"#);
    refused::<Attributes>(r#"{"a": null, "a": 1}"#);
    refused::<Attributes>(r#"{"b": {"a": 1, "a": 1}}"#);
    refused::<Mark>(r#"{"type": "m", "attributes": {"a": 1, "a": 1}}"#);
    refused::<Mark>(r#"{"type": "m", "type": "m"}"#);
    refused::<Node>(r#"{"id": "a", "type": "m", "attributes": {"a": 1, "a": 1}}"#);
    refused::<Node>(r#"{"id": "a", "type": "m", "id": "a"}"#);
    refused::<NodeSpec>(r#"{"type": "m", "attributes": {"a": 1, "a": 1}}"#);
    refused::<NodeSpec>(r#"{"type": "m", "type": "m"}"#);
    refused::<Fragment>(r#"{"nodes": [{"type": "m", "attributes": {"a": 1, "a": 1}}]}"#);
    refused::<AttributePatch>(r#"{"key": "a", "before": {"a": 1, "a": 1}}"#);
    refused::<AttributePatch>(r#"{"key": "a", "after": [{"a": 1, "a": 1}]}"#);
    refused::<Change>(
        r#"{"type": "patchAttrs", "id": "a", "patches": [{"key": "a", "after": {"a": 1, "a": 1}}]}"#,
    );
    refused::<Change>(r#"{"type": "setType", "id": "a", "before": "a", "after": "b", "id": "b"}"#);
    refused::<Change>(
        r#"{"type": "setMarks", "id": "a", "removed": [], "added": [], "added": []}"#,
    );
    refused::<Change>(
        r#"{"type": "setMarks", "id": "a", "removed": [], "added": [{"type": "m", "range": [0, 1], "attributes": {"a": 1, "a": 1}}]}"#,
    );
    refused::<Commit>(
        r#"{"version": 1, "transactionId": "tx-1-1", "owner": "a", "fencingToken": 1, "operations": [], "changes": [
            {"type": "insertSubtree", "at": null, "nodes": [{"id": "a", "type": "m", "attributes": {"a": 1, "a": 1}}]}
        ]}"#,
    );
    refused::<AttributeSpec>(r#"{"default": {"a": 1, "a": 1}}"#);
    refused::<AttributeSpec>(r#"{"values": [{"a": 1, "a": 1}]}"#);
    refused::<NodeOperation>(r#"{"type": "setText", "payload": {"text": "", "text": ""}}"#);
    let error = NodeSpec::from_json(r#"{"type": "a", "attributes": {"b": 1, "b": 2}}"#);
    assert_eq!(
        error.unwrap_err().to_string(),
        "duplicate field `b` at line 1 column 40"
    );
    let two_types = r#"{"nodes": {"a": {}, "a": {}}}"#;
    let error = serde_json::from_str::<Schema>(two_types).unwrap_err();
    assert!(error.to_string().contains("two types named a"), "{error}");
}

/// An error in a payload had the position of its operation, which is far away with many fields or
/// in a `control`.
#[test]
fn an_error_in_a_payload_has_the_position_of_the_faulty_field() {
    let script = r#"[
  {"type": "delete", "payload": {"nodeId": "a"}},
  {
    "type": "insertText",
    "payload": {
      "nodeId": "é",
      "offset": -1,
      "text": "x"
    }
  }
]"#;
    let (index, line, column, message) = fault(script);
    assert_eq!((index, line, column), (Some(1), 7, 18));
    assert_eq!(
        message,
        "insertText: offset: invalid value: integer `-1`, expected usize"
    );
    // The wrong text: the script before it gives its position.
    let cases = [
        (
            r#"{"type": "delete", "payload": {"nodeId": ¦1}}"#,
            "delete: nodeId: invalid type",
        ),
        (
            r#"{"type": "delete", "payload": {"nodeId": "a", ¦"x": 1}}"#,
            "delete: x: unknown field `x`",
        ),
        (
            r#"{"type": ¦"delte", "payload": {"nodeId": "a", "x": 1}}"#,
            "unknown variant `delte`",
        ),
        (
            r#"{"type": ¦5, "payload": {"nodeId": "a", "x": 1}}"#,
            "invalid type: integer `5`",
        ),
        (
            r#"{"type": "delete", "payload": ¦{}}"#,
            "delete: missing field `nodeId`",
        ),
        (r#"¦{"type": "delete"}"#, "delete: missing field `nodeId`"),
        (
            r#"{"type": "delete", "payload": ¦7}"#,
            "delete: invalid type: integer `7`",
        ),
        (
            r#"{"type": "delete", "payload": nul¦l}"#,
            "delete: invalid type: null",
        ),
        (
            r#"{"type": "setText", "payload": ¦{"nodeId": "a"}}"#,
            "setText: missing field `text`",
        ),
        (
            r#"{"type": "setMarks", "payload": {"nodeId": "a", "marks": [{"type": "m"}, {"type": ¦7}]}}"#,
            "setMarks: marks[1].type: invalid type",
        ),
        (
            r#"{"type": "setMarks", "payload": {"nodeId": "a", "marks": [{"type": "m", "range": [1¦]}]}}"#,
            "setMarks: marks[0].range: invalid length 1",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"type": "p", "children": [{"type": "a", "text": ¦1}]}}}"#,
            "create: node.children[0].text: invalid type",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"type": "p", "attributes": ¦1}}}"#,
            "create: node.attributes: invalid type",
        ),
        (
            r#"{"type": "addChild", "payload": {"nodeId": "a", "child": {"type": "p", "children": [¦1]}}}"#,
            "addChild: child.children[0]: invalid type",
        ),
        (
            r#"{"type": "addChild", "payload": {"nodeId": "a", "child": {"alias": ¦1}}}"#,
            "addChild: child.alias: invalid type",
        ),
        (
            r#"{"type": "paste", "payload": {"nodeId": "a", "offset": 0, "fragment": {"nodes": ¦1}}}"#,
            "paste: fragment.nodes: invalid type",
        ),
        (
            r#"{"type": "setSelection", "payload": {"selection": {"anchor": {"nodeId": "a", "offset": tru¦e}}}}"#,
            "setSelection: selection.anchor.offset: invalid type",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "a", "operations": [{"type": "setText", "payload": {"text": ¦1}}]}}"#,
            "control: operations[0]: setText: text: invalid type",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "a", "operations": [{"type": ¦"create", "payload": {}}]}}"#,
            "control: operations[0]: create: unknown variant `create`",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "a", "operations": [¦7]}}"#,
            "control: operations[0]: invalid type: integer `7`, expected an operation",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "a", "operations": ¦7}}"#,
            "control: operations: invalid type",
        ),
    ];
    for (case, says) in cases {
        for before in ["", "\n\n ", r#"[{"type": "clearSelection"}, "#] {
            let (head, tail) = case.split_once('¦').unwrap();
            let head = format!("[{before}{head}");
            let close = if before.starts_with('[') { "]]" } else { "]" };
            let (_, line, column, message) = fault(&format!("{head}{tail}{close}"));
            assert!(
                message.starts_with(says) || message.contains(says),
                "{case}: {message}"
            );
            let last = head.rsplit('\n').next().unwrap();
            let expected = (head.matches('\n').count() + 1, last.chars().count() + 1);
            assert_eq!((line, column), expected, "{case}: {message}");
        }
    }
}

/// Only the operations on nodes were listed.
#[test]
fn the_error_for_an_unknown_type_lists_every_name() {
    let (.., message) = fault(r#"{"type": "insertTxt", "payload": {}}"#);
    for name in Operation::names() {
        assert!(message.contains(&format!("`{name}`")), "{name}: {message}");
    }
    let within =
        r#"{"type": "control", "payload": {"nodeId": "a", "operations": [{"type": "x"}]}}"#;
    let (.., message) = fault(within);
    for name in NodeOperation::NAMES {
        assert!(message.contains(&format!("`{name}`")), "{name}: {message}");
    }
    assert!(!message.contains("`create`"), "{message}");
}

/// The error for `apply_mark("b", 2..9)` on five characters named the characters 9..9.
#[test]
fn a_range_error_shows_the_range_as_it_was_given() {
    let store = with_note();
    let says = |operation: Operation| {
        let error = manager(&store).execute([operation]).unwrap_err();
        let (_, _, cause) = failed(error);
        assert!(
            matches!(
                cause,
                OperationError::Edit(EditError::TextOutOfRange { .. })
            ),
            "{cause}"
        );
        cause.to_string()
    };
    let operations: [fn() -> NodeOperation; 7] = [
        || apply_mark("b", 2..9),
        || remove_mark("b", 2..9),
        || toggle_mark("b", 2..9),
        || clear_formatting(2..9),
        || copy_range(2..9),
        || delete_range(2..9),
        || select_range(2..9),
    ];
    for operation in operations {
        assert_eq!(
            says(operation().on("note")),
            "characters 2..9 are out of range: the text of node note has 5"
        );
    }
    assert_eq!(
        says(delete_text_range(2, 9).on("note")),
        "characters 2..9 are out of range: the text of node note has 5"
    );
    assert_eq!(
        says(apply_mark("b", 9..).on("note")),
        "characters 9..9 are out of range: the text of node note has 5"
    );
}

/// After a join the error said that the node was deleted, although the script deletes nothing.
#[test]
fn an_error_about_a_joined_node_names_the_node_that_took_it_in() {
    let store = with_note();
    let page = || {
        let item = |name: &str| text_node("inline-text", name).with_id(name);
        create(element("p", [item("a"), item("b"), item("c")]).with_id("page"))
    };
    let error = |operations: Vec<Operation>| {
        let error = manager(&store).execute(operations).unwrap_err();
        failed(error).2.to_string()
    };
    let joined = "node b was joined to node a earlier in this transaction";
    assert_eq!(
        error(vec![
            page(),
            merge_text_nodes("b").on("a"),
            insert_text(0, "x").on("b")
        ]),
        joined
    );
    assert_eq!(
        error(vec![
            page(),
            auto_merge_text_nodes().on("page"),
            set_text("x").on("b")
        ]),
        joined
    );
    let deleted = "node b was deleted earlier in this transaction";
    assert_eq!(
        error(vec![page(), delete_node().on("b"), set_text("x").on("b")]),
        deleted
    );
    assert_eq!(
        error(vec![
            page(),
            delete_node().on("page"),
            set_text("x").on("b")
        ]),
        deleted
    );
    // A joined node may be restored, and joined again.
    let mut transaction = store.begin("test").unwrap();
    transaction.run([page()]).unwrap();
    let undone = transaction.attempt(|on| {
        on.join_nodes(id("a"), id("b"))?;
        assert!(on.node(id("b")).is_none());
        on.delete(id("b"))
    });
    assert_eq!(undone.unwrap_err().to_string(), joined);
    transaction.delete(id("b")).unwrap();
    assert_eq!(
        transaction.delete(id("b")).unwrap_err().to_string(),
        deleted
    );
}

/// Replaces one value with one that no payload has.
fn break_one(value: &mut Value, dice: &mut Dice) {
    let inner: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    match inner.is_empty() {
        true => *value = Value::from("¦"),
        false => {
            let at = dice.below(inner.len());
            let chosen = inner.into_iter().nth(at);
            break_one(chosen.unwrap(), dice);
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// For any invalid field, the error has the line of that field.
    #[test]
    fn a_payload_error_has_the_line_of_its_field(steps in steps(1..6), seed in any::<u64>()) {
        let mut actions = possible(&steps, &RefDoc::default());
        actions.retain(|action| serde_json::to_value(action.operation()).is_ok());
        let list: Vec<Operation> = actions.iter().map(Action::operation).collect();
        let mut value = serde_json::to_value(&list).unwrap();
        break_one(&mut value, &mut Dice(seed));
        let script = serde_json::to_string_pretty(&value).unwrap();
        // In place of some strings and attribute values, a string is valid.
        if let Err(error) = parse_operations(&script) && error.message.contains("invalid type") {
            let line = script.lines().nth(error.line - 1).unwrap();
            prop_assert!(line.contains('¦'), "{}: {}", error, script);
        }
    }

    /// As a part of another value, an operation reads the same, and so does its error.
    #[test]
    fn serde_reads_operations_as_scripts_are_read(steps in steps(1..6), seed in any::<u64>()) {
        let mut actions = possible(&steps, &RefDoc::default());
        actions.retain(|action| serde_json::to_value(action.operation()).is_ok());
        let list: Vec<Operation> = actions.iter().map(Action::operation).collect();
        let mut value = serde_json::to_value(&list).unwrap();
        if seed % 4 != 0 {
            break_one(&mut value, &mut Dice(seed));
        }
        let script = value.to_string();
        match (parse_operations(&script), serde_json::from_str::<Vec<Operation>>(&script)) {
            (Ok(read), other) => {
                prop_assert_eq!(&read, &other.unwrap());
                prop_assert_eq!(serde_json::from_value::<Vec<Operation>>(value).unwrap(), read);
            }
            (Err(error), Err(other)) => {
                // The error of an invalid item names what was expected: a list, or an operation.
                let same = other.to_string().starts_with(&error.message);
                prop_assert!(
                    same || error.message.contains("expected an operation"),
                    "{} / {}",
                    error,
                    other
                );
            }
            (Err(error), Ok(_)) => prop_assert!(false, "{}", error),
        }
    }
}
