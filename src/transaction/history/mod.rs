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
//! ann.undo().commit()?;
//! let text = || store.snapshot().node("p").unwrap().text().to_string();
//! assert_eq!(text(), "xab");
//! ann.redo().commit()?;
//! assert_eq!(text(), "xabc");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A history consists of two stacks of entries. An entry names the units of edits that it consists
//! of. An undo takes these units out of effect, and a redo puts them back into effect. The
//! provenance of the document, which all histories share, determines what that changes. So undo and
//! redo are one mechanism, and both are exact for any number of editors.
//!
//! An entry that cannot be undone stays where it is, and blocks no other. An entry whose undo
//! changes nothing is undone without a new version.

mod entry;
mod error;
mod event;
mod grouping;
mod options;
mod rebuild;
mod scope;

use std::collections::VecDeque;
use std::sync::Arc;

pub use super::editor::EditGroup;
pub use error::UndoError;
pub use event::{HistoryEvent, HistoryEventKind};
pub use options::{HistoryMode, HistoryOptions};

use crossbeam_channel::Receiver;
use entry::{HistoryEntry, of_the_document};
pub(super) use entry::{Rewound, UndoFailure};
use event::Listeners;
pub(super) use scope::UndoScope;
use smallvec::SmallVec;
use smol_str::SmolStr;

use super::TransactionResult;
use super::operation::Callback;
use crate::document::{
    BlockedUndo, Changes, EditUnit, Reach, RecordedCommit, SilentReversals, Typed,
};
use crate::id::{NodeId, OwnerId};
use crate::steps::step;
use crate::store::{DataStore, Draft, ReversedEntry, TransactionKind};
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

    pub(super) fn kind(self) -> TransactionKind {
        match self {
            Self::Undo => TransactionKind::Undo,
            Self::Redo => TransactionKind::Redo,
        }
    }
}

/// Entries, the oldest first. They are shared with an undo in progress, which reads them without
/// the session's mutex.
type Stack = VecDeque<Arc<HistoryEntry>>;

#[derive(Debug, Default)]
pub(super) struct History {
    options: HistoryOptions,
    undo: Stack,
    redo: Stack,
    /// How many entries there have been.
    entries: u64,
    /// How many nested groups are open.
    open: usize,
    /// The number of the outermost of them, and its name while it is open.
    group: (u64, Option<SmolStr>),
    /// Whether the topmost entry belongs to the open group.
    grouping: bool,
    /// Removed entries, to be dropped with no lock held: their drop runs code of users.
    gone: SmallVec<[Arc<HistoryEntry>; 1]>,
    listeners: Listeners,
}

/// Where a transaction goes in a history. It is decided before the commit, under the same lock.
#[derive(Debug)]
pub(super) struct PlannedEntry {
    unit: Arc<EditUnit>,
    place: EntryPlace,
    at: MonotonicTime,
    typed: Option<Typed>,
}

impl PlannedEntry {
    /// What is undone together with it.
    pub(super) fn unit(&self) -> &Arc<EditUnit> {
        &self.unit
    }
}

#[derive(Debug)]
enum EntryPlace {
    /// A new entry.
    New { name: Option<SmolStr>, open: bool },
    /// The topmost entry, which gets this name if it has none.
    Topmost { name: Option<SmolStr>, open: bool },
    /// An older entry, of this number.
    Older(u64),
}

/// An undo or a redo in progress. Its entries stay in the history until it is published.
#[derive(Debug)]
pub(super) struct UndoAttempt {
    pub(super) direction: Direction,
    scope: UndoScope,
    /// Its idempotency key.
    key: Option<SmolStr>,
    /// The entries that it has tried, the newest first.
    tried: SmallVec<[Arc<HistoryEntry>; 1]>,
    /// Those of them without an effect, after which it went on.
    passed: Vec<Arc<HistoryEntry>>,
    /// What the undo of these changes in the record.
    silent: SilentReversals,
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
            group: self.group.clone(),
            listeners: std::mem::take(&mut self.listeners),
            ..Self::default()
        };
        std::mem::replace(self, empty)
    }

    /// Whether an undo that had no effect goes on: there is an entry below the one that it tried.
    pub(super) fn goes_on_after(&self, attempt: &UndoAttempt) -> bool {
        self.options.next_effective && self.next(attempt).is_some()
    }

    pub(super) fn depth(&self, direction: Direction) -> usize {
        self.stack(direction).len()
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

    /// The unit that the next undo or redo reverses, if it is one.
    pub(super) fn next_unit(&self, direction: Direction) -> Option<Arc<EditUnit>> {
        self.stack(direction).back()?.only_unit().cloned()
    }

    /// Whether an undo or redo can run code of users.
    pub(super) fn runs_code(&self, direction: Direction) -> bool {
        let undoes = direction == Direction::Undo;
        undoes && self.undo.iter().any(|entry| !entry.inverses.is_empty())
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
        let all = all.into_iter().flat_map(|stack| stack.drain(..));
        self.gone.extend(all);
        self.grouping = false;
        self.tell(HistoryEventKind::Removed, |_| None);
    }

    // --- Events ---

    pub(super) fn listen(&mut self) -> Receiver<HistoryEvent> {
        self.listeners.add()
    }

    /// Tells what happened to an entry, which may have a name.
    fn tell(&mut self, kind: HistoryEventKind, name: impl FnOnce(&Self) -> Option<SmolStr>) {
        let event = HistoryEvent {
            kind,
            name: name(self),
            undo_depth: self.undo.len(),
            redo_depth: self.redo.len(),
        };
        self.listeners.tell(&event);
    }

    // --- Groups ---

    /// Opens a group, and returns the number of the outermost one.
    pub(super) fn open_group(&mut self, name: Option<SmolStr>) -> u64 {
        if self.open == 0 {
            self.grouping = false;
            self.group = (self.group.0 + 1, name);
        }
        self.open += 1;
        self.group.0
    }

    /// Closes a group within the outermost one of this number, unless that is closed already.
    pub(super) fn close_group(&mut self, outermost: u64) {
        if self.open > 0 && self.group.0 == outermost {
            self.open -= 1;
            self.close_if_none_is_open();
        }
    }

    /// Closes the outermost group of this name, with those within it. Returns whether it was open.
    pub(super) fn close_named(&mut self, name: &str) -> bool {
        let is_open = self.open > 0 && self.group.1.as_deref() == Some(name);
        if is_open {
            self.open = 0;
            self.close_if_none_is_open();
        }
        is_open
    }

    fn close_if_none_is_open(&mut self) {
        if self.open == 0 {
            self.group.1 = None;
            self.end_entry();
        }
    }

    /// Ends the entry: the next edit begins another.
    pub(super) fn end_entry(&mut self) {
        self.grouping = false;
        if let Some(top) = self.undo.back_mut().filter(|top| top.open) {
            Arc::make_mut(top).open = false;
        }
    }

    // --- Recording ---

    /// Decides where a commit of the editor goes. `None` if it is not undone. Only otherwise it
    /// reads the time. The commit has this owner and version, and is a unit of its own if it
    /// `is_apart`.
    pub(super) fn enter(
        &self,
        draft: &Draft,
        how: &HistoryMode,
        now: impl FnOnce() -> MonotonicTime,
        (owner, version, is_apart): (&OwnerId, u64, bool),
    ) -> Option<PlannedEntry> {
        if self.options.limit == 0
            || *how == HistoryMode::Skipped
            || of_the_document(draft.changes()).next().is_none()
        {
            return None;
        }
        let at = now();
        let typed = match draft.is_no_typing() {
            true => None,
            false => Typed::of(draft.changes()),
        };
        let place = self.place(typed.as_ref(), how, at);
        let entry = match place {
            EntryPlace::New { .. } => None,
            EntryPlace::Topmost { .. } => self.undo.back(),
            EntryPlace::Older(number) => position(&self.undo, number).map(|at| &self.undo[at]),
        };
        let entry = entry.filter(|_| !is_apart);
        let unit = entry.and_then(|it| it.unit_before(version)).cloned();
        let unit = unit.unwrap_or_else(|| EditUnit::new(version, owner.clone()));
        Some(PlannedEntry {
            unit,
            place,
            at,
            typed,
        })
    }

    /// Records a commit of the editor itself, with this result and the code that reverts it.
    pub(super) fn record(
        &mut self,
        planned: PlannedEntry,
        inverses: Vec<Callback>,
        result: &TransactionResult,
        store: &DataStore,
    ) {
        let PlannedEntry {
            unit,
            place,
            at,
            typed,
        } = planned;
        let mut older_name = None;
        let kind = match place {
            EntryPlace::New { name, open } => {
                if open {
                    self.grouping = self.open > 0;
                } else {
                    self.end_entry();
                }
                let mut entry = HistoryEntry::new(unit, typed, at, inverses, result);
                entry.name = name;
                entry.open = open;
                self.push(Direction::Undo, entry);
                HistoryEventKind::Added
            }
            EntryPlace::Topmost { name, open } => {
                if let Some(top) = self.undo.back_mut() {
                    let top = Arc::make_mut(top);
                    top.join(HistoryEntry::new(unit, typed, at, inverses, result), open);
                    if name.is_some() && top.name.is_none() {
                        top.name = name;
                    }
                }
                HistoryEventKind::Joined
            }
            EntryPlace::Older(number) => {
                if let Some(older) = position(&self.undo, number) {
                    let older = &mut self.undo[older];
                    Arc::make_mut(older)
                        .merge(HistoryEntry::new(unit, typed, at, inverses, result));
                    older_name.clone_from(&older.name);
                }
                HistoryEventKind::Joined
            }
        };
        if self.undo.len() > self.options.limit {
            self.drop_oldest(Direction::Undo);
        }
        let top_name = |history: &Self| history.undo.back().and_then(|top| top.name.clone());
        let name = |history: &Self| older_name.clone().or_else(|| top_name(history));
        if !self.redo.is_empty() {
            self.end_redo(name(self).as_ref(), (&result.changes, store));
        }
        if !self.listeners.is_empty() {
            self.tell(kind, name);
        }
    }

    /// Drops what can no longer be redone after an edit in an entry of this name, which made these
    /// changes and this document: what was not undone in a scope that the edit is outside of.
    fn end_redo(&mut self, name: Option<&SmolStr>, (changes, after): (&Changes, &DataStore)) {
        let has_scopes = self.redo.iter().any(|it| it.undone_in.is_some());
        let reach = has_scopes.then(|| Reach::new(changes, &after.snapshot()));
        let (kept, gone) = { self.redo.drain(..) }.partition(|entry| {
            let scope = entry.undone_in.as_ref().zip(reach.as_ref());
            scope.is_some_and(|(scope, reach)| !scope.has_edit(name, reach))
        });
        self.redo = kept;
        self.gone.extend::<Stack>(gone);
    }

    /// Adds an entry on top of a stack. It gets the next number, also if it was in the other stack.
    #[inline(always)]
    fn push(&mut self, direction: Direction, mut entry: HistoryEntry) {
        self.entries += 1;
        entry.number = self.entries;
        self.stack_mut(direction).push_back(Arc::new(entry));
    }

    /// Keeps the limit of a stack.
    fn drop_oldest(&mut self, direction: Direction) {
        let stack = match direction {
            Direction::Undo => &mut self.undo,
            Direction::Redo => &mut self.redo,
        };
        let excess = stack.len().saturating_sub(self.options.limit);
        self.gone.extend(stack.drain(..excess));
    }

    // --- Undo and redo ---

    /// Adds the next older entry to those that were tried. Returns whether there is one.
    pub(super) fn try_next(&self, attempt: &mut UndoAttempt) -> bool {
        let next = self.next(attempt);
        if let Some(at) = next {
            let entry = &self.stack(attempt.direction)[at];
            attempt.tried.push(Arc::clone(entry));
        }
        next.is_some()
    }

    /// Where the entry of the scope is before the one that was tried last.
    fn next(&self, attempt: &UndoAttempt) -> Option<usize> {
        let stack = self.stack(attempt.direction);
        let last = attempt.last().and_then(|last| position(stack, last.number));
        let older = stack.range(..last.unwrap_or(stack.len()));
        { older.inspect(|_| step()) }.rposition(|entry| attempt.scope.may_have(entry))
    }

    /// Takes in that the entry that was tried last cannot be undone. Returns whether this undo has
    /// to return the failure: it is the first that found one, or a repetition of it.
    pub(super) fn refuse(&mut self, attempt: &UndoAttempt) -> bool {
        let UndoAttempt { direction, key, .. } = attempt;
        let Some(last) = attempt.last() else {
            return true;
        };
        if let Some(before) = &last.refused {
            return before.is_some() && before == key;
        }
        let stack = self.stack_mut(*direction);
        if let Some(at) = position(stack, last.number) {
            Arc::make_mut(&mut stack[at]).refused = Some(key.clone());
            self.end_entry();
        }
        true
    }

    /// Moves the entries of a published undo or redo to the other stack. The one that was tried
    /// last had a commit of this version, if it changed the document, and `added` is what that
    /// changed besides.
    pub(super) fn move_entries(
        &mut self,
        attempt: &UndoAttempt,
        added: Option<Arc<EditUnit>>,
        version: Option<u64>,
    ) {
        for entry in &attempt.passed {
            self.move_entry(attempt, entry, None, None);
        }
        if let Some(entry) = attempt.last() {
            self.move_entry(attempt, entry, added, version);
        }
    }

    /// If the entry was discarded meanwhile, it stays discarded.
    fn move_entry(
        &mut self,
        attempt: &UndoAttempt,
        entry: &HistoryEntry,
        added: Option<Arc<EditUnit>>,
        version: Option<u64>,
    ) {
        let direction = attempt.direction;
        let stack = self.stack_mut(direction);
        let Some(entry) = position(stack, entry.number).and_then(|at| stack.remove(at)) else {
            return;
        };
        self.end_entry();
        let mut opposite = HistoryEntry::clone(&entry);
        opposite.open = false;
        opposite.refused = None;
        if let Some(version) = version {
            opposite.versions = smallvec::smallvec![version];
        }
        if direction == Direction::Undo && !entry.inverses.is_empty() {
            opposite.inverses = Vec::new();
            opposite.is_by_code = added.is_some();
        }
        opposite.added[usize::from(direction == Direction::Redo)].extend(added);
        let is_undone_in_scope = direction == Direction::Undo && !attempt.scope.is_all();
        opposite.undone_in = is_undone_in_scope.then(|| attempt.scope.clone().into());
        self.gone.push(entry);
        let other = match direction {
            Direction::Undo => Direction::Redo,
            Direction::Redo => Direction::Undo,
        };
        let name = opposite.name.clone();
        self.push(other, opposite);
        self.drop_oldest(other);
        let kind = match direction {
            Direction::Undo => HistoryEventKind::Undone,
            Direction::Redo => HistoryEventKind::Redone,
        };
        self.tell(kind, |_| name);
    }

    /// Discards the topmost entry; from then on it counts as a change by another editor.
    pub(super) fn discard(&mut self, direction: Direction) -> bool {
        let Some(entry) = self.stack_mut(direction).pop_back() else {
            return false;
        };
        let name = entry.name.clone();
        self.gone.push(entry);
        self.grouping = false;
        self.tell(HistoryEventKind::Removed, |_| name);
        true
    }
}

/// Where the entry with this number is. The numbers rise in each stack ([`History::push`]).
fn position(stack: &Stack, number: u64) -> Option<usize> {
    let found = stack.binary_search_by(|it| {
        step();
        it.number.cmp(&number)
    });
    found.ok()
}

/// Records a published undo or redo, with those without an effect before it, in the provenance of
/// the document. Returns the unit of what was added to the document, if anything.
pub(super) fn record_published_undo(
    store: &DataStore,
    (attempt, rewound): (&mut UndoAttempt, Rewound),
    (version, changes): (u64, &Changes),
) -> Option<Arc<EditUnit>> {
    let Rewound {
        newest: _,
        undone,
        added,
        added_details,
    } = rewound;
    let rest = added.as_ref().map(|(unit, made)| RecordedCommit {
        version,
        changes: changes.get(*made..).unwrap_or_default(),
        details: &added_details,
        unit: Some(unit),
        selections: [None, None],
    });
    let undone = (std::mem::take(&mut attempt.silent), undone);
    store.apply_published_undo(undone, (version, changes), rest.as_ref());
    added.map(|(unit, _)| unit)
}

impl UndoFailure {
    /// The node at which it failed.
    fn node(&self) -> Option<&NodeId> {
        match self {
            Self::Inverse(_) => None,
            Self::Schema(violation) => Some(violation.node_id()),
            Self::Conflict(refusal) => refusal.conflict.node(),
        }
    }

    /// As an error for the caller. `by` finds the owner of the edit in the way.
    pub(super) fn explain(
        self,
        direction: Direction,
        by: impl FnOnce(&BlockedUndo) -> (Option<(OwnerId, u64)>, bool),
    ) -> UndoError {
        match self {
            Self::Inverse(error) => UndoError::Inverse(error),
            Self::Schema(violation) => UndoError::Commit(violation.into()),
            Self::Conflict(refusal) => {
                let (by, returns) = by(&refusal);
                UndoError::Conflict {
                    redo: direction == Direction::Redo,
                    by,
                    returns,
                    conflict: refusal.conflict,
                }
            }
        }
    }
}

impl UndoAttempt {
    pub(super) fn new(direction: Direction, scope: UndoScope, key: Option<SmolStr>) -> Self {
        Self {
            direction,
            scope,
            key,
            tried: SmallVec::new(),
            passed: Vec::new(),
            silent: SilentReversals::default(),
        }
    }

    /// The entry that was tried last.
    fn last(&self) -> Option<&HistoryEntry> {
        self.tried.last().map(|entry| &**entry)
    }

    /// Goes on after the entry that was tried last: its undo or redo has no effect on the document
    /// of this version.
    pub(super) fn pass(&mut self, rewound: Rewound, version: u64) {
        self.passed.extend(self.tried.last().cloned());
        let undone = rewound.undone.into_iter();
        undone.for_each(|undone| self.silent.add(undone, version));
    }

    /// Whether it has gone on after an entry without an effect.
    pub(super) fn has_passed(&self) -> bool {
        !self.passed.is_empty()
    }

    /// Ends with the last entry without an effect.
    pub(super) fn end(&mut self) -> Rewound {
        self.tried.extend(self.passed.pop());
        Rewound::default()
    }

    /// Whether an earlier undo was refused because of the entry that was tried last.
    pub(super) fn was_refused(&self) -> bool {
        self.last().is_some_and(|entry| entry.refused.is_some())
    }

    /// The versions of its commits.
    pub(super) fn versions(&self) -> Vec<u64> {
        self.last()
            .map_or(Vec::new(), HistoryEntry::undone_versions)
    }

    /// The units that it reversed, if the versions of its commits do not tell that.
    pub(super) fn reversed(&self, rewound: &Rewound) -> Option<ReversedEntry> {
        let is_redo = self.direction == Direction::Redo;
        self.last()?.reversed(is_redo, rewound)
    }

    /// Undoes or redoes it.
    pub(super) fn rewind(
        &mut self,
        store: &DataStore,
        owner: &OwnerId,
        on: &mut Draft,
    ) -> Result<Rewound, UndoFailure> {
        let how = (self.direction, !self.scope.is_all());
        match self.tried.last() {
            Some(entry) => entry.rewind(how, (store, owner, &mut self.silent), on),
            None => Ok(Rewound::default()),
        }
    }
}
