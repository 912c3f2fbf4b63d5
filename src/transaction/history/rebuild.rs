//! A history, rebuilt from the commits that a store has kept.
//!
//! The kept commits of the session pass through the stacks of the history once more. Their
//! provenance is recorded already, or is recorded from the kept commits now: then each undo and
//! redo is computed again and compared with the recorded one. Where the two differ, the history
//! begins anew behind that commit: so it never has an entry whose undo would be another.

use std::collections::HashSet;
use std::sync::Arc;

use smallvec::smallvec;

use super::{Direction, History, HistoryEntry, HistoryEventKind, HistoryOptions};
use crate::document::{SilentReversal, Typed};
use crate::id::OwnerId;
use crate::store::{CommitRecord, DataStore, FollowerId, KeptHistory};

impl History {
    /// Rebuilds the history of a session from the kept commits. `None` if none of them is in it.
    pub(in crate::transaction) fn rebuilt(
        options: HistoryOptions,
        id: FollowerId,
        owner: &OwnerId,
        store: &DataStore,
    ) -> Option<Self> {
        let KeptHistory {
            records,
            mut joined,
            units,
            silent,
        } = store.record_kept(id, owner);
        let own = records.iter().filter(|record| record.is_entry_of(id));
        own.clone().next()?;
        for reversal in &silent {
            let pairs = reversal.units.windows(2);
            joined.extend(pairs.map(|pair| (pair[1], pair[0])));
        }
        // An undo in a scope can be redone after a later edit.
        let reversed: HashSet<&[u64]> = own.clone().map(|it| &*it.edits.undone).collect();
        let mut silent = silent.iter().peekable();
        let mut history = Self {
            options,
            ..Self::default()
        };
        for record in own {
            let Some(commit) = record.commit.as_deref() else {
                continue;
            };
            while let Some(reversal) = silent.next_if(|it| it.version < commit.version) {
                history.follow_silent(reversal);
            }
            let undone = &record.edits.undone;
            if !undone.is_empty() {
                if !units.contains_key(&commit.version) || !history.follow(record) {
                    history.lose(undone);
                }
                continue;
            }
            let Some(unit) = units.get(&commit.version) else {
                history.lose(&[]);
                continue;
            };
            let (typed, now) = (Typed::of(&commit.changes), store.monotonic());
            let entry = HistoryEntry::new(Arc::clone(unit), typed, now, Vec::new(), commit);
            let later = silent.clone().filter(|it| it.is_redo);
            history.redo.retain(|it| {
                reversed.contains(&it.versions[..])
                    || later.clone().any(|redo| redo.units.contains(&it.made))
            });
            let before = joined.get(&commit.version);
            match history.undo.back_mut() {
                Some(top) if before.is_some() && top.versions.last() == before => {
                    Arc::make_mut(top).join(entry, false);
                }
                _ => history.push(Direction::Undo, entry),
            }
            while history.undo.len() > history.options.limit {
                history.gone.extend(history.undo.pop_front());
            }
        }
        silent.for_each(|reversal| history.follow_silent(reversal));
        Some(history)
    }

    /// Repeats an undo or a redo that changed nothing in the document: it is not among the commits.
    fn follow_silent(&mut self, reversal: &SilentReversal) {
        let is_it = |entry: &Arc<HistoryEntry>| reversal.units.contains(&entry.made);
        let (from, to) = match reversal.is_redo {
            true => (Direction::Redo, Direction::Undo),
            false => (Direction::Undo, Direction::Redo),
        };
        let from = self.stack_mut(from);
        let at = from.iter().rposition(is_it);
        if let Some(entry) = at.and_then(|at| from.remove(at)) {
            self.push(to, Arc::unwrap_or_clone(entry));
        }
    }

    /// Repeats a recorded undo or redo of one entry in the stacks. Returns whether there is such an
    /// entry.
    fn follow(&mut self, record: &CommitRecord) -> bool {
        let (undone, version) = (&record.edits.undone, record.edits.version);
        let is_it = |entry: &Arc<HistoryEntry>| entry.versions[..] == **undone;
        let stacks = [&mut self.undo, &mut self.redo].into_iter();
        let found = stacks.filter_map(|stack| {
            let at = stack.iter().rposition(is_it)?;
            stack.remove(at)
        });
        let found: Option<Arc<HistoryEntry>> = { found }.next();
        let (Some(entry), Some(is_redo)) = (found, record.is_redo()) else {
            return false;
        };
        let added = record.reversed.as_ref().and_then(|it| it.added.as_ref());
        let mut entry = Arc::unwrap_or_clone(entry);
        entry.versions = smallvec![version];
        entry.added[usize::from(is_redo)].extend(added.map(|(unit, _)| Arc::clone(unit)));
        let to = match is_redo {
            true => Direction::Undo,
            false => Direction::Redo,
        };
        self.push(to, entry);
        true
    }

    /// Takes in that the session has undone or redone what is not known. What was undone before can
    /// no longer be redone. If an entry would be undone in part, none is left.
    fn lose(&mut self, undone: &[u64]) {
        let all = self.undo.iter().chain(&self.redo);
        let mut versions = all.flat_map(|entry| entry.versions.iter());
        match versions.any(|version| undone.contains(version)) {
            true => self.clear(),
            false => self.gone.extend(self.redo.drain(..)),
        }
    }

    /// Takes the entries of a rebuilt history. Returns the old ones.
    pub(in crate::transaction) fn restore(&mut self, rebuilt: Option<Self>) -> Self {
        let before = self.replace(self.options.clone());
        let Some(rebuilt) = rebuilt else {
            return before;
        };
        self.undo = rebuilt.undo;
        self.redo = rebuilt.redo;
        self.entries = rebuilt.entries;
        self.tell(HistoryEventKind::Removed, |_| None);
        before
    }
}
