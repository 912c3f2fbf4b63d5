//! Ten times the input takes about ten times the steps: no page and no document has quadratic cost.

#[path = "../../../../tests/common/budget.rs"]
mod budget;
#[allow(
    dead_code,
    reason = "the tests of scripts that were spoilt need the rest"
)]
#[path = "../../../../tests/common/dice.rs"]
pub(crate) mod common;
mod fuzz;
mod positions;

use doclock::{
    DataStore,
    document::{Mark, NodeSpec},
};

use crate::markdown::{from_markdown, to_markdown};
use budget::grows_evenly;

/// A count of all text before each reference that a link follows made a page of a megabyte take 1.8
/// seconds.
#[test]
fn references_to_footnotes_before_links_are_spelled_out_at_once() {
    grows_evenly("footnotes before links", |size| {
        let page = format!("{}\n\n[^note]: text\n", "[^note]<http://a.b> ".repeat(size));
        move || drop(from_markdown(&page))
    });
}

/// A visit of all open marks for each link in angle brackets is quadratic.
#[test]
fn links_in_many_open_marks_visit_none_of_them() {
    grows_evenly("links in marks", |size| {
        let (open, close) = ("*a **b ".repeat(size / 10), " c** d*".repeat(size / 10));
        let page = format!("{open}{}{close}\n", "[^note] <http://a.b> ".repeat(size));
        let page = format!("{page}\n[^note]: text\n");
        move || drop(from_markdown(&page))
    });
}

/// A search through all outer quotes for a following paragraph is quadratic.
#[test]
fn quotes_that_end_together_search_once_for_a_following_paragraph() {
    writes_evenly("nested quotes", |size| {
        let text = NodeSpec::new("paragraph").with_text("a");
        let quote = |inner| NodeSpec::new("block-quote").with_children([inner]);
        (0..size).fold(text, |inner, _| quote(inner))
    });
}

/// Line prefixes of all outer lists, added to empty lines and removed again, are quadratic.
#[test]
fn empty_lines_of_code_in_nested_lists_have_no_spaces() {
    writes_evenly("empty lines of code", |size| {
        let code = NodeSpec::new("code-block").with_text("\n".repeat(size));
        let item = |inner| NodeSpec::new("list-item").with_children([inner]);
        let list = |inner| NodeSpec::new("list").with_children([item(inner)]);
        (0..size).fold(code, |inner, _| list(inner))
    });
}

/// Visits of all images and HTML at an edge of a mark are quadratic, and so is rewriting each link
/// or footnote that another one splits.
#[test]
fn marks_that_overlap_are_each_written_once() {
    type Marks = fn(usize) -> Vec<Mark>;
    let all: [(&str, Marks); 4] = [
        ("nested images", |size| {
            let image = |nth| mark("image", nth..3 * size - nth, "src", nth.to_string());
            let em = |nth| Mark::new("em", size + 2 * nth..size + 2 * nth + 1);
            (0..size).map(image).chain((0..size / 2).map(em)).collect()
        }),
        ("links that cross", |size| {
            let link = |nth| mark("link", nth..nth + size, "href", nth.to_string());
            (0..size).map(link).collect()
        }),
        ("HTML that overlaps", |size| {
            let html = |nth| mark("html", nth..nth + size, "a", nth.to_string());
            (0..size).map(html).collect()
        }),
        ("a footnote in many marks", |size| {
            let note = mark("footnote", 0..2 * size, "label", "x".repeat(size));
            let em = |nth| Mark::new("em", 2 * nth..2 * nth + 1);
            (0..size).map(em).chain([note]).collect()
        }),
    ];
    for (what, marks) in all {
        writes_evenly(what, |size| {
            let text = NodeSpec::new("inline-text").with_text("x".repeat(3 * size));
            let paragraph = NodeSpec::new("paragraph");
            paragraph.with_children([text.with_marks(marks(size))])
        });
    }
}

/// Each row was padded to the longest.
#[test]
fn short_rows_of_a_wide_table_stay_short() {
    writes_evenly("a wide table", |size| {
        let cells = |of: usize| vec![NodeSpec::new("table-cell"); of];
        let row = |kind: &str, of| NodeSpec::new(kind).with_children(cells(of));
        let rows = (0..size).map(|_| row("table-row", 1));
        let head = row("table-head", size);
        NodeSpec::new("table").with_children([head].into_iter().chain(rows))
    });
}

fn mark(kind: &str, range: std::ops::Range<usize>, key: &str, value: String) -> Mark {
    Mark::new(kind, range).with_attributes([(key, value.into())])
}

/// Checks the cost of writing a document as Markdown.
fn writes_evenly(what: &str, document: impl Fn(usize) -> NodeSpec) {
    grows_evenly(what, |size| {
        let store = DataStore::new();
        let mut on = store.begin("test").unwrap();
        let root = on.create(document(size));
        move || drop(to_markdown(&on, &root.unwrap()).unwrap())
    });
}
