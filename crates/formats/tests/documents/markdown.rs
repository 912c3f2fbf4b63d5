//! Conversion from Markdown to nodes and back.

use doclock::{
    View,
    document::{Mark, NodeSpec, check},
};
use doclock_formats::markdown::{
    MarkdownOptions, from_markdown, from_markdown_reported, to_markdown, to_markdown_reported,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{cases, id, store};

/// The Markdown of a document in a store.
pub(crate) fn written(document: NodeSpec) -> String {
    let store = store();
    let mut transaction = store.begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    assert_eq!(check(&transaction), Ok(()));
    let inside = to_markdown(&transaction, &root).unwrap();
    transaction.commit().unwrap();
    assert_eq!(to_markdown(&store.snapshot(), &root).unwrap(), inside);
    inside
}

pub(crate) fn leads_back(markdown: &str) -> Result<(), TestCaseError> {
    let document = from_markdown(markdown);
    let again = written(document.clone());
    prop_assert_eq!(
        from_markdown(&again).to_json(),
        document.to_json(),
        "{:?}",
        again
    );
    Ok(())
}

/// The blocks of a document as JSON.
fn blocks(markdown: &str) -> Value {
    let document: Value = serde_json::from_str(&from_markdown(markdown).to_json()).unwrap();
    assert_eq!(document["type"], "document");
    document["children"].clone()
}

/// The only text of a document and its marks.
fn text(markdown: &str) -> (String, Value) {
    let document = blocks(markdown);
    let text = &document[0]["children"][0];
    assert_eq!(text["type"], "inline-text", "{document}");
    (
        text["text"].as_str().unwrap().to_owned(),
        text["marks"].clone(),
    )
}

/// A document of one paragraph.
pub(crate) fn paragraph(text: &str, marks: impl IntoIterator<Item = Mark>) -> NodeSpec {
    let text = NodeSpec::new("inline-text")
        .with_text(text)
        .with_marks(marks);
    let paragraph = NodeSpec::new("paragraph").with_children([text]);
    NodeSpec::new("document").with_children([paragraph])
}

/// Tokens of Markdown, and similar text.
pub(crate) const TOKENS: &[&str] = &[
    "*",
    "**",
    "***",
    "_",
    "__",
    "~~",
    "~",
    "`",
    "``",
    "[",
    "]",
    "](x)",
    "](<u v> \"q\")",
    "![",
    "[t](x)",
    "<http://e.x>",
    "<a@b.c>",
    "[r]",
    "\n[r]: /u \"t\"\n",
    "<b>",
    "</b>",
    "<br>",
    "a_b",
    "](/?a=1&b=2)",
    "<i\na>",
    "<!-- c -->",
    "<!--",
    "-->",
    "<div>",
    "\n",
    "\n",
    "\n",
    "\n\n",
    "\n\n",
    "> ",
    "> ",
    "- ",
    "- ",
    "* ",
    "+ ",
    "1. ",
    "2) ",
    "10. ",
    "  ",
    "    ",
    "# ",
    "## ",
    "#",
    "```\n",
    "~~~ a`b\n",
    "|",
    "\n|-|-|\n",
    "|a|b|\n|:-|-:|\n|c|",
    "\\",
    "\\|",
    "\\\n",
    "  \n",
    "&amp;",
    "&#32;",
    "&#10;",
    "&#42;",
    "&",
    "a",
    "b c",
    "é",
    "\u{a0}",
    "🦀",
    "Ⓐ",
    "\u{fffc}",
    "[ ] ",
    "[x] ",
    "[^1]",
    "\n[^1]: n\n",
    "===",
    "---",
    "\n===\n",
    "\n---\n",
    "---\n",
    "...\n",
    "a: b\n",
    "\t",
    "!",
    "(",
    ")",
    " ",
    "=",
    ":",
    "1",
    ".",
];

/// Typical documents, block by block.
pub(crate) fn pages() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "some words",
        "*emphasis*",
        "**strong _and_ more**",
        "`code`",
        "[link](https://example.org)",
        "![image](a.png \"title\")",
        "~~gone~~",
        "a\\\nbreak",
        "snake_case",
        "2 * 3 * 4",
        "a < b & c",
        "<kbd>x</kbd>",
        "1. no list",
        "# no heading",
        "e.g. this",
        "![](empty.png)",
        "[a] b",
        "AT&T",
    ]);
    let line = prop::collection::vec(words, 1..5).prop_map(|words| words.join(" "));
    let block = prop_oneof![
        4 => line.clone(),
        1 => (1..7usize, line.clone()).prop_map(|(level, line)| {
            format!("{} {}", "#".repeat(level), line.replace("\\\n", " "))
        }),
        1 => Just("```rust\nfn main() {}\n\n    // *\n```".to_owned()),
        1 => Just("    indented\n    code".to_owned()),
        1 => Just("---".to_owned()),
        1 => Just("<div>\n<p>html</p>\n</div>".to_owned()),
        1 => Just("| a | b |\n|:-:|---|\n| `x|y` | **c** |\n| d |".to_owned()),
        1 => Just("- [x] done\n- [ ] open".to_owned()),
    ];
    let page = |blocks: Vec<String>| blocks.join("\n\n");
    let indented = |page: &str, first: &str, others: &str| {
        let lines = page
            .lines()
            .enumerate()
            .map(|(nth, line)| match (nth, line.is_empty()) {
                (0, _) => format!("{first}{line}"),
                (_, true) => others.trim_end().to_owned(),
                _ => format!("{others}{line}"),
            });
        lines.collect::<Vec<_>>().join("\n")
    };
    let front_matter = prop::sample::select(vec!["", "", "", "---\ntitle: x\ntags: [a]\n---\n"]);
    let blocks = block.prop_recursive(4, 24, 5, move |inner| {
        let inside = prop::collection::vec(inner.clone(), 1..4).prop_map(page);
        let items = prop::collection::vec(inside.clone(), 1..4);
        prop_oneof![
            prop::collection::vec(inner, 1..5).prop_map(page),
            inside.prop_map(move |page| indented(&page, "> ", "> ")),
            (items, any::<bool>(), any::<bool>()).prop_map(move |(items, ordered, tight)| {
                let marker = if ordered { "7. " } else { "- " };
                let items: Vec<_> = items
                    .iter()
                    .map(|item| indented(item, marker, &" ".repeat(marker.len())))
                    .collect();
                items.join(if tight { "\n" } else { "\n\n" })
            }),
        ]
    });
    (front_matter, blocks).prop_map(|(front_matter, blocks)| format!("{front_matter}{blocks}"))
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn any_characters_round_trip(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..16),
    ) {
        leads_back(&tokens.concat())?;
    }

    #[test]
    fn any_page_round_trips(page in pages()) {
        leads_back(&page)?;
    }

    /// For any text with any marks, the characters survive Markdown.
    #[test]
    fn any_text_with_any_marks_round_trips(
        text in "[a*_`~<>&#!|\\\\\\[\\](). \n\té🦀-]{1,16}",
        spans in prop::collection::vec((0..16usize, 1..9usize, 0..4usize), 0..5),
    ) {
        let len = text.chars().count();
        let marks = spans.into_iter().map(|(start, len_of_mark, kind)| {
            let start = start % len;
            let range = start..(start + len_of_mark).min(len);
            let kind = ["em", "bold", "strikethrough", "link"][kind];
            let mark = Mark::new(kind, range);
            match kind {
                "link" => mark.with_attributes([("href", "x".into())]),
                _ => mark,
            }
        });
        let store = store();
        let mut transaction = store.begin("test").unwrap();
        let root = transaction.create(paragraph(&text, marks)).unwrap();
        let spec = transaction.to_spec(&root).unwrap().without_ids();
        let markdown = to_markdown(&transaction, &root).unwrap();
        prop_assert_eq!(from_markdown(&markdown).to_json(), spec.to_json(), "{:?}", markdown);
    }

    /// A link within a link lost its brackets to the text.
    #[test]
    fn any_links_and_images_that_overlap_keep_the_characters(
        spans in prop::collection::vec((0..12usize, 1..9usize, 0..4usize), 0..6),
    ) {
        let marks = spans.into_iter().map(|(start, len, nth)| {
            let (kind, key, value) = [
                ("link", "href", "x"),
                ("link", "href", "y"),
                ("image", "src", "x"),
                ("image", "src", "y"),
            ][nth];
            let range = start..(start + len).min(12);
            Mark::new(kind, range).with_attributes([(key, value.into())])
        });
        let markdown = written(paragraph("abcdefghijkl", marks));
        prop_assert_eq!(text(&markdown).0, "abcdefghijkl", "{:?}", markdown);
    }
}

/// Exceptions of the Markdown syntax.
#[test]
fn unusual_markdown_round_trips() {
    for markdown in [
        "- a\n\n  [r]: /u",
        "[r]: /u\n<b>",
        "[r]: /u\n    <div>> ",
        "<i\na>",
        "> *<!--\n===\n-->",
        "- <!--\n===\n",
        "+\n    <b>",
        "[<http://e.x>](x)",
        "[^1][^1]\n\n[^1]: n",
        "[^1][  ](x)\n\n[^1]: n",
        "[r]: /u\n    [^1]: a\n\n[^1]: n",
        "|a|\n|-|\n|<!--\\|-->`\\|`|",
        "- > - \n  |",
        "- > a\n  >\n  b",
        "- > - a\n    >\n- b",
        "- - -\n  + *",
        "* a\n- b\n+ c\n\n1. d\n2) e",
        "- ___\n- ```\n\n  ```",
        "999999999. a\n1. b",
        "~~~ a`b &amp;\nc",
        "# a \\#\n\na\\\nb\n===",
        "***a** b*_c_**d**",
        "a**&#32;b**c &nbsp;",
        "[a](<b c> \"d\\\"e`\") `f`",
        "\ta\r\nb\rc",
    ] {
        leads_back(markdown).unwrap_or_else(|error| panic!("{markdown:?}: {error}"));
    }
}

#[test]
fn the_pages_of_this_repository_round_trip() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let docs = std::fs::read_dir(format!("{root}/docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let pages =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|page| format!("{root}/{page}"));
    let pages = pages.iter().map(std::path::PathBuf::from).chain(docs);
    for page in pages.filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
        let markdown = std::fs::read_to_string(&page).unwrap();
        assert!(from_markdown(&markdown).len() > 10, "{page:?}");
        leads_back(&markdown).unwrap_or_else(|error| panic!("{page:?}: {error}"));
    }
}

#[test]
fn a_page_of_all_kinds_is_written_as_a_person_would() {
    let page = "\
# A *small* page

Words, **bold `code`**, a [link](https://example.org \"title\"), ~~gone~~, ![alt](a.png)\\
and naïve 文書 🦀[^1]. See <https://example.org> & write to <ann@example.org>.

> quoted
>
> - tight
> - list
>   1. one
>   2. two

* loose

  ```rust
  fn main() {}
  ```

* [x] done

___

| a | b |
| :-- | --: |
| 1 \\| 2 |  |

<div>html</div>

[^1]: A note.
";
    // By default, markers are `-`.
    assert_eq!(written(from_markdown(page)), page.replace("\n* ", "\n- "));
}

#[test]
fn blocks_become_nodes() {
    assert_eq!(
        blocks("3. a\n4. - [x] b\n\n```rust no_run\nx\n```\n***\n<hr>"),
        json!([
            {"type": "list", "attributes": {"ordered": true, "start": 3}, "children": [
                {"type": "list-item", "children": [{"type": "inline-text", "text": "a"}]},
                {"type": "list-item", "children": [
                    {"type": "list", "attributes": {"ordered": false}, "children": [
                        {"type": "list-item", "attributes": {"checked": true}, "children": [
                            {"type": "inline-text", "text": "b"},
                        ]},
                    ]},
                ]},
            ]},
            {"type": "code-block", "attributes": {"language": "rust"}, "children": [
                {"type": "inline-text", "text": "x\n"},
            ]},
            {"type": "thematic-break"},
            {"type": "html-block", "children": [{"type": "inline-text", "text": "<hr>\n"}]},
        ])
    );
    let table = blocks("| a |\n|:-:|\n| b |");
    let cell = |text: &str| json!({"type": "table-cell", "children": [{"type": "inline-text", "text": text}]});
    assert_eq!(
        table,
        json!([{"type": "table", "attributes": {"align": ["center"]}, "children": [
            {"type": "table-head", "children": [cell("a")]},
            {"type": "table-row", "children": [cell("b")]},
        ]}])
    );
}

#[test]
fn emphasis_links_and_the_like_become_marks() {
    let (said, marks) = text("a\nb\\\n*c **d*** ~~e~~ `f` <b> [g](h \"i\") ![](j)");
    assert_eq!(said, "a b\nc d e f <b> g \u{FFFC}");
    assert_eq!(
        marks,
        json!([
            {"type": "em", "range": [4, 7]},
            {"type": "bold", "range": [6, 7]},
            {"type": "strikethrough", "range": [8, 9]},
            {"type": "code", "range": [10, 11]},
            {"type": "html", "range": [12, 15]},
            {"type": "link", "range": [16, 17], "attributes": {"href": "h", "title": "i"}},
            {"type": "image", "range": [18, 19], "attributes": {"src": "j"}},
        ])
    );
    let (_, marks) = text("<ann@example.org>");
    assert_eq!(marks[0]["attributes"]["href"], "mailto:ann@example.org");
}

#[test]
fn literal_characters_survive() {
    for literal in [
        "*a*",
        "_a_",
        "**a**",
        "`a`",
        "[a](b)",
        "![a](b)",
        "<b>",
        "<http://a.b>",
        "&amp;",
        "\\*",
        "~~a~~",
        "# a",
        "- a",
        "+ a",
        "1. a",
        "1) a",
        "> a",
        "===",
        "---",
        "| a |",
        "a | b\n- | -",
        "[a]: b",
        "```",
        "~~~",
        "    a",
        "a  ",
        "a\n",
        "\na",
        "a\n\nb",
        "a\n# b",
        "\u{a0}a\u{a0}",
        "a\tb",
        "a!",
        "[ ] a",
    ] {
        let document = paragraph(literal, []);
        let markdown = written(document.clone());
        assert_eq!(
            from_markdown(&markdown),
            document,
            "{literal:?} as {markdown:?}"
        );
    }
}

#[test]
fn plain_text_is_written_without_escapes() {
    let plain = "Plain words (really), e.g. 1.5 - 2 = x; AT&T, a: \"b\" 100% #1!\n";
    assert_eq!(written(from_markdown(plain)), plain);
}

/// Overlapping marks do not nest, which Markdown requires; marks begin and end in words and at
/// spaces.
#[test]
fn overlapping_marks_are_written_in_pieces() {
    let link = Mark::new("link", 1..3).with_attributes([("href", "x".into())]);
    let with = |kind, range, key, value: &str| {
        Mark::new(kind, range).with_attributes([(key, value.into())])
    };
    let cases: [(&str, &[Mark], &str); 10] = [
        ("abc", &[Mark::new("em", 0..2), link], "*a*[*b*c](x)\n"),
        (
            "abcd",
            &[
                with("link", 0..3, "href", "x"),
                with("link", 1..4, "href", "y"),
            ],
            "[abc](x)[d](y)\n",
        ),
        (
            "abcd",
            &[
                with("image", 0..3, "src", "x"),
                with("link", 1..4, "href", "y"),
            ],
            "![a[bc](y)](x)d\n",
        ),
        (
            "note b",
            &[
                with("footnote", 0..4, "label", "note"),
                Mark::new("em", 2..6),
            ],
            "*[^note] b*\n",
        ),
        (
            "aé&b",
            &[Mark::new("bold", 1..3), Mark::new("em", 2..3)],
            "&#97;**&#233;_&_**&#98;\n",
        ),
        (
            "abcd",
            &[Mark::new("em", 0..3), Mark::new("bold", 1..4)],
            "_a**bc**_**d**\n",
        ),
        ("abc", &[Mark::new("em", 1..2)], "a*b*c\n"),
        ("a b", &[Mark::new("bold", 1..3)], "&#97;**&#32;b**\n"),
        ("a.b", &[Mark::new("em", 0..2)], "*a.*&#98;\n"),
        ("ab", &[Mark::new("comment", 0..2)], "ab\n"),
    ];
    for (text, marks, markdown) in cases {
        assert_eq!(written(paragraph(text, marks.to_vec())), markdown);
    }
}

#[test]
fn the_text_of_an_unknown_type_is_written_as_a_paragraph() {
    let store = store();
    let mut transaction = store.begin("test").unwrap();
    let section = NodeSpec::new("section").with_text("own").with_children([
        NodeSpec::new("inline-text")
            .with_text(" text")
            .with_id("text"),
        NodeSpec::new("poll").with_text("a or b?"),
        NodeSpec::new("paragraph").with_children([NodeSpec::new("mention").with_text("@ann")]),
        NodeSpec::new("paragraph"),
        NodeSpec::new("list").with_children([NodeSpec::new("heading").with_text("odd")]),
    ]);
    let root = transaction.create(section).unwrap();
    let markdown = to_markdown(&transaction, &root).unwrap();
    assert_eq!(markdown, "own text\n\na or b?\n\n@ann\n\n- # odd\n");
    assert_eq!(
        to_markdown(&transaction, &id("text")).unwrap(),
        "&#32;text\n"
    );
    assert!(to_markdown(&transaction, &id("nowhere")).is_err());
}

#[test]
fn deeply_nested_markdown_is_read_and_written() {
    for markdown in [
        ">".repeat(100_000) + "a",
        "- * ".repeat(10_000) + "a",
        "1. ".repeat(20_000) + "a",
        "> - ".repeat(10_000) + "a",
        "*a **b ".repeat(20_000) + &"b** a*".repeat(20_000),
        "[".repeat(100_000),
        "a.1.".repeat(100_000),
    ] {
        leads_back(&markdown).unwrap();
    }
}

/// A table of `columns` and `rows`, each row with one cell.
fn sparse_table(columns: usize, rows: usize) -> String {
    let head = "|a".repeat(columns) + "|\n" + &"|-".repeat(columns) + "|\n";
    head + &"|b\n".repeat(rows)
}

/// The parser gives each row all cells, up to a limit behind which the table ends: five kilobytes
/// became a quarter of a million nodes, and others when they were written and read again.
#[test]
fn a_document_is_no_larger_than_its_text_allows() {
    let sparse = sparse_table(1_000, 266);
    let each_line = |before: &str| -> String {
        let lines = sparse.lines().map(|line| format!("{before}{line}\n"));
        lines.collect()
    };
    let long_row = format!("|{}\n", "word ".repeat(60));
    let pages = [
        sparse.clone(),
        sparse.repeat(20),
        format!("text\n\n{sparse}\n{sparse}\ntext"),
        each_line("> "),
        each_line("> > "),
        each_line("    ").replacen("    ", "1.  ", 1),
        each_line("    ").replacen("    ", "[^1]:", 1),
        sparse.replacen("|a|", "|`\\|`|", 1),
        sparse.replacen("|-|", "-|", 1),
        sparse.replacen("|-|", " :-:|", 1),
        // Rows that look like the second line of a table, and one with all cells.
        sparse.replace("|b\n|b\n|b\n", "|b\n- | - | - | - | -\n2) b\n"),
        format!("{sparse}{}\n", "|c".repeat(100_000)),
        // Behind the limit of the parser, in a longer text.
        format!("{}{}", sparse_table(300, 0), long_row.repeat(900)),
    ];
    for page in &pages {
        let nodes = from_markdown(page).len();
        let about = &page[..page.len().min(60)];
        assert!(nodes <= 16 + 4 * page.len(), "{nodes} nodes: {about:?}");
        assert_eq!(
            from_markdown(page).to_json().matches("table").count(),
            0,
            "{about:?}"
        );
        leads_back(page).unwrap();
    }
    let text = blocks("|a|b|c|d|e|\n|-|-|-|-|-|\n|f|").to_string();
    assert_eq!(text.matches("\"table-cell\"").count(), 10, "{text}");
    // As many rows as a page can have; no cell is missing.
    let full = "|a|b|c|d|e|\n|-|-|-|-|-|\n".to_owned() + &"|a|b|c|d|e|\n".repeat(60_000);
    assert!(from_markdown(&full).len() > 300_000);
    // A line of code is no table.
    let code = format!("```\n{sparse}```\n");
    assert_eq!(blocks(&code)[0]["children"][0]["text"], sparse);
    let code = format!("- x\n\n  ```\n{}  ```\n", each_line("  "));
    assert_eq!(
        blocks(&code)[0]["children"][0]["children"][1]["children"][0]["text"],
        sparse
    );
}

/// Nothing of a block that nests deeper than in HTML is lost.
#[test]
fn a_block_that_nests_too_deep_becomes_its_source() {
    let quotes = ">".repeat(600) + "a\n" + &">".repeat(600) + "b";
    let lists = "- ".repeat(600) + "*c*";
    for (page, source) in [(&quotes, ">>a\n"), (&lists, "- *c*\n")] {
        let document = from_markdown(page);
        let mut transaction = store().begin("test").unwrap();
        let root = transaction.create(document).unwrap();
        let levels = transaction
            .nodes()
            .map(|node| transaction.ancestors(node.id()).count());
        assert!(levels.max().unwrap() < 512);
        let last = transaction.last_descendant(&root).unwrap();
        assert!(
            last.text().to_string().contains(source),
            "{:?}",
            last.text()
        );
        let code = transaction.parent(last.id()).unwrap();
        assert_eq!(transaction.node(code).unwrap().kind(), "code-block");
        leads_back(page).unwrap();
    }
    let fits = ">".repeat(500) + "a";
    assert!(!from_markdown(&fits).to_json().contains("code-block"));
}

/// It hid the first block: the heading was a paragraph.
#[test]
fn a_byte_order_mark_is_no_part_of_a_markdown_text() {
    for text in ["# Title\n", "", "a\u{feff}b"] {
        assert_eq!(
            from_markdown(&format!("\u{feff}{text}")),
            from_markdown(text)
        );
    }
}

/// As the first character it was written plainly, and dropped by the reader.
#[test]
fn a_byte_order_mark_of_a_text_is_written_as_a_reference() {
    let of = |markdown: &str| written(from_markdown(markdown));
    assert_eq!(of("&#xFEFF;x"), "&#xFEFF;x\n");
    assert_eq!(of("&#xFEFF;&#xFEFF;x"), "&#xFEFF;\u{feff}x\n");
    assert_eq!(of("a\u{feff}\n\n\u{feff}b"), "a\u{feff}\n\n\u{feff}b\n");
    for markdown in [
        "&#xFEFF;",
        "&#xFEFF;# x",
        "&#xFEFF;- x",
        "&#xFEFF;---",
        "*&#xFEFF;a*",
        "- &#xFEFF;a",
    ] {
        leads_back(markdown).unwrap();
    }
}

#[test]
fn front_matter_is_kept_and_is_no_text() {
    let page = "---\ntitle: x\ntags: [a]\n---\n\nBody\n";
    assert_eq!(written(from_markdown(page)), page);
    let document: Value = serde_json::from_str(&from_markdown(page).to_json()).unwrap();
    assert_eq!(
        document["attributes"],
        json!({"front-matter": "title: x\ntags: [a]"})
    );
    assert_eq!(
        blocks(page),
        json!([{"type": "paragraph", "children": [{"type": "inline-text", "text": "Body"}]}])
    );
    for (page, lines) in [
        ("\u{feff}---\r\na: b\r\n---\r\n", "a: b"),
        ("--- \na\n\n# b\n ---\n\n...\n# c", "a\n\n# b\n ---\n"),
        ("---\na\n---", "a"),
        ("---\n\u{0}\n---", "\u{fffd}"),
    ] {
        let document = from_markdown(page);
        assert_eq!(
            document.attributes().get("front-matter"),
            Some(&lines.into()),
            "{page:?}"
        );
        leads_back(page).unwrap();
    }
    // Thematic breaks, and headings.
    for page in [
        "---",
        "---\n---\n",
        "---\n\na: b\n---\n",
        "---\na: b\n",
        " ---\na\n---\n",
        "\n---\na\n---",
        "----\na\n---\n",
    ] {
        assert_eq!(from_markdown(page).attributes().len(), 0, "{page:?}");
        leads_back(page).unwrap();
    }
}

/// Lines count from the beginning of the text.
#[test]
fn what_is_dropped_after_front_matter_has_its_line() {
    let page = "---\na: b\n---\n\n```c d\nx\n```\n";
    let (_, dropped) = from_markdown_reported(page, &MarkdownOptions::new());
    assert_eq!(dropped[0].first, 5);
}

#[test]
fn front_matter_that_would_end_too_early_is_dropped_and_reported() {
    for lines in ["", "\na", "a\n---\nb", "a\n...", "---", "a\rb", "\0"] {
        let document = NodeSpec::new("document").with_attributes([("front-matter", lines.into())]);
        let mut transaction = store().begin("test").unwrap();
        let root = transaction.create(document).unwrap();
        let (text, dropped) =
            to_markdown_reported(&transaction, &root, &MarkdownOptions::new()).unwrap();
        assert_eq!((text.as_str(), dropped.len()), ("", 1), "{lines:?}");
    }
}

#[test]
fn words_and_addresses_are_written_as_they_were() {
    for page in [
        "a snake_case_name\n",
        "See https://e.org/a_b_c.\n",
        "größe_x and *a_b* and __c_d__\n",
        "[a](https://e.org/?a=1&b=2 \"c & d\")\n",
        "[a](/?a=1&amp;copy;=2)\n",
        "| a<br>b |\n| --- |\n| **c**<br>`d` |\n",
    ] {
        let page = page.replace("__c_d__", "**c_d**");
        assert_eq!(written(from_markdown(&page)), page);
    }
    for (page, text) in [
        ("a\\_ \\_b \\_c\\_ d\\_\\_e \\_1", "a_ _b _c_ d__e _1"),
        ("Ⓐ\\_Ⓑ", "Ⓐ_Ⓑ"),
        ("a\\_*b*", "a_b"),
    ] {
        leads_back(page).unwrap();
        assert_eq!(self::text(page).0, text);
    }
    // In a paragraph it is HTML.
    assert_eq!(text("a<br>b").1, json!([{"type": "html", "range": [1, 5]}]));
    for cell in ["a<br>b", "a<BR/>b", "a<br />b", "a&#10;b"] {
        let table = blocks(&format!("| h |\n|---|\n| {cell} |"));
        assert_eq!(
            table[0]["children"][1]["children"][0]["children"][0]["text"], "a\nb",
            "{cell}"
        );
    }
}
