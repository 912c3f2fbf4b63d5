//! The cost of an edit under a schema follows the blocks that it concerns.

use super::budget::{SIZE, grows_evenly_from};
use super::visits::limited;
use crate::dsl::*;
use crate::steps::counted;
use crate::transaction::{
    InputEffect, InputRule, InputTarget, Operation, TextSpan, on_node::JoinTarget,
};
use crate::{
    DataStore, Editor, StoreOptions, View,
    document::{NodeSpec, Position},
    schema::{NodeType, Schema},
};

fn schema() -> Schema {
    let block = || NodeType::new().group("block");
    Schema::builder()
        .node("page", NodeType::new().content("block+"))
        .node("p", block().content("text*"))
        .node("heading", block().content("text*"))
        .node("quote", block().content("block+"))
        .node("section", block().content("block+"))
        .node("list", block().content("item+"))
        .node("item", NodeType::new().content("p block*"))
        .node("text", NodeType::new().unknown_attributes(true))
        .root("page")
        .build()
        .unwrap()
}

/// A paragraph with a text, whose id is this.
fn line(id: String) -> NodeSpec {
    let text = text_node("text", "abc").with_id(id.as_str());
    element("p", [text]).with_id(format!("p-{id}"))
}

fn lines(size: usize) -> Vec<NodeSpec> {
    (0..size).map(|nth| line(format!("n{nth}"))).collect()
}

/// A list of paragraphs.
fn list(size: usize) -> NodeSpec {
    let items = lines(size).into_iter().enumerate();
    let items = items.map(|(nth, line)| element("item", [line]).with_id(format!("item{nth}")));
    element("list", items).with_id("list")
}

fn page(blocks: Vec<NodeSpec>) -> Editor {
    let store = DataStore::with_options(StoreOptions::new().schema(schema()));
    let editor = Editor::new(store, "ann");
    let page = element("page", blocks).with_id("page");
    editor
        .execute([create(page), set_root().on("page")])
        .unwrap();
    editor
}

/// The item around a list of paragraphs.
fn nested(size: usize) -> Vec<NodeSpec> {
    let outer = element("item", [line("outer".to_owned()), list(size)]);
    vec![element("list", [outer])]
}

/// Each item was split off, or joined, by an edit of the whole list.
#[test]
fn blocks_that_are_wrapped_or_lifted_together_are_moved_once() {
    type Blocks = fn(usize) -> Vec<NodeSpec>;
    type Edit = fn(usize) -> Operation;
    let cases: [(&str, Blocks, Edit); 8] = [
        ("wrapInList", lines, |size| {
            let (list, item) = (element("list", []), element("item", []));
            wrap_in_list_up_to(format!("p-n{}", size - 1), list, item).on("p-n0")
        }),
        ("wrapNode", lines, |size| {
            wrap_nodes_up_to(format!("p-n{}", size - 1), element("quote", [])).on("p-n0")
        }),
        (
            "liftNode",
            |size| vec![element("quote", lines(size))],
            |size| lift_nodes_up_to(format!("p-n{}", size - 1)).on("p-n0"),
        ),
        (
            "outdentNode",
            |size| vec![list(size)],
            |size| outdent_nodes_up_to(format!("item{}", size - 1)).on("item0"),
        ),
        ("outdentNode of a nested list", nested, |size| {
            outdent_nodes_up_to(format!("item{}", size - 1)).on("item0")
        }),
        ("outdentNode of one", nested, |_| outdent_node().on("item0")),
        (
            "indentNode",
            |size| vec![list(size)],
            |size| indent_nodes_up_to(format!("item{}", size - 1)).on("item1"),
        ),
        ("deleteRange", lines, |size| {
            delete_range(TextSpan::to(1, format!("n{}", size - 1), 1)).on("n0")
        }),
    ];
    for (what, blocks, edit) in cases {
        grows_evenly_from(SIZE / 5, what, |size| {
            let editor = page(blocks(size));
            let edit = edit(size);
            move || drop(editor.execute([edit]).unwrap())
        });
    }
}

/// Each text was searched for in the line.
#[test]
fn a_line_of_many_texts_is_read_once() {
    let edits: [(&str, Operation); 4] = [
        ("insertParagraph", insert_paragraph(1).on("t0")),
        ("joinBlock", join_block(JoinTarget::Any, true).on("t0")),
        (
            "deleteRange",
            delete_range(TextSpan::to(1, "t2", 1)).on("t0"),
        ),
        (
            "wrapInList",
            wrap_in_list(element("list", []), element("item", [])).on("p"),
        ),
    ];
    for (what, edit) in edits {
        grows_evenly_from(SIZE / 5, what, |size| {
            let text = |nth: usize| text_node("text", "abc").with_id(format!("t{nth}"));
            let editor = page(vec![
                element("p", (0..size).map(text)).with_id("p"),
                line("n".to_owned()),
            ]);
            let edit = edit.clone();
            move || drop(editor.execute([edit]).unwrap())
        });
    }
}

/// The types of all siblings were read before the edit was refused. The block was searched for
/// among all siblings before it.
#[test]
fn an_edit_of_one_block_reads_the_blocks_around_it_only() {
    type Edit = fn(&str) -> Operation;
    let edits: [(&str, Edit); 7] = [
        ("insertParagraph", |text| insert_paragraph(1).on(text)),
        ("joinBlock", |text| {
            join_block(JoinTarget::Any, true).on(text)
        }),
        ("insertParagraph, refused", |text| {
            insert_paragraph_of(1, "list").on(text)
        }),
        ("liftNode, refused", |text| {
            lift_node().on(format!("p-{text}"))
        }),
        ("wrapNode, refused", |text| {
            wrap_node(element("page", [])).on(format!("p-{text}"))
        }),
        ("joinBlock, refused", |text| {
            join_block(JoinTarget::Around, false).on(text)
        }),
        ("liftEmptyBlock, refused", |text| {
            lift_empty_block().on(text)
        }),
    ];
    for (what, edit) in edits {
        let taken = [300, 3_000, 30_000].map(|size| {
            let editor = page(lines(size));
            // The first search among siblings counts them.
            editor.store().snapshot().index_in_parent("p-n0");
            let edit = edit(&format!("n{}", size / 2));
            let (outcome, steps) = counted(|| editor.execute([edit]));
            assert_eq!(outcome.is_err(), what.contains("refused"), "{what}");
            steps
        });
        println!("{what}: {taken:?} steps");
        assert!(taken[2] <= taken[0] + 400, "{what}: {taken:?}");
    }
}

/// The nodes around a text were looked up to the root, and none of them counted.
#[test]
fn an_edit_too_deep_for_the_schema_climbs_no_further() {
    let taken = [1_000, 10_000].map(|depth| {
        let quote = |inner, _| element("quote", [inner]);
        let editor = page(vec![(0..depth).fold(line("n".to_owned()), quote)]);
        counted(|| drop(editor.execute([insert_paragraph(1).on("n")]).unwrap())).1
    });
    println!("insertParagraph: {taken:?} steps");
    assert!(taken[1] <= taken[0] + 10, "{taken:?}");
}

/// Each outcome was checked with all that the batch had changed before, and that did not count.
#[test]
fn transaction_04_the_outcome_of_a_rule_is_checked_and_counted_where_the_rule_has_edited() {
    let run = |size: usize, id: &str, effect: InputEffect| {
        let quote = element("quote", lines(size)).with_id("quote");
        let editor = page(vec![quote, line("beside".to_owned())]);
        let mut on = limited(editor.store());
        let transformed = transform_node("section", Vec::<(String, serde_json::Value)>::new());
        on.run([transformed.on("quote")]).unwrap();
        let rules = vec![InputRule::new("^abc$", effect); 20];
        let rules = apply_input_rules_at(Position::new(id, 3), rules);
        let before = on.steps_taken();
        let (_, visits) = counted(|| on.run([rules]).unwrap());
        (visits, on.steps_taken() - before)
    };
    // A list without an item is invalid.
    let insert = || InputEffect::Insert(InputTarget::new("list"));
    let beside = [100, 10_000].map(|size| run(size, "beside", insert()).0);
    println!("beside the section: {beside:?} visits");
    assert!(beside[1] <= beside[0] + 200, "{beside:?}");
    let heading = InputEffect::SetType(InputTarget::new("heading"));
    let (visits, steps) = run(10_000, "n5000", heading);
    println!("in the section: {visits} visits, {steps} steps");
    assert!(
        steps >= 40_000 && visits <= 4 * steps,
        "{visits} visits, {steps} steps"
    );
}
