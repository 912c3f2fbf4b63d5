//! Attributes, types, the root, the selection, preconditions and names.

use doclock::{
    AliasError, DataStore, Draft, Editor, View,
    document::{EditError, Mark, Position, Selection},
    dsl::*,
    transaction::{
        Operation, OperationError, TransactionError, TransactionResult, parse_operations,
    },
};
use serde_json::{Value, json};

use super::tree::{block, done, editor, idle, leaf, outline, refused};
use crate::common::{id, marks, text};

/// `page[t"Hello" u]`; `t` is partly bold and has two attributes.
fn hello() -> Editor {
    let t = text_node("text", "Hello").with_id("t");
    let t = t.with_marks([Mark::new("bold", 1..3)]);
    let t = t.with_attributes([("lang", json!("en")), ("size", json!(2))]);
    editor(block("page", [t, block("u", [])]))
}

fn attributes(editor: &Editor, of: &str) -> Vec<(String, Value)> {
    let snapshot = editor.store().snapshot();
    let attributes = snapshot.node(id(of)).unwrap().attributes().iter();
    attributes
        .map(|(key, value)| (key.to_string(), value.clone()))
        .collect()
}

fn no_attributes() -> [(&'static str, Value); 0] {
    []
}

// --- Attributes, text and type ---

#[test]
fn remove_attrs_removes_existing_attributes() {
    let editor = hello();
    done(&editor, remove_attrs(["size", "colour"]).on("t"));
    assert_eq!(attributes(&editor, "t"), [("lang".into(), json!("en"))]);
    idle(&editor, remove_attrs(["size", "colour"]).on("t"));
    done(&editor, remove_attrs(["lang", "lang"]).on("t"));
    assert_eq!(attributes(&editor, "t"), []);
    let why = refused(&editor, remove_attrs(["lang"]).on("missing"));
    assert_eq!(why.to_string(), "node missing does not exist");
}

#[test]
fn update_sets_the_given_fields_and_keeps_the_rest() {
    let editor = hello();
    let snapshot = || editor.store().snapshot();
    let bold = |start, end| vec![(start, end, "bold".to_owned())];

    let attrs = [
        ("lang", json!("fr")),
        ("size", Value::Null),
        ("new", json!([])),
    ];
    done(&editor, update_node(attrs, None, None).on("t"));
    let expected = [("lang".into(), json!("fr")), ("new".into(), json!([]))];
    assert_eq!(attributes(&editor, "t"), expected);
    assert_eq!(
        (text(&snapshot(), "t"), marks(&snapshot(), "t")),
        ("Hello".into(), bold(1, 3))
    );

    done(
        &editor,
        update_node(no_attributes(), None, vec![Mark::whole("bold")]).on("t"),
    );
    assert_eq!(
        (text(&snapshot(), "t"), marks(&snapshot(), "t")),
        ("Hello".into(), bold(0, 5))
    );

    let longer = vec![Mark::new("bold", 0..7)];
    done(
        &editor,
        update_node(no_attributes(), Some("Bonjour".into()), longer).on("t"),
    );
    assert_eq!(
        (text(&snapshot(), "t"), marks(&snapshot(), "t")),
        ("Bonjour".into(), bold(0, 7))
    );

    done(
        &editor,
        update_node(no_attributes(), Some("Hi".into()), None).on("t"),
    );
    assert_eq!(
        (text(&snapshot(), "t"), marks(&snapshot(), "t")),
        ("Hi".into(), vec![])
    );
    assert_eq!(attributes(&editor, "t"), expected);
}

#[test]
fn update_that_changes_nothing_makes_no_change() {
    let editor = hello();
    let (text, marks) = (Some("Hello".into()), vec![Mark::new("bold", 1..3)]);
    idle(
        &editor,
        update_node([("size", json!(2))], text, marks).on("t"),
    );
    idle(&editor, update_node(no_attributes(), None, None).on("t"));
}

#[test]
fn update_is_refused_as_a_whole() {
    let editor = hello();
    let far = update_node(
        [("size", json!(3))],
        Some("Hi".into()),
        vec![Mark::new("bold", 0..3)],
    );
    let why = refused(&editor, far.on("t")).to_string();
    assert_eq!(
        why,
        "mark bold over 0..3 is out of range: the text of node t has 2"
    );
    let why = refused(
        &editor,
        update_node(no_attributes(), None, None).on("missing"),
    );
    assert_eq!(why.to_string(), "node missing does not exist");
}

#[test]
fn a_caret_moves_to_the_end_of_a_replaced_text() {
    let editor = hello();
    editor.select(Selection::caret("t", 4)).unwrap();
    let result = done(
        &editor,
        update_node(no_attributes(), Some("Hi".into()), None).on("t"),
    );
    assert_eq!(result.selection_after, Some(Selection::caret("t", 2)));
}

#[test]
fn tree_05_transform_node_changes_the_type_and_attributes_along_with_it() {
    let editor = hello();
    let attrs = [("size", Value::Null), ("level", json!(1))];
    done(&editor, transform_node("heading", attrs).on("t"));
    let snapshot = editor.store().snapshot();
    let node = snapshot.node(id("t")).unwrap();
    assert_eq!((node.kind(), node.text()), ("heading", &"Hello".into()));
    let expected = [("lang".into(), json!("en")), ("level".into(), json!(1))];
    assert_eq!(attributes(&editor, "t"), expected);
    assert_eq!(outline(&snapshot, "page"), r#"page[t"Hello" u]"#);
    idle(
        &editor,
        transform_node("heading", [("level", json!(1))]).on("t"),
    );
    let why = refused(
        &editor,
        transform_node("heading", no_attributes()).on("missing"),
    );
    assert_eq!(why.to_string(), "node missing does not exist");
}

// --- The root ---

#[test]
fn set_root_makes_a_node_without_a_parent_the_root() {
    let editor = hello();
    let operations = (create(block("other", [])), set_root().on("other"));
    done(&editor, operations);
    assert_eq!(editor.store().snapshot().root(), Some(&id("other")));
    idle(&editor, set_root().on("other"));
    done(&editor, delete_node().on("page"));
    let why = |on: &str| refused(&editor, set_root().on(on)).to_string();
    assert_eq!(why("page"), "node page does not exist");
    done(&editor, add_child(leaf("x"), None).on("other"));
    let attached = "node x cannot be the root of the document: it is a child of other";
    assert_eq!(why("x"), attached);
}

// --- The selection ---

/// The selection after these operations, which started from another one.
fn selected(editor: &Editor, operations: impl Into<Vec<Operation>>) -> Option<Selection> {
    let mut transaction = editor.store().begin("ann").unwrap();
    transaction
        .run(set_selection(Selection::caret("t", 5)))
        .unwrap();
    transaction.run(operations.into()).unwrap();
    transaction.selection().cloned()
}

#[test]
fn a_selection_is_set_and_cleared_and_follows_later_operations() {
    let editor = hello();
    let range = Selection::new(Position::new("t", 4), Position::new("t", 1));
    let set = set_selection(range.clone());
    assert_eq!(selected(&editor, [set.clone()]), Some(range));
    assert_eq!(
        selected(&editor, [select_node().on("u")]),
        Some(Selection::node("u"))
    );
    assert_eq!(selected(&editor, [clear_selection()]), None);
    let moved = Selection::new(Position::new("t", 6), Position::new("t", 3));
    let typed = insert_text(0, "ab").on("t");
    assert_eq!(selected(&editor, [set, typed]), Some(moved));
    assert_eq!(
        selected(&editor, [select_node().on("u"), delete_node().on("u")]),
        None
    );
}

#[test]
fn a_selection_alone_makes_no_version() {
    let editor = hello();
    let version = editor.store().version();
    let operations = [
        set_selection(Selection::node("t")),
        select_node().on("u"),
        clear_selection(),
    ];
    let result = editor.execute(operations).unwrap();
    assert_eq!((result.version, result.changed), (version, false));
    assert_eq!(result.operations.len(), 3);
}

#[test]
fn missing_nodes_and_positions_cannot_be_selected() {
    let editor = hello();
    let why = |operation: Operation| refused(&editor, operation).to_string();
    assert_eq!(
        why(select_node().on("missing")),
        "node missing does not exist"
    );
    let missing = set_selection(Selection::node("missing"));
    assert_eq!(why(missing), "node missing does not exist");
    let far = set_selection(Selection::caret("t", 6));
    let expected = "characters 6..6 are out of range: the text of node t has 5";
    assert_eq!(why(far), expected);
}

// --- Preconditions and names ---

#[test]
fn overlay_11_if_unchanged_refuses_another_version_than_that_it_starts_from() {
    let editor = hello();
    let version = editor.store().version();
    let operations = [set_text("Bye").on("t"), if_unchanged(version)];
    done(&editor, operations);
    let why = refused(&editor, [set_text("Hi").on("t"), if_unchanged(version)]);
    let OperationError::VersionConflict { expected, found } = why else {
        panic!("{why}");
    };
    assert_eq!((expected, found), (version, version + 1));
    idle(&editor, if_unchanged(version + 1));
}

fn created_by(result: &TransactionResult, nth: usize) -> Vec<String> {
    let created = result.operations[nth].created.iter();
    created.map(|id| id.to_string()).collect()
}

#[test]
fn overlay_08_a_name_refers_to_the_first_node_that_an_operation_creates() {
    let editor = hello();
    let operations = [
        clone_node_with_children().on("page").named("copy"),
        set_attrs([("level", json!(1))]).on(alias("copy")),
        add_child(alias("copy"), 0).on("u"),
        control(alias("copy"), [add_child(leaf("x"), 0), move_block_up()]),
        split_text_node(2).on("t").named("right"),
        move_node(alias("copy"), None).on(alias("right")),
    ];
    let result = done(&editor, operations);
    let copy = &created_by(&result, 0)[0];
    assert_eq!(attributes(&editor, copy), [("level".into(), json!(1))]);
    let below = r#"<block>[x"x" <text>"Hello" <block> <text>"llo"]"#;
    let expected = format!(r#"page[t"He" u[{below}]]"#);
    assert_eq!(outline(&editor.store().snapshot(), "page"), expected);
}

#[test]
fn a_name_refers_to_one_created_node_until_the_transaction_ends() {
    let editor = hello();
    let why = |operations: Vec<Operation>| match refused(&editor, operations) {
        OperationError::Alias(error) => error,
        other => panic!("{other}"),
    };
    let new = || create(leaf("x"));
    let twice = vec![new().named("n"), create(leaf("y")).named("n")];
    assert!(matches!(why(twice), AliasError::Taken { alias } if alias == "n"));
    let nothing = vec![delete_node().on("u").named("n")];
    assert!(matches!(why(nothing), AliasError::NothingCreated { alias } if alias == "n"));
    let empty = [new(), control("u", []).named("n")];
    let index = match editor.execute(empty).unwrap_err() {
        TransactionError::Operation { index, .. } => index,
        other => panic!("{other}"),
    };
    assert_eq!(index, 1, "that of the control, which did nothing");
    done(&editor, new().named("n"));
    let unknown = AliasError::Unknown { alias: "n".into() };
    assert_eq!(why(vec![delete_node().on(alias("n"))]), unknown);
    assert_eq!(why(vec![add_child(alias("n"), None).on("u")]), unknown);
    assert_eq!(why(vec![reorder_children([alias("n")]).on("u")]), unknown);
}

#[test]
fn overlay_08_operations_in_a_control_can_name_created_nodes() {
    let operations = || {
        [
            control(
                "page",
                [
                    add_child(leaf("x"), 0).named("first"),
                    clone_node_with_children().named("second"),
                ],
            ),
            set_text("named").on(alias("first")),
            set_attrs([("level", json!(1))]).on(alias("second")),
            split_text_node(2).named("right").on("t"),
            set_text("right").on(alias("right")),
        ]
    };
    let script = json!([
        {"type": "control", "payload": {"nodeId": "page", "operations": [
            {"type": "addChild", "payload": {"child": {"type": "t", "id": "x", "text": "x"}, "index": 0}, "alias": "first"},
            {"type": "cloneNodeWithChildren", "payload": {}, "alias": "second"},
        ]}},
        {"type": "setText", "payload": {"nodeId": {"alias": "first"}, "text": "named"}},
        {"type": "setAttrs", "payload": {"nodeId": {"alias": "second"}, "attrs": {"level": 1}}},
        {"type": "splitTextNode", "payload": {"nodeId": "t", "offset": 2}, "alias": "right"},
        {"type": "setText", "payload": {"nodeId": {"alias": "right"}, "text": "right"}},
    ]);
    let written = serde_json::to_string(&operations()).unwrap();
    assert_eq!(parse_operations(&written).unwrap(), operations());
    for operations in [
        operations().to_vec(),
        parse_operations(&script.to_string()).unwrap(),
    ] {
        let editor = hello();
        let result = done(&editor, operations);
        assert_eq!(text(&editor.store().snapshot(), "x"), "named");
        let second = &created_by(&result, 1)[0];
        assert_eq!(attributes(&editor, second), [("level".into(), json!(1))]);
        let right = &created_by(&result, 4)[0];
        assert_eq!(text(&editor.store().snapshot(), right), "right");
    }

    let editor = hello();
    let taken = control(
        "page",
        [add_child(leaf("x"), 0).named("n"), copy_node().named("n")],
    );
    let TransactionError::Operation {
        index, name, cause, ..
    } = editor.execute(taken).unwrap_err()
    else {
        panic!("not an operation failed");
    };
    assert_eq!((index, name), (1, "copyNode"));
    assert!(
        matches!(cause, OperationError::Alias(AliasError::Taken { .. })),
        "{cause}"
    );
    let twice = control("page", [copy_node().named("n").named("m")]);
    assert!(serde_json::to_string(&twice).is_err());
    let twice = copy_node().named("n").on("page").named("m");
    assert!(serde_json::to_string(&twice).is_err());
}

// --- Code with an inverse ---

#[test]
fn op_with_inverse_runs_its_code_and_not_the_inverse() {
    let editor = Editor::new(DataStore::new(), "ann");
    let code = |transaction: &mut Draft| transaction.create(leaf("x")).map(drop);
    let inverse = |_: &mut Draft| -> Result<(), EditError> { panic!("not undone") };
    let operation = op_with_inverse(code, inverse);
    assert_eq!(
        (operation.name(), operation.clone()),
        ("op", operation.clone())
    );
    done(&editor, operation);
    assert_eq!(text(&editor.store().snapshot(), "x"), "x");
}

// --- The JSON form ---

#[test]
fn transaction_04_the_operations_on_a_node_itself_run_from_json() {
    let editor = hello();
    let script = r#"[
        {"type": "ifUnchanged", "payload": {"version": 1}},
        {"type": "removeAttrs", "payload": {"nodeId": "t", "keys": ["lang"]}},
        {"type": "update", "payload": {"nodeId": "t", "attrs": {"size": null}, "text": "Hi",
            "marks": [{"type": "bold"}]}},
        {"type": "update", "payload": {"nodeId": "t"}},
        {"type": "transformNode", "payload": {"nodeId": "t", "type": "heading", "attrs": {"level": 1}}},
        {"type": "create", "payload": {"node": {"type": "block", "id": "top"}}, "alias": "top"},
        {"type": "setRoot", "payload": {"nodeId": {"alias": "top"}}},
        {"type": "setSelection", "payload": {"selection": {"nodeId": "t"}}},
        {"type": "clearSelection"},
        {"type": "selectNode", "payload": {"nodeId": "u"}}
    ]"#;
    let operations = parse_operations(script).unwrap();
    assert_eq!(
        selected(&editor, operations.clone()),
        Some(Selection::node("u"))
    );
    done(&editor, operations);
    let snapshot = editor.store().snapshot();
    assert_eq!(snapshot.root(), Some(&id("top")));
    let node = snapshot.node(id("t")).unwrap();
    assert_eq!((node.kind(), node.text()), ("heading", &"Hi".into()));
    assert_eq!(marks(&snapshot, "t"), [(0, 2, "bold".into())]);
    assert_eq!(attributes(&editor, "t"), [("level".into(), json!(1))]);
}
