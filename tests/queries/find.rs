//! Finding nodes by their properties.

use doclock::{View, document::NodeSpec};
use serde_json::{Value, json};

use crate::common::{commit, id, store};
use crate::{DEEP, deep_chain};

fn page() -> NodeSpec {
    let text = |name: &str, text: &str| NodeSpec::new("text").with_id(name).with_text(text);
    let heading = |name: &str, level: u8, child| {
        NodeSpec::new("heading")
            .with_id(name)
            .with_attributes([("level", level.into())])
            .with_children([child])
    };
    let quote = NodeSpec::new("quote").with_id("quote").with_children([
        heading("inner", 2, text("t1", "needle")),
        NodeSpec::new("rule").with_id("rule"),
    ]);
    NodeSpec::new("page").with_id("page").with_children([
        quote,
        heading("outer", 1, text("t2", "hay needle hay")),
        heading("last", 2, text("t3", "hay")),
    ])
}

fn found<'a>(nodes: impl Iterator<Item = &'a doclock::document::Node>) -> Vec<String> {
    nodes.map(|node| node.id().to_string()).collect()
}

fn look(view: &impl View) {
    let page = id("page");
    assert_eq!(
        found(view.find_by_type(&page, "heading")),
        ["inner", "outer", "last"]
    );
    assert_eq!(found(view.find_by_type(&id("quote"), "heading")), ["inner"]);
    assert_eq!(
        found(view.find_by_type(&id("rule"), "rule")),
        ["rule"],
        "the top counts"
    );
    assert_eq!(
        found(view.find_by_attribute(&page, "level", &json!(2))),
        ["inner", "last"]
    );
    assert_eq!(
        view.find_by_attribute(&page, "level", &json!("2")).count(),
        0
    );
    assert_eq!(
        view.find_by_attribute(&page, "gone", &Value::Null).count(),
        0
    );
    assert_eq!(found(view.find_by_text(&page, "needle")), ["t1", "t2"]);
    assert_eq!(
        view.find_by_text(&page, "needlehay").count(),
        0,
        "from node to node"
    );
    let leaves = view.find(&page, |node| node.children().is_empty());
    assert_eq!(found(leaves), ["t1", "rule", "t2", "t3"]);
    assert_eq!(view.find(&id("missing"), |_| true).count(), 0);
}

#[test]
fn a_search_runs_in_document_order_and_includes_its_root() {
    let store = store();
    let mut transaction = store.begin("test").unwrap();
    transaction.create(page()).unwrap();
    look(&transaction);
    transaction.commit().unwrap();
    look(&store.snapshot());
}

#[test]
fn a_search_in_a_transaction_finds_its_own_writes() {
    let store = store();
    commit(&store, |transaction| {
        drop(transaction.create(page()).unwrap())
    });
    let mut transaction = store.begin("test").unwrap();
    transaction.insert_text(id("t3"), 3, "stack").unwrap();
    transaction.delete(id("quote")).unwrap();
    let page = id("page");
    assert_eq!(found(transaction.find_by_text(&page, "haystack")), ["t3"]);
    assert_eq!(found(transaction.find_by_text(&page, "needle")), ["t2"]);
    assert_eq!(
        found(store.snapshot().find_by_text(&page, "needle")),
        ["t1", "t2"]
    );
}

/// A long text is stored in chunks. A match across the border of two is found.
#[test]
fn text_across_pieces_of_a_long_text_is_found() {
    let store = store();
    let mut transaction = store.begin("test").unwrap();
    let mut create = |text: String| {
        let node = transaction
            .create(NodeSpec::new("text").with_text(text))
            .unwrap();
        let first = transaction
            .node(&node)
            .unwrap()
            .text()
            .chunks()
            .next()
            .unwrap()
            .len();
        (node, first)
    };
    let (_, border) = create("x".repeat(5_000));
    let before = "x".repeat(border - 3);
    let (node, same_border) = create(format!("{before}needle{}", "x".repeat(5_000 - border - 3)));
    assert_eq!(border, same_border, "the border is within the word");
    assert_eq!(transaction.find_by_text(&node, "needle").count(), 1);
    assert_eq!(transaction.find_by_text(&node, "xneedlex").count(), 1);
    assert_eq!(transaction.find_by_text(&node, "needley").count(), 0);
    assert_eq!(transaction.find_by_text(&node, "").count(), 1);
}

#[test]
fn a_hundred_thousand_levels_are_searched() {
    let (store, top, bottom) = deep_chain();
    let view = store.snapshot();
    assert_eq!(view.find_by_text(&top, "b").next().unwrap().id(), &bottom);
    assert_eq!(view.find_by_type(&top, "box").count(), DEEP);
}
