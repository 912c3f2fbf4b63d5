//! Cells that are copied and pasted. `crates/formats/tests/prosemirror/operations.rs` compares the
//! results with those of prosemirror-tables.

use doclock::document::{Fragment, Limit, Limits, NodeSpec, Position, Selection};
use doclock::schema::{NodeType, Schema, TableRole};
use doclock::transaction::TextSpan;
use doclock::{DataStore, Editor, StoreOptions, View, dsl::*};
use serde_json::{Value, json};

use crate::tables::{
    done, drawn, drawn_by, fragment, opened, opened_in, refused, role, rule, schema_of, spanned,
};

/// The table, drawn with the first letter of each cell's text.
fn shown(editor: &Editor) -> Vec<String> {
    let view = editor.store().snapshot();
    drawn_by(&view, |cell| view.text_of(cell.id()).unwrap())
}

/// The cells of a drawn table from one to another.
fn copied(rows: &[&str], first: &str, last: &str) -> Fragment {
    copied_from(&opened(rows), first, last)
}

fn copied_from(editor: &Editor, first: &str, last: &str) -> Fragment {
    let copy = copy_range(TextSpan::to(0, last, 0)).on(first);
    editor.execute([copy]).unwrap();
    editor.clipboard().unwrap()
}

/// A table after cells are pasted where the caret is.
fn pasted(rows: &[&str], cells: Fragment, at: &str) -> Vec<String> {
    let editor = opened(rows);
    done(&editor, paste_fragment(0, cells).on(format!("{at}-text")));
    shown(&editor)
}

/// A table after cells are pasted over those from one to another.
fn pasted_over(rows: &[&str], cells: Fragment, first: &str, last: &str) -> Vec<String> {
    let editor = opened(rows);
    done(
        &editor,
        paste_over(TextSpan::to(0, last, 0), cells).on(first),
    );
    shown(&editor)
}

fn cells() -> Fragment {
    copied(&["xy", "zw"], "x", "w")
}

#[test]
fn tree_06_pasted_cells_replace_those_from_the_caret_on_and_the_table_grows() {
    let table = ["abc", "def", "ghi"];
    assert_eq!(pasted(&table, cells(), "a"), ["xyc", "zwf", "ghi"]);
    assert_eq!(pasted(&table, cells(), "e"), ["abc", "dxy", "gzw"]);
    assert_eq!(pasted(&table, cells(), "f"), ["abc.", "dexy", "ghzw"]);
    assert_eq!(pasted(&table, cells(), "h"), ["abc", "def", "gxy", ".zw"]);
    let corner = ["abc.", "def.", "ghxy", "..zw"];
    assert_eq!(pasted(&table, cells(), "i"), corner);
    // New cells are headers where the last cell of the row or the column is one.
    assert_eq!(pasted(&["AB", "Cd"], cells(), "d"), ["AB:", "Cxy", ":zw"]);
}

#[test]
fn tree_06_pasted_cells_are_repeated_and_cut_to_the_selected_ones() {
    let table = ["abcd", "efgh", "ijkl"];
    let over = |first, last| pasted_over(&table, cells(), first, last);
    assert_eq!(over("a", "d"), ["xyxy", "efgh", "ijkl"]);
    assert_eq!(over("a", "l"), ["xyxy", "zwzw", "xyxy"]);
    assert_eq!(over("b", "k"), ["axyd", "ezwh", "ixyl"]);
    // A cell that is named by its own id is selected.
    assert_eq!(over("f", "f"), ["abcd", "exgh", "ijkl"]);
    let wide = copied(&["xxy", "xxz"], "x", "z");
    let one_column = ["xbcd", "xfgh", "ijkl"];
    assert_eq!(pasted_over(&table, wide.clone(), "a", "e"), one_column);
    assert_eq!(
        pasted_over(&table, wide, "a", "h"),
        ["xxyx", "xxzx", "ijkl"]
    );
    // From a text in one to a text in another.
    let editor = opened(&table);
    let over = paste_over(TextSpan::to(1, "k-text", 1), cells());
    done(&editor, over.on("b-text"));
    assert_eq!(shown(&editor), ["axyd", "ezwh", "ixyl"]);
}

#[test]
fn tree_06_a_cell_that_reaches_out_of_the_pasted_ones_is_cut() {
    let (row, column) = (copied(&["xy"], "x", "y"), copied(&["x", "y"], "x", "y"));
    let table = ["aab", "cdb", "cef"];
    // What is above the pasted cells, or to the left of them, keeps the content.
    assert_eq!(pasted(&table, row, "d"), ["aab", "cxy", "cef"]);
    assert_eq!(pasted(&["abc", "dee"], column.clone(), "c"), ["abx", "dey"]);
    // The others are new.
    assert_eq!(pasted(&table, column.clone(), "a"), ["x.b", "ydb", ".ef"]);

    let editor = opened(&["bcd", "eee", "eee"]);
    let widths = |widths: Value| set_attrs([("colwidth", widths), ("color", json!("red"))]);
    editor
        .execute([widths(json!([10, 20, 30])).on("e")])
        .unwrap();
    done(&editor, paste_fragment(0, column).on("c-text"));
    assert_eq!(shown(&editor), ["bxd", "ey.", "..."]);
    let view = editor.store().snapshot();
    let cells = view.descendants("table");
    let red = cells.filter(|cell| cell.attributes().get("color").is_some());
    let red: Vec<_> = red
        .map(|cell| {
            let [columns, rows, widths] = ["colspan", "rowspan", "colwidth"]
                .map(|name| cell.attributes().get(name).unwrap().clone());
            (columns, rows, widths)
        })
        .collect();
    let expected = [
        (json!(1), json!(1), json!([10])),
        (json!(1), json!(1), json!([30])),
        (json!(3), json!(1), json!([10, 20, 30])),
    ];
    assert_eq!(red, expected);
}

#[test]
fn tree_06_copied_cells_are_cut_to_their_rectangle() {
    let table = ["aab", "cdb", "cef"];
    let at_start = |cells| pasted(&["pq", "rs"], cells, "p");
    // A cell that begins outside has no content.
    assert_eq!(at_start(copied(&table, "d", "f")), ["d.", "ef"]);
    assert_eq!(at_start(copied(&table, "a", "d")), ["aa", "cd"]);
    assert_eq!(at_start(copied(&table, "c", "e")), ["cd", "ce"]);
    assert_eq!(at_start(copied(&table, "b", "b")), ["bq", "bs"]);
}

#[test]
fn tree_06_a_copied_row_has_a_cell_if_the_schema_requires_one() {
    let of = |content: &str| {
        let editor = opened_in(schema_of(content), &["aab", "aac", "def"]);
        let cells = copied_from(&editor, "a", "d");
        let json = serde_json::to_value(&cells).unwrap();
        let rows = json["nodes"][0]["children"].as_array().unwrap().clone();
        let spans = rows.iter().flat_map(|row| row["children"].as_array());
        let spans = spans
            .flatten()
            .map(|cell| cell["attributes"]["rowspan"].clone());
        (rows.len(), spans.collect::<Vec<_>>())
    };
    assert_eq!(
        of("(cell | head)*"),
        (3, vec![json!(2), json!(1), json!(1)])
    );
    assert_eq!(
        of("(cell | head)+"),
        (2, vec![json!(1), json!(1), json!(1)])
    );
}

/// For each two cells of a table out of whose rectangle no cell reaches.
#[test]
fn tree_06_cells_that_are_cut_and_pasted_back_are_as_before() {
    let table = ["aab", "cdb", "cef"];
    let mut pairs = 0;
    for first in 'a'..='f' {
        for last in first..='f' {
            let [first, last] = [first, last].map(String::from);
            let editor = opened(&table);
            let merge = merge_cells(last.clone()).on(first.clone());
            if opened(&table).execute([merge]).is_err() {
                continue;
            }
            let over = TextSpan::to(0, last, 0);
            done(&editor, cut_range(over.clone()).on(first.clone()));
            assert_ne!(shown(&editor), table);
            done(&editor, paste_over(over, None).on(first));
            assert_eq!(shown(&editor), table);
            pairs += 1;
        }
    }
    assert_eq!(pairs, 15);
}

#[test]
fn tree_06_pasted_cells_are_selected_if_what_they_replace_was() {
    let editor = opened(&["ab", "cd"]);
    let elsewhere = Selection::caret("end", 1);
    for (caret, moves) in [
        (Selection::caret("a-text", 1), true),
        (elsewhere.clone(), false),
    ] {
        editor.select(caret).unwrap();
        editor
            .execute([paste_fragment(1, cells()).on("a-text")])
            .unwrap();
        let view = editor.store().snapshot();
        let texts = view
            .descendants("table")
            .filter(|node| node.kind() == "text");
        let texts: Vec<_> = texts.map(|text| text.id().clone()).collect();
        let pasted = Selection::new(
            Position::new(texts[0].clone(), 0),
            Position::new(texts[3].clone(), 1),
        );
        let expected = if moves { pasted } else { elsewhere.clone() };
        assert_eq!(editor.selection(), Some(expected));
        editor.undo().commit().unwrap();
    }
}

#[test]
fn tree_06_what_does_not_consist_of_cells_is_pasted_into_one() {
    let editor = opened(&["ab", "cd"]);
    done(&editor, paste_fragment(1, fragment("x")).on("a-text"));
    assert_eq!(drawn(&editor.store().snapshot()), ["ab", "cd"]);
    assert_eq!(editor.store().snapshot().text_of("a").unwrap(), "ax");
    let mut beside = cells();
    beside.nodes.push(element("p", [text_node("text", "y")]));
    done(&editor, paste_fragment(1, beside).on("b-text"));
    assert_eq!(drawn(&editor.store().snapshot()), ["ab", "cd"]);
    assert_eq!(editor.store().snapshot().text_of("b").unwrap(), "bxyzwy");
    // Cells that are pasted beside a table are one of their own.
    done(&editor, paste_fragment(3, cells()).on("end"));
    let view = editor.store().snapshot();
    let tables = view.children("page").filter(|node| node.kind() == "table");
    assert_eq!(tables.count(), 2);
}

#[test]
fn tree_06_what_does_not_consist_of_cells_is_pasted_into_each_selected_one() {
    let text = |editor: &Editor, id: &str| editor.store().snapshot().text_of(id).unwrap();
    let over = |from: usize, last: &str| TextSpan::to(from, last, 0);
    // Each cell keeps its type, its span and its other attributes.
    let editor = opened(&["ABBc", "deec", "fghi"]);
    editor
        .execute([set_attrs([("color", json!("red"))]).on("e")])
        .unwrap();
    done(&editor, paste_over(over(0, "e"), fragment("x")).on("a"));
    assert_eq!(drawn(&editor.store().snapshot()), ["ABBc", "deec", "fghi"]);
    assert_eq!(shown(&editor), ["XXXc", "xxxc", "fghi"]);
    let view = editor.store().snapshot();
    let color = view.node("e").unwrap().attributes().get("color");
    assert_eq!(color, Some(&json!("red")));
    // From a text in one to a text in another, and over one cell that is named by its own id.
    for (first, last, offset, expected) in [
        ("a-text", "e-text", 1, ["xb", "xf", "ij"]),
        ("e", "e", 0, ["ab", "xf", "ij"]),
    ] {
        let editor = opened(&["ab", "ef", "ij"]);
        let over = TextSpan::to(0, last, offset);
        done(&editor, paste_over(over, fragment("x")).on(first));
        assert_eq!(shown(&editor), expected);
    }
    // Blocks stay blocks, and what was pasted is selected if the cells were.
    let editor = opened(&["ab", "cd"]);
    editor
        .select(Selection::new(
            Position::new("a-text", 0),
            Position::new("b-text", 1),
        ))
        .unwrap();
    let mut blocks = fragment("one");
    blocks.nodes = ["one", "two"]
        .map(|it| element("p", [text_node("text", it)]))
        .to_vec();
    done(&editor, paste_over(over(0, "b"), blocks).on("a"));
    assert_eq!(
        (text(&editor, "a"), text(&editor, "b")),
        ("onetwo".into(), "onetwo".into())
    );
    let Some(Selection::Text(selected)) = editor.selection() else {
        panic!("a text")
    };
    let view = editor.store().snapshot();
    let texts = [&selected.anchor, &selected.focus].map(|it| view.text_of(&it.node_id).unwrap());
    assert_eq!(
        (texts, selected.focus.offset),
        (["one".into(), "two".into()], 3)
    );
}

/// Cells `a` and `b` that are text blocks themselves.
fn of_text() -> Editor {
    let schema = Schema::builder()
        .node("page", NodeType::new().content("table*"))
        .node("table", role("row*", TableRole::Table))
        .node("row", role("cell*", TableRole::Row))
        .node("cell", role("text*", TableRole::Cell))
        .node("text", NodeType::new())
        .root("page")
        .build();
    let options = StoreOptions::new().schema(schema.unwrap());
    let editor = Editor::new(DataStore::with_options(options), "ann");
    let text = |id: &str| text_node("text", id).with_id(format!("{id}-text"));
    let cells = ["a", "b"].map(|id| element("cell", [text(id)]).with_id(id));
    let table = element("table", [element("row", cells)]).with_id("table");
    editor
        .execute([
            create(element("page", [table]).with_id("page")),
            set_root().on("page"),
        ])
        .unwrap();
    editor
}

#[test]
fn tree_06_text_is_pasted_into_cells_that_are_text_blocks() {
    let editor = of_text();
    let over = TextSpan::to(0, "b-text", 1);
    let mut new = fragment("new");
    new.nodes = vec![text_node("text", "new")];
    done(&editor, paste_over(over, new).on("a-text"));
    let view = editor.store().snapshot();
    let texts = ["a", "b"].map(|id| view.text_of(id).unwrap());
    assert_eq!(texts, ["new", "new"]);
}

#[test]
fn tree_06_a_caret_in_cells_that_text_is_pasted_into_stays_a_caret() {
    let caret = |editor: &Editor| {
        let Some(Selection::Text(selected)) = editor.selection() else {
            panic!("a text")
        };
        assert_eq!(selected.anchor, selected.focus);
        let view = editor.store().snapshot();
        let at = selected.focus;
        let around = view
            .ancestors(&at.node_id)
            .map(|node| node.id().to_string());
        let around: Vec<_> = around.collect();
        (view.text_of(&at.node_id).unwrap(), at.offset, around)
    };
    // It is behind what was pasted in its own cell.
    for cell in ["a", "b"] {
        let editor = opened(&["ab", "cd"]);
        let at = Selection::caret(format!("{cell}-text"), 1);
        editor.select(at).unwrap();
        let over = TextSpan::to(0, "d-text", 1);
        done(&editor, paste_over(over, fragment("new")).on("a-text"));
        let (text, offset, around) = caret(&editor);
        assert_eq!((text.as_str(), offset), ("new", 3));
        assert!(around.contains(&cell.into()));
    }
}

/// A copy that begins in a cell and ends before the text of another has no content in one of them.
#[test]
fn tree_06_cells_that_a_copy_has_cut_get_what_they_require() {
    let cell = |text: &str| element("cell", [element("p", [text_node("text", text)])]);
    let cut = |kind: &str| element(kind, []);
    let open = |nodes, start_levels, end_levels| Fragment {
        nodes,
        start_levels,
        end_levels,
        ..Fragment::default()
    };
    let row = |cells: Vec<NodeSpec>| element("row", cells);
    for (what, cells) in [
        ("cells", open(vec![cut("cell"), cut("head")], 1, 1)),
        (
            "a row",
            open(vec![row(vec![cut("cell"), cut("head")])], 2, 2),
        ),
        (
            "a table",
            open(
                vec![element("table", [row(vec![cut("cell"), cut("head")])])],
                3,
                3,
            ),
        ),
    ] {
        assert_eq!(pasted(&["ab", "cd"], cells, "c"), ["ab", ".:"], "{what}");
    }
    let rows = vec![
        row(vec![cut("cell"), cell("x")]),
        row(vec![cell("y"), cut("cell")]),
    ];
    assert_eq!(pasted(&["ab", "cd"], open(rows, 2, 2), "a"), [".x", "y."]);
}

#[test]
fn tree_06_rows_and_cells_without_a_table_are_pasted_as_one() {
    let table = cells().nodes.remove(0);
    let rows = table.into_children();
    let first = rows[0].clone().into_children();
    let of = |nodes| Fragment {
        nodes,
        ..Fragment::default()
    };
    assert_eq!(pasted(&["ab", "cd"], of(rows), "a"), ["xy", "zw"]);
    assert_eq!(pasted(&["ab", "cd"], of(first), "c"), ["ab", "xy"]);
}

#[test]
fn tree_06_a_table_does_not_grow_larger_than_can_be_read() {
    let editor = spanned(vec![vec![(1000, 1)]; 1048]);
    let paste = paste_fragment(0, copied(&["x", "y"], "x", "y")).on("1047-0");
    // The cell itself is selected, so that nothing grows.
    editor.execute([paste.clone()]).unwrap();
    editor.undo().commit().unwrap();
    let view = editor.store().snapshot();
    let block = view.children("1047-0").next().unwrap().id().clone();
    let paste = paste_fragment(0, copied(&["x", "y"], "x", "y")).on(block);
    let error = rule(refused(&editor, paste));
    assert_eq!(error, "it has at most 1,048,576 places for cells");
}

/// A span that says more than the table has is one of what it has.
#[test]
fn tree_06_a_pasted_cell_with_a_large_span_is_cut() {
    let mut editor = opened(&["ab"]);
    let large = set_attrs([("colspan", json!(3)), ("rowspan", json!(70_000))]);
    editor.execute([large.on("b")]).unwrap();
    let view = editor.store().snapshot();
    let cell = doclock::document::NodeSpec::copy_of(&view, &"b".into(), true).unwrap();
    let cells = Fragment {
        nodes: vec![cell],
        ..Fragment::default()
    };
    editor = opened(&["ab", "cd"]);
    done(&editor, paste_fragment(0, cells).on("c-text"));
    assert_eq!(shown(&editor), ["ab.", "bbb"]);
}

/// What stands beside cells, or in a row, was dropped without a word.
#[test]
fn tree_06_cells_beside_other_blocks_are_pasted_into_a_cell() {
    let block = |text: &str| element("p", [text_node("text", text)]);
    let cell = |text: &str| element("cell", [block(text)]);
    let row = |nodes: Vec<NodeSpec>| element("row", nodes);
    let pasted = |nodes| {
        let editor = opened(&["ab", "cd"]);
        let mixed = Fragment {
            nodes,
            ..Fragment::default()
        };
        let done = editor.execute([paste_fragment(0, mixed).on("a-text")]);
        done.map(|_| editor.store().snapshot().text_of("page").unwrap())
    };
    for beside in [
        vec![cell("x"), block("y")],
        vec![row(vec![cell("x")]), block("y")],
        vec![row(vec![cell("x")]), cell("y")],
    ] {
        assert_eq!(pasted(beside).unwrap(), "xyabcdend");
    }
    // What can be in no document is in no cell either.
    let mixed = || row(vec![cell("x"), block("y")]);
    for between in [mixed(), element("table", [mixed()])] {
        let error = pasted(vec![between]).unwrap_err().to_string();
        assert!(error.contains("does not allow it"), "{error}");
    }
}

/// A cell of a short script, with an attribute that claims a thousand columns, was laid out with a
/// million cells for the places beside it, of which one was pasted.
#[test]
fn transaction_04_the_places_of_pasted_cells_count_as_steps() {
    let wide = element("cell", [element("p", [])]).with_attributes([("colspan", json!(1000))]);
    let rows = std::iter::once(vec![wide]).chain(std::iter::repeat_n(Vec::new(), 1040));
    let table = element("table", rows.map(|cells| element("row", cells)));
    let claimed = Fragment {
        nodes: vec![table],
        ..Fragment::default()
    };
    let editor = opened(&["ab", "cd"]);
    let paste = paste_fragment(0, claimed.clone()).on("a-text");
    editor.execute([paste]).unwrap();
    let nodes = editor.store().snapshot().descendants("page").count();
    assert!(nodes < 10_000, "{nodes}");
    // Many places without a cell that no attribute claims.
    let cells = |count| std::iter::repeat_n(element("cell", [element("p", [])]), count);
    let rows = std::iter::once(cells(1000)).chain(std::iter::repeat_n(cells(0), 900));
    let table = element("table", rows.map(|cells| element("row", cells)));
    let ragged = Fragment {
        nodes: vec![table],
        ..Fragment::default()
    };
    let steps = |cells: &Fragment, most: usize| {
        let editor = opened(&["ab", "cd"]);
        let mut on = editor.store().begin("client").unwrap();
        on.set_limits(Limits::new().with(Limit::Steps, most));
        let paste = paste_over(TextSpan::to(0, "a", 0), cells.clone()).on("a");
        on.run([paste]).map_err(|error| error.to_string())
    };
    // Those of its nodes and of less than 10,000 places.
    let few = 1042 * 3 * 64 + 10_000;
    assert_eq!(steps(&claimed, few), Ok(()));
    let of_nodes = 2902 * 64;
    let error = steps(&ragged, of_nodes + 900_000 / 8 - 1).unwrap_err();
    assert!(error.contains("steps"), "{error}");
    assert_eq!(steps(&ragged, 10 * of_nodes), Ok(()));
}
