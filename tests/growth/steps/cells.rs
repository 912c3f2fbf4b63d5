//! Cells are copied in time that follows the cells of their rows.

use super::budget::grows_evenly_from;
use crate::dsl::*;
use crate::{
    DataStore, Editor, StoreOptions,
    document::NodeSpec,
    schema::{NodeType, Schema, TableRole},
    transaction::TextSpan,
};

/// A schema whose rows need a cell, so that not each row of a table is copied.
fn schema() -> Schema {
    let role = |content: &str, role| NodeType::new().content(content).table_role(role);
    let builder = Schema::builder()
        .node("table", role("row*", TableRole::Table))
        .node("row", role("cell+", TableRole::Row));
    let cell = role("p+", TableRole::Cell).unknown_attributes(true);
    let builder = builder.node("cell", cell);
    let builder = builder.node("p", NodeType::new().content("text*"));
    builder.node("text", NodeType::new()).build().unwrap()
}

/// Each copied cell looked at all cells of the rows that it spans.
#[test]
fn the_rows_that_copied_cells_span_are_read_once() {
    grows_evenly_from(200, "copying cells", |size| {
        let cell = || element("cell", [element("p", [text_node("text", "x")])]);
        let left = |_| cell();
        let tall = |nth| {
            let cell = cell().with_id(format!("n{nth}"));
            cell.with_attributes([("rowspan", 2.into())])
        };
        let first: Vec<NodeSpec> = (0..size).map(left).chain((0..size).map(tall)).collect();
        let rows = [element("row", first), element("row", (0..size).map(left))];
        let editor = Editor::new(
            DataStore::with_options(StoreOptions::new().schema(schema())),
            "ann",
        );
        editor.execute([create(element("table", rows))]).unwrap();
        let last = format!("n{}", size - 1);
        move || {
            drop(
                editor
                    .execute([copy_range(TextSpan::to(0, last, 0)).on("n0")])
                    .unwrap(),
            )
        }
    });
}
