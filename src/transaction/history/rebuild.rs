//! A history, rebuilt from the commits that a store has kept.
//!
//! The commits of the session pass through the history once more, beside those of others. Each undo
//! and redo among them is computed again, in the document of that time. The document is followed
//! back from the present by the inverses of the commits. If the result is not the one that was
//! recorded, the history begins anew behind that commit: so it never has an entry whose undo would
//! be another.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Attempt, Direction, Edit, History, HistoryEntry, HistoryMode, HistoryOptions};
use crate::document::{Change, Snapshot, View};
use crate::hashing::Secret;
use crate::store::{CommitRecord, DataStore, FollowerId, Transaction, TransactionResult};

impl History {
    /// Rebuilds the history of a session from the commits that lead to a document. `None` if none
    /// of them is in it.
    pub(in crate::transaction) fn rebuilt(
        options: HistoryOptions,
        id: FollowerId,
        records: &[CommitRecord],
        mut document: Snapshot,
        store: &DataStore,
    ) -> Option<Self> {
        let is_own = |record: &CommitRecord| record.in_history && record.origin == Some(id);
        let first = records.iter().position(is_own)?;
        let records = &records[first..];
        let mut joined: HashMap<u64, u64, Secret> = HashMap::default();
        for record in records.iter().filter(|record| is_own(record)) {
            let pairs = record.edits.undone.windows(2);
            joined.extend(pairs.map(|pair| (pair[1], pair[0])));
        }
        for record in records.iter().rev() {
            let changes = record.changes().iter().rev();
            let inverses: Vec<Change> = changes.map(Change::inverse).collect();
            document.repeat(&inverses).ok()?;
        }
        let mut history = Self {
            options,
            ..Self::default()
        };
        // The commits of an entry are joined if an undo has undone them together.
        history.open_group(None);
        for record in records {
            let before = document.clone();
            document.repeat(record.changes()).ok()?;
            let commit = record.commit.as_deref().filter(|_| is_own(record));
            match commit {
                Some(commit) if record.edits.undone.is_empty() => {
                    let before = joined.get(&commit.version).copied();
                    if before.is_none() || before != history.undo.last_version() {
                        history.end_entry();
                    }
                    history.record(Edit::of(commit, store), HistoryMode::Recorded);
                }
                Some(commit) => {
                    let undone = &record.edits.undone;
                    if !history.follow(commit, undone, (before, &document), store) {
                        history.observe_record(record);
                        history.lose(undone);
                    }
                }
                None => history.observe_record(record),
            }
        }
        history.close_group();
        Some(history)
    }

    fn observe_record(&mut self, record: &CommitRecord) {
        self.in_last_parts(|part| part.observe(record.edits.clone()));
    }

    /// Repeats a recorded undo or redo of one entry. Returns whether the result is the recorded
    /// one; the history is unchanged otherwise.
    fn follow(
        &mut self,
        commit: &TransactionResult,
        undone: &[u64],
        (before, after): (Snapshot, &Snapshot),
        store: &DataStore,
    ) -> bool {
        let is_it = |entry: &Arc<HistoryEntry>| entry.versions() == undone;
        let directions = [Direction::Undo, Direction::Redo];
        let direction = directions
            .into_iter()
            .find(|direction| self.stack(*direction).entries.iter().any(is_it));
        let Some(direction) = direction else {
            return false;
        };
        let mut attempt = Attempt::new(direction, None);
        while attempt.versions() != undone && self.try_next(&mut attempt) {}
        let mut on = Transaction::bare(store, before);
        let Ok(rewound) = attempt.rewind(&mut on) else {
            return false;
        };
        let is_same = are_same(&on, after, [on.changes(), &commit.changes]);
        if is_same {
            self.settle(&attempt, commit, rewound);
        }
        is_same
    }

    /// Takes in that the session has undone or redone what is not known. What was undone before can
    /// no longer be redone. If an entry would be undone in part, none is left.
    fn lose(&mut self, undone: &[u64]) {
        let all = self.undo.entries.iter().chain(&self.redo.entries);
        let mut versions = all.flat_map(|entry| entry.versions());
        match versions.any(|version| undone.contains(&version)) {
            true => self.clear(),
            false => self.gone.extend(self.redo.entries.drain(..)),
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
        before
    }
}

impl Edit {
    fn of(commit: &TransactionResult, store: &DataStore) -> Self {
        Self {
            changes: commit.changes.clone(),
            inverses: Vec::new(),
            before: commit.selection_before.clone(),
            after: commit.selection_after.clone(),
            at: store.monotonic(),
            version: commit.version,
        }
    }
}

/// Whether two documents are the same after these changes of one document.
fn are_same(one: &impl View, other: &impl View, changes: [&[Change]; 2]) -> bool {
    let mut is_same = one.root() == other.root();
    for change in changes.into_iter().flatten() {
        change.each_stored_node(|id| is_same &= one.node(id) == other.node(id), |_| ());
    }
    is_same
}
