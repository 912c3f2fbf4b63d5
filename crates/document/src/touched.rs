//! The nodes that one transaction has changed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::mark::TextSplice;
use super::{Node, Snapshot};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::steps::{step, steps};

/// Each touched node in its current state.
///
/// Most transactions touch a few nodes, so a linear search finds them; a long list has an index.
#[derive(Debug, Default)]
pub(super) struct Touched {
    entries: TouchedEntries,
    /// Position by id. Outdated up to [`Touched::SCAN`] entries.
    index: HashMap<NodeId, usize, Secret>,
}

/// Most transactions touch one node.
type TouchedEntries = SmallVec<[(NodeId, TouchedNode); 1]>;

/// The current state of a touched node.
#[derive(Debug)]
pub(super) enum TouchedNode {
    Deleted,
    Changed(Arc<Node>),
    /// As in the base, but for a splice of its text.
    Spliced(DeferredSplice),
}

/// A splice of a text that is made in the next version, in place if no snapshot has the node. The
/// node is copied only if the transaction reads it again.
#[derive(Debug)]
pub(super) struct DeferredSplice {
    pub(super) splice: TextSplice,
    pub(super) inserted: SmolStr,
    /// The node after the splice, once it was read.
    pub(super) copy: OnceLock<Arc<Node>>,
}

impl DeferredSplice {
    /// Makes the splice.
    pub(super) fn make(&self, node: &mut Node) {
        // Most texts have no marks.
        if !node.marks.is_empty() {
            node.marks.follow(&self.splice);
        }
        node.text.splice(self.splice.range.clone(), &self.inserted);
    }

    /// The node after the splice.
    fn node(&self, id: &NodeId, base: &Snapshot) -> &Arc<Node> {
        self.copy.get_or_init(|| {
            let before = base.shared(id).expect("the node of the splice is there");
            let mut node = Node::clone(before);
            self.make(&mut node);
            Arc::new(node)
        })
    }
}

impl TouchedNode {
    /// `None` for a deleted node.
    #[inline]
    fn get(&self, id: &NodeId, base: &Snapshot) -> Option<&Arc<Node>> {
        match self {
            Self::Deleted => None,
            Self::Changed(node) => Some(node),
            Self::Spliced(deferred) => Some(deferred.node(id, base)),
        }
    }
}

impl Touched {
    const SCAN: usize = 8;

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    fn position(&self, id: &NodeId) -> Option<usize> {
        step();
        if self.entries.len() > Self::SCAN {
            return self.index.get(id).copied();
        }
        steps(self.entries.len());
        self.entries.iter().position(|(touched, _)| touched == id)
    }

    #[inline]
    pub(super) fn contains(&self, id: &NodeId) -> bool {
        self.position(id).is_some()
    }

    /// `None` if the node was not touched, `Some(None)` if it was deleted.
    #[inline]
    pub(super) fn get(&self, id: &NodeId, base: &Snapshot) -> Option<Option<&Arc<Node>>> {
        self.position(id).map(|at| self.entries[at].1.get(id, base))
    }

    pub(super) fn get_mut(&mut self, id: &NodeId, base: &Snapshot) -> Option<&mut Arc<Node>> {
        let position = self.position(id)?;
        let state = &mut self.entries[position].1;
        if let TouchedNode::Spliced(deferred) = state {
            deferred.node(id, base);
            *state = TouchedNode::Changed(deferred.copy.take()?);
        }
        match state {
            TouchedNode::Changed(node) => Some(node),
            TouchedNode::Deleted | TouchedNode::Spliced(_) => None,
        }
    }

    pub(super) fn set(&mut self, id: &NodeId, node: Option<Arc<Node>>) {
        let state = node.map_or(TouchedNode::Deleted, TouchedNode::Changed);
        match self.position(id) {
            Some(position) => self.entries[position].1 = state,
            None => self.push(id.clone(), state),
        }
    }

    /// Adds an untouched node.
    pub(super) fn add(&mut self, id: NodeId, node: Arc<Node>) -> &mut Node {
        self.push(id, TouchedNode::Changed(node));
        match self.entries.last_mut() {
            Some((_, TouchedNode::Changed(node))) => Arc::make_mut(node),
            _ => unreachable!("it was just added"),
        }
    }

    /// Adds an untouched node in its current state. A splice was checked.
    pub(super) fn push(&mut self, id: NodeId, state: TouchedNode) {
        self.entries.push((id, state));
        if self.entries.len() > Self::SCAN {
            self.index_last();
        }
    }

    /// Adds the last entry to the index. The first entry above [`SCAN`](Self::SCAN) begins it anew.
    fn index_last(&mut self) {
        let len = self.entries.len();
        let unindexed = match len == Self::SCAN + 1 {
            true => {
                self.index.clear();
                0..len
            }
            false => len - 1..len,
        };
        for position in unindexed {
            self.index
                .insert(self.entries[position].0.clone(), position);
        }
    }

    /// Keeps the first entries.
    pub(super) fn truncate(&mut self, len: usize) {
        if len > Self::SCAN {
            for (id, _) in self.entries.get(len..).unwrap_or_default() {
                self.index.remove(id);
            }
        }
        self.entries.truncate(len);
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &NodeId> {
        self.entries.iter().map(|(id, _)| id)
    }

    /// The nodes that are not deleted.
    pub(super) fn nodes(&self, base: &Snapshot) -> impl Iterator<Item = &Arc<Node>> {
        let nodes = self.entries.iter();
        nodes.filter_map(|(id, node)| node.get(id, base))
    }

    /// Takes out all nodes.
    #[inline]
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (NodeId, TouchedNode)> {
        self.entries.drain(..)
    }
}
