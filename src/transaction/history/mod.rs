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
//! let text = || store.snapshot().node(&"p".into()).unwrap().text().to_string();
//! assert_eq!(text(), "xab");
//! ann.redo()?;
//! assert_eq!(text(), "xabc");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the crate, a history is two stacks of entries. An entry has its changes and, as lengths, the
//! changes that others made after them. Undoing the topmost entry makes its inverses, rebased over
//! those; then they go on to the entry below, as if the undone one had never been. What the undo
//! did is in turn an entry, of the other stack. So undo and redo are one mechanism, and both are
//! exact where no other editor changes the document.

mod entry;
mod error;
mod options;
mod part;

use std::collections::VecDeque;
use std::sync::Arc;

pub use super::editor::EditGroup;
pub use error::UndoError;
pub use options::{HistoryMode, HistoryOptions};

use entry::{Entry, Failure, goes_on};
use part::Part;
use smallvec::smallvec;
use smol_str::SmolStr;

use super::operation::Callback;
use crate::document::{Change, Selection, Since};
use crate::id::{NodeId, OwnerId};
use crate::store::{Transaction, Witnessed};
use crate::time::MonotonicTime;

/// Which way to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Undo,
    Redo,
}

#[derive(Debug, Default)]
pub(super) struct History {
    options: HistoryOptions,
    // Shared with an undo that is under way: it reads its entry without the mutex of the session.
    undo: VecDeque<Arc<Entry>>,
    redo: VecDeque<Arc<Entry>>,
    /// How many entries there have been.
    entries: u64,
    /// How many groups are open, one in another.
    open: usize,
    /// Whether the topmost entry belongs to the open group.
    grouping: bool,
    /// The name that the entry of the open group will have.
    group_name: Option<SmolStr>,
    /// How many parts were merged late into an entry that can be undone; each has to be told of
    /// every commit.
    late: usize,
    /// Entries that are gone, to be dropped where no lock is held: the code that they brought along
    /// may do anything then.
    gone: Vec<Arc<Entry>>,
    /// Which nodes others changed, by whom and in which version, the latest last; for errors.
    touched: VecDeque<(NodeId, OwnerId, u64)>,
}

/// Evidence is kept of so many changes at most.
const REMEMBERED: usize = 256;

/// A transaction of the editor's own, to be recorded.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) changes: Vec<Change>,
    pub(super) inverses: Vec<Callback>,
    pub(super) before: Option<Selection>,
    pub(super) after: Option<Selection>,
    pub(super) at: MonotonicTime,
    /// The version that it made.
    pub(super) version: u64,
}

impl Edit {
    fn part(self) -> Part {
        Part::new(self.changes, self.inverses, self.version)
    }
}

/// The topmost entry, to be undone or redone. It stays in the history until that is published.
#[derive(Debug)]
pub(super) struct Topmost {
    entry: Arc<Entry>,
    direction: Direction,
}

/// What undoing an entry came to.
#[derive(Debug)]
pub(super) struct Rewound {
    /// What others did since, as it would be if the entry had never been.
    since: Since,
    /// What is selected where the entry stood, and where it is undone, moved along with what others
    /// did.
    here: Option<Selection>,
    there: Option<Selection>,
}

impl History {
    pub(super) fn new(options: HistoryOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    pub(super) fn depth(&self, direction: Direction) -> usize {
        self.stack(direction).len()
    }

    fn stack(&self, direction: Direction) -> &VecDeque<Arc<Entry>> {
        match direction {
            Direction::Undo => &self.undo,
            Direction::Redo => &self.redo,
        }
    }

    fn stack_mut(&mut self, direction: Direction) -> &mut VecDeque<Arc<Entry>> {
        match direction {
            Direction::Undo => &mut self.undo,
            Direction::Redo => &mut self.redo,
        }
    }

    /// What is to be dropped where no lock is held.
    pub(super) fn take_gone(&mut self) -> impl Sized + use<> {
        std::mem::take(&mut self.gone)
    }

    pub(super) fn clear(&mut self) {
        let all = self.undo.drain(..).chain(self.redo.drain(..));
        self.gone.extend(all);
        self.touched.clear();
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

    /// What comes next is another entry.
    fn end_entry(&mut self) {
        self.grouping = false;
        if let Some(top) = self.undo.back_mut().filter(|top| top.open) {
            Arc::make_mut(top).open = false;
        }
    }

    // --- What is done ---

    /// Takes in what the editor itself committed.
    pub(super) fn record(&mut self, edit: Edit, how: HistoryMode) {
        let mut edit = edit;
        edit.changes.retain(Change::is_of_the_document);
        if self.options.limit == 0 || edit.changes.is_empty() {
            return self.let_go(edit);
        }
        if how == HistoryMode::Skipped {
            self.observe(edit.version, &edit.changes);
            return self.let_go(edit);
        }
        self.gone.extend(self.redo.drain(..));
        self.note_late(edit.version, &edit.changes);
        match how {
            HistoryMode::MergedInto(name) => self.merge(edit, name),
            HistoryMode::Named(name) => {
                self.end_entry();
                self.push(edit, Some(name), false);
            }
            _ => self.join_or_push(edit),
        }
        while self.undo.len() > self.options.limit {
            let oldest = self.undo.pop_front();
            self.forget(oldest);
        }
    }

    /// Keeps the code of an edit that is not recorded until no lock is held.
    fn let_go(&mut self, edit: Edit) {
        if !edit.inverses.is_empty() {
            let entry = self.entry(edit, None, false);
            self.gone.push(entry);
        }
    }

    /// Takes in that an entry has left its stack.
    fn forget(&mut self, entry: Option<Arc<Entry>>) {
        if let Some(entry) = entry {
            self.late -= entry.late.len();
            self.gone.push(entry);
        }
    }

    fn join_or_push(&mut self, edit: Edit) {
        let interval = self.options.group_interval;
        let joins =
            |top: &Entry| top.open && edit.at - top.last < interval && goes_on(top, &edit.changes);
        let grouped = self.open > 0 && self.grouping;
        match self.undo.back_mut() {
            Some(top) if grouped || (self.open == 0 && joins(top)) => {
                Arc::make_mut(top).join(edit, true);
            }
            _ => {
                let name = self.group_name.take();
                self.grouping = self.open > 0;
                self.push(edit, name, true);
            }
        }
    }

    fn push(&mut self, edit: Edit, name: Option<SmolStr>, open: bool) {
        let entry = self.entry(edit, name, open);
        self.undo.push_back(entry);
    }

    fn entry(&mut self, edit: Edit, name: Option<SmolStr>, open: bool) -> Arc<Entry> {
        Arc::new(Entry {
            number: self.next_number(),
            name,
            open,
            last: edit.at,
            there: edit.before.clone(),
            here: edit.after.clone(),
            parts: smallvec![edit.part()],
            late: Vec::new(),
        })
    }

    fn next_number(&mut self) -> u64 {
        self.entries += 1;
        self.entries
    }

    fn merge(&mut self, edit: Edit, name: SmolStr) {
        let named = |entry: &Arc<Entry>| entry.name.as_ref() == Some(&name);
        match self.undo.iter().rposition(named) {
            None => {
                self.end_entry();
                self.push(edit, Some(name), false);
            }
            // What came late is undone first, so what comes after that is late as well.
            Some(at) if at + 1 == self.undo.len() && self.undo[at].late.is_empty() => {
                Arc::make_mut(&mut self.undo[at]).join(edit, false);
            }
            Some(at) => {
                // To the entries above, and to what it is merged into, it is as if somebody else
                // had done it.
                if let Some(top) = self.undo.back_mut() {
                    Arc::make_mut(top).observe(edit.version, &edit.changes);
                }
                Arc::make_mut(&mut self.undo[at]).late.push(edit.part());
                self.late += 1;
            }
        }
    }

    /// Takes in what others committed, or what is not to be undone.
    fn observe(&mut self, version: u64, changes: &[Change]) {
        self.note_late(version, changes);
        for top in self.tops() {
            top.observe(version, changes);
        }
    }

    /// Takes in what somebody else committed, who may thereby have undone what they did before.
    pub(super) fn observe_other(&mut self, other: &Witnessed<'_>) {
        if self.undo.is_empty() && self.redo.is_empty() {
            return;
        }
        let Witnessed {
            version, changes, ..
        } = *other;
        self.note_late(version, changes);
        for top in self.tops() {
            top.observe_other(other);
        }
        for id in changes.iter().filter_map(Change::node) {
            if self.touched.len() == REMEMBERED {
                self.touched.pop_front();
            }
            let evidence = (id.clone(), other.owner.clone(), version);
            self.touched.push_back(evidence);
        }
    }

    fn tops(&mut self) -> impl Iterator<Item = &mut Entry> {
        let tops = self.undo.back_mut().into_iter().chain(self.redo.back_mut());
        tops.map(Arc::make_mut)
    }

    fn note_late(&mut self, version: u64, changes: &[Change]) {
        if self.late == 0 {
            return;
        }
        for entry in self.undo.iter_mut().filter(|entry| !entry.late.is_empty()) {
            for part in &mut Arc::make_mut(entry).late {
                part.observe(version, changes);
            }
        }
    }

    // --- Undo and redo ---

    /// The topmost entry.
    pub(super) fn topmost(&self, direction: Direction) -> Option<Topmost> {
        let entry = Arc::clone(self.stack(direction).back()?);
        Some(Topmost { entry, direction })
    }

    /// Takes in that the entry was undone, or redone, by these changes. No other commit came in
    /// between.
    ///
    /// If the entry was discarded meanwhile, it stays so, and what undid it is no edit of this
    /// history.
    pub(super) fn settle(
        &mut self,
        topmost: &Topmost,
        version: u64,
        mut changes: Vec<Change>,
        rewound: Rewound,
    ) {
        changes.retain(Change::is_of_the_document);
        let Rewound { since, here, there } = rewound;
        let Topmost { entry, direction } = topmost;
        let stack = self.stack_mut(*direction);
        if stack.back().is_none_or(|top| top.number != entry.number) {
            return self.observe(version, &changes);
        }
        let undone = stack.pop_back();
        self.forget(undone);
        self.end_entry();
        self.note_late(version, &changes);
        if let Some(below) = self.stack_mut(*direction).back_mut() {
            Arc::make_mut(below).follow(since);
        }
        let other = match direction {
            Direction::Undo => Direction::Redo,
            Direction::Redo => Direction::Undo,
        };
        let opposite = Arc::new(Entry {
            number: self.next_number(),
            open: false,
            here: there,
            there: here,
            parts: smallvec![Part::new(changes, Vec::new(), version)],
            late: Vec::new(),
            name: entry.name.clone(),
            last: entry.last,
        });
        self.stack_mut(other).push_back(opposite);
    }

    /// Forgets the topmost entry, which from then on is as if somebody else had done it.
    pub(super) fn discard(&mut self, direction: Direction) -> bool {
        let stack = self.stack_mut(direction);
        let Some(entry) = stack.pop_back() else {
            return false;
        };
        if let Some(below) = stack.back_mut().map(Arc::make_mut) {
            for part in &entry.parts {
                let mut since = Since::default();
                part.changes.iter().for_each(|change| since.observe(change));
                since.append(part.since());
                below.follow(since);
            }
        }
        self.forget(Some(entry));
        self.grouping = false;
        true
    }

    pub(super) fn explain(&self, direction: Direction, failure: Failure) -> UndoError {
        match failure {
            Failure::Inverse(error) => UndoError::Inverse(error),
            Failure::Conflict(conflict) => {
                let node = conflict.node();
                let mut touched = self.touched.iter().rev();
                let by = touched.find(|(id, ..)| Some(id) == node);
                UndoError::Conflict {
                    redo: direction == Direction::Redo,
                    by: by.map(|(_, owner, version)| (owner.clone(), *version)),
                    conflict,
                }
            }
        }
    }
}

impl Topmost {
    /// The versions that its commits made.
    pub(super) fn versions(&self) -> Vec<u64> {
        self.entry.versions()
    }

    /// Undoes it.
    pub(super) fn rewind(&self, on: &mut Transaction) -> Result<Rewound, Failure> {
        let since = self.entry.rewind(on)?;
        let here = self.entry.here.clone();
        let there = self.entry.there.as_ref();
        let there = there.map(|there| since.selection(there));
        // What was selected then may no longer be there.
        let _ = on.select(there.clone());
        Ok(Rewound { since, here, there })
    }
}

#[cfg(test)]
mod tests;
