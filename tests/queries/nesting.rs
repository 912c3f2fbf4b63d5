//! One limit on the nesting of attribute values: an accepted value can be written and read back,
//! from any entry point.

use doclock::dsl::*;
use doclock::{
    DataStore, Draft, Editor, View,
    document::{
        AttributePatch, Attributes, Change, ChildPosition, EditError, Fragment, Mark, Node,
        NodeSpec, RightHalf, Selection, SplitPoint,
    },
    schema::{AttributeSpec, NodeType, Schema, ValueType},
    transaction::{Operation, TransactionResult, parse_operations},
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::common::{cases, id, store};

/// The documented limit.
const LIMIT: usize = 100;

/// Around every limit: 100, serde_json's 128, and far beyond both.
const LEVELS: [usize; 9] = [0, 1, 99, 100, 101, 102, 122, 129, 1000];

/// A value of this many nested arrays and objects, in turns.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, level| match level % 2 {
        0 => Value::Array(vec![inner]),
        _ => Value::Object([("k".to_owned(), inner)].into_iter().collect()),
    })
}

fn link(levels: usize) -> Mark {
    Mark::whole("link").with_attributes([("href", nested(levels))])
}

fn reads_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
    let json = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&json).unwrap(), value);
    let pretty = serde_json::to_vec_pretty(value).unwrap();
    assert_eq!(&serde_json::from_slice::<T>(&pretty).unwrap(), value);
}

/// Whether an edit was accepted. If it was, all its records are written and read back.
fn accepted(levels: usize, edit: impl FnOnce(&mut Draft) -> Result<(), String>) -> bool {
    let store = store();
    let events = store.subscribe();
    let mut transaction = store.begin("test").unwrap();
    transaction
        .create(NodeSpec::new("page").with_id("page").with_children([
            NodeSpec::new("text").with_id("t").with_text("text"),
            NodeSpec::new("text").with_id("u").with_text("more"),
        ]))
        .unwrap();
    transaction.commit().unwrap();

    let mut transaction = store.begin("test").unwrap();
    let done = edit(&mut transaction);
    transaction.commit().unwrap();
    while let Ok(event) = events.try_recv() {
        reads_back::<TransactionResult>(&event.commit);
        reads_back::<Vec<TransactionResult>>(&vec![TransactionResult::clone(&event.commit)]);
    }
    let snapshot = store.snapshot();
    let nodes: Vec<Node> = snapshot.nodes().cloned().collect();
    reads_back(&nodes);
    for top in nodes.iter().filter(|node| node.parent().is_none()) {
        let spec = snapshot.to_spec(top.id()).unwrap();
        assert_eq!(NodeSpec::from_json(&spec.to_json()).unwrap(), spec);
    }
    if let Err(error) = &done {
        let says = format!("is nested {levels} levels deep: the limit is {LIMIT}");
        assert!(error.contains(&says), "{error}");
    }
    done.is_ok()
}

/// Scripts accepted values of 124 levels and the Rust API any depth; from 122 levels on, the JSON
/// of the commit could not be parsed.
#[test]
fn a_value_is_accepted_up_to_the_bound_wherever_it_enters() {
    type Edit = fn(&mut Draft, usize) -> Result<(), String>;
    let edits: [(&str, Edit); 17] = [
        ("the attributes of a new node", |on, levels| {
            let spec = NodeSpec::new("a").with_attributes([("b", nested(levels))]);
            let page = NodeSpec::new("page").with_children([spec]);
            on.create(page).map(drop).map_err(|error| error.to_string())
        }),
        ("the marks of a new node", |on, levels| {
            let spec = NodeSpec::new("a").with_text("x").with_marks([link(levels)]);
            let page = id("page");
            on.insert(spec, &page, 0)
                .map(drop)
                .map_err(|error| error.to_string())
        }),
        ("attributes", |on, levels| {
            on.set_attrs(id("t"), [("b", nested(levels))])
                .map_err(|error| error.to_string())
        }),
        ("marks", |on, levels| {
            on.set_marks(id("t"), [link(levels)])
                .map_err(|error| error.to_string())
        }),
        ("a patch", |on, levels| {
            let patches = vec![AttributePatch {
                key: "b".into(),
                before: None,
                after: Some(nested(levels).into()),
            }];
            on.apply(Change::PatchAttrs {
                id: id("t"),
                patches,
            })
            .map_err(|error| error.to_string())
        }),
        ("the half of a split", |on, levels| {
            on.apply(Change::SplitNode {
                id: id("t"),
                at: SplitPoint {
                    text: 1,
                    children: 0,
                },
                right: Box::new(RightHalf {
                    id: id("right"),
                    kind: "text".into(),
                    attributes: Attributes::from([("b", nested(levels))]),
                }),
                place: ChildPosition {
                    parent: id("page"),
                    index: 1,
                },
            })
            .map_err(|error| error.to_string())
        }),
        ("setAttrs", |on, levels| {
            run(on, set_attrs([("b", nested(levels))]).on("t"))
        }),
        ("update", |on, levels| {
            run(on, update_node([("b", nested(levels))], None, None).on("t"))
        }),
        ("transformNode", |on, levels| {
            run(on, transform_node("p", [("b", nested(levels))]).on("t"))
        }),
        ("applyMark", |on, levels| {
            let attributes = [("b", nested(levels))];
            run(on, apply_mark_with("m", attributes, ..).on("t"))
        }),
        ("toggleMark", |on, levels| {
            let attributes = [("b", nested(levels))];
            run(on, toggle_mark_with("m", attributes, ..).on("t"))
        }),
        ("updateMark", |on, levels| {
            run(on, apply_mark("m", 0..2).on("t")).unwrap();
            run(on, update_mark("m", [("b", nested(levels))], ..).on("t"))
        }),
        ("setMarks", |on, levels| {
            run(on, set_marks([link(levels)]).on("t"))
        }),
        ("addChild in a control", |on, levels| {
            let spec = NodeSpec::new("a").with_attributes([("b", nested(levels))]);
            run(on, control("page", [add_child(spec, 0)]))
        }),
        ("wrapNode", |on, levels| {
            let spec = NodeSpec::new("a").with_attributes([("b", nested(levels))]);
            run(on, wrap_node(spec).on("t"))
        }),
        ("the marks of a pasted text", |on, levels| {
            let text = NodeSpec::new("text")
                .with_text("x")
                .with_marks([link(levels)]);
            run(on, paste_fragment(2, fragment([text])).on("t"))
        }),
        ("a pasted node", |on, levels| {
            let spec = NodeSpec::new("a").with_attributes([("b", nested(levels))]);
            run(on, paste_fragment(2, fragment([spec])).on("t"))
        }),
    ];
    for (what, edit) in edits {
        for levels in LEVELS {
            let taken = accepted(levels, |on| edit(on, levels));
            assert_eq!(taken, levels <= LIMIT, "{what}, {levels} levels");
        }
    }
}

fn fragment<const N: usize>(nodes: [NodeSpec; N]) -> Fragment {
    Fragment {
        nodes: nodes.into(),
        ..Fragment::default()
    }
}

/// Runs separately, so a failure is rolled back.
fn run(on: &mut Draft, operation: Operation) -> Result<(), String> {
    on.attempt(|on| on.run([operation]))
        .map_err(|error| error.to_string())
}

/// Scripts also leave through JSON: a parsed operation is written and parsed again.
#[test]
fn a_script_is_accepted_up_to_the_bound_and_reads_back() {
    let paths = [
        r#"{"type": "setAttrs", "payload": {"nodeId": "t", "attrs": {"b": %}}}"#,
        r#"{"type": "update", "payload": {"nodeId": "t", "attrs": {"b": %}}}"#,
        r#"{"type": "transformNode", "payload": {"nodeId": "t", "type": "p", "attrs": {"b": %}}}"#,
        r#"{"type": "applyMark", "payload": {"nodeId": "t", "mark": "m", "attributes": {"b": %}}}"#,
        r#"{"type": "toggleMark", "payload": {"nodeId": "t", "mark": "m", "attributes": {"b": %}}}"#,
        r#"{"type": "setMarks", "payload": {"nodeId": "t", "marks": [{"type": "m", "attributes": {"b": %}}]}}"#,
        r#"{"type": "create", "payload": {"node": {"type": "p", "attributes": {"b": %}}}}"#,
        r#"{"type": "control", "payload": {"nodeId": "t", "operations": [
            {"type": "setAttrs", "payload": {"attrs": {"b": %}}},
            {"type": "paste", "payload": {"offset": 0, "fragment": {"nodes": [
                {"type": "text", "text": "x", "marks": [{"type": "m", "attributes": {"b": %}}]}
            ]}}}
        ]}}"#,
    ];
    for path in paths {
        for levels in LEVELS {
            let script = format!("[[{}]]", path.replace('%', &nested(levels).to_string()));
            match parse_operations(&script) {
                Ok(operations) => {
                    assert!(levels <= LIMIT, "{path}, {levels} levels");
                    let json = serde_json::to_string(&operations).unwrap();
                    assert_eq!(parse_operations(&json).unwrap(), operations);
                    let read: Vec<Operation> = serde_json::from_str(&json).unwrap();
                    assert_eq!(read, operations);
                    assert!(accepted(levels, |on| {
                        on.run(operations).map_err(|error| error.to_string())
                    }));
                }
                Err(error) => {
                    assert!(levels > LIMIT, "{path}, {levels} levels: {error}");
                    let says = format!("nested deeper than {LIMIT} levels");
                    assert!(error.message.contains(&says), "{error}");
                    assert!(error.message.len() < 300, "{error}");
                }
            }
        }
    }
}

#[test]
fn every_type_with_values_is_read_up_to_the_bound() {
    fn reads<T: DeserializeOwned>(json: &str, levels: usize) {
        let json = json.replace('%', &nested(levels).to_string());
        match serde_json::from_str::<T>(&json) {
            Ok(_) => assert!(levels <= LIMIT, "{levels} levels: {json}"),
            Err(error) => {
                assert!(levels > LIMIT, "{levels} levels: {error}");
                let says = format!("nested deeper than {LIMIT} levels");
                // serde buffers a whole change before it knows its type, down to the limit of the
                // reader.
                let buffered = json.contains("patchAttrs") && levels > 118;
                let kept = buffered && error.to_string().contains("recursion limit");
                assert!(error.to_string().contains(&says) || kept, "{error}");
            }
        }
    }
    for levels in LEVELS {
        reads::<Attributes>(r#"{"b": %}"#, levels);
        reads::<Mark>(r#"{"type": "m", "attributes": {"b": %}}"#, levels);
        reads::<Node>(
            r#"{"id": "a", "type": "p", "attributes": {"b": %}}"#,
            levels,
        );
        reads::<NodeSpec>(r#"{"type": "p", "attributes": {"b": %}}"#, levels);
        reads::<Fragment>(
            r#"{"nodes": [{"type": "p", "attributes": {"b": %}}]}"#,
            levels,
        );
        for side in ["before", "after"] {
            reads::<AttributePatch>(&format!(r#"{{"key": "b", "{side}": %}}"#), levels);
            let patch = format!(
                r#"{{"type": "patchAttrs", "id": "a", "patches": [{{"key": "b", "{side}": %}}]}}"#
            );
            reads::<Change>(&patch, levels);
        }
        reads::<AttributeSpec>(r#"{"default": %}"#, levels);
        reads::<AttributeSpec>(r#"{"values": [%]}"#, levels);
    }
}

/// A default enters every node of its type without another check.
#[test]
fn a_schema_with_a_deeper_value_is_refused() {
    let schema = |spec: AttributeSpec| {
        let node = NodeType::new().attribute("b", spec);
        Schema::builder().node("a", node).build()
    };
    for levels in LEVELS {
        let any = || AttributeSpec::new(ValueType::Any);
        for spec in [
            any().with_default(nested(levels)),
            any().with_values([nested(levels)]),
        ] {
            match schema(spec) {
                Ok(schema) => {
                    assert!(levels <= LIMIT, "{levels} levels");
                    let json = serde_json::to_string(&schema).unwrap();
                    let read: Schema = serde_json::from_str(&json).unwrap();
                    assert_eq!(serde_json::to_string(&read).unwrap(), json);
                }
                Err(error) => {
                    assert!(levels > LIMIT, "{levels} levels: {error}");
                    assert_eq!(
                        error.to_string(),
                        format!(
                            "a value of attribute b of a is nested {levels} levels deep: the limit is {LIMIT}"
                        )
                    );
                }
            }
        }
    }
}

#[test]
fn the_error_names_attribute_mark_node_depth_and_bound() {
    let mut transaction = store().begin("test").unwrap();
    let text = NodeSpec::new("text").with_id("t").with_text("x");
    transaction.create(text).unwrap();
    let error = transaction.set_attrs(id("t"), [("b", nested(101))]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "attribute b of node t is nested 101 levels deep: the limit is 100"
    );
    let error = transaction.set_marks(id("t"), [link(3000)]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "attribute href of mark link of node t is nested 3000 levels deep: the limit is 100"
    );
    assert_eq!(Attributes::MAX_LEVELS, LIMIT);
}

/// Nodes nest in nested JSON as values do, so serde's form of both needs a common limit.
#[test]
fn serde_reads_nested_nodes_that_it_wrote_in_any_container() {
    for nodes in [1, 8, 9, 10, 20, 58, 59, 60, 61, 2000] {
        for levels in [0, 1, 50, 100] {
            for marked in [false, true] {
                let bottom = match marked {
                    true => NodeSpec::new("text")
                        .with_text("x")
                        .with_marks([link(levels)]),
                    false => NodeSpec::new("text").with_attributes([("b", nested(levels))]),
                };
                let spec = (1..nodes).fold(bottom, |inner, _| {
                    NodeSpec::new("box").with_children([inner])
                });
                assert_eq!(NodeSpec::from_json(&spec.to_json()).unwrap(), spec);
                let pasted = Fragment {
                    nodes: vec![spec.clone()],
                    ..Fragment::default()
                };
                let operations = [
                    create(spec.clone()),
                    control("a", [paste_fragment(0, pasted.clone())]),
                ];
                let Ok(json) = serde_json::to_string(&operations) else {
                    // 60 levels of nodes, or JSON of that depth, are always writable.
                    let depth = 2 * nodes - 1 + levels + 1 + 2 * usize::from(marked);
                    assert!(depth > 119, "{nodes} nodes, {levels} levels");
                    let error = serde_json::to_string(&spec).unwrap_err().to_string();
                    assert!(error.contains("the limit is 119"), "{error}");
                    continue;
                };
                assert_eq!(parse_operations(&json).unwrap(), operations);
                let read: Vec<Operation> = serde_json::from_str(&json).unwrap();
                assert_eq!(read, operations);
                reads_back(&spec);
                reads_back(&pasted);
            }
        }
    }
}

/// A clipboard accepts any fragment, so the fragment's own form has to reject what could not be
/// read.
#[test]
fn a_fragment_with_a_deeper_value_is_not_written() {
    for levels in LEVELS {
        let editor = Editor::new(store(), "ann");
        let text = NodeSpec::new("text").with_text("x");
        editor.set_clipboard(fragment([text.with_marks([link(levels)])]));
        let clipboard = editor.clipboard().unwrap();
        match levels <= LIMIT {
            true => reads_back(&clipboard),
            false => assert_eq!(
                serde_json::to_string(&clipboard).unwrap_err().to_string(),
                format!("a value is nested {levels} levels deep: the limit is {LIMIT}")
            ),
        }
    }
}

/// The old selection is not checked, but it is written all the same.
#[test]
fn a_selection_before_a_change_has_readable_ids() {
    let mut transaction = store().begin("test").unwrap();
    let select = |before: &str| Change::SetSelection {
        before: Some(Selection::caret(before, 3)),
        after: None,
    };
    reads_back(&select("gone"));
    transaction.apply(select("gone")).unwrap();
    assert_eq!(transaction.apply(select("")), Err(EditError::IdEmpty));
}

/// JSON that could be read but not written again is rejected as well.
#[test]
fn nested_nodes_that_can_be_read_can_be_written() {
    for nodes in [1, 8, 9, 10, 13, 14, 30, 50, 60, 63] {
        for levels in [0, 50, 100] {
            let value = nested(levels);
            let bottom = format!(r#"{{"type":"text","attributes":{{"b":{value}}}}}"#);
            let json = (1..nodes).fold(bottom, |inner, _| {
                format!(r#"{{"type":"box","children":[{inner}]}}"#)
            });
            if let Ok(spec) = serde_json::from_str::<NodeSpec>(&json) {
                reads_back(&spec);
            }
            let script = format!(r#"{{"type": "create", "payload": {{"node": {json}}}}}"#);
            if let Ok(operations) = parse_operations(&script) {
                let json = serde_json::to_string(&operations).unwrap();
                assert_eq!(parse_operations(&json).unwrap(), operations);
            }
        }
    }
}

/// A tree of thousands of levels with attributes of the greatest depth: its commits are flat.
#[test]
fn a_deep_tree_with_deep_values_is_written_and_read_back() {
    let leaf = NodeSpec::new("leaf").with_attributes([("b", nested(LIMIT))]);
    let tree = (1..2_500).fold(leaf, |inner, level| {
        let spec = NodeSpec::new("box").with_children([inner]);
        match level % 50 {
            0 => spec.with_attributes([("b", nested(LIMIT))]),
            _ => spec,
        }
    });
    assert_eq!(NodeSpec::from_json(&tree.to_json()).unwrap(), tree);
    assert!(accepted(LIMIT, |on| {
        let top = on.create(tree).map_err(|error| error.to_string())?;
        let copy = on.to_spec(&top).unwrap().without_ids();
        on.create(copy).map_err(|error| error.to_string())?;
        on.delete(&top).map_err(|error| error.to_string())
    }));
}

fn values() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        (0..130usize).prop_map(nested),
    ];
    plain.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn pairs() -> BoxedStrategy<Vec<(String, Value)>> {
    prop::collection::vec(("[a-c$é\"]{0,2}", values()), 0..3).boxed()
}

/// All kinds of operations that add values.
fn operations() -> impl Strategy<Value = Operation> {
    let spec = (pairs(), pairs()).prop_map(|(node, mark)| {
        let mark = Mark::whole("m").with_attributes(Attributes::from_iter(mark));
        let text = NodeSpec::new("text").with_text("xy").with_marks([mark]);
        NodeSpec::new("p")
            .with_attributes(Attributes::from_iter(node))
            .with_children([text])
    });
    let marks = pairs()
        .prop_map(|pairs| [Mark::new("m", 1..3).with_attributes(Attributes::from_iter(pairs))]);
    prop_oneof![
        spec.clone().prop_map(create),
        spec.clone().prop_map(|spec| add_child(spec, 0).on("page")),
        spec.clone().prop_map(|spec| wrap_node(spec).on("t")),
        spec.prop_map(|spec| control("t", [paste_fragment(1, fragment([spec])), select_node()])),
        pairs().prop_map(|pairs| set_attrs(pairs).on("t")),
        pairs().prop_map(|pairs| transform_node("text", pairs).on("u")),
        (pairs(), marks.clone()).prop_map(|(pairs, marks)| update_node(
            pairs,
            Some("a text".into()),
            Some(marks.into())
        )
        .on("u")),
        marks.prop_map(|marks| set_marks(marks).on("t")),
        pairs()
            .prop_map(|pairs| { apply_mark_with("m", Attributes::from_iter(pairs), ..).on("t") }),
        pairs().prop_map(|pairs| update_mark("m", pairs, ..).on("t")),
        Just(copy_range(..).on("t")),
        Just(select_range(1..).on("t")),
        Just(split_text_node(1).on("t")),
        Just(delete_node().on("u")),
    ]
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn everything_that_is_accepted_is_written_and_read_back(
        operations in prop::collection::vec(operations(), 1..8),
    ) {
        let store = DataStore::new();
        let events = store.subscribe();
        let editor = Editor::new(store.clone(), "ann");
        let begin = NodeSpec::new("page").with_id("page").with_children([
            NodeSpec::new("text").with_id("t").with_text("text").with_marks([Mark::whole("m")]),
            NodeSpec::new("text").with_id("u").with_text("more"),
        ]);
        transaction(&editor, [create(begin)]).commit().unwrap();
        for operation in operations {
            let done = transaction(&editor, [operation.clone()]).commit();
            // A value that a script cannot express is not accepted either.
            let json = serde_json::to_string(&operation);
            let read = json.map(|json| parse_operations(&json));
            match (read, &done) {
                (Ok(Ok(read)), _) => prop_assert_eq!(read, [operation]),
                (read, Ok(_)) => prop_assert!(false, "{:?}", read),
                _ => {}
            }
        }
        while editor.undo().commit().is_ok() {}
        while editor.redo().commit().is_ok() {}
        while let Ok(event) = events.try_recv() {
            reads_back::<TransactionResult>(&event.commit);
        }
        let snapshot = store.snapshot();
        for node in snapshot.nodes() {
            reads_back(node);
            let spec = snapshot.to_spec(node.id()).unwrap();
            prop_assert_eq!(&NodeSpec::from_json(&spec.to_json()).unwrap(), &spec);
            reads_back(&spec);
        }
        if let Some(selection) = editor.selection() {
            reads_back(&selection);
        }
        if let Some(clipboard) = editor.clipboard() {
            reads_back(&clipboard);
        }
    }
}
