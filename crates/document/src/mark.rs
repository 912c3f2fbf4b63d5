//! Marks: formatting over ranges of a node's text.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use super::Attributes;
use crate::hashing::Secret;
use crate::steps::step;

mod list;
mod over;
mod ranges;
mod splice;
mod tree;

use list::List;
pub use over::OBJECT;
pub(super) use ranges::Ranges;
pub(super) use splice::TextSplice;
use tree::Tree;

/// A mark: one kind of formatting over a half-open range of characters.
///
/// In JSON: `{"type": "bold", "range": [0, 5], "attributes": {…}}`; without a range it covers the
/// whole text.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The kind of the mark: `bold`, `link` and so on.
    #[serde(rename = "type")]
    pub kind: SmolStr,
    /// The marked characters. In a mark that is being set, `None` stands for the whole text.
    #[serde(default, with = "pair", skip_serializing_if = "Option::is_none")]
    pub range: Option<Range<usize>>,
    /// The attributes of the mark, for example the target of a link.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

impl Clone for Mark {
    fn clone(&self) -> Self {
        step();
        Self {
            kind: self.kind.clone(),
            range: self.range.clone(),
            attributes: self.attributes.clone(),
        }
    }
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
    /// Creates a mark over a range.
    pub fn new(kind: impl Into<SmolStr>, range: Range<usize>) -> Self {
        Self {
            kind: kind.into(),
            range: Some(range),
            attributes: Attributes::default(),
        }
    }

    /// Creates a mark over the whole text.
    pub fn whole(kind: impl Into<SmolStr>) -> Self {
        Self {
            kind: kind.into(),
            range: None,
            attributes: Attributes::default(),
        }
    }

    /// Sets the attributes of the mark.
    #[must_use]
    pub fn with_attributes(mut self, attributes: impl Into<Attributes>) -> Self {
        self.attributes = attributes.into();
        self
    }

    pub(super) fn bounds(&self) -> Range<usize> {
        self.range.clone().unwrap_or(0..0)
    }

    /// Whether it is over characters of a range, or next to it.
    fn meets(&self, range: &Range<usize>) -> bool {
        let Range { start, end } = self.bounds();
        start <= range.end && range.start <= end
    }

    /// By start, end, kind and attributes.
    fn order(one: &Self, other: &Self) -> Ordering {
        let place = |mark: &Self| (mark.bounds().start, mark.bounds().end);
        place(one)
            .cmp(&place(other))
            .then_with(|| one.order_without_range(other))
    }

    /// By kind and attributes.
    fn order_without_range(&self, other: &Self) -> Ordering {
        let by_kind = self.kind.cmp(&other.kind);
        by_kind.then_with(|| self.attributes.compare(&other.attributes))
    }

    /// The kind and attributes, without the range.
    pub(super) fn says(&self) -> (&SmolStr, &Attributes) {
        (&self.kind, &self.attributes)
    }

    /// The same mark over another range.
    pub(super) fn over(&self, range: Range<usize>) -> Self {
        Self {
            range: Some(range),
            ..self.clone()
        }
    }
}

/// Whether a mark of one list has the kind and attributes of one of the other.
fn any_differ_only_in_range<'a>(
    list: impl Iterator<Item = &'a Mark>,
    mut other: impl Iterator<Item = &'a Mark>,
) -> bool {
    let said: HashSet<_, Secret> = list.map(Mark::says).collect();
    !said.is_empty() && other.any(|mark| said.contains(&mark.says()))
}

/// The marks of one text, in normal form. Each mark has a nonempty range within the text. The marks
/// are sorted by start, end, kind and attributes. Marks with the same kind and attributes do not
/// touch or overlap.
///
/// Versions share what is the same. Of many marks, an edit of the text moves those behind it
/// together, and the first read of a version makes their list.
#[derive(Clone, Default)]
pub struct Marks(Option<Arc<List>>);

impl Marks {
    /// Normalizes marks for a text of `len` characters.
    ///
    /// # Errors
    ///
    /// The first mark that exceeds the text.
    ///
    /// ```
    /// use doclock::document::{Mark, Marks};
    ///
    /// let marks = Marks::normal(vec![Mark::new("em", 2..5), Mark::new("em", 0..3)], 5)?;
    /// assert!(marks.iter().eq(&[Mark::new("em", 0..5)]));
    /// assert_eq!(Marks::normal(vec![Mark::new("em", 4..9)], 5), Err(Mark::new("em", 4..9)));
    /// # Ok::<(), Mark>(())
    /// ```
    pub fn normal(marks: Vec<Mark>, len: usize) -> Result<Self, Mark> {
        let mut marks = marks;
        for mark in &mut marks {
            let range = mark.range.get_or_insert(0..len);
            if range.start > range.end || range.end > len {
                return Err(mark.clone());
            }
        }
        Ok(Self::sorted(marks))
    }

    /// Drops empty ranges, joins equal marks that touch or overlap, and sorts.
    pub(super) fn sorted(mut marks: Vec<Mark>) -> Self {
        marks.retain(|mark| !mark.bounds().is_empty());
        marks.sort_by_key(|mark| mark.bounds().start);
        let mut joined: Vec<Mark> = Vec::with_capacity(marks.len());
        // The last kept one of equal marks: it ends last, and no remaining mark starts earlier.
        let mut latest: HashMap<(SmolStr, Attributes), usize, Secret> = HashMap::default();
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
        Self::in_order(joined)
    }

    /// Wraps marks that are already in normal form.
    fn in_order(marks: Vec<Mark>) -> Self {
        Self((!marks.is_empty()).then(|| Arc::new(List::new(marks))))
    }

    fn as_slice(&self) -> &[Mark] {
        self.0.as_ref().map_or(&[], |marks| marks.as_slice())
    }

    /// Takes the marks out. Copies them if other versions share them.
    fn take(&mut self) -> Vec<Mark> {
        match self.0.take().map(Arc::try_unwrap) {
            Some(Ok(list)) => list.into_vec(),
            Some(Err(shared)) => shared.as_slice().to_vec(),
            None => Vec::new(),
        }
    }

    /// Splits off the marks of the characters from `at` on, relative to `at`. Reads all marks and
    /// copies only those that it splits off.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        if self.is_empty() {
            return Self::default();
        }
        let mut marks = self.take();
        let behind = marks.partition_point(|mark| mark.bounds().start < at);
        let mut right = marks.split_off(behind);
        let (mut cut, uncut) = (Vec::new(), right.len());
        for mark in marks.iter_mut() {
            let Range { start, end } = mark.bounds();
            if end > at {
                cut.push(mark.over(at..end));
                mark.range = Some(start..at);
            }
        }
        right.append(&mut cut);
        for mark in &mut right {
            let Range { start, end } = mark.bounds();
            mark.range = Some(start - at..end - at);
        }
        if right.len() > uncut {
            marks.sort_by(Mark::order);
            right.sort_by(Mark::order);
        }
        *self = Self::in_order(marks);
        Self::in_order(right)
    }

    /// Appends the marks of a text that follows this one of `len` characters. Copies the present
    /// marks only if some are joined, so a join of many texts stays cheap.
    pub(super) fn append(&mut self, len: usize, next: &Self) {
        let shifted = next.iter().map(|mark| {
            let Range { start, end } = mark.bounds();
            mark.over(start + len..end + len)
        });
        let mut shifted: Vec<Mark> = shifted.collect();
        let at_seam = shifted.partition_point(|mark| mark.bounds().start == len);
        let become_one = || {
            let ending = self.near(&(len..len));
            let ending = ending.into_iter().map(|(mark, _)| mark);
            any_differ_only_in_range(ending, shifted.iter().take(at_seam))
        };
        if at_seam > 0 && become_one() {
            shifted.extend(self.iter().cloned());
            *self = Self::sorted(shifted);
        } else if let Some(tree) = self.tree_for(shifted.len()) {
            shifted.iter().for_each(|mark| tree.insert(mark));
        } else if !shifted.is_empty() {
            // All of them start after the present ones.
            let mut marks = self.take();
            marks.append(&mut shifted);
            *self = Self::in_order(marks);
        }
    }

    /// Whether a mark ends with the text, of `len` characters, and one of the next text begins with
    /// that: the two may become one.
    pub(super) fn meet(&self, len: usize, next: &Self) -> bool {
        next.iter()
            .next()
            .is_some_and(|mark| mark.bounds().start == 0)
            && !self.near(&(len..len)).is_empty()
    }

    /// Returns the marks with their parts in `range` changed, or removed for `None`.
    ///
    /// They are not in normal form.
    /// `doclock::Transaction::set_marks` normalizes them.
    ///
    /// ```
    /// use doclock::document::{Mark, Marks};
    ///
    /// let marks = Marks::normal(vec![Mark::new("em", 0..5)], 5)?;
    /// let changed = marks.change_within(&(1..3), |_| None);
    /// assert_eq!(changed, [Mark::new("em", 0..1), Mark::new("em", 3..5)]);
    /// # Ok::<(), Mark>(())
    /// ```
    pub fn change_within(
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

    /// The parts of the marks within `range`, relative to its start. Equal marks stay apart.
    pub(super) fn within(&self, range: &Range<usize>) -> Self {
        let inside = |(mark, place): (&Mark, Range<usize>)| {
            let (start, end) = (place.start.max(range.start), place.end.min(range.end));
            (start < end).then(|| mark.over(start - range.start..end - range.start))
        };
        let mut parts: Vec<Mark> = self.near(range).into_iter().filter_map(inside).collect();
        parts.sort_by(Mark::order);
        Self::in_order(parts)
    }

    /// The marks over characters of a range, or next to it, each with its own range: in a tree, a
    /// mark has another one.
    pub(super) fn near(&self, range: &Range<usize>) -> Vec<(&Mark, Range<usize>)> {
        let list = self.0.as_ref();
        list.map_or_else(Vec::new, |list| list.near(range))
    }

    /// Copies those of the marks near a range whose ranges are chosen.
    fn chosen_near(
        &self,
        range: &Range<usize>,
        is_chosen: impl Fn(&Range<usize>) -> bool,
    ) -> Vec<Mark> {
        let near = self.near(range).into_iter();
        let chosen = near.filter(|(_, place)| is_chosen(place));
        chosen.map(|(mark, place)| mark.over(place)).collect()
    }

    /// The marks over characters of a range, or next to it. Of many marks, others are not read.
    #[doc(hidden)]
    pub fn touching(&self, range: &Range<usize>) -> Self {
        Self::in_order(self.chosen_near(range, |_| true))
    }

    /// The marks over characters of a range.
    pub(super) fn overlapping(&self, range: &Range<usize>) -> Self {
        let overlaps = |place: &Range<usize>| place.start < range.end && range.start < place.end;
        Self::in_order(self.chosen_near(range, overlaps))
    }

    /// The tree, to change so many marks, if that costs less than a new list.
    fn tree_for(&mut self, changed: usize) -> Option<&mut Tree> {
        const PATH: usize = 8;
        if changed == 0 || PATH * changed > self.len() {
            return None;
        }
        // What a copy is made of is kept for the next one.
        self.0.as_ref()?.tree()?;
        Arc::make_mut(self.0.as_mut()?).tree_mut()
    }

    /// The parts of the marks that are not in `other`.
    pub(super) fn minus(&self, other: &Self) -> Vec<Mark> {
        let mut theirs: HashMap<_, Ranges, Secret> = HashMap::default();
        for mark in other.iter() {
            theirs.entry(mark.says()).or_default().add(mark.bounds());
        }
        let none = Ranges::default();
        let rest = self.iter().flat_map(|mark| {
            let same = theirs.get(&mark.says()).unwrap_or(&none);
            same.rest_of(mark.bounds()).map(|part| mark.over(part))
        });
        rest.collect()
    }

    /// Iterates over the marks in order.
    pub fn iter(&self) -> impl Iterator<Item = &Mark> {
        self.as_slice().iter().inspect(|_| step())
    }

    /// Returns the number of marks.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |marks| marks.len())
    }

    /// Returns whether there are no marks.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether these are in normal form for a text of `len` characters.
    pub(super) fn are_normal(&self, len: usize) -> bool {
        Self::is_normal(self.as_slice(), len)
    }

    fn is_normal(marks: &[Mark], len: usize) -> bool {
        let mut ends: HashMap<_, usize, Secret> = HashMap::default();
        let alone = marks.iter().all(|mark| {
            let Range { start, end } = mark.bounds();
            let before = ends.insert(mark.says(), end);
            start < end && end <= len && before.is_none_or(|before| before < start)
        });
        alone && marks.is_sorted_by(|one, other| Mark::order(one, other).is_le())
    }
}

impl PartialEq for Marks {
    fn eq(&self, other: &Self) -> bool {
        let same = |one: &Arc<List>, other| Arc::ptr_eq(one, other);
        match (&self.0, &other.0) {
            (Some(one), Some(other)) if same(one, other) => true,
            _ => self.len() == other.len() && self.as_slice() == other.as_slice(),
        }
    }
}

impl Eq for Marks {}

/// In order.
///
/// ```
/// use doclock::document::{Mark, NodeSpec};
/// use doclock::{DataStore, View};
///
/// let mut transaction = DataStore::new().begin("ann")?;
/// let text = NodeSpec::new("text").with_text("Hello").with_marks([Mark::new("bold", 0..2)]);
/// let id = transaction.create(text)?;
/// for mark in transaction.node(&id).unwrap().marks() {
///     assert_eq!(mark.kind, "bold");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'m> IntoIterator for &'m Marks {
    type Item = &'m Mark;
    type IntoIter = std::slice::Iter<'m, Mark>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
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
    /// Normalizes for a text of any length; the range is checked when the marks are applied.
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
mod tests;
