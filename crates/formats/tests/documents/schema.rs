//! The schema of Markdown: what is read is valid, and what is valid comes back.

use std::cell::Cell;

use doclock::document::{Attributes, Mark, NodeSpec};
use doclock::dsl::*;
use doclock::schema::{Schema, SchemaError};
use doclock::transaction::NodeOperation;
use doclock::transaction::on_node::JoinTarget;
use doclock::{CommitError, DataStore, Editor, NodeId, StoreOptions, View};
use doclock_formats::markdown::{
    MarkdownAttribute, MarkdownMark, MarkdownNames, MarkdownNode, MarkdownOptions, MarkdownSchema,
    from_markdown, from_markdown_with, to_markdown, to_markdown_reported,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::cases;
use crate::markdown::{TOKENS, pages};

fn store(schema: &Schema) -> DataStore {
    DataStore::with_options(StoreOptions::new().schema(schema.clone()))
}

/// Commits a document as the root of a store with the schema.
fn committed(document: NodeSpec, schema: &Schema) -> Result<(), CommitError> {
    let mut transaction = store(schema).begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    transaction.set_root(&root).unwrap();
    transaction.commit().map(drop)
}

fn is_valid(document: NodeSpec, text: &str) -> Result<(), TestCaseError> {
    let committed = committed(document, &Schema::markdown());
    prop_assert!(committed.is_ok(), "{:?} of {:?}", committed, text);
    Ok(())
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn some<T>(&mut self, least: usize, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        let len = least + self.below(3);
        (0..len).map(|_| make(self)).collect()
    }

    /// A word, with a mark that is only over all of it. At the beginning of a line, HTML can be a
    /// block.
    fn word(&mut self, is_first: bool) -> (&'static str, Option<Mark>) {
        let words = ["Io", "Europa and", "*", "1. a", "🦀 é", "a_b", "# x", "|"];
        let (word, kind, attributes) = match self.below(8) {
            0 if !is_first => ("<b>", "html", vec![]),
            1 => ("1", "footnote", vec![("label", "1")]),
            2 => ("x y", "code", vec![]),
            3 => ("\u{fffc}", "image", vec![("src", "a.png")]),
            4 => (
                "here",
                "link",
                vec![("href", "https://e.x"), ("title", "t")],
            ),
            _ => return (self.one(&words), None),
        };
        let attributes = attributes
            .into_iter()
            .map(|(name, value)| (name, value.into()));
        let mark = Mark::whole(kind).with_attributes(attributes.collect::<Attributes>());
        (word, Some(mark))
    }

    /// A text with marks.
    fn text(&mut self) -> NodeSpec {
        let mut text = String::new();
        let (mut len, mut marks) = (0, Vec::new());
        for nth in 0..1 + self.below(3) {
            let (word, mark) = self.word(nth == 0);
            if nth > 0 {
                text.push(' ');
                len += 1;
            }
            let range = len..len + word.chars().count();
            text.push_str(word);
            len = range.end;
            marks.extend(mark.map(|mark| Mark {
                range: Some(range.clone()),
                ..mark
            }));
            if self.below(3) == 0 {
                marks.push(Mark::new(self.one(&["em", "bold", "strikethrough"]), range));
            }
        }
        NodeSpec::new("inline-text")
            .with_text(text)
            .with_marks(marks)
    }

    fn of_text(&mut self, kind: &str) -> NodeSpec {
        NodeSpec::new(kind).with_children([self.text()])
    }

    fn verbatim(&mut self, kind: &str, texts: &[&str]) -> NodeSpec {
        let text = NodeSpec::new("inline-text").with_text(self.one(texts));
        NodeSpec::new(kind).with_children([text])
    }

    fn blocks(&mut self, least: usize, depth: usize) -> Vec<NodeSpec> {
        self.some(least, |random| random.block(depth))
    }

    fn block(&mut self, depth: usize) -> NodeSpec {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => {
                let level = [("level", (1 + self.below(6)).into())];
                self.of_text("heading").with_attributes(level)
            }
            1 => {
                let code = self.verbatim("code-block", &["let x;\n", "# a\n\n  b\n", "```\n"]);
                match self.below(2) {
                    0 => code.with_attributes([("language", "rust".into())]),
                    _ => code,
                }
            }
            2 => self.verbatim("html-block", &["<div>x</div>\n", "<p>\na\n</p>\n"]),
            3 => NodeSpec::new("thematic-break"),
            6 => NodeSpec::new("block-quote").with_children(self.blocks(1, depth - 1)),
            7 => self.list(depth - 1),
            8 => self.table(),
            _ => self.of_text("paragraph"),
        }
    }

    /// A list with text in its items, or with paragraphs.
    fn list(&mut self, depth: usize) -> NodeSpec {
        let is_tight = self.below(2) == 0;
        let items = self.some(2, |random| {
            let item = NodeSpec::new("list-item");
            let item = match random.below(3) {
                0 => item.with_attributes([("checked", (random.below(2) == 0).into())]),
                _ => item,
            };
            match is_tight {
                true if depth > 0 && random.below(3) == 0 => {
                    // Another number than one is part of the text before it.
                    let first = [("ordered", true.into()), ("start", 1.into())];
                    let list = random.list(0);
                    let list = match list.attributes().get("start") {
                        Some(_) => list.with_attributes(first),
                        None => list,
                    };
                    item.with_children([random.text(), list])
                }
                true => item.with_children([random.text()]),
                false => {
                    let first = random.of_text("paragraph");
                    let more = if depth > 0 {
                        random.blocks(0, depth - 1)
                    } else {
                        Vec::new()
                    };
                    item.with_children(std::iter::once(first).chain(more))
                }
            }
        });
        let list = NodeSpec::new("list").with_children(items);
        match self.below(2) {
            0 => list.with_attributes([("ordered", false.into())]),
            _ => list.with_attributes([("ordered", true.into()), ("start", self.below(9).into())]),
        }
    }

    fn table(&mut self) -> NodeSpec {
        let columns = 1 + self.below(3);
        let row = |random: &mut Self, kind: &str| {
            let cells = (0..columns).map(|_| random.of_text("table-cell"));
            NodeSpec::new(kind).with_children(cells.collect::<Vec<_>>())
        };
        let head = row(self, "table-head");
        let rows = self.some(0, |random| row(random, "table-row"));
        let align: Vec<_> = (0..columns)
            .map(|_| self.one(&["none", "left", "center", "right"]))
            .collect();
        let table = NodeSpec::new("table").with_attributes([("align", align.into())]);
        table.with_children(std::iter::once(head).chain(rows))
    }

    /// A document that Markdown can express.
    fn document(&mut self) -> NodeSpec {
        let mut blocks = self.blocks(0, 3);
        let note = NodeSpec::new("footnote").with_attributes([("label", "1".into())]);
        blocks.push(note.with_children([self.of_text("paragraph")]));
        let document = NodeSpec::new("document").with_children(blocks);
        match self.below(4) {
            0 => document.with_attributes([("front-matter", "title: x".into())]),
            _ => document,
        }
    }

    /// Any document with nodes at their places, also one that Markdown cannot express.
    fn wild(&mut self, kind: &str, depth: usize) -> NodeSpec {
        let blocks = [
            "paragraph",
            "heading",
            "code-block",
            "html-block",
            "thematic-break",
            "block-quote",
            "list",
            "table",
            "footnote",
        ];
        let inner = |random: &mut Self, kind: &str| random.wild(kind, depth.saturating_sub(1));
        let node = NodeSpec::new(kind);
        let node = match kind {
            "heading" => node.with_attributes([("level", (1 + self.below(6)).into())]),
            "footnote" => {
                node.with_attributes([("label", self.one(&["1", "]", "", "a b"]).into())])
            }
            "list" => node.with_attributes([
                ("ordered", (self.below(2) == 0).into()),
                ("start", self.one(&[-1_i64, 0, 7, 1 << 40]).into()),
            ]),
            "list-item" if self.below(2) == 0 => node.with_attributes([("checked", true.into())]),
            "table" => node.with_attributes([("align", vec![self.one(&["left", "up"])].into())]),
            "code-block" => {
                node.with_attributes([("language", self.one(&["a b", "`", "x"]).into())])
            }
            _ => node,
        };
        match kind {
            "inline-text" => {
                let text = self.some(0, |random| random.one(TOKENS)).concat();
                let len = text.chars().count();
                let marks = self.some(0, |random| {
                    let start = random.below(len + 1);
                    let range = start..start + random.below(len + 1 - start);
                    let kinds = [
                        "em",
                        "bold",
                        "strikethrough",
                        "code",
                        "html",
                        "link",
                        "image",
                        "footnote",
                    ];
                    let kind = random.one(&kinds);
                    let mark = Mark::new(kind, range);
                    match kind {
                        "footnote" => {
                            mark.with_attributes([("label", random.one(&["1", "]"]).into())])
                        }
                        _ => mark,
                    }
                });
                let marks = marks
                    .into_iter()
                    .filter(|mark| mark.range.as_ref().is_some_and(|range| !range.is_empty()));
                node.with_text(text).with_marks(marks)
            }
            "code-block" | "html-block" => {
                let text = self.some(0, |random| random.one(TOKENS)).concat();
                node.with_children([NodeSpec::new("inline-text").with_text(text)])
            }
            "thematic-break" => node,
            "paragraph" | "heading" | "table-cell" => {
                node.with_children(self.some(0, |random| inner(random, "inline-text")))
            }
            "list" => node.with_children(self.some(1, |random| inner(random, "list-item"))),
            "table" => {
                let rows = self.some(0, |random| inner(random, "table-row"));
                node.with_children(std::iter::once(inner(self, "table-head")).chain(rows))
            }
            "table-head" | "table-row" => {
                node.with_children(self.some(1, |random| inner(random, "table-cell")))
            }
            _ if depth == 0 => node,
            "list-item" => node.with_children(self.some(0, |random| match random.below(2) {
                0 => inner(random, "inline-text"),
                _ => {
                    let kind = random.one(&blocks);
                    inner(random, kind)
                }
            })),
            _ => node.with_children(self.some(0, |random| {
                let kind = random.one(&blocks);
                inner(random, kind)
            })),
        }
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn any_characters_are_read_as_a_valid_document(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..24),
    ) {
        let text = tokens.concat();
        is_valid(from_markdown(&text), &text)?;
        is_valid(from_markdown_with(&text, &MarkdownOptions::untrusted()), &text)?;
    }

    #[test]
    fn any_page_is_read_as_a_valid_document(page in pages()) {
        is_valid(from_markdown(&page), &page)?;
    }

    #[test]
    fn any_document_that_markdown_has_comes_back_as_it_was(seed in any::<u64>()) {
        let document = Random(seed).document();
        is_valid(document.clone(), "a document")?;
        let mut transaction = DataStore::new().begin("test").unwrap();
        let root = transaction.create(document).unwrap();
        let document = transaction.to_spec(&root).unwrap().without_ids();
        let (markdown, dropped) =
            to_markdown_reported(&transaction, &root, &MarkdownOptions::new()).unwrap();
        prop_assert_eq!(&dropped, &[], "{:?}", markdown);
        prop_assert_eq!(from_markdown(&markdown).to_json(), document.to_json(), "{}", markdown);
    }

    /// Also of one whose texts, marks and attributes Markdown cannot express.
    #[test]
    fn any_valid_document_is_written_and_read_as_a_valid_one(seed in any::<u64>()) {
        let document = Random(seed).wild("document", 4);
        is_valid(document.clone(), "a document")?;
        let mut transaction = DataStore::new().begin("test").unwrap();
        let root = transaction.create(document).unwrap();
        let markdown = to_markdown(&transaction, &root).unwrap();
        is_valid(from_markdown(&markdown), &markdown)?;
    }
}

/// Random edits. Each is refused, or its result is valid and has a Markdown that is read as a valid
/// one. Returns how many were committed.
fn edited(seed: u64) -> Result<usize, TestCaseError> {
    let mut committed = 0;
    let mut random = Random(seed);
    let (store, page) = opened("");
    let ann = Editor::new(store.clone(), "ann");
    let blocks = random.blocks(2, 2);
    for block in blocks {
        transaction(&ann, [add_child(block, None).on(&page)])
            .commit()
            .unwrap();
    }
    for _ in 0..8 {
        let snapshot = store.snapshot();
        let nodes: Vec<_> = snapshot.descendants(&page).skip(1).collect();
        if nodes.is_empty() {
            break;
        }
        let node = nodes[random.below(nodes.len())];
        let offset = random.below(node.text().len() + 1);
        let target = random.one(&[JoinTarget::Any, JoinTarget::Text, JoinTarget::Around]);
        let edit = match random.below(8) {
            0 | 1 => insert_paragraph(offset),
            2 => split_list_item(offset, "list-item"),
            3 | 4 => join_block(target, random.below(2) == 0),
            5 => indent_node(),
            6 => outdent_node(),
            _ => wrap_in_list(element("list", []), element("list-item", [])),
        };
        // Also an edit that does not fit the node.
        let edit = transaction(&ann, [edit.on(node.id())]).commit();
        committed += usize::from(edit.is_ok());
    }
    let snapshot = store.snapshot();
    prop_assert_eq!(Schema::markdown().check_all(&snapshot), Ok(()));
    let markdown = to_markdown(&snapshot, &page).unwrap();
    is_valid(from_markdown(&markdown), &markdown)?;
    Ok(committed)
}

#[test]
fn any_edit_under_the_schema_leads_to_markdown() {
    let committed = Cell::new(0);
    let result = TestRunner::new(cases(512)).run(&any::<u64>(), |seed| {
        committed.set(committed.get() + edited(seed)?);
        Ok(())
    });
    // The error has the seed.
    result.unwrap_or_else(|error| panic!("{error}"));
    println!("{} edits", committed.get());
    assert!(committed.get() > 100);
}

/// What the documentation says of valid documents that do not come back as they were.
#[test]
fn some_valid_documents_come_back_as_others() {
    let text = |text: &str| NodeSpec::new("inline-text").with_text(text);
    let code = NodeSpec::new("code-block").with_children([text("x")]);
    let mark = Mark::whole("footnote").with_attributes([("label", "9".into())]);
    let note = NodeSpec::new("paragraph").with_children([text("9").with_marks([mark])]);
    let cell = || NodeSpec::new("table-cell").with_children([text("a")]);
    let head = NodeSpec::new("table-head").with_children([cell()]);
    let row = NodeSpec::new("table-row").with_children([cell(), cell()]);
    let table = NodeSpec::new("table").with_children([head, row]);
    for (block, expected) in [
        (code, "\"text\":\"x\\n\""),
        (note, "\"text\":\"[^9]\""),
        (table, "{\"type\":\"table-cell\"}"),
    ] {
        let document = NodeSpec::new("document").with_children([block]);
        committed(document.clone(), &Schema::markdown()).unwrap();
        let mut transaction = DataStore::new().begin("test").unwrap();
        let root = transaction.create(document).unwrap();
        let (markdown, dropped) =
            to_markdown_reported(&transaction, &root, &MarkdownOptions::new()).unwrap();
        assert_eq!(dropped, []);
        let read = from_markdown(&markdown).to_json();
        assert!(read.contains(expected), "{markdown}: {read}");
    }
}

#[test]
fn hostile_texts_are_read_as_valid_documents() {
    let deep = ["> ", "- ", "1. ", "[^a]: "].map(|prefix| prefix.repeat(2000) + "a");
    let wide = [
        "|".repeat(5000) + "\n" + &"|-".repeat(5000),
        "*".repeat(9999),
        "[".repeat(5000),
    ];
    let short = [
        "",
        "\0",
        "\u{feff}",
        "[](javascript:x)",
        "-\n-",
        "---\na\n---",
        "[^1]:\n[^1]: a",
    ];
    let texts = deep.into_iter().chain(wide).chain(short.map(str::to_owned));
    for text in texts {
        for options in [MarkdownOptions::new(), MarkdownOptions::untrusted()] {
            let result = committed(from_markdown_with(&text, &options), &Schema::markdown());
            assert!(result.is_ok(), "{result:?}: {:.40}", text);
        }
    }
}

#[test]
fn what_markdown_does_not_have_is_refused() {
    let text = || NodeSpec::new("inline-text").with_text("a");
    let cell = || NodeSpec::new("table-cell").with_children([text()]);
    let row = |kind: &str| NodeSpec::new(kind).with_children([cell()]);
    let page = |block: NodeSpec| NodeSpec::new("document").with_children([block]);
    let list = |item: &str| NodeSpec::new("list").with_children([NodeSpec::new(item)]);
    let marked =
        |mark: Mark| page(NodeSpec::new("paragraph").with_children([text().with_marks([mark])]));
    let code = text().with_marks([Mark::whole("em")]);
    for (document, expected) in [
        (page(text()), "child"),
        (
            page(NodeSpec::new("heading").with_attributes([("level", 7.into())])),
            "level",
        ),
        (page(list("paragraph")), "child"),
        (page(NodeSpec::new("list")), "requires more"),
        (
            page(NodeSpec::new("table").with_children([row("table-row")])),
            "child",
        ),
        (page(NodeSpec::new("footnote")), "label"),
        (
            page(NodeSpec::new("code-block").with_children([code])),
            "em",
        ),
        (marked(Mark::whole("footnote")), "label"),
        (NodeSpec::new("paragraph"), "root"),
    ] {
        let error = committed(document, &Schema::markdown())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    }
}

#[test]
fn a_schema_has_the_names_of_the_program() {
    let names = MarkdownNames::new()
        .node(MarkdownNode::Text, "text")
        .node(MarkdownNode::Document, "page")
        .node(MarkdownNode::ListItem, "entry")
        .mark(MarkdownMark::Html, "raw")
        .attribute(MarkdownAttribute::HeadingLevel, "depth");
    let schema = names.schema().unwrap();
    let options = MarkdownOptions::new().names(names).unwrap();
    let text = "# a\n\n- b <i>\n\n| c |\n|---|\n";
    committed(from_markdown_with(text, &options), &schema).unwrap();

    let twice = MarkdownNames::new()
        .mark(MarkdownMark::Link, "image")
        .schema();
    assert!(matches!(twice.unwrap_err(), SchemaError::Duplicate { .. }));
    let reserved = MarkdownNames::new()
        .node(MarkdownNode::List, "a|b")
        .schema();
    assert!(matches!(reserved.unwrap_err(), SchemaError::Name { .. }));
}

/// A store with a document of Markdown as its root.
fn opened(markdown: &str) -> (DataStore, NodeId) {
    let store = store(&Schema::markdown());
    let mut import = store.begin("import").unwrap();
    let page = import.create(from_markdown(markdown)).unwrap();
    import.set_root(&page).unwrap();
    import.commit().unwrap();
    (store, page)
}

#[test]
fn edits_of_blocks_and_lists_lead_to_markdown() {
    let paragraph = || insert_paragraph(2);
    let item = || split_list_item(2, "list-item");
    let join = || join_block(JoinTarget::Any, false);
    type Edit = fn() -> NodeOperation;
    let cases: [(&str, Edit, &str); 11] = [
        ("IoEuropa", paragraph, "Io\n\nEuropa\n"),
        ("## IoEuropa", paragraph, "## Io\n\n## Europa\n"),
        // Text in an item of a tight list is in the item itself.
        ("- IoEuropa", paragraph, "- Io\n- Europa\n"),
        ("- IoEuropa", item, "- Io\n- Europa\n"),
        ("- a\n\n- IoEuropa", paragraph, "- a\n\n- Io\n\n  Europa\n"),
        ("- a\n\n- IoEuropa", item, "- a\n\n- Io\n\n- Europa\n"),
        ("a\n\nIoEuropa", join, "aIoEuropa\n"),
        ("> a\n\nIoEuropa", join, "> a\n>\n> IoEuropa\n"),
        ("- a\n- IoEuropa", join, "- aIoEuropa\n"),
        ("- a\n\n- IoEuropa", join, "- a\n\n  IoEuropa\n"),
        ("- a\n  - IoEuropa", join, "- aIoEuropa\n"),
    ];
    for (before, edit, after) in cases {
        let (store, page) = opened(before);
        let snapshot = store.snapshot();
        let text = snapshot.find_by_text(&page, "IoEuropa").next().unwrap();
        let ann = Editor::new(store.clone(), "ann");
        transaction(&ann, [edit().on(text.id())]).commit().unwrap();
        assert_eq!(
            to_markdown(&store.snapshot(), &page).unwrap(),
            after,
            "{before}"
        );
    }

    // The outer quote begins with a quote, and is in no list.
    let (store, page) = opened("> > a\n\nb\n");
    let snapshot = store.snapshot();
    let quote = snapshot.children(&page).next().unwrap();
    let ann = Editor::new(store.clone(), "ann");
    let lift = transaction(&ann, [outdent_node().on(quote.id())]);
    let error = lift.commit().unwrap_err();
    assert!(error.to_string().contains("no grandparent"), "{error}");

    // A cell is one line of text.
    let (store, page) = opened("| a |\n|---|\n| IoEuropa |");
    let snapshot = store.snapshot();
    let text = snapshot.find_by_text(&page, "IoEuropa").next().unwrap();
    let ann = Editor::new(store.clone(), "ann");
    let error = transaction(&ann, [paragraph().on(text.id())])
        .commit()
        .unwrap_err();
    assert!(error.to_string().contains("does not fit"), "{error}");
}
