//! The locks that a change needs.

use std::collections::HashSet;

use crate::document::{Change, Node, View};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::lock::{Granule, Scope};
use crate::queue::LockMode::{self, Exclusive, NodeExclusive};

/// Collects the locks that a change needs.
#[derive(Debug)]
pub(crate) struct Needs<'v, V> {
    view: &'v V,
    scope: Scope,
}

impl<'v, V: View> Needs<'v, V> {
    /// No locks, for changes to the document that `view` shows.
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

    /// The node with its subtree.
    pub(crate) fn subtree(self, id: &NodeId) -> Self {
        self.lock(id, Exclusive)
    }

    /// The list of children that contains the node.
    pub(crate) fn list_of(self, id: &NodeId) -> Self {
        match self.view.node(id).and_then(Node::parent) {
            Some(parent) => self.node(parent),
            None => self,
        }
    }

    /// The node with its subtree, and the list of children that contains it: to detach the node.
    pub(crate) fn detached(self, id: &NodeId) -> Self {
        self.subtree(id).list_of(id)
    }

    /// A node that is split or joined. Its children get another parent, and their descendants other
    /// ancestors.
    pub(crate) fn divided(self, id: &NodeId) -> Self {
        let children = self.view.node(id).map_or(0, |node| node.children().len());
        match children {
            0 => self.node(id),
            _ => self.subtree(id),
        }
    }

    /// The subtree of the ancestor `levels` above a node, or of the topmost one.
    pub(crate) fn above(self, id: &NodeId, levels: usize) -> Self {
        let above = self.view.ancestors(id).take(levels).last().map(Node::id);
        self.subtree(above.unwrap_or(id))
    }

    /// The subtree of the lowest common ancestor of both nodes.
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
            // They are in different trees, and the operation returns that error.
            None => self,
        }
    }

    /// A new node with a given id, which another transaction may use as well.
    pub(crate) fn created(self, id: &NodeId) -> Self {
        self.subtree(id)
    }

    /// The choice of the root.
    pub(crate) fn root(mut self, id: Option<&NodeId>) -> Self {
        self.scope.add(Granule::Document, NodeExclusive.into());
        match id {
            Some(id) => self.node(id),
            None => self,
        }
    }

    /// The nodes that a primitive change writes to.
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
