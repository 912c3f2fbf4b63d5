//! The sizes of subtrees, as another editor counts them, so that its positions are found fast.
//!
//! A size changes with each letter, and with it those of all ancestors. So the sizes are in a table
//! beside the nodes, which is made when it is first needed. Each later version has the table of the
//! version before, with the ids of the nodes that changed since. The next use of the table counts
//! these nodes and their ancestors again. A document that needs no table has none.

mod sums;

use std::any::Any;
use std::collections::HashMap;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};

use super::touched::Touched;
use super::{Change, Children, Snapshot, View};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::node::Node;
use crate::steps::step;
use sums::ChildSizes;

/// How another editor counts positions.
pub trait Measure: Any + Clone + PartialEq + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// How much a node is larger than the sum of its children; `None` if its children are not
    /// counted one by one.
    fn around(&self, node: &Node) -> Option<usize>;

    /// The size of a node whose children are not counted one by one. It depends on these children,
    /// but on no deeper descendant. `None` if it cannot be counted.
    fn whole<V: View>(&self, view: &V, node: &Node) -> Option<usize>;
}

/// The size of a node that cannot be counted, and of all nodes around it.
const UNKNOWN: usize = usize::MAX;

/// The least number of changed nodes that a version keeps before it forgets the sizes.
const PENDING: usize = 1024;

/// The sizes of the nodes under one root.
#[derive(Clone)]
pub struct Sizes {
    measure: Arc<dyn Any + Send + Sync + UnwindSafe + RefUnwindSafe>,
    root: NodeId,
    /// The children of each node under the root that has counted children.
    table: im::HashMap<NodeId, Arc<ChildSizes>, Secret>,
    /// The nodes that changed since.
    pending: im::Vector<NodeId>,
    /// The same without pending nodes.
    settled: OnceLock<Arc<Sizes>>,
}

/// A child, and the sizes of the children before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizedChild {
    /// Its index.
    pub index: usize,
    /// The sum of the sizes before it.
    pub before: usize,
    /// Its size; `None` if it cannot be counted, or if it is behind the last child.
    pub size: Option<usize>,
}

/// A node that changed, or an ancestor of one.
struct Affected {
    id: NodeId,
    /// The place of its parent in the list, if it is not the root.
    parent: Option<usize>,
    /// Whether it is under the root.
    inside: bool,
    /// The children whose sizes may have changed.
    children: Vec<(NodeId, usize)>,
}

impl Sizes {
    /// Counts all nodes under a root.
    pub fn new<M: Measure>(view: &impl View, root: &NodeId, measure: &M) -> Self {
        let mut sizes = Self {
            measure: Arc::new(measure.clone()),
            root: root.clone(),
            table: im::HashMap::default(),
            pending: im::Vector::new(),
            settled: OnceLock::new(),
        };
        sizes.add(view, root, measure);
        sizes
    }

    /// Whether they are those of this root, as this measure counts.
    fn is_of<M: Measure>(&self, root: &NodeId, measure: &M) -> bool {
        let own: &dyn Any = &*self.measure;
        self.root == *root && own.downcast_ref() == Some(measure)
    }

    /// The sizes in the version that they belong to.
    fn settled<M: Measure>(self: &Arc<Self>, view: &impl View, measure: &M) -> Arc<Self> {
        match self.pending.is_empty() {
            true => Arc::clone(self),
            false => Arc::clone(self.settled.get_or_init(|| {
                let pending = &self.pending;
                Arc::new(self.after(view, measure, pending.iter()))
            })),
        }
    }

    /// The sizes after a change of these nodes, apart from the pending ones.
    fn after<'i, M: Measure>(
        &self,
        view: &impl View,
        measure: &M,
        changed: impl Iterator<Item = &'i NodeId>,
    ) -> Self {
        let mut sizes = Self {
            pending: im::Vector::new(),
            settled: OnceLock::new(),
            ..self.clone()
        };
        sizes.follow(view, measure, changed);
        sizes
    }

    /// Notes changed nodes. They are the same afterwards, without what makes them up to date.
    fn change(self: Arc<Self>, changed: impl Iterator<Item = NodeId>) -> Arc<Self> {
        let mut sizes = match self.settled.get().cloned() {
            Some(settled) => {
                drop(self);
                settled
            }
            None => self,
        };
        let own = Arc::make_mut(&mut sizes);
        own.settled = OnceLock::new();
        own.pending.extend(changed);
        sizes
    }

    // --- Questions ---

    /// The sum of the sizes of the children of a node with counted children; `None` if it has none
    /// or some cannot be counted.
    pub fn content(&self, node: &NodeId) -> Option<usize> {
        let content = self.table.get(node)?.total();
        (content < UNKNOWN).then_some(content)
    }

    /// The first child of a node with counted children that ends behind an offset, or the end of
    /// the children.
    pub fn child_at(&self, node: &NodeId, offset: usize) -> Option<SizedChild> {
        Some(self.table.get(node)?.child_at(offset))
    }

    /// The sum of the sizes before a child of a node with counted children; `None` if it has none
    /// or one of them cannot be counted.
    pub fn before(&self, node: &NodeId, index: usize) -> Option<usize> {
        let before = self.table.get(node)?.before(index);
        (before < UNKNOWN).then_some(before)
    }

    /// The size of a node.
    fn size_of<M: Measure>(&self, view: &impl View, measure: &M, id: &NodeId) -> Result<usize, ()> {
        step();
        let Some(node) = view.glimpse(id) else {
            return Ok(UNKNOWN);
        };
        match measure.around(node) {
            Some(around) => match self.table.get(id) {
                Some(children) => Ok(children.total().saturating_add(around)),
                None => Err(()),
            },
            None => Ok(measure.whole(view, node).unwrap_or(UNKNOWN)),
        }
    }

    // --- Changes ---

    /// Counts a node and its descendants, as far as they are not counted.
    fn add<M: Measure>(&mut self, view: &impl View, top: &NodeId, measure: &M) {
        let mut ahead = vec![(top.clone(), false)];
        while let Some((id, are_children_counted)) = ahead.pop() {
            step();
            let node = view.glimpse(&id);
            let node = node.filter(|node| measure.around(node).is_some());
            let Some(node) = node.filter(|_| !self.table.contains_key(&id)) else {
                continue;
            };
            if are_children_counted {
                let sizes = ChildSizes::new(node.children(), |child| {
                    self.size_of(view, measure, child).unwrap_or(UNKNOWN)
                });
                self.table.insert(id, Arc::new(sizes));
                continue;
            }
            ahead.push((id, true));
            let children = node.children().iter();
            let counted = children.filter(|id| {
                let child = view.glimpse(id);
                child.is_some_and(|child| measure.around(child).is_some())
            });
            ahead.extend(counted.map(|id| (id.clone(), false)));
        }
    }

    /// Counts nodes that changed, and their ancestors, again.
    fn follow<'i, M: Measure>(
        &mut self,
        view: &impl View,
        measure: &M,
        changed: impl Iterator<Item = &'i NodeId>,
    ) {
        let mut affected = self.affected(view, changed);
        // A node is before its descendants in the list.
        while let Some(at) = affected.pop() {
            step();
            let node = view.glimpse(&at.id);
            let around = node.and_then(|node| measure.around(node));
            let (Some(node), Some(around), true) = (node, around, at.inside) else {
                self.table.remove(&at.id);
                if let (Some(node), Some(parent), true) = (node, at.parent, at.inside) {
                    let size = measure.whole(view, node).unwrap_or(UNKNOWN);
                    affected[parent].children.push((at.id, size));
                }
                continue;
            };
            let mut sizes = self.children(view, measure, &at.id, node.children());
            for (id, size) in at.children {
                let child = view.glimpse(&id);
                let index = child.and_then(|child| node.children().index_of(view, child));
                if let Some(index) = index {
                    sizes.set(index, size);
                }
            }
            if let Some(parent) = at.parent {
                let size = sizes.total().saturating_add(around);
                affected[parent].children.push((at.id.clone(), size));
            }
            self.table.insert(at.id, Arc::new(sizes));
        }
    }

    /// The sizes of the current children of a node. Those that were there have the size that they
    /// had.
    fn children<M: Measure>(
        &mut self,
        view: &impl View,
        measure: &M,
        id: &NodeId,
        children: &Children,
    ) -> ChildSizes {
        let before = self.table.get(id).map(Arc::clone);
        if let Some(before) = &before
            && before.is_of(children)
        {
            return ChildSizes::clone(before);
        }
        // A child that is new here may have descendants that were never counted.
        loop {
            let mut uncounted = Vec::new();
            let size = |child: &NodeId| {
                let size = self.size_of(view, measure, child);
                size.unwrap_or_else(|()| {
                    uncounted.push(child.clone());
                    UNKNOWN
                })
            };
            let sizes = match &before {
                Some(before) => before.follow(children, size),
                None => ChildSizes::new(children, size),
            };
            if uncounted.is_empty() {
                return sizes;
            }
            for child in uncounted {
                self.add(view, &child, measure);
            }
        }
    }

    /// The changed nodes and their ancestors, each behind its parent. Forgets nodes that are gone.
    fn affected<'i>(
        &mut self,
        view: &impl View,
        changed: impl Iterator<Item = &'i NodeId>,
    ) -> Vec<Affected> {
        let mut places: HashMap<&NodeId, usize, Secret> = HashMap::default();
        let mut affected: Vec<Affected> = Vec::new();
        for id in changed {
            if view.glimpse(id).is_none() {
                self.table.remove(id);
                continue;
            }
            let mut path = Vec::new();
            let mut at = view.glimpse(id);
            let known = loop {
                let Some(node) = at else { break None };
                step();
                if let Some(&place) = places.get(node.id()) {
                    break Some(place);
                }
                path.push(node.id());
                if *node.id() == self.root {
                    break None;
                }
                at = node.parent().and_then(|parent| view.glimpse(parent));
            };
            let inside = match known {
                Some(place) => affected[place].inside,
                None => path.last() == Some(&&self.root),
            };
            let mut parent = known;
            for id in path.into_iter().rev() {
                let place = affected.len();
                affected.push(Affected {
                    id: id.clone(),
                    parent,
                    inside,
                    children: Vec::new(),
                });
                places.insert(id, place);
                parent = Some(place);
            }
        }
        affected
    }
}

/// The sizes that a version has, if they were needed.
#[derive(Clone, Default)]
pub(super) struct KeptSizes(OnceLock<Arc<Sizes>>);

impl KeptSizes {
    /// The sizes of this version; `None` if it keeps those of another root or measure.
    pub(super) fn get<M: Measure>(
        &self,
        version: &Snapshot,
        root: &NodeId,
        measure: &M,
    ) -> Option<Arc<Sizes>> {
        let count = || Arc::new(Sizes::new(version, root, measure));
        let kept = self.0.get_or_init(count);
        let kept = kept.is_of(root, measure).then_some(kept)?;
        Some(kept.settled(version, measure))
    }

    /// Whether they were needed.
    pub(super) fn are_known(&self) -> bool {
        self.0.get().is_some()
    }

    /// Makes them those of the next version, in which these nodes differ. Those of the transaction
    /// are newer. Returns what is not kept, which may take long to drop.
    #[cold]
    #[inline(never)]
    pub(super) fn advance(
        &mut self,
        of_draft: Option<Arc<DraftSizes>>,
        nodes: usize,
        touched: &Touched,
    ) -> Option<Arc<DraftSizes>> {
        let before = self.0.take();
        let (sizes, replaced) = match of_draft {
            Some(newer) => (Arc::clone(&newer.sizes), before),
            None => (before?, None),
        };
        let sizes = sizes.change(touched.ids().cloned());
        let replaced = match sizes.pending.len() > PENDING.max(nodes / 8) {
            true => Some(sizes),
            false => {
                self.0 = OnceLock::from(sizes);
                replaced
            }
        };
        replaced.map(|sizes| Arc::new(DraftSizes { sizes, changes: 0 }))
    }
}

/// The sizes that a transaction has needed, and how many of its changes they include.
#[derive(Clone, Debug)]
pub(super) struct DraftSizes {
    pub(super) sizes: Arc<Sizes>,
    changes: usize,
}

impl DraftSizes {
    /// The sizes after all changes of a transaction.
    pub(super) fn get<M: Measure>(
        draft: &impl View,
        base: (&Snapshot, &KeptSizes),
        changes: &[Change],
        before: Option<&Self>,
        (root, measure): (&NodeId, &M),
    ) -> Self {
        let (base, kept) = base;
        let before = before.filter(|before| before.sizes.is_of(root, measure));
        let before = before.cloned().or_else(|| {
            let is_known = base.contains(root);
            let sizes = is_known.then(|| kept.get(base, root, measure)).flatten()?;
            Some(Self { sizes, changes: 0 })
        });
        let all = changes.len();
        let sizes = match before {
            None => Arc::new(Sizes::new(draft, root, measure)),
            Some(before) if before.changes == all => before.sizes,
            Some(before) => {
                let mut changed = Vec::new();
                for change in &changes[before.changes..] {
                    change.each_stored_node(|id| changed.push(id), |_| {});
                }
                Arc::new(before.sizes.after(draft, measure, changed.into_iter()))
            }
        };
        Self {
            sizes,
            changes: all,
        }
    }
}

impl std::fmt::Debug for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sizes")
            .field("root", &self.root)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}
