//! Whole documents, in both directions.

use doclock::View;
use doclock::codes::CodedError as _;
use doclock::document::{Mark, NodeSpec};
use doclock_formats::html::{MarkdownOptions, from_html, to_html};
use doclock_formats::markdown::{TargetFilter, from_markdown, to_markdown};
use doclock_formats::prosemirror::{
    ProseMirrorContent, ProseMirrorError, ProseMirrorNames, ProseMirrorOptions, from_prosemirror,
    to_prosemirror,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{cases, store};
use crate::{basic, tiptap};

/// The JSON of a document, which loses nothing.
fn written(document: NodeSpec, options: &ProseMirrorOptions) -> Value {
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    let (json, dropped) = to_prosemirror(&transaction, &root, options).unwrap();
    assert_eq!(dropped, []);
    serde_json::from_str(&json).unwrap()
}

/// The document in a JSON, which loses nothing, as a store keeps it.
fn read(json: &Value, options: &ProseMirrorOptions) -> NodeSpec {
    let (document, dropped) = from_prosemirror(&json.to_string(), options).unwrap();
    assert_eq!(dropped, [], "{json}");
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    transaction.to_spec(&root).unwrap().without_ids()
}

fn fails(json: &str, options: &ProseMirrorOptions) -> ProseMirrorError {
    from_prosemirror(json, options).unwrap_err()
}

/// The names that differ between the two schemas.
struct Names {
    rule: &'static str,
    code_block: &'static str,
    ordered_list: (&'static str, &'static str),
    bullet_list: &'static str,
    list_item: &'static str,
    hard_break: &'static str,
    image: bool,
    /// In the order of the schema. The last one accompanies no other if `alone` is set.
    marks: &'static [&'static str],
    alone: bool,
}

const BASIC: Names = Names {
    rule: "horizontal_rule",
    code_block: "code_block",
    ordered_list: ("ordered_list", "order"),
    bullet_list: "bullet_list",
    list_item: "list_item",
    hard_break: "hard_break",
    image: true,
    marks: &["em", "strong", "code"],
    alone: false,
};

const TIPTAP: Names = Names {
    rule: "horizontalRule",
    code_block: "codeBlock",
    ordered_list: ("orderedList", "start"),
    bullet_list: "bulletList",
    list_item: "listItem",
    hard_break: "hardBreak",
    image: false,
    marks: &["bold", "italic", "strike", "underline", "code"],
    alone: true,
};

fn node(kind: &str, content: Vec<Value>) -> Value {
    match content.is_empty() {
        true => json!({"type": kind}),
        false => json!({"type": kind, "content": content}),
    }
}

/// Inline nodes with marks in the order of the schema; no two adjacent texts have the same marks.
fn inline(names: &'static Names) -> impl Strategy<Value = Vec<Value>> {
    let text = "[a-c é漢🦀\u{fffc}\\\\\"\n\r\u{2028}\u{2029}\u{85}]{1,4}";
    let piece = (text, 0..8u8, any::<[bool; 4]>(), 0..4u8);
    prop::collection::vec(piece, 0..6).prop_map(move |pieces| {
        let mut inline: Vec<Value> = Vec::new();
        for (text, kind, on, link) in pieces {
            let mut marks = Vec::new();
            if link < 2 {
                marks.push(json!({"type": "link", "attrs": {"href": format!("/{link}")}}));
            }
            let (last, others) = names.marks.split_last().unwrap();
            let others = others.iter().zip(on).filter(|(_, on)| *on);
            marks.extend(others.map(|(mark, _)| json!({"type": mark})));
            match (on[3], names.alone) {
                (true, true) => marks = vec![json!({"type": last})],
                (true, false) => marks.push(json!({"type": last})),
                (false, _) => {}
            }
            let mut node = match kind {
                0 => json!({"type": names.hard_break}),
                1 if names.image => json!({"type": "image", "attrs": {"src": text, "alt": "a\n"}}),
                _ => json!({"type": "text", "text": text}),
            };
            if !marks.is_empty() {
                node["marks"] = marks.into();
            }
            match inline.last_mut() {
                Some(last)
                    if last["text"].is_string()
                        && node["text"].is_string()
                        && last.get("marks") == node.get("marks") =>
                {
                    let joined = format!("{}{}", last["text"].as_str().unwrap(), text);
                    last["text"] = joined.into();
                }
                _ => inline.push(node),
            }
        }
        inline
    })
}

fn blocks(names: &'static Names) -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        4 => inline(names).prop_map(|inline| node("paragraph", inline)),
        1 => (1..7u8, inline(names)).prop_map(|(level, inline)| {
            let mut heading = node("heading", inline);
            heading["attrs"] = json!({"level": level});
            heading
        }),
        1 => "[a\n \u{2028}\u{85}]{0,4}".prop_map(move |code| {
            let text = json!({"type": "text", "text": code});
            node(names.code_block, if code.is_empty() { vec![] } else { vec![text] })
        }),
        1 => Just(node(names.rule, vec![])),
    ];
    block.prop_recursive(4, 24, 4, move |inner| {
        let some = prop::collection::vec(inner, 0..3);
        let paragraph = inline(names)
            .prop_map(|inline| node("paragraph", inline))
            .boxed();
        let item = (paragraph.clone(), some.clone()).prop_map(move |(first, mut others)| {
            others.insert(0, first);
            node(names.list_item, others)
        });
        let items = prop::collection::vec(item, 1..3);
        prop_oneof![
            (paragraph, some).prop_map(|(first, mut others)| {
                others.push(first);
                node("blockquote", others)
            }),
            items
                .clone()
                .prop_map(move |items| node(names.bullet_list, items)),
            (items, 0..9u8).prop_map(move |(items, start)| {
                let (kind, attribute) = names.ordered_list;
                let mut list = node(kind, items);
                list["attrs"] = json!({attribute: start});
                list
            }),
        ]
    })
}

fn documents(names: &'static Names) -> impl Strategy<Value = Value> {
    prop::collection::vec(blocks(names), 1..4).prop_map(|blocks| node("doc", blocks))
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_document_of_the_basic_schema_round_trips(json in documents(&BASIC)) {
        let document = read(&json, &basic());
        prop_assert_eq!(written(document, &basic()), json);
    }

    #[test]
    fn any_document_of_tiptap_round_trips(json in documents(&TIPTAP)) {
        let document = read(&json, &tiptap());
        prop_assert_eq!(written(document, &tiptap()), json);
    }

    /// Marks over any ranges, which split the text of ProseMirror where they begin and end.
    #[test]
    fn any_text_with_any_marks_round_trips(
        text in "[ab é漢🦀\n\u{fffc}\u{2028}\u{2029}\u{85}\u{fdd0}]{1,16}",
        spans in prop::collection::vec((0..16usize, 1..9usize, 0..5usize), 0..6),
    ) {
        let len = text.chars().count();
        let marks = spans.into_iter().map(|(start, of_mark, kind)| {
            let start = start % len;
            let kind = ["em", "bold", "code", "link", "image"][kind];
            let range = match kind {
                // An inline node is one character.
                "image" => text.chars().position(|char| char == '\u{fffc}').map_or(0..0, |at| at..at + 1),
                _ => start..(start + of_mark).min(len),
            };
            let mark = Mark::new(kind, range);
            match kind {
                "link" => mark.with_attributes([("href", "/".into())]),
                "image" => mark.with_attributes([("src", "/".into())]),
                _ => mark,
            }
        });
        let text = NodeSpec::new("inline-text").with_text(text.as_str()).with_marks(marks);
        let paragraph = NodeSpec::new("paragraph").with_children([text]);
        let mut transaction = store().begin("test").unwrap();
        let root = transaction.create(NodeSpec::new("document").with_children([paragraph])).unwrap();
        let document = transaction.to_spec(&root).unwrap().without_ids();
        let json = written(document.clone(), &basic());
        prop_assert_eq!(read(&json, &basic()), document);
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in ".{0,40}", json in documents(&BASIC), at: prop::sample::Index) {
        let _ = from_prosemirror(&text, &basic());
        // A document with some characters replaced.
        let mut spoilt: Vec<char> = json.to_string().chars().collect();
        let at = at.index(spoilt.len());
        spoilt.splice(at..(at + 1).min(spoilt.len()), text.chars().take(2));
        let _ = from_prosemirror(&String::from_iter(spoilt), &basic());
    }
}

#[test]
fn a_document_from_markdown_is_read_by_the_editor() {
    let page = "# Moons\n\n- *Io*\n- [x](/y)  \n  z\n\n![a](b.png)";
    assert_eq!(
        written(from_markdown(page), &basic()),
        json!({"type": "doc", "content": [
            {"type": "heading", "attrs": {"level": 1}, "content": [{"type": "text", "text": "Moons"}]},
            {"type": "bullet_list", "content": [
                {"type": "list_item", "content": [{"type": "paragraph", "content": [
                    {"type": "text", "marks": [{"type": "em"}], "text": "Io"},
                ]}]},
                {"type": "list_item", "content": [{"type": "paragraph", "content": [
                    {"type": "text", "marks": [{"type": "link", "attrs": {"href": "/y"}}], "text": "x"},
                    {"type": "hard_break"},
                    {"type": "text", "text": "z"},
                ]}]},
            ]},
            {"type": "paragraph", "content": [{"type": "image", "attrs": {"src": "b.png", "alt": "a"}}]},
        ]})
    );
}

#[test]
fn an_attribute_that_is_null_is_absent() {
    let link = json!({"type": "link", "attrs": {"href": "/", "title": null}});
    let text = json!({"type": "text", "marks": [link], "text": "a"});
    let json = node("doc", vec![node("paragraph", vec![text])]);
    let document = read(&json, &basic());
    let written = written(document, &basic());
    let attributes = &written["content"][0]["content"][0]["marks"][0]["attrs"];
    assert_eq!(attributes, &json!({"href": "/"}));
}

/// ProseMirror takes an empty list for a list that is `null`.
#[test]
fn a_list_that_is_null_is_absent() {
    let json = json!({"type": "doc", "content": [
        {"type": "paragraph", "content": null},
        {"type": "paragraph", "content": [{"type": "text", "marks": null, "text": "a"}]},
    ]});
    let read = read(&json, &basic());
    let text = NodeSpec::new("inline-text").with_text("a");
    let paragraph = NodeSpec::new("paragraph");
    let paragraphs = [paragraph.clone(), paragraph.with_children([text])];
    assert_eq!(read, NodeSpec::new("document").with_children(paragraphs));
}

/// In JavaScript 2.0 is 2, and servers in other languages write it.
#[test]
fn a_whole_number_is_an_integer() {
    let json = json!({"type": "doc", "content": [
        {"type": "heading", "attrs": {"level": 2.0, "of": [1.5, {"a": -3.0}, 1e300]}},
    ]});
    let document = read(&json, &ProseMirrorOptions::new(ProseMirrorNames::tiptap()));
    let heading = &document.into_children()[0];
    assert_eq!(heading.attributes().get("level"), Some(&2.into()));
    assert_eq!(
        heading.attributes().get("of"),
        Some(&json!([1.5, {"a": -3}, 1e300]))
    );
}

/// A newline in a text is no hard break. It survives the other formats.
#[test]
fn a_newline_in_text_and_a_hard_break_differ_in_every_format() {
    let json = node(
        "doc",
        vec![node(
            "paragraph",
            vec![
                json!({"type": "text", "text": "a\nb"}),
                json!({"type": "hard_break"}),
                json!({"type": "text", "text": "c"}),
            ],
        )],
    );
    let document = read(&json, &basic());
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(document.clone()).unwrap();
    assert_eq!(transaction.text_of(&root).unwrap(), "a\u{2028}b\nc");
    let markdown = to_markdown(&transaction, &root).unwrap();
    assert_eq!(markdown, "a&#8232;b\\\nc\n");
    assert_eq!(written(from_markdown(&markdown), &basic()), json);
    let (html, dropped) = to_html(&transaction, &root, &MarkdownOptions::new()).unwrap();
    assert_eq!(
        (html.as_str(), dropped.len()),
        ("<p>a\u{2028}b<br>c</p>\n", 0)
    );
    let (read, _) = from_html(&html, &MarkdownOptions::new()).unwrap();
    assert_eq!(written(read, &basic()), json);
}

/// A note can be several times on one text, and code excludes all other marks.
#[test]
fn marks_that_a_schema_allows_together_are_kept_together() {
    let names = ProseMirrorNames::tiptap()
        .mark("note", "note")
        .excludes("note", "");
    let names = names
        .node("title", "title", ProseMirrorContent::Text)
        .marks("title", "italic note");
    let options = ProseMirrorOptions::new(names);
    let note = |id: u8| json!({"type": "note", "attrs": {"id": id}});
    let text = json!({"type": "text", "marks": [note(1), note(2)], "text": "a"});
    let json = node("doc", vec![node("title", vec![text])]);
    assert_eq!(written(read(&json, &options), &options), json);
    let text = json!({"type": "text", "marks": [{"type": "bold"}], "text": "a"});
    let json = node("doc", vec![node("title", vec![text])]);
    let (_, dropped) = from_prosemirror(&json.to_string(), &options).unwrap();
    assert_eq!(
        serde_json::to_value(dropped).unwrap(),
        json!([{"part": "mark", "mark": "bold", "count": 1,
            "first": "content[0].content[0].marks[0]"}])
    );
    let text = NodeSpec::new("inline-text")
        .with_text("a")
        .with_marks([Mark::whole("bold")]);
    let mut transaction = store().begin("test").unwrap();
    let root = transaction
        .create(NodeSpec::new("title").with_children([text]))
        .unwrap();
    let (json, dropped) = to_prosemirror(&transaction, &root, &options).unwrap();
    assert_eq!((json.contains("bold"), dropped.len()), (false, 1));
}

#[test]
fn bad_json_fails_with_the_path_to_it() {
    for (json, path, reason) in [
        ("", ".", "EOF while parsing a value"),
        ("[]", ".", "invalid type: sequence, expected an object"),
        (
            "{\"type\": \"doc\", \"content\": [[\"text\"]]}",
            "content[0]",
            "invalid type: sequence",
        ),
        ("{\"type\": \"doc\"} x", ".", "trailing characters"),
        ("{\"content\": []}", ".", "missing field `type`"),
        (
            "{\"type\": \"doc\", \"content\": [{\"type\": \"paragraph\", \"content\": [{\"type\": 1}]}]}",
            "content[0].content[0].type",
            "invalid type: integer `1`, expected a string",
        ),
        (
            "{\"type\": \"doc\", \"content\": [{\"type\": \"text\", \"text\": \"\\ud800\"}]}",
            "content[0].text",
            "unexpected end of hex escape",
        ),
    ] {
        let ProseMirrorError::Json { path: found, cause } = fails(json, &basic()) else {
            panic!("{json}");
        };
        assert_eq!(found, path, "{json}");
        assert!(cause.reason.starts_with(reason), "{json}: {cause}");
    }
}

#[test]
fn a_text_without_text_and_a_text_elsewhere_fail() {
    let text = r#"{"type": "doc", "content": [{"type": "paragraph", "content": [{"type": "text", "text": ""}]}]}"#;
    assert_eq!(
        fails(text, &basic()).to_string(),
        "node content[0].content[0] of type text has no text"
    );
    let elsewhere = r#"{"type": "doc", "text": "a"}"#;
    assert_eq!(
        fails(elsewhere, &basic()).to_string(),
        "node . of type doc has a text"
    );
}

/// Deep enough to overflow the stack of a reader that recurses.
#[test]
fn nesting_of_any_depth_is_refused_without_overflow() {
    for depth in [70, 100_000] {
        let json = "{\"type\":\"blockquote\",\"content\":[".repeat(depth);
        let ProseMirrorError::Json { path, cause } = fails(&json, &basic()) else {
            panic!("{depth}");
        };
        assert_eq!(cause.reason, "recursion limit exceeded");
        assert!(
            path.starts_with("content[0].content[0]") && path.len() < 1_000,
            "{path}"
        );
    }
}

#[test]
fn sixty_levels_are_read_and_any_depth_is_written() {
    let deep = |levels| {
        (1..levels).fold(NodeSpec::new("block-quote"), |inner, _| {
            NodeSpec::new("block-quote").with_children([inner])
        })
    };
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    let mut transaction = store().begin("test").unwrap();
    for levels in [60, 100_000] {
        let root = transaction.create(deep(levels)).unwrap();
        let (json, _) = to_prosemirror(&transaction, &root, &options).unwrap();
        assert_eq!(json.matches("blockquote").count(), levels);
        match levels {
            60 => assert_eq!(from_prosemirror(&json, &options).unwrap().0, deep(60)),
            _ => assert!(from_prosemirror(&json, &options).is_err()),
        }
    }
}

#[test]
fn content_that_the_schema_refuses_fails_with_its_path() {
    let item = node("list_item", vec![json!({"type": "horizontal_rule"})]);
    let json = node(
        "doc",
        vec![node("paragraph", vec![]), node("bullet_list", vec![item])],
    );
    let error = fails(&json.to_string(), &basic());
    let ProseMirrorError::Schema { path, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(path, "content[1].content[0]");
    assert_eq!(error.code(), "proseMirrorSchema");
    let heading = json!({"type": "heading", "attrs": {"level": "2"}});
    let error = fails(&node("doc", vec![heading]).to_string(), &basic());
    assert!(matches!(error, ProseMirrorError::Schema { path, .. } if path == "content[0]"));
    // A default of the schema is no violation.
    let heading = node("doc", vec![json!({"type": "heading"})]);
    assert!(from_prosemirror(&heading.to_string(), &basic()).is_ok());
    let root = fails(&node("paragraph", vec![]).to_string(), &basic());
    assert!(matches!(root, ProseMirrorError::Schema { path, .. } if path == "."));
}

#[test]
fn own_inline_nodes_are_characters_with_a_mark() {
    let names = ProseMirrorNames::tiptap().node("mention", "person", ProseMirrorContent::Inline);
    let options = ProseMirrorOptions::new(names);
    let mention = |id: &str| json!({"type": "mention", "attrs": {"id": id}});
    let json = node(
        "doc",
        vec![node(
            "paragraph",
            vec![
                mention("ann"),
                mention("ann"),
                json!({"type": "text", "text": "\u{fffc}"}),
                mention("bob"),
            ],
        )],
    );
    let document = read(&json, &options);
    let text = document
        .clone()
        .into_children()
        .remove(0)
        .into_children()
        .remove(0);
    assert_eq!(text.text(), "\u{fffc}\u{fffc}\u{fffc}\u{fffc}");
    let mark = |range, id: &str| Mark::new("person", range).with_attributes([("id", id.into())]);
    assert_eq!(text.marks(), [mark(0..2, "ann"), mark(3..4, "bob")]);
    assert_eq!(written(document, &options), json);
}

#[test]
fn a_later_definition_replaces_an_earlier_one() {
    let names = ProseMirrorNames::basic()
        .node("section", "block-quote", ProseMirrorContent::Blocks)
        .mark("i", "em")
        .text("words");
    let options = ProseMirrorOptions::new(names);
    let text = json!({"type": "text", "marks": [{"type": "i"}], "text": "a"});
    let json = node("section", vec![node("paragraph", vec![text])]);
    let document = read(&json, &options);
    assert_eq!(document.kind(), "block-quote");
    assert_eq!(written(document, &options), json);
    let (_, dropped) = from_prosemirror(r#"{"type": "blockquote"}"#, &options).unwrap();
    assert_eq!(dropped.len(), 1);
}

#[test]
fn targets_that_run_code_are_left_out_in_both_directions() {
    let options = basic().targets(TargetFilter::web());
    let link = json!({"type": "link", "attrs": {"href": " Java\nscript:x"}});
    let json = node(
        "doc",
        vec![node(
            "paragraph",
            vec![
                json!({"type": "text", "marks": [link, {"type": "em"}], "text": "a"}),
                json!({"type": "image", "attrs": {"src": "data:x"}}),
            ],
        )],
    );
    let (document, dropped) = from_prosemirror(&json.to_string(), &options).unwrap();
    assert!(!document.to_json().contains("script") && !document.to_json().contains("data"));
    let dropped = serde_json::to_value(dropped).unwrap();
    assert_eq!(
        dropped,
        json!([
            {"part": "mark", "mark": "link", "count": 1, "first": "content[0].content[0].marks[0]"},
            {"part": "markAttribute", "mark": "image", "attribute": "src", "count": 1,
                "first": "content[0].content[1]"},
        ])
    );
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(read(&json, &basic())).unwrap();
    let (json, dropped) = to_prosemirror(&transaction, &root, &options).unwrap();
    assert!(!json.contains("script") && !json.contains("data"), "{json}");
    assert_eq!(dropped.len(), 2);
}
