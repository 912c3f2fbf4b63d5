//! Attributes of nodes and marks: types, required ones, defaults, allowed values, unknown ones.

use doclock::{
    DataStore, View,
    document::{Mark, NodeSpec},
    schema::{AttributeSpec, MarkType, NodeType, Schema, ValueType},
};
use serde_json::{Value, json};

use crate::common::{commit, id};
use crate::{refused, schema, store_with};

fn set(name: &'static str, value: Value) -> impl FnOnce(&mut doclock::Draft) {
    move |on| on.set_attrs(id("n"), [(name, value)]).unwrap()
}

/// A store with a node `n` whose attribute `x` is of this type.
fn typed(value_type: &str) -> DataStore {
    let schema = json!({"nodes": {"node": {"attributes": {"x": {"type": value_type}}}}});
    let store = store_with(serde_json::from_value(schema).unwrap());
    commit(&store, |on| {
        drop(on.create(NodeSpec::new("node").with_id("n")).unwrap())
    });
    store
}

#[test]
fn tree_06_a_typed_attribute_takes_values_of_its_type_only() {
    let values = [
        ("string", json!("s")),
        ("integer", json!(-3)),
        ("number", json!(1.5)),
        ("boolean", json!(false)),
        ("array", json!([1, null])),
        ("object", json!({"k": []})),
    ];
    for (expected, _) in &values {
        let store = typed(expected);
        for (found, value) in &values {
            let fits = expected == found || (*expected, *found) == ("number", "integer");
            if fits {
                commit(&store, set("x", value.clone()));
            } else {
                assert_eq!(
                    refused(&store, set("x", value.clone())),
                    format!(
                        "node n of type node: the attribute x has a value of type {found} instead of {expected}"
                    ),
                );
            }
        }
    }
    let store = typed("any");
    for (_, value) in values {
        commit(&store, set("x", value));
    }
    assert!(
        refused(&typed("integer"), set("x", json!(2.0))).contains("type number instead of integer")
    );
}

#[test]
fn tree_06_a_required_attribute_is_there_and_an_unknown_one_is_not() {
    let store = store_with(schema(
        r#"{"nodes": {
            "strict": {"attributes": {"x": {"required": true}}},
            "open": {"attributes": {"x": {"type": "string"}}, "unknownAttributes": true}
        }}"#,
    ));
    let node = |kind: &str| NodeSpec::new(kind).with_id("n");
    let missing = "node n of type strict: the attribute x is missing";
    assert_eq!(
        refused(&store, |on| drop(on.create(node("strict")).unwrap())),
        missing
    );
    commit(&store, |on| {
        on.create(node("strict")).unwrap();
        on.set_attrs(id("n"), [("x", json!(1))]).unwrap();
    });
    assert_eq!(refused(&store, set("x", Value::Null)), missing);
    assert_eq!(
        refused(&store, set("y", json!(1))),
        "node n of type strict: there is no attribute y",
    );
    commit(&store, |on| {
        on.set_type(id("n"), "open").unwrap();
        on.set_attrs(id("n"), [("y", json!(1)), ("x", Value::Null)])
            .unwrap();
    });
    assert_eq!(
        refused(&store, |on| on.set_type(id("n"), "strict").unwrap()),
        missing,
    );
    assert_eq!(
        refused(&store, set("x", json!(1))),
        "node n of type open: the attribute x has a value of type integer instead of string",
    );
}

#[test]
fn tree_06_an_attribute_may_have_the_values_that_are_listed() {
    let values = AttributeSpec::new(ValueType::Any).with_values([json!(1), json!("one")]);
    let schema = Schema::builder().node("node", NodeType::new().attribute("x", values));
    let store = store_with(schema.build().unwrap());
    commit(&store, |on| {
        drop(on.create(NodeSpec::new("node").with_id("n")).unwrap())
    });
    commit(&store, set("x", json!("one")));
    assert_eq!(
        refused(&store, set("x", json!(2))),
        "node n of type node: the attribute x has a value that is not allowed",
    );
}

#[test]
fn tree_06_impossible_attributes_are_a_schema_error() {
    let node = |spec| {
        Schema::builder()
            .node("node", NodeType::new().attribute("x", spec))
            .build()
    };
    let integer = || AttributeSpec::new(ValueType::Integer);
    let cases = [
        (
            integer().with_values([]),
            "attribute x of node allows no value, or a value that is not of type integer",
        ),
        (
            integer().with_values([json!(1), json!("1")]),
            "attribute x of node allows no value, or a value that is not of type integer",
        ),
        (
            AttributeSpec::new(ValueType::Any).with_values([Value::Null]),
            "attribute x of node allows no value, or a value that is not of type any",
        ),
        (
            integer().with_default(1.5),
            "the default of attribute x of node is not allowed: the attribute x has a value of type number instead of integer",
        ),
        (
            integer().with_default(3).with_values([json!(1)]),
            "the default of attribute x of node is not allowed: the attribute x has a value that is not allowed",
        ),
    ];
    for (spec, text) in cases {
        assert_eq!(node(spec).unwrap_err().to_string(), text);
    }
    let twice = MarkType::new()
        .attribute("x", integer())
        .attribute("x", integer());
    let error = Schema::builder().mark("link", twice).build().unwrap_err();
    assert_eq!(error.to_string(), "link has two attributes named x");
}

fn with_defaults() -> DataStore {
    store_with(schema(
        r#"{
            "nodes": {
                "heading": {"attributes": {"level": {"type": "integer", "required": true, "default": 1}, "x": {}}},
                "list": {"content": "heading*"}
            },
            "marks": {"link": {"attributes": {"target": {"type": "string", "default": "here"}, "x": {}}}}
        }"#,
    ))
}

#[test]
fn tree_06_defaults_are_filled_in_where_nodes_are_created() {
    let store = with_defaults();
    let heading = |id: &str| NodeSpec::new("heading").with_id(id);
    commit(&store, |on| {
        let given = heading("given").with_attributes([("level", json!(2)), ("x", json!(0))]);
        let list = NodeSpec::new("list")
            .with_id("list")
            .with_children([heading("below"), given]);
        on.create(list).unwrap();
        on.insert(heading("inserted"), id("list"), 0).unwrap();
        assert_eq!(
            on.node(id("below")).unwrap().attributes().get("level"),
            Some(&json!(1)),
            "at once"
        );
    });
    let snapshot = store.snapshot();
    let level = |of: &str| {
        snapshot
            .node(id(of))
            .unwrap()
            .attributes()
            .get("level")
            .cloned()
    };
    assert_eq!(level("below"), Some(json!(1)));
    assert_eq!(level("inserted"), Some(json!(1)));
    assert_eq!(level("given"), Some(json!(2)));
    // Later changes restore nothing by themselves.
    assert_eq!(
        refused(&store, |on| on
            .set_attrs(id("below"), [("level", Value::Null)])
            .unwrap()),
        "node below of type heading: the attribute level is missing",
    );
}

#[test]
fn tree_06_marks_have_attributes_and_defaults_likewise() {
    let store = with_defaults();
    let links = [
        Mark::new("link", 0..2),
        Mark::new("link", 2..4).with_attributes([("target", json!("here"))]),
    ];
    commit(&store, |on| {
        let heading = NodeSpec::new("heading").with_id("n").with_text("text");
        on.create(heading.clone().with_marks(links.clone()))
            .unwrap();
        on.create(heading.with_id("m")).unwrap();
        on.set_marks(id("m"), links).unwrap();
    });
    for node in ["n", "m"] {
        let snapshot = store.snapshot();
        let marks: Vec<_> = snapshot
            .node(id(node))
            .unwrap()
            .marks()
            .iter()
            .cloned()
            .collect();
        let whole = Mark::new("link", 0..4).with_attributes([("target", json!("here"))]);
        assert_eq!(marks, [whole], "with the default they are one");
    }
    assert_eq!(
        refused(&store, |on| {
            let mark = Mark::whole("link").with_attributes([("target", json!(1))]);
            on.set_marks(id("n"), [mark]).unwrap();
        }),
        "mark link of node n: the attribute target has a value of type integer instead of string",
    );
    assert_eq!(
        refused(&store, |on| {
            let mark = Mark::whole("link").with_attributes([("y", json!(1))]);
            on.set_marks(id("n"), [mark]).unwrap();
        }),
        "mark link of node n: there is no attribute y",
    );
}
