//! Properties of every operation on any target.
//!
//! [`generator`] draws operations for a document; each other file checks one property.

#[path = "../common/mod.rs"]
mod common;

mod coverage;
mod deep;
mod generator;
mod inverse;
mod random_json;
mod rollback;
mod saved;
mod script;
mod sound;
mod undo;
mod utf16;

use std::time::Duration;

use common::store;
use doclock::dsl::*;
use doclock::{
    DataStore, Draft, TransactionManager,
    document::{Change, EditError, Mark, NodeSpec},
};
use serde_json::json;

/// A page of headings, paragraphs and nested lists, and detached nodes. Some nodes have custom ids,
/// the others generated ones.
fn furnished() -> DataStore {
    let store = store();
    furnish(&store);
    store
}

fn furnish(store: &DataStore) {
    let build = [
        create(page()),
        create(paragraph([text_node("text", "loose").with_id("loose")])),
        set_root().on("page"),
    ];
    TransactionManager::new(store.clone())
        .execute(build)
        .unwrap();
    let for_long = Duration::from_secs(1 << 20);
    drop(store.leases().acquire("leased", "test", for_long).unwrap());
}

fn page() -> NodeSpec {
    let bold = [Mark::new("bold", 0..3)];
    let link = [Mark::new("link", 2..8).with_attributes([("href", json!("x"))])];
    let first = paragraph([
        text_node("text", "one ").with_id("a"),
        text_node("text", "two three").with_marks(bold),
        text_node("text", "").with_id("b"),
        text_node("code", "  if\n  so\n").with_id("c"),
    ]);
    let second = paragraph([text_node("text", "漢字 🦀 ß **four**").with_marks(link)]);
    let inner = element("list", [item("five"), item("six").with_id("d")]);
    let outer = element(
        "list",
        [
            item("seven").with_children([inner]),
            item("eight"),
            item("").with_id("e"),
        ],
    );
    element(
        "page",
        [
            text_node("heading", "Title").with_attributes([("level", json!(1))]),
            first.with_id("f"),
            second,
            outer.with_id("g"),
            text_node("text", "the end"),
        ],
    )
    .with_id("page")
}

fn paragraph(children: impl IntoIterator<Item = NodeSpec>) -> NodeSpec {
    element("paragraph", children)
}

fn item(text: &str) -> NodeSpec {
    element("item", [text_node("text", text)])
}

/// Applies the inverses of changes, the last first.
fn undo(on: &mut Draft, changes: &[Change]) -> Result<(), EditError> {
    let mut changes = changes.iter().rev();
    changes.try_for_each(|change| on.apply(change.inverse()))
}

fn redo(on: &mut Draft, changes: &[Change]) -> Result<(), EditError> {
    let mut changes = changes.iter();
    changes.try_for_each(|change| on.apply(change.clone()))
}
