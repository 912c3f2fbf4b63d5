//! The children of a node, in order.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use crate::id::NodeId;
use crate::steps::{step, steps};

/// The most ids of a leaf.
const MOST: usize = 64;

/// The ids of a node's children, in order.
///
/// A persistent list of leaves of up to 64 ids. Adding or removing a child copies its leaf and a
/// logarithmic number of inner nodes. Access by index reads the length of each leaf between it and
/// the last access, or of each earlier leaf.
#[derive(Clone, Default)]
pub struct Children(Option<Arc<List>>);

/// A list of at least one id.
#[derive(Clone)]
enum List {
    /// Up to [`MOST`] ids.
    Few(SmallVec<[NodeId; 3]>),
    /// At least two leaves, none of them empty.
    Many {
        leaves: im::Vector<Leaf>,
        len: usize,
        hint: LookupHint,
        near: LeafHint,
    },
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

/// The leaf of the last access by index, and the index of its first id. Both are right, in one
/// number, because other threads access the same list.
#[derive(Default)]
struct LeafHint(AtomicU64);

impl Clone for LeafHint {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl LeafHint {
    /// How many leaves are passed before all are counted.
    const LEAVES: usize = 8;

    fn get(&self) -> (usize, usize) {
        let both = self.0.load(Ordering::Relaxed);
        ((both >> 32) as usize, both as u32 as usize)
    }

    fn set(&self, nth: usize, start: usize) {
        let [nth, start] = [nth, start].map(|part| u32::try_from(part).ok());
        if let (Some(nth), Some(start)) = (nth, start) {
            let both = u64::from(nth) << 32 | u64::from(start);
            self.0.store(both, Ordering::Relaxed);
        }
    }

    /// The first leaf, because the leaves before that of the last access have changed.
    fn reset(&mut self) {
        *self.0.get_mut() = 0;
    }
}

#[derive(Clone)]
struct Leaf {
    /// Next to the pointer, so a sum of lengths reads no other memory.
    len: usize,
    ids: Arc<Vec<NodeId>>,
}

impl Leaf {
    fn new(ids: Vec<NodeId>) -> Self {
        Self {
            len: ids.len(),
            ids: Arc::new(ids),
        }
    }

    fn edit<R>(&mut self, edit: impl FnOnce(&mut Vec<NodeId>) -> R) -> R {
        let ids = Arc::make_mut(&mut self.ids);
        let result = edit(ids);
        self.len = ids.len();
        result
    }
}

/// The position of an index: the leaf, and the index in that leaf. The end of the list is the end
/// of the last leaf.
fn find(leaves: &im::Vector<Leaf>, len: usize, near: &LeafHint, index: usize) -> (usize, usize) {
    // Most indexes are at an end.
    if let Some(last) = leaves.last()
        && index >= len - last.len
    {
        return (leaves.len() - 1, index - (len - last.len));
    }
    let (mut nth, mut start) = near.get();
    for _ in 0..LeafHint::LEAVES {
        let leaf = match index < start {
            true => nth.checked_sub(1),
            false => Some(nth),
        };
        let Some((at, leaf)) = leaf.and_then(|at| Some((at, leaves.get(at)?))) else {
            break;
        };
        if at < nth {
            (nth, start) = (at, start - leaf.len);
        } else if index < start + leaf.len {
            near.set(nth, start);
            return (nth, index - start);
        } else {
            (nth, start) = (nth + 1, start + leaf.len);
        }
    }
    let (mut nth, mut before) = (0, 0);
    for chunk in leaves.leaves() {
        for leaf in chunk {
            if index < before + leaf.len {
                near.set(nth, before);
                return (nth, index - before);
            }
            nth += 1;
            before += leaf.len;
        }
    }
    (nth, 0)
}

fn position_in(ids: &[NodeId], child: &NodeId) -> Option<usize> {
    let found = ids.iter().position(|one| one == child);
    steps(found.map_or(ids.len(), |at| at + 1));
    found
}

/// The index of a child, searched leaf by leaf in both directions from an index.
fn search(
    leaves: &im::Vector<Leaf>,
    len: usize,
    near: &LeafHint,
    from: usize,
    child: &NodeId,
) -> Option<usize> {
    let from = from.min(len - 1);
    let (nth, at) = find(leaves, len, near, from);
    // The next leaf in each direction, with the beginning of one and the end of the other.
    let (mut next, mut ahead) = (nth, from - at);
    let (mut previous, mut behind) = (nth.checked_sub(1), from - at);
    loop {
        let after = leaves.get(next);
        if let Some(leaf) = after {
            if let Some(at) = position_in(&leaf.ids, child) {
                return Some(ahead + at);
            }
            next += 1;
            ahead += leaf.len;
        }
        let before = previous.and_then(|previous| leaves.get(previous));
        if let Some(leaf) = before {
            behind -= leaf.len;
            if let Some(at) = position_in(&leaf.ids, child) {
                return Some(behind + at);
            }
            previous = previous.and_then(|previous| previous.checked_sub(1));
        }
        if after.is_none() && before.is_none() {
            return None;
        }
    }
}

impl List {
    /// A list of these ids, or `None` without ids.
    fn of(ids: Vec<NodeId>) -> Option<Self> {
        match ids.len() {
            0 => None,
            few if few <= MOST => Some(Self::Few(ids.into())),
            len => {
                let leaves = ids
                    .chunks(MOST)
                    .map(|ids| Leaf::new(ids.to_vec()))
                    .collect();
                Some(Self::many(leaves, len))
            }
        }
    }

    fn many(leaves: im::Vector<Leaf>, len: usize) -> Self {
        Self::Many {
            leaves,
            len,
            hint: LookupHint::default(),
            near: LeafHint::default(),
        }
    }

    /// A list of these leaves, none of them empty.
    fn of_leaves(leaves: im::Vector<Leaf>, len: usize) -> Option<Self> {
        match leaves.len() {
            0 | 1 => Self::of(
                leaves
                    .last()
                    .map_or_else(Vec::new, |leaf| leaf.ids.to_vec()),
            ),
            _ => Some(Self::many(leaves, len)),
        }
    }

    fn into_leaves(self) -> (im::Vector<Leaf>, usize) {
        match self {
            Self::Few(ids) => {
                let len = ids.len();
                (im::Vector::unit(Leaf::new(ids.into_vec())), len)
            }
            Self::Many { leaves, len, .. } => (leaves, len),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(ids) => ids.len(),
            Self::Many { len, .. } => *len,
        }
    }

    fn insert(&mut self, index: usize, child: NodeId) {
        match self {
            Self::Few(ids) if ids.len() < MOST => ids.insert(index, child),
            Self::Few(ids) => {
                let mut ids = std::mem::take(ids).into_vec();
                ids.insert(index, child);
                if let Some(list) = Self::of(ids) {
                    *self = list;
                }
            }
            Self::Many {
                leaves, len, near, ..
            } => {
                let (nth, at) = find(leaves, *len, near, index);
                *len += 1;
                let full = leaves.get(nth).is_none_or(|leaf| leaf.len == MOST);
                if full && index == 0 {
                    leaves.push_front(Leaf::new(vec![child]));
                    near.reset();
                } else if full && index + 1 == *len {
                    leaves.push_back(Leaf::new(vec![child]));
                } else if let Some(leaf) = leaves.get_mut(nth) {
                    let behind = leaf.edit(|ids| {
                        ids.insert(at, child);
                        full.then(|| ids.split_off(ids.len() / 2))
                    });
                    if let Some(behind) = behind {
                        leaves.insert(nth + 1, Leaf::new(behind));
                    }
                }
            }
        }
    }

    /// The result may be empty.
    fn remove(&mut self, index: usize) {
        match self {
            Self::Few(ids) => drop(ids.remove(index)),
            Self::Many {
                leaves, len, near, ..
            } => {
                let (nth, at) = find(leaves, *len, near, index);
                *len -= 1;
                let left = leaves.get_mut(nth).map_or(0, |leaf| {
                    leaf.edit(|ids| drop(ids.remove(at)));
                    leaf.len
                });
                if left < MOST / 4 {
                    near.reset();
                    // Merges small neighbours, so the number of leaves stays a fraction of the
                    // number of ids.
                    let [before, behind] = [nth.checked_sub(1), Some(nth + 1)].map(|at| {
                        let at = at?;
                        let len = leaves.get(at)?.len;
                        (left + len <= MOST / 2).then_some(at)
                    });
                    let first = before.or(behind.map(|_| nth));
                    if let Some(first) = first {
                        let second = leaves.remove(first + 1);
                        if let Some(leaf) = leaves.get_mut(first) {
                            leaf.edit(|ids| ids.extend_from_slice(&second.ids));
                        }
                    } else if left == 0 {
                        leaves.remove(nth);
                    }
                }
                if leaves.len() == 1
                    && let Some(list) = Self::of_leaves(std::mem::take(leaves), *len)
                {
                    *self = list;
                }
            }
        }
    }

    /// The ids before an index, and the ids after it.
    fn split(self, index: usize) -> [Option<Self>; 2] {
        let (mut leaves, len, near) = match self {
            Self::Few(ids) => {
                let mut ids = ids.into_vec();
                let behind = ids.split_off(index);
                return [Self::of(ids), Self::of(behind)];
            }
            Self::Many {
                leaves, len, near, ..
            } => (leaves, len, near),
        };
        let (nth, at) = find(&leaves, len, &near, index);
        let mut tail = leaves.split_off(nth);
        if at > 0
            && let Some(mut first) = tail.pop_front()
        {
            let behind = first.edit(|ids| ids.split_off(at));
            leaves.push_back(first);
            if !behind.is_empty() {
                tail.push_front(Leaf::new(behind));
            }
        }
        [
            Self::of_leaves(leaves, index),
            Self::of_leaves(tail, len - index),
        ]
    }

    fn append(self, other: Self) -> Option<Self> {
        let (mut leaves, len) = self.into_leaves();
        let (mut others, more) = other.into_leaves();
        if let (Some(last), Some(first)) = (leaves.last(), others.front())
            && last.len + first.len <= MOST
        {
            let mut ids = last.ids.to_vec();
            ids.extend_from_slice(&first.ids);
            leaves.pop_back();
            others.pop_front();
            leaves.push_back(Leaf::new(ids));
        }
        leaves.append(others);
        Self::of_leaves(leaves, len + more)
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

    /// Takes the list out to change it. Copies it if it is shared.
    fn take(&mut self) -> Option<List> {
        self.0.take().map(Arc::unwrap_or_clone)
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
        match self.0.as_deref()? {
            List::Few(ids) => ids.get(index),
            List::Many {
                leaves, len, near, ..
            } => {
                let (nth, at) = find(leaves, *len, near, index);
                leaves.get(nth)?.ids.get(at)
            }
        }
    }

    /// The leaves from first to last.
    fn leaves(&self) -> impl DoubleEndedIterator<Item = &[NodeId]> {
        let (few, many) = match self.0.as_deref() {
            None => (None, None),
            Some(List::Few(ids)) => (Some(ids.as_slice()), None),
            Some(List::Many { leaves, .. }) => (None, Some(leaves)),
        };
        let many = many.into_iter().flat_map(|leaves| leaves.iter());
        few.into_iter().chain(many.map(|leaf| leaf.ids.as_slice()))
    }

    /// Iterates over the children from first to last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &NodeId> {
        self.leaves().flatten().inspect(|_| step())
    }

    /// Returns the index of a child. It searches linearly; in long lists, in both directions from
    /// the last child that was found.
    pub fn position(&self, child: &NodeId) -> Option<usize> {
        match self.0.as_deref()? {
            List::Few(ids) => position_in(ids, child),
            List::Many {
                leaves,
                len,
                hint,
                near,
            } => {
                let index = search(leaves, *len, near, hint.get(), child)?;
                hint.set(index);
                Some(index)
            }
        }
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
        let Some(list) = self.take() else {
            return Self::default();
        };
        let [before, behind] = list.split(index).map(Self::new);
        *self = before;
        behind
    }

    /// Appends other children.
    pub(super) fn append(&mut self, other: &Self) {
        let Some(others) = other.0.as_deref() else {
            return;
        };
        *self = match self.take() {
            Some(list) => Self::new(list.append(others.clone())),
            None => other.clone(),
        };
    }

    /// The caller has checked that the index is within the list.
    pub(super) fn remove(&mut self, index: usize) {
        if let Some(list) = &mut self.0 {
            let list = Arc::make_mut(list);
            list.remove(index);
            if list.len() == 0 {
                self.0 = None;
            }
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
