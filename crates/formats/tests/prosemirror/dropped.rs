//! Reports of what conversions from and to ProseMirror drop.

use doclock::document::{Mark, NodeSpec};
use doclock_formats::prosemirror::{from_prosemirror, to_prosemirror};
use serde_json::{Value, json};

use crate::common::store;
use crate::{basic, tiptap};

fn of_reading(json: Value) -> (NodeSpec, Value) {
    let (document, dropped) = from_prosemirror(&json.to_string(), &basic()).unwrap();
    (document, serde_json::to_value(dropped).unwrap())
}

#[test]
fn all_that_is_unknown_is_reported_with_its_path() {
    let (document, dropped) = of_reading(json!({"type": "doc", "content": [
        {"type": "poll", "attrs": {"open": true}, "content": [
            {"type": "paragraph", "marks": [{"type": "em"}], "content": [
                {"type": "text", "text": "a", "marks": [{"type": "em"}, {"type": "wavy"}]},
                {"type": "mention", "attrs": {"id": "ann"}, "marks": [{"type": "em"}]},
                {"type": "hard_break", "attrs": {"soft": true}},
            ]},
        ]},
        {"type": "code_block", "content": [
            {"type": "text", "text": "x\ny", "marks": [{"type": "em"}]},
            {"type": "hard_break"},
            {"type": "image", "attrs": {"src": "a"}},
        ]},
        {"type": "paragraph", "content": [{"type": "text", "text": "b\n\u{fdd0}c"}]},
    ]}));
    assert_eq!(
        dropped,
        json!([
            {"part": "nodeType", "node": "hard_break", "count": 1, "first": "content[1].content[1]"},
            {"part": "nodeType", "node": "image", "count": 1, "first": "content[1].content[2]"},
            {"part": "nodeType", "node": "mention", "count": 1,
                "first": "content[0].content[0].content[1]"},
            {"part": "nodeType", "node": "poll", "count": 1, "first": "content[0]"},
            {"part": "nodeAttribute", "node": "hard_break", "attribute": "soft", "count": 1,
                "first": "content[0].content[0].content[2]"},
            {"part": "mark", "mark": "em", "count": 3, "first": "content[0].content[0].marks[0]"},
            {"part": "mark", "mark": "wavy", "count": 1,
                "first": "content[0].content[0].content[0].marks[1]"},
            {"part": "noncharacter", "count": 1, "first": "content[2].content[0]"},
        ])
    );
    let text = |text: &str| NodeSpec::new("inline-text").with_text(text);
    let paragraph = |text| NodeSpec::new("paragraph").with_children([text]);
    let expected = NodeSpec::new("document").with_children([
        paragraph(text("a\n").with_marks([Mark::new("em", 0..1)])),
        NodeSpec::new("code-block").with_children([text("x\ny\n")]),
        paragraph(text("b\u{2028}\u{fffd}c")),
    ]);
    assert_eq!(document, expected);
}

/// They ran together in one text: "Annual reportDraft".
#[test]
fn unknown_text_blocks_become_paragraphs() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let json = json!({"type": "doc", "content": [
        {"type": "title", "content": [text("Annual "), text("report")]},
        {"type": "subtitle", "content": [text("Draft"), {"type": "hard_break"}, text("2")]},
        {"type": "page", "content": [
            {"type": "author", "content": [{"type": "mention", "content": [text("Ann")]}, text("!")]},
            {"type": "heading", "attrs": {"level": 2}, "content": [text("One")]},
            {"type": "box", "content": [text("a"), {"type": "horizontal_rule"}, text("b")]},
            {"type": "paragraph", "content": [{"type": "mention", "content": [text("c")]}, text("d")]},
        ]},
    ]});
    let (document, dropped) = of_reading(json);
    let paragraph = |text: &str| {
        let text = NodeSpec::new("inline-text").with_text(text);
        NodeSpec::new("paragraph").with_children([text])
    };
    let title = NodeSpec::new("inline-text").with_text("One");
    let heading = NodeSpec::new("heading").with_attributes([("level", 2.into())]);
    let expected = NodeSpec::new("document").with_children([
        paragraph("Annual report"),
        paragraph("Draft\n2"),
        paragraph("Ann!"),
        heading.with_children([title]),
        paragraph("a"),
        NodeSpec::new("thematic-break"),
        paragraph("b"),
        paragraph("cd"),
    ]);
    assert_eq!(document, expected);
    let nodes = dropped.as_array().unwrap().iter();
    let nodes: Vec<_> = nodes.map(|part| part["node"].as_str().unwrap()).collect();
    assert_eq!(
        nodes,
        ["author", "box", "mention", "page", "subtitle", "title"]
    );
}

#[test]
fn fields_that_prosemirror_ignores_are_reported() {
    let (document, dropped) = of_reading(json!({"type": "doc", "version": 3, "content": [
        {"type": "paragraph", "children": [[{}]], "content": [
            {"type": "text", "text": "a", "marks": [{"type": "em", "id": 1}]},
        ]},
    ]}));
    let text = NodeSpec::new("inline-text")
        .with_text("a")
        .with_marks([Mark::new("em", 0..1)]);
    let paragraph = NodeSpec::new("paragraph").with_children([text]);
    assert_eq!(
        document,
        NodeSpec::new("document").with_children([paragraph])
    );
    assert_eq!(
        dropped,
        json!([
            {"part": "field", "field": "children", "count": 1, "first": "content[0]"},
            {"part": "field", "field": "id", "count": 1, "first": "content[0].content[0]"},
            {"part": "field", "field": "version", "count": 1, "first": "."},
        ])
    );
}

#[test]
fn all_that_is_not_written_is_reported_with_its_node() {
    let text = NodeSpec::new("inline-text")
        .with_id("t")
        .with_text("abcdef")
        .with_attributes([("mine", 1.into())])
        .with_marks([
            Mark::new("comment", 0..2),
            Mark::new("link", 0..3).with_attributes([("href", "/a".into())]),
            Mark::new("link", 2..4).with_attributes([("href", "/b".into())]),
            Mark::new("bold", 4..6),
            Mark::new("code", 5..6),
        ]);
    let poll = NodeSpec::new("poll").with_id("poll").with_text("?");
    let quote = NodeSpec::new("block-quote").with_children([poll]);
    let document = NodeSpec::new("page")
        .with_id("page")
        .with_children([NodeSpec::new("paragraph").with_children([text]), quote]);
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    let (json, dropped) = to_prosemirror(&transaction, &root, &tiptap()).unwrap();
    let link = |href: &str| json!([{"type": "link", "attrs": {"href": href}}]);
    assert_eq!(
        serde_json::from_str::<Value>(&json).unwrap(),
        json!({"type": "doc", "content": [
            {"type": "paragraph", "content": [
                {"type": "text", "marks": link("/a"), "text": "abc"},
                {"type": "text", "marks": link("/b"), "text": "d"},
                {"type": "text", "marks": [{"type": "bold"}], "text": "e"},
                {"type": "text", "marks": [{"type": "code"}], "text": "f"},
            ]},
            {"type": "blockquote", "content": [
                {"type": "paragraph", "content": [{"type": "text", "text": "?"}]},
            ]},
        ]})
    );
    assert_eq!(
        serde_json::to_value(dropped).unwrap(),
        json!([
            {"part": "nodeType", "node": "page", "count": 1, "first": "page"},
            {"part": "nodeType", "node": "poll", "count": 1, "first": "poll"},
            {"part": "nodeAttribute", "node": "inline-text", "attribute": "mine", "count": 1,
                "first": "t"},
            {"part": "mark", "mark": "bold", "count": 1, "first": "t"},
            {"part": "mark", "mark": "comment", "count": 1, "first": "t"},
            {"part": "mark", "mark": "link", "count": 1, "first": "t"},
        ])
    );
}
