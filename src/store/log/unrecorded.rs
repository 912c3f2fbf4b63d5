//! The commits whose provenance is not recorded yet, in a queue. An undo of the newest unit among
//! them takes the inverses of its changes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::{FollowerId, TakenCommits};
use crate::document::{
    Change, ChangeDetail, Changes, EditUnit, RecordedCommit, Selection, Snapshot,
};
use crate::store::TransactionResult;
use crate::store::publish::Publication;

/// A commit whose provenance is not recorded yet, or consecutive ones that typed one text.
#[derive(Debug)]
pub(crate) struct UnrecordedCommit {
    /// The version of its first commit.
    pub(crate) first: u64,
    /// The version of its last commit.
    pub(crate) version: u64,
    pub(crate) changes: Changes,
    /// What the changes do not tell.
    pub(crate) details: Vec<ChangeDetail>,
    /// What is undone together with it.
    pub(crate) unit: Option<Arc<EditUnit>>,
    /// The selections before and after it, if it has a unit.
    pub(crate) selections: [Option<Selection>; 2],
    /// The session that made it.
    pub(crate) origin: Option<FollowerId>,
    /// Whether it is an undo or a redo, which is recorded when it is published.
    pub(crate) is_undo: bool,
    /// Whether it is in effect. It is not if it was undone while it waited here.
    pub(crate) is_in_effect: bool,
    /// Whether it was made when the commit before it was out of effect.
    pub(crate) follows_undone: bool,
    /// How many bytes its changes take.
    bytes: usize,
}

/// The commits that wait to be recorded, in order.
///
/// The newest unit is undone here as long as nothing of it is recorded: its commits stay, out of
/// effect. Their changes are not in the document then.
#[derive(Debug, Default)]
pub(crate) struct UnrecordedQueue {
    pub(super) commits: VecDeque<UnrecordedCommit>,
    bytes: usize,
    /// The version of the newest commit, also if that is an undo.
    pub(super) version: u64,
    /// The version after which it was begun to record. `None` if nothing is to be recorded.
    pub(super) since: Option<u64>,
    /// Whether anything was recorded since then.
    has_record: bool,
    /// How many commits at the front are known to belong to one unit.
    of_first_unit: usize,
}

/// With so many commits that wait, a thread that has committed records them.
const MOST: usize = 1024;

/// The same for their bytes.
const MOST_BYTES: usize = 1 << 20;

fn bytes(changes: &[Change]) -> usize {
    changes.iter().map(Change::bytes).sum()
}

impl UnrecordedCommit {
    /// Whether its unit is in no history any more: only these commits of the queue refer to it.
    /// With too low a number it counts as one that a history has.
    pub(crate) fn is_final(&self, commits_of_unit: usize) -> bool {
        !matches!(&self.unit, Some(unit) if Arc::strong_count(unit) > commits_of_unit)
    }

    /// Whether both belong to one unit.
    pub(crate) fn is_of_unit_of(&self, other: &Self) -> bool {
        other.unit.as_ref().is_some_and(|unit| self.is_of(unit))
    }

    fn is_of(&self, unit: &Arc<EditUnit>) -> bool {
        self.unit.as_ref().is_some_and(|own| Arc::ptr_eq(own, unit))
    }

    /// As it is recorded with this unit.
    pub(crate) fn recorded_with<'c>(
        &'c self,
        unit: Option<&'c Arc<EditUnit>>,
    ) -> RecordedCommit<'c> {
        let [before, after] = &self.selections;
        RecordedCommit {
            version: self.version,
            changes: &self.changes,
            details: &self.details,
            unit,
            selections: [before.as_ref(), after.as_ref()],
        }
    }

    /// The changes of the document, in order.
    pub(crate) fn of_the_document(&self) -> impl DoubleEndedIterator<Item = &Change> {
        let changes = self.changes.iter();
        changes.filter(|change| change.is_of_the_document())
    }

    /// Merges the next commit of its unit into it if that goes on typing.
    fn try_merge(&mut self, version: u64, next: &TransactionResult) -> bool {
        let ([change], [next_change]) = (&self.changes[..], &next.changes[..]) else {
            return false;
        };
        let Some(typed) = change.typed_with(next_change) else {
            return false;
        };
        // A journal or a subscriber may still read the changes as they were.
        if let [Change::SpliceText { inserted, .. }] = self.changes.make_mut() {
            *inserted = typed;
        }
        self.bytes = bytes(&self.changes);
        self.version = version;
        self.selections[1].clone_from(&next.selection_after);
        true
    }
}

impl UnrecordedQueue {
    /// A queue for the commits after this version.
    pub(super) fn beginning_after(version: u64) -> Self {
        Self {
            version,
            since: Some(version),
            ..Self::default()
        }
    }

    /// Goes on after a record of these commits was made by other means.
    pub(super) fn go_on_after(&mut self, since: u64) {
        self.since = Some(since);
        self.has_record = true;
    }

    /// Appends a commit. Returns what is no longer needed, to be dropped with no mutex locked.
    #[inline]
    pub(super) fn push(
        &mut self,
        version: u64,
        result: &TransactionResult,
        details: Vec<ChangeDetail>,
        publication: &Publication<'_>,
    ) -> Vec<UnrecordedCommit> {
        let mut unneeded = Vec::new();
        self.version = version;
        if let Some((unit, in_effect)) = &publication.reversal.newest {
            self.set_in_effect(unit, *in_effect);
            return unneeded;
        }
        let (unit, origin) = (publication.unit, publication.session);
        // Its editor can no longer redo what it has undone.
        let ends_redo = unit.is_some();
        while let Some(last) = self.commits.back()
            && ends_redo
            && !last.is_in_effect
            && last.origin == origin
        {
            let last = self.commits.pop_back();
            self.of_first_unit = self.of_first_unit.min(self.commits.len());
            self.removed(last, &mut unneeded);
        }
        // As long as nothing is recorded, there is nothing that the oldest commit could move. It
        // goes if no history has its unit, and the commit after it does not need it. Four commits
        // are counted or go, more than come, so of a large unit this is known some calls later.
        for _ in 0..4 {
            let Some(first) = self.commits.front().filter(|_| !self.has_record) else {
                break;
            };
            self.of_first_unit = self.of_first_unit.clamp(1, self.commits.len());
            let next = self.commits.get(self.of_first_unit);
            if next.is_some_and(|next| next.is_of_unit_of(first)) {
                self.of_first_unit += 1;
                continue;
            }
            let is_needed = || self.commits.get(1).is_some_and(|next| !next.is_in_effect);
            if !first.is_final(self.of_first_unit) || is_needed() {
                break;
            }
            let first = self.commits.pop_front();
            self.of_first_unit -= 1;
            self.removed(first, &mut unneeded);
        }
        let mut follows_undone = false;
        if let Some(last) = self.commits.back_mut() {
            follows_undone = !last.is_in_effect;
            let is_same = unit.is_some_and(|unit| last.is_of(unit));
            let is_plain = !follows_undone && last.details.is_empty() && details.is_empty();
            let before = last.bytes;
            if is_same && is_plain && last.try_merge(version, result) {
                self.bytes += last.bytes - before;
                return unneeded;
            }
        }
        let selections = [&result.selection_before, &result.selection_after];
        let bytes = bytes(&result.changes);
        self.bytes += bytes;
        self.commits.push_back(UnrecordedCommit {
            first: version,
            version,
            changes: result.changes.clone(),
            details,
            unit: unit.cloned(),
            selections: selections.map(|it| it.as_ref().filter(|_| unit.is_some()).cloned()),
            origin,
            is_undo: publication.reversal.is_recorded,
            is_in_effect: true,
            follows_undone,
            bytes,
        });
        unneeded
    }

    /// Counts a commit that was removed. What takes long to drop is left to the caller.
    fn removed(&mut self, commit: Option<UnrecordedCommit>, unneeded: &mut Vec<UnrecordedCommit>) {
        const MANY: usize = 4096;
        if let Some(commit) = commit {
            self.bytes -= commit.bytes;
            if commit.bytes > MANY {
                unneeded.push(commit);
            }
        }
    }

    pub(super) fn has_many(&self) -> bool {
        self.bytes >= MOST_BYTES || self.commits.len() >= MOST
    }

    /// Takes out all commits, and leaves this empty queue in their place. `latest` gets the
    /// document that they lead to.
    pub(super) fn take(
        &mut self,
        room: VecDeque<UnrecordedCommit>,
        latest: impl FnOnce() -> Snapshot,
    ) -> Option<TakenCommits> {
        let since = self.since?;
        (self.bytes, self.of_first_unit) = (0, 0);
        let commits = std::mem::replace(&mut self.commits, room);
        self.has_record |= !commits.is_empty();
        let has_undone = commits.iter().any(|it| !it.is_in_effect);
        Some(TakenCommits {
            since,
            version: self.version,
            commits,
            document: has_undone.then(latest),
        })
    }

    /// The first of the commits that were undone last, the newest first.
    fn first_undone(&self) -> usize {
        let mut first = self.commits.len();
        while let Some(before) = first.checked_sub(1)
            && !self.commits[before].is_in_effect
        {
            first = before;
            if self.commits[before].follows_undone {
                break;
            }
        }
        first
    }

    /// Where all commits of a unit are, if it is the newest one in effect. Or, if it is to come
    /// into effect, if it was undone last.
    fn find_newest(&self, unit: &Arc<EditUnit>, in_effect: bool) -> Option<Range<usize>> {
        let first_undone = self.first_undone();
        let is_own = |it: &&UnrecordedCommit| it.is_in_effect != in_effect && it.is_of(unit);
        let range = match in_effect {
            true => {
                let own = self.commits.range(first_undone..);
                first_undone..first_undone + own.take_while(is_own).count()
            }
            false => {
                let own = self.commits.range(..first_undone).rev();
                first_undone - own.take_while(is_own).count()..first_undone
            }
        };
        let first = self
            .commits
            .get(range.start)
            .filter(|_| !range.is_empty())?;
        (first.first == unit.number()).then_some(range)
    }

    /// Whether the newest unit in effect is this one and waits here as a whole.
    pub(super) fn has_newest(&self, unit: &Arc<EditUnit>, in_effect: bool) -> bool {
        self.find_newest(unit, in_effect).is_some()
    }

    /// What an undo or a redo of the newest unit changes in the document.
    pub(super) fn changes_of_newest(
        &self,
        unit: &Arc<EditUnit>,
        in_effect: bool,
    ) -> Option<Vec<Change>> {
        let commits = self.commits.range(self.find_newest(unit, in_effect)?);
        let changes = commits.flat_map(UnrecordedCommit::of_the_document);
        Some(match in_effect {
            true => changes.cloned().collect(),
            false => changes.rev().map(Change::inverse).collect(),
        })
    }

    /// Takes the newest unit out of effect, or puts it into effect. One that does not wait here any
    /// more is recorded when its undo is applied.
    fn set_in_effect(&mut self, unit: &Arc<EditUnit>, in_effect: bool) {
        if let Some(range) = self.find_newest(unit, in_effect) {
            self.commits
                .range_mut(range)
                .for_each(|it| it.is_in_effect = in_effect);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../../tests/unit/log_unrecorded.rs"]
mod tests;
