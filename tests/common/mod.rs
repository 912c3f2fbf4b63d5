//! What the test files share: images of documents, a plain reference for them, and random edits.

#![allow(dead_code, reason = "every test file uses its part of this room")]

mod chooser;
mod dice;
mod edits;
mod late;
mod reference;
mod utf16;

use std::time::Duration;

use doclock::{DataStore, NodeId, StoreOptions, Transaction, View, document::Node};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

#[allow(unused_imports, reason = "every test file uses its part of this room")]
pub(crate) use self::{chooser::*, dice::*, edits::*, late::*, reference::*, utf16::*};

/// The session of every store here, so that a test can write down ids that look like the store's
/// own.
pub(crate) const SESSION: u32 = 7;

/// How long to wait for what comes at once unless it never comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn store() -> DataStore {
    DataStore::with_options(StoreOptions::new().session(SESSION))
}

pub(crate) fn id(text: &str) -> NodeId {
    NodeId::from(text)
}

/// Commits what `edit` does.
pub(crate) fn commit(
    store: &DataStore,
    edit: impl FnOnce(&mut Transaction),
) -> doclock::events::Committed {
    let mut transaction = store.begin("test").unwrap();
    edit(&mut transaction);
    transaction.commit().unwrap()
}

/// A document down to the last bit: the root and all nodes, sorted by id, as JSON.
pub(crate) fn image(view: &impl View) -> String {
    let mut nodes: Vec<&Node> = view.nodes().collect();
    nodes.sort_by_key(|node| node.id().to_string());
    serde_json::to_string(&(view.root(), nodes)).unwrap()
}

pub(crate) fn text(view: &impl View, of: &str) -> String {
    view.node(&id(of)).unwrap().text().to_string()
}

pub(crate) fn children(view: &impl View, of: &str) -> Vec<String> {
    let of = id(of);
    let children = view.children(&of);
    children.map(|node| node.id().to_string()).collect()
}

/// A mark as start, end and kind.
pub(crate) fn marks(view: &impl View, of: &str) -> Vec<(usize, usize, String)> {
    let marks = view.node(&id(of)).unwrap().marks().iter();
    marks
        .map(|mark| {
            let range = mark.range.clone().expect("a mark of a node has a range");
            (range.start, range.end, mark.kind.to_string())
        })
        .collect()
}

/// So many cases; where one fails, its seed is printed and kept beside the test file.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

/// Runs code that must not let a panic out. One that it lets out fails the test with a message,
/// because the payload may be a [`Bomb`], which the test's own thread could not drop either.
#[track_caller]
pub(crate) fn contained<T>(code: impl FnOnce() -> T) -> T {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)) {
        Ok(value) => value,
        Err(payload) => {
            std::mem::forget(payload);
            panic!("a panic came out");
        }
    }
}

/// The payload of a panic whose own `Drop` panics with another one.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(Self);
    }
}
