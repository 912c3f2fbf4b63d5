//! Nested JSON and back.

use doclock::{
    View,
    document::{Attributes, JsonError, Mark, NodeSpec},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{cases, store};
use crate::{DEEP, deep_chain};

fn values() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    plain.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let pairs = prop::collection::vec(("[a-zé\"\\\\]{0,4}", values()), 0..3);
    pairs.prop_map(|pairs| pairs.into_iter().collect())
}

fn marks() -> impl Strategy<Value = Vec<Mark>> {
    let mark = (prop::option::of((0..9usize, 0..9usize)), attributes());
    let mark = mark.prop_map(|(range, attributes)| {
        let mark = match range {
            Some((start, end)) => Mark::new("bold", start..end),
            None => Mark::whole("em"),
        };
        mark.with_attributes(attributes)
    });
    prop::collection::vec(mark, 0..3)
}

fn specs() -> impl Strategy<Value = NodeSpec> {
    let id = prop::option::of(prop_oneof![".{1,4}", Just("1:2".to_owned())]);
    let node = (".{0,5}", id, attributes(), ".{0,9}", marks());
    let node = node.prop_map(|(kind, id, attributes, text, marks)| {
        let spec = NodeSpec::new(kind)
            .with_attributes(attributes)
            .with_text(text)
            .with_marks(marks);
        match id {
            Some(id) => spec.with_id(id),
            None => spec,
        }
    });
    node.prop_recursive(5, 24, 4, |inner| {
        let children = prop::collection::vec(inner.clone(), 0..4);
        (inner, children).prop_map(|(top, children)| top.with_children(children))
    })
}

/// A text after one typing error: a deletion, an insertion or a duplication.
fn mutated(json: &str, at: prop::sample::Index, len: usize, inserted: &str) -> String {
    let mut chars: Vec<char> = json.chars().collect();
    let start = at.index(chars.len());
    let end = (start + len).min(chars.len());
    chars.splice(start..end, inserted.chars());
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn json_round_trips_and_equals_the_form_of_serde(spec in specs()) {
        let json = spec.to_json();
        prop_assert_eq!(&json, &serde_json::to_string(&spec).unwrap());
        prop_assert_eq!(NodeSpec::from_json(&json), Ok(spec.clone()));
        let pretty = serde_json::to_string_pretty(&spec).unwrap();
        prop_assert_eq!(NodeSpec::from_json(&pretty), Ok(spec));
    }

    #[test]
    fn malformed_json_is_refused_where_serde_refuses_it(
        spec in specs(),
        slips in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..4usize, "[]\\[{},:\"0a\\\\n \\n]{0,2}"),
            1..3,
        ),
    ) {
        let json = slips.into_iter().fold(spec.to_json() + "\n", |json, (at, len, inserted)| {
            mutated(&(json + " "), at, len, &inserted)
        });
        let by_serde = serde_json::from_str::<NodeSpec>(&json);
        match NodeSpec::from_json(&json) {
            Ok(read) => prop_assert_eq!(read, by_serde.unwrap()),
            Err(JsonError { line, column, reason, .. }) => {
                prop_assert!(by_serde.is_err(), "{reason}: {json}");
                let lines: Vec<&str> = json.split('\n').collect();
                prop_assert!(line >= 1 && column >= 1);
                prop_assert!(column <= lines[line - 1].chars().count() + 1, "{reason}");
            }
        }
    }

    #[test]
    fn a_subtree_and_its_spec_are_the_same(spec in specs()) {
        let store = store();
        let mut transaction = store.begin("test").unwrap();
        // Marks may exceed their texts and ids may be taken; then there is nothing to compare.
        if let Ok(id) = transaction.create(spec.clone().without_ids()) {
            let taken = transaction.to_spec(&id).unwrap();
            prop_assert_eq!(taken.len(), spec.len());
            let again = NodeSpec::from_json(&taken.to_json()).unwrap();
            prop_assert_eq!(&again, &taken);
            let texts = transaction.text_of(&id).unwrap();
            transaction.delete(&id).unwrap();
            let same = transaction.create(again).unwrap();
            prop_assert_eq!(same, id.clone());
            prop_assert_eq!(transaction.to_spec(&id).unwrap(), taken);
            prop_assert_eq!(transaction.text_of(&id).unwrap(), texts);
        }
    }
}

#[test]
fn a_hundred_thousand_levels_are_written_and_read() {
    let (store, top, _) = deep_chain();
    let spec = store.snapshot().to_spec(&top).unwrap();
    assert_eq!(spec.len(), DEEP);
    assert!(serde_json::to_string(&spec).is_err(), "serde stops before");
    let json = spec.to_json();
    assert_eq!(NodeSpec::from_json(&json).unwrap(), spec);
    assert_eq!(
        NodeSpec::from_json(&json.replace(",\"", " ,\n \"")).unwrap(),
        spec
    );
}

/// A child before and after the next level, at every level: each node is to be moved once, not once
/// a level.
#[test]
fn a_hundred_thousand_levels_of_three_children_are_read_in_one_go() {
    let json = [
        r#"{"type":"a","children":[{"type":"b"},"#.repeat(DEEP),
        r#"{"type":"c"}"#.to_owned(),
        r#",{"type":"d"}]}"#.repeat(DEEP),
    ]
    .concat();
    let spec = NodeSpec::from_json(&json).unwrap();
    assert_eq!(spec.len(), 3 * DEEP + 1);
    assert_eq!(spec.to_json(), json);
}

#[test]
fn endless_nesting_in_json_is_an_error() {
    const TEN_MEGABYTES: usize = 10_000_000;
    let brackets = "[".repeat(TEN_MEGABYTES);
    let error = |json: &str| NodeSpec::from_json(json).unwrap_err().to_string();
    let no_node = "expected a node, which begins with `{` at line 1 column 1";
    assert_eq!(error(&brackets), no_node);
    assert_eq!(
        error(&brackets.replace('[', "{")),
        "expected a field at line 1 column 2"
    );
    let in_attributes = format!(r#"{{"type":"a","attributes":{{"b":{brackets}"#);
    assert_eq!(
        error(&in_attributes),
        "a value is nested deeper than 100 levels at line 1 column 131"
    );
    let children = r#"{"type":"a","children":["#;
    let unclosed = children.repeat(TEN_MEGABYTES / children.len());
    let reason = "expected a node, which begins with `{`, found the end of the text";
    assert!(error(&unclosed).starts_with(reason));
}

#[test]
fn attributes_nest_a_hundred_levels() {
    let nested = |levels| {
        let value = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        [
            format!(r#"{{"type":"a","attributes":{{"b":{value}}}}}"#),
            format!(r#"{{"type":"a","marks":[{{"type":"m","attributes":{{"b":{value}}}}}]}}"#),
        ]
    };
    for json in nested(100) {
        assert_eq!(NodeSpec::from_json(&json).unwrap().to_json(), json);
    }
    for json in nested(101) {
        let error = NodeSpec::from_json(&json).unwrap_err();
        assert_eq!(error.reason, "a value is nested deeper than 100 levels");
        // The start of the first level beyond the limit.
        let brackets: Vec<_> = json.match_indices('[').map(|(at, _)| at).collect();
        let marks = usize::from(json.contains("marks"));
        assert_eq!((error.line, error.column), (1, brackets[100 + marks] + 1));
    }
}

#[test]
fn a_json_error_counts_columns_in_characters() {
    let cases = [
        (
            "",
            "expected a node, which begins with `{`, found the end of the text",
            1,
            1,
        ),
        ("{}", "missing field `type`", 1, 2),
        ("{\n \"é\": 1}", "unknown field `é`", 2, 2),
        (r#"{"type": "é" "id": "b"}"#, "expected `,` or `}`", 1, 14),
        (r#"{"type": "a",}"#, "expected a field", 1, 14),
        (
            r#"{"type": "é", "type": "b"}"#,
            "duplicate field `type`",
            1,
            15,
        ),
        (
            r#"{"type": "é", "text": 1}"#,
            "invalid type: integer `1`, expected a string",
            1,
            23,
        ),
        (
            r#"{"type": "a", "children": {}}"#,
            "expected a list of children",
            1,
            27,
        ),
        (
            r#"{"type": "a", "children": [1]}"#,
            "expected a node, which begins with `{`",
            1,
            28,
        ),
        ("{\"type\": \"a\"}\n x", "trailing characters", 2, 2),
        (
            "{\"type\":",
            "expected a value, found the end of the text",
            1,
            9,
        ),
    ];
    for (json, reason, line, column) in cases {
        let error = NodeSpec::from_json(json).unwrap_err();
        let found = (error.reason.as_str(), error.line, error.column);
        assert_eq!(found, (reason, line, column), "{json}");
    }
}

#[test]
fn ids_are_kept_unless_they_are_taken_out() {
    let json = json!({
        "type": "list", "id": "l",
        "children": [{"type": "item", "id": "1:7"}, {"type": "item"}],
    });
    let spec = NodeSpec::from_json(&json.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&spec).unwrap(), json);
    let bare = json!({"type": "list", "children": [{"type": "item"}, {"type": "item"}]});
    assert_eq!(serde_json::to_value(spec.without_ids()).unwrap(), bare);
}
