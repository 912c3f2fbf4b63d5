//! The nodes that changes touch, and where these are.

use std::collections::HashSet;

use super::{Change, View};
use crate::id::NodeId;

/// The nodes that changes touch, and their ancestors. Changes *touch* these nodes:
///
/// - nodes whose text, marks, attributes, type or list of children changed;
/// - nodes that were created, deleted, moved, split or joined;
/// - nodes that became or ceased to be the root.
#[derive(Debug)]
pub struct Reach {
    pub touched: HashSet<NodeId>,
    /// The touched nodes and all their ancestors in the document after the changes.
    pub within: HashSet<NodeId>,
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
    pub fn new(changes: &[Change], after: &impl View) -> Self {
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
}

/// Whether changes touch only nodes of the subtree of a node, and not the place of the node itself.
/// A touched node is in the subtree in both documents, or in the only one that has the node. One
/// that neither has came and went below another touched node.
pub fn are_within(changes: &[Change], top: &NodeId, before: &impl View, after: &impl View) -> bool {
    changes.iter().all(|change| {
        let is_of_content = match change {
            Change::InsertSubtree { nodes, .. } | Change::RemoveSubtree { nodes, .. } => {
                nodes.first().is_none_or(|first| first.id() != top)
            }
            Change::MoveNode { id, .. } => id != top,
            change => !matches!(change, Change::SetRoot { .. }),
        };
        let mut touched = touched(change).into_iter();
        is_of_content && touched.all(|id| is_part(before, top, id) && is_part(after, top, id))
    })
}

/// Whether a node is in the subtree of another, if it exists.
fn is_part(view: &impl View, top: &NodeId, id: &NodeId) -> bool {
    id == top || !view.contains(id) || view.is_ancestor(top, id)
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
