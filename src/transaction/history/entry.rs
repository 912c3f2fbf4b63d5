//! Entries of the history.

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::Edit;
use super::part::{Part, of_the_document};
use crate::document::{Change, PieceMap, Selection, UndoConflict, View};
use crate::id::NodeId;
use crate::store::Transaction;
use crate::time::MonotonicTime;
use crate::transaction::error::OperationError;
use crate::transaction::run::call;

#[derive(Clone, Debug)]
pub(super) struct HistoryEntry {
    /// The number of the entry in its history.
    pub(super) number: u64,
    pub(super) name: Option<SmolStr>,
    /// Whether an adjacent edit may join it.
    pub(super) open: bool,
    pub(super) last: MonotonicTime,
    /// The selection at the end of an undo; for an undone entry, at the end of a redo. Fixed at the
    /// time of the edit.
    pub(super) there: Option<Selection>,
    /// The selection after its last edit, at the time of that edit.
    pub(super) here: Option<Selection>,
    pub(super) parts: SmallVec<[Part; 1]>,
    /// Parts merged into it after newer entries. Every later change comes after these, by any
    /// editor.
    pub(super) late: Vec<Part>,
}

/// Why an entry could not be undone.
#[derive(Debug)]
pub(in crate::transaction) enum UndoFailure {
    Conflict(UndoConflict),
    Inverse(OperationError),
}

impl From<UndoConflict> for UndoFailure {
    fn from(conflict: UndoConflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl HistoryEntry {
    /// Adds an edit that is undone together with it.
    pub(super) fn join(&mut self, edit: Edit, open: bool) {
        self.open = open;
        self.last = edit.at;
        self.here.clone_from(&edit.after);
        match self.parts.last_mut().filter(|last| last.is_last()) {
            Some(last) => last.extend(edit.changes, edit.inverses, edit.version),
            None => self.parts.push(edit.part()),
        }
    }

    /// Takes in later changes.
    pub(super) fn follow(&mut self, since: PieceMap) {
        if let Some(last) = self.parts.last_mut() {
            last.follow(since);
        }
    }

    /// The versions of its commits, if an undo of the entry undoes exactly those.
    pub(super) fn versions(&self) -> Vec<u64> {
        let parts = || self.parts.iter().chain(&self.late);
        match parts().all(|part| part.inverses.is_empty()) {
            true => parts().flat_map(|part| &part.versions).copied().collect(),
            false => Vec::new(),
        }
    }

    /// Undoes it. Returns the later changes of others, as if the entry had never been, and the
    /// selection after the entry, moved along with them as a live selection is.
    pub(super) fn rewind(
        &self,
        on: &mut Transaction,
    ) -> Result<(PieceMap, Option<Selection>), UndoFailure> {
        for late in self.late.iter().rev() {
            late.rewind(followed(late.since(), on.changes()), on)?;
        }
        let mut since = followed(PieceMap::default(), on.changes());
        let mut here = self.here.clone();
        for (nth, part) in self.parts.iter().rev().enumerate() {
            let mut after = part.since();
            if nth == 0 {
                here = here.map(|here| after.selection(&here));
            }
            after.append(&since);
            since = part.rewind(after, on)?;
        }
        // Without changes by others, nothing stayed.
        if !since.is_empty() {
            let mut parts = self.parts.iter().rev();
            parts.try_for_each(|part| part.remove_left_over(on, &mut since))?;
        }
        if on.changes().is_empty() {
            let mut changes = self.parts.iter().flat_map(Part::changes);
            if let Some((change, id)) = changes.find_map(|change| Some((change, change.node()?))) {
                return Err(nothing_left(change, id.clone(), on).into());
            }
        }
        let inverses = self.parts.iter().chain(&self.late);
        let mut inverses = inverses.flat_map(|part| &part.inverses).rev();
        inverses
            .try_for_each(|code| call(code, on))
            .map_err(UndoFailure::Inverse)?;
        Ok((since, here))
    }
}

/// Why nothing of an entry that begins with this change could be undone.
fn nothing_left(change: &Change, id: NodeId, on: &Transaction) -> UndoConflict {
    match change {
        _ if !on.contains(&id) => UndoConflict::NodeGone { id },
        Change::InsertSubtree { .. } => UndoConflict::SubtreeChanged { id },
        _ => UndoConflict::NothingLeft { id },
    }
}

/// Appends these changes to the later ones.
fn followed(since: PieceMap, changes: &[Change]) -> PieceMap {
    let mut since = since;
    since.extend(changes);
    since
}

/// Whether an edit continues its entry: adjacent typing or adjacent deletion.
pub(super) fn goes_on(entry: &HistoryEntry, changes: &[Change]) -> bool {
    let last = entry.parts.last();
    let last = last.and_then(|part| part.changes().next_back());
    let mut changes = of_the_document(changes);
    let (
        Some(Change::SpliceText {
            id,
            at,
            removed,
            inserted,
            ..
        }),
        Some(Change::SpliceText {
            id: next_id,
            at: next,
            removed: more_removed,
            inserted: more_inserted,
            ..
        }),
        None,
    ) = (last, changes.next(), changes.next())
    else {
        return false;
    };
    let typed = removed.is_empty() && more_removed.is_empty();
    let deleted = inserted.is_empty() && more_inserted.is_empty();
    id == next_id
        && (typed && at + inserted.chars().count() == *next
            // The Delete key removes the next character, Backspace the one before.
            || deleted && (next == at || next + more_removed.chars().count() == *at))
}
