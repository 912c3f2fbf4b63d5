//! Undo and redo of one [`Editor`](crate::Editor), beside the edits of others.
//!
//! **Use it** to set how edits become entries of the history ([`HistoryOptions`], [`HistoryMode`],
//! [`EditGroup`]) and to handle an undo that is not possible ([`UndoError`]). **Do not use it** to
//! go back to an older version of the whole document: keep a [`Snapshot`](crate::Snapshot) for
//! that.
//!
//! ```
//! use doclock::dsl::*;
//! use doclock::{DataStore, Editor, View};
//!
//! let store = DataStore::new();
//! let [ann, bob] = ["ann", "bob"].map(|user| Editor::new(store.clone(), user));
//! ann.execute([create(text_node("paragraph", "ab").with_id("p"))])?;
//! ann.execute([insert_text(2, "c").on("p")])?;
//! bob.execute([insert_text(0, "x").on("p")])?;
//!
//! // Later edits by other editors are kept.
//! ann.undo()?;
//! let text = || store.snapshot().node("p").unwrap().text().to_string();
//! assert_eq!(text(), "xab");
//! ann.redo()?;
//! assert_eq!(text(), "xabc");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A history consists of two stacks of entries. An entry contains its changes and a summary of the
//! later changes by others. An undo of the topmost entry rebases its inverses over those changes,
//! then passes the changes on to the next entry, as if the undone one had never been. The undo is
//! itself an entry, on the other stack. So undo and redo are one mechanism, and both are exact if
//! no other editor changes the document.
//!
//! An entry that cannot be undone stays where it is. An undo of an entry below takes the changes of
//! the upper one for those of another editor.

mod entry;
mod error;
mod options;
mod part;
mod rebuild;
mod stack;

use std::sync::Arc;

pub use super::editor::EditGroup;
pub use error::UndoError;
pub use options::{HistoryMode, HistoryOptions};

pub(super) use entry::UndoFailure;
use entry::{HistoryEntry, goes_on};
use part::{Part, of_the_document};
use smallvec::{SmallVec, smallvec};
use smol_str::SmolStr;
use stack::Stack;

use super::operation::Callback;
use crate::document::{Changes, PieceMap, Selection};
use crate::id::{NodeId, OwnerId};
use crate::store::{Kind, LaterCommits, Stretch, Transaction, TransactionResult};
use crate::time::MonotonicTime;

/// Undo or redo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Undo,
    Redo,
}

impl Direction {
    /// The name of the executed operation.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Undo => Kind::Undo,
            Self::Redo => Kind::Redo,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct History {
    options: HistoryOptions,
    undo: Stack,
    redo: Stack,
    /// How many entries there have been.
    entries: u64,
    /// How many nested groups are open.
    open: usize,
    /// Whether the topmost entry belongs to the open group.
    grouping: bool,
    /// The name for the entry of the open group.
    group_name: Option<SmolStr>,
    /// How many parts were merged late into entries that can be undone; each has to observe every
    /// commit.
    late: usize,
    /// Removed entries, to be dropped with no lock held: their drop runs code of users.
    gone: Vec<Arc<HistoryEntry>>,
}

/// A transaction of the editor, to be recorded.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) changes: Changes,
    pub(super) inverses: Vec<Callback>,
    pub(super) before: Option<Selection>,
    pub(super) after: Option<Selection>,
    pub(super) at: MonotonicTime,
    /// The version of its commit.
    pub(super) version: u64,
}

impl Edit {
    fn part(self) -> Part {
        Part::new(self.changes, self.inverses, self.version)
    }
}

/// An undo or a redo in progress. Its entries stay in the history until it is published.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) direction: Direction,
    /// Its idempotency key.
    key: Option<SmolStr>,
    /// The entries that it has tried, the newest first, each with the changes after those that it
    /// knows.
    tried: SmallVec<[(Arc<HistoryEntry>, PieceMap); 1]>,
}

/// The result of undoing an entry.
#[derive(Debug, Default)]
pub(super) struct Rewound {
    /// Later changes by others, as if the entry had never been.
    since: PieceMap,
    /// The selections after the entry and after its undo, moved along with later changes by others.
    here: Option<Selection>,
    there: Option<Selection>,
}

impl History {
    pub(super) fn options(&self) -> &HistoryOptions {
        &self.options
    }

    /// Becomes empty, with these options and the same open groups. Returns the old history.
    pub(super) fn replace(&mut self, options: HistoryOptions) -> Self {
        let empty = Self {
            options,
            open: self.open,
            group_name: self.group_name.clone(),
            ..Self::default()
        };
        std::mem::replace(self, empty)
    }

    pub(super) fn depth(&self, direction: Direction) -> usize {
        self.stack(direction).entries.len()
    }

    fn stack(&self, direction: Direction) -> &Stack {
        match direction {
            Direction::Undo => &self.undo,
            Direction::Redo => &self.redo,
        }
    }

    fn stack_mut(&mut self, direction: Direction) -> &mut Stack {
        match direction {
            Direction::Undo => &mut self.undo,
            Direction::Redo => &mut self.redo,
        }
    }

    /// Whether there are entries to be dropped.
    pub(super) fn has_removed(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Takes the entries to be dropped with no lock held.
    pub(super) fn take_gone(&mut self) -> impl Sized + use<> {
        std::mem::take(&mut self.gone)
    }

    pub(super) fn clear(&mut self) {
        let all = [&mut self.undo, &mut self.redo];
        let all = all.into_iter().flat_map(|stack| stack.entries.drain(..));
        self.gone.extend(all);
        self.late = 0;
        self.grouping = false;
    }

    // --- Groups ---

    pub(super) fn open_group(&mut self, name: Option<SmolStr>) {
        if self.open == 0 {
            self.grouping = false;
            self.group_name = name;
        }
        self.open += 1;
    }

    pub(super) fn close_group(&mut self) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.group_name = None;
            self.end_entry();
        }
    }

    /// Ends the entry: the next edit begins another.
    pub(super) fn end_entry(&mut self) {
        self.grouping = false;
        if let Some(top) = self.undo.entries.back_mut().filter(|top| top.open) {
            Arc::make_mut(top).open = false;
        }
    }

    // --- Recording ---

    /// Records a commit of the editor itself.
    pub(super) fn record(&mut self, edit: Edit, how: HistoryMode) {
        if self.options.limit == 0 || of_the_document(&edit.changes).next().is_none() {
            return self.let_go(edit);
        }
        if how == HistoryMode::Skipped {
            self.observe(edit.version, &edit.changes);
            return self.let_go(edit);
        }
        self.gone.extend(self.redo.entries.drain(..));
        self.in_late_parts(|part| part.observe_own(edit.version, &edit.changes, &[]));
        match how {
            HistoryMode::MergedInto(name) => self.merge(edit, name),
            HistoryMode::Named(name) => {
                self.end_entry();
                self.push(edit, Some(name), false);
            }
            _ => self.join_or_push(edit),
        }
        while self.undo.entries.len() > self.options.limit
            && let Some(oldest) = self.undo.entries.pop_front()
        {
            self.forget(oldest);
        }
    }

    /// Keeps the code of an unrecorded edit until no lock is held.
    fn let_go(&mut self, edit: Edit) {
        if !edit.inverses.is_empty() {
            let entry = self.entry(edit, None, false);
            self.gone.push(entry);
        }
    }

    /// Takes in that an entry has left its stack.
    fn forget(&mut self, entry: Arc<HistoryEntry>) {
        self.late -= entry.late.len();
        self.gone.push(entry);
    }

    fn join_or_push(&mut self, edit: Edit) {
        let interval = self.options.group_interval;
        let joins = |top: &HistoryEntry| {
            top.open && edit.at - top.last < interval && goes_on(top, &edit.changes)
        };
        let grouped = self.open > 0 && self.grouping;
        match self.undo.entries.back() {
            Some(top) if grouped || (self.open == 0 && joins(top)) => self.undo.join(edit, true),
            _ => {
                let name = self.group_name.take();
                self.grouping = self.open > 0;
                self.push(edit, name, true);
            }
        }
    }

    fn push(&mut self, edit: Edit, name: Option<SmolStr>, open: bool) {
        let entry = self.entry(edit, name, open);
        self.undo.push(entry);
    }

    fn entry(&mut self, edit: Edit, name: Option<SmolStr>, open: bool) -> Arc<HistoryEntry> {
        Arc::new(HistoryEntry {
            number: self.next_number(),
            name,
            open,
            last: edit.at,
            there: edit.before.clone(),
            here: edit.after.clone(),
            parts: smallvec![edit.part()],
            late: Vec::new(),
            next: None,
            refused: None,
        })
    }

    fn next_number(&mut self) -> u64 {
        self.entries += 1;
        self.entries
    }

    fn merge(&mut self, edit: Edit, name: SmolStr) {
        let entries = &self.undo.entries;
        let named = |entry: &Arc<HistoryEntry>| entry.name.as_ref() == Some(&name);
        match entries.iter().rposition(named) {
            None => {
                self.end_entry();
                self.push(edit, Some(name), false);
            }
            // Late changes are undone first, so a change after them is late as well.
            Some(at) if at + 1 == entries.len() && entries[at].late.is_empty() => {
                self.undo.join(edit, false);
            }
            Some(at) => {
                // For the entries above, and for the entry that it is merged into, it is a change
                // by another editor.
                let mut observe = |part: &mut Part| {
                    part.observe_own(edit.version, &edit.changes, &[]);
                };
                self.undo.in_last_parts(&mut observe);
                let entry = Arc::make_mut(&mut self.undo.entries[at]);
                entry.late.push(edit.part());
                self.late += 1;
            }
        }
    }

    /// Takes in a commit of the editor that is not undone.
    fn observe(&mut self, version: u64, changes: &Changes) {
        self.in_last_parts(|part| part.observe_own(version, changes, &[]));
    }

    /// Takes in the commits of others since the last ones.
    pub(super) fn observe_others(&mut self, later: &LaterCommits) {
        self.in_last_parts(|part| {
            for stretch in &later.stretches {
                part.observe_stretch(Arc::clone(stretch));
            }
            for commit in &later.apart {
                part.observe(commit.clone());
            }
        });
    }

    /// Calls `observe` for each part whose map leads to the present.
    fn in_last_parts(&mut self, mut observe: impl FnMut(&mut Part)) {
        self.in_late_parts(&mut observe);
        self.undo.in_last_parts(&mut observe);
        self.redo.in_last_parts(&mut observe);
    }

    fn in_late_parts(&mut self, mut observe: impl FnMut(&mut Part)) {
        if self.late == 0 {
            return;
        }
        let entries = self.undo.entries.iter_mut();
        for entry in entries.filter(|entry| !entry.late.is_empty()) {
            let late = &mut Arc::make_mut(entry).late;
            late.iter_mut().for_each(&mut observe);
        }
    }

    // --- Undo and redo ---

    /// The commits of others after the entry that the next undo or redo tries first.
    pub(super) fn stretches_after_next(&self, direction: Direction) -> Vec<Arc<Stretch>> {
        let next = self.stack(direction).entries.back();
        let parts = next
            .iter()
            .flat_map(|entry| entry.parts.iter().chain(&entry.late));
        parts.flat_map(Part::older).cloned().collect()
    }

    /// Adds the next older entry to those that were tried. Returns whether there is one.
    pub(super) fn try_next(&self, attempt: &mut Attempt) -> bool {
        let stack = self.stack(attempt.direction);
        // If the last one was discarded meanwhile, the entries below it have followed it.
        let last = attempt.last().and_then(|last| stack.position(last));
        let next = last.unwrap_or(stack.entries.len()).checked_sub(1);
        let Some(next) = next.map(|at| &stack.entries[at]) else {
            return false;
        };
        let mut tried = attempt.tried.iter();
        let after = tried.find(|(entry, _)| next.next == Some(entry.number));
        let later = after.map(|(entry, later)| entry.with_later(later));
        let next = (Arc::clone(next), later.unwrap_or_default());
        attempt.tried.push(next);
        true
    }

    /// Takes in that the entry that was tried last cannot be undone. Returns whether this undo has
    /// to return the failure: it is the first that found one, or a repetition of it.
    pub(super) fn refuse(&mut self, attempt: &Attempt) -> bool {
        let Attempt { direction, key, .. } = attempt;
        let Some(last) = attempt.last() else {
            return true;
        };
        if let Some(before) = &last.refused {
            return before.is_some() && before == key;
        }
        let stack = self.stack_mut(*direction);
        if let Some(at) = stack.position(last) {
            Arc::make_mut(&mut stack.entries[at]).refused = Some(key.clone());
            self.end_entry();
        }
        true
    }

    /// Takes in that these changes undid or redid the entry that was tried last. No other commit
    /// happened in between.
    ///
    /// If the entry was discarded meanwhile, it stays discarded, and its undo is not an edit of
    /// this history.
    pub(super) fn settle(
        &mut self,
        attempt: &Attempt,
        commit: &TransactionResult,
        rewound: Rewound,
    ) {
        let TransactionResult {
            version,
            ref changes,
            ..
        } = *commit;
        let Rewound { since, here, there } = rewound;
        let direction = attempt.direction;
        let stack = self.stack_mut(direction);
        let at = attempt.last().and_then(|last| stack.position(last));
        let Some(entry) = at.and_then(|at| stack.entries.remove(at)) else {
            return self.observe(version, changes);
        };
        let versions = entry.versions();
        let mut observe = |part: &mut Part| part.observe_own(version, changes, &versions);
        // The changes come after newer entries, which are stuck.
        stack.has_branches |= at != Some(stack.entries.len());
        stack.in_last_parts(&mut observe);
        stack.follow(&entry, &since);
        self.in_late_parts(observe);
        self.end_entry();
        let other = match direction {
            Direction::Undo => Direction::Redo,
            Direction::Redo => Direction::Undo,
        };
        let opposite = Arc::new(HistoryEntry {
            number: self.next_number(),
            open: false,
            here: there,
            there: here,
            parts: smallvec![Part::new(changes.clone(), Vec::new(), version)],
            late: Vec::new(),
            name: entry.name.clone(),
            last: entry.last,
            next: None,
            refused: None,
        });
        self.forget(entry);
        self.stack_mut(other).push(opposite);
    }

    /// Discards the topmost entry; from then on it counts as a change by another editor.
    pub(super) fn discard(&mut self, direction: Direction) -> bool {
        let stack = self.stack_mut(direction);
        let Some(entry) = stack.entries.pop_back() else {
            return false;
        };
        stack.follow(&entry, &entry.with_later(&PieceMap::default()));
        self.forget(entry);
        self.grouping = false;
        true
    }
}

impl UndoFailure {
    /// As an error for the caller, with what `latest_change` knows of the node.
    pub(super) fn explain(
        self,
        direction: Direction,
        latest_change: impl FnOnce(&NodeId) -> Option<(OwnerId, u64)>,
    ) -> UndoError {
        match self {
            Self::Inverse(error) => UndoError::Inverse(error),
            Self::Schema(violation) => UndoError::Commit(violation.into()),
            Self::Conflict(conflict) | Self::NothingLeft(conflict) => UndoError::Conflict {
                redo: direction == Direction::Redo,
                by: conflict.node().and_then(latest_change),
                conflict,
            },
        }
    }
}

impl Attempt {
    pub(super) fn new(direction: Direction, key: Option<SmolStr>) -> Self {
        let tried = SmallVec::new();
        Self {
            direction,
            key,
            tried,
        }
    }

    /// The entry that was tried last.
    fn last(&self) -> Option<&HistoryEntry> {
        self.tried.last().map(|(entry, _)| &**entry)
    }

    /// The versions of its commits.
    pub(super) fn versions(&self) -> Vec<u64> {
        self.last().map_or(Vec::new(), HistoryEntry::versions)
    }

    /// Undoes it.
    pub(super) fn rewind(&self, on: &mut Transaction) -> Result<Rewound, UndoFailure> {
        let Some((entry, later)) = self.tried.last() else {
            return Ok(Rewound::default());
        };
        let (since, here) = entry.rewind(later, on)?;
        let there = entry.there.as_ref();
        let there = there.map(|there| since.selection(there));
        // The selected node may no longer exist.
        let _ = on.select(there.clone());
        on.check_schema().map_err(UndoFailure::Schema)?;
        Ok(Rewound { since, here, there })
    }
}

#[cfg(test)]
mod tests;
