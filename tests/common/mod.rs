//! Shared code of the test files: document images, a plain reference, and random edits.

#![allow(dead_code, reason = "every test file uses its part of this room")]

mod chooser;
mod dice;
mod edits;
mod late;
mod reference;
mod utf16;

use std::time::Duration;

use doclock::{
    DataStore, Draft, Editor, NodeId, StoreOptions, View, codes::CodedError, document::Node,
    dsl::*, history::HistoryOptions,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

#[allow(unused_imports, reason = "every test file uses its part of this room")]
pub(crate) use self::{chooser::*, dice::*, edits::*, late::*, reference::*, utf16::*};

/// The session of every store here, so tests can predict generated ids.
pub(crate) const SESSION: u32 = 7;

/// The timeout for events that come at once or never.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn store() -> DataStore {
    DataStore::with_options(StoreOptions::new().session(SESSION))
}

/// A store whose log composes all commits that are more than so many bytes.
pub(crate) fn store_with_log(limit: usize) -> DataStore {
    DataStore::with_options(StoreOptions::new().session(SESSION).log_limit(limit))
}

/// Lets the store forget what no history can undo or redo: it does so after many commits.
pub(crate) fn forget(store: &DataStore) {
    let options = HistoryOptions::new().limit(1);
    let filler = Editor::new(store.clone(), "filler").with_history(options);
    for _ in 0..450 {
        let node = element("filler", []).with_id("filler");
        transaction(&filler, create(node)).commit().unwrap();
        let delete = delete_node().on("filler");
        transaction(&filler, delete).commit().unwrap();
    }
    record(store);
}

/// Lets the store record its commits: an editor with nothing to undo looks for an entry.
pub(crate) fn record(store: &DataStore) {
    let watcher = Editor::new(store.clone(), "watcher");
    let key = format!("record {}", store.version());
    let outcome = watcher.undo().idempotent(key.as_str()).commit();
    assert_eq!(outcome.unwrap_err().code(), "nothingToUndo");
}

pub(crate) fn id(text: &str) -> NodeId {
    NodeId::from(text)
}

/// Commits the changes of `edit`.
pub(crate) fn commit(
    store: &DataStore,
    edit: impl FnOnce(&mut Draft),
) -> doclock::transaction::TransactionResult {
    let mut transaction = store.begin("test").unwrap();
    edit(&mut transaction);
    transaction.commit().unwrap()
}

/// An exact image of a document: the root and all nodes, sorted by id, as JSON.
pub(crate) fn image(view: &impl View) -> String {
    let mut nodes: Vec<&Node> = view.nodes().collect();
    nodes.sort_by_key(|node| node.id().to_string());
    serde_json::to_string(&(view.root(), nodes)).unwrap()
}

pub(crate) fn text(view: &impl View, of: &str) -> String {
    view.node(id(of)).unwrap().text().to_string()
}

pub(crate) fn children(view: &impl View, of: &str) -> Vec<String> {
    let of = id(of);
    let children = view.children(&of);
    children.map(|node| node.id().to_string()).collect()
}

/// A mark as start, end and kind.
pub(crate) fn marks(view: &impl View, of: &str) -> Vec<(usize, usize, String)> {
    let marks = view.node(id(of)).unwrap().marks().iter();
    marks
        .map(|mark| {
            let range = mark.range.clone().expect("a mark of a node has a range");
            (range.start, range.end, mark.kind.to_string())
        })
        .collect()
}

/// The number of cases; the seed of a failure is printed and stored next to the test file.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}
