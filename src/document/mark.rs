//! Marks: formatting over ranges of a node's text.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use super::Attributes;

/// One kind of formatting over one half-open range of characters.
///
/// In JSON: `{"type": "bold", "range": [0, 5], "attributes": {…}}`; without a range it covers the whole text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// What kind of mark: `bold`, `link` and so on.
    #[serde(rename = "type")]
    pub kind: SmolStr,
    /// The characters that it covers; `None`, in a mark that is being set, for all of them.
    #[serde(default, with = "pair", skip_serializing_if = "Option::is_none")]
    pub range: Option<Range<usize>>,
    /// What else belongs to it, a link's target for example.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

/// A range as `[start, end]`.
mod pair {
    use super::{Deserialize, Deserializer, Range, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        range: &Option<Range<usize>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let pair = range.as_ref().map(|range| (range.start, range.end));
        pair.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Range<usize>>, D::Error> {
        let pair = Option::<(usize, usize)>::deserialize(deserializer)?;
        Ok(pair.map(|(start, end)| start..end))
    }
}

impl Mark {
    /// A mark over a range.
    pub fn new(kind: impl Into<SmolStr>, range: Range<usize>) -> Self {
        Self {
            kind: kind.into(),
            range: Some(range),
            attributes: Attributes::default(),
        }
    }

    /// A mark over the whole text.
    pub fn whole(kind: impl Into<SmolStr>) -> Self {
        Self {
            kind: kind.into(),
            range: None,
            attributes: Attributes::default(),
        }
    }

    /// The same mark with these attributes.
    #[must_use]
    pub fn with_attributes(mut self, attributes: impl Into<Attributes>) -> Self {
        self.attributes = attributes.into();
        self
    }

    pub(super) fn bounds(&self) -> Range<usize> {
        self.range.clone().unwrap_or(0..0)
    }

    /// By start, end, kind and attributes.
    fn order(one: &Self, other: &Self) -> Ordering {
        let place = |mark: &Self| (mark.bounds().start, mark.bounds().end);
        place(one)
            .cmp(&place(other))
            .then_with(|| one.kind.cmp(&other.kind))
            .then_with(|| one.attributes.compare(&other.attributes))
    }

    /// Whether the two differ in nothing but their ranges.
    pub(super) fn says_the_same_as(&self, other: &Self) -> bool {
        self.kind == other.kind && self.attributes == other.attributes
    }

    /// The same mark over another range.
    pub(super) fn over(&self, range: Range<usize>) -> Self {
        Self {
            range: Some(range),
            ..self.clone()
        }
    }
}

/// The marks of one text, in normal form: each has a range that is not empty and lies within the text, they are
/// sorted by start, end, kind and attributes, and no two of the same kind and attributes touch or overlap.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Marks(Option<Arc<Vec<Mark>>>);

impl Marks {
    /// Brings marks into normal form for a text of `len` characters; the marks that reach out of it are returned.
    pub(crate) fn normal(marks: Vec<Mark>, len: usize) -> Result<Self, Mark> {
        let mut marks = marks;
        for mark in &mut marks {
            let range = mark.range.get_or_insert(0..len);
            if range.start > range.end || range.end > len {
                return Err(mark.clone());
            }
        }
        Ok(Self::sorted(marks))
    }

    /// Drops empty ranges, joins what touches or overlaps among equal marks, sorts.
    pub(super) fn sorted(mut marks: Vec<Mark>) -> Self {
        marks.retain(|mark| !mark.bounds().is_empty());
        marks.sort_by_key(|mark| mark.bounds().start);
        let mut joined: Vec<Mark> = Vec::with_capacity(marks.len());
        // Of equal marks the last that was kept. It reaches further than those before it, and starts no later than
        // any that is still to come.
        let mut latest: HashMap<(SmolStr, Attributes), usize, FixedState> = HashMap::default();
        for mark in marks {
            let range = mark.bounds();
            let same = (mark.kind.clone(), mark.attributes.clone());
            let at = latest.entry(same).or_insert(joined.len());
            match joined.get_mut(*at) {
                Some(earlier) if earlier.bounds().end >= range.start => {
                    let Range { start, end } = earlier.bounds();
                    earlier.range = Some(start..end.max(range.end));
                }
                _ => {
                    *at = joined.len();
                    joined.push(mark);
                }
            }
        }
        joined.sort_by(Mark::order);
        Self((!joined.is_empty()).then(|| Arc::new(joined)))
    }

    /// The marks after `range` was replaced by `inserted` characters.
    ///
    /// A mark around the place grows or shrinks with it, a mark wholly inside is gone, one that overlaps an edge
    /// keeps the part outside. What is inserted at an edge of a mark stays outside of it.
    pub(super) fn after_splice(&self, range: &Range<usize>, inserted: usize) -> Self {
        let shift = |at: usize| at - range.len() + inserted;
        let mapped = self.iter().filter_map(|mark| {
            let Range { start, end } = mark.bounds();
            let bounds = if end <= range.start {
                start..end
            } else if start >= range.end {
                shift(start)..shift(end)
            } else {
                match (start < range.start, end > range.end) {
                    (true, true) => start..shift(end),
                    (true, false) => start..range.start,
                    (false, true) => range.start + inserted..shift(end),
                    (false, false) => return None,
                }
            };
            let mut mark = mark.clone();
            mark.range = Some(bounds);
            Some(mark)
        });
        Self::sorted(mapped.collect())
    }

    /// The marks of the two pieces into which a text is cut.
    pub(super) fn split(&self, at: usize) -> (Self, Self) {
        let piece = |part: &dyn Fn(Range<usize>) -> Range<usize>| {
            let marks = self.iter().map(|mark| Mark {
                range: Some(part(mark.bounds())),
                ..mark.clone()
            });
            Self::sorted(marks.collect())
        };
        (
            piece(&|range| range.start.min(at)..range.end.min(at)),
            piece(&|range| range.start.max(at) - at..range.end.max(at) - at),
        )
    }

    /// The marks of this text of `len` characters and of one that follows it.
    pub(super) fn joined(&self, len: usize, next: &Self) -> Self {
        let shifted = next.iter().map(|mark| {
            let range = mark.bounds();
            Mark {
                range: Some(range.start + len..range.end + len),
                ..mark.clone()
            }
        });
        Self::sorted(self.iter().cloned().chain(shifted).collect())
    }

    /// The marks with those parts of them that lie in `range` changed, or left out for `None`. Not in normal form.
    pub(crate) fn change_within(
        &self,
        range: &Range<usize>,
        change: impl Fn(Mark) -> Option<Mark>,
    ) -> Vec<Mark> {
        let mut changed = Vec::with_capacity(self.len());
        for mark in self.iter() {
            let Range { start, end } = mark.bounds();
            let part = |start, end| Mark {
                range: Some(start..end),
                ..mark.clone()
            };
            let (from, to) = (start.max(range.start), end.min(range.end));
            if from >= to {
                changed.push(mark.clone());
                continue;
            }
            changed.extend((start < from).then(|| part(start, from)));
            changed.extend(change(part(from, to)));
            changed.extend((to < end).then(|| part(to, end)));
        }
        changed
    }

    /// Whether every character of `range` has a mark of a kind, whatever its attributes.
    pub(crate) fn cover(&self, range: &Range<usize>, kind: &str) -> bool {
        let of_kind = self.iter().filter(|mark| mark.kind == kind);
        // They are sorted by their start, so the first that begins too late leaves a gap.
        let covered = of_kind.map(Mark::bounds).fold(range.start, |to, mark| {
            if mark.start <= to {
                to.max(mark.end)
            } else {
                to
            }
        });
        covered >= range.end
    }

    /// Those parts of the marks that lie in `range`, counted from its start.
    pub(super) fn within(&self, range: &Range<usize>) -> Vec<Mark> {
        let inside = |mark: &Mark| {
            let Range { start, end } = mark.bounds();
            let (start, end) = (start.max(range.start), end.min(range.end));
            (start < end).then(|| mark.over(start - range.start..end - range.start))
        };
        self.iter().filter_map(inside).collect()
    }

    /// Those parts of the marks that are not in `other`.
    pub(super) fn minus(&self, other: &Self) -> Vec<Mark> {
        let rest = |mark: &Mark| {
            let alone = Self(Some(Arc::new(vec![mark.clone()])));
            let same = other.iter().filter(|theirs| theirs.says_the_same_as(mark));
            let left = same.fold(alone, |left, theirs| {
                Self(Some(Arc::new(
                    left.change_within(&theirs.bounds(), |_| None),
                )))
            });
            left.iter().cloned().collect::<Vec<_>>()
        };
        self.iter().flat_map(rest).collect()
    }

    /// The marks in order.
    pub fn iter(&self) -> impl Iterator<Item = &Mark> {
        self.0.iter().flat_map(|marks| marks.iter())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |marks| marks.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether these are in normal form for a text of `len` characters.
    pub(super) fn are_normal(&self, len: usize) -> bool {
        let marks = self.0.as_ref().map_or(&[][..], |marks| marks.as_slice());
        let mut ends: HashMap<_, usize, FixedState> = HashMap::default();
        let alone = marks.iter().all(|mark| {
            let Range { start, end } = mark.bounds();
            let before = ends.insert((&mark.kind, &mark.attributes), end);
            start < end && end <= len && before.is_none_or(|before| before < start)
        });
        alone && marks.is_sorted_by(|one, other| Mark::order(one, other).is_le())
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Marks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Marks {
    /// The normal form for a text of any length; whether they fit is checked where they are applied.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let marks = Vec::<Mark>::deserialize(deserializer)?;
        Self::normal(marks, usize::MAX).map_err(|mark| {
            serde::de::Error::custom(format_args!(
                "the mark `{}` ends before it starts",
                mark.kind
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bold(range: Range<usize>) -> Mark {
        Mark::new("bold", range)
    }

    fn ranges(marks: &Marks) -> Vec<Range<usize>> {
        marks.iter().map(Mark::bounds).collect()
    }

    #[test]
    fn equal_neighbours_merge_whatever_lies_between() {
        let link = bold(4..9).with_attributes([("href", "x".into())]);
        let marks = Marks::normal(
            vec![
                bold(5..9),
                link,
                Mark::new("em", 2..6),
                bold(0..5),
                bold(3..3),
            ],
            9,
        );
        assert_eq!(ranges(&marks.unwrap()), [0..9, 2..6, 4..9]);
    }

    #[test]
    fn a_mark_without_a_range_covers_the_text() {
        let marks = Marks::normal(vec![Mark::whole("bold")], 4).unwrap();
        assert_eq!(ranges(&marks), vec![0..4]);
        assert!(
            Marks::normal(vec![Mark::whole("bold")], 0)
                .unwrap()
                .is_empty()
        );
        assert_eq!(Marks::normal(vec![bold(3..5)], 4), Err(bold(3..5)));
    }

    #[test]
    fn a_splice_grows_shrinks_trims_drops_and_shifts() {
        let after = |mark: Range<usize>, cut: Range<usize>, inserted| {
            let marks = Marks::normal(vec![bold(mark)], 100).unwrap();
            ranges(&marks.after_splice(&cut, inserted)).pop()
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

    /// Marks of two kinds, some with attributes, as they may come: unsorted, empty, overlapping.
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

    /// Which characters have which mark, and where two marks are one.
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
            // As many as there are runs of places.
            let places = covered(&list);
            let begins = places.iter().filter(|(kind, attributes, place)| {
                let before = place.checked_sub(1);
                !before.is_some_and(|place| places.contains(&(kind.clone(), attributes.clone(), place)))
            });
            prop_assert_eq!(begins.count(), list.len());
        }

        #[test]
        fn what_is_not_its_own_normal_form_is_not_normal(marks in any_marks(), len in 0..18usize) {
            let as_it_is = Marks((!marks.is_empty()).then(|| Arc::new(marks.clone())));
            let normal = Marks::normal(marks, len);
            prop_assert_eq!(as_it_is.are_normal(len), normal.as_ref() == Ok(&as_it_is));
        }
    }

    #[test]
    fn a_mark_without_a_range_is_not_normal() {
        assert!(!Marks(Some(Arc::new(vec![Mark::whole("bold")]))).are_normal(3));
        assert!(Marks::default().are_normal(0));
    }

    #[test]
    fn a_cut_divides_marks_and_joining_makes_them_whole() {
        let marks = Marks::normal(vec![bold(0..4), Mark::new("em", 2..9)], 9).unwrap();
        let (left, right) = marks.split(4);
        assert_eq!(ranges(&left), [0..4, 2..4]);
        assert_eq!(ranges(&right), vec![0..5]);
        assert_eq!(left.joined(4, &right), marks);
    }
}
