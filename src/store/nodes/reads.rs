//! The reads without a lock of a transaction on nodes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::document::{Node, Snapshot, View, same};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::lock::Granule;

/// Each node as it was first read. A later read and the commit must find the same value. So all
/// reads have the effect of reads at the moment of the commit (validation as in Kung and Robinson,
/// *On Optimistic Methods for Concurrency Control*, 1981).
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    nodes: HashMap<NodeId, Option<Arc<Node>>, Secret>,
    root: Option<Option<NodeId>>,
    /// The version that was read as a whole.
    version: Option<u64>,
    /// A read that differed from an earlier one.
    torn: Option<Torn>,
    /// Whether the selection was read.
    pub(super) selection: bool,
    /// Set while nothing is noted.
    are_unnoted: bool,
}

/// The node that had changed. `None` if it is not about one node.
type Torn = Option<NodeId>;

impl ReadSet {
    /// Reads that need not be noted.
    pub(super) fn unnoted() -> Self {
        Self {
            are_unnoted: true,
            ..Self::default()
        }
    }

    /// Notes that what was read has changed: a commit fails.
    pub(super) fn tear(&mut self, node: &NodeId) {
        self.torn = Some(Some(node.clone()));
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The locks that keep the reads unchanged.
    pub(super) fn locks(&self) -> impl Iterator<Item = Granule> {
        let root = self.root.iter().map(|_| Granule::Document);
        root.chain(self.nodes.keys().cloned().map(Granule::Node))
    }

    pub(super) fn node(&mut self, id: &NodeId, found: Option<&Arc<Node>>) {
        if self.are_unnoted {
            return;
        }
        match self.nodes.get(id) {
            None => drop(self.nodes.insert(id.clone(), found.cloned())),
            Some(seen) if same(seen.as_ref(), found) => {}
            Some(_) => self.torn = Some(Some(id.clone())),
        }
    }

    pub(super) fn root(&mut self, found: Option<&NodeId>) {
        if self.are_unnoted {
            return;
        }
        match &self.root {
            None => self.root = Some(found.cloned()),
            Some(seen) if seen.as_ref() == found => {}
            Some(_) => self.torn = Some(None),
        }
    }

    pub(super) fn all(&mut self, version: u64) {
        if *self.version.get_or_insert(version) != version {
            self.torn = Some(None);
        }
    }

    /// Of these nodes, one that differs in `current` from its first read.
    pub(super) fn outdated_of<'a>(
        &self,
        mut nodes: impl Iterator<Item = &'a NodeId>,
        current: &Snapshot,
    ) -> Option<&'a NodeId> {
        nodes.find(|id| {
            let seen = self.nodes.get(*id);
            seen.is_some_and(|seen| !same(seen.as_ref(), current.shared(id)))
        })
    }

    /// The first read, of any kind, that differs in `current`.
    pub(super) fn outdated(&self, current: &Snapshot) -> Option<Torn> {
        if self.torn.is_some() {
            return self.torn.clone();
        }
        let whole = self
            .version
            .is_some_and(|version| version != current.version());
        let root = self
            .root
            .as_ref()
            .is_some_and(|root| root.as_ref() != current.root());
        if whole || root {
            return Some(None);
        }
        let mut nodes = self.nodes.iter();
        let changed = nodes.find(|(id, seen)| !same(seen.as_ref(), current.shared(id)));
        changed.map(|(id, _)| Some(id.clone()))
    }
}
