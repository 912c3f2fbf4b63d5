//! A balanced tree of marks, in which an edit of the text changes a few nodes.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::{Mark, TextSplice};
use crate::steps::{step, steps};

/// The most marks of a leaf, and the most children of an inner node. An edit copies a node of each
/// level, so small nodes cost less than a shallow tree.
const MOST: usize = 16;

/// A tree of marks in order, or a subtree. All leaves have the same depth.
///
/// The positions in a node are relative to its parent, so a shift changes one number of it. They
/// wrap around: an origin may be behind the first position, but each sum is a position of the text.
/// Versions share the nodes that no edit has changed between them.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// The origin of the positions in `items`.
    origin: usize,
    /// The start of the first mark.
    start: usize,
    /// The largest end.
    end: usize,
    /// The number of marks.
    len: usize,
    items: Arc<Items>,
}

#[derive(Clone, Debug)]
enum Items {
    Marks(Vec<Mark>),
    Trees(Vec<Tree>),
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Self::Marks(marks) => marks.len(),
            Self::Trees(trees) => trees.len(),
        }
    }

    /// Splits off the second half if there are too many.
    fn overflow(&mut self) -> Option<Self> {
        let half = self.len().div_ceil(2);
        (self.len() > MOST).then(|| match self {
            Self::Marks(marks) => Self::Marks(marks.split_off(half)),
            Self::Trees(trees) => Self::Trees(trees.split_off(half)),
        })
    }
}

/// The range of a mark with its origin.
fn placed(origin: usize, mark: &Mark) -> Range<usize> {
    let Range { start, end } = mark.bounds();
    origin.wrapping_add(start)..origin.wrapping_add(end)
}

/// A range without its origin.
fn relative(origin: usize, range: &Range<usize>) -> Option<Range<usize>> {
    Some(range.start.wrapping_sub(origin)..range.end.wrapping_sub(origin))
}

/// The order of a mark of a node and another one.
fn order(origin: usize, one: &Mark, other: &Mark) -> Ordering {
    step();
    let (place, bounds) = (placed(origin, one), other.bounds());
    let place = (place.start, place.end).cmp(&(bounds.start, bounds.end));
    place.then_with(|| one.order_without_range(other))
}

impl Tree {
    /// Builds a tree of at least one mark.
    pub(super) fn new(marks: &[Mark]) -> Self {
        let leaves = marks.chunks(MOST);
        let mut level: Vec<Self> = leaves
            .map(|marks| Self::of(Items::Marks(marks.to_vec())))
            .collect();
        while level.len() > 1 {
            let nodes = level.chunks(MOST);
            level = nodes
                .map(|trees| Self::of(Items::Trees(trees.to_vec())))
                .collect();
        }
        level
            .pop()
            .unwrap_or_else(|| Self::of(Items::Marks(Vec::new())))
    }

    fn of(items: Items) -> Self {
        let mut tree = Self {
            origin: 0,
            start: 0,
            end: 0,
            len: 0,
            items: Arc::new(items),
        };
        tree.summarize(0);
        tree
    }

    /// Computes what it says about its items.
    fn summarize(&mut self, base: usize) {
        let origin = base.wrapping_add(self.origin);
        let (start, end, len) = match &*self.items {
            Items::Marks(marks) => (
                marks.first().map(|mark| placed(origin, mark).start),
                marks.iter().map(|mark| placed(origin, mark).end).max(),
                marks.len(),
            ),
            Items::Trees(trees) => (
                trees.first().map(|tree| origin.wrapping_add(tree.start)),
                trees.iter().map(|tree| origin.wrapping_add(tree.end)).max(),
                trees.iter().map(|tree| tree.len).sum(),
            ),
        };
        self.start = start.unwrap_or(base).wrapping_sub(base);
        self.end = end.unwrap_or(base).wrapping_sub(base);
        self.len = len;
    }

    fn shift(&mut self, by: usize) {
        for position in [&mut self.origin, &mut self.start, &mut self.end] {
            *position = position.wrapping_add(by);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The largest end of a mark.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// All marks, in order.
    pub(super) fn to_list(&self) -> Vec<Mark> {
        let mut list = Vec::with_capacity(self.len);
        self.visit(0, &(0..usize::MAX), &mut |mark, range| {
            list.push(mark.over(range));
        });
        list
    }

    /// Calls `found` for each mark that begins or ends in a range, its end included, or is around
    /// it.
    pub(super) fn visit<'t>(
        &'t self,
        base: usize,
        range: &Range<usize>,
        found: &mut impl FnMut(&'t Mark, Range<usize>),
    ) {
        let origin = base.wrapping_add(self.origin);
        let touches = |start, end| start <= range.end && range.start <= end;
        match &*self.items {
            Items::Marks(marks) => {
                for mark in marks {
                    step();
                    let place = placed(origin, mark);
                    if touches(place.start, place.end) {
                        found(mark, place);
                    }
                }
            }
            Items::Trees(trees) => {
                for tree in trees {
                    step();
                    let (start, end) = tree.place(origin);
                    if touches(start, end) {
                        tree.visit(origin, range, found);
                    }
                }
            }
        }
    }

    /// The start of its first mark and its largest end.
    fn place(&self, base: usize) -> (usize, usize) {
        (base.wrapping_add(self.start), base.wrapping_add(self.end))
    }

    /// Makes all marks follow a splice.
    pub(super) fn follow(&mut self, base: usize, splice: &TextSplice) {
        step();
        let (start, end) = self.place(base);
        if end <= splice.range.start {
            return;
        }
        let growth = splice.inserted.wrapping_sub(splice.range.len());
        if start >= splice.range.end {
            return self.shift(growth);
        }
        let origin = base.wrapping_add(self.origin);
        match Arc::make_mut(&mut self.items) {
            Items::Marks(marks) => {
                steps(marks.len());
                for mark in marks {
                    mark.range = relative(origin, &splice.follow(&placed(origin, mark)));
                }
            }
            Items::Trees(trees) => {
                for tree in trees {
                    tree.follow(origin, splice);
                }
            }
        }
        // The mark that ends last is around the range or behind it.
        self.end = self.end.wrapping_add(growth);
    }

    /// Removes a mark. Returns whether it was there.
    pub(super) fn remove(&mut self, base: usize, mark: &Mark) -> bool {
        let origin = base.wrapping_add(self.origin);
        match Arc::make_mut(&mut self.items) {
            Items::Marks(marks) => {
                let found = marks.binary_search_by(|one| order(origin, one, mark));
                let Ok(nth) = found else { return false };
                marks.remove(nth);
            }
            Items::Trees(trees) => {
                let Some(nth) = behind(origin, trees, mark).checked_sub(1) else {
                    return false;
                };
                if !trees[nth].remove(origin, mark) {
                    return false;
                }
                if trees[nth].len == 0 {
                    trees.remove(nth);
                }
                join(origin, trees, nth);
                join(origin, trees, nth.wrapping_sub(1));
            }
        }
        self.summarize(base);
        true
    }

    /// Inserts a mark in its place. Returns the second half if the node had too many items.
    fn insert_below(&mut self, base: usize, mark: &Mark) -> Option<Self> {
        let origin = base.wrapping_add(self.origin);
        let items = Arc::make_mut(&mut self.items);
        match items {
            Items::Marks(marks) => {
                let nth = marks.partition_point(|one| order(origin, one, mark).is_le());
                let mut mark = mark.clone();
                mark.range = relative(origin, &mark.bounds());
                marks.insert(nth, mark);
            }
            Items::Trees(trees) => {
                let nth = behind(origin, trees, mark).saturating_sub(1);
                if let Some(right) = trees[nth].insert_below(origin, mark) {
                    trees.insert(nth + 1, right);
                }
            }
        }
        let right = items.overflow().map(|items| {
            let mut right = Self {
                items: Arc::new(items),
                ..*self
            };
            right.summarize(base);
            right
        });
        self.summarize(base);
        right
    }

    /// Inserts a mark in its place.
    pub(super) fn insert(&mut self, mark: &Mark) {
        if let Some(right) = self.insert_below(0, mark) {
            let left = self.clone();
            *self = Self::of(Items::Trees(vec![left, right]));
        }
    }

    /// The order of its first mark and another one.
    fn first_before(&self, base: usize, mark: &Mark) -> Ordering {
        let by_start = base.wrapping_add(self.start).cmp(&mark.bounds().start);
        by_start.then_with(|| {
            let origin = base.wrapping_add(self.origin);
            match &*self.items {
                Items::Marks(marks) => marks
                    .first()
                    .map_or(Ordering::Less, |first| order(origin, first, mark)),
                Items::Trees(trees) => trees
                    .first()
                    .map_or(Ordering::Less, |first| first.first_before(origin, mark)),
            }
        })
    }
}

/// The number of trees that begin with a mark or with one before it.
fn behind(origin: usize, trees: &[Tree], mark: &Mark) -> usize {
    trees.partition_point(|tree| tree.first_before(origin, mark).is_le())
}

/// Makes one node of two neighbours, if there are two, that are at most half full together.
fn join(origin: usize, trees: &mut Vec<Tree>, nth: usize) {
    let neighbours = trees.get(nth..).and_then(<[_]>::first_chunk);
    let Some([left, right]) = neighbours else {
        return;
    };
    if left.items.len() + right.items.len() > MOST / 2 {
        return;
    }
    let right = trees.remove(nth + 1);
    let left = &mut trees[nth];
    let by = right.origin.wrapping_sub(left.origin);
    match (
        Arc::make_mut(&mut left.items),
        Arc::unwrap_or_clone(right.items),
    ) {
        (Items::Marks(marks), Items::Marks(more)) => marks.extend(more.into_iter().map(|mark| {
            let range = placed(by, &mark);
            Mark {
                range: Some(range),
                ..mark
            }
        })),
        (Items::Trees(trees), Items::Trees(mut more)) => {
            more.iter_mut().for_each(|tree| tree.shift(by));
            trees.append(&mut more);
        }
        // All leaves have the same depth.
        _ => {}
    }
    left.summarize(origin);
}

#[cfg(test)]
impl Tree {
    /// Checks that each node says of its items what is so, and the depth of the leaves.
    pub(super) fn assert_well_formed(&self) {
        self.depth(0);
    }

    fn depth(&self, base: usize) -> usize {
        let origin = base.wrapping_add(self.origin);
        let mut found = self.clone();
        found.summarize(base);
        let says = |tree: &Self| (tree.start, tree.end, tree.len);
        assert_eq!(says(self), says(&found));
        assert!((1..=MOST).contains(&self.items.len()));
        match &*self.items {
            Items::Marks(_) => 0,
            Items::Trees(trees) => {
                let mut depths = trees.iter().map(|tree| tree.depth(origin));
                let depth = depths.next().unwrap_or_default();
                assert!(depths.all(|other| other == depth));
                depth + 1
            }
        }
    }
}
