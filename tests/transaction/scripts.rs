//! 4: scripts.

use doclock::dsl::*;
use doclock::{
    View,
    document::{NodeSpec, check},
    transaction::{Operation, ScriptError, parse_operations},
};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::common::{
    Action, Dice, RefDoc, cases, children, id, image, possible, spoil, steps, store, text,
};
use crate::{manager, with_note};

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
    assert_eq!(
        crate::common::marks(&snapshot, "one"),
        [(0, 1, "bold".to_owned())]
    );
    let attributes = serde_json::to_value(snapshot.node(id("two")).unwrap().attributes()).unwrap();
    assert_eq!(attributes, json!({"lang": "en"}));
    assert_eq!((snapshot.len(), check(&snapshot)), (4, Ok(())));

    let one = r#" {"type": "delete", "payload": {"nodeId": "list"}} "#;
    assert_eq!(parse_operations(one).unwrap(), [delete_node().on("list")]);
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
fn transaction_04_bad_json_is_an_error_with_its_position() {
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
    // A text that is not JSON has no index.
    bad("[", (None, 1, 1), "EOF");
    bad("nonsense", (None, 1, 2), "expected ident");
    bad("[{}\n {}]", (None, 2, 2), "expected `,` or `]`");
    bad("[] []", (None, 1, 4), "trailing characters");
    // Other errors have an operation index, and line and column in the whole text.
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
            "delete: nodeId: invalid type: integer `1`",
        ),
        (
            r#"{"type": "delete", "payload": {"nodeId": "a", "x": 1}}"#,
            "delete: x: unknown field `x`",
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
            "addChild: child: invalid type",
        ),
        (
            r#"{"type": "setText", "payload": {"nodeId": "a"}}"#,
            "setText: missing field `text`",
        ),
        (
            r#"{"type": "setText", "payload": {"nodeId": "a", "text": null}}"#,
            "setText: text: invalid type: null",
        ),
        (
            r#"{"type": "insertText", "payload": {"nodeId": "a", "offset": -1, "text": ""}}"#,
            "insertText: offset: invalid value: integer `-1`",
        ),
        (
            r#"{"type": "insertText", "payload": {"nodeId": "a", "offset": 1.5, "text": ""}}"#,
            "insertText: offset: invalid type: floating point `1.5`",
        ),
        (
            r#"{"type": "insertText", "payload": {"nodeId": "a", "offset": 18446744073709551616, "text": ""}}"#,
            "insertText: offset: invalid type: floating point",
        ),
        (
            r#"{"type": "control", "payload": {"nodeId": "a", "operations": [{"type": "delete", "payload": {}}, {"type": "create", "payload": {}}]}}"#,
            "control: operations[1]: create: unknown variant `create`",
        ),
        (
            r#"{"type": "insertTxt", "payload": {"nodeId": "a"}}"#,
            "insertTxt: unknown variant `insertTxt`",
        ),
    ];
    for (script, says) in payloads {
        // The position within the operation is that of the field; `payloads` tests it.
        let (_, line, column) = place(&parse_operations(script).unwrap_err());
        bad(script, (Some(0), line, column), says);
        assert_eq!(line, 1, "{script}");
        bad(
            &format!("[{valid},\n [[], {script}]]"),
            (Some(1), 2, column + 6),
            says,
        );
    }
}

#[test]
fn transaction_04_columns_count_characters_from_one() {
    // The same error after a character of one byte, and after a longer one.
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

    // Everything that can be written can be read back.
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

/// Reads and runs any script.
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
        // Neither does a truncated one, or one without a character.
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
