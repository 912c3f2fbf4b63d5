//! Steps, compared with what ProseMirror makes of them.

use std::path::Path;
use std::process::Command;

use doclock::document::{NodeSpec, check};
use doclock::markdown::from_markdown;
use doclock::prosemirror::{
    ProseMirrorError, ProseMirrorNames, ProseMirrorOptions, ProseMirrorStep, StepError,
    from_prosemirror, to_prosemirror,
};
use doclock::{DataStore, NodeId, StoreOptions, Transaction, View};
use serde_json::{Value, json};

use crate::common::{SESSION, image};
use crate::{basic, basic_schema};

/// A document under the schema as the root of a transaction.
fn opened(doc: &Value) -> (Transaction, NodeId) {
    let (document, dropped) = from_prosemirror(&doc.to_string(), &basic()).unwrap();
    assert_eq!(dropped, [], "{doc}");
    let options = StoreOptions::new().session(SESSION).schema(basic_schema());
    let mut transaction = DataStore::with_options(options).begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    transaction.set_root(&root).unwrap();
    (transaction, root)
}

/// JSON without attributes that are null.
fn bare(mut json: Value) -> Value {
    let mut ahead = vec![&mut json];
    while let Some(value) = ahead.pop() {
        match value {
            Value::Array(values) => ahead.extend(values),
            Value::Object(fields) => {
                if let Some(attributes) = fields.get_mut("attrs").and_then(Value::as_object_mut) {
                    attributes.retain(|_, value| !value.is_null());
                }
                fields.retain(|name, value| name != "attrs" || *value != json!({}));
                ahead.extend(fields.values_mut());
            }
            _ => {}
        }
    }
    json
}

fn written(transaction: &Transaction, root: &NodeId) -> Value {
    let (json, dropped) = to_prosemirror(transaction, root, &basic()).unwrap();
    assert_eq!(dropped, []);
    serde_json::from_str(&json).unwrap()
}

fn step(json: &Value) -> Result<ProseMirrorStep, ProseMirrorError> {
    ProseMirrorStep::from_json(&json.to_string(), &basic())
}

/// How many steps of these cases succeed and fail, as they do in ProseMirror.
fn compared(cases: &str) -> (usize, usize) {
    let (mut fitting, mut failing) = (0, 0);
    for (nth, line) in cases.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (mut transaction, root) = opened(&case["doc"]);
        let before = image(&transaction);
        let applied = step(&case["step"]).map(|step| step.apply(&mut transaction, &root, &basic()));
        assert_eq!(check(&transaction), Ok(()));
        match (case["result"].is_null(), applied) {
            (false, Ok(Ok(()))) => {
                fitting += 1;
                let found = written(&transaction, &root);
                assert_eq!(
                    bare(found),
                    bare(case["result"].clone()),
                    "case {nth}: {line}"
                );
                transaction.commit().unwrap();
            }
            (true, Err(_) | Ok(Err(_))) => {
                failing += 1;
                assert_eq!(image(&transaction), before, "case {nth}: {line}");
            }
            (_, applied) => panic!("case {nth}: {applied:?}: {line}"),
        }
    }
    (fitting, failing)
}

#[test]
fn recorded_steps_lead_to_the_documents_of_prosemirror() {
    let (fitting, failing) = compared(include_str!("cases.jsonl"));
    assert!(
        fitting > 200 && failing > 20,
        "{fitting} steps fit, {failing} fail"
    );
}

/// With the packages installed (`npm ci` in `tests/prosemirror`), the steps are new each time.
#[test]
fn random_steps_lead_to_the_documents_of_prosemirror() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prosemirror");
    if !folder.join("node_modules").exists() {
        return println!("skipped: run npm ci in tests/prosemirror");
    }
    let given = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    let count = std::env::var("DOCLOCK_STEPS").unwrap_or_else(|_| "2000".to_owned());
    println!("SEED={seed}");
    let output = Command::new("node")
        .current_dir(folder)
        .args(["generate.mjs", &seed.to_string(), &count])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (fitting, failing) = compared(&String::from_utf8(output.stdout).unwrap());
    println!("{fitting} steps fit, {failing} fail");
    assert!(fitting > failing && failing > 0);
}

fn page(text: &str) -> Value {
    json!({"type": "doc", "content": [
        {"type": "paragraph", "content": [{"type": "text", "text": text}]},
        {"type": "blockquote", "content": [{"type": "paragraph"}]},
    ]})
}

fn failure(doc: &Value, json: Value) -> StepError {
    let (mut transaction, root) = opened(doc);
    let before = image(&transaction);
    let applied = step(&json)
        .unwrap()
        .apply(&mut transaction, &root, &basic());
    assert_eq!(image(&transaction), before, "{json}");
    applied.unwrap_err()
}

#[test]
fn a_step_that_does_not_fit_fails_with_its_position_and_changes_nothing() {
    let doc = page("a🦀b");
    let replace = |from: usize, to: usize, slice: Value| {
        failure(
            &doc,
            json!({"stepType": "replace", "from": from, "to": to, "slice": slice}),
        )
    };
    let text = json!({"content": [{"type": "text", "text": "x"}]});
    let item = json!({"content": [{"type": "list_item", "content": [{"type": "paragraph"}]}]});
    for (error, expected) in [
        (
            replace(99, 99, text.clone()),
            "position 99 is out of range: the document has the size 10",
        ),
        (
            replace(3, 3, text.clone()),
            "the step does not fit at position 3: it is inside of a surrogate pair",
        ),
        (
            replace(4, 2, text.clone()),
            "the step does not fit at position 4: its range ends before it starts",
        ),
        (
            replace(6, 6, text),
            "the step does not fit at position 6: blocks and text do not fit in one node",
        ),
        (
            replace(1, 8, json!(null)),
            "the step does not fit at position 1: \
             the two sides of the slice are open to different depths",
        ),
        (
            replace(1, 1, json!({"content": [{"type": "text", "text": "a\nb"}]})),
            "the step does not fit at position 1: \
             a newline is a character in code, and a hard break elsewhere",
        ),
        (
            failure(
                &doc,
                json!({"stepType": "replace", "from": 1, "to": 2, "structure": true}),
            ),
            "the step does not fit at position 1: it would overwrite content",
        ),
        (
            failure(
                &doc,
                json!({"stepType": "addMark", "mark": {"type": "em"}, "from": 1, "to": 11}),
            ),
            "position 11 is out of range: the document has the size 10",
        ),
    ] {
        assert_eq!(error.to_string(), expected);
    }
    let error = replace(0, 0, item);
    assert!(
        matches!(error, StepError::Schema { position: 0, .. }),
        "{error}"
    );
    // What is left of the list is empty, and would vanish in the block quote.
    let item = json!({"type": "list_item", "content": [{"type": "paragraph"}]});
    let joined = json!({"type": "doc", "content": [
        {"type": "blockquote", "content": [{"type": "paragraph"}]},
        {"type": "bullet_list", "content": [item]},
    ]});
    let error = failure(&joined, json!({"stepType": "replace", "from": 3, "to": 9}));
    assert!(
        matches!(error, StepError::Join { position: 3, .. }),
        "{error}"
    );
    let joined = json!({"type": "doc", "content": [
        {"type": "paragraph"}, {"type": "blockquote", "content": [{"type": "paragraph"}]},
    ]});
    let error = failure(&joined, json!({"stepType": "replace", "from": 1, "to": 3}));
    assert!(
        matches!(error, StepError::Join { position: 1, .. }),
        "{error}"
    );
}

#[test]
fn a_step_that_cannot_be_read_fails_with_its_path() {
    for (json, code) in [
        (
            json!({"stepType": "attr", "pos": 0, "attr": "level", "value": 2}),
            "proseMirrorStepType",
        ),
        (
            json!({"stepType": "replace", "from": -1, "to": 0}),
            "proseMirrorJson",
        ),
        (json!({"stepType": "replace", "from": 0}), "proseMirrorJson"),
        (json!([]), "proseMirrorJson"),
        (
            json!({"stepType": "replace", "from": 0, "to": 0, "slice": {"content": [
                {"type": "poll", "content": [{"type": "paragraph"}]}]}}),
            "proseMirrorDropped",
        ),
        (
            json!({"stepType": "replace", "from": 0, "to": 0, "slice": {"openStart": 2, "content": [
                {"type": "paragraph"}]}}),
            "proseMirrorSlice",
        ),
        (
            json!({"stepType": "addMark", "mark": {"type": "wavy"}, "from": 0, "to": 1}),
            "proseMirrorDropped",
        ),
    ] {
        assert_eq!(step(&json).unwrap_err().code(), code, "{json}");
    }
    let unknown = json!({"stepType": "replace", "from": 0, "to": 0, "slice": {"content": [
        {"type": "paragraph", "content": [{"type": "text", "text": "a", "marks": [{"type": "x"}]}]}]}});
    assert_eq!(
        step(&unknown).unwrap_err().to_string(),
        "the step has 1 parts that the document cannot express, \
         first slice.content[0].content[0].marks[0]"
    );
    let deep = format!(
        r#"{{"stepType": "replace", "from": 0, "to": 0, "slice": {{"content": [{}"#,
        r#"{"type":"blockquote","content":["#.repeat(100_000)
    );
    let error = ProseMirrorStep::from_json(&deep, &basic()).unwrap_err();
    assert_eq!(error.code(), "proseMirrorJson");
}

#[test]
fn a_document_in_another_shape_is_refused_with_its_node() {
    let shapes = [
        NodeSpec::new("paragraph").with_text("own"),
        NodeSpec::new("poll"),
        NodeSpec::new("inline-text").with_text("stray"),
        NodeSpec::new("block-quote").with_text("own"),
    ];
    for shape in shapes {
        let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
        let mut transaction = DataStore::new().begin("test").unwrap();
        let document = NodeSpec::new("document").with_children([shape.with_id("odd")]);
        let root = transaction.create(document).unwrap();
        let json = r#"{"stepType": "replace", "from": 2, "to": 2}"#;
        let step = ProseMirrorStep::from_json(json, &options).unwrap();
        let error = step.apply(&mut transaction, &root, &options).unwrap_err();
        assert!(
            matches!(&error, StepError::Shape { id, .. } if *id == "odd".into()),
            "{error}"
        );
    }
}

/// Nodes that a step keeps are the same nodes: positions, leases and undo refer to them.
#[test]
fn a_step_keeps_the_ids_of_the_nodes_that_it_keeps() {
    let (mut transaction, root) = opened(&page("abcd"));
    let ids = |transaction: &Transaction| -> Vec<(String, NodeId)> {
        let nodes = transaction.descendants(&root);
        nodes
            .map(|node| (node.kind().to_owned(), node.id().clone()))
            .collect()
    };
    let mut apply = |json: Value| {
        step(&json)
            .unwrap()
            .apply(&mut transaction, &root, &basic())
            .unwrap();
        ids(&transaction)
    };
    let before = apply(
        json!({"stepType": "replace", "from": 3, "to": 3, "slice": {"content": [
        {"type": "text", "text": "x"}]}}),
    );
    let is_kept = |after: &[(String, NodeId)], kind: &str| {
        let of = |nodes: &[(String, NodeId)]| {
            let mut nodes = nodes.iter();
            nodes
                .find(|(other, _)| other == kind)
                .map(|(_, id)| id.clone())
        };
        of(after).is_some() && of(after) == of(&before)
    };
    let split = apply(json!({"stepType": "replace", "from": 3, "to": 3, "slice": {
        "content": [{"type": "paragraph"}, {"type": "paragraph"}], "openStart": 1, "openEnd": 1}}));
    assert_eq!(split.len(), before.len() + 2);
    assert!(is_kept(&split, "paragraph") && is_kept(&split, "inline-text"));
    let joined = apply(json!({"stepType": "replace", "from": 3, "to": 5, "structure": true}));
    assert_eq!(joined, before);
    // The type of a node, and a block quote around it.
    let heading = apply(
        json!({"stepType": "replaceAround", "from": 0, "to": 7, "gapFrom": 1,
        "gapTo": 6, "insert": 1, "structure": true,
        "slice": {"content": [{"type": "heading", "attrs": {"level": 2}}]}}),
    );
    assert_eq!(heading[1], ("heading".to_owned(), before[1].1.clone()));
    let wrapped = apply(
        json!({"stepType": "replaceAround", "from": 0, "to": 7, "gapFrom": 0,
        "gapTo": 7, "insert": 1, "structure": true, "slice": {"content": [{"type": "blockquote"}]}}),
    );
    assert_eq!(wrapped[2], heading[1]);
    assert_eq!(wrapped[3], before[2]);
}

/// Tiptap's code accompanies no other mark.
#[test]
fn a_mark_that_stands_alone_replaces_the_others() {
    let options = crate::tiptap();
    let json = json!({"type": "doc", "content": [{"type": "paragraph", "content": [
        {"type": "text", "marks": [{"type": "bold"}], "text": "abc"},
    ]}]});
    let mut transaction = DataStore::new().begin("test").unwrap();
    let (document, _) = from_prosemirror(&json.to_string(), &options).unwrap();
    let root = transaction.create(document).unwrap();
    for (mark, from, to) in [("code", 2, 3), ("italic", 1, 4)] {
        let json = json!({"stepType": "addMark", "mark": {"type": mark}, "from": from, "to": to});
        let step = ProseMirrorStep::from_json(&json.to_string(), &options).unwrap();
        step.apply(&mut transaction, &root, &options).unwrap();
    }
    let (json, dropped) = to_prosemirror(&transaction, &root, &options).unwrap();
    assert_eq!(dropped, []);
    let both = json!([{"type": "bold"}, {"type": "italic"}]);
    assert_eq!(
        serde_json::from_str::<Value>(&json).unwrap()["content"][0]["content"],
        json!([
            {"type": "text", "marks": both, "text": "a"},
            {"type": "text", "marks": [{"type": "code"}], "text": "b"},
            {"type": "text", "marks": both, "text": "c"},
        ])
    );
}

/// An image of Markdown has its description as its text, and one position in ProseMirror.
#[test]
fn a_position_counts_an_image_with_a_description_as_one() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    let mut transaction = DataStore::new().begin("test").unwrap();
    let root = transaction
        .create(from_markdown("a🦀![description](x.png)b"))
        .unwrap();
    let json = r#"{"stepType": "replace", "from": 5, "to": 6, "slice": {"content": [
        {"type": "text", "text": "c"}]}}"#;
    let step = ProseMirrorStep::from_json(json, &options).unwrap();
    step.apply(&mut transaction, &root, &options).unwrap();
    assert_eq!(transaction.text_of(&root).unwrap(), "a🦀descriptionc");
}
