//! Filters of subscriptions.

use serde::Serialize;

use crate::document::Reach;
use crate::id::NodeId;

/// Selects the commits that a subscriber receives. Excluded commits do not count as missed.
///
/// A commit *touches* the nodes that its changes concern:
///
/// - nodes whose text, marks, attributes, type or list of children changed;
/// - nodes that were created, deleted, moved, split or joined;
/// - nodes that became or ceased to be the root.
///
/// Other changes of ancestors or descendants do not touch a node. Nor does a split or join of its
/// parent that only hands it over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Filter {
    /// All commits.
    #[default]
    All,
    /// Commits that touch this node, which need not exist yet.
    Node(NodeId),
    /// Commits that touch this node or a descendant. That includes commits that move a node into
    /// the subtree or out of it. The node need not exist yet.
    Subtree(NodeId),
}

impl Filter {
    /// Whether a commit passes it.
    pub(in crate::store) fn passes(&self, reach: &Reach) -> bool {
        match self {
            Self::All => true,
            Self::Node(id) => reach.touched.contains(id),
            Self::Subtree(top) => reach.within.contains(top),
        }
    }

    /// The filters on nodes that a commit passes.
    pub(in crate::store) fn passed(reach: &Reach) -> impl Iterator<Item = Self> {
        let nodes = reach.touched.iter().cloned().map(Self::Node);
        nodes.chain(reach.within.iter().cloned().map(Self::Subtree))
    }
}
