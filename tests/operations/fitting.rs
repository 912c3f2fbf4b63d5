//! Edits of blocks under a schema. `crates/formats/tests/prosemirror/operations.rs` compares their
//! results with those of ProseMirror.

use doclock::document::{EditError, Fragment, Limit, Limits, NodeSpec, Position, Selection};
use doclock::schema::{AttributeSpec, MarkType, NodeType, Schema, ValueType};
use doclock::transaction::on_node::JoinTarget;
use doclock::transaction::{Operation, OperationError, RunOperations, TextSpan, TransactionError};
use doclock::{DataStore, Draft, Editor, StoreOptions, View, dsl::*};

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
    document(schema(), "page", blocks)
}

/// A document under a schema. The id of its root is its type.
fn document(schema: Schema, root: &str, blocks: impl IntoIterator<Item = NodeSpec>) -> Editor {
    let store = DataStore::with_options(StoreOptions::new().session(7).schema(schema));
    let editor = Editor::new(store, "ann");
    let top = element(root, blocks).with_id(root);
    editor.execute([create(top), set_root().on(root)]).unwrap();
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

/// The error of an operation that changes nothing.
pub(super) fn refused(editor: &Editor, operation: Operation) -> OperationError {
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

/// A range that covers a block is what a user selects. An editor that edits by positions deletes
/// exactly what is between two of them, and the types of the first block and its parents stay.
#[test]
fn tree_06_an_exact_deletion_leaves_the_nodes_that_it_covers() {
    let blocks = || {
        [
            line("heading", "one"),
            element("quote", [p("two")]),
            p("three"),
        ]
    };
    let to_its_start = || TextSpan::to(0, "three", 0);
    let deleted = |operation: Operation| {
        let editor = page(blocks());
        done(&editor, operation);
        shape(&editor)
    };
    let covered = deleted(delete_range(to_its_start()).on("two"));
    assert_eq!(
        covered,
        "0 page \n1 heading \n2 text one\n1 p \n2 text three\n"
    );
    let exact = deleted(delete_range_exactly(to_its_start()).on("two"));
    let quoted = "0 page \n1 heading \n2 text one\n1 quote \n2 p \n3 text three\n";
    assert_eq!(exact, quoted);

    let json = r#"{"type":"deleteRange","payload":
        {"nodeId":"two","start":0,"end":0,"endNodeId":"three","exact":true}}"#;
    let read: Operation = serde_json::from_str(json).unwrap();
    assert_eq!(read, delete_range_exactly(to_its_start()).on("two"));
    assert_eq!(deleted(read), quoted);
    // Within one text, both leave the block.
    let [one, other] = [delete_range(0..), delete_range_exactly(0..)].map(|it| it.on("one"));
    assert_eq!(deleted(one), deleted(other));
}

#[test]
fn tree_06_a_whole_block_is_pasted_beside_the_text_at_whose_start_or_end_the_caret_is() {
    let pasted = |offset| {
        let editor = page([list("list", [p("one")]), p("two")]);
        let quote = element("quote", [element("p", [text_node("text", "new")])]);
        done(&editor, paste_fragment(offset, fragment([quote])).on("one"));
        let view = editor.store().snapshot();
        let kinds = |id: &str| -> Vec<String> {
            view.children(id)
                .map(|node| node.kind().to_string())
                .collect()
        };
        (kinds("page"), kinds("list-0"))
    };
    let of = |kinds: &[&str]| kinds.iter().map(ToString::to_string).collect::<Vec<_>>();
    // An item begins with a paragraph, so the block goes before the list.
    assert_eq!(pasted(0), (of(&["quote", "list", "p"]), of(&["p"])));
    assert_eq!(pasted(3), (of(&["list", "p"]), of(&["p", "quote"])));
    assert_eq!(pasted(1), (of(&["list", "p"]), of(&["p", "quote", "p"])));
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
            wrap_in_list(list().0, list().1).on(format!("p-{at}").as_str()),
            lift_node().on(format!("p-{at}").as_str()),
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

/// A schema with paragraphs and more types.
fn schema_of(root: &str, types: impl IntoIterator<Item = (&'static str, NodeType)>) -> Schema {
    let schema = Schema::builder()
        .node("page", NodeType::new().content("block+"))
        .node("p", NodeType::new().group("block").content("text*"))
        .node("text", NodeType::new());
    let types = types.into_iter();
    let schema = types.fold(schema, |schema, (name, rules)| schema.node(name, rules));
    schema.root(root).build().unwrap()
}

/// A page under a schema with more types.
fn page_of(
    types: impl IntoIterator<Item = (&'static str, NodeType)>,
    blocks: impl IntoIterator<Item = NodeSpec>,
) -> Editor {
    document(schema_of("page", types), "page", blocks)
}

fn fragment(nodes: impl IntoIterator<Item = NodeSpec>) -> Fragment {
    Fragment {
        nodes: nodes.into_iter().collect(),
        ..Fragment::default()
    }
}

const NONE: [(&str, serde_json::Value); 0] = [];

/// The text of the whole page, and how many nodes there are.
fn contents(editor: &Editor) -> (String, usize) {
    let view = editor.store().snapshot();
    let texts = view.nodes().map(|node| node.text().to_string());
    let mut texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    texts.sort_unstable();
    (texts.concat(), view.len())
}

/// A hard break is no part of code. The search for a place took the code again and again.
/// A new block in an item once went with the other half of the item, which was split there.
#[test]
fn tree_06_a_paste_at_any_place_of_any_range_is_valid_or_does_not_fit() {
    let len = |text: &str| usize::from(text.len() == 1);
    // One of them is a paragraph without a text.
    let texts = ["a", "b", "empty", "c", "d", "e", "f", "g"];
    let make = || {
        let empty = element("p", []).with_id("empty");
        let inner = element("item", [empty, p("c"), list("inner", [p("d")])]).with_id("item-c");
        let outer = element("list", [element("item", [p("b")]), inner]).with_id("outer");
        let quote = element("quote", [p("a"), outer, line("heading", "e")]).with_id("quote");
        page([quote, line("code", "f"), list("last", [p("g")])])
    };
    for (nth, from) in texts.iter().enumerate() {
        for to in &texts[nth..] {
            for at in texts {
                for offset in 0..=len(at) {
                    let editor = make();
                    editor
                        .execute([copy_range(TextSpan::to(0, *to, len(to))).on(*from)])
                        .unwrap();
                    let before = image(&editor.store().snapshot());
                    let outcome = editor.execute([paste(offset).on(at)]);
                    let case = format!("{from} to {to} at {offset} of {at}");
                    match outcome {
                        Ok(_) => drop(editor.undo().commit().unwrap()),
                        Err(TransactionError::Operation { cause, .. }) => match cause {
                            OperationError::EmptyClipboard => {}
                            OperationError::Edit(EditError::DoesNotFit { .. }) => {}
                            other => panic!("{case}: {other}"),
                        },
                        Err(other) => panic!("{case}: {other}"),
                    }
                    assert_eq!(image(&editor.store().snapshot()), before, "{case}");
                }
            }
        }
    }
}

#[test]
fn tree_06_a_newline_that_is_pasted_into_code_gets_a_paragraph() {
    let editor = page([line("code", "one")]);
    let pasted = fragment([text_node("text", "a\nb")]);
    done(&editor, paste_fragment(1, pasted).on("one"));
    let view = editor.store().snapshot();
    let blocks = view.children("page");
    let blocks = blocks.map(|node| (node.kind(), view.text_of(node.id()).unwrap()));
    let blocks: Vec<(&str, String)> = blocks.collect();
    let expected = [("code", "oa"), ("p", "\nbne")];
    assert_eq!(blocks, expected.map(|(kind, text)| (kind, text.to_owned())));
}

/// The items before it are not read.
#[test]
fn tree_06_any_item_of_a_list_is_lifted_and_sunk_by_itself() {
    let inner = || list("inner", ["x", "y", "z"].map(p));
    let outer = || element("item", [p("outer"), inner()]).with_id("outer-item");
    for at in 0..3 {
        let item = format!("inner-{at}");
        let editor = page([element("list", [outer()]).with_id("list")]);
        done(&editor, outdent_node().on(item.as_str()));
        let view = editor.store().snapshot();
        assert_eq!(children(&view, "page"), ["list"], "{at}");
        assert!(children(&view, "list").contains(&item), "{at}");
    }
    for at in 1..3 {
        let editor = page([inner()]);
        done(&editor, indent_node().on(format!("inner-{at}").as_str()));
        let view = editor.store().snapshot();
        assert_eq!(children(&view, "inner").len(), 2, "{at}");
    }
}

/// A block with text of its own, a part of a line without text, and one with children.
#[test]
fn tree_06_a_paste_that_the_schema_cannot_show_loses_nothing() {
    let types = || {
        let block = || NodeType::new().group("block");
        [
            ("code", block()),
            ("image", NodeType::new()),
            ("footnote", NodeType::new().inline(true).content("text*")),
            ("line", block().content("(text|image|footnote)*")),
        ]
    };
    let note = element("footnote", [text_node("text", "note")]);
    let pasted = [
        (text_node("code", "abc"), 1, "abc"),
        (element("line", [element("image", [])]), 2, ""),
        (element("line", [note]), 3, "note"),
    ];
    for (spec, more, text) in pasted {
        let editor = page_of(types(), [line("p", "one")]);
        let before = contents(&editor);
        let outcome = editor.execute(paste_fragment(3, fragment([spec])).on("one"));
        let after = contents(&editor);
        match outcome {
            Ok(_) => {
                assert!(after.1 >= before.1 + more, "{after:?}");
                assert!(after.0.contains(text), "{after:?}");
            }
            Err(_) => assert_eq!(after, before),
        }
    }
}

/// Alone it is refused. Together with what makes the document valid again, it keeps the text.
#[test]
fn tree_06_a_text_block_that_becomes_another_block_keeps_its_text() {
    let editor = page([p("one")]);
    editor
        .execute(transform_node("quote", NONE).on("p-one"))
        .unwrap_err();
    let both = [
        transform_node("quote", NONE).on("p-one"),
        wrap_node(element("p", [])).on("one"),
    ];
    editor.execute(both).unwrap();
    assert_eq!(text(&editor.store().snapshot(), "one"), "one");
}

#[test]
fn tree_06_a_block_that_cannot_have_a_type_is_an_error() {
    let editor = page([element("pair", [p("one"), p("two")])]);
    let error = refused(&editor, transform_node("heading", NONE).on("p-one"));
    assert!(
        matches!(error, OperationError::Edit(EditError::DoesNotFit { .. })),
        "{error}"
    );
}

/// Before the item is a node that has no content, so the place before it is in the list.
#[test]
fn tree_06_an_item_behind_a_divider_is_not_wrapped_again_and_nothing_panics() {
    let block = || NodeType::new().group("block");
    let types = [
        ("list", block().content("(item|divider)+")),
        ("item", NodeType::new().content("p block*")),
        ("divider", NodeType::new().content("")),
    ];
    let item = element("item", [line("p", "one")]);
    let editor = page_of(types, [element("list", [element("divider", []), item])]);
    let wrap = wrap_in_list(element("list", []), element("item", [])).on("p-one");
    match editor.execute(wrap) {
        Err(TransactionError::Operation { cause, .. }) => {
            assert!(!matches!(cause, OperationError::Panicked(_)), "{cause}");
        }
        outcome => drop(outcome.unwrap()),
    }
}

/// Its title is text of its own, beside its paragraphs.
#[test]
fn tree_06_a_block_with_a_title_is_not_taken_for_an_empty_one() {
    let toggle = NodeType::new().group("block").content("p*").text(true);
    let quote = NodeType::new().group("block").content("block+");
    let editor = || {
        let title = text_node("toggle", "Title").with_id("toggle");
        let quoted = element("quote", [line("p", "x")]);
        page_of(
            [("toggle", toggle.clone()), ("quote", quote.clone())],
            [title, quoted],
        )
    };
    let backwards = editor();
    let _ = backwards.execute(join_block(JoinTarget::Any, false).on("x"));
    assert!(contents(&backwards).0.contains("Title"));
    let typing = editor();
    let delete = delete_text_range(0, 5).on("toggle");
    typing
        .execute([delete, insert_text(0, "New").on("toggle")])
        .unwrap();
    assert_eq!(text(&typing.store().snapshot(), "toggle"), "New");
    typing
        .execute(insert_text(0, "lost?").on("page"))
        .unwrap_err();
}

/// A schema can require any number of nodes.
#[test]
fn tree_06_a_schema_that_requires_too_many_nodes_is_an_error() {
    let twice = |name: &'static str, of: Option<&str>| {
        let content = of.map_or(String::new(), |of| format!("{of} {of}"));
        (name, NodeType::new().content(content.as_str()))
    };
    let names: Vec<&'static str> = (0..30).map(|nth| &*format!("t{nth}").leak()).collect();
    let mut types: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(nth, name)| twice(name, names.get(nth + 1).copied()))
        .collect();
    types.push(("top", NodeType::new().group("block").content("p t0?")));
    let editor = page_of(types, [element("top", [line("p", "one")]).with_id("top")]);
    let added = add_child(element("t0", []), None).on("top");
    editor.execute(added).unwrap_err();
    let _ = editor.execute(delete_block().on("p-one"));
}

/// In between, the page has no heading, which its content requires.
#[test]
fn tree_06_siblings_keep_their_order_while_the_document_is_invalid() {
    let types = [
        ("book", NodeType::new().content("heading block+")),
        ("heading", NodeType::new().content("text*")),
        ("list", NodeType::new().group("block").content("item+")),
        ("item", NodeType::new().content("p block*")),
    ];
    let ids = ["a", "b", "c", "d"];
    let mut blocks: Vec<NodeSpec> = ids.iter().map(|id| line("p", id)).collect();
    blocks.insert(0, line("heading", "title"));
    blocks.push(list("list", [p("x")]));
    let editor = document(schema_of("book", types), "book", blocks);
    let before = children(&editor.store().snapshot(), "book");
    let heading = line("heading", "other");
    let edits = [
        delete_node().on("heading-title"),
        split_list_item(1, "item").on("x"),
        add_child(heading, 0).on("book"),
    ];
    editor.execute(edits).unwrap();
    assert_eq!(
        children(&editor.store().snapshot(), "book")[1..],
        before[1..]
    );
}

/// A paragraph whose texts are these, by their ids.
fn texts(id: &str, texts: [&str; 3]) -> NodeSpec {
    let texts = texts.map(|text| {
        let content = if text.starts_with("blank") { "" } else { text };
        text_node("text", content).with_id(text)
    });
    element("p", texts).with_id(id)
}

#[test]
fn tree_06_blank_texts_of_paragraphs_that_an_edit_does_not_concern_stay() {
    let before = ["blank-1", "a", "blank-2"];
    let after = ["b", "blank-3", "blank-4"];
    let edits = [
        insert_paragraph(1).on("one"),
        join_block(JoinTarget::Any, false).on("two"),
        delete_range(TextSpan::to(1, "two", 1)).on("one"),
        wrap_in_list(element("list", []), element("item", [])).on("p-one"),
        transform_node("heading", NONE).on("p-one"),
    ];
    for edit in edits {
        let blocks = [
            texts("before", before),
            p("one"),
            p("two"),
            texts("after", after),
        ];
        let editor = page(blocks);
        done(&editor, edit.clone());
        let view = editor.store().snapshot();
        assert_eq!(children(&view, "before"), before, "{edit:?}");
        assert_eq!(children(&view, "after"), after, "{edit:?}");
    }
}

/// Neither do those of the block itself, where only its type or its place changes.
#[test]
fn tree_06_blank_texts_of_a_block_stay_where_its_text_does_not_change() {
    let parts = ["blank-1", "a", "blank-2"];
    let edits = [
        wrap_in_list(element("list", []), element("item", [])).on("p"),
        wrap_node(element("quote", [])).on("p"),
        transform_node("heading", NONE).on("p"),
    ];
    for edit in edits {
        let editor = page([texts("p", parts), p("one")]);
        done(&editor, edit.clone());
        assert_eq!(children(&editor.store().snapshot(), "p"), parts, "{edit:?}");
    }
}

#[test]
fn a_cut_that_is_refused_leaves_the_clipboard() {
    let cell = |id: &str, block| element("cell", [block]).with_id(id);
    let editor = page([cell("a", p("one")), cell("b", p("two"))]);
    editor.execute([copy_range(..).on("one")]).unwrap();
    let before = editor.clipboard();
    let cut = || cut_range(TextSpan::to(1, "two", 4)).on("one");
    refused(&editor, cut());
    assert_eq!(editor.clipboard(), before);
    // Also within a transaction that goes on.
    let ignored = op(move |on: &mut Draft| {
        on.run([cut()]).unwrap_err();
        on.run([insert_text(0, "!").on("one")])
    });
    editor.execute([ignored]).unwrap();
    assert_eq!(editor.clipboard(), before);
}

/// It was accepted where the two are near.
#[test]
fn tree_06_a_last_node_in_front_of_the_first_is_refused() {
    let items = list("list", ["x", "y", "z"].map(p));
    let editor = page([p("one"), p("two"), p("three"), items]);
    let (list, item) = (|| element("list", []), || element("item", []));
    for (id, operation) in [
        ("p-two", wrap_nodes_up_to("p-one", element("quote", []))),
        ("p-two", wrap_in_list_up_to("p-one", list(), item())),
        ("p-y", lift_nodes_up_to("p-x")),
        ("list-2", indent_nodes_up_to("list-1")),
        ("list-1", outdent_nodes_up_to("list-0")),
    ] {
        let error = refused(&editor, operation.on(id));
        assert!(
            matches!(&error, OperationError::NotBehind { id: first, .. } if *first == id.into()),
            "{error}"
        );
    }
}

/// Not on the paragraph around it.
#[test]
fn tree_06_an_edit_of_a_part_of_a_line_acts_on_that_part() {
    let edits = [
        (wrap_node(element("quote", [])), "quote"),
        (
            wrap_in_list(element("list", []), element("item", [])),
            "item",
        ),
        (lift_node(), "page"),
    ];
    for (edit, parent) in edits {
        let editor = page([p("one"), p("two")]);
        let before = image(&editor.store().snapshot());
        // The schema has no such result.
        editor.execute([edit.clone().on("one")]).unwrap_err();
        assert_eq!(image(&editor.store().snapshot()), before);
        let mut transaction = editor.store().begin("ann").unwrap();
        transaction.run([edit.on("one")]).unwrap();
        let around = transaction.parent("one").cloned().unwrap();
        assert_eq!(transaction.node(around).unwrap().kind(), parent);
        drop(transaction);
    }
}

#[test]
fn tree_06_an_item_that_begins_with_a_list_is_lifted_and_sunk_itself() {
    let types = || {
        [
            ("list", NodeType::new().group("block").content("item+")),
            ("item", NodeType::new().content("block+")),
        ]
    };
    let inner = || list("inner", [line("p", "x"), line("p", "y")]);
    let editor = page_of(types(), [list("outer", [inner()])]);
    done(&editor, outdent_node().on("outer-0"));
    assert_eq!(children(&editor.store().snapshot(), "page"), ["inner"]);

    let editor = page_of(types(), [list("outer", [p("one"), inner()])]);
    done(&editor, indent_node().on("outer-1"));
    let view = editor.store().snapshot();
    assert_eq!(children(&view, "outer"), ["outer-0"]);
    assert_eq!(children(&view, "outer-1"), ["inner"]);
    assert_eq!(children(&view, "inner"), ["inner-0", "inner-1"]);
}

fn does_not_fit(error: &OperationError) -> bool {
    matches!(error, OperationError::Edit(EditError::DoesNotFit { .. }))
}

#[test]
fn tree_06_a_given_type_of_a_new_block_that_does_not_fit_is_an_error() {
    let cell = element("cell", [p("one")]).with_id("cell");
    let editor = page([cell, p("two")]);
    for (kind, id, at) in [
        ("heading", "one", 1),
        ("list", "two", 1),
        ("list", "two", 3),
    ] {
        let error = refused(&editor, insert_paragraph_of(at, kind).on(id));
        assert!(does_not_fit(&error), "{error}");
    }
    done(&editor, insert_paragraph_of(1, "heading").on("two"));
    let view = editor.store().snapshot();
    let kinds: Vec<&str> = view.children("page").map(|node| node.kind()).collect();
    assert_eq!(kinds, ["cell", "p", "heading"]);
}

/// The first type that may be filled in contains what it would be filled into.
#[test]
fn tree_06_required_content_is_filled_with_another_type_where_the_first_cannot_be() {
    let types = [
        ("book", NodeType::new().content("box+")),
        ("box", NodeType::new().content("(loop|end)")),
        ("loop", NodeType::new().content("box")),
        ("end", NodeType::new().content("")),
    ];
    let blocks = [element("box", [element("end", []).with_id("end")])];
    let editor = document(schema_of("book", types), "book", blocks);
    done(&editor, delete_block().on("end"));
    let view = editor.store().snapshot();
    let kinds: Vec<&str> = view.descendants("book").map(|node| node.kind()).collect();
    assert_eq!(kinds, ["book", "box", "end"]);
}

#[test]
fn tree_06_blocks_are_wrapped_in_items_of_the_given_type() {
    let types = || {
        [
            (
                "list",
                NodeType::new().group("block").content("(item|task)+"),
            ),
            ("item", NodeType::new().content("p block*")),
            (
                "task",
                NodeType::new().content("p block*").unknown_attributes(true),
            ),
            ("quote", NodeType::new().group("block").content("block+")),
        ]
    };
    let editor = || page_of(types(), [p("one"), p("two")]);
    let wrap = |item: NodeSpec| wrap_in_list_up_to("p-two", element("list", []), item).on("p-one");
    for item in ["item", "task"] {
        let editor = editor();
        done(&editor, wrap(element(item, [])));
        let view = editor.store().snapshot();
        let kinds: Vec<&str> = view.descendants("page").map(|node| node.kind()).collect();
        assert_eq!(
            kinds,
            ["page", "list", item, "p", "text", item, "p", "text"]
        );
    }
    let checked = || [("checked", true.into())].into_iter().collect();
    let editor_of_tasks = editor();
    done(
        &editor_of_tasks,
        wrap(element("task", []).with_attributes(checked())),
    );
    let view = editor_of_tasks.store().snapshot();
    let tasks = view.nodes().filter(|node| node.kind() == "task");
    assert_eq!(
        tasks.filter(|task| *task.attributes() == checked()).count(),
        2
    );
    let error = refused(&editor(), wrap(element("quote", [])));
    assert!(does_not_fit(&error), "{error}");
}

/// Each of the pasted nodes is placed elsewhere than the one before it, and copies those after it.
#[test]
fn tree_06_a_paste_whose_nodes_are_placed_one_by_one_counts_for_the_limits() {
    let editor = page([p("one")]);
    let limited = Editor::new(editor.store().clone(), "bob");
    let limited = limited.with_limits(Limits::new().with(Limit::Steps, 800_000));
    let block = |nth: usize| match nth % 2 {
        0 => element("p", []),
        _ => element("item", [element("p", [])]),
    };
    let paste = |size| paste_fragment(1, fragment((0..size).map(block))).on("one");
    limited.execute(paste(100)).unwrap();
    let error = refused(&limited, paste(2_000));
    assert!(
        matches!(error, OperationError::Edit(EditError::Limit(_))),
        "{error}"
    );
}

// --- Neighbours ---

/// The children of the page after some operations, each with the texts in it; the undo leads back.
fn joined(editor: &Editor, operations: Vec<Operation>) -> Vec<String> {
    let before = image(&editor.store().snapshot());
    editor.execute(operations).unwrap();
    let view = editor.store().snapshot();
    let shown = view.children("page");
    let shown = shown
        .map(|node| format!("{} {}", node.kind(), view.text_of(node.id()).unwrap()))
        .collect();
    if image(&view) != before {
        editor.undo().commit().unwrap();
        assert_eq!(image(&editor.store().snapshot()), before);
    }
    shown
}

#[test]
fn tree_06_siblings_that_become_neighbours_are_joined() {
    let three = || {
        page([
            list("x", [p("a")]),
            list("y", [p("b")]),
            p("c"),
            list("z", [p("d")]),
        ])
    };
    let join = || join_neighbours(["list"]);
    let gone = || delete_node().on("p-c");
    // Those that were neighbours stay apart.
    assert_eq!(joined(&three(), vec![join()]).len(), 4);
    assert_eq!(
        joined(&three(), vec![gone(), join()]),
        ["list a", "list bd"]
    );
    let others = join_neighbours(["quote", "p"]);
    assert_eq!(joined(&three(), vec![gone(), others]).len(), 3);
    // A new list is joined with both lists beside it, and the first one stays.
    let wrap = wrap_in_list(element("list", []), element("item", [])).on("p-c");
    let editor = three();
    let shown = joined(&editor, vec![wrap.clone(), join()]);
    assert_eq!(shown, ["list a", "list bcd"]);
    editor.execute([wrap, join()]).unwrap();
    let view = editor.store().snapshot();
    assert_eq!(view.children("y").count(), 3);
    // The operations behind it make other neighbours.
    let late = vec![join(), delete_node().on("p-c")];
    assert_eq!(joined(&three(), late).len(), 3);
}

#[test]
fn tree_06_what_is_behind_a_split_stays_a_neighbour() {
    let quote = |blocks: Vec<NodeSpec>| element("quote", blocks);
    let editor = page([quote(vec![p("a"), p("b"), p("c")]), quote(vec![p("d")])]);
    let lift = lift_node().on("p-b");
    let shown = joined(&editor, vec![lift, join_neighbours(["quote"])]);
    assert_eq!(shown, ["quote a", "p b", "quote c", "quote d"]);
}

#[test]
fn tree_06_neighbours_that_the_schema_keeps_apart_are_not_joined() {
    let pair = |one: &str, other: &str| element("pair", [p(one), p(other)]);
    let editor = page([pair("a", "b"), p("c"), pair("d", "e")]);
    let shown = joined(
        &editor,
        vec![delete_node().on("p-c"), join_neighbours(["pair"])],
    );
    assert_eq!(shown, ["pair ab", "pair de"]);

    // Lists that differ in a required attribute are of two kinds.
    let required = AttributeSpec::new(ValueType::Boolean).required();
    let list_type = NodeType::new().content("p+").attribute("ordered", required);
    let schema = Schema::builder()
        .node("page", NodeType::new().content("(p | list)+"))
        .node("p", NodeType::new().content("text*"))
        .node("list", list_type)
        .node("text", NodeType::new());
    let of = |ordered: bool, block| {
        element("list", [block]).with_attributes([("ordered", ordered.into())])
    };
    let blocks = [
        of(true, p("a")),
        p("b"),
        of(false, p("c")),
        p("d"),
        of(false, p("e")),
    ];
    let editor = document(schema.build().unwrap(), "page", blocks);
    let gone = ["p-b", "p-d"].map(|id| delete_node().on(id));
    let operations = [gone.to_vec(), vec![join_neighbours(["list"])]].concat();
    assert_eq!(joined(&editor, operations), ["list a", "list ce"]);
}

/// A quote of blocks.
fn quote(id: &str, blocks: impl IntoIterator<Item = NodeSpec>) -> NodeSpec {
    element("quote", blocks).with_id(id)
}

#[test]
fn tree_06_neighbours_are_joined_in_a_parent_that_is_joined_as_well() {
    let blocks = [
        quote("A", [p("a")]),
        p("b"),
        quote("B", [quote("x", [p("c")]), p("d"), quote("y", [p("e")])]),
    ];
    let editor = page(blocks);
    for gone in [["p-d", "p-b"], ["p-b", "p-d"]] {
        let gone = gone.map(|id| delete_node().on(id));
        let join = join_neighbours(["quote"]);
        let operations = [gone.to_vec(), vec![join]].concat();
        assert_eq!(joined(&editor, operations.clone()), ["quote ace"]);
        editor.execute(operations).unwrap();
        assert_eq!(editor.store().snapshot().children("A").count(), 2);
        editor.undo().commit().unwrap();
    }
}

#[test]
fn tree_06_what_is_behind_a_join_stays_a_neighbour() {
    let editor = page(["a", "b", "c", "d"].map(|id| quote(&id.to_uppercase(), [p(id)])));
    let join = || join_neighbours(["quote"]);
    let merge = || merge_block_nodes("B").on("A");
    let shown = joined(&editor, vec![merge(), join()]);
    assert_eq!(shown, ["quote ab", "quote c", "quote d"]);
    // The same twice is the same.
    let gone = || delete_node().on("B");
    for joins in 1..=3 {
        let operations = [vec![gone()], vec![join(); joins]].concat();
        assert_eq!(joined(&editor, operations), ["quote ac", "quote d"]);
    }
    // The second half of what was joined is still before its neighbour.
    let lift = lift_node().on("p-b");
    let merges = vec![merge(), merge_block_nodes("C").on("A"), lift, join()];
    let shown = joined(&editor, merges);
    assert_eq!(shown, ["quote a", "p b", "quote c", "quote d"]);
}

#[test]
fn tree_06_the_types_of_neighbours_count_for_the_limits() {
    let editor = page([p("one")]);
    let limited = Editor::new(editor.store().clone(), "bob");
    let limited = limited.with_limits(Limits::new().with(Limit::Steps, 1_000));
    let join = |types: usize| join_neighbours((0..types).map(|nth| format!("t{nth}")));
    limited.execute([join(500)]).unwrap();
    let error = refused(&limited, join(2_000));
    assert!(
        matches!(error, OperationError::Edit(EditError::Limit(_))),
        "{error}"
    );
}

#[test]
fn tree_06_joining_a_long_run_takes_as_many_steps_as_it_has_nodes() {
    let size = 700;
    let blocks = (0..size).flat_map(|nth| {
        let list = list(&format!("l{nth}"), [p(&format!("a{nth}"))]);
        [list, p(&format!("b{nth}"))]
    });
    let editor = page(blocks);
    let limited = Editor::new(editor.store().clone(), "bob").with_limits(Limits::new());
    let gone = (0..size).map(|nth| delete_node().on(format!("p-b{nth}")));
    let operations = gone.chain([join_neighbours(["list"])]);
    limited.execute(operations.collect::<Vec<_>>()).unwrap();
    let view = editor.store().snapshot();
    assert_eq!(view.children("page").count(), 1);
    assert_eq!(view.children("l0").count(), size);
}

#[test]
fn tree_06_a_join_that_makes_another_one_invalid_is_the_only_one() {
    let content =
        "(quote p quote p quote p quote) | (quote quote p quote+) | (quote p quote quote)";
    let schema = Schema::builder()
        .node("page", NodeType::new().content(content))
        .node("quote", NodeType::new().content("p+"))
        .node("p", NodeType::new().content("text*"))
        .node("text", NodeType::new());
    let quoted = |id: &str| element("quote", [p(id)]);
    let blocks = [
        quoted("a"),
        p("b"),
        quoted("c"),
        p("d"),
        quoted("e"),
        p("f"),
        quoted("g"),
    ];
    let editor = document(schema.build().unwrap(), "page", blocks);
    let gone = ["p-b", "p-f"].map(|id| delete_node().on(id));
    let operations = [gone.to_vec(), vec![join_neighbours(["quote"])]].concat();
    let shown = joined(&editor, operations);
    assert_eq!(shown, ["quote ac", "p d", "quote e", "quote g"]);
}
