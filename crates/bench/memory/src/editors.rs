//! The memory of idle editors beside one that types.

use doclock::{DataStore, Editor, document::NodeSpec, dsl::insert_text};
use serde::{Deserialize, Serialize};

use crate::{Result, bytes};

pub struct Case {
    pub name: &'static str,
    pub note: &'static str,
    /// How many commits the idle editors have not read.
    unread: usize,
    /// Whether they read these at the end.
    reads: bool,
}

pub const CASES: [Case; 4] = [
    Case {
        name: "idle editors",
        note: "each with a history of 20 edits and everything read",
        unread: 0,
        reads: false,
    },
    Case {
        name: "10,000 unread",
        note: "the same after 10,000 commits of another editor, which they have not read",
        unread: 10_000,
        reads: false,
    },
    Case {
        name: "100,000 unread",
        note: "after 100,000 commits",
        unread: 100_000,
        reads: false,
    },
    Case {
        name: "100,000 read",
        note: "after 100,000 commits, which all have read",
        unread: 100_000,
        reads: true,
    },
];

/// The memory of an editor.
#[derive(Serialize, Deserialize)]
pub struct Row {
    suite: String,
    pub case: String,
    subject: String,
    /// Bytes of all editors and the log, for each editor.
    value: f64,
    unit: String,
}

pub fn heading(editors: usize) {
    println!("\n== editors ==");
    println!(
        "{editors} idle editors of a document of 1,000 texts, beside one that inserts letters anywhere. Bytes for"
    );
    println!("each idle editor, with its share of the commit log.\n");
    for case in &CASES {
        println!("  {:14}  {}", case.name, case.note);
    }
    println!("\n{:14} {:>9}", "case", "bytes");
}

impl Row {
    pub fn line(&self) -> String {
        format!("{:14} {:>9}", self.case, self.value)
    }
}

pub fn measured(case: &Case, editors: usize) -> Result<Row> {
    const TEXTS: usize = 1_000;
    const EDITS: usize = 20;
    let store = DataStore::new();
    let mut transaction = store.begin("memory")?;
    let root = transaction.create(NodeSpec::new("page"))?;
    let texts = (0..TEXTS).map(|_| transaction.insert(NodeSpec::new("text"), &root, None));
    let texts: Vec<_> = texts.collect::<std::result::Result<_, _>>()?;
    transaction.commit()?;
    let busy = Editor::new(store.clone(), "busy");
    let letter = |nth: usize| insert_text(0, "x").on(&texts[nth * 7_919 % TEXTS]);
    busy.execute(letter(0))?;

    let before = bytes();
    let idle: Vec<Editor> = (0..editors)
        .map(|nth| Editor::new(store.clone(), format!("{nth}")))
        .collect();
    for (nth, editor) in idle.iter().enumerate() {
        for edit in 0..EDITS {
            editor.execute(letter(nth * EDITS + edit))?;
        }
    }
    let read = || idle.iter().for_each(|editor| drop(editor.selection()));
    read();
    for nth in 0..case.unread {
        busy.execute(letter(nth))?;
    }
    if case.reads {
        read();
        busy.execute(letter(0))?;
    }
    let value = ((bytes() - before) / editors as f64).round();
    Ok(Row {
        suite: "idle editors".into(),
        case: case.name.into(),
        subject: "doclock".into(),
        value,
        unit: "bytes/editor".into(),
    })
}
