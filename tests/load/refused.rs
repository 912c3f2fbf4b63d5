//! Input that is no saved document.

use serde_json::{Value, json};

use crate::{loaded, saved, small};

/// The message for a saved document that was edited.
fn refusal(edit: impl FnOnce(&mut Value)) -> String {
    let mut form = serde_json::from_slice(&saved(&small().snapshot())).unwrap();
    edit(&mut form);
    let error = loaded(form.to_string().as_bytes()).expect_err(&form.to_string());
    let message = error.to_string();
    message.split(" at line").next().unwrap().to_owned()
}

/// With these nodes in place of all, and without a root.
fn refusal_of(nodes: Value) -> String {
    refusal(|form| {
        form["root"] = Value::Null;
        form["len"] = nodes.as_array().unwrap().len().into();
        form["nodes"] = nodes;
    })
}

#[test]
fn feed_05_nodes_that_do_not_fit_together_are_refused() {
    let cases = [
        (
            json!([{"id": "a", "type": "x"}, {"id": "a", "type": "y"}]),
            "node a is listed twice",
        ),
        (
            json!([{"id": "", "type": "x"}]),
            "`` is not a node id (it is empty)",
        ),
        (
            json!([{"id": "a", "type": "x", "children": ["b"]}]),
            "node a lists the child b, which does not exist",
        ),
        (
            json!([{"id": "a", "type": "x", "children": ["b"]}, {"id": "b", "type": "x"}]),
            "node a lists the child b, whose parent is another",
        ),
        (
            json!([
                {"id": "a", "type": "x", "children": ["b", "b"]},
                {"id": "b", "type": "x", "parent": "a"},
            ]),
            "node a lists the child b twice",
        ),
        (
            json!([{"id": "a", "type": "x"}, {"id": "b", "type": "x", "parent": "a"}]),
            "node b names the parent a, which does not list it",
        ),
        (
            json!([{"id": "b", "type": "x", "parent": "a"}]),
            "node b names the parent a, which does not list it",
        ),
        (
            json!([{"id": "a", "type": "x", "children": ["a"], "parent": "a"}]),
            "node a is part of a cycle",
        ),
        (
            json!([{"id": "a", "type": "x", "text": "Io", "marks": [{"type": "b", "range": [0, 3]}]}]),
            "the marks of node a are not in normal form for its text",
        ),
        (
            json!([{"id": "a", "type": "x", "text": "Io", "marks": [{"type": "b", "range": [2, 1]}]}]),
            "the mark `b` ends before it starts",
        ),
        (
            json!([{"id": "a", "type": "x", "text": "Io", "marks": [{"type": "b"}]}]),
            "the marks of node a are not in normal form for its text",
        ),
        (json!([{"id": "a"}]), "missing field `type`"),
        (
            json!([{"id": "a", "type": "x", "colour": 1}]),
            "unknown field `colour`, expected one of `id`, `type`, `attributes`, `text`, `marks`, \
             `children`, `parent`",
        ),
    ];
    for (nodes, expected) in cases {
        assert_eq!(refusal_of(nodes), expected);
    }
}

/// Each names the other, and no node without a parent leads to them.
#[test]
fn feed_05_a_cycle_of_detached_nodes_is_refused() {
    let message = refusal_of(json!([
        {"id": "top", "type": "x"},
        {"id": "a", "type": "x", "children": ["b"], "parent": "c"},
        {"id": "b", "type": "x", "children": ["c"], "parent": "a"},
        {"id": "c", "type": "x", "children": ["a"], "parent": "b"},
    ]));
    assert!(message.ends_with("is part of a cycle"), "{message}");
}

#[test]
fn feed_05_a_root_that_is_no_top_is_refused() {
    for root in ["t", "nowhere"] {
        let message = refusal(|form| form["root"] = root.into());
        assert_eq!(
            message,
            format!("the root {root} is not a node without a parent")
        );
    }
    assert_eq!(
        refusal(|form| form["root"] = "".into()),
        "`` is not a node id (it is empty)"
    );
}

#[test]
fn feed_05_values_nested_too_deep_are_refused() {
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let with = |value: Value| json!([{"id": "a", "type": "x", "attributes": {"v": value}}]);
    assert_eq!(
        refusal_of(with(nested(101))),
        "a value is nested deeper than 100 levels"
    );
    let marked = json!([{
        "id": "a", "type": "x", "text": "Io",
        "marks": [{"type": "b", "range": [0, 1], "attributes": {"v": nested(101)}}],
    }]);
    assert_eq!(
        refusal_of(marked),
        "a value is nested deeper than 100 levels"
    );
    let form = json!({
        "format": 1, "version": 1, "root": null,
        "tokens": {"lock": 1, "lease": 0, "claim": 0},
        "session": {"id": 1, "transactions": 1, "nodes": 0},
        "len": 1, "nodes": with(nested(100)),
    });
    assert_eq!(loaded(form.to_string().as_bytes()).unwrap().len(), 1);
}

#[test]
fn feed_05_a_form_without_one_of_its_fields_is_refused() {
    for field in [
        "format", "version", "root", "tokens", "session", "len", "nodes",
    ] {
        let message = refusal(|form| drop(form.as_object_mut().unwrap().remove(field)));
        assert_eq!(message, format!("missing field `{field}`"));
        let form = String::from_utf8(saved(&small().snapshot())).unwrap();
        let value: Value = serde_json::from_str(&form).unwrap();
        let twice = form.replacen('{', &format!("{{\"{field}\":{},", value[field]), 1);
        let error = loaded(twice.as_bytes()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("duplicate field `{field}`")),
            "{error}"
        );
    }
    let message = refusal(|form| form["colour"] = 1.into());
    assert!(message.starts_with("unknown field `colour`"), "{message}");
    assert_eq!(
        refusal(|form| *form = json!([1])),
        "invalid type: sequence, expected a saved document"
    );
}

#[test]
fn feed_05_other_formats_and_numbers_are_refused() {
    assert_eq!(
        refusal(|form| form["format"] = 2.into()),
        "the document is saved in format 2, and only 1 is known"
    );
    assert_eq!(
        refusal(|form| form["len"] = 4.into()),
        "the document should have 4 nodes, and has 5"
    );
    // A number without a next one would make the next commit or grant overflow.
    for path in [
        "/version",
        "/tokens/lock",
        "/tokens/lease",
        "/tokens/claim",
        "/session/transactions",
    ] {
        let message = refusal(|form| *form.pointer_mut(path).unwrap() = u64::MAX.into());
        assert!(
            message.ends_with("is too large: the limit is 9223372036854775807"),
            "{message}"
        );
    }
}

/// At each byte.
#[test]
fn feed_05_a_truncated_file_is_refused() {
    let file = saved(&small().snapshot());
    for end in 0..file.len() {
        loaded(&file[..end]).unwrap_err();
    }
    // A count of nodes takes no memory.
    let form = String::from_utf8(file).unwrap();
    let form = form.replace("\"len\":5", &format!("\"len\":{}", usize::MAX));
    loaded(form.as_bytes()).unwrap_err();
}
