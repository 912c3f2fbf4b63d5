//! Reports of what conversions from and to Markdown drop.

use doclock::{
    NodeId,
    document::{Mark, NodeSpec},
};
use doclock_formats::markdown::{
    Dropped, MarkdownMark, MarkdownNames, MarkdownNode, MarkdownOptions, from_markdown,
    from_markdown_reported, from_markdown_with, to_markdown_reported,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{cases, store};
use crate::markdown::{TOKENS, pages, paragraph};

/// The Markdown of a document, and the report as JSON.
fn reported(document: NodeSpec, options: &MarkdownOptions) -> (String, Value) {
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    let (markdown, dropped) = to_markdown_reported(&transaction, &root, options).unwrap();
    let json = serde_json::to_value(&dropped).unwrap();
    let again: Vec<Dropped<NodeId>> = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(again, dropped);
    (markdown, json)
}

fn node(kind: &str, id: &str) -> NodeSpec {
    NodeSpec::new(kind).with_id(id)
}

fn text(id: &str, text: &str) -> NodeSpec {
    node("inline-text", id).with_text(text)
}

/// The report of one text with these marks.
fn of_marks(words: &str, marks: impl IntoIterator<Item = Mark>) -> Value {
    let text = text("t", words).with_marks(marks);
    let paragraph = NodeSpec::new("paragraph").with_children([text]);
    reported(paragraph, &MarkdownOptions::new()).1
}

fn drops_nothing(page: &str) -> Result<(), TestCaseError> {
    let (markdown, dropped) = reported(from_markdown(page), &MarkdownOptions::new());
    prop_assert_eq!(dropped, json!([]), "{:?} as {:?}", page, markdown);
    Ok(())
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_page_from_markdown_is_written_without_loss(page in pages()) {
        drops_nothing(&page)?;
    }

    #[test]
    fn any_characters_from_markdown_are_written_without_loss(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..16),
    ) {
        drops_nothing(&tokens.concat())?;
    }

    /// Each node of a page gets an unknown attribute and each text an unknown mark.
    #[test]
    fn any_unknown_attributes_and_marks_are_counted(page in pages()) {
        let document: Value = serde_json::from_str(&from_markdown(&page).to_json()).unwrap();
        let (mut document, mut nodes, mut texts) = (document, 0, 0);
        let mut ahead = vec![&mut document];
        while let Some(node) = ahead.pop() {
            nodes += 1;
            let attributes = node["attributes"].take();
            let mut attributes = attributes.as_object().cloned().unwrap_or_default();
            attributes.insert("mine".into(), json!(nodes));
            node["attributes"] = attributes.into();
            if node["type"] == "inline-text" {
                texts += 1;
                let end = node["text"].as_str().unwrap().chars().count();
                let marks = node["marks"].take();
                let mut marks = marks.as_array().cloned().unwrap_or_default();
                marks.push(json!({"type": "comment", "range": [0, end]}));
                node["marks"] = marks.into();
            } else {
                node["marks"] = json!([]);
            }
            if node["children"].is_array() {
                ahead.extend(node["children"].as_array_mut().unwrap());
            }
        }
        let document = NodeSpec::from_json(&document.to_string()).unwrap();
        let (markdown, dropped) = reported(document, &MarkdownOptions::new());
        let count = |part: &str| -> u64 {
            let entries = dropped.as_array().unwrap().iter();
            let entries = entries.filter(|entry| entry["part"] == part);
            entries.map(|entry| entry["count"].as_u64().unwrap()).sum()
        };
        prop_assert_eq!(count("nodeAttribute"), nodes);
        prop_assert_eq!(count("mark"), texts);
        prop_assert_eq!(count("nodeType") + count("markAttribute") + count("text"), 0);
        prop_assert_eq!(from_markdown(&markdown), from_markdown(&page));
    }
}

#[test]
fn unknown_types_and_their_places_are_reported() {
    let page = node("page", "page").with_children([
        node("poll", "p1")
            .with_text("a or b?")
            .with_attributes([("open", true.into())]),
        node("paragraph", "p")
            .with_children([text("t", "by "), node("mention", "m").with_text("@ann")]),
        node("poll", "p2").with_text("c?"),
    ]);
    let (markdown, dropped) = reported(page, &MarkdownOptions::new());
    assert_eq!(markdown, "a or b?\n\nby @ann\n\nc?\n");
    assert_eq!(
        dropped,
        json!([
            {"part": "nodeType", "node": "mention", "count": 1, "first": "m"},
            {"part": "nodeType", "node": "page", "count": 1, "first": "page"},
            {"part": "nodeType", "node": "poll", "count": 2, "first": "p1"},
        ])
    );
}

/// Types that Markdown has, but not here.
#[test]
fn types_out_of_place_are_reported() {
    let drops = |spec: NodeSpec, kind: &str, id: &str| {
        let document = NodeSpec::new("document").with_children([spec]);
        let (_, dropped) = reported(document, &MarkdownOptions::new());
        let expected = json!([{"part": "nodeType", "node": kind, "count": 1, "first": id}]);
        assert_eq!(dropped, expected);
    };
    let within = |outer: &str, inner: NodeSpec| NodeSpec::new(outer).with_children([inner]);
    drops(
        within("paragraph", node("heading", "x").with_text("a")),
        "heading",
        "x",
    );
    drops(
        within("code-block", node("paragraph", "x").with_text("a")),
        "paragraph",
        "x",
    );
    drops(
        within("block-quote", node("list-item", "x")),
        "list-item",
        "x",
    );
    drops(node("document", "x"), "document", "x");
    drops(node("paragraph", "x"), "paragraph", "x");
    drops(node("list", "x"), "list", "x");
    drops(node("html-block", "x"), "html-block", "x");
    drops(node("table-row", "x"), "table-row", "x");
    drops(within("table", node("paragraph", "x")), "paragraph", "x");
    let row = within("table-row", node("paragraph", "x").with_text("a"));
    drops(within("table", row), "paragraph", "x");
    let heads = [node("table-head", "h"), node("table-head", "x")];
    drops(
        NodeSpec::new("table").with_children(heads),
        "table-head",
        "x",
    );
}

#[test]
fn attributes_that_markdown_cannot_express_are_reported() {
    let cases = [
        ("heading", "level", json!(7)),
        ("heading", "level", json!("one")),
        ("heading", "id", json!("moons")),
        ("list", "start", json!(2)),
        ("list", "ordered", json!("yes")),
        ("code-block", "language", json!("two words")),
        ("table", "align", json!(["middle"])),
        ("footnote", "label", json!(1)),
    ];
    for (kind, name, value) in cases {
        let inner = match kind {
            "list" => NodeSpec::new("list-item"),
            "table" => NodeSpec::new("table-head"),
            _ => NodeSpec::new("inline-text").with_text("a"),
        };
        let attributes = [(name, value.clone())];
        let spec = node(kind, "x")
            .with_attributes(attributes)
            .with_children([inner]);
        let (_, dropped) = reported(spec, &MarkdownOptions::new());
        let part = json!([{
            "part": "nodeAttribute", "node": kind, "attribute": name, "count": 1, "first": "x",
        }]);
        assert_eq!(dropped, part, "{value}");
    }
}

#[test]
fn marks_that_are_not_written_are_reported() {
    let mark = |kind: &str, range, key: &str, value: &str| {
        Mark::new(kind, range).with_attributes([(key, value.into())])
    };
    let once = |kind: &str| json!([{"part": "mark", "mark": kind, "count": 1, "first": "t"}]);
    assert_eq!(
        of_marks("abcd", [Mark::new("comment", 1..2)]),
        once("comment")
    );
    let overlapping = [
        mark("link", 0..3, "href", "x"),
        mark("link", 1..4, "href", "y"),
    ];
    assert_eq!(of_marks("abcd", overlapping), once("link"));
    let covered = [
        mark("link", 0..4, "href", "x"),
        mark("link", 1..2, "href", "y"),
    ];
    assert_eq!(of_marks("abcd", covered), once("link"));
    let crossing = [
        mark("image", 0..3, "src", "x"),
        mark("link", 1..4, "href", "y"),
    ];
    assert_eq!(of_marks("abcd", crossing), once("link"));
    let hidden = [Mark::new("code", 0..4), Mark::new("html", 1..3)];
    assert_eq!(of_marks("a<b>", hidden), once("code"));
    let fine = [
        Mark::new("em", 0..3),
        Mark::new("bold", 1..4),
        Mark::new("code", 0..2),
    ];
    assert_eq!(of_marks("abcd", fine), json!([]));
    let weight = mark("bold", 0..4, "weight", "900");
    assert_eq!(
        of_marks("abcd", [weight]),
        json!([{
            "part": "markAttribute", "mark": "bold", "attribute": "weight",
            "count": 1, "first": "t",
        }])
    );
    let code = node("code-block", "c")
        .with_text("x\n")
        .with_marks([Mark::new("em", 0..1)]);
    let (_, dropped) = reported(code, &MarkdownOptions::new());
    assert_eq!(
        dropped,
        json!([{"part": "mark", "mark": "em", "count": 1, "first": "c"}])
    );
}

#[test]
fn a_link_that_the_filter_rejects_is_reported() {
    let link = Mark::new("link", 0..1).with_attributes([("href", "javascript:x".into())]);
    let document = paragraph("a", [link]);
    assert_eq!(
        reported(document.clone(), &MarkdownOptions::new()).1,
        json!([])
    );
    let (_, dropped) = reported(document, &MarkdownOptions::untrusted());
    assert_eq!(
        (&dropped[0]["part"], &dropped[0]["mark"]),
        (&json!("mark"), &json!("link"))
    );
}

/// The text of a list, a table, a row and a rule was lost without a trace.
#[test]
fn text_where_markdown_has_none_is_reported() {
    let rule = node("thematic-break", "r")
        .with_text("a")
        .with_children([text("t", "b")]);
    let row = node("table-row", "w").with_text("d");
    let page = NodeSpec::new("document").with_children([
        node("list", "l")
            .with_text("c")
            .with_children([NodeSpec::new("list-item")]),
        node("table", "g").with_text("e").with_children([row]),
        rule,
    ]);
    let (_, dropped) = reported(page, &MarkdownOptions::new());
    let text =
        |kind: &str, first: &str| json!({"part": "text", "node": kind, "count": 1, "first": first});
    assert_eq!(
        dropped,
        json!([
            {"part": "nodeType", "node": "inline-text", "count": 1, "first": "t"},
            text("inline-text", "t"),
            text("list", "l"),
            text("table", "g"),
            text("table-row", "w"),
            text("thematic-break", "r"),
        ])
    );
}

/// Children of a text beside blocks were lost, with their text.
#[test]
fn the_text_within_a_text_is_written() {
    let inner = text("t", "a").with_children([node("mention", "m").with_text("@ann")]);
    let quote = NodeSpec::new("block-quote").with_children([inner]);
    let (markdown, dropped) = reported(quote, &MarkdownOptions::new());
    assert_eq!(markdown, "> a@ann\n");
    assert_eq!(
        dropped,
        json!([{"part": "nodeType", "node": "mention", "count": 1, "first": "m"}])
    );
}

#[test]
fn a_report_has_the_names_of_the_document() {
    let names = MarkdownNames::new()
        .node(MarkdownNode::Heading, "title")
        .mark(MarkdownMark::Link, "anchor");
    let options = MarkdownOptions::new().names(names).unwrap();
    let untrusted = options
        .clone()
        .targets(doclock_formats::markdown::TargetFilter::web());
    let (_, dropped) = from_markdown_reported("\n[a](javascript:x)", &untrusted);
    assert_eq!(
        serde_json::to_value(dropped).unwrap(),
        json!([{"part": "mark", "mark": "anchor", "count": 1, "first": 2}])
    );
    let title = NodeSpec::new("title")
        .with_id("x")
        .with_attributes([("level", 9.into())]);
    assert_eq!(
        reported(title, &options).1,
        json!([{
            "part": "nodeAttribute", "node": "title", "attribute": "level", "count": 1, "first": "x",
        }])
    );
}

#[test]
fn reading_reports_what_it_drops() {
    let report = |page: &str| {
        let (document, dropped) = from_markdown_reported(page, &MarkdownOptions::untrusted());
        assert_eq!(
            document,
            from_markdown_with(page, &MarkdownOptions::untrusted())
        );
        serde_json::to_value(dropped).unwrap()
    };
    let mark = |mark: &str, count: usize, first: usize| json!({"part": "mark", "mark": mark, "count": count, "first": first});
    assert_eq!(report("# a\r\n\r\n*b* [c](d)"), json!([]));
    assert_eq!(
        report("a\r\n\r\n![b](data:c)\n\n[d](javascript:e)\n[f](file:g)"),
        json!([mark("image", 1, 3), mark("link", 2, 5)])
    );
    assert_eq!(
        report("a\n\n```rust no_run\n```"),
        json!([{"part": "codeBlockInfo", "count": 1, "first": 3}])
    );
    assert_eq!(report("[a <http://b.c>](d)"), json!([mark("link", 1, 1)]));
    assert_eq!(
        report("b\n[^1]<http://a.b>\n\n[^1]: n"),
        json!([mark("footnote", 1, 2)])
    );
    assert_eq!(report("[r]: /u\n<b>"), json!([mark("html", 1, 2)]));
    let node = |node: &str, first: usize| json!({"part": "nodeType", "node": node, "count": 1, "first": first});
    let table = "|a".repeat(200) + "\n" + &"|-".repeat(200) + "\n" + &"|b\n".repeat(200);
    assert_eq!(report(&format!("a\n\n{table}")), json!([node("table", 4)]));
    let deep = ">".repeat(600) + "a";
    assert_eq!(
        report(&format!("a\n\n{deep}")),
        json!([node("block-quote", 3)])
    );
}
