//! Sets of nodes to lock, with their modes.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::id::NodeId;
use crate::queue::{LockMode, Rights};

/// Something that can be locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub enum Granule {
    /// All nodes, and the choice of the root.
    #[default]
    Document,
    Node(NodeId),
}

impl Hash for Granule {
    /// As its node. No tag is needed, because granules with one hash are compared.
    #[inline]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self {
            Self::Document => hasher.write_u8(0),
            Self::Node(id) => id.hash(hasher),
        }
    }
}

impl Granule {
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::Document => None,
            Self::Node(id) => Some(id),
        }
    }
}

/// The position of each node in the published tree.
#[doc(hidden)]
pub trait Tree: Sync {
    /// Calls `visit` with each ancestor of `id`; never for a node that does not exist. Returns the
    /// version of the tree.
    fn each_ancestor(&self, id: &NodeId, visit: &mut dyn FnMut(&NodeId)) -> u64;

    /// Returns the present version, which changes whenever a node moves.
    fn version(&self) -> u64;
}

/// Nodes, with the locks on their ancestors. A paragraph in a section needs no allocation.
#[doc(hidden)]
pub type NodeSet = SmallVec<[(Granule, Rights); 6]>;

/// A set of nodes with the modes in which they are to be locked.
///
/// A mode applies to the node alone or to its subtree; see [`LockMode`]. A node that is added twice
/// is locked in both modes. A node that does not exist yet can be added too: then no other owner
/// can create a node with this id.
///
/// ```
/// use doclock::{NodeId, lock::{LockMode, node::Scope}};
///
/// let scope = Scope::new().read("title").write_subtree("section");
/// let same = Scope::from([
///     (NodeId::from("title"), LockMode::NodeShared),
///     (NodeId::from("section"), LockMode::Exclusive),
/// ]);
/// assert_eq!(scope, same);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Scope(SmallVec<[(Granule, Rights); 1]>);

impl Scope {
    /// Creates an empty set.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node in a mode.
    pub fn lock(mut self, id: impl Into<NodeId>, mode: LockMode) -> Self {
        self.add(Granule::Node(id.into()), mode.into());
        self
    }

    /// Adds a node, to read the node alone.
    pub fn read(self, id: impl Into<NodeId>) -> Self {
        self.lock(id, LockMode::NodeShared)
    }

    /// Adds a node, to write the node alone: its type, attributes, text, marks and list of
    /// children.
    pub fn write(self, id: impl Into<NodeId>) -> Self {
        self.lock(id, LockMode::NodeExclusive)
    }

    /// Adds a node, to read its subtree.
    pub fn read_subtree(self, id: impl Into<NodeId>) -> Self {
        self.lock(id, LockMode::Shared)
    }

    /// Adds a node, to write its subtree.
    pub fn write_subtree(self, id: impl Into<NodeId>) -> Self {
        self.lock(id, LockMode::Exclusive)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the nodes with their modes, in the order in which they were added.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeId, LockMode)> {
        let nodes = self.0.iter();
        nodes.filter_map(|(granule, rights)| Some((granule.node()?, rights.mode())))
    }
}

#[doc(hidden)]
impl Scope {
    #[inline]
    pub fn add(&mut self, granule: Granule, rights: Rights) {
        self.0.push((granule, rights));
    }

    /// Adds nodes, each of which is in the set once then.
    pub fn extend(&mut self, other: Self) {
        for (granule, rights) in other.0 {
            match self.0.iter_mut().find(|(known, _)| *known == granule) {
                Some((_, known)) => *known = known.and(rights),
                None => self.0.push((granule, rights)),
            }
        }
    }

    pub fn parts(&self) -> &[(Granule, Rights)] {
        &self.0
    }

    /// Returns all locks to take, including the intentions on ancestors: each granule once.
    pub fn with_intentions(&self, tree: &dyn Tree) -> NodeSet {
        let mut set = NodeSet::new();
        self.add_with_intentions(tree, &mut set);
        set
    }

    /// Adds all locks to take to an empty set. Returns the version of the tree; `None` if several
    /// were read.
    pub fn add_with_intentions(&self, tree: &dyn Tree, set: &mut NodeSet) -> Option<u64> {
        let mut versions = None::<(u64, bool)>;
        for (granule, rights) in &self.0 {
            if let Granule::Node(id) = granule {
                let intention = rights.intention();
                set.push((Granule::Document, intention));
                let version = tree.each_ancestor(id, &mut |above| {
                    set.push((Granule::Node(above.clone()), intention))
                });
                let (first, is_one) = versions.unwrap_or((version, true));
                versions = Some((first, is_one && version == first));
            }
            set.push((granule.clone(), *rights));
        }
        let version = versions
            .filter(|version| version.1)
            .map(|version| version.0);
        // A node is none of its ancestors.
        if self.0.len() <= 1 {
            return version;
        }
        set.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        set.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.and(next.1);
            }
            same
        });
        version
    }
}

impl<I: Into<NodeId>> FromIterator<(I, LockMode)> for Scope {
    fn from_iter<T: IntoIterator<Item = (I, LockMode)>>(nodes: T) -> Self {
        nodes
            .into_iter()
            .fold(Self::new(), |scope, (id, mode)| scope.lock(id, mode))
    }
}

impl<I: Into<NodeId>, const N: usize> From<[(I, LockMode); N]> for Scope {
    fn from(nodes: [(I, LockMode); N]) -> Self {
        nodes.into_iter().collect()
    }
}
