//! Marks in normal form, and their changes when their text changes.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::list::FEW;
use super::*;
use crate::MarksChange;

mod model;
mod versions;

fn bold(range: Range<usize>) -> Mark {
    Mark::new("bold", range)
}

/// The document after the change that is planned for a splice.
fn after_splice(marks: &Marks, range: &Range<usize>, inserted: usize) -> Marks {
    let splice = TextSplice {
        range: range.clone(),
        inserted,
    };
    let mut after = marks.clone();
    match marks.change_by(&splice) {
        Some(change) => {
            let len = 100 - range.len() + inserted;
            marks.changed(&splice, &change, len).unwrap()
        }
        None => {
            assert!(marks.all_follow(&splice));
            after.follow(&splice);
            after
        }
    }
}

fn ranges(marks: &Marks) -> Vec<Range<usize>> {
    marks.iter().map(Mark::bounds).collect()
}

#[test]
fn a_splice_grows_shrinks_trims_drops_and_shifts() {
    let after = |mark: Range<usize>, cut: Range<usize>, inserted| {
        let marks = Marks::normal(vec![bold(mark)], 100).unwrap();
        ranges(&after_splice(&marks, &cut, inserted)).pop()
    };
    assert_eq!(after(10..20, 15..15, 3), Some(10..23), "inside: grows");
    assert_eq!(
        after(10..20, 10..10, 3),
        Some(13..23),
        "at its start: shifts"
    );
    assert_eq!(after(10..20, 20..20, 3), Some(10..20), "at its end: stays");
    assert_eq!(after(10..20, 12..15, 0), Some(10..17), "inside: shrinks");
    assert_eq!(after(10..20, 12..15, 1), Some(10..18), "inside: replaced");
    assert_eq!(
        after(10..20, 5..15, 2),
        Some(7..12),
        "over its start: trimmed"
    );
    assert_eq!(
        after(10..20, 15..25, 2),
        Some(10..15),
        "over its end: trimmed"
    );
    assert_eq!(after(10..20, 10..20, 5), None, "wholly inside: gone");
    assert_eq!(after(10..20, 0..5, 0), Some(5..15), "before: shifts");
}

/// Arbitrary marks of two kinds, some with attributes: unsorted, empty, overlapping.
fn any_marks() -> impl Strategy<Value = Vec<Mark>> {
    let mark = (0..12usize, 0..6usize, any::<bool>(), 0..3u8);
    let mark = mark.prop_map(|(start, len, bold, n)| {
        let kind = if bold { "bold" } else { "link" };
        let attributes = (n > 0).then(|| ("n", n.into()));
        let attributes = Attributes::from_iter(attributes);
        Mark::new(kind, start..start + len).with_attributes(attributes)
    });
    prop::collection::vec(mark, 0..9)
}

/// The characters of each mark, and the borders at which two marks are joined.
fn covered(marks: &[Mark]) -> BTreeSet<(SmolStr, String, usize)> {
    let halves = marks.iter().flat_map(|mark| {
        // Characters and the borders between them.
        let Range { start, end } = mark.bounds();
        let places = if start < end {
            2 * start..2 * end + 1
        } else {
            0..0
        };
        let attributes = format!("{:?}", mark.attributes);
        places.map(move |place| (mark.kind.clone(), attributes.clone(), place))
    });
    halves.collect()
}

proptest! {
    #[test]
    fn the_normal_form_has_the_same_characters_and_no_two_equal_marks_that_touch(marks in any_marks()) {
        let normal = Marks::sorted(marks.clone());
        prop_assert!(normal.are_normal(20));
        let list: Vec<Mark> = normal.iter().cloned().collect();
        prop_assert_eq!(covered(&list), covered(&marks));
        // As many as there are runs of positions.
        let places = covered(&list);
        let begins = places.iter().filter(|(kind, attributes, place)| {
            let before = place.checked_sub(1);
            !before.is_some_and(|place| places.contains(&(kind.clone(), attributes.clone(), place)))
        });
        prop_assert_eq!(begins.count(), list.len());
    }

    #[test]
    fn splitting_and_joining_restores_marks(marks in any_marks(), at in 0..18usize) {
        let marks = Marks::sorted(marks);
        let mut left = marks.clone();
            let right = left.split_off(at);
        prop_assert!(left.are_normal(at) && right.are_normal(18));
        left.append(at, &right);
        prop_assert_eq!(left, marks);
    }

    #[test]
    fn after_a_splice_each_character_has_the_marks_that_it_had(
        marks in any_marks(),
        (start, removed, inserted) in (0..19usize, 0..6usize, 0..4usize),
    ) {
        let marks = Marks::sorted(marks);
        let range = start..start + removed;
        let after = after_splice(&marks, &range, inserted);
        prop_assert!(after.are_normal(100));
        // Each mark by itself.
        let alone = marks.iter().filter_map(|mark| {
            let Range { start, end } = mark.bounds();
            let shift = |at: usize| at - removed + inserted;
            let bounds = match (start < range.start, end > range.end) {
                _ if end <= range.start => start..end,
                _ if start >= range.end => shift(start)..shift(end),
                (true, true) => start..shift(end),
                (true, false) => start..range.start,
                (false, true) => range.start + inserted..shift(end),
                (false, false) => return None,
            };
            Some(mark.over(bounds))
        });
        prop_assert_eq!(after, Marks::sorted(alone.collect()));
    }

    #[test]
    fn the_change_of_a_splice_is_invertible(
        marks in any_marks(),
        (start, removed, inserted) in (0..19usize, 0..6usize, 0..4usize),
    ) {
        let marks = Marks::sorted(marks);
        let range = start..start + removed;
        let after = after_splice(&marks, &range, inserted);
        let splice = TextSplice { range, inserted };
        let back = TextSplice { range: start..start + inserted, inserted: removed };
        let change = marks.change_by(&splice).unwrap_or_default();
        let MarksChange { removed, added } = change;
        let inverse = MarksChange { removed: added, added: removed };
        prop_assert_eq!(after.changed(&back, &inverse, 100), Some(marks));
    }

    #[test]
    fn a_change_between_mark_lists_contains_only_unshared_marks(one in any_marks(), other in any_marks()) {
        let [one, other] = [one, other].map(Marks::sorted);
        let change = one.change_to(&other);
        let shared = |marks: &Marks| marks.iter().any(|mark| other.iter().any(|other| mark == other));
        prop_assert!(!shared(&change.removed));
        prop_assert_eq!(one.changed(&TextSplice::NONE, &change, 100), Some(other.clone()));
        let inverse = MarksChange { removed: change.added, added: change.removed };
        prop_assert_eq!(other.changed(&TextSplice::NONE, &inverse, 100), Some(one));
    }

    #[test]
    fn subtracting_marks_keeps_the_characters_that_the_other_marks_lack(
        one in any_marks(),
        other in any_marks(),
    ) {
        let [one, other] = [one, other].map(Marks::sorted);
        let characters = |marks: &[Mark]| -> BTreeSet<_> {
            covered(marks).into_iter().filter(|(.., place)| place % 2 == 1).collect()
        };
        let lists = [&one, &other].map(|marks| marks.iter().cloned().collect::<Vec<_>>());
        let [ours, theirs] = lists.map(|marks| characters(&marks));
        prop_assert_eq!(characters(&one.minus(&other)), &ours - &theirs);
    }

    #[test]
    fn marks_that_differ_from_their_normal_form_are_not_normal(marks in any_marks(), len in 0..18usize) {
        let as_it_is = Marks::in_order(marks.clone());
        let normal = Marks::normal(marks, len);
        prop_assert_eq!(as_it_is.are_normal(len), normal.as_ref() == Ok(&as_it_is));
    }
}

#[test]
fn a_mark_without_a_range_is_not_normal() {
    assert!(!Marks::in_order(vec![Mark::whole("bold")]).are_normal(3));
    assert!(Marks::default().are_normal(0));
}

#[test]
fn a_split_divides_marks_and_a_join_merges_them() {
    let marks = Marks::normal(vec![bold(0..4), Mark::new("em", 2..9)], 9).unwrap();
    let mut left = marks.clone();
    let right = left.split_off(4);
    assert_eq!(ranges(&left), [0..4, 2..4]);
    assert_eq!(ranges(&right), vec![0..5]);
    left.append(4, &right);
    assert_eq!(left, marks);
}

#[test]
fn few_marks_take_no_more_memory_than_a_vector_of_them() {
    assert_eq!(size_of::<List>(), size_of::<Vec<Mark>>());
}

proptest! {
    #[test]
    fn ranges_have_the_characters_that_were_added(
        added in prop::collection::vec((0..20usize, 0..6usize), 0..8),
        start in 0..20usize,
        len in 0..20usize,
    ) {
        let added = added.into_iter().map(|(start, len)| start..start + len);
        let characters: BTreeSet<usize> = added.clone().flatten().collect();
        let (ranges, range) = (added.collect::<Ranges>(), start..start + len);
        let within: Vec<Range<usize>> = ranges.within(range.clone()).collect();
        let rest: Vec<Range<usize>> = ranges.rest_of(range.clone()).collect();
        let (has, has_not) = range.partition::<Vec<_>, _>(|at| characters.contains(at));
        prop_assert!(within.iter().cloned().flatten().eq(has));
        prop_assert!(rest.iter().cloned().flatten().eq(has_not));
        for parts in [within, rest] {
            prop_assert!(parts.iter().all(|part| !part.is_empty()));
            prop_assert!(parts.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
