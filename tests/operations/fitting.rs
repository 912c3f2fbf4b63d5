//! Edits of blocks under a schema. `crates/formats/tests/prosemirror/operations.rs` compares their
//! results with those of ProseMirror.

use doclock::document::{EditError, Fragment, Limit, Limits, NodeSpec, Position, Selection};
use doclock::schema::{MarkType, NodeType, Schema};
use doclock::transaction::on_node::JoinTarget;
use doclock::transaction::{Operation, OperationError, TextSpan, TransactionError};
use doclock::{DataStore, Editor, StoreOptions, View, dsl::*};

use crate::common::{children, image, text};

fn schema() -> Schema {
    let line = || NodeType::new().group("block").content("text*");
    let blocks = |content: &str| NodeType::new().content(content);
    Schema::builder()
        .node("page", blocks("block+"))
        .node("p", line())
        .node("heading", line().marks("em").defining(true))
        .node("code", line().marks("").code(true).defining(true))
        .node("quote", blocks("block+").group("block").defining(true))
        .node("list", blocks("item+").group("block"))
        .node("item", blocks("p block*").defining(true))
        .node("cell", blocks("p+").group("block").isolating(true))
        .node("pair", blocks("p p").group("block"))
        .node("text", NodeType::new())
        .mark("em", MarkType::new().inclusive(true))
        .mark("link", MarkType::new())
        .root("page")
        .build()
        .unwrap()
}

fn p(id: &str) -> NodeSpec {
    line("p", id)
}

/// A line whose text is its id.
fn line(kind: &str, id: &str) -> NodeSpec {
    let text = text_node("text", id).with_id(id);
    element(kind, [text]).with_id(format!("{kind}-{id}"))
}

fn list(id: &str, items: impl IntoIterator<Item = NodeSpec>) -> NodeSpec {
    let items = items.into_iter().enumerate();
    let items = items.map(|(nth, block)| element("item", [block]).with_id(format!("{id}-{nth}")));
    element("list", items).with_id(id)
}

fn page(blocks: impl IntoIterator<Item = NodeSpec>) -> Editor {
    let store = DataStore::with_options(StoreOptions::new().session(7).schema(schema()));
    let editor = Editor::new(store, "ann");
    let page = element("page", blocks).with_id("page");
    editor
        .execute([create(page), set_root().on("page")])
        .unwrap();
    editor
}

/// Runs an operation, and checks that its undo leads back.
fn done(editor: &Editor, operation: Operation) {
    let before = image(&editor.store().snapshot());
    editor.execute([operation.clone()]).unwrap();
    editor.undo().commit().unwrap();
    assert_eq!(image(&editor.store().snapshot()), before, "{operation:?}");
    editor.redo().commit().unwrap();
}

fn refused(editor: &Editor, operation: Operation) -> OperationError {
    let before = image(&editor.store().snapshot());
    let error = editor.execute([operation]).unwrap_err();
    assert_eq!(image(&editor.store().snapshot()), before);
    match error {
        TransactionError::Operation { cause, .. } => cause,
        other => panic!("{other}"),
    }
}

#[test]
fn tree_06_what_does_not_fit_names_the_node_and_the_rule_and_changes_nothing() {
    let editor = page([element("pair", [p("one"), p("two")]).with_id("pair")]);
    let error = refused(&editor, insert_paragraph(1).on("one"));
    assert!(matches!(
        &error,
        OperationError::Edit(EditError::DoesNotFit { id, parent, .. })
            if *id == "one".into() && *parent == "pair".into()
    ));
    assert_eq!(
        error.to_string(),
        "the edit at node one does not fit: no valid content of node pair has its result, by \
         the rule `p p`"
    );
}

#[test]
fn tree_06_required_content_is_filled_in_where_a_deletion_takes_it() {
    let editor = page([list("list", [p("one")]), p("two")]);
    done(&editor, delete_block().on("list-0"));
    assert_eq!(children(&editor.store().snapshot(), "page"), ["p-two"]);
    done(&editor, delete_block().on("p-two"));
    let view = editor.store().snapshot();
    let blocks: Vec<&str> = view.children("page").map(|node| node.kind()).collect();
    assert_eq!(blocks, ["p"]);
}

#[test]
fn tree_06_a_join_moves_a_paragraph_into_the_list_before_it() {
    let editor = page([list("list", [p("one")]), p("two")]);
    done(&editor, join_block(JoinTarget::Any, false).on("two"));
    let view = editor.store().snapshot();
    assert_eq!(children(&view, "page"), ["list"]);
    assert_eq!(view.node("list").unwrap().children().len(), 2);
    done(&editor, join_block(JoinTarget::Any, false).on("two"));
    let view = editor.store().snapshot();
    assert_eq!(children(&view, "list-0"), ["p-one", "p-two"]);
    done(&editor, join_block(JoinTarget::Any, false).on("two"));
    assert_eq!(text(&editor.store().snapshot(), "one"), "onetwo");
}

#[test]
fn tree_06_an_empty_paragraph_before_a_heading_goes_and_the_heading_stays() {
    let editor = page([element("p", []).with_id("p"), line("heading", "one")]);
    done(&editor, join_block(JoinTarget::Any, false).on("one"));
    assert_eq!(
        children(&editor.store().snapshot(), "page"),
        ["heading-one"]
    );
}

#[test]
fn tree_06_no_edit_at_its_end_leaves_an_isolating_node() {
    let cell = |id: &str, block| element("cell", [block]).with_id(id);
    let editor = page([cell("a", p("one")), cell("b", p("two"))]);
    for forward in [false, true] {
        let at = if forward { "one" } else { "two" };
        refused(&editor, join_block(JoinTarget::Any, forward).on(at));
    }
}

#[test]
fn text_01_text_is_inserted_into_a_block_without_text() {
    let editor = page([element("p", []).with_id("p")]);
    editor
        .select(Selection::new(Position::new("p", 0), Position::new("p", 0)))
        .unwrap();
    done(&editor, insert_text(0, "one").on("p"));
    let view = editor.store().snapshot();
    assert_eq!(view.text_of("p").unwrap(), "one");
}

#[test]
fn text_03_text_typed_at_the_end_of_an_inclusive_mark_has_it() {
    let editor = page([p("one")]);
    let marked = |kind: &str| apply_mark(kind.to_owned(), ..).on("one");
    editor.execute([marked("em"), marked("link")]).unwrap();
    done(&editor, insert_text(3, "!").on("one"));
    let view = editor.store().snapshot();
    let marks = view.node("one").unwrap().marks().iter();
    let marks: Vec<_> = marks
        .map(|mark| (mark.kind.as_str(), mark.range.clone().unwrap()))
        .collect();
    assert_eq!(marks, [("link", 0..3), ("em", 0..4)]);
}

#[test]
fn text_03_text_typed_over_a_selection_has_the_marks_of_its_first_character() {
    let editor = page([p("one"), p("two")]);
    editor.execute([apply_mark("em", 1..).on("one")]).unwrap();
    done(&editor, type_over(1, "two", 1, "x").on("one"));
    let view = editor.store().snapshot();
    assert_eq!(text(&view, "one"), "oxwo");
    let marks: Vec<_> = view.node("one").unwrap().marks().iter().collect();
    assert_eq!(marks[0].range, Some(1..2));
}

#[test]
fn one_of_two_links_is_removed() {
    let editor = page([p("one")]);
    let to = |href: &str| {
        [("href", href.into())]
            .into_iter()
            .collect::<doclock::document::Attributes>()
    };
    let store = DataStore::new();
    let editor = Editor::new(store, editor.owner().clone());
    editor
        .execute([
            create(text_node("text", "one").with_id("one")),
            apply_mark_with("link", to("/a"), 0..1).on("one"),
            apply_mark_with("link", to("/b"), 1..3).on("one"),
            remove_mark_with("link", to("/a"), ..).on("one"),
        ])
        .unwrap();
    let view = editor.store().snapshot();
    let marks: Vec<_> = view.node("one").unwrap().marks().iter().collect();
    assert_eq!((marks.len(), &marks[0].range), (1, &Some(1..3)));
}

#[test]
fn cutting_and_pasting_back_within_a_list_changes_nothing() {
    let nested = element("item", [p("two"), list("inner", [p("three"), p("four")])]);
    let outer = element(
        "list",
        [
            element("item", [p("one")]),
            nested,
            element("item", [p("five")]),
        ],
    );
    let texts = ["one", "two", "three", "four", "five"];
    for (first, from) in texts.iter().enumerate() {
        for to in &texts[first..] {
            for (start, end) in [(1, 2), (0, 1), (1, 3), (2, 3)] {
                let editor = page([outer.clone()]);
                let before = shape(&editor);
                let over = TextSpan::to(start, *to, end);
                editor
                    .execute([select_range(over.clone()).on(*from)])
                    .unwrap();
                editor
                    .execute([copy_range(over.clone()).on(*from)])
                    .unwrap();
                done(&editor, paste_over(over, None).on(*from));
                assert_eq!(shape(&editor), before, "{from} {start} to {to} {end}");
            }
        }
    }
}

/// The types and texts of a page.
fn shape(editor: &Editor) -> String {
    let view = editor.store().snapshot();
    let nodes = view.descendants("page");
    let shape = nodes.map(|node| {
        let depth = view.ancestors(node.id()).count();
        format!("{depth} {} {}\n", node.kind(), node.text())
    });
    shape.collect()
}

#[test]
fn a_fragment_keeps_the_ancestors_of_its_ends() {
    let editor = page([list("list", [p("one"), p("two")]), p("three")]);
    let copied = TextSpan::to(1, "two", 2);
    editor.execute([copy_range(copied).on("one")]).unwrap();
    let fragment = editor.clipboard().unwrap();
    let around: Vec<&str> = fragment.ancestors.iter().map(NodeSpec::kind).collect();
    assert_eq!(
        (around, fragment.start_levels, fragment.end_levels),
        (vec!["list"], 3, 3)
    );
    let json = serde_json::to_string(&fragment).unwrap();
    assert_eq!(serde_json::from_str::<Fragment>(&json).unwrap(), fragment);

    done(&editor, paste(5).on("three"));
    let view = editor.store().snapshot();
    let kinds: Vec<&str> = view.children("page").map(|node| node.kind()).collect();
    assert_eq!(kinds, ["list", "p", "list"]);
}

#[test]
fn tree_06_an_edit_looks_at_the_blocks_around_it_only() {
    // To visit all of them takes 64 steps each.
    let blocks = (0..20_000).map(|nth| p(&format!("t{nth}")));
    let editor = page(blocks);
    let limited = Editor::new(editor.store().clone(), "bob");
    let limited = limited.with_limits(Limits::new().with(Limit::Steps, 60_000));
    let list = || (element("list", []), element("item", []));
    for at in ["t0", "t10000", "t19998"] {
        for operation in [
            insert_paragraph(1).on(at),
            join_block(JoinTarget::Any, true).on(at),
            wrap_in_list(list().0, list().1).on(at),
            lift_node().on(at),
        ] {
            limited.execute([operation]).unwrap();
        }
    }
}

#[test]
fn tree_06_an_edit_within_very_many_levels_ends() {
    let mut deep = p("one");
    for _ in 0..2_000 {
        deep = element("quote", [deep]);
    }
    let editor = page([p("zero"), deep]);
    for operation in [
        insert_paragraph(1).on("one"),
        join_block(JoinTarget::Any, false).on("one"),
        delete_range(TextSpan::to(1, "one", 1)).on("zero"),
    ] {
        let _ = editor.execute([operation]);
    }
    let fragment = Fragment {
        nodes: vec![(0..2_000).fold(element("p", []), |inner, _| element("quote", [inner]))],
        ..Fragment::default()
    };
    let _ = editor.execute([paste_fragment(1, fragment).on("zero")]);
}
