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
    /// The nodes that the running operation has read first, and what else was noted before it.
    fresh: Vec<NodeId>,
    before: (Option<Option<NodeId>>, Option<Torn>, bool),
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

    /// Notes that the selection that was read has moved: a commit fails.
    pub(super) fn tear(&mut self, node: &NodeId) {
        self.torn = Some(Some(node.clone()));
        if self.before.2 {
            self.before.1.clone_from(&self.torn);
        }
    }

    /// Begins an operation, whose reads can be forgotten.
    pub(super) fn begin(&mut self) {
        self.fresh.clear();
        self.before = (self.root.clone(), self.torn.clone(), self.selection);
    }

    /// Forgets the reads of the operation and returns those that differ in `current`. `None`, and
    /// nothing is forgotten, if none does, or if an earlier read does, too.
    pub(super) fn forget_outdated(&mut self, current: &Snapshot) -> Option<Vec<Granule>> {
        let moved = self
            .root
            .as_ref()
            .filter(|root| root.as_ref() != current.root());
        let mut outdated: Vec<Granule> = moved.iter().map(|_| Granule::Document).collect();
        let nodes = self.outdated_of(self.fresh.iter(), current);
        outdated.extend(nodes.cloned().map(Granule::Node));
        if outdated.is_empty() && self.torn.is_none() {
            return None;
        }
        let fresh = std::mem::take(&mut self.fresh).into_iter();
        let fresh: Vec<_> = fresh
            .filter_map(|id| self.nodes.remove_entry(&id))
            .collect();
        let now = (self.root.clone(), self.torn.clone(), self.selection);
        (self.root, self.torn, self.selection) = self.before.clone();
        if self.outdated(current).is_none() {
            return Some(outdated);
        }
        (self.root, self.torn, self.selection) = now;
        self.nodes.extend(fresh);
        None
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
            None => {
                self.fresh.push(id.clone());
                self.nodes.insert(id.clone(), found.cloned());
            }
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

    /// Those of these nodes that differ in `current` from their first read.
    pub(super) fn outdated_of<'a>(
        &self,
        nodes: impl Iterator<Item = &'a NodeId>,
        current: &Snapshot,
    ) -> impl Iterator<Item = &'a NodeId> {
        nodes.filter(|id| {
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
