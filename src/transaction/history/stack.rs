//! The entries that can be undone, or those that can be redone.
//!
//! The map of an entry leads to where the next entry begins, or to the present. If an entry is
//! undone below others, the map of the entry before it leads to the present as well. So maps form
//! branches, which meet where the next entry is pushed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Edit;
use super::entry::HistoryEntry;
use super::part::Part;
use crate::document::PieceMap;

#[derive(Debug, Default)]
pub(super) struct Stack {
    // Shared with an undo in progress, which reads its entries without the session's mutex.
    pub(super) entries: VecDeque<Arc<HistoryEntry>>,
    /// Whether the map of another entry than the one below may lead to the topmost one, or to the
    /// present.
    pub(super) has_branches: bool,
}

impl Stack {
    /// Where an entry is.
    pub(super) fn position(&self, entry: &HistoryEntry) -> Option<usize> {
        let mut entries = self.entries.iter();
        entries.rposition(|it| it.number == entry.number)
    }

    /// The version of the last commit of the topmost entry.
    pub(super) fn last_version(&self) -> Option<u64> {
        let last = self.entries.back()?.parts.last()?;
        last.versions.last().copied()
    }

    /// The entries below the topmost one whose maps may lead to that or to the present.
    fn those_before(&mut self, top: usize) -> impl Iterator<Item = &mut Arc<HistoryEntry>> {
        let first = match self.has_branches {
            true => 0,
            false => top.saturating_sub(1),
        };
        self.entries.range_mut(first..top)
    }

    pub(super) fn push(&mut self, entry: Arc<HistoryEntry>) {
        let top = self.entries.len();
        self.has_branches &= top > 0;
        for before in self.those_before(top).filter(|it| it.next.is_none()) {
            Arc::make_mut(before).next = Some(entry.number);
        }
        self.entries.push_back(entry);
    }

    /// Adds an edit to the topmost entry.
    pub(super) fn join(&mut self, edit: Edit, open: bool) {
        let top = self.entries.len().saturating_sub(1);
        for entry in self.those_before(top).filter(|it| it.next.is_none()) {
            Arc::make_mut(entry).observe(|part| part.observe_own(edit.version, &edit.changes, &[]));
        }
        if let Some(top) = self.entries.back_mut() {
            Arc::make_mut(top).join(edit, open);
        }
    }

    /// Calls `observe` for each part whose map leads to the present.
    pub(super) fn in_last_parts(&mut self, mut observe: impl FnMut(&mut Part)) {
        let end = self.entries.len();
        for entry in self.those_before(end).filter(|it| it.next.is_none()) {
            Arc::make_mut(entry).observe(&mut observe);
        }
    }

    /// Takes in that an entry is removed, and that its place is taken by these changes, which lead
    /// to the present.
    pub(super) fn follow(&mut self, removed: &HistoryEntry, since: &PieceMap) {
        let end = self.entries.len();
        let number = Some(removed.number);
        for entry in self.those_before(end).filter(|it| it.next == number) {
            let entry = Arc::make_mut(entry);
            entry.next = None;
            entry.observe(|part| part.follow(since));
        }
    }
}
