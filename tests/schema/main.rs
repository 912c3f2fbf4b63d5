//! A store with a schema: the definition of a schema, enforcement on every write path, and the cost
//! of checks.

#[path = "../common/mod.rs"]
mod common;

mod attributes;
mod commit;
mod content;
mod expressions;

use doclock::{
    CommitError, DataStore, Draft, StoreOptions,
    document::NodeSpec,
    schema::{NodeType, Schema, SchemaError},
};

use common::{SESSION, image};

fn schema(json: &str) -> Schema {
    serde_json::from_str(json).unwrap()
}

/// Types `a` to `d` with any children. Group `ab` has `a` and `b`, and group `bc` has `b` and `c`.
/// Type `p` has this content.
fn letters(content: &str) -> Result<Schema, SchemaError> {
    let letter = |groups: &str| NodeType::new().group(groups).content("(p|any)*");
    Schema::builder()
        .node("p", NodeType::new().content(content))
        .node("a", letter("any ab"))
        .node("b", letter("bc any ab"))
        .node("c", letter("any bc"))
        .node("d", letter("any"))
        .build()
}

/// A node `p` with children of these types.
fn parent_of(types: &str) -> NodeSpec {
    let children = types.chars().map(|c| NodeSpec::new(c.to_string()));
    NodeSpec::new("p").with_id("p").with_children(children)
}

fn store_with(schema: Schema) -> DataStore {
    DataStore::with_options(StoreOptions::new().session(SESSION).schema(schema))
}

/// The violation of a commit with this edit. The failure must be the only effect.
fn refused(store: &DataStore, edit: impl FnOnce(&mut Draft)) -> String {
    let (before, version) = (image(&store.snapshot()), store.version());
    let events = store.subscribe();
    let mut transaction = store.begin("test").unwrap();
    edit(&mut transaction);
    let error = transaction.commit().unwrap_err();
    assert_eq!(image(&store.snapshot()), before, "nothing changed");
    assert_eq!(store.version(), version);
    assert!(!store.is_locked(), "the lock is free again");
    assert!(events.try_recv().is_err(), "nothing was announced");
    match error {
        CommitError::Schema(violation) => violation.to_string(),
        other => panic!("{other}"),
    }
}
