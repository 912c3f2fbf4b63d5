//! The memory of a lock on a node while it is held.

use doclock::{
    DataStore, NodeGuard, NodeId, StoreOptions,
    document::NodeSpec,
    lock::{AcquireOptions, node::Scope},
    time::ManualClock,
};
use serde::{Deserialize, Serialize};

use crate::{Result, bytes};

/// Paragraphs of a section.
const SECTION: usize = 100;

type Lock = fn(&DataStore, &[NodeId]) -> Result<Vec<NodeGuard>>;

pub struct Case {
    pub name: &'static str,
    pub note: &'static str,
    lock: Lock,
}

pub const CASES: [Case; 2] = [
    Case {
        name: "held by one",
        note: "one owner has all of them",
        lock: |store, ids| {
            let all = ids.iter().cloned().fold(Scope::new(), Scope::write);
            Ok(vec![take(store, all)?])
        },
    },
    Case {
        name: "held by each",
        note: "each has an owner of its own, with claim, token and times",
        lock: |store, ids| {
            let one = |id: &NodeId| take(store, Scope::new().write(id.clone()));
            ids.iter().map(one).collect()
        },
    },
];

/// The memory of one locked node.
#[derive(Serialize, Deserialize)]
pub struct Row {
    suite: String,
    pub case: String,
    subject: String,
    /// Bytes allocated while the locks are held, including those for ancestors.
    value: f64,
    unit: String,
    /// Bytes still allocated after their release.
    kept: f64,
}

pub fn heading(nodes: usize) {
    println!("\n== held ==");
    println!(
        "{nodes} paragraphs, {SECTION} in a section, are locked beside another holder. Bytes that"
    );
    println!(
        "are allocated for each, with its share of what is locked above; and all that is left afterwards.\n"
    );
    for case in &CASES {
        println!("  {:14}  {}", case.name, case.note);
    }
    println!("\n{:14} {:>9} {:>9}", "case", "bytes", "kept");
}

impl Row {
    pub fn line(&self) -> String {
        format!("{:14} {:>9.1} {:>9}", self.case, self.value, self.kept)
    }
}

pub fn measured(case: &Case, nodes: usize) -> Result<Row> {
    // The size of the metrics depends on durations, not on counts.
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    let ids = document(&store, nodes)?;
    let _beside = take(&store, Scope::new().write("beside"))?;
    // Allocations of the first use do not count.
    drop((case.lock)(&store, &ids[..1])?);
    let before = bytes();
    let guards = (case.lock)(&store, &ids)?;
    let table = bytes() - before - (guards.capacity() * size_of::<NodeGuard>()) as f64;
    drop(guards);
    Ok(Row {
        suite: "held".into(),
        case: case.name.into(),
        subject: "doclock".into(),
        value: table / nodes as f64,
        unit: "bytes".into(),
        kept: bytes() - before,
    })
}

fn document(store: &DataStore, nodes: usize) -> Result<Vec<NodeId>> {
    let mut transaction = store.begin("setup")?;
    let root = transaction.create(NodeSpec::new("document"))?;
    let mut ids = Vec::with_capacity(nodes);
    while ids.len() < nodes {
        let section = transaction.insert(NodeSpec::new("section"), &root, None)?;
        for _ in 0..SECTION.min(nodes - ids.len()) {
            ids.push(transaction.insert(NodeSpec::new("paragraph"), &section, None)?);
        }
    }
    transaction.commit()?;
    Ok(ids)
}

fn take(store: &DataStore, scope: Scope) -> Result<NodeGuard> {
    let options = AcquireOptions::new().no_wait().unbound();
    Ok(store
        .node_locks()
        .request("owner", scope)
        .options(options)
        .wait()?)
}
