//! Marks as one list, which each edit reads and copies as a whole: what the tree has to agree with.

use super::*;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model(pub(super) Vec<Mark>);

impl Model {
    pub(super) fn all_follow(&self, splice: &TextSplice) -> bool {
        let Range { start, end } = splice.range;
        let meet = || {
            let before = self.0.iter().filter(|mark| mark.bounds().end == start);
            let behind = self.0.iter().filter(|mark| mark.bounds().start == end);
            splice.inserted == 0 && start < end && any_differ_only_in_range(before, behind)
        };
        self.0.iter().all(|mark| splice.keeps(mark)) && !meet()
    }

    pub(super) fn changed(
        &self,
        splice: &TextSplice,
        change: &MarksChange,
        len: usize,
    ) -> Option<Self> {
        let mut marks = Vec::new();
        let mut removed = change.removed.iter().peekable();
        for mark in &self.0 {
            if removed.next_if(|gone| *gone == mark).is_none() {
                let follows = splice.keeps(mark).then(|| splice.follow(&mark.bounds()));
                marks.push(mark.over(follows?));
            }
        }
        marks.extend(change.added.iter().cloned());
        marks.sort_by(Mark::order);
        let normal = Marks::is_normal(&marks, len);
        (removed.next().is_none() && normal).then_some(Self(marks))
    }

    /// Each mark by itself.
    pub(super) fn spliced(&self, splice: &TextSplice) -> Self {
        let (removed, Range { start, end }) = (splice.range.len(), splice.range.clone());
        let shift = |at: usize| at - removed + splice.inserted;
        let after = self.0.iter().filter_map(|mark| {
            let mark_range = mark.bounds();
            let bounds = match (mark_range.start < start, mark_range.end > end) {
                _ if mark_range.end <= start => mark_range,
                _ if mark_range.start >= end => shift(mark_range.start)..shift(mark_range.end),
                (true, true) => mark_range.start..shift(mark_range.end),
                (true, false) => mark_range.start..start,
                (false, true) => start + splice.inserted..shift(mark_range.end),
                (false, false) => return None,
            };
            Some(mark.over(bounds))
        });
        Self(sorted(after.collect()))
    }

    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let part = |from: usize, to: usize| {
            let inside = self.0.iter().filter_map(|mark| {
                let Range { start, end } = mark.bounds();
                let (start, end) = (start.max(from), end.min(to));
                (start < end).then(|| mark.over(start - from..end - from))
            });
            Self(sorted(inside.collect()))
        };
        let (left, right) = (part(0, at), part(at, usize::MAX));
        *self = left;
        right
    }

    pub(super) fn append(&mut self, len: usize, next: &Self) {
        self.0.extend(next.0.iter().map(|mark| {
            let Range { start, end } = mark.bounds();
            mark.over(start + len..end + len)
        }));
        self.0 = sorted(std::mem::take(&mut self.0));
    }
}

fn sorted(marks: Vec<Mark>) -> Vec<Mark> {
    Marks::sorted(marks).take()
}
