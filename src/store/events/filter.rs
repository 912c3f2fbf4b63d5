//! Which commits a subscriber wants to hear of.

use std::collections::HashSet;

use crate::document::{Change, Node, Place, Snapshot, View};
use crate::id::NodeId;

/// Which commits a subscriber gets. Those that the filter keeps out are not missed either.
///
/// A commit *touches* the nodes that its changes are about: whose text, marks, attributes, type or
/// list of children changed, that were created, deleted or moved, that were split or joined, that
/// became or ceased to be the root. A node is not touched by what else happens above or below it,
/// nor by a split or join of its parent which only hands it over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filter {
    /// All of them.
    #[default]
    All,
    /// Those that touch this node, which need not exist yet.
    Node(NodeId),
    /// Those that touch this node or any below it, those that bring a node there or take one away
    /// included. The node need not exist yet.
    Subtree(NodeId),
}

impl Filter {
    /// Whether a subscriber is to hear of a commit of this reach, which is asked for only where it
    /// matters.
    pub(super) fn lets_in<'a>(&self, reach: impl FnOnce() -> &'a Reach<'a>) -> bool {
        match self {
            Self::All => true,
            Self::Node(id) => reach().touched.contains(id),
            Self::Subtree(top) => reach().within.contains(top),
        }
    }
}

/// What one commit touches, and what lies above that.
pub(super) struct Reach<'a> {
    touched: HashSet<&'a NodeId>,
    /// The touched nodes and all their ancestors in the document after the commit.
    within: HashSet<&'a NodeId>,
}

impl<'a> Reach<'a> {
    /// Walks up from each touched node until it meets a path that was walked before.
    ///
    /// The document after the commit is enough to know every subtree that was touched at any moment
    /// of it. Say a node was below `top` when it was touched, and is not in the end. Then one of
    /// the links on the path between them was broken later. Of those that were, take the one
    /// nearest to `top`: its upper end is still below `top` (or is `top`), and whatever breaks a
    /// link touches its upper end. For a node that is moved, removed, cut off by a split or taken
    /// over by a join, that is the parent which it had.
    pub(super) fn new(changes: &'a [Change], after: &'a Snapshot) -> Self {
        let touched: HashSet<_> = changes
            .iter()
            .flat_map(|change| touched(change, after))
            .collect();
        let mut within = HashSet::with_capacity(touched.len());
        for &id in &touched {
            let mut at = Some(id);
            while let Some(id) = at.filter(|id| within.insert(*id)) {
                at = after.parent(id);
            }
        }
        Self { touched, within }
    }
}

/// The nodes that a change touches. It names them all, but for the parent of nodes that are split
/// or joined: that is looked up in the document after the commit, for if it was another one then,
/// what changed it has touched it.
fn touched<'a>(change: &'a Change, after: &'a Snapshot) -> Vec<&'a NodeId> {
    let parent = |at: &'a Option<Place>| at.as_ref().map(|place| &place.parent);
    match change {
        Change::InsertSubtree { at, nodes } | Change::RemoveSubtree { at, nodes } => {
            let nodes = nodes.iter().map(|node| Node::id(node));
            nodes.chain(parent(at)).collect()
        }
        Change::MoveNode { id, from, to } => {
            let parents = [parent(from), parent(to)];
            [id].into_iter()
                .chain(parents.into_iter().flatten())
                .collect()
        }
        Change::SpliceText { id, .. }
        | Change::SetMarks { id, .. }
        | Change::PatchAttrs { id, .. }
        | Change::SetType { id, .. } => vec![id],
        Change::SplitNode { id, right, .. } | Change::JoinNodes { id, right, .. } => {
            let parents = [after.parent(id), after.parent(&right.id)];
            [id, &right.id]
                .into_iter()
                .chain(parents.into_iter().flatten())
                .collect()
        }
        Change::SetRoot { before, after } => before.iter().chain(after).collect(),
        Change::SetSelection { .. } => Vec::new(),
    }
}
