//! The children of a node, in order.

mod tree;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use super::{Node, View};
use crate::id::NodeId;
use crate::steps::{step, steps};
pub(crate) use tree::{Items, Tree};
use tree::{Leaf, MOST};

/// The ids of a node's children, in order.
///
/// A persistent list. More than 64 ids are a balanced tree: access by index, adding and removing a
/// child take logarithmic time.
#[derive(Clone, Default)]
pub struct Children(Option<Arc<List>>);

/// A list of at least one id.
#[derive(Clone)]
enum List {
    /// Up to [`MOST`] ids.
    Few(SmallVec<[NodeId; 3]>),
    /// More than half of that, in a tree of at least two leaves.
    Many { tree: Tree, hint: LookupHint },
}

/// Where a child was found last. Only a hint: operations on many siblings look them up in order.
#[derive(Default)]
struct LookupHint(AtomicUsize);

impl Clone for LookupHint {
    fn clone(&self) -> Self {
        Self(AtomicUsize::new(self.0.load(Ordering::Relaxed)))
    }
}

impl LookupHint {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, index: usize) {
        self.0.store(index, Ordering::Relaxed);
    }
}

/// Where a node is among the children of its parent: the label of its leaf, or zero. Only a hint.
///
/// It is found again by this label, see [`Tree`]. Versions share it with the node, and each of them
/// can use it. A label is of no use after many leaves were split or their labels were spread again;
/// then the search of the neighbours corrects it, and those of all nodes that it passes.
#[derive(Default)]
pub(super) struct PlaceHint(AtomicU64);

impl PlaceHint {
    fn get(&self) -> Option<u64> {
        let label = self.0.load(Ordering::Relaxed);
        (label != 0).then_some(label)
    }

    fn set(&self, label: u64) {
        self.0.store(label, Ordering::Relaxed);
    }
}

impl Clone for PlaceHint {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

/// A hint is no part of what a node says.
impl PartialEq for PlaceHint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PlaceHint {}

fn position_in(ids: &[NodeId], child: &NodeId) -> Option<usize> {
    let found = ids.iter().position(|one| one == child);
    steps(found.map_or(ids.len(), |at| at + 1));
    found
}

/// The index of a child, searched leaf by leaf in both directions from one leaf. Calls `passed` for
/// each leaf that it reads.
fn search<'t>(
    tree: &'t Tree,
    from: Leaf<'t>,
    child: &NodeId,
    mut passed: impl FnMut(&Leaf<'t>),
) -> Option<usize> {
    let Range {
        start: mut behind,
        end: mut ahead,
    } = from.indexes();
    let (mut leaf, mut turns_ahead) = (from, true);
    loop {
        passed(&leaf);
        if let Some(at) = position_in(leaf.ids, child) {
            return Some(leaf.start + at);
        }
        if ahead < tree.len && (turns_ahead || behind == 0) {
            leaf = tree.leaf_at(ahead);
            ahead = leaf.indexes().end;
        } else if behind > 0 {
            leaf = tree.leaf_at(behind - 1);
            behind = leaf.start;
        } else {
            return None;
        }
        turns_ahead = !turns_ahead;
    }
}

impl List {
    /// A list of these ids, or `None` without ids.
    fn of(ids: Vec<NodeId>) -> Option<Self> {
        match ids.len() {
            0 => None,
            few if few <= MOST => Some(Self::Few(ids.into())),
            _ => Some(Self::many(Tree::new(&ids))),
        }
    }

    fn many(tree: Tree) -> Self {
        Self::Many {
            tree,
            hint: LookupHint::default(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(ids) => ids.len(),
            Self::Many { tree, .. } => tree.len,
        }
    }

    /// The leaf that has an index; the last leaf for the end of the list.
    fn leaf_at(&self, index: usize) -> (usize, &[NodeId]) {
        match self {
            Self::Few(ids) => (0, ids),
            Self::Many { tree, .. } => {
                let leaf = tree.leaf_at(index);
                (leaf.start, leaf.ids)
            }
        }
    }

    fn insert(&mut self, index: usize, child: NodeId) {
        match self {
            Self::Few(ids) if ids.len() < MOST => ids.insert(index, child),
            Self::Few(ids) => {
                let mut tree = Tree::new(ids);
                tree.insert(index, child);
                *self = Self::many(tree);
            }
            Self::Many { tree, .. } => tree.insert(index, child),
        }
    }

    /// The result may be empty.
    fn remove(&mut self, index: usize) {
        match self {
            Self::Few(ids) => drop(ids.remove(index)),
            Self::Many { tree, .. } => tree.remove(index),
        }
        self.shrink();
    }

    /// The result may be empty.
    fn truncate(&mut self, len: usize) {
        match self {
            Self::Few(ids) => ids.truncate(len),
            Self::Many { tree, .. } if len > 0 => tree.truncate(len),
            Self::Many { .. } => *self = Self::Few(SmallVec::new()),
        }
        self.shrink();
    }

    /// Makes one leaf a short list.
    fn shrink(&mut self) {
        if let Self::Many { tree, .. } = self
            && let leaf = tree.leaf_at(0)
            && leaf.ids.len() == tree.len
        {
            *self = Self::Few(leaf.ids.into());
        }
    }

    /// Appends the ids of a leaf.
    fn append(&mut self, more: &[NodeId]) {
        match self {
            Self::Few(ids) if ids.len() + more.len() <= MOST => ids.extend(more.iter().cloned()),
            Self::Few(ids) => {
                let mut tree = Tree::new(ids);
                tree.append(more);
                *self = Self::many(tree);
            }
            Self::Many { tree, .. } => tree.append(more),
        }
    }
}

/// From first to last.
///
/// ```
/// use doclock::document::NodeSpec;
/// use doclock::{DataStore, View};
///
/// let mut transaction = DataStore::new().begin("ann")?;
/// let list = NodeSpec::new("list").with_children([NodeSpec::new("item"), NodeSpec::new("item")]);
/// let list = transaction.create(list)?;
/// for item in transaction.node(&list).unwrap().children() {
///     assert_eq!(transaction.parent(item), Some(&list));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'c> IntoIterator for &'c Children {
    type Item = &'c NodeId;
    type IntoIter = Box<dyn DoubleEndedIterator<Item = &'c NodeId> + 'c>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl Children {
    fn new(list: Option<List>) -> Self {
        Self(list.map(Arc::new))
    }

    /// Returns the number of children.
    pub fn len(&self) -> usize {
        self.0.as_deref().map_or(0, List::len)
    }

    /// Returns whether there are no children.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the child at an index.
    pub fn get(&self, index: usize) -> Option<&NodeId> {
        let list = self.0.as_deref()?;
        if index >= list.len() {
            return None;
        }
        let (start, ids) = list.leaf_at(index);
        ids.get(index - start)
    }

    /// Iterates over the children from first to last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &NodeId> {
        self.range(0..self.len())
    }

    /// Iterates over the children in a range of indexes, as far as there are any. Takes logarithmic
    /// time to begin.
    pub fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = &NodeId> {
        let list = self.0.as_deref();
        let end = range.end.min(self.len());
        let ahead = range.start.min(end)..end;
        Iter {
            list,
            ahead,
            front: Default::default(),
            back: Default::default(),
        }
    }

    /// Returns the index of a child. It searches linearly; in long lists, in both directions from
    /// the last child that was found. [`View::index_in_parent`] is faster.
    pub fn position(&self, child: &NodeId) -> Option<usize> {
        match self.0.as_deref()? {
            List::Few(ids) => position_in(ids, child),
            List::Many { tree, hint } => {
                let from = tree.leaf_at(hint.get().min(tree.len));
                let index = search(tree, from, child, |_| {})?;
                hint.set(index);
                Some(index)
            }
        }
    }

    /// The index of a child, found where it was last, in logarithmic time. A search that this does
    /// not save also notes where the nodes are that it passes.
    pub(super) fn index_of<V: View>(&self, view: &V, child: &Node) -> Option<usize> {
        let tree = match self.0.as_deref()? {
            List::Few(ids) => return position_in(ids, &child.id),
            List::Many { tree, .. } => tree,
        };
        let note = |leaf: &Leaf<'_>| {
            let nodes = leaf.ids.iter().filter_map(|id| view.glimpse(id));
            nodes.for_each(|node| node.place.set(leaf.label));
        };
        if child.place.get().is_none() {
            // Nor are the others noted.
            tree.each_leaf(note);
        }
        let from = tree.leaf_labelled(child.place.get().unwrap_or_default());
        if let Some(at) = position_in(from.ids, &child.id) {
            return Some(from.start + at);
        }
        let index = search(tree, from, &child.id, note)?;
        child.place.set(tree.leaf_at(index).label);
        Some(index)
    }

    /// Notes in a node where it is: at this index.
    pub(super) fn note_place(&self, node: &Node, index: usize) {
        let tree = self.tree();
        let label = tree.map_or(0, |tree| tree.leaf_at(index).label);
        node.place.set(label);
    }

    /// The tree of a long list.
    pub(super) fn tree(&self) -> Option<&Tree> {
        match self.0.as_deref()? {
            List::Few(_) => None,
            List::Many { tree, .. } => Some(tree),
        }
    }

    /// Whether both are the same list in memory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// How many ids at the start, and how many of the others at the end, two lists have in common.
    /// Reads what differs, and not the parts that they share.
    #[doc(hidden)]
    pub fn common_ends(&self, other: &Self) -> (usize, usize) {
        if self.is_same(other) {
            return (self.len(), 0);
        }
        let trees = self.tree().zip(other.tree());
        let shared = |at_end| trees.map_or(0, |(one, other)| one.shared_ids(other, at_end));
        let least = self.len().min(other.len());
        let mut start = shared(false);
        let pairs = self.range(start..least).zip(other.range(start..least));
        start += pairs.take_while(|(one, other)| one == other).count();
        let rest = least - start;
        let mut end = shared(true).min(rest);
        let behind = |list: &Self| start..list.len() - end;
        let (one, other) = (self.range(behind(self)), other.range(behind(other)));
        let pairs = one.rev().zip(other.rev()).take(rest - end);
        end += pairs.take_while(|(one, other)| one == other).count();
        (start, end)
    }

    /// The caller has checked that the index is at most the length.
    pub(super) fn insert(&mut self, index: usize, child: NodeId) {
        match &mut self.0 {
            Some(list) => Arc::make_mut(list).insert(index, child),
            None => *self = Self::new(List::of(vec![child])),
        }
    }

    /// Splits off the children from `index` on. The caller has checked the index.
    pub(super) fn split_off(&mut self, index: usize) -> Self {
        let behind = self.range(index..self.len()).cloned().collect();
        self.edit(|list| list.truncate(index));
        behind
    }

    /// Appends other children.
    pub(super) fn append(&mut self, other: &Self) {
        if self.0.is_none() {
            *self = other.clone();
            return;
        }
        self.edit(|list| match other.0.as_deref() {
            None => {}
            Some(List::Few(ids)) => list.append(ids),
            Some(List::Many { tree, .. }) => tree.each_leaf(|leaf| list.append(leaf.ids)),
        });
    }

    /// The caller has checked that the index is within the list.
    pub(super) fn remove(&mut self, index: usize) {
        self.edit(|list| list.remove(index));
    }

    /// Changes a list, which may be empty afterwards.
    fn edit(&mut self, edit: impl FnOnce(&mut List)) {
        if let Some(list) = &mut self.0 {
            let list = Arc::make_mut(list);
            edit(list);
            if list.len() == 0 {
                self.0 = None;
            }
        }
    }
}

/// An iterator over children, leaf by leaf.
struct Iter<'c> {
    list: Option<&'c List>,
    /// The indexes of the children that are neither in `front` nor in `back`.
    ahead: Range<usize>,
    front: std::slice::Iter<'c, NodeId>,
    back: std::slice::Iter<'c, NodeId>,
}

impl<'c> Iterator for Iter<'c> {
    type Item = &'c NodeId;

    fn next(&mut self) -> Option<&'c NodeId> {
        loop {
            if let Some(id) = self.front.next() {
                step();
                return Some(id);
            }
            if self.ahead.is_empty() {
                return self.back.next();
            }
            let (start, ids) = self.list?.leaf_at(self.ahead.start);
            let end = ids.len().min(self.ahead.end - start);
            self.front = ids[self.ahead.start - start..end].iter();
            self.ahead.start = start + end;
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.front.len() + self.ahead.len() + self.back.len();
        (len, Some(len))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(id) = self.back.next_back() {
                step();
                return Some(id);
            }
            if self.ahead.is_empty() {
                return self.front.next_back();
            }
            let (start, ids) = self.list?.leaf_at(self.ahead.end - 1);
            let from = start.max(self.ahead.start);
            self.back = ids[from - start..self.ahead.end - start].iter();
            self.ahead.end = from;
        }
    }
}

impl PartialEq for Children {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) if Arc::ptr_eq(one, other) => true,
            _ => self.len() == other.len() && self.iter().eq(other.iter()),
        }
    }
}

impl Eq for Children {}

impl FromIterator<NodeId> for Children {
    fn from_iter<I: IntoIterator<Item = NodeId>>(ids: I) -> Self {
        Self::new(List::of(ids.into_iter().inspect(|_| step()).collect()))
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Children {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Children {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<NodeId>::deserialize(deserializer).map(Self::from_iter)
    }
}

#[cfg(test)]
mod tests;
