//! One version of a document.

use std::fmt;
use std::sync::Arc;

use super::lease::Leases;
use super::nodes::Nodes;
use super::touched::Touched;
use super::{Node, View};
use crate::id::NodeId;

/// A document as it stood at one version, for as long as it is kept.
///
/// Taking one costs O(1) and so does cloning it; it never changes, whatever is committed meanwhile.
/// While one is alive, commits copy what they would otherwise change in place.
///
/// Two snapshots are equal when their nodes and roots are, whatever their versions, and whoever had
/// [leased](crate::DataStore::lease) what.
#[derive(Clone, Default)]
pub struct Snapshot(Arc<Document>);

#[derive(Clone, Default)]
struct Document {
    version: u64,
    root: Option<NodeId>,
    nodes: Nodes,
    leases: Leases,
}

impl Snapshot {
    /// How many commits led here; zero for the empty document that a store starts with.
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.0.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in what a transaction changed, and the root if it was set, and becomes the next
    /// version. Changes in place what nobody else holds, and copies the rest.
    pub(super) fn fold(&mut self, touched: Touched, root: Option<Option<NodeId>>) {
        let document = Arc::make_mut(&mut self.0);
        document.version += 1;
        if let Some(root) = root {
            document.root = root;
        }
        for (id, node) in touched {
            match node {
                Some(node) => document.nodes.insert(node),
                None => document.nodes.remove(&id),
            }
        }
    }
}

impl View for Snapshot {
    fn node(&self, id: &NodeId) -> Option<&Node> {
        self.0.nodes.get(id).map(|node| &**node)
    }

    fn root(&self) -> Option<&NodeId> {
        self.0.root.as_ref()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        Box::new(self.0.nodes.iter().map(|node| &**node))
    }
}

impl Snapshot {
    pub(crate) fn shared(&self, id: &NodeId) -> Option<&Arc<Node>> {
        self.0.nodes.get(id)
    }

    pub(crate) fn held(&self) -> &Leases {
        &self.0.leases
    }

    /// To change who has leased what. That makes no version; copies the snapshot, in O(1), if
    /// somebody else holds it.
    pub(crate) fn held_mut(&mut self) -> &mut Leases {
        &mut Arc::make_mut(&mut self.0).leases
    }

    /// For a version that was made beside another.
    pub(crate) fn keep_leases_of(&mut self, other: &Self) {
        self.held_mut().clone_from(other.held());
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
