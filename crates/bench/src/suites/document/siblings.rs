//! Whether the number of siblings matters.

use std::time::Duration;

use doclock::dsl::{add_child, delete_node, element};
use doclock::{DataStore, Editor, NodeId, document::NodeSpec};

use super::SUITE;
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

pub const NOTE: (&str, &str) = (
    "doclock N siblings",
    "Editor::execute: a child is inserted among N, and deleted again; both stores have as many nodes in all",
);

/// The first is the question; the ratio refers to the second.
const SUBJECTS: [(&str, usize); 2] = [
    ("doclock 100000 siblings", 100_000),
    ("doclock 10 siblings", 10),
];

const CHILDREN: usize = 200;

/// The position of the child.
#[derive(Clone, Copy)]
enum At {
    First,
    Middle,
    Last,
}

/// The measured part.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Insert,
    Delete,
}

struct Siblings {
    editor: Editor,
    parent: NodeId,
    siblings: usize,
}

impl Siblings {
    fn open(siblings: usize) -> Result<Self> {
        let store = DataStore::new();
        let children = |count| vec![NodeSpec::new("paragraph"); count];
        let most = SUBJECTS[0].1;
        let mut transaction = store.begin("benchmark")?;
        let parent = transaction.create(element("doc", children(siblings)))?;
        transaction.create(element("doc", children(most - siblings)))?;
        transaction.commit()?;
        Ok(Self {
            editor: Editor::new(store, "benchmark"),
            parent,
            siblings,
        })
    }

    fn time(&self, part: Part, at: At) -> Result<Duration> {
        let index = match at {
            At::First => 0,
            At::Middle => self.siblings / 2,
            At::Last => self.siblings,
        };
        let mut time = Duration::ZERO;
        for _ in 0..CHILDREN {
            let mut child = None;
            let inserting = timed(|| {
                let insert = add_child(NodeSpec::new("paragraph"), index).on(&self.parent);
                let result = self.editor.execute([insert])?;
                child = result.operations[0].created.first().cloned();
                Ok(())
            })?;
            let child = child.ok_or("no child was created")?;
            let deleting = timed(|| {
                self.editor.execute([delete_node().on(child)])?;
                Ok(())
            })?;
            time += if part == Part::Insert {
                inserting
            } else {
                deleting
            };
        }
        Ok(time)
    }
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects = SUBJECTS
        .iter()
        .map(|&(_, siblings)| Siblings::open(siblings).map(Box::new))
        .collect::<Result<Vec<_>>>()?;
    let cases = [
        ("insert first", Part::Insert, At::First),
        ("insert in the middle", Part::Insert, At::Middle),
        ("insert last", Part::Insert, At::Last),
        ("delete first", Part::Delete, At::First),
        ("delete in the middle", Part::Delete, At::Middle),
        ("delete last", Part::Delete, At::Last),
    ];
    for (case, part, at) in cases {
        let spreads = interleaved(rounds, &mut subjects, |_, subject| {
            let time = subject.time(part, at)?;
            Ok(Some(time.as_secs_f64() * 1e9 / CHILDREN as f64))
        })?;
        let names = SUBJECTS.iter().map(|&(name, _)| name);
        report.case(SUITE, case, Unit::NsPerTransaction, names.zip(spreads))?;
    }
    Ok(())
}
