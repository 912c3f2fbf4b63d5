//! Edits of tables. `crates/formats/tests/prosemirror/operations.rs` compares their results with
//! those of prosemirror-tables.
//!
//! A table is drawn with a letter for each place: `aab` is a row with a cell `a` over two columns
//! and a cell `b`. A capital letter is a header, `.` a new cell, and a blank a place without one.

use doclock::document::{
    EditError, Fragment, HeaderPart, Limit, Limits, Mark, Node, NodeSpec, Position, Selection,
    TableSide,
};
use doclock::schema::{AttributeSpec, MarkType, NodeType, Schema, TableRole, ValueType};
use doclock::transaction::{NodeOperation, Operation, OperationError, TextSpan, TransactionError};
use doclock::{DataStore, Editor, NodeId, StoreOptions, View, dsl::*};
use serde_json::{Value, json};

use crate::common::{Dice, children, image, seed};

fn schema() -> Schema {
    schema_of("(cell | head)*")
}

/// A schema whose rows have this content.
pub(crate) fn schema_of(row: &str) -> Schema {
    let cell = |role| {
        let cell = NodeType::new().content("block+").table_role(role);
        cell.unknown_attributes(true).isolating(true)
    };
    Schema::builder()
        .node("page", NodeType::new().content("block+"))
        .node("p", NodeType::new().group("block").content("text*"))
        .node("table", role("row*", TableRole::Table).group("block"))
        .node("row", role(row, TableRole::Row))
        .node("cell", cell(TableRole::Cell))
        .node("head", cell(TableRole::HeaderCell))
        .node("text", NodeType::new())
        .root("page")
        .build()
        .unwrap()
}

pub(crate) fn role(content: &str, role: TableRole) -> NodeType {
    NodeType::new().content(content).table_role(role)
}

/// A drawn table whose cells have their letter as id and as text.
fn table(rows: &[&str]) -> NodeSpec {
    let places: Vec<Vec<char>> = rows.iter().map(|row| row.chars().collect()).collect();
    let mut seen = String::new();
    let rows = places.iter().enumerate().map(|(nth, row)| {
        let mut cells = Vec::new();
        for letter in row {
            if seen.contains(*letter) {
                continue;
            }
            seen.push(*letter);
            let columns = row.iter().filter(|place| *place == letter).count();
            let rows = places.iter().filter(|row| row.contains(letter)).count();
            cells.push(
                cell(*letter)
                    .with_attributes([("colspan", columns.into()), ("rowspan", Value::from(rows))]),
            );
        }
        element("row", cells).with_id(format!("row-{nth}"))
    });
    element("table", rows).with_id("table")
}

fn cell(letter: char) -> NodeSpec {
    let id = letter.to_ascii_lowercase().to_string();
    let kind = if letter.is_uppercase() {
        "head"
    } else {
        "cell"
    };
    let line = text_node("text", id.clone()).with_id(format!("{id}-text"));
    element(kind, [element("p", [line])]).with_id(id)
}

pub(crate) fn opened(rows: &[&str]) -> Editor {
    opened_in(schema(), rows)
}

pub(crate) fn opened_in(schema: Schema, rows: &[&str]) -> Editor {
    let store = StoreOptions::new().session(7).schema(schema);
    let editor = Editor::new(DataStore::with_options(store), "ann");
    let last = element("p", [text_node("text", "end").with_id("end")]);
    let page = element("page", [table(rows), last]).with_id("page");
    editor
        .execute([create(page), set_root().on("page")])
        .unwrap();
    editor
}

/// The table as it is drawn: computed from the attributes of its cells alone.
pub(crate) fn drawn(view: &impl View) -> Vec<String> {
    drawn_by(view, |cell| cell.id().to_string())
}

/// The table, drawn with the first letter that a function gives each cell.
pub(crate) fn drawn_by(view: &impl View, letter: impl Fn(&Node) -> String) -> Vec<String> {
    let rows: Vec<_> = view.children("table").collect();
    let mut places: Vec<Vec<char>> = vec![Vec::new(); rows.len()];
    for (top, row) in rows.iter().enumerate() {
        let mut left = 0;
        for cell in view.children(row.id()) {
            while places[top].get(left).is_some_and(|place| *place != ' ') {
                left += 1;
            }
            let span = |name| {
                cell.attributes()
                    .get(name)
                    .map_or(1, |it| it.as_u64().unwrap())
            };
            let (columns, below) = (span("colspan") as usize, span("rowspan") as usize);
            assert!(
                top + below <= rows.len(),
                "{} reaches too far down",
                cell.id()
            );
            let letter = letter(cell).chars().next().unwrap_or('.');
            let letter = if letter.is_alphabetic() { letter } else { '.' };
            let letter = match cell.kind() {
                "head" => letter
                    .to_ascii_uppercase()
                    .max(if letter == '.' { ':' } else { 'A' }),
                _ => letter,
            };
            for row in &mut places[top..top + below] {
                row.resize(row.len().max(left + columns), ' ');
                for place in &mut row[left..left + columns] {
                    assert_eq!(*place, ' ', "{} overlaps another cell", cell.id());
                    *place = letter;
                }
            }
        }
    }
    let width = places.iter().map(Vec::len).max().unwrap_or(0);
    let padded = places.into_iter().map(|mut row| {
        row.resize(width, ' ');
        String::from_iter(row)
    });
    padded.collect()
}

/// Runs an operation on a drawn table, checks that it can be undone, and draws what it made.
fn after(rows: &[&str], operation: Operation) -> Vec<String> {
    let editor = opened(rows);
    done(&editor, operation);
    drawn(&editor.store().snapshot())
}

pub(crate) fn done(editor: &Editor, operation: Operation) {
    let before = image(&editor.store().snapshot());
    editor.execute([operation.clone()]).unwrap();
    let after = image(&editor.store().snapshot());
    if before == after {
        return;
    }
    editor.undo().commit().unwrap();
    assert_eq!(image(&editor.store().snapshot()), before, "{operation:?}");
    editor.redo().commit().unwrap();
    assert_eq!(image(&editor.store().snapshot()), after, "{operation:?}");
}

pub(crate) fn refused(editor: &Editor, operation: Operation) -> EditError {
    let before = image(&editor.store().snapshot());
    let error = editor.execute([operation]).unwrap_err();
    assert_eq!(image(&editor.store().snapshot()), before);
    match error {
        TransactionError::Operation {
            cause: OperationError::Edit(error),
            ..
        } => error,
        other => panic!("{other}"),
    }
}

pub(crate) fn rule(error: EditError) -> &'static str {
    match error {
        EditError::TableRule { id, rule } if id == "table".into() => rule,
        other => panic!("{other}"),
    }
}

#[test]
fn tree_06_a_new_row_or_column_widens_the_cells_that_reach_across() {
    let rows = ["aab", "ccb", "dee"];
    let row = |side, id: &str| after(&rows, add_table_row(side).on(id));
    assert_eq!(row(TableSide::After, "a"), ["aab", "..b", "ccb", "dee"]);
    assert_eq!(row(TableSide::After, "b"), ["aab", "ccb", "...", "dee"]);
    assert_eq!(row(TableSide::Before, "b"), ["...", "aab", "ccb", "dee"]);
    // By a node in the cell.
    assert_eq!(
        row(TableSide::After, "e-text"),
        ["aab", "ccb", "dee", "..."]
    );
    let column = |side, id: &str| after(&rows, add_table_column(side).on(id));
    assert_eq!(column(TableSide::After, "d"), ["aaab", "cccb", "d.ee"]);
    assert_eq!(column(TableSide::Before, "b"), ["aa.b", "cc.b", "deee"]);
    assert_eq!(column(TableSide::Before, "a"), [".aab", ".ccb", ".dee"]);
    assert_eq!(column(TableSide::After, "b"), ["aab.", "ccb.", "dee."]);
}

/// `addRow` of prosemirror-tables forgets the columns that such a cell spans.
#[test]
fn tree_06_a_new_row_widens_cells_after_one_that_spans_rows_and_columns() {
    let rows = ["aabc", "aabd"];
    let operation = add_table_row(TableSide::After).on("c");
    assert_eq!(after(&rows, operation), ["aabc", "aab.", "aabd"]);
}

#[test]
fn tree_06_new_cells_are_headers_where_those_before_are_but_for_an_edge() {
    let rows = ["ABC", "Def"];
    let row = |side, id: &str| after(&rows, add_table_row(side).on(id));
    assert_eq!(row(TableSide::After, "d"), ["ABC", "Def", ":.."]);
    assert_eq!(row(TableSide::After, "a"), ["ABC", ":..", "Def"]);
    assert_eq!(row(TableSide::Before, "a"), ["...", "ABC", "Def"]);
    let column = |side, id: &str| after(&rows, add_table_column(side).on(id));
    assert_eq!(column(TableSide::After, "a"), ["A:BC", "D.ef"]);
    assert_eq!(column(TableSide::After, "c"), ["ABC:", "Def."]);
}

#[test]
fn tree_06_cells_shrink_or_move_down_where_rows_and_columns_go() {
    let rows = ["abbc", "adec", "adfg"];
    let deleted = |operation: NodeOperation, id: &str| after(&rows, operation.on(id));
    assert_eq!(deleted(delete_table_rows(), "b"), ["adec", "adfg"]);
    assert_eq!(deleted(delete_table_rows(), "e"), ["abbc", "adfg"]);
    assert_eq!(deleted(delete_table_rows_up_to("e"), "b"), ["adfg"]);
    assert_eq!(deleted(delete_table_columns(), "e"), ["abc", "adc", "adg"]);
    assert_eq!(
        deleted(delete_table_columns_up_to("b"), "a"),
        ["c", "c", "g"]
    );
    assert_eq!(deleted(delete_table_columns(), "b"), ["ac", "ac", "ag"]);
    let editor = opened(&rows);
    assert_eq!(
        rule(refused(&editor, delete_table_rows().on("a"))),
        "a row must be left"
    );
    let all = delete_table_columns_up_to("g").on("a");
    assert_eq!(rule(refused(&editor, all)), "a column must be left");
}

#[test]
fn tree_06_a_merged_cell_has_the_content_of_all_and_is_split_again() {
    let editor = opened(&["abc", "dec"]);
    done(&editor, clear_cells().on("b"));
    done(&editor, merge_cells("e").on("a"));
    let view = editor.store().snapshot();
    assert_eq!(drawn(&view), ["aac", "aac"]);
    assert_eq!(children(&view, "a").len(), 3);
    assert_eq!(view.text_of("a").unwrap(), "ade");
    done(&editor, split_cell().on("a"));
    assert_eq!(drawn(&editor.store().snapshot()), ["a.c", "..c"]);
    // A cell of one place is not split.
    done(&editor, split_cell().on("a"));
    assert_eq!(drawn(&editor.store().snapshot()), ["a.c", "..c"]);

    let editor = opened(&["abb", "acd"]);
    let past = "a cell may not reach out of the merged rectangle";
    assert_eq!(rule(refused(&editor, merge_cells("c").on("a"))), past);
    // One cell is merged with itself.
    done(&editor, merge_cells("a-text").on("a"));
    assert_eq!(drawn(&editor.store().snapshot()), ["abb", "acd"]);
}

#[test]
fn tree_06_headers_are_toggled_for_cells_rows_columns_and_the_first_of_them() {
    let toggled = |part, id: &str| after(&["abC", "def", "ghi"], toggle_header(part).on(id));
    assert_eq!(toggled(HeaderPart::Cells, "e"), ["abC", "dEf", "ghi"]);
    assert_eq!(toggled(HeaderPart::Cells, "c"), ["abc", "def", "ghi"]);
    assert_eq!(toggled(HeaderPart::Rows, "e"), ["abC", "DEF", "ghi"]);
    assert_eq!(toggled(HeaderPart::Rows, "a"), ["abc", "def", "ghi"]);
    assert_eq!(toggled(HeaderPart::Columns, "e"), ["aBC", "dEf", "gHi"]);
    assert_eq!(toggled(HeaderPart::FirstRow, "i"), ["ABC", "def", "ghi"]);
    assert_eq!(toggled(HeaderPart::FirstColumn, "i"), ["AbC", "Def", "Ghi"]);
    let both = ["ABC", "Def"];
    let first = |part| after(&both, toggle_header(part).on("f"));
    assert_eq!(first(HeaderPart::FirstRow), ["Abc", "Def"]);
    assert_eq!(first(HeaderPart::FirstColumn), ["ABC", "def"]);
    let area = toggle_header_up_to(HeaderPart::Cells, "e").on("a");
    assert_eq!(after(&["abc", "def"], area), ["ABc", "DEf"]);
}

#[test]
fn tree_06_rows_and_columns_move_with_those_that_cells_join_to_them() {
    let rows = ["ABC", "dee", "dfg", "hij"];
    let moved = |operation: NodeOperation, id: &str| after(&rows, operation.on(id));
    assert_eq!(
        moved(move_table_row("h"), "a"),
        ["DEE", "Dfg", "hij", "abc"]
    );
    assert_eq!(
        moved(move_table_row("e"), "h"),
        ["ABC", "hij", "dee", "dfg"]
    );
    assert_eq!(moved(move_table_row("g"), "d"), rows);
    assert_eq!(
        moved(move_table_column("c"), "a"),
        ["BCA", "eed", "fgd", "ijh"]
    );
    assert_eq!(
        moved(move_table_column("a"), "c"),
        ["BCA", "eed", "fgd", "ijh"]
    );
}

#[test]
fn tree_06_delete_range_over_cells_empties_them_and_removes_none() {
    let over = || TextSpan::to(0, "e-text", 1);
    let operations = [
        delete_range(over()),
        cut_range(over()),
        type_over(0, "e-text", 1, "x"),
    ];
    for operation in operations {
        let editor = opened(&["abc", "dec", "fgh"]);
        let ends = [("a-text", 0), ("e-text", 1)].map(|(id, at)| Position::new(id, at));
        let [anchor, focus] = ends;
        editor.select(Selection::new(anchor, focus)).unwrap();
        let typed = matches!(operation, NodeOperation::ReplaceText(_));
        done(&editor, operation.on("a-text"));
        let view = editor.store().snapshot();
        assert_eq!(drawn(&view), ["abc", "dec", "fgh"]);
        let left = if typed { "x" } else { "" };
        let texts = ["a", "b", "d", "e", "c", "f"].map(|id| view.text_of(id).unwrap());
        assert_eq!(texts, [left, "", "", "", "c", "f"]);
        let caret = Position::new("a-text", left.len());
        assert_eq!(
            editor.selection(),
            Some(Selection::new(caret.clone(), caret))
        );
    }
    // What is pasted is in each of them.
    for (operation, text) in [
        (insert_paragraph_over(over()), ""),
        (paste_over(over(), Some(fragment("xy"))), "xy"),
    ] {
        let editor = opened(&["abc", "dec", "fgh"]);
        done(&editor, operation.on("a-text"));
        let view = editor.store().snapshot();
        assert_eq!(drawn(&view), ["abc", "dec", "fgh"]);
        let texts = ["a", "b", "d", "e", "c", "f"].map(|id| view.text_of(id).unwrap());
        assert_eq!(texts, [text, text, text, text, "c", "f"]);
    }
    // A selection elsewhere stays.
    let editor = opened(&["ab", "cd"]);
    let elsewhere = Selection::caret("end", 1);
    editor.select(elsewhere.clone()).unwrap();
    done(
        &editor,
        delete_range(TextSpan::to(0, "d-text", 1)).on("a-text"),
    );
    assert_eq!(editor.selection(), Some(elsewhere));
    // Within a cell it deletes characters as elsewhere.
    let editor = opened(&["ab", "cd"]);
    done(&editor, delete_range(0..1).on("a-text"));
    assert_eq!(drawn(&editor.store().snapshot()), ["ab", "cd"]);
}

pub(crate) fn fragment(text: &str) -> Fragment {
    Fragment {
        nodes: vec![text_node("text", text)],
        open_start: true,
        open_end: true,
        ..Fragment::default()
    }
}

#[test]
fn tree_06_a_table_that_is_not_whole_is_repaired() {
    let span = |columns: Value, rows: Value| {
        let attributes = [("colspan", columns), ("rowspan", rows)];
        set_attrs(attributes)
    };
    let repaired = |rows: &[&str], operation: Operation| {
        let editor = opened(rows);
        editor.execute([operation]).unwrap();
        done(&editor, fix_table().on("table"));
        drawn(&editor.store().snapshot())
    };
    let rows = ["abc", "def"];
    assert_eq!(repaired(&rows, delete_node().on("e")), ["abc", "df."]);
    assert_eq!(repaired(&rows, delete_node().on("a")), [".bc", "def"]);
    assert_eq!(
        repaired(&rows, span(2.into(), 1.into()).on("c")),
        ["abcc", "def."]
    );
    // What reaches below the table, or over another cell, is cut.
    assert_eq!(
        repaired(&rows, span(1.into(), 9.into()).on("f")),
        ["abc", "def"]
    );
    assert_eq!(
        repaired(&["abc", "dbe"], span(3.into(), 1.into()).on("d")),
        ["abc", "dbe"]
    );
    // Numbers that are none.
    for (columns, rows) in [
        (json!(0), json!(-1)),
        (json!("2"), json!([3])),
        (json!(0.5), json!(-1e300)),
    ] {
        let table = repaired(&["abc", "def"], span(columns, rows).on("b"));
        assert_eq!(table, ["abc", "def"]);
    }
    for huge in [json!(u64::MAX), json!(1e300), json!(i64::MAX)] {
        let table = repaired(&["ab", "cd"], span(huge.clone(), huge).on("d"));
        assert_eq!((table.len(), table[0].len()), (2, 1001));
    }
}

/// One of the two that edited is undone, and the table is ragged.
#[test]
fn tree_06_an_undo_among_the_edits_of_others_leaves_a_table_that_can_be_edited() {
    let ann = opened(&["ab", "cd"]);
    let bob = Editor::new(ann.store().clone(), "bob");
    ann.execute([add_table_column(TableSide::After).on("b")])
        .unwrap();
    bob.execute([add_table_row(TableSide::After).on("c")])
        .unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(drawn(&ann.store().snapshot()), ["ab ", "cd ", "..."]);
    done(&ann, add_table_row(TableSide::Before).on("a"));
    assert_eq!(drawn(&ann.store().snapshot()), ["...", "ab.", ".cd", "..."]);
}

#[test]
fn tree_06_a_table_without_cells_is_deleted() {
    let editor = opened(&["ab"]);
    editor
        .execute([delete_node().on("a"), delete_node().on("b")])
        .unwrap();
    done(&editor, fix_table().on("row-0"));
    assert!(!editor.store().snapshot().contains("table"));
}

#[test]
fn tree_06_widths_go_along_with_columns() {
    let editor = opened(&["abc", "ddc"]);
    let width = |id: &str, widths: Value| set_attrs([("colwidth", widths)]).on(id);
    editor
        .execute([width("a", json!([10])), width("d", json!([10, 0]))])
        .unwrap();
    let widths = |id: &str| {
        let view = editor.store().snapshot();
        view.node(id).unwrap().attributes().get("colwidth").cloned()
    };
    done(&editor, add_table_column(TableSide::After).on("a"));
    assert_eq!(widths("d"), Some(json!([10, 0, 0])));
    done(&editor, delete_table_columns().on("a"));
    assert_eq!(widths("d"), None);
}

#[test]
fn tree_06_an_edit_outside_of_a_table_names_the_node_and_the_role() {
    let not_in = |editor: &Editor, operation: Operation| match refused(editor, operation) {
        EditError::NotInTable { id, role } => (id.to_string(), role),
        other => panic!("{other}"),
    };
    let outside = |id: &str, role| (id.to_owned(), role);
    let editor = opened(&["ab"]);
    assert_eq!(
        not_in(&editor, split_cell().on("end")),
        outside("end", "cell")
    );
    assert_eq!(
        not_in(&editor, split_cell().on("table")),
        outside("table", "cell")
    );
    assert_eq!(
        not_in(&editor, fix_table().on("end")),
        outside("end", "table")
    );
    assert_eq!(
        not_in(&editor, merge_cells("end").on("a")),
        outside("end", "cell")
    );
    let missing = refused(&editor, merge_cells("nothing").on("a"));
    assert!(matches!(missing, EditError::NodeNotFound { .. }));
    // Without a schema, and under one without headers.
    let plain = Editor::new(DataStore::new(), "ann");
    plain.execute([create(table(&["ab"]))]).unwrap();
    assert_eq!(not_in(&plain, clear_cells().on("a")), outside("a", "table"));
    let without = Schema::builder()
        .node("table", role("row*", TableRole::Table))
        .node("row", role("cell*", TableRole::Row))
        .node("cell", role("p*", TableRole::Cell).unknown_attributes(true))
        .node("p", NodeType::new().content("text*"))
        .node("text", NodeType::new());
    let store = StoreOptions::new().schema(without.build().unwrap());
    let plain = Editor::new(DataStore::with_options(store), "ann");
    plain.execute([create(table(&["ab"]))]).unwrap();
    let toggle = toggle_header(HeaderPart::Cells).on("a");
    assert_eq!(not_in(&plain, toggle), outside("table", "header_cell"));
}

#[test]
fn tree_06_no_cell_can_be_made_with_an_attribute_that_nothing_sets() {
    let required = AttributeSpec::new(ValueType::String).required();
    let needy = NodeType::new().content("text*").attribute("key", required);
    let schema = Schema::builder()
        .node("table", role("row*", TableRole::Table))
        .node("row", role("cell*", TableRole::Row))
        .node("cell", role("p+", TableRole::Cell).unknown_attributes(true))
        .node("p", needy)
        .node("text", NodeType::new())
        .build()
        .unwrap();
    let store = DataStore::with_options(StoreOptions::new().schema(schema));
    let editor = Editor::new(store, "ann");
    let line = element("p", []).with_attributes([("key", "k".into())]);
    let row = element("row", [element("cell", [line]).with_id("a")]);
    editor
        .execute([create(element("table", [row]).with_id("table"))])
        .unwrap();
    let error = refused(&editor, add_table_row(TableSide::After).on("a"));
    assert_eq!(
        rule(error),
        "a new cell must have content that can be empty"
    );
}

/// An emptied cell is as a new one, also where that is not a text block.
#[test]
fn tree_06_an_emptied_cell_has_the_content_that_a_cell_requires() {
    let schema = Schema::builder()
        .node("table", role("row*", TableRole::Table))
        .node("row", role("cell*", TableRole::Row))
        .node("cell", role("quote+", TableRole::Cell))
        .node("quote", NodeType::new().content("p+"))
        .node("p", NodeType::new().content("text*"))
        .node("text", NodeType::new())
        .build()
        .unwrap();
    let store = DataStore::with_options(StoreOptions::new().schema(schema));
    let editor = Editor::new(store, "ann");
    let line = || element("p", [text_node("text", "x")]);
    let cell = element("cell", [element("quote", [line(), line()])]).with_id("a");
    editor
        .execute([create(element("table", [element("row", [cell])]))])
        .unwrap();
    done(&editor, clear_cells().on("a"));
    let view = editor.store().snapshot();
    let kinds: Vec<_> = view
        .descendants("a")
        .map(|node| node.kind().to_owned())
        .collect();
    assert_eq!(kinds, ["cell", "quote", "p"]);
}

#[test]
fn tree_06_two_types_cannot_have_one_role() {
    let error = Schema::builder()
        .node("one", role("", TableRole::Cell))
        .node("other", role("", TableRole::Cell))
        .build()
        .unwrap_err();
    assert_eq!(error.to_string(), "there are two table roles named cell");
    let unknown = json!({"nodes": {"cell": {"tableRole": "headerCell"}}});
    assert!(serde_json::from_value::<Schema>(unknown).is_err());
}

/// Any operations one after the other on a random table: it is whole after each, each can be
/// undone, and all of them at the end.
#[test]
fn tree_06_any_edits_of_a_table_leave_it_whole() {
    let seed = seed();
    let mut dice = Dice(seed);
    let mut edits = 0;
    for _ in 0..60 {
        let made = opened(&["aab", "cdb", "cef"]);
        let editor = Editor::new(made.store().clone(), "bob");
        let start = image(&editor.store().snapshot());
        for _ in 0..12 {
            let Some(operation) = any_edit(&editor, &mut dice) else {
                break;
            };
            let before = editor.store().snapshot();
            let shown = format!("{:?} {operation:?}", drawn_or_ragged(&before));
            match editor.execute([operation.clone()]) {
                Ok(_) if ["setAttrs", "delete", "copy"].contains(&operation.name()) => {}
                Ok(_) => {
                    let rows = drawn(&editor.store().snapshot());
                    let is_whole = rows.iter().all(|row| !row.contains(' '));
                    assert!(is_whole && !rows.is_empty(), "{shown}: {rows:?}");
                    edits += 1;
                }
                Err(error) => {
                    let code = error.to_string();
                    assert!(
                        code.contains("must be left") || code.contains("reach out"),
                        "{shown}: {code}"
                    );
                    assert_eq!(image(&editor.store().snapshot()), image(&before), "{shown}");
                }
            }
        }
        while editor.can_undo() {
            editor.undo().commit().unwrap();
        }
        assert_eq!(image(&editor.store().snapshot()), start);
    }
    assert!(edits > 200, "only {edits} edits were possible");
}

/// Two users edit a table in turn, and undo and redo in between, which may leave it ragged. A
/// repair makes it whole.
#[test]
fn tree_06_any_edits_and_undos_of_two_users_leave_a_table_that_can_be_repaired() {
    let seed = seed();
    let mut dice = Dice(seed);
    let mut undone = 0;
    for _ in 0..60 {
        let made = opened(&["aab", "cdb", "cef"]);
        let user = |name: &str| Editor::new(made.store().clone(), name);
        let users = [user("bob"), user("cat").with_node_locks(1)];
        for _ in 0..20 {
            let user = &users[dice.below(2)];
            match dice.below(4) {
                0 => undone += usize::from(user.undo().commit().is_ok()),
                1 => drop(user.redo().commit()),
                _ => {
                    let edit = any_edit(user, &mut dice);
                    drop(edit.map(|edit| user.execute([edit])));
                }
            }
        }
        if made.store().snapshot().contains("table") {
            done(&users[0], fix_table().on("table"));
        }
        let view = made.store().snapshot();
        if view.contains("table") {
            let rows = drawn(&view);
            assert!(rows.iter().all(|row| !row.contains(' ')), "{rows:?}");
        }
    }
    assert!(undone > 60, "only {undone} edits were undone");
}

fn drawn_or_ragged(view: &impl View) -> Vec<String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drawn(view))).unwrap_or_default()
}

/// An operation on cells, or one that damages the table.
fn any_edit(editor: &Editor, dice: &mut Dice) -> Option<Operation> {
    let view = editor.store().snapshot();
    let rows = view.children("table").map(|row| row.id().clone());
    let rows: Vec<_> = rows.collect();
    let cells = rows.iter().flat_map(|row| view.children(row));
    let cells: Vec<_> = cells.map(|cell| cell.id().clone()).collect();
    if cells.is_empty() || cells.len() > 60 {
        return None;
    }
    let mut any = || cells[dice.below(cells.len())].clone();
    let (cell, last) = (any(), any());
    let side = [TableSide::Before, TableSide::After][dice.below(2)];
    let parts = [
        HeaderPart::Cells,
        HeaderPart::Rows,
        HeaderPart::Columns,
        HeaderPart::FirstRow,
        HeaderPart::FirstColumn,
    ];
    let operation = match dice.below(18) {
        0 | 1 => add_table_row(side),
        2 | 3 => add_table_column(side),
        4 => delete_table_rows(),
        5 => delete_table_columns(),
        6 => delete_table_rows_up_to(last),
        7..=9 => merge_cells(last),
        10 => split_cell(),
        11 => toggle_header_up_to(parts[dice.below(5)], last),
        12 => clear_cells_up_to(last),
        13 => move_table_row(last),
        14 => move_table_column(last),
        15 if cell == last => copy_range(TextSpan::to(0, last, 0)),
        15 => return copied(editor, &cell, &last),
        16 if editor.clipboard().is_some() => paste(0),
        17 if editor.clipboard().is_some() => return pasted_over(editor, &cell, &last),
        _ if dice.one_in(3) => fix_table(),
        _ if dice.one_in(2) && cells.len() > 4 => delete_node(),
        _ => {
            let numbers = [json!(0), json!(1), json!(2), json!(3), json!(7), json!("x")];
            let mut any = || numbers[dice.below(6)].clone();
            set_attrs([
                ("colspan", any()),
                ("rowspan", any()),
                ("colwidth", json!([any()])),
            ])
        }
    };
    Some(operation.on(cell))
}

/// Copies the cells from one to another.
fn copied(editor: &Editor, cell: &NodeId, last: &NodeId) -> Option<Operation> {
    let [first, last] = in_order(editor, cell, last);
    Some(copy_range(TextSpan::to(0, last, 0)).on(first))
}

/// Pastes into the cells from one to another.
fn pasted_over(editor: &Editor, cell: &NodeId, last: &NodeId) -> Option<Operation> {
    let [first, last] = in_order(editor, cell, last);
    Some(paste_over(TextSpan::to(0, last, 0), None).on(first))
}

fn in_order(editor: &Editor, one: &NodeId, other: &NodeId) -> [NodeId; 2] {
    let view = editor.store().snapshot();
    let mut nodes = view.descendants("table");
    let first = nodes.find(|node| [one, other].contains(&node.id()));
    match first.unwrap().id() == one {
        true => [one.clone(), other.clone()],
        false => [other.clone(), one.clone()],
    }
}

#[test]
fn transaction_04_the_places_of_a_table_count_as_steps() {
    // Twenty cells, each in a row of 1,000 places, eight of which are a step.
    let rows: Vec<String> = ('a'..='t')
        .map(|cell| cell.to_string().repeat(1000))
        .collect();
    let editor = opened(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let is_done = |most: usize| {
        let mut on = editor.store().begin("client").unwrap();
        on.set_limits(Limits::new().with(Limit::Steps, most));
        match on.run([toggle_header(HeaderPart::Cells).on("a")]) {
            Ok(()) => true,
            Err(error) => !error.to_string().contains("steps"),
        }
    };
    assert!(!is_done(20_000 / 8));
    assert!(is_done(usize::MAX));
}

/// A schema of cells with images and mentions in their text, blocks with own text, and headers of
/// their own content.
fn rich(content: &str) -> Schema {
    let cell = |content: &str, of| role(content, of).unknown_attributes(true);
    Schema::builder()
        .node("page", NodeType::new().content("block+"))
        .node(
            "p",
            NodeType::new()
                .group("block")
                .content("(text | image | mention)*")
                .text(true),
        )
        .node("code", NodeType::new().group("block").inline(false))
        .node("table", role("row*", TableRole::Table).group("block"))
        .node("row", role("(cell | head)*", TableRole::Row))
        .node("cell", cell(content, TableRole::Cell))
        .node("head", cell("h+", TableRole::HeaderCell))
        .node("h", NodeType::new().content("text*"))
        .node("text", NodeType::new())
        .node("image", NodeType::new().unknown_attributes(true))
        .node("mention", NodeType::new().unknown_attributes(true))
        .mark("bold", MarkType::new().inclusive(true))
        .mark("link", MarkType::new())
        .root("page")
        .build()
        .unwrap()
}

/// A table of one row whose cells `a`, `b` and so on have these blocks, before a line `end`.
fn rich_row(cells: impl IntoIterator<Item = Vec<NodeSpec>>) -> Editor {
    rich_row_of("block*", cells)
}

fn rich_row_of(content: &str, cells: impl IntoIterator<Item = Vec<NodeSpec>>) -> Editor {
    let store = StoreOptions::new().session(7).schema(rich(content));
    let editor = Editor::new(DataStore::with_options(store), "ann");
    let cells = cells.into_iter().zip('a'..);
    let cells = cells.map(|(blocks, letter)| element("cell", blocks).with_id(letter.to_string()));
    let table = element("table", [element("row", cells).with_id("row")]).with_id("table");
    let last = element("p", [text_node("text", "end").with_id("end")]);
    let page = element("page", [table, last]).with_id("page");
    editor
        .execute([create(page), set_root().on("page")])
        .unwrap();
    editor
}

fn line(parts: impl IntoIterator<Item = NodeSpec>) -> Vec<NodeSpec> {
    vec![element("p", parts)]
}

fn kinds(view: &impl View, id: &str) -> Vec<String> {
    let nodes = view.descendants(id).skip(1);
    nodes.map(|node| node.kind().to_owned()).collect()
}

fn texts(editor: &Editor, ids: &str) -> Vec<String> {
    let view = editor.store().snapshot();
    let ids = ids.chars().map(|id| id.to_string());
    ids.map(|id| view.text_of(id.as_str()).unwrap()).collect()
}

#[test]
fn tree_06_what_cut_removes_from_cells_is_on_the_clipboard() {
    let editor = opened(&["abc", "def"]);
    let over = || TextSpan::to(0, "d-text", 1);
    done(&editor, cut_range(over()).on("b-text"));
    assert_eq!(texts(&editor, "abcdef"), ["", "", "c", "", "", "f"]);
    editor.execute([paste(3).on("end")]).unwrap();
    let view = editor.store().snapshot();
    let pasted = view.children("page").find(|node| {
        let id = node.id().clone();
        node.kind() == "table" && id != "table".into()
    });
    let pasted = pasted.expect("a table is pasted").id().clone();
    let rows = view
        .children(&pasted)
        .map(|row| view.text_of(row.id()).unwrap());
    assert_eq!(rows.collect::<Vec<_>>(), ["ab", "de"]);

    // From the end of a text, too: whole cells are emptied.
    let editor = opened(&["abc", "def"]);
    done(
        &editor,
        cut_range(TextSpan::to(1, "b-text", 1)).on("a-text"),
    );
    let clipboard = serde_json::to_string(&editor.clipboard().unwrap()).unwrap();
    let texts = ["a", "b", "c", "d"].map(|text| clipboard.matches(&format!("\"{text}\"")).count());
    assert_eq!(texts, [1, 1, 0, 0]);
}

/// For each range in a table with spans.
#[test]
fn tree_06_cut_removes_no_character_that_is_not_on_the_clipboard() {
    let ends: Vec<(char, usize)> = ('a'..='f').flat_map(|id| [(id, 0), (id, 1)]).collect();
    let mut removed = 0;
    for (start, from) in &ends {
        for (end, to) in &ends {
            let editor = opened(&["aab", "cdb", "cef"]);
            let over = TextSpan::to(*from, format!("{end}-text"), *to);
            let cut = cut_range(over).on(format!("{start}-text"));
            if editor.execute([cut]).is_err() {
                continue;
            }
            let clipboard = serde_json::to_string(&editor.clipboard()).unwrap();
            let is_copied = |id: &char| clipboard.contains(&format!("\"{id}\""));
            let left = texts(&editor, "abcdef");
            let gone = ('a'..='f').zip(&left).filter(|(_, text)| text.is_empty());
            let gone: Vec<char> = gone.map(|(id, _)| id).collect();
            let copied: Vec<char> = ('a'..='f').filter(is_copied).collect();
            assert_eq!(gone, copied, "{start} {from} to {end} {to}");
            removed += gone.len();
        }
    }
    assert!(removed > 50, "only {removed} characters were removed");
}

#[test]
fn tree_06_a_range_without_characters_empties_no_cell() {
    let rows = ["ab", "cd"];
    let after = |start: usize, of: &str, last: &str| {
        let editor = opened(&rows);
        done(&editor, clear_cells().on("c"));
        let [anchor, focus] = [(of, start), (last, 0)].map(|(id, at)| Position::new(id, at));
        editor.select(Selection::new(anchor, focus)).unwrap();
        let over = TextSpan::to(start, last.to_owned(), 0);
        editor.execute([delete_range(over).on(of)]).unwrap();
        let caret = Selection::caret(of.to_owned(), start);
        assert_eq!(editor.selection(), Some(caret), "{of} to {last}");
        texts(&editor, "abcd")
    };
    assert_eq!(after(1, "a-text", "b-text"), ["a", "b", "", "d"]);
    // The empty cell between them has no characters either.
    assert_eq!(after(1, "b-text", "d-text"), ["a", "b", "", "d"]);
    // A range that ends before the first character of a cell does not reach into it.
    assert_eq!(after(0, "a-text", "b-text"), ["", "b", "", "d"]);
    assert_eq!(after(0, "b-text", "d-text"), ["a", "", "", "d"]);
    assert_eq!(after(0, "a-text", "c-text"), ["", "", "", "d"]);
}

#[test]
fn tree_06_cells_with_images_or_own_text_are_not_empty() {
    let x = || line([text_node("text", "x")]);
    let image = || element("image", []);
    let merged = |blocks: Vec<NodeSpec>| {
        let editor = rich_row([x(), blocks]);
        done(&editor, merge_cells("b").on("a"));
        kinds(&editor.store().snapshot(), "a").join(" ")
    };
    assert_eq!(merged(line([image()])), "p text p image");
    let named = element("mention", []).with_attributes([("name", "ann".into())]);
    assert_eq!(merged(line([named])), "p text p mention");
    assert_eq!(merged(vec![text_node("p", "own")]), "p text p");
    assert_eq!(merged(vec![text_node("code", "own")]), "p text code");
    assert_eq!(merged(line([text_node("text", "")])), "p text");
    assert_eq!(merged(vec![text_node("p", "")]), "p text");
    // A cell without children is as empty, and the first cell is not emptied for it.
    assert_eq!(merged(Vec::new()), "p text");
    let editor = rich_row([line([text_node("text", "").with_id("t")]), Vec::new()]);
    done(&editor, merge_cells("b").on("a"));
    assert!(editor.store().snapshot().contains("t"));
}

#[test]
fn tree_06_no_image_or_mention_is_left_in_an_emptied_cell() {
    let image = || element("image", []);
    let mention = || text_node("mention", "@ann");
    let text = || text_node("text", "x");
    for parts in [
        vec![image()],
        vec![image(), text()],
        vec![mention(), text()],
    ] {
        let editor = rich_row_of("block+", [line(parts)]);
        done(&editor, clear_cells().on("a"));
        let view = editor.store().snapshot();
        assert_eq!(view.text_of("a").unwrap(), "");
        assert_eq!(kinds(&view, "a"), ["p"]);
    }
}

#[test]
fn tree_06_an_emptied_header_has_the_content_of_a_header() {
    let editor = rich_row([line([text_node("text", "x")])]);
    let head = element("head", [element("h", [text_node("text", "x")])]).with_id("h");
    editor.execute([add_child(head, 0).on("row")]).unwrap();
    done(&editor, clear_cells_up_to("a").on("h"));
    let view = editor.store().snapshot();
    assert_eq!(kinds(&view, "h"), ["h", "text"]);
    assert_eq!(texts(&editor, "ha"), ["", ""]);
}

#[test]
fn tree_06_a_row_of_a_nested_table_is_in_no_cell_of_the_outer_one() {
    let inner = element("cell", [element("p", [text_node("text", "x")])]).with_id("inner");
    let inner = element("row", [inner]).with_id("inner-row");
    let inner = element("table", [inner]).with_id("inner-table");
    let editor = rich_row([vec![inner], line([text_node("text", "y")])]);
    for id in ["inner-row", "inner-table"] {
        let error = refused(&editor, delete_table_columns().on(id));
        assert!(matches!(error, EditError::NotInTable { .. }), "{error}");
        let error = refused(&editor, merge_cells("b").on(id));
        assert!(matches!(error, EditError::NotInTable { .. }), "{error}");
    }
    done(&editor, add_table_column(TableSide::After).on("inner"));
    let view = editor.store().snapshot();
    assert_eq!(children(&view, "inner-row").len(), 2);
    assert_eq!(children(&view, "row").len(), 2);
    // From the inner table to the outer one it is the cells of the outer one.
    done(&editor, clear_cells_up_to("b").on("inner"));
    let view = editor.store().snapshot();
    assert!(!view.contains("inner-table"));
    assert_eq!(view.text_of("b").unwrap(), "");
}

#[test]
fn tree_06_carets_in_emptied_and_merged_cells_are_kept() {
    let selected = |editor: &Editor, id: &str, at: usize| {
        editor.select(Selection::caret(id.to_owned(), at)).unwrap();
    };
    // In a part of the cell that is deleted.
    let first = line([text_node("text", "x").with_id("x")]);
    let cells = [
        first,
        vec![
            element("p", [text_node("text", "y").with_id("y")]),
            element("p", [text_node("text", "z").with_id("z")]),
        ],
    ];
    let editor = rich_row_of("block+", cells);
    selected(&editor, "z", 1);
    done(&editor, delete_range(TextSpan::to(0, "z", 1)).on("x"));
    assert_eq!(editor.selection(), Some(Selection::caret("x", 0)));
    // In a blank cell that is merged into another, and in a blank first cell.
    let blank = |id: &str| line([text_node("text", "").with_id(id)]);
    let full = || line([text_node("text", "x").with_id("x")]);
    let editor = rich_row([full(), blank("t")]);
    selected(&editor, "t", 0);
    done(&editor, merge_cells("b").on("a"));
    assert_eq!(editor.selection(), Some(Selection::caret("x", 0)));
    let editor = rich_row([blank("t"), full()]);
    selected(&editor, "t", 0);
    done(&editor, merge_cells("b").on("a"));
    assert_eq!(editor.selection(), Some(Selection::caret("x", 0)));
    // A caret in a cell with content moves with it.
    let editor = rich_row([blank("t"), full()]);
    selected(&editor, "x", 1);
    done(&editor, merge_cells("b").on("a"));
    assert_eq!(editor.selection(), Some(Selection::caret("x", 1)));
}

/// A table of rows of cells with these spans, the cells named `0-0`, `0-1` and so on.
pub(crate) fn spanned(rows: impl IntoIterator<Item = Vec<(usize, usize)>>) -> Editor {
    let rows = rows.into_iter().enumerate().map(|(top, spans)| {
        let cells = spans.into_iter().enumerate().map(|(nth, (columns, rows))| {
            let cell = element("cell", [element("p", [])]).with_id(format!("{top}-{nth}"));
            cell.with_attributes([("colspan", columns.into()), ("rowspan", Value::from(rows))])
        });
        element("row", cells.collect::<Vec<_>>())
    });
    let table = element("table", rows.collect::<Vec<_>>()).with_id("table");
    let store = StoreOptions::new().session(7).schema(schema());
    let editor = Editor::new(DataStore::with_options(store), "ann");
    let page = element("page", [table]).with_id("page");
    editor
        .execute([create(page), set_root().on("page")])
        .unwrap();
    editor
}

#[test]
fn tree_06_a_cell_of_many_rows_stays_one_and_none_gets_too_wide() {
    let editor = spanned(vec![vec![(1, 1), (1, 1)]; 1200]);
    editor.execute([merge_cells("1199-0").on("0-0")]).unwrap();
    editor
        .execute([add_table_column(TableSide::After).on("0-1")])
        .unwrap();
    let view = editor.store().snapshot();
    let span = |id: &str| view.node(id).unwrap().attributes().get("rowspan").cloned();
    assert_eq!(span("0-0"), Some(json!(1200)));
    assert_eq!(drawn(&view)[1199].chars().count(), 3);

    let wide = "a cell spans at most 1,000 columns";
    let editor = spanned([vec![(1000, 1)], vec![(999, 1), (1, 1)]]);
    let column = add_table_column(TableSide::After).on("1-0");
    assert_eq!(rule(refused(&editor, column)), wide);
    let editor = spanned([vec![(1000, 1), (1, 1)]]);
    assert_eq!(rule(refused(&editor, merge_cells("0-1").on("0-0"))), wide);
}

#[test]
fn tree_06_a_table_is_not_made_larger_than_can_be_read() {
    let editor = spanned(vec![vec![(1000, 1)]; 1048]);
    let row = add_table_row(TableSide::After).on("0-0");
    let error = refused(&editor, row);
    assert_eq!(rule(error), "it has at most 1,048,576 places for cells");
}

/// One attribute of a few bytes does not put a table out of reach.
#[test]
fn tree_06_columns_of_one_cell_that_no_other_row_has_are_cut_if_they_are_many() {
    let mut rows = vec![vec![(1, 1)]; 12];
    rows[3] = vec![(1000, 1)];
    let editor = spanned(rows);
    editor.execute([fix_table().on("table")]).unwrap();
    let shown = drawn(&editor.store().snapshot());
    assert!(shown.iter().all(|row| row.chars().count() == 1));
    // So many real cells are added.
    let mut rows = vec![vec![(1, 1)]; 10_002];
    rows[0].push((1, 1));
    let editor = spanned(rows);
    editor.execute([fix_table().on("table")]).unwrap();
    let shown = drawn(&editor.store().snapshot());
    assert!(
        shown
            .iter()
            .all(|row| !row.contains(' ') && row.chars().count() == 2)
    );
}

#[test]
fn tree_06_text_over_cells_has_the_marks_of_the_first_character() {
    let bold = |kind: &str| Mark::new(kind.to_owned(), 0..1);
    let marked = text_node("text", "x").with_id("x");
    let marked = marked.with_marks([bold("bold"), bold("link")]);
    let last = line([text_node("text", "y").with_id("y")]);
    let editor = rich_row_of("block+", [line([marked]), last]);
    done(&editor, type_over(0, "y", 1, "new").on("x"));
    let view = editor.store().snapshot();
    assert_eq!(view.text_of("a").unwrap(), "new");
    let text = view.descendants("a").last().unwrap();
    let marks: Vec<_> = text.marks().iter().cloned().collect();
    assert_eq!(marks, [Mark::new("bold", 0..3)]);
}

#[test]
fn tree_06_widths_that_are_no_list_or_of_the_right_number_stay() {
    let editor = opened(&["ab", "cd"]);
    let width = |id: &str, widths: Value| set_attrs([("colwidth", widths)]).on(id);
    let taller = set_attrs([("rowspan", 9.into())]);
    editor
        .execute([
            width("a", json!("120")),
            width("c", json!([0])),
            taller.on("c"),
        ])
        .unwrap();
    done(&editor, merge_cells("b").on("a"));
    let view = editor.store().snapshot();
    let widths = |id: &str| view.node(id).unwrap().attributes().get("colwidth").cloned();
    assert_eq!(widths("a"), Some(json!("120")));
    assert_eq!(widths("c"), Some(json!([0])));
}

#[test]
fn tree_06_a_cell_of_one_place_is_split_without_a_new_cell() {
    let required = AttributeSpec::new(ValueType::String).required();
    let needy = NodeType::new()
        .content("text*")
        .attribute("key", required.clone());
    let schema = Schema::builder()
        .node("table", role("row*", TableRole::Table))
        .node(
            "row",
            role("cell*", TableRole::Row).attribute("key", required),
        )
        .node("cell", role("p*", TableRole::Cell).unknown_attributes(true))
        .node("p", needy)
        .node("text", NodeType::new())
        .build()
        .unwrap();
    let store = DataStore::with_options(StoreOptions::new().schema(schema));
    let editor = Editor::new(store, "ann");
    let key = || [("key", Value::from("k"))];
    let line = element("p", []).with_attributes(key());
    let row = element("row", [element("cell", [line]).with_id("a")]).with_attributes(key());
    editor
        .execute([create(element("table", [row]).with_id("table"))])
        .unwrap();
    editor.execute([split_cell().on("a")]).unwrap();
    let error = refused(&editor, add_table_row(TableSide::After).on("a"));
    assert_eq!(rule(error), "a new row must not require attributes");
}
