//! The guarantees of transactions and the DSL, by number, and those of the lock for panics of code.

#[path = "../common/mod.rs"]
mod common;

mod errors;
mod lists;
mod malformed;
mod panics;
mod payloads;
mod results;
mod scripts;
mod units;

use common::store;
use doclock::dsl::*;
use doclock::{
    DataStore, TransactionManager,
    transaction::{OperationError, TransactionError},
};

/// A store with the text node `note` (`Hello`).
fn with_note() -> DataStore {
    let store = store();
    TransactionManager::new(store.clone())
        .execute([create(text_node("inline-text", "Hello").with_id("note"))])
        .unwrap();
    store
}

fn manager(store: &DataStore) -> TransactionManager {
    TransactionManager::new(store.clone())
}

/// Index, name and cause of the operation that failed.
fn failed(error: TransactionError) -> (usize, &'static str, OperationError) {
    match error {
        TransactionError::Operation {
            index, name, cause, ..
        } => (index, name, cause),
        other => panic!("{other}"),
    }
}
