//! Snapshots: versions of a document.

#[allow(
    clippy::len_without_is_empty,
    missing_docs,
    missing_debug_implementations
)]
mod assemble;
mod load;
#[allow(missing_docs)]
mod numbering;
mod partial;
mod progress;
mod save;

use std::fmt;
use std::sync::{Arc, Weak};

use super::nodes::Nodes;
use super::sizes::{KeptSizes, Measure, Sizes};
use super::touched::TouchedNode;
use super::{Change, EditError, Node, Overlay, View};
use crate::id::{AsNodeId, NodeId};

pub use assemble::{AssemblyError, DocumentHead, NodeTable, check_room};
pub use numbering::Numbering;
pub use partial::MissingNodes;
pub use progress::SnapshotProgress;
pub use save::Tokens;

/// One version of a document, which exists as long as the snapshot.
///
/// Taking and cloning a snapshot cost O(1). Commits never change it. While a snapshot lives,
/// commits copy the data that they would otherwise change in place.
///
/// Two snapshots are equal if their nodes and roots are equal; versions and numberings are ignored.
///
/// A snapshot is serde data: it can be saved, loaded, and opened again with
/// `doclock::StoreOptions::document`. The page
/// [saving](https://docs.rs/doclock/latest/doclock/guide/saving/index.html) describes its form.
#[derive(Clone, Default)]
pub struct Snapshot(Arc<Document>);

#[derive(Clone, Default)]
struct Document {
    version: u64,
    root: Option<NodeId>,
    nodes: Nodes,
    numbering: Numbering,
    sizes: KeptSizes,
}

impl Snapshot {
    /// Returns the version: the number of commits before it, also of those before a document was
    /// saved and loaded. The empty document of a new store has version zero.
    #[inline]
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// Returns the number of nodes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.nodes.len()
    }

    /// Returns the version after the changes of a commit, which shares all other nodes with this
    /// one. A subscriber makes each version of the document with it. Takes time in proportion to
    /// the changes.
    ///
    /// # Errors
    ///
    /// [`EditError`]: a change does not fit this version. Changes of another version that fit all
    /// the same return no error: compare the [`version`](Self::version) of the result with that of
    /// the commit.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec};
    ///
    /// let store = DataStore::new();
    /// let empty = store.snapshot();
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// let commit = transaction.commit()?;
    /// assert_eq!(empty.after(&commit.changes)?, store.snapshot());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after(&self, changes: &[Change]) -> Result<Self, EditError> {
        let mut after = self.clone();
        after.repeat(changes)?;
        Ok(after)
    }

    /// Returns whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies the changed nodes of a transaction, and the root if it was set, and becomes the next
    /// version. Changes unshared data in place and copies the rest.
    pub(super) fn fold(&mut self, overlay: &mut Overlay) {
        overlay.release_base();
        let document = Arc::make_mut(&mut self.0);
        document.version += 1;
        if overlay.sizes.is_some() || document.sizes.are_known() {
            let (newer, nodes) = (overlay.sizes.take(), document.nodes.len());
            // What is replaced is dropped with the overlay, while no reader waits.
            overlay.sizes = document.sizes.advance(newer, nodes, &overlay.touched);
        }
        if let Some(root) = overlay.root.take() {
            document.root = root;
        }
        for (id, node) in overlay.touched.drain() {
            match node {
                TouchedNode::Changed(node) => document.nodes.insert(node),
                TouchedNode::Deleted => document.nodes.remove(&id),
                TouchedNode::Spliced(mut deferred) => match deferred.copy.take() {
                    Some(node) => document.nodes.insert(node),
                    None => document.nodes.change(&id, |node| deferred.make(node)),
                },
            }
        }
    }

    /// The sizes of the nodes under a root. The version keeps the first that it is asked for.
    #[doc(hidden)]
    pub fn measured<M: Measure>(&self, root: &NodeId, measure: &M) -> Arc<Sizes> {
        let kept = self.sizes().get(self, root, measure);
        kept.unwrap_or_else(|| Arc::new(Sizes::new(self, root, measure)))
    }

    /// The sizes that this version keeps.
    pub(super) fn sizes(&self) -> &KeptSizes {
        &self.0.sizes
    }
}

impl View for Snapshot {
    fn node(&self, id: impl AsNodeId) -> Option<&Node> {
        self.shared(&id.as_node_id()).map(|node| &**node)
    }

    #[inline]
    fn root(&self) -> Option<&NodeId> {
        self.0.root.as_ref()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        Box::new(self.0.nodes.iter().map(|node| &**node))
    }
}

impl Snapshot {
    #[doc(hidden)]
    #[inline]
    pub fn shared(&self, id: &NodeId) -> Option<&Arc<Node>> {
        self.0.nodes.get(id)
    }

    #[doc(hidden)]
    #[inline]
    pub fn numbering(&self) -> Numbering {
        self.0.numbering
    }

    /// Notes the numbering, which makes no version. Copies the snapshot, in O(1), if it is shared.
    #[doc(hidden)]
    #[inline]
    pub fn set_numbering(&mut self, numbering: Numbering) {
        Arc::make_mut(&mut self.0).numbering = numbering;
    }

    /// The largest number of a generated id of this session; zero without one.
    #[doc(hidden)]
    #[inline]
    pub fn last_id_of(&self, session: u32) -> u64 {
        self.0.nodes.last_of(session)
    }
}

/// A version that other handles keep although it is about to be replaced. It keeps no node itself.
#[derive(Debug)]
pub struct PinnedVersion(Weak<Document>);

impl PinnedVersion {
    /// Returns how many handles keep the version.
    pub fn handles(&self) -> usize {
        self.0.strong_count()
    }
}

impl Snapshot {
    /// Whether it has a handle besides this one. A change of this handle copies the version then.
    #[inline]
    #[doc(hidden)]
    pub fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// The version for reports.
    #[doc(hidden)]
    pub fn pinned(&self) -> PinnedVersion {
        PinnedVersion(Arc::downgrade(&self.0))
    }
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.root == other.0.root && self.0.nodes == other.0.nodes)
    }
}

impl Eq for Snapshot {}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("version", &self.version())
            .field("root", &self.root())
            .field("nodes", &self.len())
            .finish()
    }
}
