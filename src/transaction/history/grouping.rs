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

use super::entry::HistoryEntry;
use super::{EntryPlace, History, HistoryMode};
use crate::document::Typed;
use crate::store::LaterCommits;
use crate::time::MonotonicTime;

impl History {
    /// Takes in the commits of others: what is typed next may be adjacent to what was typed last.
    pub(in crate::transaction) fn follow_others(&mut self, later: &LaterCommits) {
        if let Some(top) = self.undo.back_mut()
            && top.open
            && top.typed.is_some()
            && let Some(typed) = &mut Arc::make_mut(top).typed
        {
            typed.follow(|place| later.move_selection(place));
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
                    Some(nth) if nth + 1 == self.undo.len() => {
                        let (name, open) = (None, false);
                        EntryPlace::Topmost { name, open }
                    }
                    Some(nth) => EntryPlace::Older(self.undo[nth].number),
                }
            }
            HistoryMode::Named(name) => new(Some(name)),
            _ => {
                let origin = match how {
                    HistoryMode::Origin(name) => Some(name),
                    _ => None,
                };
                let interval = self.options.group_interval;
                let joins = |top: &HistoryEntry| {
                    let is_next =
                        |last: &Typed| typed.is_some_and(|next| last.is_continued_by(next));
                    let is_alike = top.open && top.name.as_ref() == origin;
                    is_alike && at - top.last < interval && top.typed.as_ref().is_some_and(is_next)
                };
                let grouped = self.open > 0 && self.grouping;
                match self.undo.back() {
                    Some(top) if grouped || (self.open == 0 && joins(top)) => EntryPlace::Topmost {
                        name: origin.cloned(),
                        open: true,
                    },
                    _ => EntryPlace::New {
                        name: self.group.1.as_ref().or(origin).cloned(),
                        open: true,
                    },
                }
            }
        }
    }
}
