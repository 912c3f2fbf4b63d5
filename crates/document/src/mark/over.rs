//! Marks over a range of characters: what they replace, and which of them stand for leaves.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{Mark, Marks};
use crate::Text;
use crate::steps::steps;

/// Stands for a leaf in a text, an image or a mention, and for the words of a link without words: a
/// mark needs a character to cover.
pub const OBJECT: char = '\u{FFFC}';

impl Marks {
    /// Returns the marks without some of them on parts of a range. In each part, all characters
    /// have the same marks; of their indices, `gone` returns those of the marks to remove.
    ///
    /// The result is not in normal form. `doclock::Transaction::set_marks` normalizes it.
    ///
    /// ```
    /// use doclock::document::{Mark, Marks};
    ///
    /// let marks = Marks::normal(vec![Mark::new("em", 0..4), Mark::new("bold", 2..6)], 6)?;
    /// // Where there are several, all but one.
    /// let cut = marks.cut(&(0..6), |_, on| on[1..].to_vec());
    /// assert_eq!(cut, [Mark::new("em", 0..4), Mark::new("bold", 4..6)]);
    /// # Ok::<(), Mark>(())
    /// ```
    pub fn cut(
        &self,
        range: &Range<usize>,
        mut gone: impl FnMut(Range<usize>, &[usize]) -> Vec<usize>,
    ) -> Vec<Mark> {
        let marks = self.as_slice();
        let edges = marks.iter().map(Mark::bounds);
        let edges = edges.flat_map(|bounds| [bounds.start, bounds.end]);
        let edges = edges.filter(|edge| range.contains(edge));
        let edges: BTreeSet<usize> = edges.chain([range.start, range.end]).collect();
        let edges: Vec<usize> = edges.into_iter().collect();
        let (mut ahead, mut open) = (0, Vec::new());
        let mut cuts = vec![Vec::new(); marks.len()];
        for edge in edges.windows(2) {
            let part = edge[0]..edge[1];
            // They are sorted by their starts.
            while marks
                .get(ahead)
                .is_some_and(|mark| mark.bounds().start < part.end)
            {
                open.push(ahead);
                ahead += 1;
            }
            open.retain(|&nth: &usize| marks[nth].bounds().end > part.start);
            steps(open.len());
            for nth in gone(part.clone(), &open) {
                cuts[nth].push(part.clone());
            }
        }
        let mut left = Vec::with_capacity(marks.len());
        for (mark, cuts) in marks.iter().zip(cuts) {
            let Range { mut start, end } = mark.bounds();
            for cut in cuts {
                left.extend((start < cut.start).then(|| mark.over(start..cut.start)));
                start = cut.end;
            }
            left.extend((start < end).then(|| mark.over(start..end)));
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
            Covered::by(better.map(|(mark, _)| mark.bounds()))
        });
        let marks = marks.iter().zip(evidence);
        let leaves = marks.map(|(mark, evidence)| match evidence {
            Some(Evidence::Known) => true,
            Some(Evidence::Attributes) => !known.meets(&mark.bounds()),
            Some(Evidence::Alone) => !guessed.meets(&mark.bounds()),
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

/// Characters under some marks, as ranges with sorted starts and the last end up to each of them.
struct Covered(Vec<(usize, usize)>);

impl Covered {
    /// The ranges are sorted by their starts.
    fn by(ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let mut last = 0;
        let ends = ranges.map(|range| {
            last = range.end.max(last);
            (range.start, last)
        });
        Self(ends.collect())
    }

    fn meets(&self, range: &Range<usize>) -> bool {
        let before = self.0.partition_point(|(start, _)| *start < range.end);
        before > 0 && self.0[before - 1].1 > range.start
    }
}
