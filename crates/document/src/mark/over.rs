//! Marks over a range of characters: what another one replaces, and which stand for leaves.

use std::ops::Range;

use super::{Mark, Marks, Ranges};
use crate::Text;

/// Stands for a leaf in a text, an image or a mention, and for the words of a link without words: a
/// mark needs a character to cover.
pub const OBJECT: char = '\u{FFFC}';

impl Marks {
    /// Returns the marks with another one over a range. For each present mark, `replaces` gets its
    /// index and returns whether the new one replaces it, or `None` if it excludes the new one: the
    /// characters of such a mark stay as they are.
    ///
    /// The result is not in normal form. `doclock::Transaction::set_marks` normalizes it.
    ///
    /// ```
    /// use doclock::document::{Mark, Marks};
    ///
    /// let marks = Marks::normal(vec![Mark::new("code", 0..2), Mark::new("sub", 1..6)], 6)?;
    /// let with = marks.with(&(0..4), &Mark::whole("super"), |_, other| match &*other.kind {
    ///     "code" => None,
    ///     kind => Some(kind == "sub"),
    /// });
    /// let with = Marks::normal(with, 6)?;
    /// let kinds = with.iter().map(|mark| (&*mark.kind, mark.range.clone().unwrap()));
    /// assert!(kinds.eq([("code", 0..2), ("sub", 1..2), ("super", 2..4), ("sub", 4..6)]));
    /// # Ok::<(), Mark>(())
    /// ```
    pub fn with(
        &self,
        range: &Range<usize>,
        mark: &Mark,
        replaces: impl Fn(usize, &Mark) -> Option<bool>,
    ) -> Vec<Mark> {
        let mut excluding = Ranges::default();
        let replaced = self.iter().enumerate().map(|(nth, other)| {
            let replaced = replaces(nth, other);
            if replaced.is_none() {
                excluding.add(other.bounds());
            }
            replaced == Some(true)
        });
        let replaced: Vec<bool> = replaced.collect();
        let free: Ranges = excluding.rest_of(range.clone()).collect();
        let mut marks = self.without(&free, |nth, _| replaced[nth]);
        marks.extend(free.within(range.clone()).map(|part| mark.over(part)));
        marks
    }

    /// The marks without some of them on some characters, not in normal form.
    pub(crate) fn without(&self, gone: &Ranges, are: impl Fn(usize, &Mark) -> bool) -> Vec<Mark> {
        let mut left = Vec::with_capacity(self.len());
        for (nth, mark) in self.iter().enumerate() {
            match are(nth, mark) {
                true => left.extend(gone.rest_of(mark.bounds()).map(|part| mark.over(part))),
                false => left.push(mark.clone()),
            }
        }
        left
    }

    /// For each mark whether it stands for a leaf of the text. `known` returns what is known of a
    /// kind of mark.
    ///
    /// Where nothing is known, a mark with a source is one, over the description of an image as
    /// well. So is a mark over nothing but U+FFFC: preferably one with attributes that is no link.
    #[doc(hidden)]
    pub fn leaves(&self, text: &Text, known: impl Fn(&str) -> Option<bool>) -> Vec<bool> {
        let marks = self.as_slice();
        let evidence = marks.iter().map(|mark| match known(&mark.kind) {
            Some(true) => Some(Evidence::Known),
            Some(false) => None,
            None => Evidence::of(mark, text),
        });
        let evidence: Vec<Option<Evidence>> = evidence.collect();
        let [known, guessed] = [Evidence::Known, Evidence::Attributes].map(|least| {
            let marks = marks.iter().zip(&evidence);
            let better = marks.filter(|(_, found)| found.is_some_and(|found| found >= least));
            better.map(|(mark, _)| mark.bounds()).collect::<Ranges>()
        });
        let is_apart = |from: &Ranges, mark: &Mark| from.within(mark.bounds()).next().is_none();
        let marks = marks.iter().zip(evidence);
        let leaves = marks.map(|(mark, evidence)| match evidence {
            Some(Evidence::Known) => true,
            Some(Evidence::Attributes) => is_apart(&known, mark),
            Some(Evidence::Alone) => is_apart(&guessed, mark),
            None => false,
        });
        leaves.collect()
    }
}

/// How much indicates that a mark stands for a leaf; better evidence for another mark outweighs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    /// It covers nothing but U+FFFC.
    Alone,
    /// It has attributes as well, and is no link.
    Attributes,
    /// The schema or its source says so.
    Known,
}

impl Evidence {
    fn of(mark: &Mark, text: &Text) -> Option<Self> {
        let has = |name: &str| mark.attributes.get(name).is_some();
        if mark.kind == "image" || has("src") {
            return Some(Self::Known);
        }
        let Range { start, end } = mark.bounds();
        let objects = |range: Range<usize>| {
            let slice = text.slice(range);
            slice.is_some_and(|slice| slice.chars().all(|char| char == OBJECT))
        };
        if has("href") || !objects(start..start + 1) || !objects(start..end) {
            return None;
        }
        Some(match mark.attributes.is_empty() {
            true => Self::Alone,
            false => Self::Attributes,
        })
    }
}
