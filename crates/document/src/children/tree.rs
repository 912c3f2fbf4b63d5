//! A balanced tree of ids, in which an edit copies a few nodes.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::id::NodeId;
use crate::steps::step;

/// The most ids of a leaf.
pub(super) const MOST: usize = 64;

/// The most children of an inner node.
const BRANCHES: usize = 32;

/// The label of the first leaf of a new tree.
const FIRST: u64 = 1 << 62;

/// Between the labels of two leaves of a new tree.
const GAP: u64 = 1 << 32;

/// The least distance of labels that are spread again. With more room there is more time until
/// they have to be spread once more.
const SPREAD: u64 = 1 << 12;

/// A tree of at least one id, or a subtree. All leaves have the same depth.
///
/// Leaves have labels, which increase from left to right. A child remembers the label of its leaf,
/// by which it is found later: the leaf is the last one whose label is not greater. This is right
/// in an older version as well, in which the leaf was not split yet, and after leaves are merged.
#[derive(Clone)]
pub(crate) struct Tree {
    /// The number of ids.
    pub(crate) len: usize,
    /// The label of its first leaf.
    label: u64,
    pub(crate) items: Arc<Items>,
}

#[derive(Clone)]
pub(crate) enum Items {
    Ids(Vec<NodeId>),
    Trees(Vec<Tree>),
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Trees(trees) => trees.len(),
        }
    }

    /// The subtrees; none of a leaf.
    pub(crate) fn trees(&self) -> &[Tree] {
        match self {
            Self::Ids(_) => &[],
            Self::Trees(trees) => trees,
        }
    }

    /// The part that has an index, and the number of ids before it.
    pub(crate) fn branch(&self, index: usize) -> (usize, usize) {
        match self {
            Self::Ids(_) => (index, index),
            Self::Trees(trees) => branch(trees, index),
        }
    }
}

/// A leaf.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'t> {
    /// The index of its first id.
    pub(super) start: usize,
    pub(super) label: u64,
    pub(super) ids: &'t [NodeId],
}

impl Leaf<'_> {
    /// The indexes of its ids.
    pub(super) fn indexes(&self) -> Range<usize> {
        self.start..self.start + self.ids.len()
    }
}

/// An insertion, on its way from the root to a leaf.
struct Insertion {
    /// Whether it is at the end or at the start of the whole list.
    at_end: bool,
    at_start: bool,
    /// Whether a leaf has the label of the leaf before it, because there was no other.
    crowded: bool,
}

impl Tree {
    /// Builds a tree of at least one id.
    pub(super) fn new(ids: &[NodeId]) -> Self {
        let leaves = ids.chunks(MOST).zip(0..);
        let leaf = |(ids, nth): (&[NodeId], u64)| {
            Self::leaf(ids.to_vec(), FIRST.saturating_add(nth.saturating_mul(GAP)))
        };
        let mut level: Vec<Self> = leaves.map(leaf).collect();
        while level.len() > 1 {
            let nodes = level.chunks(BRANCHES);
            level = nodes.map(|trees| Self::above(trees.to_vec())).collect();
        }
        level.pop().unwrap_or_else(|| Self::leaf(Vec::new(), FIRST))
    }

    fn leaf(ids: Vec<NodeId>, label: u64) -> Self {
        Self {
            len: ids.len(),
            label,
            items: Arc::new(Items::Ids(ids)),
        }
    }

    fn above(trees: Vec<Self>) -> Self {
        Self {
            len: length(&trees),
            label: trees.first().map_or(FIRST, |first| first.label),
            items: Arc::new(Items::Trees(trees)),
        }
    }

    /// The leaf that has an index; the last leaf for the end of the list.
    pub(super) fn leaf_at(&self, index: usize) -> Leaf<'_> {
        self.descend(|trees, start| branch(trees, index - start))
    }

    /// The last leaf whose label is not greater, or the first leaf.
    pub(super) fn leaf_labelled(&self, label: u64) -> Leaf<'_> {
        self.descend(|trees, _| {
            let behind = trees.partition_point(|tree| tree.label <= label);
            let nth = behind.saturating_sub(1);
            (nth, length(&trees[..nth]))
        })
    }

    /// The leaf to which `choose` leads. It gets the children of a node and the index of the first
    /// id, and returns which child, and how many ids are before it.
    fn descend(&self, choose: impl Fn(&[Self], usize) -> (usize, usize)) -> Leaf<'_> {
        let (mut tree, mut start) = (self, 0);
        loop {
            step();
            match &*tree.items {
                Items::Ids(ids) => {
                    let label = tree.label;
                    return Leaf { start, label, ids };
                }
                Items::Trees(trees) => {
                    let (nth, before) = choose(trees, start);
                    (tree, start) = (&trees[nth], start + before);
                }
            }
        }
    }

    /// Calls `found` for each leaf, from first to last.
    pub(super) fn each_leaf<'t>(&'t self, mut found: impl FnMut(&Leaf<'t>)) {
        let mut start = 0;
        while start < self.len {
            let leaf = self.leaf_at(start);
            found(&leaf);
            start = leaf.indexes().end;
        }
    }

    /// How many ids at the start or at the end are in nodes that two trees share.
    pub(super) fn shared_ids(&self, other: &Self, at_end: bool) -> usize {
        step();
        if Arc::ptr_eq(&self.items, &other.items) {
            return self.len;
        }
        let (one, two) = (self.items.trees(), other.items.trees());
        let outer = |trees: &[Self]| if at_end { trees.last() } else { trees.first() }.cloned();
        match self.depth().cmp(&other.depth()) {
            Ordering::Greater => return outer(one).map_or(0, |it| it.shared_ids(other, at_end)),
            Ordering::Less => return outer(two).map_or(0, |it| self.shared_ids(&it, at_end)),
            Ordering::Equal => {}
        }
        let mut shared = 0;
        for nth in 0..one.len().min(two.len()) {
            let of = |trees: &[Self]| if at_end { trees.len() - 1 - nth } else { nth };
            let (one, two) = (&one[of(one)], &two[of(two)]);
            let ids = one.shared_ids(two, at_end);
            shared += ids;
            if ids < one.len.max(two.len) {
                break;
            }
        }
        shared
    }

    /// Inserts an id before an index, or at the end.
    pub(super) fn insert(&mut self, index: usize, id: NodeId) {
        let mut insertion = Insertion {
            at_end: index == self.len,
            at_start: index == 0,
            crowded: false,
        };
        if let Some(right) = self.insert_below(index, id, u64::MAX, &mut insertion) {
            self.grow(right);
        }
        if insertion.crowded {
            self.spread(&mut FIRST.clone(), GAP);
        }
    }

    /// Puts a tree behind this one, of the same depth.
    fn grow(&mut self, right: Self) {
        let left = self.clone();
        *self = Self::above(vec![left, right]);
    }

    /// Inserts an id. Returns the second part if the node had too many items. All labels are less
    /// than `bound`.
    fn insert_below(
        &mut self,
        index: usize,
        id: NodeId,
        bound: u64,
        insertion: &mut Insertion,
    ) -> Option<Self> {
        match Arc::make_mut(&mut self.items) {
            Items::Ids(ids) if ids.len() == MOST && insertion.at_start => {
                // The leaf keeps its label, and a new one before it gets another.
                let new = Self::leaf(vec![id], self.label.saturating_sub(GAP));
                let right = std::mem::replace(self, new);
                insertion.crowded = self.label == right.label;
                Some(right)
            }
            Items::Ids(ids) => {
                ids.insert(index, id);
                let right = overflow(ids, MOST, insertion.at_end);
                self.len = ids.len();
                let free = (bound - self.label) / 2;
                let right = right.map(|ids| Self::leaf(ids, self.label + free.min(GAP)));
                insertion.crowded = right.is_some() && free == 0;
                right
            }
            Items::Trees(trees) => {
                let (nth, before) = branch(trees, index);
                let next = trees.get(nth + 1).map_or(bound, |next| next.label);
                if let Some(right) = trees[nth].insert_below(index - before, id, next, insertion) {
                    trees.insert(nth + 1, right);
                }
                let right = overflow(trees, BRANCHES, insertion.at_end).map(Self::above);
                self.summarize();
                if insertion.crowded && right.is_none() {
                    insertion.crowded = !self.makes_room(bound);
                }
                right
            }
        }
    }

    /// Computes what it says about its children.
    fn summarize(&mut self) {
        if let Items::Trees(trees) = &*self.items
            && let Some(first) = trees.first()
        {
            (self.len, self.label) = (length(trees), first.label);
        }
    }

    /// Spreads the labels of its leaves, if that leaves enough room between them.
    fn makes_room(&mut self, bound: u64) -> bool {
        let distance = (bound - self.label) / self.leaves() as u64;
        if distance >= SPREAD {
            self.spread(&mut self.label.clone(), distance.min(GAP));
        }
        distance >= SPREAD
    }

    /// How many levels are below it.
    pub(crate) fn depth(&self) -> usize {
        let mut below = std::iter::successors(Some(self), |tree| tree.items.trees().first());
        below.by_ref().skip(1).count()
    }

    pub(super) fn leaves(&self) -> usize {
        match &*self.items {
            Items::Ids(_) => 1,
            Items::Trees(trees) => trees.iter().map(Self::leaves).sum(),
        }
    }

    /// Gives its leaves labels of this distance.
    fn spread(&mut self, next: &mut u64, distance: u64) {
        step();
        self.label = *next;
        if let Items::Ids(_) = &*self.items {
            *next = next.saturating_add(distance);
        } else if let Items::Trees(trees) = Arc::make_mut(&mut self.items) {
            let trees = trees.iter_mut();
            trees.for_each(|tree| tree.spread(next, distance));
        }
    }

    /// Removes the id at an index within the list. The tree may be empty afterwards.
    pub(super) fn remove(&mut self, index: usize) {
        self.remove_below(index);
        self.lower();
    }

    fn remove_below(&mut self, index: usize) {
        self.len -= 1;
        match Arc::make_mut(&mut self.items) {
            Items::Ids(ids) => drop(ids.remove(index)),
            Items::Trees(trees) => {
                let (nth, before) = branch(trees, index);
                trees[nth].remove_below(index - before);
                if trees[nth].len == 0 {
                    trees.remove(nth);
                } else {
                    join(trees, nth);
                }
                self.summarize();
            }
        }
    }

    /// Removes the ids from an index within the list on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.truncate_below(len);
        self.lower();
    }

    fn truncate_below(&mut self, len: usize) {
        match Arc::make_mut(&mut self.items) {
            Items::Ids(ids) => ids.truncate(len),
            Items::Trees(trees) => {
                let (nth, before) = branch(trees, len);
                trees.truncate(nth + 1);
                match len == before {
                    true => drop(trees.pop()),
                    false => trees[nth].truncate_below(len - before),
                }
            }
        }
        self.len = len;
    }

    /// Makes the only child of the root the root.
    fn lower(&mut self) {
        while let Items::Trees(trees) = &*self.items
            && let [only] = trees.as_slice()
        {
            *self = only.clone();
        }
    }

    /// Appends the ids of a leaf.
    pub(super) fn append(&mut self, ids: &[NodeId]) {
        let last = self.leaf_at(self.len);
        match last.ids.len() + ids.len() <= MOST {
            true => self.extend(ids),
            false => {
                let leaf = Self::leaf(ids.to_vec(), last.label.saturating_add(GAP));
                if let Some(right) = self.push(leaf) {
                    self.grow(right);
                }
            }
        }
    }

    /// Appends ids to its last leaf.
    fn extend(&mut self, more: &[NodeId]) {
        self.len += more.len();
        match Arc::make_mut(&mut self.items) {
            Items::Ids(ids) => ids.extend_from_slice(more),
            Items::Trees(trees) => {
                if let Some(last) = trees.last_mut() {
                    last.extend(more);
                }
            }
        }
    }

    /// Appends a leaf. Returns the second part if the node had too many items.
    fn push(&mut self, leaf: Self) -> Option<Self> {
        let Items::Trees(trees) = Arc::make_mut(&mut self.items) else {
            return Some(leaf);
        };
        if let Some(right) = trees.last_mut().and_then(|last| last.push(leaf)) {
            trees.push(right);
        }
        let right = overflow(trees, BRANCHES, true).map(Self::above);
        self.summarize();
        right
    }
}

/// The number of ids.
fn length(trees: &[Tree]) -> usize {
    trees.iter().map(|tree| tree.len).sum()
}

/// The tree that has an index, or the last one, and the number of ids before it.
fn branch(trees: &[Tree], index: usize) -> (usize, usize) {
    let (mut nth, mut before) = (0, 0);
    while nth + 1 < trees.len() && index >= before + trees[nth].len {
        before += trees[nth].len;
        nth += 1;
    }
    (nth, before)
}

/// Splits off the second half if there are too many, or the last one alone, because more follow it.
fn overflow<T>(items: &mut Vec<T>, most: usize, at_end: bool) -> Option<Vec<T>> {
    let at = match at_end {
        true => most,
        false => items.len() / 2,
    };
    (items.len() > most).then(|| items.split_off(at))
}

/// Makes one of a small node and a neighbour, if they are at most half full together. So the number
/// of nodes stays a fraction of the number of ids.
fn join(trees: &mut Vec<Tree>, nth: usize) {
    let (small, most) = match &*trees[nth].items {
        Items::Ids(ids) => (ids.len(), MOST),
        Items::Trees(below) => (below.len(), BRANCHES),
    };
    if small >= most / 4 {
        return;
    }
    let fits = |at: usize| {
        let neighbour = trees.get(at)?;
        (small + neighbour.items.len() <= most / 2).then_some(at)
    };
    let first = nth.checked_sub(1).and_then(fits);
    let Some(first) = first.or(fits(nth + 1).map(|_| nth)) else {
        return;
    };
    let second = trees.remove(first + 1);
    let first = &mut trees[first];
    first.len += second.len;
    match (
        Arc::make_mut(&mut first.items),
        Arc::unwrap_or_clone(second.items),
    ) {
        (Items::Ids(ids), Items::Ids(more)) => ids.extend(more),
        (Items::Trees(trees), Items::Trees(more)) => trees.extend(more),
        // All leaves have the same depth.
        _ => {}
    }
}

#[cfg(test)]
impl Tree {
    /// Checks what each node says, the depth of the leaves and the order of the labels.
    pub(super) fn assert_well_formed(&self) {
        let mut last = 0;
        self.check(&mut last);
    }

    fn check(&self, last: &mut u64) -> usize {
        match &*self.items {
            Items::Ids(ids) => {
                assert!((1..=MOST).contains(&ids.len()) && self.len == ids.len());
                assert!(self.label > *last, "{} after {last}", self.label);
                *last = self.label;
                0
            }
            Items::Trees(trees) => {
                assert!((1..=BRANCHES).contains(&trees.len()));
                assert_eq!((self.len, self.label), (length(trees), trees[0].label));
                let mut depths = trees.iter().map(|tree| tree.check(last));
                let depth = depths.next().unwrap_or_default();
                assert!(depths.all(|other| other == depth));
                depth + 1
            }
        }
    }
}
