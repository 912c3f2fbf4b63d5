//! Steps, compared with what ProseMirror makes of them.

use std::path::Path;
use std::process::Command;

use doclock::document::check;
use doclock::prosemirror::{ProseMirrorError, ProseMirrorStep, from_prosemirror, to_prosemirror};
use doclock::{DataStore, NodeId, StoreOptions, Transaction};
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
        fitting > 200 && failing > 50,
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
