//! Steps, compared with what ProseMirror makes of them.

use std::error::Error;
use std::process::Command;

use doclock::document::{NodeSpec, check};
use doclock::{
    CommitError, DataStore, Draft, NodeId, StoreOptions, Transaction, View, codes::CodedError,
};
use doclock_formats::markdown::{TargetFilter, from_markdown};
use doclock_formats::prosemirror::{
    ProseMirrorError, ProseMirrorNames, ProseMirrorOptions, ProseMirrorStep, StepError,
    from_prosemirror, to_prosemirror,
};
use serde_json::{Value, json};

use crate::common::{SESSION, image, seed};
use crate::{basic, basic_schema, scripts};

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

/// JSON without attributes that are null. Marks of one kind have no order.
pub(crate) fn bare(mut json: Value) -> Value {
    let mut ahead = vec![&mut json];
    while let Some(value) = ahead.pop() {
        match value {
            Value::Array(values) => ahead.extend(values),
            Value::Object(fields) => {
                if let Some(attributes) = fields.get_mut("attrs").and_then(Value::as_object_mut) {
                    attributes.retain(|_, value| !value.is_null());
                }
                fields.retain(|name, value| name != "attrs" || *value != json!({}));
                if let Some(marks) = fields.get_mut("marks").and_then(Value::as_array_mut) {
                    for same in marks.chunk_by_mut(|one, other| one["type"] == other["type"]) {
                        same.sort_by_key(Value::to_string);
                    }
                }
                if let Some(content) = fields.get_mut("content").and_then(Value::as_array_mut) {
                    join_texts(content);
                }
                ahead.extend(fields.values_mut());
            }
            _ => {}
        }
    }
    json
}

/// Joins texts that have the same marks in another order.
fn join_texts(content: &mut Vec<Value>) {
    let marks = |text: &Value| {
        let marks = text["marks"].as_array().into_iter().flatten();
        let mut marks: Vec<String> = marks.map(|mark| bare(mark.clone()).to_string()).collect();
        marks.sort();
        marks
    };
    content.dedup_by(|next, text| {
        let joined = match (text["text"].as_str(), next["text"].as_str()) {
            (Some(text), Some(next)) => format!("{text}{next}"),
            _ => return false,
        };
        let same = marks(text) == marks(next);
        if same {
            text["text"] = joined.into();
        }
        same
    });
}

fn written(transaction: &Draft, root: &NodeId, options: &ProseMirrorOptions) -> Value {
    let (json, dropped) = to_prosemirror(transaction, root, options).unwrap();
    assert_eq!(dropped, []);
    serde_json::from_str(&json).unwrap()
}

fn step(json: &Value) -> Result<ProseMirrorStep, ProseMirrorError> {
    ProseMirrorStep::from_json(&json.to_string(), &basic())
}

/// Applies steps, and commits.
fn applied(
    steps: &Value,
    mut transaction: Transaction,
    root: &NodeId,
    options: &ProseMirrorOptions,
) -> Result<Value, Box<dyn Error>> {
    for json in steps.as_array().unwrap() {
        let before = image(&transaction);
        let step = ProseMirrorStep::from_json(&json.to_string(), options)?;
        let applied = step.apply(&mut transaction, root, options);
        assert_eq!(check(&transaction), Ok(()));
        if applied.is_err() {
            assert_eq!(image(&transaction), before);
        }
        applied?;
    }
    let written = written(&transaction, root, options);
    transaction.commit()?;
    Ok(written)
}

/// How many transactions of these cases succeed and fail, as they do in ProseMirror, and the number
/// of sessions of several editors among the cases.
fn compared(cases: &str) -> (usize, usize, usize) {
    let (mut fitting, mut failing, mut sessions) = (0, 0, 0);
    let schemas = ["basic", "list", "table", "tiptap"];
    let schemas = schemas.map(|name| (name, crate::of_schema(name)));
    for (nth, line) in cases.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        sessions += usize::from(case["of"] == "session");
        let (_, (options, schema)) = schemas
            .iter()
            .find(|(name, _)| case["schema"] == *name)
            .unwrap();
        let (document, dropped) = from_prosemirror(&case["doc"].to_string(), options).unwrap();
        assert_eq!(dropped, [], "{line}");
        let store = StoreOptions::new().session(SESSION).schema(schema.clone());
        let store = DataStore::with_options(store);
        let mut transaction = store.begin("test").unwrap();
        let root = transaction.create(document).unwrap();
        transaction.set_root(&root).unwrap();
        assert_eq!(
            bare(written(&transaction, &root, options)),
            bare(case["doc"].clone()),
            "case {nth}: {line}"
        );
        transaction.commit().unwrap();
        for (of_case, expected) in case["transactions"].as_array().unwrap().iter().enumerate() {
            let transaction = store.begin("test").unwrap();
            let found = applied(&expected["steps"], transaction, &root, options);
            match (expected["result"].is_null(), found) {
                (false, Ok(found)) => {
                    fitting += 1;
                    assert_eq!(
                        bare(found),
                        bare(expected["result"].clone()),
                        "case {nth}, transaction {of_case}: {line}"
                    );
                }
                (true, Err(_)) => failing += 1,
                (_, found) => {
                    panic!("case {nth}, transaction {of_case}: {found:?}: {line}")
                }
            }
        }
    }
    (fitting, failing, sessions)
}

#[test]
fn recorded_steps_lead_to_the_documents_of_prosemirror() {
    let (fitting, failing, sessions) = compared(include_str!("cases.jsonl"));
    assert!(
        fitting > 200 && failing > 20 && sessions > 4,
        "{fitting} transactions fit, {failing} fail, {sessions} sessions"
    );
}

/// With the packages installed (`npm ci` in `crates/formats/tests/prosemirror`), the steps are new
/// each time.
#[test]
fn random_steps_lead_to_the_documents_of_prosemirror() {
    let Some(folder) = scripts() else { return };
    let count = std::env::var("DOCLOCK_STEPS").unwrap_or_else(|_| "1000".to_owned());
    let output = Command::new("node")
        .current_dir(folder)
        .args(["generate.mjs", &seed().to_string(), &count])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (fitting, failing, sessions) = compared(&String::from_utf8(output.stdout).unwrap());
    println!("{fitting} transactions fit, {failing} fail, {sessions} sessions");
    assert!(fitting > failing && failing > 0 && sessions > 0);
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
            failure(
                &doc,
                json!({"stepType": "attr", "pos": 1, "attr": "level", "value": 1}),
            ),
            "the step does not fit at position 1: a text has no attributes and marks of its own",
        ),
        (
            failure(
                &doc,
                json!({"stepType": "addNodeMark", "pos": 0, "mark": {"type": "em"}}),
            ),
            "the step does not fit at position 0: only text and inline nodes have marks",
        ),
        (
            failure(
                &doc,
                json!({"stepType": "attr", "pos": 10, "attr": "level", "value": 1}),
            ),
            "the step does not fit at position 10: no node is there",
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

/// The place of the kept content was added to the open levels: a panic, or, in a release build, a
/// step that was applied at another place.
#[test]
fn a_step_with_a_number_beyond_any_document_fails() {
    let doc = json!({"type": "doc", "content": [
        {"type": "blockquote", "content": [
            {"type": "paragraph", "content": [{"type": "text", "text": "Moons"}]}]}]});
    let (em, quote) = (json!({"type": "em"}), json!([{"type": "blockquote"}]));
    let steps = [
        json!({"stepType": "replace", "from": 1, "to": 8,
            "slice": {"content": quote, "openStart": 1, "openEnd": 1}}),
        json!({"stepType": "replaceAround", "from": 1, "to": 8, "gapFrom": 1, "gapTo": 8,
            "insert": 0, "slice": {"content": quote, "openStart": 1, "openEnd": 1}}),
        json!({"stepType": "replaceAround", "from": 1, "to": 8, "gapFrom": 2, "gapTo": 7,
            "insert": 1, "slice": {"content": [{"type": "heading"}]}}),
        json!({"stepType": "addMark", "mark": em, "from": 2, "to": 4}),
        json!({"stepType": "removeMark", "mark": em, "from": 2, "to": 4}),
        json!({"stepType": "attr", "pos": 1, "attr": "level", "value": 1}),
        json!({"stepType": "addNodeMark", "mark": em, "pos": 1}),
        json!({"stepType": "removeNodeMark", "mark": em, "pos": 1}),
    ];
    let fails = |json: &Value| match step(json) {
        Err(_) => true,
        Ok(step) => {
            let (mut transaction, root) = opened(&doc);
            let before = image(&transaction);
            let failed = step.apply(&mut transaction, &root, &basic()).is_err();
            assert!(!failed || image(&transaction) == before, "{json}");
            failed
        }
    };
    let mut tried = 0;
    for step in &steps {
        let top = ["from", "to", "gapFrom", "gapTo", "insert", "pos"];
        let places = top.map(|name| format!("/{name}")).into_iter();
        for place in places.chain(["openStart", "openEnd"].map(|name| format!("/slice/{name}"))) {
            for number in [u64::MAX, u64::MAX - 1] {
                let mut far = step.clone();
                let Some(at) = far.pointer_mut(&place) else {
                    continue;
                };
                *at = number.into();
                tried += 1;
                assert!(fails(&far), "{far}");
            }
        }
    }
    assert_eq!(tried, 46);
}

#[test]
fn a_step_that_cannot_be_read_fails_with_its_path() {
    for (json, code) in [
        (
            json!({"stepType": "attribute", "pos": 0, "attr": "level", "value": 2}),
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
        (
            json!({"stepType": "addNodeMark", "mark": {"type": "wavy"}, "pos": 0}),
            "proseMirrorDropped",
        ),
        (
            json!({"stepType": "replace", "from": 0, "to": 0, "slice": {"content": [
                {"type": "text", "text": "\u{fdd0}"}]}}),
            "proseMirrorDropped",
        ),
        (json!({"stepType": "attr", "pos": 0}), "proseMirrorJson"),
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
    let ids = |transaction: &Draft| -> Vec<(String, NodeId)> {
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

/// The document after the steps of one transaction.
fn after(doc: &Value, steps: &[Value], schema: &str) -> Result<Value, Box<dyn Error>> {
    let (options, schema) = crate::of_schema(schema);
    let store = DataStore::with_options(StoreOptions::new().schema(schema));
    let mut transaction = store.begin("test")?;
    let root = transaction.create(from_prosemirror(&doc.to_string(), &options)?.0)?;
    transaction.set_root(&root)?;
    transaction.commit()?;
    applied(&steps.into(), store.begin("test")?, &root, &options)
}

fn blocks(content: &[Value]) -> Value {
    json!({"type": "doc", "content": content})
}

/// Each of these acts passes through a newline in a text.
#[test]
fn the_everyday_acts_of_tiptap_are_accepted() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let code = |of: &str| json!({"type": "codeBlock", "content": [text(of)]});
    let lines = json!({"type": "paragraph", "content": [
        text("a"), {"type": "hardBreak"}, text("b"),
    ]});
    let around = |kind: &str, to: u8| {
        json!({"stepType": "replaceAround", "from": 0, "to": to, "gapFrom": 1, "gapTo": to - 1,
            "insert": 1, "structure": true, "slice": {"content": [{"type": kind}]}})
    };
    let replace = |from: u8, to: u8, content: Value| json!({"stepType": "replace", "from": from, "to": to, "slice": {"content": [content]}});
    let paragraph = |of: &str| json!({"type": "paragraph", "content": [text(of)]});
    for (doc, steps, expected) in [
        (
            [code("a\nb")].to_vec(),
            vec![
                around("paragraph", 5),
                replace(2, 3, json!({"type": "hardBreak"})),
            ],
            [lines.clone()].to_vec(),
        ),
        (
            vec![lines.clone()],
            vec![replace(2, 3, text("\n")), around("codeBlock", 5)],
            vec![code("a\nb")],
        ),
        (
            vec![paragraph("x"), code("a\nb")],
            vec![
                json!({"stepType": "replace", "from": 2, "to": 4, "structure": true}),
                replace(3, 4, json!({"type": "hardBreak"})),
            ],
            vec![json!({"type": "paragraph", "content": [
                text("xa"), {"type": "hardBreak"}, text("b"),
            ]})],
        ),
        (
            vec![paragraph("x")],
            vec![replace(2, 2, text("a\nb"))],
            vec![paragraph("xa\nb")],
        ),
        // The open code block of a slice.
        (
            vec![paragraph("x")],
            vec![json!({"stepType": "replace", "from": 2, "to": 3, "slice": {
                "content": [code("a\nb")], "openStart": 1}})],
            vec![paragraph("xa\nb")],
        ),
    ] {
        let found = after(&blocks(&doc), &steps, "tiptap").unwrap();
        assert_eq!(found, blocks(&expected), "{steps:?}");
    }
}

/// A store checks the result of a transaction. A step has to fit as in ProseMirror, where what it
/// inserts is checked by no step.
#[test]
fn a_later_step_completes_what_an_earlier_one_inserted() {
    let doc = blocks(&[json!({"type": "paragraph"})]);
    let replace = |at: u8, kind: &str| {
        json!({"stepType": "replace", "from": at, "to": at, "slice": {
            "content": [{"type": kind}]}})
    };
    let steps = [replace(2, "blockquote"), replace(3, "paragraph")];
    let quote = json!({"type": "blockquote", "content": [{"type": "paragraph"}]});
    let found = after(&doc, &steps, "basic").unwrap();
    assert_eq!(found, blocks(&[json!({"type": "paragraph"}), quote]));
    let error = after(&doc, &steps[..1], "basic").unwrap_err();
    assert!(error.is::<CommitError>(), "{error}");
    let error = after(&doc, &[replace(2, "list_item")], "list").unwrap_err();
    let error = error.downcast::<StepError>().unwrap();
    assert!(matches!(*error, StepError::Schema { position: 2, .. }));
}

/// One that the schema does not have is ignored, as ProseMirror does.
#[test]
fn steps_set_attributes_of_blocks_of_inline_nodes_and_of_the_document() {
    let image = |src: &str, alt: Value| json!({"type": "image", "attrs": {"src": src, "alt": alt}});
    let doc = blocks(&[
        json!({"type": "heading", "attrs": {"level": 1}}),
        json!({"type": "paragraph", "content": [image("a", json!("x")), image("a", json!("x"))]}),
        json!({"type": "ordered_list", "attrs": {"order": 1}, "content": [
            {"type": "list_item", "content": [{"type": "paragraph"}]},
        ]}),
    ]);
    let attr = |pos: u8, attr: &str, value: Value| json!({"stepType": "attr", "pos": pos, "attr": attr, "value": value});
    let steps = [
        attr(0, "level", json!(3)),
        attr(0, "missing", json!(3)),
        attr(3, "src", json!("b")),
        attr(4, "alt", json!(null)),
        attr(6, "order", json!(7)),
        attr(6, "ordered", json!(false)),
        json!({"stepType": "docAttr", "attr": "title", "value": "t"}),
        json!({"stepType": "addNodeMark", "pos": 4, "mark": {"type": "em"}}),
        json!({"stepType": "removeNodeMark", "pos": 3, "mark": {"type": "em"}}),
    ];
    let mut second = image("a", json!(null));
    second["marks"] = json!([{"type": "em"}]);
    let mut expected = blocks(&[
        json!({"type": "heading", "attrs": {"level": 3}}),
        json!({"type": "paragraph", "content": [image("b", json!("x")), second]}),
        json!({"type": "ordered_list", "attrs": {"order": 7}, "content": [
            {"type": "list_item", "content": [{"type": "paragraph"}]},
        ]}),
    ]);
    expected["attrs"] = json!({"title": "t"});
    assert_eq!(bare(after(&doc, &steps, "list").unwrap()), bare(expected));
}

/// What a filter of targets rejects does not come in by an attribute.
#[test]
fn a_step_sets_no_target_that_the_options_reject() {
    let options = basic().targets(TargetFilter::web());
    let json = json!({"type": "doc", "content": [{"type": "paragraph", "content": [
        {"type": "image", "attrs": {"src": "/a"}},
    ]}]});
    let mut transaction = DataStore::new().begin("test").unwrap();
    let (document, _) = from_prosemirror(&json.to_string(), &options).unwrap();
    let root = transaction.create(document).unwrap();
    let json = r#"{"stepType": "attr", "pos": 1, "attr": "src", "value": "javascript:x"}"#;
    let step = ProseMirrorStep::from_json(json, &options).unwrap();
    let error = step.apply(&mut transaction, &root, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step does not fit at position 1: the options reject its target"
    );
}

/// In the schema `list`, bold text excludes emphasis, and a heading has no code.
#[test]
fn a_mark_step_obeys_what_marks_exclude_and_what_nodes_allow() {
    let text = |marks: &[&str], text: &str| {
        let marks: Vec<Value> = marks.iter().map(|kind| json!({"type": kind})).collect();
        json!({"type": "text", "marks": marks, "text": text})
    };
    let heading = json!({"type": "heading", "attrs": {"level": 1},
        "content": [{"type": "text", "text": "ab"}]});
    let doc = blocks(&[
        heading.clone(),
        json!({"type": "paragraph", "content": [text(&["em"], "ab"), text(&["code"], "c")]}),
    ]);
    let add = |mark: &str, from: u8, to: u8| json!({"stepType": "addMark", "mark": {"type": mark}, "from": from, "to": to});
    let steps = [add("strong", 1, 7), add("em", 5, 8), add("code", 1, 3)];
    let expected = blocks(&[
        heading,
        json!({"type": "paragraph", "content": [
            text(&["strong"], "a"), text(&["strong"], "b"), text(&["code"], "c"),
        ]}),
    ]);
    assert_eq!(bare(after(&doc, &steps, "list").unwrap()), bare(expected));
    // A slice with such a mark does not fit, and neither does a node that is joined.
    let slice = json!({"content": [text(&["strong"], "x")]});
    let step = json!({"stepType": "replace", "from": 1, "to": 1, "slice": slice});
    assert!(after(&doc, &[step], "list").is_err());
    let join = json!({"stepType": "replace", "from": 3, "to": 5});
    assert!(after(&doc, &[join], "list").is_err());
}

/// Tiptap's code excludes all other marks.
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
