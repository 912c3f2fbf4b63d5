//! Scopes: which entries an undo or a redo can revert.

use smol_str::SmolStr;

use super::{HistoryEntry, UndoFailure};
use crate::document::{Change, Reach, View, are_within};
use crate::id::NodeId;
use crate::store::Draft;

/// The entries that an undo or a redo can revert. By default these are all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::transaction) struct UndoScope {
    /// Only entries that change nothing outside of the subtree of this node.
    pub(in crate::transaction) node: Option<NodeId>,
    /// Only entries with this name.
    pub(in crate::transaction) name: Option<SmolStr>,
}

impl UndoScope {
    /// Whether it has all entries.
    pub(in crate::transaction) fn is_all(&self) -> bool {
        self.node.is_none() && self.name.is_none()
    }

    /// Whether it can have an entry. Inverse code changes what it likes, so it is in no subtree.
    pub(super) fn may_have(&self, entry: &HistoryEntry) -> bool {
        let is_named = self.name.is_none() || self.name == entry.name;
        is_named && (self.node.is_none() || entry.inverses.is_empty())
    }

    /// Whether it has the entry that was reverted in a draft. An entry without an effect is in no
    /// subtree.
    pub(in crate::transaction) fn has_reverted(&self, on: &Draft) -> bool {
        let (changes, before) = (on.changes(), on.base());
        self.node.as_ref().is_none_or(|node| {
            let is_changed = changes.iter().any(Change::is_of_the_document);
            is_changed && are_within(changes, node, before, on)
        })
    }

    /// Whether it has the entry that could not be reverted, by the node of the failure. One that is
    /// not in the document is in no subtree.
    pub(in crate::transaction) fn has_failed(&self, failure: &UndoFailure, on: &impl View) -> bool {
        self.node.as_ref().is_none_or(|top| {
            let node = failure.node();
            node.is_some_and(|node| on.contains(node) && (node == top || on.is_ancestor(top, node)))
        })
    }

    /// Whether it has an edit, which is in an entry of this name: the edit touches the subtree.
    pub(super) fn has_edit(&self, name: Option<&SmolStr>, reach: &Reach) -> bool {
        let is_named = self.name.is_none() || self.name.as_ref() == name;
        is_named && (self.node.iter()).all(|node| reach.within.contains(node))
    }
}
