//! Marks of a text whose characters are replaced, and the part of that which a change has to store.

use std::ops::Range;
use std::sync::Arc;

use super::list::FEW;
use super::tree::Tree;
use super::{Mark, Marks, any_differ_only_in_range};
use crate::MarksChange;

/// A replacement of characters, as lengths.
///
/// A mark before, after or around the range *follows*: it is unchanged, shifted, grown or shrunk,
/// and the inverse splice restores it. So a change does not store it. A mark that begins or ends
/// within the removed characters is trimmed or removed. An insertion at the edge of a mark stays
/// outside it.
#[derive(Clone, Debug)]
pub(crate) struct TextSplice {
    /// The removed characters.
    pub(crate) range: Range<usize>,
    /// The number of inserted characters.
    pub(crate) inserted: usize,
}

impl TextSplice {
    /// A splice that changes no text.
    pub(crate) const NONE: Self = Self {
        range: 0..0,
        inserted: 0,
    };

    fn back(&self) -> Self {
        let Range { start, end } = self.range;
        Self {
            range: start..start + self.inserted,
            inserted: end - start,
        }
    }

    fn shift(&self, at: usize) -> usize {
        at - self.range.len() + self.inserted
    }

    /// Whether a mark follows.
    pub(super) fn keeps(&self, mark: &Mark) -> bool {
        self.keeps_over(&mark.bounds())
    }

    /// Whether a mark over a range follows.
    fn keeps_over(&self, mark: &Range<usize>) -> bool {
        let range = &self.range;
        let around = mark.start < range.start && mark.end > range.end;
        mark.end <= range.start || mark.start >= range.end || around
    }

    /// The new range of a mark that follows.
    pub(super) fn follow(&self, mark: &Range<usize>) -> Range<usize> {
        let Range { start, end } = *mark;
        if end <= self.range.start {
            start..end
        } else if start >= self.range.end {
            self.shift(start)..self.shift(end)
        } else {
            start..self.shift(end)
        }
    }

    /// The rest of a mark that does not follow.
    fn trim(&self, mark: &Mark) -> Option<Mark> {
        let Range { start, end } = mark.bounds();
        if start < self.range.start {
            Some(mark.over(start..self.range.start))
        } else if end > self.range.end {
            Some(mark.over(self.range.start + self.inserted..self.shift(end)))
        } else {
            None
        }
    }

    /// Whether removed characters were all between two marks that become one.
    fn joins(&self, concerned: &[Mark]) -> bool {
        let Range { start, end } = self.range;
        let before = concerned.iter().filter(|mark| mark.bounds().end == start);
        let behind = concerned.iter().filter(|mark| mark.bounds().start == end);
        self.inserted == 0 && start < end && any_differ_only_in_range(before, behind)
    }

    /// Changes marks as `Marks::changed` does. `None` leaves them in any state.
    fn change(&self, tree: &mut Tree, change: &MarksChange, len: usize) -> Option<()> {
        let mut fit = change.removed.iter().all(|mark| tree.remove(0, mark));
        tree.visit(0, &self.range, &mut |_, place| {
            fit &= self.keeps_over(&place);
        });
        if !fit {
            return None;
        }
        tree.follow(0, self);
        change.added.iter().for_each(|mark| tree.insert(mark));
        let mut near = Vec::new();
        if let Some(place) = self.place_of(change) {
            tree.visit(0, &place, &mut |mark, place| near.push(mark.over(place)));
        }
        (tree.end() <= len && Marks::is_normal(&near, len)).then_some(())
    }

    /// The characters at which a change of marks may put two marks that are not normal together.
    /// Elsewhere, marks are over characters that equal ones had, and as far from others as these.
    fn place_of(&self, change: &MarksChange) -> Option<Range<usize>> {
        let part = |mark: &Mark| match self.keeps(mark) {
            true => Some(mark.over(self.follow(&mark.bounds()))),
            false => self.trim(mark),
        };
        let parts = change.removed.iter().filter_map(part).collect();
        let new = change.added.minus(&Marks::in_order(parts));
        let start = self.range.start;
        let seam = (!self.range.is_empty()).then_some(start..start + self.inserted);
        let places = new.iter().map(Mark::bounds).chain(seam);
        places.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end))
    }

    /// Whether a mark over a range does not follow, or begins or ends at the seam: there it may be
    /// joined with another.
    fn concerns(&self, mark: &Range<usize>) -> bool {
        let is_at_seam = mark.end == self.range.start || mark.start == self.range.end;
        !self.keeps_over(mark) || self.inserted == 0 && is_at_seam
    }
}

impl Marks {
    /// Whether all marks follow a splice, and stay in normal form. An insertion leaves them so.
    pub(crate) fn all_follow(&self, splice: &TextSplice) -> bool {
        if self.is_empty() || splice.range.is_empty() {
            return true;
        }
        let concerned = self.chosen_near(&splice.range, |mark| splice.concerns(mark));
        concerned.iter().all(|mark| splice.keeps(mark)) && !splice.joins(&concerned)
    }

    /// Makes all marks follow a splice.
    pub(crate) fn follow(&mut self, splice: &TextSplice) {
        // Marks that end before the range are unchanged and not copied.
        if let Some(list) = &mut self.0
            && !list.end_before(splice)
        {
            Arc::make_mut(list).follow(splice);
        }
    }

    /// The change that a splice makes to the marks that do not follow.
    pub(crate) fn change_by(&self, splice: &TextSplice) -> Option<MarksChange> {
        if self.is_empty() || splice.range.is_empty() {
            return None;
        }
        let concerned = self.chosen_near(&splice.range, |mark| splice.concerns(mark));
        let (kept, mut gone): (Vec<Mark>, Vec<Mark>) =
            concerned.into_iter().partition(|mark| splice.keeps(mark));
        let kept: Vec<Mark> = kept
            .iter()
            .map(|mark| mark.over(splice.follow(&mark.bounds())))
            .collect();
        let trimmed = gone.iter().filter_map(|mark| splice.trim(mark));
        let after = Self::sorted(kept.iter().cloned().chain(trimmed).collect());
        let MarksChange { removed, added } = Self::in_order(kept).change_to(&after);
        if gone.is_empty() && removed.is_empty() {
            return None;
        }
        let back = splice.back();
        gone.extend(
            removed
                .iter()
                .map(|mark| mark.over(back.follow(&mark.bounds()))),
        );
        gone.sort_by(Mark::order);
        Some(MarksChange {
            removed: Self::in_order(gone),
            added,
        })
    }

    /// The difference between these marks and others.
    pub(crate) fn change_to(&self, other: &Self) -> MarksChange {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let mut theirs = other.iter().peekable();
        for mark in self.iter() {
            while let Some(new) = theirs.next_if(|new| Mark::order(new, mark).is_lt()) {
                added.push(new.clone());
            }
            if theirs.next_if(|new| *new == mark).is_none() {
                removed.push(mark.clone());
            }
        }
        added.extend(theirs.cloned());
        MarksChange {
            removed: Self::in_order(removed),
            added: Self::in_order(added),
        }
    }

    /// The marks after a splice and a change of marks, for a text that then has `len` characters.
    /// `None` if a removed mark is missing, if another mark does not follow, or if the result is
    /// not normal.
    pub(crate) fn changed(
        &self,
        splice: &TextSplice,
        change: &MarksChange,
        len: usize,
    ) -> Option<Self> {
        let mut in_tree = self.clone();
        if let Some(tree) = in_tree.tree_for(change.removed.len() + change.added.len()) {
            splice.change(tree, change, len)?;
            return Some(match tree.len() <= FEW / 2 {
                true => Self::in_order(tree.to_list()),
                false => in_tree,
            });
        }
        let mut marks = Vec::with_capacity(self.len() + change.added.len());
        let mut removed = change.removed.iter().peekable();
        for mark in self.iter() {
            if removed.next_if(|gone| *gone == mark).is_none() {
                let follows = splice
                    .keeps(mark)
                    .then(|| mark.over(splice.follow(&mark.bounds())));
                marks.push(follows?);
            }
        }
        marks.extend(change.added.iter().cloned());
        // Two sorted lists, concatenated.
        marks.sort_by(Mark::order);
        let marks = Self::in_order(marks);
        (removed.next().is_none() && marks.are_normal(len)).then_some(marks)
    }
}
