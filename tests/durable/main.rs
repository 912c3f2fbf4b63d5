//! Documents that survive: open, commit, end, open again.

#![cfg(feature = "redb")]

#[path = "../common/mod.rs"]
mod common;

mod backup;
mod continued;
mod creation;
mod earlier;
mod exactly_once;
mod failures;
mod files;
mod forged;
mod histories;
mod kept;
mod memory;
mod moved;
mod parts;
mod reading;
mod replica;
mod salvage;
mod subscriptions;
mod takeover;
mod unloaded;
mod values;
mod waiting;

use doclock::durable::{Durability, DurableOptions};
use doclock::{DataStore, TransactionManager, dsl::*};
use tempfile::TempDir;

/// A folder with a document.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("notes.doclock")
    }

    fn open(&self) -> DataStore {
        DataStore::open(self.path()).unwrap()
    }

    fn open_with(&self, options: DurableOptions) -> DataStore {
        DataStore::open_with(self.path(), options).unwrap()
    }
}

/// Creates a node with this id.
fn add(store: &DataStore, id: &str) -> u64 {
    let manager = TransactionManager::new(store.clone());
    let node = text_node("paragraph", id).with_id(id);
    manager.execute(create(node)).unwrap().version
}

fn later() -> DurableOptions {
    DurableOptions::new().durability(Durability::Later)
}
