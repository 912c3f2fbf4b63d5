//! Documents that are saved and loaded (FEED 5).

#[path = "../common/mod.rs"]
mod common;

mod continued;
mod form;
mod large;
mod progress;
mod refused;
mod schema;

use doclock::dsl::*;
use doclock::{DataStore, Snapshot, TransactionManager, document::Mark};
use serde_json::json;

use common::store;

/// A page with two texts, a detached list, and an item that was deleted, in two versions.
fn small() -> DataStore {
    let store = store();
    let manager = TransactionManager::new(store.clone());
    let bold = [Mark::new("bold", 0..2)];
    let page = element(
        "page",
        [
            text_node("text", "Io").with_id("t").with_marks(bold),
            text_node("text", ""),
        ],
    );
    let list = element("list", [element("item", [])]).with_id("loose");
    let list = list.with_attributes([("depth", json!({"of": [1, 2.5, null]}))]);
    let build = [
        create(page.with_id("page")),
        create(list),
        create(element("item", []).with_id("7:9")),
        set_root().on("page"),
    ];
    manager.execute(build).unwrap();
    manager.execute([delete_node().on("7:9")]).unwrap();
    store
}

/// Saves to a stream.
fn saved(snapshot: &Snapshot) -> Vec<u8> {
    let mut file = Vec::new();
    serde_json::to_writer(&mut file, snapshot).unwrap();
    file
}

/// Loads from a stream.
fn loaded(file: &[u8]) -> serde_json::Result<Snapshot> {
    serde_json::from_reader(file)
}

/// A document that another process has loaded.
fn restarted(snapshot: &Snapshot) -> Snapshot {
    loaded(&saved(snapshot)).unwrap()
}
