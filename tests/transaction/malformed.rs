//! Errors of malformed operations name the field and the reason.

use doclock::transaction::Operation;
use serde_json::{Value, json};

fn refusal(operation: Value) -> String {
    let read = serde_json::from_value::<Operation>(operation);
    read.expect_err("it should have been refused").to_string()
}

#[test]
fn transaction_04_a_malformed_payload_names_the_operation_the_field_and_the_reason() {
    let on = |name: &str, payload: Value| json!({"type": name, "payload": payload});
    let cases = [
        (
            on(
                "insertText",
                json!({"nodeId": "t", "offset": "x", "text": "y"}),
            ),
            "insertText: offset: invalid type: string \"x\", expected usize",
        ),
        (
            on("insertText", json!({"nodeId": "t", "offset": 1})),
            "insertText: missing field `text`",
        ),
        (
            on("insertText", json!({"offset": 1, "text": "y"})),
            "insertText: missing field `nodeId`",
        ),
        (
            on(
                "setMarks",
                json!({"nodeId": "t", "marks": [{"type": "b", "range": [1]}]}),
            ),
            "setMarks: marks[0].range: invalid length 1, expected a tuple of size 2",
        ),
        (
            on("delete", json!({"nodeId": "t", "twice": true})),
            "delete: twice: unknown field `twice`, expected `fit`",
        ),
        (
            on("create", json!({"node": {"type": 1}})),
            "create: node.type: invalid type: integer `1`, expected a string",
        ),
        (
            on(
                "control",
                json!({"nodeId": "t", "operations": [on("setText", json!({}))]}),
            ),
            "control: operations[0]: setText: missing field `text`",
        ),
        (
            json!({"type": "ifUnchanged", "payload": {"version": -1}}),
            "ifUnchanged: version: invalid value: integer `-1`, expected u64",
        ),
        (
            on("delete", json!({"nodeId": 7})),
            "delete: nodeId: invalid type: integer `7`, expected a node id or an alias",
        ),
        (
            on(
                "removeChild",
                json!({"nodeId": "t", "childId": {"alas": "x"}}),
            ),
            "removeChild: childId.alas: unknown field `alas`, expected `alias`",
        ),
        (
            on(
                "addChild",
                json!({"nodeId": "t", "child": {"type": "p", "text": 1}}),
            ),
            "addChild: child.text: invalid type: integer `1`, expected a string",
        ),
        (
            on("setSelection", json!({"selection": {"nodeId": 7}})),
            "setSelection: selection.nodeId: invalid type: integer `7`, expected a string",
        ),
        (
            on(
                "setSelection",
                json!({"selection": {"anchor": {"nodeId": "t", "offset": -1}}}),
            ),
            "setSelection: selection.anchor.offset: invalid value: integer `-1`, expected usize",
        ),
        (
            on(
                "setSelection",
                json!({"selection": {"focus": {"nodeId": "t", "offset": 1}}}),
            ),
            "setSelection: selection: missing field `anchor`",
        ),
        (
            on("setSelection", json!({"selection": {}})),
            "setSelection: selection: a selection has either `nodeId`, or `anchor` and `focus`",
        ),
        (
            on("setSelection", json!({"selection": {"node": "t"}})),
            "setSelection: selection.node: unknown field `node`, expected one of `nodeId`, `anchor`, `focus`, `marks`",
        ),
        (json!({"payload": {}}), "missing field `type`"),
    ];
    for (operation, expected) in cases {
        assert_eq!(refusal(operation), expected);
    }
    assert!(
        refusal(on("inserText", json!({"nodeId": "t"}))).contains("unknown variant `inserText`")
    );
}
