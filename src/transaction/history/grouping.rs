//! Which edits are undone together: an edit joins the topmost entry of the history or begins a new
//! one.
//!
//! Adjacent typing and adjacent deletion join within [`HistoryOptions::group_interval`]. Edits of
//! an open group join, and those with the name of an entry join that.
//!
//! [`HistoryOptions::group_interval`]: super::HistoryOptions::group_interval

use std::sync::Arc;

use smol_str::SmolStr;

use super::entry::{HistoryEntry, of_the_document};
use super::{EntryPlace, History, HistoryMode};
use crate::document::Change;
use crate::time::MonotonicTime;

/// A commit that replaced characters of one text.
#[derive(Clone, Debug)]
pub(in crate::transaction) struct Typed {
    id: crate::id::NodeId,
    at: usize,
    removed: usize,
    inserted: usize,
}

impl History {
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
    /// Whether an edit continues the entry: adjacent typing or adjacent deletion.
    fn is_continued_by(&self, typed: Option<&Typed>) -> bool {
        let (Some(last), Some(next)) = (&self.typed, typed) else {
            return false;
        };
        let typed = last.removed == 0 && next.removed == 0;
        let deleted = last.inserted == 0 && next.inserted == 0;
        last.id == next.id
            && (typed && last.at + last.inserted == next.at
                // The Delete key removes the next character, Backspace the one before.
                || deleted && (next.at == last.at || next.at + next.removed == last.at))
    }
}

impl Typed {
    pub(super) fn of(changes: &[Change]) -> Option<Self> {
        let mut changes = of_the_document(changes);
        match (changes.next_back()?, changes.next()) {
            (
                Change::SpliceText {
                    id,
                    at,
                    removed,
                    inserted,
                    ..
                },
                None,
            ) => Some(Self {
                id: id.clone(),
                at: *at,
                removed: removed.chars().count(),
                inserted: inserted.chars().count(),
            }),
            _ => None,
        }
    }
}
