//! Entries of the history.

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::Edit;
use super::part::{Part, of_the_document};
use crate::document::schema::SchemaViolation;
use crate::document::{Change, PieceMap, Selection, UndoConflict, View};
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
    /// The entry at whose beginning the map of its last part ends. `None` if the map leads to the
    /// present.
    pub(super) next: Option<u64>,
    /// Whether an undo was refused because of it, and the idempotency key of that undo.
    pub(super) refused: Option<Option<SmolStr>>,
}

/// Why an entry could not be undone.
#[derive(Debug)]
pub(in crate::transaction) enum UndoFailure {
    Conflict(UndoConflict),
    /// There is nothing to undo in the document.
    NothingLeft(UndoConflict),
    Inverse(OperationError),
    Schema(SchemaViolation),
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

    /// Calls `observe` for its last part.
    pub(super) fn observe(&mut self, observe: impl FnOnce(&mut Part)) {
        self.parts.last_mut().map(observe);
    }

    /// Its changes and all later ones, of which these come last.
    pub(super) fn with_later(&self, later: &PieceMap) -> PieceMap {
        let mut all = PieceMap::default();
        for part in &self.parts {
            all.extend(part.changes());
            all.append(&part.since());
        }
        all.append(later);
        all
    }

    /// The versions of its commits, if an undo of the entry undoes exactly those.
    pub(super) fn versions(&self) -> Vec<u64> {
        let parts = || self.parts.iter().chain(&self.late);
        match parts().all(|part| part.inverses.is_empty()) {
            true => parts().flat_map(|part| &part.versions).copied().collect(),
            false => Vec::new(),
        }
    }

    /// Undoes it. `later` are the changes after those that its last part knows. Returns the later
    /// changes of others, as if the entry had never been, and the
    /// selection after the entry, moved along with them as a live selection is.
    pub(super) fn rewind(
        &self,
        later: &PieceMap,
        on: &mut Transaction,
    ) -> Result<(PieceMap, Option<Selection>), UndoFailure> {
        for late in self.late.iter().rev() {
            late.rewind(followed(late.since(), on.changes()), on)?;
        }
        let mut since = followed(later.clone(), on.changes());
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
            self.has_stayed(on)?;
        }
        let inverses = self.parts.iter().chain(&self.late);
        let mut inverses = inverses.flat_map(|part| &part.inverses).rev();
        inverses
            .try_for_each(|code| call(code, on))
            .map_err(UndoFailure::Inverse)?;
        Ok((since, here))
    }

    /// Why nothing of it could be undone.
    fn has_stayed(&self, on: &Transaction) -> Result<(), UndoFailure> {
        let changes = || self.parts.iter().flat_map(Part::changes);
        let mut created = changes().filter(|change| matches!(change, Change::InsertSubtree { .. }));
        let stays = created.find_map(|change| change.node().filter(|id| on.contains(id)));
        if let Some(id) = stays.cloned() {
            return Err(UndoConflict::SubtreeChanged { id }.into());
        }
        let Some(id) = changes().find_map(Change::node).cloned() else {
            return Ok(());
        };
        Err(UndoFailure::NothingLeft(match on.contains(&id) {
            true => UndoConflict::NothingLeft { id },
            false => UndoConflict::NodeGone { id },
        }))
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
