//! Splitting and joining text nodes, blocks and list items.

use doclock::{
    Editor, View,
    document::{EditError, Mark, NodeSpec, Selection},
    dsl::*,
    transaction::{OperationError, parse_operations},
};
use serde_json::json;

use super::tree::{
    block, created, done, editor, idle, item, leaf, list, outline, page, refused, selected_after,
};
use crate::common::{id, marks};

fn span(id: &str, text: &str) -> NodeSpec {
    text_node("text", text).with_id(id)
}

/// `page[p[a"one two" b"three"] q[c"four"]]`, where `two` is bold and so is `four`.
fn two_lines() -> Editor {
    let bold = |spec: NodeSpec, range| spec.with_marks([Mark::new("bold", range)]);
    let a = bold(span("a", "one two"), 4..7).with_attributes([("lang", json!("en"))]);
    let c = bold(span("c", "four"), 0..4);
    let q = block("q", [c]).with_attributes([("level", json!(2))]);
    editor(block("page", [block("p", [a, span("b", "three")]), q]))
}

const LINES: &str = r#"page[p[a"one two" b"three"] q[c"four"]]"#;

// --- Text nodes ---

#[test]
fn split_text_node_divides_the_text_with_its_marks() {
    let editor = two_lines();
    let right = created(&done(&editor, split_text_node(5).on("a")));
    let expected = r#"page[p[a"one t" <text>"wo" b"three"] q[c"four"]]"#;
    assert_eq!(page(&editor), expected);
    let snapshot = editor.store().snapshot();
    assert_eq!(marks(&snapshot, "a"), [(4, 5, "bold".into())]);
    assert_eq!(marks(&snapshot, &right), [(0, 2, "bold".into())]);
    let attributes = |of: &str| snapshot.node(id(of)).unwrap().attributes().clone();
    assert_eq!(attributes("a"), attributes(&right));
}

#[test]
fn split_text_node_at_either_end_leaves_one_half_empty() {
    let editor = two_lines();
    done(&editor, split_text_node(0).on("c"));
    assert!(page(&editor).ends_with(r#"q[c <text>"four"]]"#));
    let editor = two_lines();
    done(&editor, split_text_node(4).on("c"));
    assert!(page(&editor).ends_with(r#"q[c"four" <text>]]"#));
}

#[test]
fn split_text_node_leaves_the_children_where_they_are() {
    let item = item("i", [leaf("x")]).with_text("ab");
    let editor = editor(block("page", [item]));
    done(&editor, split_text_node(1).on("i"));
    assert_eq!(page(&editor), r#"page[i"a"[x"x"] <item>"b"]"#);
}

#[test]
fn the_caret_goes_with_the_half_that_it_is_in() {
    for (offset, expected) in [(3, Ok(3)), (5, Err(0)), (7, Err(2))] {
        let editor = two_lines();
        editor.select(Selection::caret("a", offset)).unwrap();
        let result = done(&editor, split_text_node(5).on("a"));
        let expected = match expected {
            Ok(left) => Selection::caret("a", left),
            Err(right) => Selection::caret(created(&result).as_str(), right),
        };
        assert_eq!(result.selection_after, Some(expected));
    }
}

#[test]
fn split_text_node_refuses_an_invalid_position() {
    let editor = two_lines();
    let why = |offset, on: &str| refused(&editor, split_text_node(offset).on(on)).to_string();
    let far = "characters 8..8 are out of range: the text of node a has 7";
    assert_eq!(why(8, "a"), far);
    assert_eq!(why(0, "missing"), "node missing does not exist");
    let alone = "node page has no parent, so nothing can be put beside it";
    assert_eq!(why(0, "page"), alone);
}

#[test]
fn merge_text_nodes_joins_text_marks_and_children() {
    let editor = two_lines();
    let result = done(&editor, merge_text_nodes("b").on("a"));
    assert!(result.operations[0].created.is_empty());
    assert_eq!(page(&editor), r#"page[p[a"one twothree"] q[c"four"]]"#);
    done(&editor, merge_text_nodes("q").on("p"));
    assert_eq!(page(&editor), r#"page[p[a"one twothree" c"four"]]"#);
    done(&editor, merge_text_nodes("c").on("a"));
    assert_eq!(page(&editor), r#"page[p[a"one twothreefour"]]"#);
    let snapshot = editor.store().snapshot();
    let expected = [(4, 7, "bold".into()), (12, 16, "bold".into())];
    assert_eq!(marks(&snapshot, "a"), expected);
    let attributes = snapshot.node(id("a")).unwrap().attributes().clone();
    assert_eq!(attributes.get("lang"), Some(&json!("en")));
}

#[test]
fn merging_reverses_splitting() {
    let editor = two_lines();
    let before = crate::common::image(&editor.store().snapshot());
    let operations = [
        split_text_node(5).on("a").named("right"),
        merge_text_nodes(alias("right")).on("a"),
        split_block_node(1).on("p").named("rest"),
        merge_block_nodes(alias("rest")).on("p"),
    ];
    editor.execute(operations).unwrap();
    assert_eq!(crate::common::image(&editor.store().snapshot()), before);
}

#[test]
fn the_caret_goes_over_to_the_node_that_stays() {
    let editor = two_lines();
    let caret = Selection::caret("b", 2);
    let after = selected_after(&editor, caret, merge_text_nodes("b").on("a"));
    assert_eq!(after, Some(Selection::caret("a", 9)));
    let after = selected_after(
        &editor,
        Selection::node("q"),
        merge_block_nodes("q").on("p"),
    );
    assert_eq!(after, Some(Selection::node("p")));
}

#[test]
fn only_next_siblings_merge_and_text_nodes_only_of_one_type() {
    let other = text_node("code", "x").with_id("d");
    let line = block("p", [span("a", "1"), span("b", "2"), other]);
    let editor = editor(block("page", [line, block("q", [span("c", "3")])]));
    let why = |operation| refused(&editor, operation);
    let error = why(merge_text_nodes("d").on("b"));
    assert!(matches!(error, OperationError::TypesDiffer { .. }));
    let expected = "nodes b and d are of different types, so the two cannot be merged";
    assert_eq!(error.to_string(), expected);
    let expected = "node a is not the next sibling of node b, so the two cannot be joined";
    assert_eq!(why(merge_text_nodes("a").on("b")).to_string(), expected);
    for (left, right) in [("a", "c"), ("a", "a"), ("page", "page"), ("b", "a")] {
        for operation in [merge_text_nodes(right), merge_block_nodes(right)] {
            let error = why(operation.on(left));
            assert!(matches!(
                error,
                OperationError::Edit(EditError::NotAdjacent { .. })
            ));
        }
    }
    for (left, right) in [("a", "missing"), ("missing", "a")] {
        for operation in [merge_text_nodes(right), merge_block_nodes(right)] {
            assert_eq!(
                why(operation.on(left)).to_string(),
                "node missing does not exist"
            );
        }
    }
}

// --- Blocks ---

#[test]
fn split_block_node_divides_the_children_and_leaves_the_text() {
    let item = item("i", [leaf("x"), leaf("y"), leaf("z")]).with_text("ab");
    let item = item.with_attributes([("done", json!(true))]);
    let editor = editor(block("page", [item]));
    let right = created(&done(&editor, split_block_node(1).on("i")));
    let expected = r#"page[i"ab"[x"x"] <item>[y"y" z"z"]]"#;
    assert_eq!(page(&editor), expected);
    let snapshot = editor.store().snapshot();
    let right = snapshot.node(id(&right)).unwrap();
    assert_eq!(right.attributes().get("done"), Some(&json!(true)));
    done(&editor, split_block_node(0).on("i"));
    done(&editor, split_block_node(0).on("i"));
    let expected = r#"page[i"ab" <item> <item>[x"x"] <item>[y"y" z"z"]]"#;
    assert_eq!(page(&editor), expected);
}

#[test]
fn split_block_node_refuses_an_invalid_position() {
    let editor = two_lines();
    let why = |index, on: &str| refused(&editor, split_block_node(index).on(on)).to_string();
    let far = "index 3 is out of range: node p has 2 children";
    assert_eq!(why(3, "p"), far);
    assert_eq!(why(0, "missing"), "node missing does not exist");
    let alone = "node page has no parent, so nothing can be put beside it";
    assert_eq!(why(1, "page"), alone);
}

#[test]
fn merge_block_nodes_joins_blocks_of_different_types() {
    let heading = element("heading", [leaf("x")]).with_text("A").with_id("h");
    let line = block("p", [leaf("y")]).with_text("b");
    let line = line.with_attributes([("level", json!(1))]);
    let editor = editor(block("page", [heading, line]));
    done(&editor, merge_block_nodes("p").on("h"));
    assert_eq!(page(&editor), r#"page[h"Ab"[x"x" y"y"]]"#);
    let snapshot = editor.store().snapshot();
    let heading = snapshot.node(id("h")).unwrap();
    assert_eq!((heading.kind(), heading.attributes().len()), ("heading", 0));
}

#[test]
fn auto_merge_text_nodes_joins_runs_that_are_alike() {
    let bold = |spec: NodeSpec| spec.with_marks([Mark::whole("bold")]);
    let french = |spec: NodeSpec| spec.with_attributes([("lang", json!("fr"))]);
    let line = block(
        "p",
        [
            span("a", "1"),
            bold(span("b", "2")),
            span("c", ""),
            french(span("d", "3")),
            french(span("e", "4")),
            block("f", []),
            block("g", []),
            span("h", ""),
            span("i", ""),
            span("j", "5"),
            span("k", "6").with_children([leaf("x")]),
            text_node("code", "7").with_id("l"),
        ],
    );
    let editor = editor(block("page", [line]));
    let result = done(&editor, auto_merge_text_nodes().on("p"));
    assert!(result.operations[0].created.is_empty());
    let expected = r#"page[p[a"12" d"34" f g h"5" k"6"[x"x"] l"7"]]"#;
    assert_eq!(page(&editor), expected);
    assert_eq!(
        marks(&editor.store().snapshot(), "a"),
        [(1, 2, "bold".into())]
    );
    idle(&editor, auto_merge_text_nodes().on("p"));
    idle(&editor, auto_merge_text_nodes().on("l"));
    let why = refused(&editor, auto_merge_text_nodes().on("missing"));
    assert_eq!(why.to_string(), "node missing does not exist");
}

#[test]
fn auto_merge_text_nodes_leaves_children_without_text_to_themselves() {
    let images = ["a", "b", "c"].map(|id| element("image", []).with_id(id));
    let editor = editor(block("page", images));
    idle(&editor, auto_merge_text_nodes().on("page"));
}

#[test]
fn a_selection_follows_an_auto_merge() {
    let line = ["a", "b", "c"].map(|id| span(id, "12"));
    let editor = editor(block("page", line));
    let after = selected_after(
        &editor,
        Selection::caret("c", 1),
        auto_merge_text_nodes().on("page"),
    );
    assert_eq!(after, Some(Selection::caret("a", 5)));
}

#[test]
fn the_caret_at_the_end_of_a_text_stays_where_only_children_are_cut_off() {
    let item = item("i", [leaf("x"), leaf("y")]).with_text("ab");
    let editor = editor(block("page", [item]));
    editor.select(Selection::caret("i", 2)).unwrap();
    let result = done(&editor, split_block_node(1).on("i"));
    assert_eq!(page(&editor), r#"page[i"ab"[x"x"] <item>[y"y"]]"#);
    assert_eq!(result.selection_after, Some(Selection::caret("i", 2)));
}

// --- The Enter key ---

#[test]
fn insert_paragraph_cuts_the_block_at_the_caret() {
    let editor = two_lines();
    editor.select(Selection::caret("a", 4)).unwrap();
    let result = done(&editor, insert_paragraph(4).on("a"));
    let expected = r#"page[p[a"one "] <block>[<text>"two" b"three"] q[c"four"]]"#;
    assert_eq!(page(&editor), expected);
    let snapshot = editor.store().snapshot();
    let page = snapshot.node(id("page")).unwrap();
    let new = page.children().get(1).unwrap().to_string();
    let text = snapshot.node(id(&new)).unwrap().children().get(0).unwrap();
    assert_eq!(marks(&snapshot, &text.to_string()), [(0, 3, "bold".into())]);
    let created = &result.operations[0].created;
    assert_eq!(created, &[id(&new), text.clone()], "the outermost first");
    assert_eq!(
        result.selection_after,
        Some(Selection::caret(text.clone(), 0))
    );
}

#[test]
fn insert_paragraph_of_gives_the_new_block_its_type_and_the_old_attributes() {
    let editor = two_lines();
    done(&editor, insert_paragraph_of(4, "note").on("c"));
    assert!(page(&editor).ends_with(r#" q[c"four"] <note>[<text>]]"#));
    let snapshot = editor.store().snapshot();
    let new = snapshot.children(&id("page")).last().unwrap();
    assert_eq!(new.attributes().get("level"), Some(&json!(2)));

    done(&editor, insert_paragraph(0).on("a"));
    assert!(page(&editor).starts_with(r#"page[p[a] <block>[<text>"one two" "#));
}

#[test]
fn the_children_of_a_text_node_follow_its_text() {
    let line = block("p", [span("a", "12").with_children([leaf("x")])]);
    let editor = editor(block("page", [line]));
    done(&editor, insert_paragraph(1).on("a"));
    assert_eq!(page(&editor), r#"page[p[a"1"] <block>[<text>"2"[x"x"]]]"#);
}

#[test]
fn insert_paragraph_needs_a_block_with_a_parent_and_a_valid_offset() {
    let editor = two_lines();
    let why = |offset, on: &str| refused(&editor, insert_paragraph(offset).on(on)).to_string();
    let expected = "node p has no grandparent, so nothing can be put beside its parent";
    assert_eq!(why(0, "p"), expected);
    assert!(why(0, "page").starts_with("node page has no grandparent"));
    assert_eq!(why(0, "missing"), "node missing does not exist");
    let far = "characters 8..8 are out of range: the text of node a has 7";
    assert_eq!(why(8, "a"), far);
}

#[test]
fn split_list_item_splits_every_ancestor_up_to_the_item() {
    let line = block("p", [span("a", "1"), span("b", "23"), span("c", "4")]);
    let nested = list("n", [item("j", [])]);
    let i = item("i", [leaf("x"), block("quote", [line, leaf("y")]), nested]);
    let i = i.with_attributes([("done", json!(false))]);
    let outer = item("outer", [list("l", [i, item("k", [])])]);
    let editor = editor(block("page", [list("top", [outer])]));
    editor.select(Selection::caret("b", 1)).unwrap();
    let result = done(&editor, split_list_item(1, "item").on("b"));
    let snapshot = editor.store().snapshot();
    let left = r#"i[x"x" quote[p[a"1" b"2"]]]"#;
    let right = r#"<item>[<block>[<block>[<text>"3" c"4"] y"y"] n[j]]"#;
    assert_eq!(outline(&snapshot, "l"), format!("l[{left} {right} k]"));
    assert_eq!(result.operations[0].created.len(), 4);
    let new = snapshot.children(&id("l")).nth(1).unwrap();
    assert_eq!(new.attributes().get("done"), Some(&json!(false)));
    let caret = snapshot
        .descendants(new.id())
        .find(|node| *node.text() == "3");
    let caret = Selection::caret(caret.unwrap().id().clone(), 0);
    assert_eq!(result.selection_after, Some(caret));
}

#[test]
fn split_list_item_at_either_end_leaves_one_item_empty() {
    let lines = || editor(block("page", [list("l", [item("i", [span("a", "12")])])]));
    let editor = lines();
    done(&editor, split_list_item(0, "item").on("a"));
    assert_eq!(page(&editor), r#"page[l[i[a] <item>[<text>"12"]]]"#);
    let editor = lines();
    done(&editor, split_list_item(2, "item").on("a"));
    assert_eq!(page(&editor), r#"page[l[i[a"12"] <item>[<text>]]]"#);
}

#[test]
fn the_text_may_be_that_of_the_item() {
    let nested = list("n", [item("j", [])]);
    let i = item("i", [nested]).with_text("12");
    let editor = editor(block("page", [list("l", [i])]));
    done(&editor, split_list_item(1, "item").on("i"));
    assert_eq!(page(&editor), r#"page[l[i"1" <item>"2"[n[j]]]]"#);
}

#[test]
fn split_list_item_needs_an_item_with_a_parent() {
    let editor = two_lines();
    let error = refused(&editor, split_list_item(0, "item").on("a"));
    assert!(matches!(&error, OperationError::NoItem { item_type, .. } if item_type == "item"));
    assert_eq!(
        error.to_string(),
        "node a is not of type item, nor is an ancestor"
    );
    let why = |offset, kind: &str, on: &str| {
        refused(&editor, split_list_item(offset, kind).on(on)).to_string()
    };
    assert_eq!(why(0, "item", "missing"), "node missing does not exist");
    let far = "characters 8..8 are out of range: the text of node a has 7";
    assert_eq!(why(8, "block", "a"), far);

    let editor = self::editor(item("page", [span("a", "12")]));
    let error = refused(&editor, split_list_item(1, "item").on("a")).to_string();
    let alone = "node page has no parent, so nothing can be put beside it";
    assert_eq!(error, alone);
}

// --- Lists ---

#[test]
fn wrap_in_list_replaces_the_node_with_a_list() {
    let editor = two_lines();
    let result = done(
        &editor,
        wrap_in_list(element("list", []), element("item", [])).on("p"),
    );
    let expected = r#"page[<list>[<item>[p[a"one two" b"three"]]] q[c"four"]]"#;
    assert_eq!(page(&editor), expected);
    assert_eq!(result.operations[0].created.len(), 2);
}

#[test]
fn wrap_in_list_up_to_gives_each_sibling_an_item() {
    let five = ["a", "b", "c", "d", "e"].map(|id| block(id, []));
    let editor = editor(block("page", five));
    let list = block("l", [leaf("first")]);
    let item = element("item", [text_node("dot", "*")]);
    let result = done(&editor, wrap_in_list_up_to("d", list, item).on("b"));
    let items = ["b", "c", "d"].map(|id| format!(r#"<item>[<dot>"*" {id}]"#));
    let items = items.join(" ");
    let expected = format!(r#"page[a l[first"first" {items}] e]"#);
    assert_eq!(page(&editor), expected);
    let created = &result.operations[0].created;
    let snapshot = editor.store().snapshot();
    let below = snapshot.descendants(id("l")).map(|node| node.id());
    let new: Vec<_> = below.filter(|id| created.contains(id)).collect();
    assert!(new.into_iter().eq(created), "in document order");

    done(
        &editor,
        wrap_in_list_up_to("e", element("list", []), element("item", [])).on("e"),
    );
    assert!(page(&editor).ends_with(" <list>[<item>[e]]]"));
}

#[test]
fn a_caret_stays_in_a_block_that_is_wrapped_in_a_list() {
    let editor = two_lines();
    let caret = Selection::caret("a", 2);
    let wrap = wrap_in_list(element("list", []), element("item", []));
    assert_eq!(
        selected_after(&editor, caret.clone(), wrap.on("p")),
        Some(caret)
    );
}

#[test]
fn a_node_without_a_parent_is_wrapped_in_a_list_without_a_parent() {
    let editor = two_lines();
    done(&editor, remove_child("q").on("page"));
    done(&editor, wrap_in_list(list("l", []), item("i", [])).on("q"));
    let snapshot = editor.store().snapshot();
    assert_eq!(outline(&snapshot, "l"), r#"l[i[q[c"four"]]]"#);
}

#[test]
fn wrap_in_list_is_refused_for_the_root_for_taken_ids_and_without_a_last_sibling() {
    let editor = two_lines();
    let up_to = |last: &str, item: NodeSpec| wrap_in_list_up_to(last, element("list", []), item);
    let why = |last: &str, on: &str| refused(&editor, up_to(last, element("item", [])).on(on));
    let error = why("page", "page");
    assert_eq!(
        error.to_string(),
        "node page is the root of the document and cannot be wrapped"
    );
    let error = why("p", "q");
    assert!(matches!(error, OperationError::NotBehind { .. }));
    let expected = "node p is not a sibling of node q that comes after it";
    assert_eq!(error.to_string(), expected);
    let error = why("c", "a").to_string();
    assert_eq!(
        error,
        "node c is not a sibling of node a that comes after it"
    );
    assert_eq!(
        why("missing", "a").to_string(),
        "node missing does not exist"
    );
    assert_eq!(
        why("a", "missing").to_string(),
        "node missing does not exist"
    );
    assert!(matches!(why("p", "page"), OperationError::NotBehind { .. }));

    let error = refused(&editor, up_to("q", item("i", [])).on("p")).to_string();
    assert_eq!(error, "node i exists already", "one id for two items");
    let error = refused(
        &editor,
        wrap_in_list(list("a", []), element("item", [])).on("p"),
    );
    assert_eq!(error.to_string(), "node a exists already");
    assert_eq!(page(&editor), LINES);
}

// --- Many, and the JSON form ---

#[test]
fn a_thousand_nodes_merge_and_a_hundred_thousand_levels_split() {
    let many = (0..1_000).map(|nth| text_node("text", nth.to_string()));
    let mut deep = span("t", "12");
    for _ in 0..100_000 {
        deep = element("level", [deep]);
    }
    let lines = block("lines", many);
    let editor = editor(block("page", [lines, list("l", [item("i", [deep])])]));
    let operations = [
        auto_merge_text_nodes().on("lines"),
        split_list_item(1, "item").on("t"),
    ];
    editor.execute(operations).unwrap();
    let snapshot = editor.store().snapshot();
    let length = |of: &str| snapshot.node(id(of)).unwrap().children().len();
    assert_eq!((length("lines"), length("l")), (1, 2));
}

#[test]
fn transaction_04_the_operations_on_blocks_run_from_json() {
    let editor = two_lines();
    let script = r#"[
        {"type": "splitTextNode", "payload": {"nodeId": "a", "offset": 3}, "alias": "right"},
        {"type": "mergeTextNodes", "payload": {"nodeId": {"alias": "right"}, "otherId": "b"}},
        {"type": "splitBlockNode", "payload": {"nodeId": "p", "index": 1}, "alias": "rest"},
        {"type": "mergeBlockNodes", "payload": {"nodeId": {"alias": "rest"}, "otherId": "q"}},
        {"type": "insertParagraph", "payload": {"nodeId": "a", "offset": 2}},
        {"type": "insertParagraph", "payload": {"nodeId": "a", "offset": 1, "type": "note"}},
        {"type": "autoMergeTextNodes", "payload": {"nodeId": {"alias": "rest"}}},
        {"type": "splitListItem", "payload": {"nodeId": "c", "offset": 4, "itemType": "block"}},
        {"type": "wrapInList", "payload": {"nodeId": "p", "list": {"type": "list", "id": "l"},
            "item": {"type": "item"}, "lastId": {"alias": "rest"}}}
    ]"#;
    done(&editor, parse_operations(script).unwrap());
    let items = [
        r#"p[a"o"]"#,
        r#"<note>[<text>"n"]"#,
        r#"<block>[<text>"e"]"#,
        r#"<block>[<text>" twothree" c"four"]"#,
    ];
    let items = items.map(|block| format!("<item>[{block}]")).join(" ");
    assert_eq!(page(&editor), format!("page[l[{items}] <block>[<text>]]"));
}
