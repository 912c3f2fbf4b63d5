//! The nodes that one transaction has changed.

use std::collections::HashMap;
use std::sync::Arc;

use super::Node;
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::steps::{step, steps};

/// Each touched node in its current state; `None` for a deleted one.
///
/// Most transactions touch a few nodes, so a linear search finds them; a long list has an index.
#[derive(Debug, Default)]
pub(super) struct Touched {
    entries: Vec<(NodeId, Option<Arc<Node>>)>,
    /// Position by id. Empty up to [`Touched::SCAN`] entries.
    index: HashMap<NodeId, usize, Secret>,
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

    /// `None` if the node was not touched, `Some(None)` if it was deleted.
    #[inline]
    pub(super) fn get(&self, id: &NodeId) -> Option<Option<&Arc<Node>>> {
        let (_, node) = &self.entries[self.position(id)?];
        Some(node.as_ref())
    }

    pub(super) fn get_mut(&mut self, id: &NodeId) -> Option<&mut Arc<Node>> {
        let position = self.position(id)?;
        self.entries[position].1.as_mut()
    }

    pub(super) fn set(&mut self, id: &NodeId, node: Option<Arc<Node>>) {
        match self.position(id) {
            Some(position) => self.entries[position].1 = node,
            None => {
                self.entries.push((id.clone(), node));
                self.index_last();
            }
        }
    }

    /// Adds an untouched node.
    pub(super) fn add(&mut self, id: NodeId, node: Arc<Node>) -> &mut Node {
        self.entries.push((id, Some(node)));
        self.index_last();
        let last = self.entries.last_mut().and_then(|(_, node)| node.as_mut());
        Arc::make_mut(last.expect("it was just added"))
    }

    fn index_last(&mut self) {
        let len = self.entries.len();
        let unindexed = match len {
            ..=Self::SCAN => return,
            _ if self.index.is_empty() => 0..len,
            _ => len - 1..len,
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
        } else {
            self.index.clear();
        }
        self.entries.truncate(len);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeId, Option<&Arc<Node>>)> {
        self.entries.iter().map(|(id, node)| (id, node.as_ref()))
    }
}

impl IntoIterator for Touched {
    type Item = (NodeId, Option<Arc<Node>>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
