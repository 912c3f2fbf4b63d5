//! Consecutive changes, and the later changes by others.

use std::sync::Arc;

use arrayvec::ArrayString;
use smallvec::{SmallVec, smallvec};
use smol_str::SmolStr;

use crate::document::{Change, Changes, Composer, PieceMap, UndoConflict};
use crate::store::{CommitEdits, RecentCommits, Stretch, Transaction};
use crate::transaction::operation::Callback;

/// A piece of an entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// The changes of each commit, shared with its result; some are of the selection.
    changes: SmallVec<[Changes; 1]>,
    /// Code that runs when they are undone, in the order of the operations that brought it.
    pub(super) inverses: Vec<Callback>,
    /// The versions of the commits.
    pub(super) versions: SmallVec<[u64; 2]>,
    /// Changes by others after them, until the next part or entry: stretches, the oldest first.
    /// Those of the commit log are shared with it.
    older: Vec<Arc<Stretch>>,
    /// Their latest commits.
    recent: RecentCommits,
}

/// At least so many commits of others are kept apart, and fewer than twice as many.
const RECENT: usize = 32;

/// With more stretches than this, shared ones are merged too.
const MOST: usize = 1024;

impl Part {
    pub(super) fn new(changes: Changes, inverses: Vec<Callback>, version: u64) -> Self {
        Self {
            changes: smallvec![changes],
            inverses,
            versions: smallvec![version],
            ..Self::default()
        }
    }

    /// The changes, in order.
    pub(super) fn changes(&self) -> impl DoubleEndedIterator<Item = &Change> {
        let changes = self.changes.iter().flat_map(|changes| changes.iter());
        changes.filter(|change| change.is_of_the_document())
    }

    /// Appends consecutive changes. Typed letters are merged into words.
    pub(super) fn extend(&mut self, changes: Changes, inverses: Vec<Callback>, version: u64) {
        let last = self.changes.last_mut();
        if !last.is_some_and(|last| take_in(last, &changes)) {
            self.changes.push(changes);
        }
        self.inverses.extend(inverses);
        self.versions.push(version);
        // A long list of versions is cut short.
        if self.versions.len() > 8 * RECENT {
            let kept = self.versions.len() - (2 * RECENT + 1);
            self.versions.drain(..kept);
            // No commit has this version. Otherwise an undo of all would cancel out with the rest.
            self.versions.insert(0, 0);
        }
    }

    /// Changes by others after it, without their latest commits.
    pub(super) fn older(&self) -> &[Arc<Stretch>] {
        &self.older
    }

    /// Whether no other editor changed anything after it.
    pub(super) fn is_last(&self) -> bool {
        self.older.is_empty() && self.recent.len() == 0
    }

    /// Takes in a commit of another editor.
    pub(super) fn observe(&mut self, commit: CommitEdits) {
        self.recent.push(commit);
        if self.recent.len() == 2 * RECENT {
            let oldest = self.recent.take(RECENT);
            self.settle(oldest);
        }
    }

    /// Takes in a commit of its own editor that is not of its entry.
    pub(super) fn observe_own(&mut self, version: u64, changes: &Changes, undone: &[u64]) {
        self.observe(CommitEdits {
            version,
            edits: Change::sequence_edits(changes),
            undone: undone.into(),
        });
    }

    /// Takes in several commits of others.
    pub(super) fn observe_stretch(&mut self, stretch: Arc<Stretch>) {
        self.settle_recent();
        self.add(stretch);
    }

    fn settle_recent(&mut self) {
        let recent = self.recent.take(self.recent.len());
        self.settle(recent);
    }

    fn settle(&mut self, stretch: Stretch) {
        if !stretch.is_empty() {
            self.add(Arc::new(stretch));
        }
    }

    /// Merges only stretches that no other session and not the log has: of a shared one, the merged
    /// one would have a copy. So idle sessions share what they have read.
    fn add(&mut self, stretch: Arc<Stretch>) {
        let is_own = |stretch: &Arc<Stretch>| Arc::strong_count(stretch) == 1;
        let too_many = self.older.len() > MOST;
        let may_merge = |one: &_, next: &_| too_many || is_own(one) && is_own(next);
        // These may have been shared when the last one was added.
        Stretch::merge_last(&mut self.older, may_merge);
        self.older.push(stretch);
        Stretch::merge_last(&mut self.older, may_merge);
    }

    /// Takes in the changes after all known ones.
    pub(super) fn follow(&mut self, later: &PieceMap) {
        self.settle_recent();
        self.settle(Stretch::of(later.clone()));
    }

    /// All changes by others after it.
    pub(super) fn since(&self) -> PieceMap {
        let mut all = Composer::default();
        for stretch in &self.older {
            all.append(stretch.commits, stretch.map().clone());
        }
        all.extend(self.recent.edits());
        all.compose()
    }

    /// Undoes it, with the changes `since` after it. Returns those as if this part had never been.
    pub(super) fn rewind(
        &self,
        since: PieceMap,
        on: &mut Transaction,
    ) -> Result<PieceMap, UndoConflict> {
        let mut since = since;
        let mut changes = self.changes().rev();
        changes.try_for_each(|change| on.rewind(change, &mut since))?;
        Ok(since)
    }

    /// Removes the nodes that it had created, as far as they are empty after all of its undo.
    pub(super) fn remove_left_over(
        &self,
        on: &mut Transaction,
        since: &mut PieceMap,
    ) -> Result<(), UndoConflict> {
        let mut changes = self.changes().rev();
        changes.try_for_each(|change| on.remove_left_over(change, since))
    }
}

/// The longest string that needs no allocation.
const INLINE: usize = 22;

/// The changes that are not of the selection.
pub(super) fn of_the_document(changes: &[Change]) -> impl DoubleEndedIterator<Item = &Change> {
    changes.iter().filter(|change| change.is_of_the_document())
}

/// Merges an insertion with the next one, if that follows directly and both are short.
fn take_in(first: &mut Changes, next: &Changes) -> bool {
    let mut next = of_the_document(next);
    let (Some(next), None) = (next.next(), next.next()) else {
        return false;
    };
    let Some(last) = first.iter().rposition(Change::is_of_the_document) else {
        return false;
    };
    let Some(both) = both_inserted(&first[last], next) else {
        return false;
    };
    if let Change::SpliceText { inserted, .. } = &mut first.as_mut()[last] {
        *inserted = both;
    }
    true
}

/// The text of two insertions, if the second follows the first directly and both are short.
fn both_inserted(first: &Change, next: &Change) -> Option<SmolStr> {
    let (
        Change::SpliceText {
            id,
            at,
            removed,
            inserted,
            marks: None,
        },
        Change::SpliceText {
            id: next_id,
            at: next_at,
            removed: next_removed,
            inserted: more,
            marks: None,
        },
    ) = (first, next)
    else {
        return None;
    };
    let plain = removed.is_empty() && next_removed.is_empty() && id == next_id;
    if !plain || inserted.len() + more.len() > INLINE || *at + inserted.chars().count() != *next_at
    {
        return None;
    }
    let mut both = ArrayString::<INLINE>::new();
    both.push_str(inserted);
    both.push_str(more);
    Some(SmolStr::new_inline(&both))
}
