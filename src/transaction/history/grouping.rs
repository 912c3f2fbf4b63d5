//! Which edits are undone together: an edit joins the topmost entry of the history or begins a new
//! one.
//!
//! Adjacent typing and adjacent deletion join within [`HistoryOptions::group_interval`], also with
//! commits of others in between. Edits of
//! an open group join, and those with the name of an entry join that.
//!
//! [`HistoryOptions::group_interval`]: super::HistoryOptions::group_interval

use std::sync::Arc;

use smol_str::SmolStr;

use super::entry::{HistoryEntry, of_the_document};
use super::{EntryPlace, History, HistoryMode};
use crate::document::{Change, Position, Selection, TextSelection};
use crate::id::NodeId;
use crate::store::LaterCommits;
use crate::time::MonotonicTime;

/// A commit that typed text, or deleted some. Its place moves with the commits of others.
#[derive(Clone, Debug)]
pub(in crate::transaction) struct Typed {
    id: NodeId,
    /// Where it began.
    start: usize,
    /// Where what it inserted ends.
    end: usize,
    removed: u32,
    inserts: bool,
    /// Whether it did nothing before that. Otherwise it began with a deletion, as typing over a
    /// selection does.
    is_alone: bool,
}

impl History {
    /// Takes in the commits of others: what is typed next may be adjacent to what was typed last.
    pub(in crate::transaction) fn follow_others(&mut self, later: &LaterCommits) {
        if let Some(top) = self.undo.back_mut()
            && top.open
            && top.typed.is_some()
            && let Some(typed) = &mut Arc::make_mut(top).typed
        {
            typed.follow(later);
        }
    }

    /// The entry that an edit joins, or that it begins a new one.
    pub(super) fn place(
        &self,
        typed: Option<&Typed>,
        how: &HistoryMode,
        at: MonotonicTime,
    ) -> EntryPlace {
        let new = |name: Option<&SmolStr>| EntryPlace::New {
            name: name.cloned(),
            open: false,
        };
        match how {
            HistoryMode::MergedInto(name) => {
                let named = |entry: &Arc<HistoryEntry>| entry.name.as_ref() == Some(name);
                match self.undo.iter().rposition(named) {
                    None => new(Some(name)),
                    Some(nth) if nth + 1 == self.undo.len() => EntryPlace::Topmost { open: false },
                    Some(nth) => EntryPlace::Older(self.undo[nth].number),
                }
            }
            HistoryMode::Named(name) => new(Some(name)),
            _ => {
                let interval = self.options.group_interval;
                let joins = |top: &HistoryEntry| {
                    top.open && at - top.last < interval && top.is_continued_by(typed)
                };
                let grouped = self.open > 0 && self.grouping;
                match self.undo.back() {
                    Some(top) if grouped || (self.open == 0 && joins(top)) => {
                        EntryPlace::Topmost { open: true }
                    }
                    _ => EntryPlace::New {
                        name: self.group_name.clone(),
                        open: true,
                    },
                }
            }
        }
    }
}

impl HistoryEntry {
    /// Whether an edit continues the entry: adjacent typing or adjacent deletion. Typing also
    /// continues the typing that replaced a selection.
    fn is_continued_by(&self, typed: Option<&Typed>) -> bool {
        let (Some(last), Some(next)) = (&self.typed, typed) else {
            return false;
        };
        let typed = last.inserts && next.inserts && next.removed == 0;
        let deleted = !last.inserts && !next.inserts;
        next.is_alone
            && last.id == next.id
            && (typed && last.end == next.start
                // The Delete key removes the next character, Backspace the one before.
                || deleted
                    && (next.start == last.start || next.start + next.removed as usize == last.start))
    }
}

impl Typed {
    /// What a commit typed or deleted, if that is the last thing that it did to the document apart
    /// from the marks of the same text.
    #[inline]
    pub(in crate::transaction) fn of(changes: &[Change]) -> Option<Self> {
        match changes {
            [only] => Self::by(only, true),
            _ => Self::of_many(changes),
        }
    }

    fn of_many(changes: &[Change]) -> Option<Self> {
        let mut before = of_the_document(changes);
        let mut last = before.next_back()?;
        let mut marked = None;
        while let Change::SetMarks { id, .. } = last {
            marked = Some(id);
            last = before.next_back()?;
        }
        let is_alone = before.clone().next().is_none();
        let deletes = |change: &Change| match change {
            Change::SpliceText { removed, .. } => !removed.is_empty(),
            Change::RemoveSubtree { .. } | Change::JoinNodes { .. } => true,
            _ => false,
        };
        let typed = Self::by(last, is_alone)?;
        let is_typed = is_alone || typed.inserts && before.all(deletes);
        (is_typed && marked.is_none_or(|marked| *marked == typed.id)).then_some(typed)
    }

    #[inline]
    fn by(change: &Change, is_alone: bool) -> Option<Self> {
        let Change::SpliceText {
            id,
            at,
            removed,
            inserted,
            ..
        } = change
        else {
            return None;
        };
        Some(Self {
            id: id.clone(),
            start: *at,
            end: at + inserted.chars().count(),
            removed: u32::try_from(removed.chars().count()).unwrap_or(u32::MAX),
            inserts: !inserted.is_empty(),
            is_alone,
        })
    }

    /// Moves its place with the commits of others.
    fn follow(&mut self, later: &LaterCommits) {
        let [start, end] = [self.start, self.end].map(|at| Position::new(self.id.clone(), at));
        let mut place = Selection::new(start, end);
        later.move_selection(&mut place);
        if let Selection::Text(TextSelection { anchor, focus, .. }) = place {
            let is_whole = anchor.node_id == focus.node_id;
            self.start = if is_whole {
                anchor.offset
            } else {
                focus.offset
            };
            (self.id, self.end) = (focus.node_id, focus.offset);
        }
    }
}
