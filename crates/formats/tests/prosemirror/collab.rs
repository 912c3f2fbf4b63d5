//! Sessions of clients of prosemirror-collab with doclock, which is their authority and edits as
//! well.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use doclock::document::{Change, Snapshot};
use doclock::events::Subscription;
use doclock::schema::Schema;
use doclock::{CommitError, Editor, NodeId};
use doclock_formats::prosemirror::{ProseMirrorOptions, ProseMirrorStep, to_prosemirror, to_steps};
use serde_json::{Value, json};

use crate::common::seed;
use crate::opened::{Opened, opened};
use crate::operations::{cut_and_paste, operations};
use crate::scripts;

/// A document with the steps that led to it.
struct Authority<'o> {
    options: &'o ProseMirrorOptions,
    schema: &'o Schema,
    /// The editor of doclock, with its history.
    editor: Arc<Editor>,
    root: NodeId,
    commits: Subscription,
    /// The steps, each with its client.
    steps: Vec<(Value, Value)>,
    /// The version of the document to which they lead.
    sent: Snapshot,
}

impl<'o> Authority<'o> {
    fn new(doc: &Value, (options, schema): &'o (ProseMirrorOptions, Schema)) -> Self {
        let (editor, root) = opened(doc, options, schema);
        let store = editor.store().clone();
        Self {
            options,
            schema,
            editor: Arc::new(editor),
            root,
            commits: store.subscribe(),
            steps: Vec::new(),
            sent: store.snapshot(),
        }
    }

    /// Sends what doclock has committed, all of it at once.
    fn send(&mut self) {
        let changes = self
            .commits
            .try_iter()
            .map(|event| event.commit.changes.to_vec());
        let changes: Vec<Change> = changes.flatten().collect();
        let now = self.editor.store().snapshot();
        let steps = to_steps(&self.sent, &now, &changes, &self.root, self.options).unwrap();
        self.steps
            .extend(steps.into_iter().map(|step| (step, json!("doclock"))));
        self.sent = now;
    }

    fn push(&mut self, push: &Value) -> Value {
        self.send();
        if push["version"] != self.steps.len() {
            return json!({"old": true});
        }
        match self.apply(push["steps"].as_array().unwrap()) {
            Err(error) => json!({"refused": error}),
            Ok(()) => {
                let of_client = |step: &Value| (step.clone(), push["clientID"].clone());
                self.steps
                    .extend(push["steps"].as_array().unwrap().iter().map(of_client));
                self.sent = self.editor.store().snapshot();
                self.commits.try_iter().for_each(drop);
                json!({"accepted": true})
            }
        }
    }

    fn apply(&self, steps: &[Value]) -> Result<(), String> {
        let mut transaction = self.editor.store().begin("client").unwrap();
        for step in steps {
            let step = ProseMirrorStep::from_json(&step.to_string(), self.options);
            let step = step.map_err(|error| error.to_string())?;
            let applied = step.apply(&mut transaction, &self.root, self.options);
            applied.map_err(|error| error.to_string())?;
        }
        transaction
            .commit()
            .map(drop)
            .map_err(|error: CommitError| error.to_string())
    }

    fn edit(&mut self, case: &Value) {
        let opened = Opened {
            case,
            options: self.options,
            editor: self.editor.clone(),
            root: self.root.clone(),
        };
        // An operation that does not fit changes nothing.
        let _ = match case["command"].as_str() {
            Some("cutAndPaste") => cut_and_paste(&opened),
            _ => self.editor.execute(operations(&opened, self.schema)),
        };
    }

    fn answer(&mut self, request: &Value) -> Value {
        let before = self.editor.store().version();
        let commits = |of: &Self| json!({"commits": of.editor.store().version() - before});
        if request["pull"].is_u64() {
            self.send();
            let from = request["pull"].as_u64().unwrap() as usize;
            let (steps, ids): (Vec<_>, Vec<_>) = self.steps[from..].iter().cloned().unzip();
            return json!({"steps": steps, "ids": ids});
        }
        if request["push"].is_object() {
            return self.push(&request["push"]);
        }
        if request["edit"].is_object() {
            self.edit(&request["edit"]);
            let answer = commits(self);
            if request["later"] == false {
                self.send();
            }
            return answer;
        }
        if let Some(is_undo) = request["undo"].as_bool() {
            // An edit of a client in the way is no failure.
            let _ = match is_undo {
                true => self.editor.undo().commit(),
                false => self.editor.redo().commit(),
            };
            return commits(self);
        }
        let view = self.editor.store().snapshot();
        let (json, dropped) = to_prosemirror(&view, &self.root, self.options).unwrap();
        assert_eq!(dropped, []);
        json!({"doc": serde_json::from_str::<Value>(&json).unwrap()})
    }
}

/// Runs sessions, and returns what their clients counted.
fn run(folder: &Path, seed: u64, sessions: &str, rounds: &str) -> Value {
    let schemas = ["basic", "list", "table", "tiptap"].map(|name| (name, crate::of_schema(name)));
    let mut node = Command::new("node")
        .current_dir(folder)
        .args(["collab.mjs", &seed.to_string(), sessions, rounds])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = node.stdin.take().unwrap();
    let requests = BufReader::new(node.stdout.take().unwrap()).lines();
    let mut authority: Option<Authority<'_>> = None;
    let mut end = None;
    for request in requests {
        let request: Value = serde_json::from_str(&request.unwrap()).unwrap();
        if request["end"].is_object() {
            end = Some(request["end"].clone());
            break;
        }
        let answer = match &request["begin"] {
            Value::String(schema) => {
                let (_, of_schema) = schemas.iter().find(|(name, _)| name == schema).unwrap();
                authority = Some(Authority::new(&request["doc"], of_schema));
                json!({})
            }
            _ => authority.as_mut().unwrap().answer(&request),
        };
        writeln!(answers, "{answer}").unwrap();
    }
    node.wait().unwrap();
    end.expect("the clients end with a result")
}

/// With the packages installed (`npm ci` in `crates/formats/tests/prosemirror`).
#[test]
fn clients_of_prosemirror_collab_converge_with_doclock_as_an_editor() {
    let Some(folder) = scripts() else { return };
    let number = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let seed = seed();
    let sessions = number("DOCLOCK_SESSIONS", "20");
    let counts = run(&folder, seed, &sessions, &number("DOCLOCK_ROUNDS", "20"));
    println!("{counts}");
    let failure = counts["failure"].as_str().unwrap_or_default();
    assert_eq!(failure.chars().take(2000).collect::<String>(), "");
    for part in ["accepted", "old", "edits", "undone", "sent"] {
        assert!(counts[part].as_u64() > Some(0), "{counts}");
    }
    // Few selections have no place, so nearly all pulls are rebased.
    let of = |part: &str| counts[part].as_u64().unwrap();
    assert!(of("unselected") * 10 < of("pulls"), "{counts}");
}
