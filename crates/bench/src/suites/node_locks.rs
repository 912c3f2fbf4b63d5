//! The cost of node locks, their benefit, and their guarantees.

mod entries;
mod free;
mod parallel;
mod point;

use doclock::{DataStore, NodeId, document::NodeSpec};

use crate::Result;
use crate::report::Report;

const SUITE: &str = "node-locks";

const ABOUT: &str = "Locks on nodes of a document: root, sections, paragraphs. Four tables.";

const NOTES: [(&str, &str); 2] = [
    (
        "doclock",
        "all nodes of a set at once, first in, first out; circles are refused; owner, fencing token and statistics with every grant",
    ),
    (
        "lockable LockPool",
        "one lock per key, keys are u64; through blocking_lock, no limit on waiting, nothing detected",
    ),
];

pub fn run(rounds: usize, report: &Report) -> Result {
    report.heading(SUITE, ABOUT, &NOTES)?;
    free::run(rounds, report)?;
    parallel::run(rounds, report)?;
    point::run(rounds, report)?;
    entries::run(rounds, report)
}

/// The text every paragraph starts with: forty characters, one byte each.
const TEXT: &str = "The quick brown fox jumps over lazy dogs";

/// The kind of ids in a document.
#[derive(Clone, Copy, PartialEq)]
enum Ids {
    Generated,
    Named,
}

/// A store with sections of paragraphs in a root, and the ids of the paragraphs.
fn document(sections: usize, paragraphs: usize, ids: Ids) -> Result<(DataStore, Vec<NodeId>)> {
    let store = DataStore::new();
    let mut transaction = store.begin("setup")?;
    let called = |spec: NodeSpec, name: String| match ids {
        Ids::Generated => spec,
        Ids::Named => spec.with_id(name),
    };
    let root = transaction.create(called(NodeSpec::new("document"), "root".into()))?;
    transaction.set_root(&root)?;
    let mut found = Vec::with_capacity(sections * paragraphs);
    for section in 0..sections {
        let spec = called(NodeSpec::new("section"), format!("s{section}"));
        let parent = transaction.insert(spec, &root, None)?;
        for paragraph in 0..paragraphs {
            let spec = NodeSpec::new("paragraph").with_text(TEXT);
            let spec = called(spec, format!("s{section}p{paragraph}"));
            found.push(transaction.insert(spec, &parent, None)?);
        }
    }
    transaction.commit()?;
    Ok((store, found))
}
