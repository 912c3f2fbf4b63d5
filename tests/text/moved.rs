//! 3: marks under edits.

use std::ops::Range;

use doclock::document::check;

use crate::common::{Action, RefDoc, RefMark, Spec, commit, id, marks, store};
use crate::{bold, link, with_text};

/// Ten characters with one mark over `4..8`; the range of the mark after a replacement.
fn after(range: Range<usize>, inserted: &str) -> Option<(usize, usize)> {
    let store = with_text("0123456789", [bold(4..8)]);
    commit(&store, |transaction| {
        transaction.replace_text(id("t"), range, inserted).unwrap();
    });
    assert_eq!(check(&store.snapshot()), Ok(()));
    let marks = marks(&store.snapshot(), "t");
    assert!(marks.len() <= 1);
    marks.first().map(|(start, end, _)| (*start, *end))
}

#[test]
fn text_03_inserting_inside_a_mark_grows_it() {
    for inside in 5..=7 {
        assert_eq!(after(inside..inside, "漢字"), Some((4, 10)), "at {inside}");
    }
    assert_eq!(
        after(4..4, "漢字"),
        Some((6, 10)),
        "at its start: pushed along"
    );
    assert_eq!(after(8..8, "漢字"), Some((4, 8)), "at its end: stays");
    assert_eq!(after(0..0, "漢字"), Some((6, 10)), "before it");
    assert_eq!(after(9..9, "漢字"), Some((4, 8)), "behind it");
}

#[test]
fn text_03_deleting_shrinks_a_mark() {
    assert_eq!(after(5..7, ""), Some((4, 6)), "from its midst");
    assert_eq!(after(4..5, ""), Some((4, 7)), "from its start");
    assert_eq!(after(7..8, ""), Some((4, 7)), "from its end");
    assert_eq!(after(2..5, ""), Some((2, 5)), "over its start");
    assert_eq!(after(7..10, ""), Some((4, 7)), "over its end");
    assert_eq!(after(4..8, ""), None, "all of it");
    assert_eq!(after(3..9, ""), None, "more than it");
    assert_eq!(after(0..4, ""), Some((0, 4)), "before it");
    assert_eq!(after(8..10, ""), Some((4, 8)), "behind it");
}

#[test]
fn text_03_replacing_drops_inner_marks_and_trims_overlapping_marks() {
    assert_eq!(after(4..8, "xyz"), None, "just it");
    assert_eq!(after(3..9, "xyz"), None, "more than it");
    assert_eq!(after(0..10, "xyz"), None, "everything");
    assert_eq!(after(2..6, "x"), Some((3, 5)), "over its start");
    assert_eq!(after(6..10, "xyz"), Some((4, 6)), "over its end");
    assert_eq!(after(4..6, "xyz"), Some((7, 9)), "its first half");
    assert_eq!(after(6..8, "xyz"), Some((4, 6)), "its second half");
    assert_eq!(
        after(5..7, "xyz"),
        Some((4, 9)),
        "within it: it goes around"
    );
    assert_eq!(after(2..4, "xyz"), Some((5, 9)), "up to it");
    assert_eq!(after(8..9, "xyz"), Some((4, 8)), "from its end on");
    let store = with_text("0123456789", [bold(4..8)]);
    commit(&store, |transaction| {
        transaction.set_text("t", "new").unwrap()
    });
    assert_eq!(
        marks(&store.snapshot(), "t"),
        [],
        "with the old text go its marks"
    );
}

#[test]
fn text_03_marks_that_come_to_touch_merge_and_an_undo_separates_them() {
    let store = with_text("0123456789", [bold(0..3), bold(5..8), link(2..6, "x")]);
    let before = store.snapshot();
    let committed = commit(&store, |transaction| {
        transaction.delete_text("t", 3..5).unwrap()
    });
    let kinds =
        [(0, 6, "bold"), (2, 4, "link")].map(|(start, end, kind)| (start, end, kind.to_owned()));
    assert_eq!(marks(&store.snapshot(), "t"), kinds);
    commit(&store, |transaction| {
        committed
            .changes
            .iter()
            .rev()
            .for_each(|change| transaction.apply(change.inverse()).unwrap());
    });
    assert_eq!(store.snapshot(), before);
}

/// Every mark, every range and a few lengths, against a model with marks per character.
#[test]
fn text_03_every_edit_moves_every_mark_as_a_mark_of_single_characters_would() {
    const LEN: usize = 6;
    let ranges: Vec<Range<usize>> = (0..=LEN)
        .flat_map(|start| (start..=LEN).map(move |end| start..end))
        .collect();
    let mark = |kind: &str, range: &Range<usize>| RefMark {
        kind: kind.to_owned(),
        range: Some(range.clone()),
        attrs: Default::default(),
    };
    for first in &ranges {
        for second in [0..2, 2..4, 5..6] {
            let spec = Spec {
                id: Some("t".to_owned()),
                kind: "inline-text".to_owned(),
                attrs: Vec::new(),
                text: "aß漢🦀bc".to_owned(),
                marks: vec![
                    mark("bold", first),
                    mark("bold", &second),
                    mark("em", &(1..5)),
                ],
                children: Vec::new(),
            };
            let create = Action::Create(spec);
            let mut model = RefDoc::default();
            model.apply(&create).unwrap();
            let store = store();
            commit(&store, |transaction| create.perform(transaction).unwrap());
            for range in &ranges {
                for inserted in ["", "-", "漢-"] {
                    let edit =
                        Action::ReplaceText("t".to_owned(), range.clone(), inserted.to_owned());
                    let mut expected = model.clone();
                    expected.apply(&edit).unwrap();
                    let mut transaction = store.begin("ann").unwrap();
                    edit.perform(&mut transaction).unwrap();
                    let compared = expected.compare(&transaction);
                    assert_eq!(
                        compared,
                        Ok(()),
                        "{first:?} {second:?}, {range:?} to {inserted:?}"
                    );
                }
            }
        }
    }
}
