//! Filters of subscriptions.

use std::collections::HashSet;

use serde::Serialize;

use crate::document::{Change, Snapshot, View};
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

/// The nodes that one commit touches, and their ancestors.
#[derive(Debug)]
pub(in crate::store) struct Reach {
    touched: HashSet<NodeId>,
    /// The touched nodes and all their ancestors in the document after the commit.
    within: HashSet<NodeId>,
}

impl Reach {
    /// Walks up from each touched node until it meets a path that was walked before.
    ///
    /// The document after the commit is enough to find every subtree that was touched at any moment
    /// of it. Say a node was below `top` when it was touched, and is not in the end. Then one of
    /// the links on the path between them was broken later. Of the broken links, take the one
    /// nearest to `top`: its upper end is still below `top` (or is `top`), and breaking a link
    /// touches its upper end. For a node that is moved, removed, cut off by a split or taken over
    /// by a join, that is its former parent.
    pub(in crate::store) fn new(changes: &[Change], after: &Snapshot) -> Self {
        let touched: HashSet<NodeId> = changes.iter().flat_map(touched).cloned().collect();
        let mut within = HashSet::with_capacity(touched.len());
        for id in &touched {
            let mut at = Some(id);
            while let Some(id) = at.filter(|id| within.insert(NodeId::clone(id))) {
                at = after.parent(id);
            }
        }
        Self { touched, within }
    }

    /// How many filters on nodes the commit passes.
    pub(in crate::store) fn len(&self) -> usize {
        self.touched.len() + self.within.len()
    }

    /// Whether the commit passes a filter.
    pub(in crate::store) fn passes(&self, filter: &Filter) -> bool {
        match filter {
            Filter::All => true,
            Filter::Node(id) => self.touched.contains(id),
            Filter::Subtree(top) => self.within.contains(top),
        }
    }

    /// The filters on nodes that the commit passes.
    pub(in crate::store) fn filters(&self) -> impl Iterator<Item = Filter> {
        let nodes = self.touched.iter().cloned().map(Filter::Node);
        nodes.chain(self.within.iter().cloned().map(Filter::Subtree))
    }
}

/// The nodes that a change touches.
fn touched(change: &Change) -> Vec<&NodeId> {
    let mut all = Vec::new();
    change.each_stored_node(|id| all.push(id), |_| {});
    if let Change::SetRoot { before, after } = change {
        all.extend(before.iter().chain(after));
    }
    all
}
