//! 2: marks in normal form.

use std::ops::Range;

use doclock::document::{EditError, Mark, check};
use doclock::dsl::*;

use crate::common::{id, image, marks};
use crate::{bold, link, with_text};

fn bolds<const N: usize>(ranges: [(usize, usize); N]) -> Vec<(usize, usize, String)> {
    ranges
        .map(|(start, end)| (start, end, "bold".to_owned()))
        .to_vec()
}

/// The normal form of marks on a text of ten characters, by every way to set them.
fn normal(given: Vec<Mark>) -> Vec<(usize, usize, String)> {
    let store = with_text("0123456789", []);
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_marks(id("t"), given.clone()).unwrap();
    assert_eq!(check(&transaction), Ok(()));
    let created = with_text("0123456789", given);
    assert_eq!(marks(&transaction, "t"), marks(&created.snapshot(), "t"));
    marks(&transaction, "t")
}

#[test]
fn text_02_a_mark_without_a_range_covers_the_text() {
    assert_eq!(normal(vec![Mark::whole("bold")]), bolds([(0, 10)]));
    assert_eq!(
        normal(vec![bold(2..3), Mark::whole("bold")]),
        bolds([(0, 10)])
    );
    let empty = with_text("", [Mark::whole("bold")]);
    assert_eq!(marks(&empty.snapshot(), "t"), []);
}

#[test]
fn text_02_empty_ranges_vanish() {
    assert_eq!(normal(vec![bold(0..0), bold(4..4), bold(10..10)]), []);
    assert_eq!(normal(vec![bold(4..4), bold(3..5)]), bolds([(3, 5)]));
}

#[test]
fn text_02_equal_adjacent_and_overlapping_marks_merge_across_other_marks() {
    assert_eq!(
        normal(vec![bold(0..3), bold(3..5)]),
        bolds([(0, 5)]),
        "neighbours"
    );
    assert_eq!(
        normal(vec![bold(2..6), bold(0..4)]),
        bolds([(0, 6)]),
        "overlaps"
    );
    assert_eq!(
        normal(vec![bold(0..9), bold(2..3)]),
        bolds([(0, 9)]),
        "one inside the other"
    );
    assert_eq!(
        normal(vec![bold(0..2), bold(3..5)]),
        bolds([(0, 2), (3, 5)]),
        "with a gap"
    );
    let between = vec![
        bold(5..9),
        link(4..6, "x"),
        Mark::new("em", 1..8),
        bold(0..5),
    ];
    let expected = [(0, 9, "bold"), (1, 8, "em"), (4, 6, "link")];
    assert_eq!(
        normal(between),
        expected.map(|(start, end, kind)| (start, end, kind.to_owned()))
    );
    let chain = (0..10).rev().map(|at| bold(at..at + 1)).collect();
    assert_eq!(normal(chain), bolds([(0, 10)]));
}

#[test]
fn text_02_marks_with_different_attributes_never_merge() {
    let links = normal(vec![link(0..4, "x"), link(4..6, "y"), link(5..8, "x")]);
    let expected = [(0, 4), (4, 6), (5, 8)].map(|(start, end)| (start, end, "link".to_owned()));
    assert_eq!(links, expected);
    let plain = normal(vec![
        Mark::new("link", 0..4),
        link(0..4, "x"),
        Mark::new("link", 4..5),
    ]);
    assert_eq!(plain.len(), 2, "one without and one with: {plain:?}");
}

#[test]
fn text_02_the_result_is_sorted_by_start_end_and_kind() {
    let given = vec![
        Mark::new("em", 1..3),
        bold(2..3),
        bold(0..1),
        Mark::new("code", 1..3),
        link(1..2, "x"),
    ];
    let expected = [
        (0, 1, "bold"),
        (1, 2, "link"),
        (1, 3, "code"),
        (1, 3, "em"),
        (2, 3, "bold"),
    ];
    assert_eq!(
        normal(given),
        expected.map(|(start, end, kind)| (start, end, kind.to_owned()))
    );
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "what must be refused")]
fn text_02_a_mark_out_of_range_is_an_error_with_the_range_and_the_length() {
    let store = with_text("漢字", [bold(0..1)]);
    let before = image(&store.snapshot());
    for range in [
        0..3,
        2..3,
        3..3,
        2..1,
        0..usize::MAX,
        usize::MAX..usize::MAX,
        usize::MAX..0,
    ] {
        let Range { start, end } = range;
        let reason = |id| EditError::MarkOutOfRange {
            id,
            kind: "bold".into(),
            start,
            end,
            len: 2,
        };
        let mut transaction = store.begin("ann").unwrap();
        let refused = transaction.set_marks(id("t"), [bold(0..2), bold(range.clone())]);
        assert_eq!(refused, Err(reason(id("t"))));
        let text =
            format!("mark bold over {start}..{end} is out of range: the text of node t has 2");
        assert_eq!(refused.unwrap_err().to_string(), text);
        let spec = text_node("inline-text", "漢字")
            .with_id("new")
            .with_marks([bold(range)]);
        assert_eq!(transaction.create(spec), Err(reason(id("new"))));
        assert_eq!(image(&transaction), before);
    }
}

#[test]
fn text_02_a_hundred_thousand_marks_of_one_text_are_brought_into_order() {
    let count = 100_000;
    let every_other = |n: usize| bold(2 * n..2 * n + 1).with_attributes([("n", n.into())]);
    let given: Vec<Mark> = (0..count).rev().map(every_other).collect();
    let store = with_text(&"ab".repeat(count), given);
    let mut transaction = store.begin("ann").unwrap();
    transaction.insert_text("t", 1, "x").unwrap();
    transaction.set_marks(id("t"), [bold(0..9)]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(marks(&store.snapshot(), "t"), bolds([(0, 9)]));
}
