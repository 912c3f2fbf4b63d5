//! The sizes of the children of one node, with their sums, in the shape of the list of children.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{SizedChild, UNKNOWN};
use crate::children::{Children, Items, Tree};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::steps::steps;

/// The sizes of children.
#[derive(Clone)]
pub(super) struct ChildSizes {
    /// The children that they belong to.
    children: Children,
    sums: Arc<Sums>,
}

/// The sizes of a part of the children, and their sum.
#[derive(Clone)]
struct Sums {
    total: usize,
    parts: Parts,
}

#[derive(Clone)]
enum Parts {
    /// Of a leaf, or of a short list.
    Sizes(Vec<usize>),
    Sums(Vec<Arc<Sums>>),
}

impl Parts {
    /// The sizes of the parts.
    fn size(&self, nth: usize) -> Option<usize> {
        match self {
            Self::Sizes(sizes) => sizes.get(nth).copied(),
            Self::Sums(sums) => sums.get(nth).map(|sums| sums.total),
        }
    }
}

impl Sums {
    fn new(parts: Parts) -> Self {
        let mut sums = Self { total: 0, parts };
        sums.add_up();
        sums
    }

    fn add_up(&mut self) {
        let sizes = (0..).map_while(|nth| self.parts.size(nth));
        self.total = sizes.fold(0, usize::saturating_add);
    }
}

impl ChildSizes {
    pub(super) fn new(children: &Children, mut size: impl FnMut(&NodeId) -> usize) -> Self {
        let sums = match children.tree() {
            None => {
                let sizes = children.iter().map(size);
                Arc::new(Sums::new(Parts::Sizes(sizes.collect())))
            }
            Some(tree) => assemble(tree, &HashMap::default(), &mut size),
        };
        Self {
            children: children.clone(),
            sums,
        }
    }

    pub(super) fn is_of(&self, children: &Children) -> bool {
        self.children.is_same(children)
    }

    pub(super) fn total(&self) -> usize {
        self.sums.total
    }

    /// The first child that ends behind an offset, or the end of the children.
    pub(super) fn child_at(&self, offset: usize) -> SizedChild {
        let (mut index, mut before) = (0, 0);
        let (mut sums, mut tree) = (&self.sums, self.children.tree());
        loop {
            let mut nth = 0;
            while let Some(size) = sums.parts.size(nth)
                && offset >= usize::saturating_add(before, size)
                && size < UNKNOWN
            {
                before += size;
                index += tree
                    .and_then(|tree| tree.items.trees().get(nth))
                    .map_or(1, |tree| tree.len);
                nth += 1;
            }
            steps(nth + 1);
            match &sums.parts {
                Parts::Sums(parts) if nth < parts.len() => {
                    sums = &parts[nth];
                    tree = tree.and_then(|tree| tree.items.trees().get(nth));
                }
                parts => {
                    let size = parts.size(nth).filter(|size| *size < UNKNOWN);
                    return SizedChild {
                        index,
                        before,
                        size,
                    };
                }
            }
        }
    }

    /// The sum of the sizes before a child.
    pub(super) fn before(&self, index: usize) -> usize {
        let (mut ahead, mut before) = (index, 0);
        let (mut sums, mut tree) = (&self.sums, self.children.tree());
        loop {
            let nth = tree.map_or(ahead, |tree| tree.items.branch(ahead).0);
            steps(nth + 1);
            let sizes = (0..nth).map_while(|nth| sums.parts.size(nth));
            before = sizes.fold(before, usize::saturating_add);
            let Parts::Sums(parts) = &sums.parts else {
                return before;
            };
            ahead -= tree.map_or(0, |tree| tree.items.branch(ahead).1);
            sums = &parts[nth];
            tree = tree.and_then(|tree| tree.items.trees().get(nth));
        }
    }

    /// Sets the size of a child.
    pub(super) fn set(&mut self, index: usize, size: usize) {
        let tree = self.children.tree();
        set(&mut self.sums, tree, index, size);
    }

    /// The sizes of other children, which share most of these. Calls `size` for those that are not
    /// among these.
    pub(super) fn follow(
        &self,
        children: &Children,
        mut size: impl FnMut(&NodeId) -> usize,
    ) -> Self {
        let (Some(new), Some(old)) = (children.tree(), self.children.tree()) else {
            let known: HashMap<&NodeId, usize, Secret> = match &self.sums.parts {
                Parts::Sizes(sizes) => self.children.iter().zip(sizes.iter().copied()).collect(),
                Parts::Sums(_) => HashMap::default(),
            };
            return Self::new(children, |id| {
                known.get(id).copied().unwrap_or_else(|| size(id))
            });
        };
        let known = Known::between(new, (old, &self.sums));
        let mut size = |id: &NodeId| {
            let size_before = known.sizes.get(id).copied();
            size_before.unwrap_or_else(|| size(id))
        };
        let sums = assemble(new, &known.sums, &mut size);
        Self {
            children: children.clone(),
            sums,
        }
    }
}

fn set(sums: &mut Arc<Sums>, tree: Option<&Tree>, index: usize, size: usize) {
    let sums = Arc::make_mut(sums);
    match &mut sums.parts {
        Parts::Sizes(sizes) => sizes[index] = size,
        Parts::Sums(parts) => {
            let Some((nth, before)) = tree.map(|tree| tree.items.branch(index)) else {
                return;
            };
            let below = tree.and_then(|tree| tree.items.trees().get(nth));
            set(&mut parts[nth], below, index - before, size);
        }
    }
    sums.add_up();
}

/// By the address of the nodes of a tree, which stay in memory meanwhile.
type SumsOf<'s> = HashMap<*const Items, &'s Arc<Sums>, Secret>;

/// What two versions of a list share.
struct Known<'s> {
    sums: SumsOf<'s>,
    /// The sizes in leaves of the old version that the new one does not have.
    sizes: HashMap<&'s NodeId, usize, Secret>,
}

impl<'s> Known<'s> {
    /// Compares level by level, and only below the nodes that differ.
    fn between(new: &Tree, old: (&'s Tree, &'s Arc<Sums>)) -> Self {
        let mut known = Self {
            sums: HashMap::default(),
            sizes: HashMap::default(),
        };
        let (mut depth_of_new, mut depth_of_old) = (new.depth(), old.0.depth());
        let (mut new, mut old) = (vec![new], vec![old]);
        while !new.is_empty() && !old.is_empty() {
            steps(new.len() + old.len());
            if depth_of_new <= depth_of_old {
                known.sums.extend(
                    old.iter()
                        .map(|(tree, sums)| (Arc::as_ptr(&tree.items), *sums)),
                );
                let shared: HashSet<_, Secret> =
                    new.iter().map(|tree| Arc::as_ptr(&tree.items)).collect();
                new.retain(|tree| !known.sums.contains_key(&Arc::as_ptr(&tree.items)));
                old.retain(|(tree, _)| !shared.contains(&Arc::as_ptr(&tree.items)));
            }
            if depth_of_old == 0 {
                for (tree, sums) in old {
                    if let (Items::Ids(ids), Parts::Sizes(sizes)) = (&*tree.items, &sums.parts) {
                        known.sizes.extend(ids.iter().zip(sizes.iter().copied()));
                    }
                }
                break;
            }
            let (is_new_deeper, is_old_deeper) =
                (depth_of_new >= depth_of_old, depth_of_old >= depth_of_new);
            if is_new_deeper {
                new = new
                    .into_iter()
                    .flat_map(|tree| tree.items.trees())
                    .collect();
                depth_of_new -= 1;
            }
            if is_old_deeper {
                let parts = |(tree, sums): (&'s Tree, &'s Arc<Sums>)| match &sums.parts {
                    Parts::Sums(parts) => tree.items.trees().iter().zip(parts).collect(),
                    Parts::Sizes(_) => Vec::new(),
                };
                old = old.into_iter().flat_map(parts).collect();
                depth_of_old -= 1;
            }
        }
        known
    }
}

/// The sums of a tree. Takes over those of known nodes.
fn assemble(tree: &Tree, known: &SumsOf<'_>, size: &mut impl FnMut(&NodeId) -> usize) -> Arc<Sums> {
    if let Some(sums) = known.get(&Arc::as_ptr(&tree.items)) {
        return Arc::clone(sums);
    }
    Arc::new(Sums::new(match &*tree.items {
        Items::Ids(ids) => Parts::Sizes(ids.iter().map(size).collect()),
        Items::Trees(trees) => {
            let sums = trees.iter().map(|tree| assemble(tree, known, size));
            Parts::Sums(sums.collect())
        }
    }))
}
