//! Conversion from HTML to nodes and back.

use doclock::document::{Mark, NodeSpec, check};
use doclock_formats::html::{HtmlError, MarkdownOptions, from_html, to_html};
use doclock_formats::markdown::{from_markdown, to_markdown};
use proptest::prelude::*;
use regex::Regex;
use serde_json::{Value, json};

use crate::common::{cases, store};
use crate::markdown::{TOKENS, pages, paragraph};
use crate::targets::browser_scheme;

fn any() -> MarkdownOptions {
    MarkdownOptions::new()
}

/// The HTML of a document, and the report.
fn written(document: NodeSpec, options: &MarkdownOptions) -> (String, Value) {
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    assert_eq!(check(&transaction), Ok(()));
    let (html, dropped) = to_html(&transaction, &root, options).unwrap();
    (html, serde_json::to_value(dropped).unwrap())
}

fn read(html: &str) -> (NodeSpec, Value) {
    let (document, dropped) = from_html(html, &any()).unwrap();
    (document, serde_json::to_value(dropped).unwrap())
}

/// The children of the document as JSON.
fn blocks(html: &str) -> Value {
    let document: Value = serde_json::from_str(&read(html).0.to_json()).unwrap();
    document["children"].clone()
}

fn text(text: &str) -> Value {
    json!({"type": "inline-text", "text": text})
}

/// A document that is written without loss is read again, without loss.
fn leads_back(document: NodeSpec) -> Result<bool, TestCaseError> {
    let (html, dropped) = written(document.clone(), &any());
    let (again, dropped_again) = read(&html);
    prop_assert_eq!(&dropped_again, &json!([]), "{}", html);
    if dropped == json!([]) {
        prop_assert_eq!(again.to_json(), document.to_json(), "{}", html);
    }
    Ok(dropped == json!([]))
}

const ELEMENTS: &[&str] = &[
    "<p>",
    "</p>",
    "<h2>",
    "</h2>",
    "<ul>",
    "</ul>",
    "<ol start=3>",
    "<ol start=x>",
    "</ol>",
    "<li>",
    "</li>",
    "<blockquote>",
    "</blockquote>",
    "<pre>",
    "<pre>\n\n",
    "</pre>",
    "<code>",
    "</code>",
    "<code class='language-c x'>",
    "<hr>",
    "<br>",
    "<br>",
    "<br><br>",
    "<b>",
    "</b>",
    "<em>",
    "</em>",
    "<s>",
    "</s>",
    "<a href='/x' title='a \"b\"'>",
    "<a href='javascript:x'>",
    "<a name=n>",
    "<a href=''>",
    "</a>",
    "<img src=a.png alt='b  c'>",
    "<img src=data:x alt=d>",
    "<img>",
    "<table>",
    "</table>",
    "<tr>",
    "</tr>",
    "<td>",
    "<td style='text-align: center'>",
    "</td>",
    "<th align=right>",
    "</th>",
    "<caption>",
    "<thead>",
    "<tbody>",
    "<div>",
    "</div>",
    "<span style='white-space: pre-wrap'>",
    "<span style='white-space: normal'>",
    "<span style='font-weight: 700'>",
    "<span style='font-weight: 400; font-style: normal'>",
    "<p style='font-style: italic'>",
    "<div style='text-decoration: underline line-through'>",
    "<b style='font-weight: normal'>",
    "<div hidden>",
    "<span style='display: block'>",
    "</span>",
    "<input type=checkbox checked>",
    "<input>",
    "<script>x()</script>",
    "<script>",
    "<style>p{}</style>",
    "<svg onload=x()>",
    "</svg>",
    "<math>",
    "<template>",
    "</template>",
    "<!-- c -->",
    "<select><option>",
    "<textarea>",
    "<iframe>",
    "<title>",
    "<body onload=x>",
    " ",
    "  ",
    "\n",
    "\t",
    "\r",
    "a",
    "b c",
    "é",
    "🦀",
    "&amp;",
    "&lt;b&gt;",
    "&nbsp;",
    "&#13;",
    "&#0;",
    "\u{fffc}",
    "<",
    ">",
    "\"",
    "&",
    "</",
    "<x-y z>",
];

/// The mark of an image or a link covered the break before it, and was dropped as the second of two
/// equal images.
#[test]
fn a_mark_begins_behind_the_break_before_it() {
    let image = |start: usize, end: usize, source: &str| {
        let attributes = json!({"src": source});
        json!({"type": "image", "range": [start, end], "attributes": attributes})
    };
    let link = |start: usize, end: usize| json!({"type": "link", "range": [start, end], "attributes": {"href": "x"}});
    let em = |start: usize, end: usize| json!({"type": "em", "range": [start, end]});
    for (inner, text, marks) in [
        (
            "<div>a</div><div><img src=x alt=b></div>",
            "a\nb",
            json!([image(2, 3, "x")]),
        ),
        (
            "<div><img src=x></div><div><img src=x></div>",
            "\u{fffc}\n\u{fffc}",
            json!([image(0, 1, "x"), image(2, 3, "x")]),
        ),
        (
            "<div>a</div><div><a href=x>b</a></div>",
            "a\nb",
            json!([link(2, 3)]),
        ),
        (
            "<div>a</div><div><a href=x></a></div>",
            "a\n\u{fffc}",
            json!([link(2, 3)]),
        ),
        (
            "<div>a </div><em><div>b</div></em>",
            "a\nb",
            json!([em(2, 3)]),
        ),
        (
            "<em><div>a</div><div>b</div></em>",
            "a\nb",
            json!([em(0, 3)]),
        ),
        (
            "<em>a<div><img src=x alt=b></div></em>",
            "a\nb",
            json!([em(0, 3), image(2, 3, "x")]),
        ),
    ] {
        let html = format!("<ul><li>{inner}</ul>");
        let found = &blocks(&html)[0]["children"][0]["children"];
        let expected = json!([{"type": "inline-text", "text": text, "marks": marks}]);
        assert_eq!(*found, expected, "{html}");
        let (document, dropped) = read(&html);
        assert!(!dropped.to_string().contains("mark"), "{html}: {dropped}");
        assert!(leads_back(document).unwrap(), "{html}");
    }
}

/// A text is parsed in parts, and each of them lost the mark at its beginning.
#[test]
fn a_byte_order_mark_is_dropped_at_the_beginning_only() {
    for before in 1_015..1_030 {
        let words = format!("{}\u{feff}b", "a".repeat(before));
        assert_eq!(blocks(&words)[0]["children"], json!([text(&words)]));
    }
    assert_eq!(read("\u{feff}<p>a").0, read("<p>a").0);
    assert_eq!(
        blocks("\u{feff}\u{feff}a")[0]["children"],
        json!([text("\u{feff}a")])
    );
}

/// Two marks that are equal and adjacent are one: the second image was lost without a report.
#[test]
fn an_image_beside_an_equal_one_is_reported() {
    for (html, text) in [
        ("<img src=x><img src=x>", "\u{fffc}\u{fffc}"),
        ("<b><img src=x alt=a></b><img src=x alt=b>", "ab"),
        ("<img src=x><a name=n><img src=x>", "\u{fffc}\u{fffc}"),
    ] {
        let (document, dropped) = read(html);
        assert!(
            dropped.to_string().contains(r#""mark":"image""#),
            "{html}: {dropped}"
        );
        assert!(document.to_json().contains(text), "{html}");
        assert!(leads_back(document).unwrap(), "{html}");
    }
    let (_, dropped) = read("<img src=x><img src=y> <img src=y>");
    assert_eq!(dropped, json!([]));
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn any_page_of_markdown_is_the_same_in_html(page in pages()) {
        let document = from_markdown(&page);
        let json = document.to_json();
        let has_more = json.contains("html") || json.contains("front-matter");
        prop_assert!(leads_back(document)? || has_more, "{}", page);
    }

    #[test]
    fn any_characters_of_markdown_are_the_same_in_html(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..16),
    ) {
        leads_back(from_markdown(&tokens.concat()))?;
    }

    #[test]
    fn any_html_round_trips(
        elements in prop::collection::vec(prop::sample::select(ELEMENTS), 0..24),
    ) {
        let html = elements.concat();
        let (document, _) = read(&html);
        prop_assert!(leads_back(document)?, "{}", html);
    }

    #[test]
    fn any_text_with_any_marks_is_the_same_in_html(
        text in "[a<>&\"' \n\t\r\u{c}é🦀\u{a0}\u{fffc}]{1,16}",
        spans in prop::collection::vec((0..16usize, 1..9usize, 0..6usize), 0..5),
    ) {
        let len = text.chars().count();
        let marks = spans.into_iter().map(|(start, of_mark, kind)| {
            let start = start % len;
            let range = start..(start + of_mark).min(len);
            let kind = ["em", "bold", "strikethrough", "code", "link", "image"][kind];
            let mark = Mark::new(kind, range);
            match kind {
                "link" => mark.with_attributes([("href", "\"><x".into())]),
                "image" => mark.with_attributes([("src", "x".into()), ("title", " <&\n".into())]),
                _ => mark,
            }
        });
        let mut transaction = store().begin("test").unwrap();
        let root = transaction.create(paragraph(&text, marks)).unwrap();
        let document = doclock::View::to_spec(&transaction, &root).unwrap().without_ids();
        leads_back(document)?;
    }

    #[test]
    fn any_characters_are_read(html in ".{0,60}") {
        let (document, _) = read(&html);
        leads_back(document)?;
    }

    /// Of any document, all tags, attributes and schemes in the output are harmless.
    #[test]
    fn no_output_runs_code(
        words in prop::collection::vec(prop::sample::select(vec![
            "<script>", "</script>", "javascript:x()", "java\tscript:x", "data:text/html,x", "\"", "'",
            "onerror=x", "--><img src=x onerror=x()>", "</p>", "&lt;", "&", "\0", "\n", " ", "a", "`",
            "vbscript:x", "\u{1}javascript:x",
        ]), 1..6),
        kind in prop::sample::select(vec![
            "paragraph", "heading", "code-block", "html-block", "list", "table", "poll", "<script>",
        ]),
        mark in prop::sample::select(vec!["link", "image", "code", "html", "footnote", "onclick"]),
    ) {
        let hostile = words.concat();
        let attributes = ["href", "src", "title", "alt", "onclick", "style"];
        let mark = Mark::whole(mark).with_attributes(
            attributes.into_iter().map(|name| (name, hostile.clone().into())).collect::<doclock::document::Attributes>(),
        );
        let names = ["language", "align", "start", "level", "checked", "class", "onload"];
        let named = names.into_iter().map(|name| (name, Value::from(hostile.clone())));
        let text = NodeSpec::new("inline-text").with_text(hostile.as_str()).with_marks([mark]);
        let block = NodeSpec::new(kind)
            .with_attributes(named.collect::<doclock::document::Attributes>())
            .with_text(hostile.as_str())
            .with_children([text]);
        let (html, _) = written(NodeSpec::new("document").with_children([block]), &any());
        is_harmless(&html)?;
    }
}

/// Checks all tags. Text and values have no `<` and no `>`.
fn is_harmless(html: &str) -> Result<(), TestCaseError> {
    let tag = Regex::new(r#"^</?([a-z0-9]+)((?: [a-z]+(?:="[^"<>]*")?)*)>$"#).unwrap();
    let attribute = Regex::new(r#" ([a-z]+)(?:="([^"]*)")?"#).unwrap();
    for part in Regex::new("<[^>]*>?").unwrap().find_iter(html) {
        let Some(found) = tag.captures(part.as_str()) else {
            return Err(TestCaseError::fail(format!("{part:?} in {html}")));
        };
        let elements = "p h1 h2 h3 h4 h5 h6 blockquote ul ol li pre code hr br table tr th td a img \
                        strong em del span input";
        prop_assert!(
            elements.split_whitespace().any(|name| name == &found[1]),
            "{}",
            html
        );
        for pair in attribute.captures_iter(&found[2]) {
            let names = "href src title alt class style start type disabled checked";
            prop_assert!(names.split(' ').any(|name| name == &pair[1]), "{}", html);
            let value = pair.get(2).map_or("", |value| value.as_str());
            if ["href", "src"].contains(&&pair[1]) {
                let scheme = browser_scheme(&value.replace("&amp;", "&"));
                let runs = ["javascript", "vbscript", "data"].map(str::to_owned);
                prop_assert!(
                    scheme.is_none_or(|scheme| !runs.contains(&scheme)),
                    "{}",
                    html
                );
            }
        }
    }
    Ok(())
}

#[test]
fn elements_become_nodes_and_marks() {
    let page = "<!doctype html><html><head><title>T</title></head><body>
        stray <i>text</i>
        <h3>Head</h3>
        <ol start=7><li>one<li><p>two</ol>
        <ul><li><input type=checkbox checked> done <ul><li>in</ul></ul>
        <pre><code class=language-rust>fn  x\n</code></pre>
        <table><thead><tr><th style='text-align: center'>a<tbody><tr><td style='text-align: center'>b</table>
        <p>a<br> b &nbsp; <img src=x.png alt=pic title=t></p><hr></body></html>";
    assert_eq!(
        blocks(page),
        json!([
            {"type": "paragraph", "children": [
                {"type": "inline-text", "text": "stray text", "marks": [{"type": "em", "range": [6, 10]}]},
            ]},
            {"type": "heading", "attributes": {"level": 3}, "children": [text("Head")]},
            {"type": "list", "attributes": {"ordered": true, "start": 7}, "children": [
                {"type": "list-item", "children": [text("one")]},
                {"type": "list-item", "children": [{"type": "paragraph", "children": [text("two")]}]},
            ]},
            {"type": "list", "attributes": {"ordered": false}, "children": [
                {"type": "list-item", "attributes": {"checked": true}, "children": [
                    text("done"),
                    {"type": "list", "attributes": {"ordered": false}, "children": [
                        {"type": "list-item", "children": [text("in")]},
                    ]},
                ]},
            ]},
            {"type": "code-block", "attributes": {"language": "rust"}, "children": [text("fn  x\n")]},
            {"type": "table", "attributes": {"align": ["center"]}, "children": [
                {"type": "table-head", "children": [{"type": "table-cell", "children": [text("a")]}]},
                {"type": "table-row", "children": [{"type": "table-cell", "children": [text("b")]}]},
            ]},
            {"type": "paragraph", "children": [
                {"type": "inline-text", "text": "a\nb \u{a0} pic", "marks": [
                    {"type": "image", "range": [6, 9], "attributes": {"src": "x.png", "title": "t"}},
                ]},
            ]},
            {"type": "thematic-break"},
        ])
    );
    assert_eq!(
        read(page).1,
        json!([{"part": "element", "element": "title", "count": 1, "first": 1}])
    );
}

#[test]
fn what_runs_code_is_dropped_and_reported() {
    let html = "<p onclick='x()' class=c>a<script>x()</script>\n<a href=' java\nscript:x()'>b</a>
<img src=data:image/png,x alt=c><svg onload=x()><text>d</text></svg><iframe src=x>e</iframe>";
    let (document, dropped) = read(html);
    assert_eq!(document, from_markdown("a b cd"));
    assert_eq!(
        dropped,
        json!([
            {"part": "mark", "mark": "image", "count": 1, "first": 4},
            {"part": "mark", "mark": "link", "count": 1, "first": 3},
            {"part": "element", "element": "iframe", "count": 1, "first": 4},
            {"part": "element", "element": "script", "count": 1, "first": 1},
            {"part": "element", "element": "svg", "count": 1, "first": 4},
            {"part": "element", "element": "text", "count": 1, "first": 4},
            {"part": "elementAttribute", "element": "p", "attribute": "class", "count": 1, "first": 1},
            {"part": "elementAttribute", "element": "p", "attribute": "onclick", "count": 1, "first": 1},
        ])
    );
}

/// The Markdown of a page, without a report.
fn markdown(html: &str) -> String {
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(read(html).0).unwrap();
    to_markdown(&transaction, &root).unwrap()
}

#[test]
fn a_style_makes_marks_and_takes_them() {
    for (html, text) in [
        // The wrapper of Google Docs.
        (
            "<b style='font-weight:normal;' id='docs-internal-guid-1'><p dir='ltr'>\
             <span style='font-size:11pt;font-weight:400;white-space:pre-wrap'>plain </span>\
             <span style='font-weight:700'>bold</span></p></b>",
            "plain **bold**\n",
        ),
        (
            "<p><span style='font-style:italic'>i</span> <i style='font-style:normal'>n</i>",
            "*i* n\n",
        ),
        (
            "<span style='text-decoration:underline line-through'>s</span>",
            "~~s~~\n",
        ),
        ("<s style='text-decoration:none'>a</s>", "a\n"),
        // A line goes through all descendants.
        (
            "<s>a <span style='text-decoration:none'>b</span></s>",
            "~~a b~~\n",
        ),
        (
            "<b>a<span style='font-weight:400'> b </span>c</b>",
            "**a** b **c**\n",
        ),
        (
            "<b>a <span style='font-weight:inherit'>b</span></b>",
            "**a b**\n",
        ),
        (
            "<b>a<strong style='font-weight:lighter'> b</strong></b>",
            "**a** b\n",
        ),
        (
            "<div style='font-weight:600'>a<p>b</p>c</div>",
            "**a**\n\n**b**\n\n**c**\n",
        ),
        ("<p style='font-weight:599'>a", "a\n"),
        (
            "<p style='FONT-WEIGHT: Bold !important; font-weight: 400'>a",
            "**a**\n",
        ),
        // What is not valid has no effect, and ends nothing.
        ("<p style='font-weight:bold;font-weight:heavy'>a", "**a**\n"),
        (
            "<p style='--x: {a;b}; background:url(data:a;font-weight:400); font-weight:700'>a",
            "**a**\n",
        ),
        (
            "<p style='/* font-weight: 400; */ quotes: \";font-weight:400;\"; font-weight:700'>a",
            "**a**\n",
        ),
        // Heads are bold without a mark, also where a browser copies their style.
        (
            "<h2 style='font-weight:600'>a <span style='font-weight:600'>b</span></h2>",
            "## a **b**\n",
        ),
        (
            "<span style='white-space:normal;white-space:pre-wrap'>a  b</span>",
            "a  b\n",
        ),
        (
            "<p style='white-space:pre'>a  b <span style='white-space:normal'>c  d</span>",
            "a  b c d\n",
        ),
        (
            "<span style='display:block'>a</span><span style='display:block'>b</span>",
            "a\n\nb\n",
        ),
        ("a <div style='display:inline'>b</div>", "a b\n"),
        (
            "<pre>a <b style='font-weight:400'>b</b> <i style='font-style:italic'>c</i></pre>",
            "```\na b c\n```\n",
        ),
    ] {
        assert_eq!(markdown(html), text, "{html}");
        assert!(leads_back(read(html).0).unwrap(), "{html}");
    }
}

/// A text in nested elements with styles, and the marks that a browser would show on each word.
#[derive(Clone, Debug)]
enum Styled {
    Word,
    Element(&'static str, Vec<&'static str>, Vec<Styled>),
}

fn styled() -> impl Strategy<Value = Styled> {
    let names = prop::sample::select(vec![
        "span", "b", "strong", "i", "em", "s", "del", "u", "font",
    ]);
    let styles = prop::sample::subsequence(
        vec![
            "font-weight:normal",
            "font-weight:900",
            "font-weight:inherit",
            "font-weight:what",
            "FONT-STYLE:Italic",
            "font-style:normal!important",
            "text-decoration:underline",
            "text-decoration:none",
            "text-decoration:overline line-through red",
            "color:red",
        ],
        0..4,
    );
    Just(Styled::Word).prop_recursive(4, 24, 4, move |inner| {
        let parts = prop::collection::vec(inner, 1..4);
        (names.clone(), styles.clone().prop_shuffle(), parts)
            .prop_map(|(name, styles, parts)| Styled::Element(name, styles, parts))
    })
}

impl Styled {
    fn write(&self, out: &mut String) {
        match self {
            Self::Word => out.push('w'),
            Self::Element(name, styles, parts) => {
                out.push_str(&format!("<{name} style='{}'>", styles.join(";")));
                parts.iter().for_each(|part| part.write(out));
                out.push_str(&format!("</{name}>"));
            }
        }
    }

    /// The marks of each word: bold, em, strikethrough.
    fn model(&self, around: [bool; 3], out: &mut Vec<[bool; 3]>) {
        let Self::Element(name, styles, parts) = self else {
            return out.push(around);
        };
        let mut shown = around;
        shown[0] |= ["b", "strong"].contains(name);
        shown[1] |= ["i", "em"].contains(name);
        let mut struck = ["s", "del"].contains(name);
        for style in styles {
            match *style {
                "font-weight:normal" => shown[0] = false,
                "font-weight:900" => shown[0] = true,
                "font-weight:inherit" => shown[0] = around[0],
                "FONT-STYLE:Italic" => shown[1] = true,
                "text-decoration:overline line-through red" => struck = true,
                "text-decoration:none" | "text-decoration:underline" => struck = false,
                _ => {}
            }
        }
        shown[1] &= !styles.contains(&"font-style:normal!important");
        shown[2] |= struck;
        parts.iter().for_each(|part| part.model(shown, out));
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_styles_have_the_marks_of_a_browser(styled in prop::collection::vec(styled(), 1..4)) {
        let (mut html, mut expected) = ("<p>".to_owned(), Vec::new());
        for part in &styled {
            part.write(&mut html);
            part.model([false; 3], &mut expected);
        }
        let (document, _) = read(&html);
        let text = &document.clone().into_children()[0].clone().into_children()[0];
        let names = ["bold", "em", "strikethrough"];
        let found: Vec<_> = (0..expected.len()).map(|at| {
            let has = |name: &str| text.marks().iter().any(|mark| {
                mark.kind == name && mark.range.clone().is_some_and(|range| range.contains(&at))
            });
            names.map(has)
        }).collect();
        prop_assert_eq!(text.text().to_string().len(), expected.len());
        prop_assert_eq!(found, expected, "{}", html);
        prop_assert!(leads_back(document)?, "{}", html);
    }
}

#[test]
fn what_a_style_says_besides_is_reported() {
    let dropped = |html| read(html).1;
    assert_eq!(
        dropped(
            "<p style='font-weight:700; font-style:normal'>a <span style='display:inline'>b</span>"
        ),
        json!([])
    );
    let of = |element: &str| {
        json!([{"part": "elementAttribute", "element": element, "attribute": "style", "count": 1,
                "first": 1}])
    };
    assert_eq!(dropped("<p style='color:red'>a"), of("p"));
    assert_eq!(
        dropped("<span style='font-weight:700;vertical-align:super'>a"),
        of("span")
    );
    assert_eq!(dropped("<p style='text-align:center'>a"), of("p"));
    assert_eq!(dropped("<pre style='font-weight:700'>a"), of("pre"));
    let element =
        |element: &str| json!([{"part": "element", "element": element, "count": 1, "first": 1}]);
    assert_eq!(dropped("<span style='color:red'>a"), element("span"));
    assert_eq!(
        dropped("<pre><span style='color:red'>a</span>"),
        element("span")
    );
}

#[test]
fn hidden_text_is_dropped_and_reported() {
    for hidden in [
        "<p style='display:none'>b</p>",
        "<p style='DISPLAY : None !important; display: block'>b</p>",
        "<p hidden>b</p>",
        "<p hidden='until-found'><b>b</b></p>",
        "<p style='visibility: hidden'>b</p>",
        "<span style='mso-hide:all;display:none'>b</span>",
        "<img style='display:none' src=x>",
        "<ul hidden><li>b</ul>",
        "<dialog>b</dialog>",
        "<math><annotation>b</annotation></math>",
    ] {
        let (document, dropped) = read(&format!("<p>a</p>{hidden}"));
        assert_eq!(document, from_markdown("a"), "{hidden}");
        assert!(
            dropped.to_string().contains(r#""part":"element""#),
            "{hidden}"
        );
    }
    for shown in [
        "<p hidden style='display:block'>b</p>",
        "<p style='display:none;display:block'>b</p>",
        "<p style='display:hidden'>b</p>",
        "<dialog open>b</dialog>",
    ] {
        assert_eq!(markdown(&format!("<p>a</p>{shown}")), "a\n\nb\n", "{shown}");
    }
}

/// Word writes one for each bookmark.
#[test]
fn an_anchor_without_a_target_is_no_link() {
    let html = "<p>Two on the same <a name=one></a><a id=two>text</a>.</p>";
    let (document, dropped) = read(html);
    assert_eq!(document, from_markdown("Two on the same text."));
    assert_eq!(
        dropped,
        json!([{"part": "element", "element": "a", "count": 2, "first": 1}])
    );
}

#[test]
fn an_empty_target_stays_a_link_and_shows_no_object() {
    let (html, dropped) = written(from_markdown("[a]() [](./b.md)"), &any());
    assert_eq!(html, "<p><a href=\"\">a</a> <a href=\"./b.md\"></a></p>\n");
    assert_eq!(
        (read(&html).0, dropped),
        (from_markdown("[a]() [](./b.md)"), json!([]))
    );
    // Of another mark too, the character stays.
    let (html, _) = written(from_markdown("[**\u{fffc}**](x)"), &any());
    assert_eq!(html, "<p><a href=\"x\"><strong>\u{fffc}</strong></a></p>\n");
}

#[test]
fn a_break_at_the_end_of_a_block_begins_no_line() {
    let paragraphs = |texts: &[&str]| {
        let paragraph = |words: &&str| match words.is_empty() {
            true => json!({"type": "paragraph"}),
            false => json!({"type": "paragraph", "children": [text(words)]}),
        };
        Value::from(texts.iter().map(paragraph).collect::<Vec<_>>())
    };
    for (html, texts) in [
        ("<p>Hello<br></p><p>World</p>", &["Hello", "World"][..]),
        ("<p>Hello <br> </p>", &["Hello"]),
        ("<p>Hello<br><br></p>", &["Hello\n"]),
        ("<p>Hello<br>World</p>", &["Hello\nWorld"]),
        // An empty line of Gmail.
        (
            "<div>Hi,</div><div><br></div><div>Bob</div>",
            &["Hi,", "", "Bob"],
        ),
        // Of the clipboard of Chrome.
        (
            "<p>Hello</p><br class=\"Apple-interchange-newline\">",
            &["Hello"],
        ),
    ] {
        assert_eq!(blocks(html), paragraphs(texts), "{html}");
        assert!(leads_back(read(html).0).unwrap(), "{html}");
    }
    let item = blocks("<ul><li>a<div><br></div><div>b<br></div></ul>");
    assert_eq!(item[0]["children"][0]["children"], json!([text("a\n\nb")]));
    let (html, _) = written(read("<h1><b>a<br><br></b>").0, &any());
    assert_eq!(html, "<h1><strong>a<br></strong><br></h1>\n");
}

#[test]
fn the_language_of_code_is_one_of_the_classes() {
    for (html, language) in [
        (
            "<pre><code class='hljs language-rust'>x</code></pre>",
            json!({"language": "rust"}),
        ),
        (
            "<pre class='language-c line'><code class=language-c>x</code></pre>",
            json!({"language": "c"}),
        ),
        (
            "<pre class=language-c><code class=language-d>x</code></pre>",
            json!({"language": "c"}),
        ),
        ("<pre><code class='language- x'>x</code></pre>", Value::Null),
    ] {
        let block = &blocks(html)[0];
        assert_eq!(block["attributes"], language, "{html}");
        assert_eq!(block["children"], json!([text("x")]), "{html}");
    }
    let (_, dropped) = read("<pre class=language-c><code class=language-c>x</code></pre>");
    assert_eq!(dropped, json!([]));
    let (_, dropped) = read("<pre><code class='hljs language-c'>x</code></pre>");
    assert!(dropped.to_string().contains("class"));
}

#[test]
fn unknown_elements_keep_their_content_and_begin_lines_as_blocks_do() {
    let (document, dropped) = read("<section>a<div>b <u>c</u></div></section><li>d</li>");
    assert_eq!(document, from_markdown("a\n\nb c\n\nd"));
    let elements = dropped.as_array().unwrap().iter();
    let elements: Vec<_> = elements.map(|part| part["element"].clone()).collect();
    assert_eq!(elements, ["div", "li", "section", "u"]);
}

#[test]
fn what_html_does_not_have_is_reported() {
    let text = NodeSpec::new("inline-text")
        .with_id("t")
        .with_text("ab")
        .with_marks([
            Mark::new("comment", 0..1),
            Mark::new("em", 0..1).with_attributes([("mine", 1.into())]),
        ]);
    let page = NodeSpec::new("document").with_children([
        NodeSpec::new("poll").with_id("poll").with_children([text]),
        NodeSpec::new("thematic-break")
            .with_id("rule")
            .with_text("c"),
        NodeSpec::new("heading")
            .with_id("h")
            .with_attributes([("level", 9.into())]),
    ]);
    let (html, dropped) = written(page, &any());
    assert_eq!(html, "<p><em>a</em>b</p>\n<hr>\n<h1></h1>\n");
    assert_eq!(
        dropped,
        json!([
            {"part": "nodeType", "node": "poll", "count": 1, "first": "poll"},
            {"part": "nodeAttribute", "node": "heading", "attribute": "level", "count": 1, "first": "h"},
            {"part": "text", "node": "thematic-break", "count": 1, "first": "rule"},
            {"part": "mark", "mark": "comment", "count": 1, "first": "t"},
            {"part": "markAttribute", "mark": "em", "attribute": "mine", "count": 1, "first": "t"},
        ])
    );
}

/// Far more than the stack has room for, and far more work than its length if it were allowed.
#[test]
fn nesting_of_any_depth_is_refused_early() {
    for (html, limit) in [
        ("<div>\n".repeat(100_000), true),
        ("<b><i>\n".repeat(100_000), true),
        ("<table><td>\n".repeat(100_000), true),
        ("<blockquote>\n".repeat(500), false),
    ] {
        match from_html(&html, &any()) {
            // The rest is not read.
            Err(HtmlError::TooDeep { limit: 512, line }) => {
                assert!(limit && line < 1_000, "{line}")
            }
            read => assert!(
                !limit && read.is_ok(),
                "{:?}",
                read.map(|(document, _)| document.len())
            ),
        }
    }
    let repeated: String = (0..400).map(|nth| format!("<b id={nth}>")).collect();
    let html = format!("<p>{repeated}{}", "<p>x".repeat(100_000));
    assert!(matches!(
        from_html(&html, &any()),
        Err(HtmlError::TooLarge { line: 1 })
    ));
}

/// Items and paragraphs that the text has no elements for were written as elements, and these were
/// nested too deep to be read.
#[test]
fn what_is_read_at_the_deepest_level_is_read_again() {
    let (mut read_at, mut refused_at) = (0, 0);
    for (around, counts) in [
        ("<ul>", 249..=257),
        ("<blockquote>", 502..=511),
        ("<ul><li>", 249..=256),
        ("<ol><blockquote>", 165..=171),
    ] {
        for inner in [
            "",
            "x",
            "<p>",
            "<h1>x",
            "<hr>",
            "<pre>",
            "<pre>x",
            "<b><i>x",
            "<a href=x><img src=y>",
            "<p style='white-space: pre'>  x",
            "<table>",
            "<table><td>",
            "<table><td>x",
            "<li><input type=checkbox>",
            "<p>a<li><b>b",
        ] {
            for count in counts.clone() {
                let html = around.repeat(count) + inner;
                let found = from_html(&html, &any());
                let Ok((document, _)) = found else {
                    let Err(HtmlError::TooDeep { limit: 512, .. }) = found else {
                        panic!("{found:?}");
                    };
                    refused_at += 1;
                    continue;
                };
                read_at += 1;
                let (html, dropped) = written(document.clone(), &any());
                assert_eq!(dropped, json!([]));
                let again = from_html(&html, &any());
                let again =
                    again.unwrap_or_else(|error| panic!("{count} {around} {inner}: {error}"));
                assert!(again.0 == document, "{count} {around} {inner}");
            }
        }
    }
    assert!(read_at > 100 && refused_at > 100, "{read_at} {refused_at}");
}

#[test]
fn a_document_of_any_depth_is_written() {
    let deep = (0..100_000).fold(NodeSpec::new("block-quote"), |inner, _| {
        NodeSpec::new("block-quote").with_children([inner])
    });
    let (html, _) = written(deep, &any());
    assert_eq!(html.matches("<blockquote>").count(), 100_001);
}
