//! The locks that a change needs.

use crate::document::{Change, ChildPosition, View};
use crate::id::NodeId;
use crate::lock::LockMode::NodeExclusive;
use crate::lock::{Granule, Scope};

/// The locks on all that a change of the document in `view` writes to.
pub(super) fn locks_for(change: &Change, view: &impl View) -> Scope {
    let scope = Scope::new();
    let list = |scope: Scope, at: &ChildPosition| scope.write(&at.parent);
    // The children get another parent, and their descendants other ancestors.
    let divided = |scope: Scope, id: &NodeId| {
        let children = view.node(id).map_or(0, |node| node.children().len());
        match children {
            0 => scope.write(id),
            _ => scope.write_subtree(id),
        }
    };
    let whole = |mut scope: Scope| {
        scope.add(Granule::Document, NodeExclusive.into());
        scope
    };
    match change {
        Change::InsertSubtree { at, nodes } => {
            // Another transaction may give its node the same id.
            let ids = nodes.iter().map(|node| node.id());
            at.iter().fold(ids.fold(scope, Scope::write_subtree), list)
        }
        Change::RemoveSubtree { at, nodes } => {
            let top = nodes.iter().take(1).map(|node| node.id());
            at.iter().fold(top.fold(scope, Scope::write_subtree), list)
        }
        Change::MoveNode { id, from, to } => {
            from.iter().chain(to).fold(scope.write_subtree(id), list)
        }
        Change::SpliceText { id, .. }
        | Change::SetMarks { id, .. }
        | Change::PatchAttrs { id, .. }
        | Change::SetType { id, .. } => scope.write(id),
        Change::SplitNode {
            id, right, place, ..
        } => list(divided(scope, id).write_subtree(&right.id), place),
        Change::JoinNodes {
            id, right, place, ..
        } => list(divided(divided(scope, id), &right.id), place),
        Change::SetRoot { after, .. } => whole(after.iter().fold(scope, Scope::write)),
        Change::SetSelection { .. } => scope,
        // A change that is not known here may write to anything.
        _ => whole(scope),
    }
}
