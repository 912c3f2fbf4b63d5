//! The promises of transactions and the DSL, by number, and what the lock promises them when code panics.

mod common;

use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::thread;
use std::time::Duration;

use common::{
    Action, Aim, Dice, PATIENCE, RefDoc, aimed, cases, children, commit, id, image, possible,
    spoil, steps, store, text,
};
use doclock::dsl::*;
use doclock::{
    AcquireOptions, DataStore, EditError, Editor, IntoOperations, JoinError, LockError, NodeSpec,
    Operation, OperationError, PanicPayload, Position, ScriptError, Selection, TransactionError,
    TransactionManager, View, check, parse_operations,
};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// A store with the text node `note` (`Hello`).
fn with_note() -> DataStore {
    let store = store();
    TransactionManager::new(store.clone())
        .execute([create(text_node("inline-text", "Hello").with_id("note"))])
        .unwrap();
    store
}

fn manager(store: &DataStore) -> TransactionManager {
    TransactionManager::new(store.clone())
}

/// Index, name and cause of the operation that failed.
fn failed(error: TransactionError) -> (usize, &'static str, OperationError) {
    match error {
        TransactionError::Operation {
            index, name, cause, ..
        } => (index, name, cause),
        other => panic!("{other}"),
    }
}

// --- 1: lists ---

#[test]
fn transaction_01_a_list_of_operations_commits_as_written() {
    let editor = Editor::new(store(), "ann");
    let result = transaction(&editor, [create(text_node("inline-text", "Hello World"))])
        .commit()
        .unwrap();
    assert_eq!(result.version, 1);
    let snapshot = editor.store().snapshot();
    let node = snapshot.node(&result.operations[0].created[0]).unwrap();
    assert_eq!(
        (node.kind(), node.text().to_string()),
        ("inline-text", "Hello World".to_owned())
    );
    assert_eq!(snapshot.len(), 1);
    assert!(!editor.store().is_locked());
}

#[test]
fn transaction_01_nothing_happens_before_the_commit() {
    let editor = Editor::new(store(), "ann");
    let pending = transaction(&editor, [create(text_node("inline-text", "x"))]);
    assert!(!editor.store().is_locked());
    assert_eq!(editor.store().version(), 0);
    drop(pending);
    assert!(editor.store().snapshot().is_empty());
}

#[test]
fn transaction_01_lists_nest_and_are_flattened() {
    let type_in = |text: &str| insert_text(0, text).on("note");
    let nested = (
        type_in("a"),
        [type_in("b"), type_in("c")],
        vec![vec![[type_in("d")], [type_in("e")]], vec![]],
        Some(type_in("f")),
        None::<Operation>,
        (Some([type_in("g")]), (type_in("h"),)),
    );
    let flat: Vec<Operation> = "abcdefgh"
        .chars()
        .map(|c| type_in(&c.to_string()))
        .collect();
    assert_eq!(nested.clone().into_operations(), flat);

    let editor = Editor::new(with_note(), "ann");
    let result = transaction(&editor, nested.clone()).commit().unwrap();
    assert_eq!((result.version, result.operations.len()), (2, 8));
    assert_eq!(text(&editor.store().snapshot(), "note"), "hgfedcbaHello");
    let error = transaction(&editor, (nested, delete().on("nowhere")))
        .commit()
        .unwrap_err();
    assert_eq!(
        failed(error).0,
        8,
        "the index is that in the flattened list"
    );
}

// --- 2: control ---

#[test]
fn transaction_02_control_gives_every_operation_its_node() {
    let store = with_note();
    let result = manager(&store)
        .execute([control(
            "note",
            [
                insert_text(5, " World"),
                set_attrs([("lang", json!("en"))]),
                add_child(text_node("comment", "!").with_id("comment"), None),
                replace_text(0, 1, "J"),
            ],
        )])
        .unwrap();
    let snapshot = store.snapshot();
    assert_eq!(text(&snapshot, "note"), "Jello World");
    let attributes = snapshot.node(&id("note")).unwrap().attributes();
    assert_eq!(attributes.get("lang"), Some(&json!("en")));
    assert_eq!(children(&snapshot, "note"), ["comment"]);
    let aimed: Vec<_> = result
        .operations
        .iter()
        .map(|executed| (executed.name.as_str(), executed.node_id.clone().unwrap()))
        .collect();
    let expected = ["insertText", "setAttrs", "addChild", "replaceText"];
    assert_eq!(aimed, expected.map(|name| (name, id("note"))));

    // Every operation that there is does the same in a `control` as by itself.
    let one_by_one = with_note();
    let operations = [
        insert_text(5, " World"),
        set_attrs([("lang", json!("en"))]),
        add_child(text_node("comment", "!").with_id("comment"), None),
        replace_text(0, 1, "J"),
    ];
    manager(&one_by_one)
        .execute(operations.map(|operation| operation.on("note")).to_vec())
        .unwrap();
    assert_eq!(one_by_one.snapshot(), snapshot);
}

#[test]
fn transaction_02_an_empty_control_succeeds_without_operations_and_without_a_version() {
    let store = with_note();
    let before = store.snapshot();
    let events = store.subscribe(1);
    for on in ["note", "nowhere"] {
        let result = manager(&store).execute([control(on, [])]).unwrap();
        assert_eq!((result.version, result.operations), (1, vec![]));
    }
    assert_eq!((store.version(), events.receiver().is_empty()), (1, true));
    assert_eq!(store.snapshot(), before);
    // Beside others it counts for nothing.
    let list = [
        control("nowhere", []),
        set_text("x").on("note"),
        delete().on("nowhere"),
    ];
    assert_eq!(failed(manager(&store).execute(list).unwrap_err()).0, 1);
}

#[test]
fn transaction_02_a_failing_operation_of_a_control_is_named_and_undoes_all() {
    let store = with_note();
    let before = image(&store.snapshot());
    let list = (
        set_text("lost").on("note"),
        control(
            "note",
            [
                insert_text(0, "x"),
                delete_text_range(3, 99),
                set_text("never"),
            ],
        ),
    );
    let error = manager(&store).execute(list).unwrap_err();
    let text = "operation 2 (deleteTextRange on node note): \
                characters 3..99 are out of range: the text of node note has 5";
    assert_eq!(error.to_string(), text);
    assert_eq!(image(&store.snapshot()), before);
}

// --- 3: errors ---

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("no more than {0}")]
struct Limit(u32);

#[test]
fn transaction_03_every_failure_has_index_and_cause_and_changes_nothing() {
    let store = with_note();
    let before = store.snapshot();
    let before_image = image(&before);
    let events = store.subscribe(4);
    let fail = |last: Operation| {
        let list = (
            set_text("lost").on("note"),
            create(text_node("p", "lost")),
            last,
            delete().on("note"),
        );
        let failure = failed(manager(&store).execute(list).unwrap_err());
        assert_eq!(failure.0, 2);
        assert_eq!(image(&store.snapshot()), before_image);
        assert_eq!(store.version(), before.version());
        assert!(events.receiver().is_empty() && !store.is_locked());
        failure
    };
    let (_, name, cause) = fail(set_text("x").on("nowhere"));
    let missing = EditError::NodeNotFound { id: id("nowhere") };
    assert_eq!(name, "setText");
    assert!(matches!(cause, OperationError::Edit(cause) if cause == missing));

    let (_, name, cause) = fail(op(|transaction| {
        transaction.set_text(&id("note"), "lost, too").unwrap();
        Err(Limit(3))
    }));
    assert_eq!(
        (name, cause.to_string()),
        ("op", "no more than 3".to_owned())
    );
    let OperationError::Failed(cause) = cause else {
        panic!("{cause:?}")
    };
    assert_eq!(
        cause.downcast_ref(),
        Some(&Limit(3)),
        "the closure's own error"
    );

    let (_, name, cause) = fail(op::<Limit>(|transaction| {
        transaction.delete(&id("note")).unwrap();
        panic!("gone {}", "wrong")
    }));
    assert_eq!(
        (name, cause.to_string()),
        ("op", "panicked: gone wrong".to_owned())
    );
    assert!(matches!(cause, OperationError::Panicked(_)));

    // An error that code of the user's has seen and dealt with is none.
    manager(&store)
        .execute([op(|transaction| {
            transaction.delete(&id("nowhere")).unwrap_err();
            transaction.set_text(&id("note"), "kept")
        })])
        .unwrap();
    assert_eq!(text(&store.snapshot(), "note"), "kept");
}

#[test]
fn transaction_03_an_error_prints_operation_node_and_cause() {
    let store = with_note();
    let source = |error: &TransactionError| std::error::Error::source(error).unwrap().to_string();
    let error = manager(&store)
        .execute([move_node("nowhere", 0).on("note")])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "operation 0 (moveNode on node note): node nowhere does not exist"
    );
    assert_eq!(source(&error), "node nowhere does not exist");
    let error = manager(&store)
        .execute([op(|_| Err(Limit(1)))])
        .unwrap_err();
    assert_eq!(error.to_string(), "operation 0 (op): no more than 1");
    assert_eq!(source(&error), "no more than 1");
}

#[test]
fn transaction_03_an_unknown_operation_is_an_error_with_its_index() {
    let script = r#"[{"type": "delete", "payload": {"nodeId": "note"}}, {"type": "explode", "payload": {"nodeId": "note"}}]"#;
    let error = parse_operations(script).unwrap_err();
    assert_eq!(error.index, Some(1));
    assert!(error.message.contains("explode"), "{error}");
    assert!(error.to_string().starts_with("operation 1: "), "{error}");
}

/// What becomes of a list: the document, or the index of the operation that fails.
fn outcome(actions: &[Action], on: &RefDoc) -> Result<RefDoc, usize> {
    let mut after = on.clone();
    let mut index: usize = 0;
    for action in actions {
        let steps = match action {
            Action::Control(_, actions) => actions.as_slice(),
            action => std::slice::from_ref(action),
        };
        for step in steps {
            after.apply(step).map_err(|_| index)?;
            index += 1;
        }
    }
    Ok(after)
}

/// The list with a comparison after each operation, in the transaction itself.
fn compared(actions: &[Action], on: &RefDoc) -> Vec<Operation> {
    let mut on = on.clone();
    let mut list = Vec::new();
    for action in actions {
        list.push(action.operation());
        if on.apply(action).is_err() {
            // The list ends here; this must not be reached.
            list.push(op::<String>(|_| Err("went on after an error".to_owned())));
            break;
        }
        let expected = on.clone();
        if !expected.has_unknown() {
            list.push(op(move |transaction| expected.compare(transaction)));
        }
    }
    list
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn transaction_03_random_lists_agree_with_a_plain_reference_after_every_operation(
        transactions in prop::collection::vec(
            (steps(1..24), prop::sample::select(vec![Aim::Named, Aim::Unnamed, Aim::Wild])),
            1..6,
        ),
    ) {
        let store = store();
        let mut model = RefDoc::default();
        for (steps, aim) in transactions {
            let actions = aimed(&steps, &model, aim);
            let list = compared(&actions, &model);
            let names: Vec<&str> = list.iter().map(Operation::name).collect();
            let before = store.snapshot();
            match (outcome(&actions, &model), manager(&store).execute(list.clone())) {
                (Ok(mut after), Ok(result)) => {
                    let executed = result.operations.iter();
                    let created: Vec<String> = executed
                        .flat_map(|executed| executed.created.iter().map(ToString::to_string))
                        .collect();
                    prop_assert_eq!(after.learn(&created), Ok(()));
                    model = after;
                    let changed = store.snapshot() != before;
                    prop_assert!(!changed || result.version == before.version() + 1);
                    prop_assert_eq!(result.version, store.version());
                }
                (Err(_), Err(error)) => {
                    let (index, _, cause) = failed(error);
                    // What was put in between does not fail, so what failed is the last but one.
                    let counted = |operation: &Operation| match operation {
                        Operation::Control { operations, .. } => operations.len(),
                        _ => 1,
                    };
                    let end: usize = list.iter().map(counted).sum();
                    let last: usize = list[list.len() - 2..].iter().map(counted).sum();
                    prop_assert!((end - last..end - 1).contains(&index), "{} {}", index, cause);
                    prop_assert!(!matches!(cause, OperationError::Panicked(_)));
                    prop_assert_eq!(image(&store.snapshot()), image(&before));
                    prop_assert_eq!(store.version(), before.version());
                }
                (expected, found) => {
                    let expected = expected.map(drop);
                    prop_assert!(false, "{:?}, not {:?}: {:?}", found, expected, names);
                }
            }
            prop_assert_eq!(model.compare(&store.snapshot()), Ok(()));
        }
    }

    #[test]
    fn transaction_03_the_index_is_that_of_the_first_operation_that_fails(
        document in steps(0..20),
        steps in steps(1..30),
    ) {
        let store = store();
        let mut model = RefDoc::default();
        for action in possible(&document, &model) {
            commit(&store, |transaction| action.perform(transaction).unwrap());
            model.apply(&action).unwrap();
        }
        let actions = aimed(&steps, &model, Aim::Wild);
        let list: Vec<Operation> = actions.iter().map(Action::operation).collect();
        match (outcome(&actions, &model), manager(&store).execute(list)) {
            (Ok(_), Ok(_)) => {}
            (Err(expected), Err(error)) => prop_assert_eq!(failed(error).0, expected),
            (expected, found) => {
                prop_assert!(false, "{:?}, not {:?}", found, expected.map(drop));
            }
        }
    }
}

// --- 4: scripts ---

#[test]
fn transaction_04_a_script_in_json_runs() {
    let script = r#"
    [
        {"type": "create", "payload": {"node": {"type": "list", "id": "list", "children": [
            {"type": "item", "id": "one", "text": "one", "marks": [{"type": "bold", "range": [0, 2]}]},
            {"type": "item", "id": "two", "text": "two", "attributes": {"level": 2, "gone": null}}
        ]}}},
        [
            [{"type": "addChild", "payload": {"nodeId": "list", "child": {"type": "item", "id": "three"}, "index": 0}}],
            {"type": "create", "payload": {"node": {"type": "item", "id": "four"}}}
        ],
        {"type": "addChild", "payload": {"nodeId": "list", "child": "four"}},
        {"type": "removeChild", "payload": {"nodeId": "list", "childId": "two"}},
        {"type": "moveNode", "payload": {"nodeId": "two", "parentId": "three"}},
        {"type": "insertText", "payload": {"nodeId": "one", "offset": 3, "text": " 漢"}},
        {"type": "deleteTextRange", "payload": {"nodeId": "one", "start": 0, "end": 1}},
        {"type": "replaceText", "payload": {"nodeId": "one", "start": 3, "end": 4, "text": "!"}},
        {"type": "control", "payload": {"nodeId": "two", "operations": [
            {"type": "setText", "payload": {"text": "2"}},
            {"type": "setAttrs", "payload": {"attrs": {"level": null, "lang": "en"}}}
        ]}},
        {"type": "delete", "payload": {"nodeId": "four"}}
    ]"#;
    let operations = parse_operations(script).unwrap();
    assert_eq!(operations.len(), 11);
    let store = store();
    manager(&store).execute(operations).unwrap();
    let snapshot = store.snapshot();
    assert_eq!(children(&snapshot, "list"), ["three", "one"]);
    assert_eq!(children(&snapshot, "three"), ["two"]);
    assert_eq!(
        (text(&snapshot, "one"), text(&snapshot, "two")),
        ("ne !".into(), "2".into())
    );
    assert_eq!(common::marks(&snapshot, "one"), [(0, 1, "bold".to_owned())]);
    let attributes = serde_json::to_value(snapshot.node(&id("two")).unwrap().attributes()).unwrap();
    assert_eq!(attributes, json!({"lang": "en"}));
    assert_eq!((snapshot.len(), check(&snapshot)), (4, Ok(())));

    let one = r#" {"type": "delete", "payload": {"nodeId": "list"}} "#;
    assert_eq!(parse_operations(one).unwrap(), [delete().on("list")]);
    assert_eq!(parse_operations(" [ [], [[]] ] ").unwrap(), []);
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn transaction_04_operations_read_back_from_json_do_the_same(steps in steps(1..40)) {
        let data = |action: &Action| {
            !matches!(action, Action::SetMarks(..) | Action::SetRoot(_) | Action::Call(_))
        };
        let mut actions = possible(&steps, &RefDoc::default());
        actions.retain(data);
        let list: Vec<Operation> = actions.iter().map(Action::operation).collect();
        let script = serde_json::to_string_pretty(&list).unwrap();
        let read = parse_operations(&script).unwrap();
        prop_assert_eq!(&read, &list);
        let (one, other) = (store(), store());
        let outcomes = (manager(&one).execute(list), manager(&other).execute(read));
        let outcomes = (format!("{:?}", outcomes.0), format!("{:?}", outcomes.1));
        prop_assert_eq!(outcomes.0, outcomes.1);
        prop_assert_eq!(image(&one.snapshot()), image(&other.snapshot()));
    }

    #[test]
    fn transaction_04_a_number_reads_back_as_it_was_written(number in any::<f64>()) {
        let operation = set_attrs([("number", json!(number))]).on("note");
        let script = serde_json::to_string(&operation).unwrap();
        prop_assert_eq!(parse_operations(&script).unwrap(), [operation]);
    }
}

#[test]
fn transaction_04_code_is_not_data() {
    let error = serde_json::to_string(&op::<String>(|_| Ok(()))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "an operation that runs code cannot be serialized"
    );
    assert!(parse_operations(r#"{"type": "op", "payload": {"nodeId": "a"}}"#).is_err());
}

/// Index, line and column of an error.
fn place(error: &ScriptError) -> (Option<usize>, usize, usize) {
    (error.index, error.line, error.column)
}

#[test]
fn transaction_04_bad_json_is_an_error_with_its_place() {
    let bad = |script: &str, at: (Option<usize>, usize, usize), says: &str| {
        let error = parse_operations(script).unwrap_err();
        assert!(error.message.contains(says), "{script}: {error}");
        assert_eq!(place(&error), at, "{script}: {error}");
        let (_, line, column) = at;
        assert!(
            error
                .to_string()
                .ends_with(&format!(" at line {line} column {column}")),
            "{error}"
        );
    };
    // What is no JSON at all has no index.
    bad("[", (None, 1, 1), "EOF");
    bad("nonsense", (None, 1, 2), "expected ident");
    bad("[{}\n {}]", (None, 2, 2), "expected `,` or `]`");
    bad("[] []", (None, 1, 4), "trailing characters");
    // The rest is told by operation, and by line and column of the whole text.
    let valid = r#"{"type": "delete", "payload": {"nodeId": "a"}}"#;
    bad("7", (Some(0), 1, 1), "invalid type");
    bad("null", (Some(0), 1, 4), "invalid type");
    bad(r#""delete""#, (Some(0), 1, 8), "invalid type");
    bad("{}", (Some(0), 1, 2), "missing field `type`");
    bad(
        &format!("[{valid},\n  [{valid}, 7]\n]"),
        (Some(2), 2, 52),
        "invalid type",
    );
    bad(
        &format!("[{valid},\n\n{{\n\"typ\": 1}}]"),
        (Some(1), 4, 5),
        "unknown field `typ`",
    );
    let payloads = [
        (
            r#"{"type": "delete", "payload": {}}"#,
            "missing field `nodeId`",
        ),
        (r#"{"type": "delete"}"#, "missing field `nodeId`"),
        (
            r#"{"type": "delete", "payload": {"nodeId": ""}}"#,
            "it is empty",
        ),
        (
            r#"{"type": "delete", "payload": {"nodeId": 1}}"#,
            "delete: invalid type: integer `1`",
        ),
        (
            r#"{"type": "delete", "payload": {"nodeId": "a", "x": 1}}"#,
            "delete: unknown field `x`",
        ),
        (
            r#"{"type": "create", "payload": {}}"#,
            "create: missing field `node`",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"id": "a"}}}"#,
            "missing field `type`",
        ),
        (
            r#"{"type": "create", "payload": {"node": {"type": "p", "id": ""}}}"#,
            "it is empty",
        ),
        (
            r#"{"type": "addChild", "payload": {"nodeId": "a"}}"#,
            "addChild: missing field `child`",
        ),
        (
            r#"{"type": "addChild", "payload": {"nodeId": "a", "child": 1}}"#,
            "addChild: invalid type",
        ),
        (
            r#"{"type": "setText", "payload": {"nodeId": "a"}}"#,
            "setText: missing field `text`",
        ),
        (
            r#"{"type": "setText", "payload": {"nodeId": "a", "text": null}}"#,
            "setText: invalid type: null",
        ),
        (
            r#"{"type": "insertText", "payload": {"nodeId": "a", "offset": -1, "text": ""}}"#,
            "insertText: invalid value: integer `-1`",
        ),
        (
            r#"{"type": "insertText", "payload": {"nodeId": "a", "offset": 1.5, "text": ""}}"#,
            "insertText: invalid type: floating point `1.5`",
        ),
        (
            r#"{"type": "insertText", "payload": {"nodeId": "a", "offset": 18446744073709551616, "text": ""}}"#,
            "insertText: invalid type: floating point",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "a", "operations": [{"type": "delete", "payload": {}}, {"type": "create", "payload": {}}]}}"#,
            "control: unknown variant `create`",
        ),
        (
            r#"{"type": "insertTxt", "payload": {"nodeId": "a"}}"#,
            "insertTxt: unknown variant `insertTxt`",
        ),
    ];
    for (script, says) in payloads {
        bad(script, (Some(0), 1, 1), says);
        bad(
            &format!("[{valid},\n [[], {script}]]"),
            (Some(1), 2, 7),
            says,
        );
    }
}

#[test]
fn transaction_04_columns_count_characters_from_one() {
    // The same mistake behind one character of one byte, and behind one of more.
    let same = |with: fn(&str) -> String| {
        let [plain, wide] =
            ["x", "漢"].map(|character| parse_operations(&with(character)).unwrap_err());
        assert_eq!(place(&wide), place(&plain), "{wide}");
    };
    same(|c| format!(r#"["{c}" 1]"#));
    same(|c| format!(r#"{{"type": "{c}", "typ": 1}}"#));
    same(|c| {
        format!(r#"[{{"type": "create", "payload": {{"node": {{"type": "{c}"}}}}}}, {{"typ": 1}}]"#)
    });
    for (script, line) in [("", 1), ("\n", 2), ("[\n", 2)] {
        let error = parse_operations(script).unwrap_err();
        assert_eq!(place(&error), (None, line, 1), "{script:?}: {error}");
    }
}

#[test]
fn transaction_04_nesting_is_bounded_and_never_overflows_the_stack() {
    let deep = |levels: usize, open: &str, close: &str| open.repeat(levels) + &close.repeat(levels);
    let error = parse_operations(&deep(100_000, "[", "]")).unwrap_err();
    assert!(error.message.contains("nested deeper"), "{error}");
    assert_eq!(parse_operations(&deep(60, "[", "]")).unwrap(), []);
    let unclosed = parse_operations(&"[".repeat(100_000)).unwrap_err();
    assert_eq!(unclosed.index, None);
    let node = deep(50_000, r#"{"type":"p","children":["#, "]}");
    let script = format!(r#"{{"type": "create", "payload": {{"node": {node}}}}}"#);
    let error = parse_operations(&script).unwrap_err();
    assert_eq!(error.index, Some(0));

    // What can be written can be read back.
    for levels in [1, 2, 59, 60, 61, 200] {
        let leaf = NodeSpec::new("p");
        let spec = (1..levels).fold(leaf, |below, _| element("p", [below]));
        for operation in [
            create(spec.clone()),
            control("a", [add_child(spec.clone(), 0)]),
        ] {
            match serde_json::to_string(&[[operation.clone()]]) {
                Ok(script) => assert_eq!(parse_operations(&script).unwrap(), [operation]),
                Err(error) => assert!(levels > 60, "{levels}: {error}"),
            }
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = [
        "type",
        "payload",
        "nodeId",
        "create",
        "delete",
        "control",
        "operations",
        "node",
        "a",
    ];
    let word = prop::sample::select(words.to_vec());
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..5).prop_map(|fields| {
                let fields = fields
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value));
                Value::Object(fields.collect())
            }),
        ]
    })
}

/// Reads and runs a script, whatever it is.
fn survives(script: &str) -> Result<(), TestCaseError> {
    match parse_operations(script) {
        Ok(operations) => {
            let store = with_note();
            let before = image(&store.snapshot());
            if manager(&store).execute(operations).is_err() {
                prop_assert_eq!(image(&store.snapshot()), before);
                prop_assert_eq!(store.version(), 1);
            }
            prop_assert_eq!(check(&store.snapshot()), Ok(()));
            prop_assert!(!store.is_locked());
        }
        Err(error) => {
            let is_json = serde_json::from_str::<IgnoredAny>(script).is_ok();
            prop_assert_eq!(error.index.is_some(), is_json, "{}", error);
            let line = script.split('\n').nth(error.line.wrapping_sub(1));
            prop_assert!(line.is_some(), "{}: no such line in {:?}", error, script);
            let columns = 1..=line.map_or(0, |line| line.chars().count()) + 1;
            prop_assert!(
                columns.contains(&error.column),
                "{}: no such column in {:?}",
                error,
                script
            );
            prop_assert!(!error.message.is_empty());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn transaction_04_no_json_makes_it_panic(value in any_json(), pretty in any::<bool>()) {
        let script = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        survives(&script.unwrap())?;
    }

    #[test]
    fn transaction_04_no_spoilt_script_makes_it_panic(steps in steps(1..8), seed in any::<u64>(), cut in any::<u16>()) {
        let mut actions = possible(&steps, &RefDoc::default());
        actions.retain(|action| serde_json::to_value(action.operation()).is_ok());
        let list: Vec<Operation> = actions.iter().map(Action::operation).collect();
        let mut value = serde_json::to_value(&list).unwrap();
        let mut dice = Dice(seed);
        for _ in 0..3 {
            spoil(&mut value, &mut dice);
            survives(&value.to_string())?;
            survives(&serde_json::to_string_pretty(&value).unwrap())?;
        }
        // Nor does one that was cut off, or from whose midst a character is gone.
        let script: Vec<char> = serde_json::to_string_pretty(&value).unwrap().chars().collect();
        let cut = usize::from(cut) % script.len();
        let head: String = script[..cut].iter().collect();
        survives(&head)?;
        let tail: String = script[cut + 1..].iter().collect();
        survives(&(head + &tail))?;
    }

    #[test]
    fn transaction_04_no_text_makes_it_panic(script in "[\\[\\]{}\",:a0\\\\ \n漢]{0,12}") {
        survives(&script)?;
    }
}

// --- 6: results ---

#[test]
fn transaction_06_the_result_has_id_version_operations_and_created_ids() {
    let editor = Editor::new(store(), "ann");
    let events = editor.store().subscribe(4);
    let list = element(
        "list",
        [
            text_node("item", "one").with_id("one"),
            text_node("item", "two"),
        ],
    );
    let result = transaction(
        &editor,
        [
            create(list.with_id("list")),
            control(
                "list",
                [
                    set_attrs([("n", json!(1))]),
                    add_child(text_node("item", "three"), 0),
                ],
            ),
            op(|transaction| {
                transaction.create(NodeSpec::new("by code").with_id("x"))?;
                transaction
                    .create(NodeSpec::new("by code").with_id("y"))
                    .map(drop)
            }),
            delete().on("y"),
        ],
    )
    .commit()
    .unwrap();
    let event = events.receiver().try_recv().unwrap();
    assert_eq!(result.transaction_id, event.commit.transaction_id);
    assert_eq!((result.version, event.commit.version), (1, 1));
    assert_eq!(result.operations, event.commit.operations);
    let executed: Vec<_> = result
        .operations
        .iter()
        .map(|executed| {
            let aim = executed.node_id.as_ref().map(ToString::to_string);
            (executed.name.as_str(), aim, executed.created.len())
        })
        .collect();
    let list = || Some("list".to_owned());
    let expected = [
        ("create", None, 3),
        ("setAttrs", list(), 0),
        ("addChild", list(), 1),
        ("op", None, 2),
        ("delete", Some("y".to_owned()), 0),
    ];
    assert_eq!(executed, expected);
    let snapshot = editor.store().snapshot();
    let [list, one, two] = &result.operations[0].created[..] else {
        panic!()
    };
    assert_eq!((list, one), (&id("list"), &id("one")), "in document order");
    assert_eq!(snapshot.node(two).unwrap().text(), &"two");
    let [three] = &result.operations[2].created[..] else {
        panic!()
    };
    assert_eq!(snapshot.node(three).unwrap().text(), &"three");
    assert_eq!(result.operations[3].created, [id("x"), id("y")]);
    assert_eq!(
        (result.selection_before, result.selection_after),
        (None, None)
    );
}

#[test]
fn transaction_06_every_transaction_has_an_id_of_its_own() {
    let store = with_note();
    let mut ids = HashSet::new();
    for turn in 0..10 {
        let result = match turn % 3 {
            0 => manager(&store)
                .execute([insert_text(0, "x").on("note")])
                .unwrap(),
            1 => manager(&store).execute([control("note", [])]).unwrap(),
            _ => {
                manager(&store)
                    .execute([delete().on("nowhere")])
                    .unwrap_err();
                manager(&store)
                    .execute([set_text("same").on("note")])
                    .unwrap()
            }
        };
        assert!(
            ids.insert(result.transaction_id),
            "{} came twice",
            result.transaction_id
        );
        assert_eq!(
            result.transaction_id.to_string().parse(),
            Ok(result.transaction_id)
        );
    }
}

#[test]
fn transaction_06_the_result_has_the_selection_before_and_after() {
    let editor = Editor::new(with_note(), "ann");
    let run = |list: Vec<Operation>| {
        let result = transaction(&editor, list).commit().unwrap();
        assert_eq!(editor.selection(), result.selection_after);
        (result.selection_before, result.selection_after)
    };
    let caret = |at| Some(Selection::caret("note", at));
    let range = |anchor, focus| {
        Some(Selection::new(
            Position::new("note", anchor),
            Position::new("note", focus),
        ))
    };
    let type_at = |at, text: &str| vec![insert_text(at, text).on("note")];
    assert_eq!(run(type_at(0, "a")), (None, None), "nothing is selected");
    editor.select(caret(3));
    assert_eq!(
        run(type_at(0, "bc")),
        (caret(3), caret(5)),
        "before it: moves along"
    );
    assert_eq!(
        run(type_at(5, "d")),
        (caret(5), caret(6)),
        "at it: typed past"
    );
    assert_eq!(
        run(type_at(7, "e")),
        (caret(6), caret(6)),
        "behind it: stays"
    );
    assert_eq!(
        run(vec![control("note", [])]),
        (caret(6), caret(6)),
        "nothing done"
    );
    assert_eq!(
        run(vec![set_attrs([("n", json!(1))]).on("note")]),
        (caret(6), caret(6))
    );
    assert_eq!(text(&editor.store().snapshot(), "note"), "bcaHedlelo");

    editor.select(range(8, 3));
    let deleted = vec![delete_text_range(0, 2).on("note")];
    assert_eq!(
        run(deleted),
        (range(8, 3), range(6, 1)),
        "focus before anchor"
    );
    let deleted = vec![delete_text_range(0, 4).on("note")];
    assert_eq!(
        run(deleted),
        (range(6, 1), range(2, 0)),
        "the midst of it is gone"
    );
    let error = transaction(
        &editor,
        (set_text("lost").on("note"), delete().on("nowhere")),
    )
    .commit();
    error.unwrap_err();
    assert_eq!(
        editor.selection(),
        range(2, 0),
        "a transaction that failed moves nothing"
    );
    let both = vec![
        insert_text(0, "x").on("note"),
        insert_text(0, "y").on("note"),
    ];
    assert_eq!(
        run(both),
        (range(2, 0), range(4, 2)),
        "by all of its operations"
    );
    assert_eq!(
        run(vec![delete().on("note")]),
        (range(4, 2), None),
        "gone with the node"
    );
    assert_eq!(editor.selection(), None);
}

#[test]
fn transaction_06_a_result_is_data() {
    let editor = Editor::new(store(), "ann");
    editor.select(Selection::caret("x", 1));
    let result = transaction(&editor, [create(NodeSpec::new("p").with_id("a"))])
        .commit()
        .unwrap();
    let caret = json!({"nodeId": "x", "offset": 1});
    let expected = json!({
        "transactionId": "tx-7-1",
        "version": 1,
        "changed": true,
        "operations": [{"type": "create", "created": ["a"]}],
        "selectionBefore": {"anchor": caret, "focus": caret},
        "selectionAfter": {"anchor": caret, "focus": caret},
    });
    assert_eq!(serde_json::to_value(&result).unwrap(), expected);
}

#[test]
fn transaction_06_under_a_lock_held_by_id_the_result_is_the_same_and_the_lock_stays() {
    let store = with_note();
    let lock = store.acquire_lock("front end").unwrap();
    let result = manager(&store)
        .execute_under(lock, [insert_text(0, "x").on("note")])
        .unwrap();
    assert_eq!((result.version, result.operations.len()), (2, 1));
    let error = manager(&store)
        .execute_under(lock, [delete().on("nowhere")])
        .unwrap_err();
    assert_eq!(failed(error).0, 0);
    assert_eq!(store.current_lock().unwrap().lock_id, lock);
    store.release_lock(lock).unwrap();
    let error = manager(&store)
        .execute_under(lock, [delete().on("note")])
        .unwrap_err();
    assert!(matches!(error, TransactionError::Join(JoinError::NotHeld { got }) if got == lock));
    assert_eq!(text(&store.snapshot(), "note"), "xHello");
}

// --- LOCK 11 and 12, as they concern transactions ---

fn panicked(error: TransactionError) -> (usize, PanicPayload) {
    match failed(error) {
        (index, "op", OperationError::Panicked(payload)) => (index, payload),
        other => panic!("{other:?}"),
    }
}

fn caught(code: impl FnOnce()) -> Box<dyn Any + Send> {
    catch_unwind(AssertUnwindSafe(code)).unwrap_err()
}

#[test]
fn lock_11_a_panic_in_code_is_an_error_with_index_and_message_and_can_go_on() {
    #[derive(Debug, PartialEq)]
    struct Signal(u32);

    let store = with_note();
    let before = image(&store.snapshot());
    let run = |code: Operation| {
        let list = (
            set_text("lost").on("note"),
            control("note", [insert_text(0, "x"), set_text("y")]),
            code,
        );
        let (index, payload) = panicked(manager(&store).execute(list).unwrap_err());
        assert_eq!(index, 3);
        assert_eq!(image(&store.snapshot()), before, "rolled back");
        assert!(!store.is_locked(), "handed on");
        payload
    };
    let payload = run(op::<String>(|_| panic!("plain")));
    assert_eq!(payload.message().as_deref(), Some("plain"));
    assert_eq!(
        (payload.to_string(), format!("{payload:?}")),
        ("panicked: plain".into(), "panicked: plain".into())
    );
    let parts = vec![1, 2];
    let payload = run(op::<String>(move |_| panic!("made of {parts:?}")));
    assert_eq!(payload.message().as_deref(), Some("made of [1, 2]"));
    assert_eq!(
        caught(|| payload.resume()).downcast_ref(),
        Some(&"made of [1, 2]".to_owned())
    );
    let payload = run(op::<String>(|_| panic_any(Signal(7))));
    assert_eq!(
        (payload.message(), payload.to_string()),
        (None, "panicked".to_owned())
    );
    assert_eq!(
        caught(|| payload.resume()).downcast_ref(),
        Some(&Signal(7)),
        "reaches the submitter"
    );
    let error = manager(&store)
        .execute([op::<String>(|_| panic!("by name"))])
        .unwrap_err();
    assert_eq!(error.to_string(), "operation 0 (op): panicked: by name");

    manager(&store)
        .execute([insert_text(0, "not poisoned: ").on("note")])
        .unwrap();
    assert_eq!(text(&store.snapshot(), "note"), "not poisoned: Hello");
}

/// Has `holder` begin and panic while two others wait, and shows that they get their turns in order.
fn handed_on_after(holder: impl FnOnce(&DataStore) + Send) {
    let store = with_note();
    store.set_lock_timeout(PATIENCE);
    let wait = |owner: &'static str| {
        let put_in_front = op(move |transaction| {
            assert!(!text(transaction, "note").contains("lost"));
            transaction.insert_text(&id("note"), 0, owner)
        });
        manager(&store).execute([put_in_front]).unwrap();
    };
    thread::scope(|scope| {
        let guard = store.lock("test").unwrap();
        let until_waiting = |count| {
            while store.queue_length() < count {
                thread::yield_now();
            }
        };
        scope.spawn(|| holder(&store));
        until_waiting(1);
        scope.spawn(|| wait("one "));
        until_waiting(2);
        scope.spawn(|| wait("two "));
        until_waiting(3);
        drop(guard);
    });
    assert_eq!(text(&store.snapshot(), "note"), "two one Hello");
    assert_eq!((store.version(), store.is_locked()), (3, false));
    let stats = store.lock_stats();
    assert_eq!(stats.total_releases, stats.total_acquisitions);
}

#[test]
fn lock_11_after_a_panic_in_code_the_lock_goes_to_the_next_in_line() {
    handed_on_after(|store| {
        let lose = op::<String>(|transaction| {
            transaction.set_text(&id("note"), "lost").unwrap();
            panic!("torn")
        });
        let (_, payload) = panicked(manager(store).execute([lose]).unwrap_err());
        assert_eq!(payload.message().as_deref(), Some("torn"));
    });
}

/// Panics in the midst of a transaction that was begun by hand.
fn lose(store: &DataStore) {
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_text(&id("note"), "lost").unwrap();
    panic!("torn");
}

#[test]
fn lock_11_after_a_panic_in_a_begun_transaction_the_lock_goes_to_the_next_in_line() {
    handed_on_after(|store| {
        assert_eq!(caught(|| lose(store)).downcast_ref(), Some(&"torn"));
    });
}

#[test]
fn lock_11_a_thread_that_dies_of_a_panic_hands_the_lock_on() {
    handed_on_after(|store| {
        let died = thread::scope(|scope| scope.spawn(|| lose(store)).join().unwrap_err());
        assert_eq!(died.downcast_ref(), Some(&"torn"));
    });
}

#[test]
fn lock_11_a_panic_under_a_lock_held_by_id_rolls_back_and_leaves_the_lock_to_its_holder() {
    let store = with_note();
    let before = store.snapshot();
    let lock = store.acquire_lock("front end").unwrap();
    let torn = op::<String>(|transaction| {
        transaction.delete(&id("note")).unwrap();
        panic!("torn")
    });
    let (index, _) = panicked(manager(&store).execute_under(lock, [torn]).unwrap_err());
    assert_eq!(index, 0);
    caught(|| {
        let mut transaction = store.begin_with(lock).unwrap();
        transaction.delete(&id("note")).unwrap();
        panic!("torn, too");
    });
    assert_eq!(store.snapshot(), before);
    assert_eq!(store.current_lock().unwrap().lock_id, lock);
    manager(&store)
        .execute_under(lock, [set_text("x").on("note")])
        .unwrap();
    store.release_lock(lock).unwrap();
    assert_eq!(
        (text(&store.snapshot(), "note"), store.is_locked()),
        ("x".to_owned(), false)
    );
}

#[test]
fn lock_11_a_panic_leaves_editor_selection_and_subscribers_in_order() {
    let editor = Editor::new(with_note(), "ann");
    let events = editor.store().subscribe(4);
    editor.select(Selection::caret("note", 2));
    let torn = op::<String>(|transaction| {
        transaction.insert_text(&id("note"), 0, "lost").unwrap();
        panic!("torn")
    });
    panicked(transaction(&editor, [torn]).commit().unwrap_err());
    assert_eq!(editor.selection(), Some(Selection::caret("note", 2)));
    assert!(events.receiver().is_empty());
    let result = transaction(&editor, [insert_text(0, "x").on("note")])
        .commit()
        .unwrap();
    assert_eq!(result.selection_after, Some(Selection::caret("note", 3)));
    assert_eq!(events.receiver().try_recv().unwrap().commit.version, 2);
}

#[test]
fn lock_12_code_that_asks_for_the_lock_of_its_own_transaction_is_told_at_once() {
    let store = with_note();
    let before = store.snapshot();
    let inner = store.clone();
    let ask = op(move |_| {
        manager(&inner)
            .execute([set_text("x").on("note")])
            .map(drop)
    });
    let (index, _, cause) = failed(manager(&store).execute([ask]).unwrap_err());
    let OperationError::Failed(cause) = cause else {
        panic!("{cause:?}")
    };
    let cause: &TransactionError = cause.downcast_ref().unwrap();
    assert!(
        matches!(cause, TransactionError::Lock(LockError::Reentrant { .. })),
        "{cause}"
    );
    assert_eq!(index, 0);
    assert_eq!((store.snapshot(), store.is_locked()), (before, false));
}

/// The thread that runs a transaction under a lock holds that lock, whoever acquired it.
#[test]
fn lock_12_code_under_a_lock_that_another_thread_acquired_is_told_at_once() {
    let store = with_note();
    let acquire = || {
        store
            .acquire_lock_with("front end", AcquireOptions::new().unbound())
            .unwrap()
    };
    let lock = thread::scope(|scope| scope.spawn(acquire).join().unwrap());
    let inner = store.clone();
    let ask = op(move |_| {
        let options = AcquireOptions::new().wait_limit(Duration::from_millis(20));
        inner.lock_with("inner", options).map(drop)
    });
    let (_, _, cause) = failed(manager(&store).execute_under(lock, [ask]).unwrap_err());
    let OperationError::Failed(cause) = cause else {
        panic!("{cause:?}")
    };
    let cause: &LockError = cause.downcast_ref().unwrap();
    assert!(
        matches!(cause, LockError::Reentrant { .. }),
        "it waited for itself: {cause}"
    );
}
