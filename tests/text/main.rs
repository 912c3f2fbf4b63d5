//! The guarantees of texts and marks, by number, as far as operations cover them.

#[path = "../common/mod.rs"]
mod common;

mod edits;
mod moved;
mod normal;
mod nothing;
mod units;

use std::ops::Range;

use common::{commit, store};
use doclock::dsl::*;
use doclock::{DataStore, document::Mark};
use serde_json::json;

/// A store with the text node `t`.
fn with_text(text: &str, marks: impl IntoIterator<Item = Mark>) -> DataStore {
    let store = store();
    commit(&store, |transaction| {
        let spec = text_node("inline-text", text).with_id("t");
        transaction.create(spec.with_marks(marks)).unwrap();
    });
    store
}

fn bold(range: Range<usize>) -> Mark {
    Mark::new("bold", range)
}

fn link(range: Range<usize>, href: &str) -> Mark {
    Mark::new("link", range).with_attributes([("href", json!(href))])
}
