//! The guarantees of begin, commit and rollback, by number.

#[path = "../common/mod.rs"]
mod common;

mod events;
mod ids;
mod kept;
mod order;
mod parents;
mod root;
mod savepoints;
mod traces;
mod versions;
mod visible;

use common::{commit, store};
use doclock::{DataStore, document::NodeSpec};

fn paragraph(id: &str) -> NodeSpec {
    NodeSpec::new("paragraph").with_id(id)
}

/// A root with two paragraphs, the first with a text.
fn small_document() -> DataStore {
    let store = store();
    commit(&store, |transaction| {
        let first = paragraph("first").with_text("Hello");
        let root = paragraph("root").with_children([first, paragraph("second")]);
        let root = transaction.create(root).unwrap();
        transaction.set_root(&root).unwrap();
    });
    store
}
