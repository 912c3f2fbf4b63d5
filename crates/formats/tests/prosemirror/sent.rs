//! Commits as steps of ProseMirror.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use doclock::document::{Change, Snapshot};
use doclock::schema::Schema;
use doclock::{DataStore, NodeId, StoreOptions, View};
use doclock_formats::prosemirror::{ProseMirrorOptions, ProseMirrorStep, to_prosemirror, to_steps};
use serde_json::{Value, json};

use crate::common::{SESSION, seed};
use crate::opened::Opened;
use crate::operations::{cut_and_paste, operations, plain};
use crate::scripts;

/// Two versions, and the steps from the first to the second and back.
struct Sent {
    before: Value,
    after: Value,
    steps: Vec<Value>,
    back: Vec<Value>,
}

fn written(view: &impl View, root: &NodeId, options: &ProseMirrorOptions) -> Value {
    let (json, _) = to_prosemirror(view, root, options).unwrap();
    serde_json::from_str(&json).unwrap()
}

impl Sent {
    fn new(
        (before, after): (&Snapshot, &Snapshot),
        changes: &[Change],
        root: &NodeId,
        options: &ProseMirrorOptions,
    ) -> Self {
        Self {
            before: written(before, root, options),
            after: written(after, root, options),
            steps: to_steps(before, after, changes, root, options).unwrap(),
            back: to_steps(after, before, changes, root, options).unwrap(),
        }
    }

    /// Applies the steps to documents of their own.
    fn check(&self, options: &ProseMirrorOptions, schema: &Schema) {
        let ways = [
            (&self.before, &self.steps, &self.after),
            (&self.after, &self.back, &self.before),
        ];
        for (from, steps, to) in ways {
            let store = StoreOptions::new().session(SESSION).schema(schema.clone());
            let mut transaction = DataStore::with_options(store).begin("test").unwrap();
            let (document, _) =
                doclock_formats::prosemirror::from_prosemirror(&from.to_string(), options).unwrap();
            let root = transaction.create(document).unwrap();
            for step in steps {
                let read = ProseMirrorStep::from_json(&step.to_string(), options).unwrap();
                let applied = read.apply(&mut transaction, &root, options);
                applied.unwrap_or_else(|error| {
                    panic!("{error}\nfrom {from}\nstep {step}\nof {}", json!(steps))
                });
            }
            let found = written(&transaction, &root, options);
            let of = json!(steps);
            assert_eq!(plain(&found), plain(to), "from {from}\nsteps {of}");
        }
    }

    fn to_json(&self, schema: &str) -> Value {
        json!({
            "schema": schema, "before": self.before, "after": self.after,
            "steps": self.steps, "back": self.back,
        })
    }
}

/// The versions that the operation of a case makes, its undo and its redo, each step by step and at
/// once.
fn versions(case: &Value, options: &ProseMirrorOptions, schema: &Schema) -> Vec<Sent> {
    let opened = Opened::new(case, options, schema);
    let (store, root) = (opened.editor.store().clone(), &opened.root);
    let mut snapshots = vec![store.snapshot()];
    let events = store.subscribe();
    let _ = match case["command"].as_str() {
        Some("cutAndPaste") => cut_and_paste(&opened),
        _ => opened.editor.execute(operations(&opened, schema)),
    };
    let mut changes = Vec::new();
    let mut note = || {
        for event in events.try_iter() {
            let next = snapshots.last().unwrap().after(&event.commit.changes);
            snapshots.push(next.unwrap());
            changes.push(event.commit.changes.to_vec());
        }
    };
    note();
    while opened.editor.can_undo() {
        opened.editor.undo().commit().unwrap();
        note();
    }
    while opened.editor.can_redo() {
        opened.editor.redo().commit().unwrap();
        note();
    }
    let mut sent = Vec::new();
    for (nth, changes) in changes.iter().enumerate() {
        let pair = (&snapshots[nth], &snapshots[nth + 1]);
        sent.push(Sent::new(pair, changes, root, options));
    }
    let pair = (&snapshots[0], snapshots.last().unwrap());
    sent.push(Sent::new(pair, &changes.concat(), root, options));
    sent
}

/// Calls `each` for the versions of each case. Returns how many steps of each type there are.
fn each_of(cases: &str, mut each: impl FnMut(&Value, &Sent)) -> BTreeMap<String, usize> {
    let schemas = ["basic", "list", "table", "tiptap"].map(|name| (name, crate::of_schema(name)));
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let named = schemas.iter().find(|(name, _)| case["schema"] == *name);
        let (_, (options, schema)) = named.unwrap();
        for sent in versions(&case, options, schema) {
            for step in &sent.steps {
                let of = step["stepType"].as_str().unwrap().to_owned();
                *types.entry(of).or_default() += 1;
            }
            sent.check(options, schema);
            each(&case, &sent);
        }
    }
    types
}

#[test]
fn commits_are_sent_as_steps_that_lead_to_their_documents() {
    let mut sizes: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let types = each_of(include_str!("operations.jsonl"), |case, sent| {
        let command = case["command"].as_str().unwrap();
        let (count, size) = sizes.entry(command.to_owned()).or_default();
        *count += 1;
        *size += json!(sent.steps).to_string().len();
    });
    for (command, (count, size)) in sizes {
        println!(
            "{command:24} {count:5} commits, {:5} bytes on average",
            size / count
        );
    }
    println!("{types:?}");
    for step in ["replace", "replaceAround", "addMark", "removeMark"] {
        assert!(types[step] > 10, "{types:?}");
    }
}

/// With the packages installed (`npm ci` in `crates/formats/tests/prosemirror`), the cases are new,
/// and ProseMirror applies the steps.
#[test]
fn random_commits_are_sent_as_steps_that_prosemirror_applies() {
    let Some(folder) = scripts() else { return };
    let seed = seed();
    let count = std::env::var("DOCLOCK_COMMANDS").unwrap_or_else(|_| "300".to_owned());
    let node = |script: &str| {
        let mut node = Command::new("node");
        node.current_dir(&folder).arg(script);
        node
    };
    let generated = node("operations.mjs")
        .args([&seed.to_string(), &count])
        .output()
        .unwrap();
    assert!(generated.status.success());
    let (mut lines, mut sent) = (String::new(), 0);
    each_of(&String::from_utf8(generated.stdout).unwrap(), |case, of| {
        sent += of.steps.len() + of.back.len();
        lines += &of.to_json(case["schema"].as_str().unwrap()).to_string();
        lines.push('\n');
    });
    let mut applied = node("sent.mjs")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = applied.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    let output = applied.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let output = String::from_utf8_lossy(&output.stdout);
    let (failed, summary) = output.trim_end().rsplit_once('\n').unwrap_or(("", &output));
    println!("{summary}");
    assert_eq!(failed.chars().take(2000).collect::<String>(), "");
    let applied = summary.strip_prefix("applied ").unwrap_or_default();
    let applied = applied
        .trim_end()
        .strip_suffix(" steps")
        .unwrap_or_default();
    let applied: usize = applied.parse().unwrap();
    assert_eq!(applied, sent, "{applied} of {sent} steps");
    assert!(applied > 0);
}
