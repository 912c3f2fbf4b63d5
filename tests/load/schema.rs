//! A document and the schema of the store that opens it.

use doclock::{
    StoreOptions,
    document::NodeSpec,
    schema::{NodeType, Schema, SchemaViolation},
};

use crate::{restarted, small};

fn schema(content: &str) -> Schema {
    let builder = Schema::builder()
        .node("page", NodeType::new().content(content))
        .node("text", NodeType::new())
        .node(
            "list",
            NodeType::new().content("item*").unknown_attributes(true),
        )
        .node("item", NodeType::new());
    builder
        .mark("bold", doclock::schema::MarkType::new())
        .build()
        .unwrap()
}

#[test]
fn feed_05_a_document_that_violates_the_schema_is_refused() {
    let snapshot = restarted(&small().snapshot());
    let options = StoreOptions::new().schema(schema("text"));
    let violation = options.document(snapshot.clone()).unwrap_err();
    assert!(
        matches!(violation, SchemaViolation::ChildNotAllowed { .. }),
        "{violation:?}"
    );

    let options = StoreOptions::new().schema(schema("text*"));
    let store = options.document(snapshot).unwrap();
    let mut transaction = store.begin("ann").unwrap();
    transaction
        .insert(NodeSpec::new("item"), "page", 0)
        .unwrap();
    transaction.commit().unwrap_err();
    assert_eq!(store.version(), 2);
}
