//! Characters under some of many marks.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use crate::steps::step;

/// Some of the characters of a text. They are ranges that do not touch each other: the end of each,
/// by its start. Of nested marks it is one range, which is why no mark is read again for each of
/// the others.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    /// Adds the characters of a range. It becomes one with those that it overlaps or touches.
    pub(crate) fn add(&mut self, range: Range<usize>) {
        step();
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&first, &last)) = self.0.range(..=end).next_back()
            && last >= start
        {
            step();
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
    }

    /// Takes the characters of a range out.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        step();
        let Range { start, end } = range;
        while start < end
            && let Some((&first, &last)) = self.0.range(..end).next_back()
            && last > start
        {
            step();
            self.0.remove(&first);
            let around = [first..start.max(first), end.min(last)..last];
            let around = around.into_iter().filter(|part| !part.is_empty());
            self.0.extend(around.map(|part| (part.start, part.end)));
        }
    }

    /// The parts of a range that are among these characters.
    pub(crate) fn within(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        step();
        let Range { start, end } = range;
        let around = self.0.range(..start).next_back();
        let around = around.filter(|(_, last)| start < end && start < **last);
        let inside = self.0.range(start..end.max(start));
        around
            .into_iter()
            .chain(inside)
            .map(move |(&first, &last)| {
                step();
                first.max(start)..last.min(end)
            })
    }

    /// The parts of a range that are not among these characters.
    pub(crate) fn rest_of(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let Range { mut start, end } = range;
        let others = self.within(start..end).chain(iter::once(end..end));
        let parts = others.map(move |other| {
            let part = start..other.start;
            start = other.end;
            part
        });
        parts.filter(|part| !part.is_empty())
    }
}

impl FromIterator<Range<usize>> for Ranges {
    fn from_iter<I: IntoIterator<Item = Range<usize>>>(ranges: I) -> Self {
        let mut all = Self::default();
        ranges.into_iter().for_each(|range| all.add(range));
        all
    }
}
