//! What has to be locked for a change.

use std::collections::HashSet;

use crate::document::{Change, Node, View};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::lock::{Granule, Scope};
use crate::queue::LockMode::{self, Exclusive, NodeExclusive};

/// Collects what has to be locked.
#[derive(Debug)]
pub(crate) struct Needs<'v, V> {
    view: &'v V,
    scope: Scope,
}

impl<'v, V: View> Needs<'v, V> {
    /// Nothing, for changes to the document that `view` shows.
    pub(crate) fn new(view: &'v V) -> Self {
        Self {
            view,
            scope: Scope::new(),
        }
    }

    pub(crate) fn into_scope(self) -> Scope {
        self.scope
    }

    fn lock(mut self, id: &NodeId, mode: LockMode) -> Self {
        self.scope.add(Granule::Node(id.clone()), mode.into());
        self
    }

    /// The node's own text, marks, attributes, type or list of children.
    pub(crate) fn node(self, id: &NodeId) -> Self {
        self.lock(id, NodeExclusive)
    }

    /// The node with all below it.
    pub(crate) fn subtree(self, id: &NodeId) -> Self {
        self.lock(id, Exclusive)
    }

    /// The list in which the node stands.
    pub(crate) fn list_of(self, id: &NodeId) -> Self {
        match self.view.node(id).and_then(Node::parent) {
            Some(parent) => self.node(parent),
            None => self,
        }
    }

    /// The node with all below it and the list in which it stands: to take it away from there.
    pub(crate) fn detached(self, id: &NodeId) -> Self {
        self.subtree(id).list_of(id)
    }

    /// A node that is cut in two or joined. Its children get another parent, and what is above
    /// those below them changes.
    pub(crate) fn divided(self, id: &NodeId) -> Self {
        let children = self.view.node(id).map_or(0, |node| node.children().len());
        match children {
            0 => self.node(id),
            _ => self.subtree(id),
        }
    }

    /// What stands so many levels above a node with all below it; the topmost, if there are not so
    /// many.
    pub(crate) fn above(self, id: &NodeId, levels: usize) -> Self {
        let above = self.view.ancestors(id).take(levels).last().map(Node::id);
        self.subtree(above.unwrap_or(id))
    }

    /// The lowest node that has both below it, with all that is there.
    pub(crate) fn common(self, one: &NodeId, other: &NodeId) -> Self {
        let view = self.view;
        let way = |id| {
            view.node(id)
                .into_iter()
                .chain(view.ancestors(id))
                .map(Node::id)
        };
        let above: HashSet<&NodeId, Secret> = way(one).collect();
        match way(other).find(|id| above.contains(id)) {
            Some(common) => self.subtree(common),
            // They are in different trees, and the operation will say so.
            None => self,
        }
    }

    /// A new node whose id was given, so that others may give it too.
    pub(crate) fn created(self, id: &NodeId) -> Self {
        self.subtree(id)
    }

    /// Which node is the root.
    pub(crate) fn root(mut self, id: Option<&NodeId>) -> Self {
        self.scope.add(Granule::Document, NodeExclusive.into());
        match id {
            Some(id) => self.node(id),
            None => self,
        }
    }

    /// What a primitive change writes to.
    pub(crate) fn change(mut self, change: &Change) -> Self {
        match change {
            Change::InsertSubtree { at, nodes } => {
                for node in nodes {
                    self = self.created(node.id());
                }
                match at {
                    Some(at) => self.node(&at.parent),
                    None => self,
                }
            }
            Change::RemoveSubtree { at, nodes } => {
                if let Some(top) = nodes.first() {
                    self = self.subtree(top.id());
                }
                match at {
                    Some(at) => self.node(&at.parent),
                    None => self,
                }
            }
            Change::MoveNode { id, from, to } => {
                let lists = [from, to].into_iter().flatten();
                lists.fold(self.subtree(id), |needs, place| needs.node(&place.parent))
            }
            Change::SpliceText { id, .. }
            | Change::SetMarks { id, .. }
            | Change::PatchAttrs { id, .. }
            | Change::SetType { id, .. } => self.node(id),
            Change::SplitNode {
                id, right, place, ..
            } => self.divided(id).created(&right.id).node(&place.parent),
            Change::JoinNodes {
                id, right, place, ..
            } => self.divided(id).divided(&right.id).node(&place.parent),
            Change::SetRoot { after, .. } => self.root(after.as_ref()),
            Change::SetSelection { .. } => self,
        }
    }
}
