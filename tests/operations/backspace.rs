//! Backspace at the beginning of a block, and marks of replaced text, as `docs/operations.md`
//! documents them.

use doclock::dsl::*;
use doclock::{
    Editor, View,
    document::{Mark, NodeSpec},
    transaction::TextSpan,
};

use super::common::marks;
use super::range::{committed, editor, run};

fn page(blocks: impl IntoIterator<Item = NodeSpec>) -> Editor {
    editor([element("page", blocks).with_id("page")])
}

fn block(kind: &str, id: &str, texts: impl IntoIterator<Item = NodeSpec>) -> NodeSpec {
    element(kind, texts).with_id(id)
}

fn text(id: &str, text: &str) -> NodeSpec {
    text_node("text", text).with_id(id)
}

/// Backspace before the first character of `b`, behind the last of `a`.
fn backspace(editor: &Editor) -> String {
    let before = editor.store().snapshot();
    let end = before.node("a").unwrap().text().len();
    run(editor, delete_range(TextSpan::to(end, "b", 0)).on("a"));
    committed(editor, "page")
}

#[test]
fn two_blocks_become_one_under_the_ids_of_the_first() {
    let link = || text_node("link", "!");
    let editor = page([
        block("heading", "h", [text("a", "one")]),
        block("p", "p", [text("b", "two"), link()]),
    ]);
    assert_eq!(backspace(&editor), r#"page[heading[text"onetwo" link"!"]]"#);
    let document = editor.store().snapshot();
    assert_eq!(document.parent("a"), Some(&"h".into()));
    assert!(!document.contains("b") && !document.contains("p"));

    let editor = page([
        block("p", "p", [text("a", "")]),
        block("heading", "h", [text("b", "two")]),
    ]);
    assert_eq!(backspace(&editor), r#"page[p[text"two"]]"#);

    let editor = page([
        block("p", "p", [text("a", "one")]),
        block("p", "q", [link().with_id("b"), text("c", "two")]),
    ]);
    assert_eq!(
        backspace(&editor),
        r#"page[p[text"one" link"!" text"two"]]"#
    );
}

#[test]
fn empty_ancestors_of_a_joined_block_are_deleted_with_it() {
    let item =
        |id: &str, name: &str| element("item", [block("p", &format!("p{id}"), [text(id, name)])]);
    let with =
        |items: Vec<NodeSpec>| page([block("p", "p", [text("a", "one")]), element("list", items)]);
    assert_eq!(
        backspace(&with(vec![item("b", "two")])),
        r#"page[p[text"onetwo"]]"#
    );
    let rest = backspace(&with(vec![item("b", "two"), item("c", "three")]));
    assert_eq!(rest, r#"page[p[text"onetwo"] list[item[p[text"three"]]]]"#);
}

#[test]
fn a_node_without_characters_stays_if_it_is_the_first() {
    let editor = page([
        block("p", "p", [text("a", "one")]),
        block("p", "m", [text("mid", "mid")]),
        block(
            "p",
            "q",
            [text_node("link", "two").with_id("b"), text("c", "!")],
        ),
    ]);
    run(&editor, delete_range(TextSpan::to(0, "b", 3)).on("a"));
    assert_eq!(committed(&editor, "page"), r#"page[p[text text"!"]]"#);
}

#[test]
fn the_table_of_marks_of_replaced_text_is_true() {
    let cases = [
        ("before and behind", 1..9, Some((1, 10))),
        ("within", 4..5, None),
        ("exactly", 3..6, None),
        ("into it", 1..4, Some((1, 3))),
        ("to its end", 1..6, Some((1, 3))),
        ("out of it", 5..9, Some((7, 10))),
        ("from its start", 3..9, Some((7, 10))),
        ("touching before", 1..3, Some((1, 3))),
        ("touching behind", 6..9, Some((7, 10))),
    ];
    for (what, range, expected) in cases {
        let editor = page([text("t", "0123456789").with_marks([Mark::new("bold", range)])]);
        run(&editor, replace_text(3, 6, "four").on("t"));
        let expected = expected.map(|(start, end)| (start, end, "bold".to_owned()));
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(marks(&editor.store().snapshot(), "t"), expected, "{what}");
    }
}
