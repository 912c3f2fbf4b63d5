//! Operations: the halves of a block after a paste between them.

use doclock::dsl::*;
use doclock::{
    View,
    document::{Fragment, NodeSpec, Selection},
    transaction::TextSpan,
};

use super::clipboard::page;
use super::range::{committed, editor, run};

/// A paste of two paragraphs into an empty one left the empty one behind them.
#[test]
fn blocks_that_are_pasted_into_an_empty_block_replace_it() {
    let two = || fragment(vec![block(&["A"]), block(&["B"])], false, false);
    let into = |empty: NodeSpec, fragment: Fragment| {
        let last = element("p", [text_node("text", "last")]);
        let editor = editor([element("page", [empty, last]).with_id("page")]);
        run(&editor, paste_fragment(0, fragment).on("here"));
        committed(&editor, "page")
    };
    let here = || text_node("text", "").with_id("here");
    let empty = || element("p", [here()]);
    assert_eq!(
        into(empty(), two()),
        r#"page[p[text"A"] p[text"B"] p[text"last"]]"#
    );
    for (start, end) in [(true, false), (false, true), (true, true)] {
        let two = fragment(vec![block(&["A"]), block(&["B"])], start, end);
        assert_eq!(
            into(empty(), two),
            r#"page[p[text"A"] p[text"B"] p[text"last"]]"#
        );
    }
    let heading = element("heading", [text_node("text", "A")]);
    let heading = || fragment(vec![heading.clone()], false, false);
    assert_eq!(
        into(empty(), heading()),
        r#"page[heading[text"A"] p[text"last"]]"#
    );
    let two_empty = element("p", [here(), text_node("text", "")]);
    assert_eq!(
        into(two_empty, heading()),
        r#"page[heading[text"A"] p[text"last"]]"#
    );
    let behind = element("p", [text_node("link", "x"), here()]);
    assert_eq!(
        into(behind, heading()),
        r#"page[p[link"x"] heading[text"A"] p[text"last"]]"#
    );
    let before = element("p", [here(), text_node("link", "x")]);
    assert_eq!(
        into(before, heading()),
        r#"page[heading[text"A"] p[link"x"] p[text"last"]]"#
    );
    let texts = || {
        fragment(
            vec![text_node("text", "A"), text_node("link", "B")],
            false,
            false,
        )
    };
    assert_eq!(
        into(empty(), texts()),
        r#"page[p[text"A" link"B"] p[text"last"]]"#
    );
    let line = || fragment(vec![block(&["A"]), block(&[""])], true, true);
    assert_eq!(
        into(empty(), line()),
        r#"page[p[text"A"] p[text] p[text"last"]]"#
    );
    // Paragraphs that have text of their own.
    let plain = |text: &str| text_node("plain", text).with_attributes([("of", text.into())]);
    let two = fragment(vec![plain("A"), plain("B")], false, false);
    assert_eq!(
        into(plain("").with_id("here"), two),
        r#"page[plain"A" plain"B" p[text"last"]]"#
    );
}

/// An image has no text either.
#[test]
fn pasting_before_a_node_without_text_keeps_that_node() {
    let image = || element("image", []).with_id("here");
    let inline = element("p", [image()]);
    let editor = editor([element("page", [inline]).with_id("page")]);
    let blocks = || fragment(vec![block(&["A"]), block(&["B"])], false, false);
    run(&editor, paste_fragment(0, blocks()).on("here"));
    assert_eq!(
        committed(&editor, "page"),
        r#"page[p[text"A"] p[text"B"] p[image]]"#
    );
    let texts = || fragment(vec![text_node("text", "C")], false, false);
    run(&editor, paste_fragment(0, texts()).on("here"));
    assert_eq!(
        committed(&editor, "page"),
        r#"page[p[text"A"] p[text"B"] p[text"C" image]]"#
    );
}

#[test]
fn a_caret_in_an_empty_block_ends_after_the_blocks_that_replace_it() {
    let empty = element("p", [text_node("text", "").with_id("here")]).with_id("empty");
    for open in [false, true] {
        let editor = editor([element("page", [empty.clone()]).with_id("page")]);
        editor.select(Selection::caret("here", 0)).unwrap();
        let two = fragment(vec![block(&["A"]), block(&["last"])], open, open);
        let result = run(&editor, paste_fragment(0, two).on("here"));
        let Some(Selection::Text(caret)) = result.selection_after else {
            panic!("nothing is selected");
        };
        assert_eq!((caret.focus.offset, &caret.focus), (4, &caret.anchor));
        let document = editor.store().snapshot();
        assert_eq!(document.node(&caret.focus.node_id).unwrap().text(), &"last");
        editor.undo().commit().unwrap();
        assert_eq!(editor.selection(), Some(Selection::caret("here", 0)));
        assert_eq!(committed(&editor, "page"), "page[p[text]]");
    }
}

/// The paragraph that was cut remained, empty.
#[test]
fn cutting_two_complete_paragraphs_leaves_no_empty_paragraph() {
    let editor = page();
    let before = committed(&editor, "page");
    run(&editor, cut_range(TextSpan::to(0, "m", 5)).on("a"));
    assert!(committed(&editor, "page").starts_with("page[p[text] list["));
    editor.execute(paste(0).on("a")).unwrap();
    assert_eq!(committed(&editor, "page"), before);
}

fn block(texts: &[&str]) -> NodeSpec {
    element("p", texts.iter().map(|text| text_node("text", *text)))
}

fn fragment(nodes: Vec<NodeSpec>, open_start: bool, open_end: bool) -> Fragment {
    Fragment {
        nodes,
        open_start,
        open_end,
        ..Fragment::default()
    }
}

/// Both sides of a seam, each empty or not, alike or not. Two alike ones are joined if either has
/// text; two without text may be images.
#[test]
fn like_texts_on_both_sides_of_a_seam_are_joined() {
    let expected = |left: &str, right: &str, alike: bool| match (alike, left, right) {
        (true, "", "") => "text text".to_owned(),
        (true, ..) => format!("text{:?}", format!("{left}{right}")),
        (false, ..) => {
            let shown = |kind: &str, text: &str| match text {
                "" => kind.to_owned(),
                text => format!("{kind}{text:?}"),
            };
            format!("{} {}", shown("text", left), shown("code", right))
        }
    };
    for left in ["", "l"] {
        for right in ["", "r"] {
            for alike in [true, false] {
                let other = if alike { "text" } else { "code" };
                let expected = expected(left, right, alike);
                let paragraph = |nodes: [NodeSpec; 3]| {
                    editor([element("page", [element("p", nodes).with_id("p")]).with_id("page")])
                };
                let (head, mid) = (text_node("head", "h"), text_node("mid", "m"));
                let tail = text_node("tail", "t").with_id("tail");

                // Before the pasted content.
                let document = paragraph([head.clone(), text_node("text", left), tail.clone()]);
                let pasted = element("p", [text_node(other, right), mid.clone()]);
                let pasted = paste_fragment(0, fragment(vec![pasted], true, false));
                run(&document, pasted.on("tail"));
                let found = committed(&document, "page");
                let whole = format!(r#"page[p[head"h" {expected} mid"m"] p[tail"t"]]"#);
                assert_eq!(found, whole, "{left:?} {right:?} {alike}");

                // After it.
                let here = text_node(other, right).with_id("here");
                let document = paragraph([head, here, tail]);
                let pasted = element("p", [mid, text_node("text", left)]);
                let pasted = paste_fragment(0, fragment(vec![pasted], false, true));
                run(&document, pasted.on("here"));
                let found = committed(&document, "page");
                let whole = format!(r#"page[p[head"h"] p[mid"m" {expected} tail"t"]]"#);
                assert_eq!(found, whole, "{left:?} {right:?} {alike}");
            }
        }
    }
}
