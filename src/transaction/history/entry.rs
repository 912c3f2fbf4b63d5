//! What is undone in one go.

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::Edit;
use super::part::Part;
use crate::document::{Change, Conflict, Selection, Since};
use crate::store::{Transaction, Witnessed};
use crate::time::MonotonicTime;
use crate::transaction::error::OperationError;
use crate::transaction::run::call;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Which entry of its history.
    pub(super) number: u64,
    pub(super) name: Option<SmolStr>,
    /// Whether an edit that goes on where its last one ended may join it.
    pub(super) open: bool,
    pub(super) last: MonotonicTime,
    /// What is selected where it is undone; for an entry that was undone itself, where it is
    /// redone. As it was at the time.
    pub(super) there: Option<Selection>,
    /// What is selected where it stands: after its last edit, and moved along with what others did
    /// since as a live selection is.
    pub(super) here: Option<Selection>,
    pub(super) parts: SmallVec<[Part; 1]>,
    /// What was merged into it after other entries had come. After these comes all that came later,
    /// by whomever.
    pub(super) late: Vec<Part>,
}

/// Why an entry could not be undone.
#[derive(Debug)]
pub(in crate::transaction) enum Failure {
    Conflict(Conflict),
    Inverse(OperationError),
}

impl From<Conflict> for Failure {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl Entry {
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

    /// Takes in a commit of somebody else.
    pub(super) fn observe(&mut self, version: u64, changes: &[Change]) {
        self.carry(changes);
        if let Some(last) = self.parts.last_mut() {
            last.observe(version, changes);
        }
    }

    /// Takes in a commit of somebody else, who may thereby have undone what they did before.
    pub(super) fn observe_other(&mut self, other: &Witnessed<'_>) {
        self.carry(other.changes);
        if let Some(last) = self.parts.last_mut()
            && !last.cancel(other.undone)
        {
            last.observe(other.version, other.changes);
        }
    }

    /// Moves what is selected here along with changes. Where its node goes, it stays what it was:
    /// the node may come back.
    fn carry(&mut self, changes: &[Change]) {
        let moved = self.here.clone().and_then(|here| here.after_all(changes));
        if moved.is_some() {
            self.here = moved;
        }
    }

    /// Takes in what came after it.
    pub(super) fn follow(&mut self, since: Since) {
        self.here = self.here.take().map(|here| since.selection(&here));
        if let Some(last) = self.parts.last_mut() {
            last.follow(since);
        }
    }

    /// The versions that its commits made, if undoing it does no more than undo those.
    pub(super) fn versions(&self) -> Vec<u64> {
        let parts = || self.parts.iter().chain(&self.late);
        match parts().all(|part| part.inverses.is_empty()) {
            true => parts().flat_map(|part| &part.versions).copied().collect(),
            false => Vec::new(),
        }
    }

    /// Undoes it. Tells what others did since, as it would be if the entry had never been.
    pub(super) fn rewind(&self, on: &mut Transaction) -> Result<Since, Failure> {
        for late in self.late.iter().rev() {
            late.rewind(followed(late.since(), on.changes()), on)?;
        }
        let mut since = followed(Since::default(), on.changes());
        for part in self.parts.iter().rev() {
            let mut after = part.since();
            after.append(since);
            since = part.rewind(after, on)?;
        }
        if on.changes().is_empty() {
            let mut changes = self.parts.iter().flat_map(|part| &part.changes);
            if let Some(id) = changes.find_map(Change::node) {
                return Err(Conflict::NothingLeft { id: id.clone() }.into());
            }
        }
        let inverses = self.parts.iter().chain(&self.late);
        let mut inverses = inverses.flat_map(|part| &part.inverses).rev();
        inverses
            .try_for_each(|code| call(code, on))
            .map_err(Failure::Inverse)?;
        Ok(since)
    }
}

/// What came since, with these changes behind it.
fn followed(since: Since, changes: &[Change]) -> Since {
    let mut since = since;
    changes.iter().for_each(|change| since.observe(change));
    since
}

/// Whether an edit goes on where its entry ended: what was typed with the next letters, what was
/// deleted with the next to go.
pub(super) fn goes_on(entry: &Entry, changes: &[Change]) -> bool {
    let last = entry.parts.last().and_then(|part| part.changes.last());
    let (
        Some(Change::SpliceText {
            id,
            at,
            removed,
            inserted,
            ..
        }),
        [
            Change::SpliceText {
                id: next_id,
                at: next,
                removed: more_removed,
                inserted: more_inserted,
                ..
            },
        ],
    ) = (last, changes)
    else {
        return false;
    };
    let typed = removed.is_empty() && more_removed.is_empty();
    let deleted = inserted.is_empty() && more_inserted.is_empty();
    id == next_id
        && (typed && at + inserted.chars().count() == *next
            // With the delete key the next character goes, with backspace the one before.
            || deleted && (next == at || next + more_removed.chars().count() == *at))
}
