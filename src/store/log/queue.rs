//! The commits whose provenance is not recorded yet.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::FollowerId;
use crate::document::{Change, ChangeDetail, Changes, EditUnit, RecordedCommit, Selection};

/// A commit whose provenance is not recorded yet, or consecutive ones that typed one text.
#[derive(Debug)]
pub(crate) struct Unrecorded {
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
    pub(crate) is_on: bool,
    /// Whether it was made when the commit before it was out of effect.
    pub(crate) follows_undone: bool,
}

/// What a publication brings to the queue.
#[derive(Debug)]
pub(crate) enum Queued {
    Commit(Unrecorded),
    /// An undo or a redo of a unit, all of whose commits waited in the queue.
    Turn(Arc<EditUnit>, bool),
}

/// The commits that wait to be recorded, in order.
///
/// The newest unit is undone here as long as nothing of it is recorded: its commits stay, out of
/// effect. Their changes are not in the document then.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(super) commits: VecDeque<Unrecorded>,
    bytes: usize,
    /// The version of the newest commit, also if that is an undo.
    pub(super) version: u64,
    /// The version after which it was begun to record. `None` if nothing is to be recorded.
    pub(super) since: Option<u64>,
    /// Whether anything was recorded since then.
    has_record: bool,
}

/// With so many commits that wait, a thread that has committed records them.
const MOST: usize = 1024;

/// The same for their bytes.
const MOST_BYTES: usize = 1 << 20;

/// Letters are added to a commit as long as no allocation is needed for them.
const MOST_LETTERS: usize = 22;

/// What is no longer needed, to be dropped with no mutex locked.
pub(super) type Unneeded = SmallVec<[Unrecorded; 2]>;

impl Unrecorded {
    fn bytes(&self) -> usize {
        self.changes.iter().map(Change::bytes).sum()
    }

    /// Whether its unit is in no history any more: only this queue refers to it.
    pub(crate) fn is_settled(&self) -> bool {
        let unit = self.unit.as_ref();
        unit.is_none_or(|unit| Arc::strong_count(unit) == 1)
    }

    /// Whether both belong to one unit.
    pub(crate) fn is_of_unit_of(&self, other: &Self) -> bool {
        other.unit.as_ref().is_some_and(|unit| self.is_of(unit))
    }

    fn is_of(&self, unit: &Arc<EditUnit>) -> bool {
        let own = self.unit.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own, unit))
    }

    /// As it is recorded. A unit that is in no history any more can no longer be undone.
    pub(crate) fn as_recorded(&self) -> RecordedCommit<'_> {
        self.recorded_with(self.unit.as_ref().filter(|_| !self.is_settled()))
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

    /// Takes in the next commit if it goes on typing, and belongs to the same unit.
    fn take_in(&mut self, next: &mut Unrecorded) -> bool {
        let is_same = match &next.unit {
            Some(unit) => self.is_on && self.is_of(unit),
            None => false,
        };
        if !is_same || !self.details.is_empty() || !next.details.is_empty() {
            return false;
        }
        let Some([Change::SpliceText { id, at, removed, inserted, marks: None }]) =
            self.changes.get_mut()
        else {
            return false;
        };
        let [Change::SpliceText { id: on, at: next_at, removed: gone, inserted: more, marks: None }] =
            &next.changes[..]
        else {
            return false;
        };
        let goes_on = id == on && removed.is_empty() && gone.is_empty();
        if !goes_on || inserted.len() + more.len() > MOST_LETTERS {
            return false;
        }
        if *at + inserted.chars().count() != *next_at {
            return false;
        }
        let mut letters = [0; MOST_LETTERS];
        let (begin, rest) = letters.split_at_mut(inserted.len());
        begin.copy_from_slice(inserted.as_bytes());
        rest[..more.len()].copy_from_slice(more.as_bytes());
        let len = inserted.len() + more.len();
        let Ok(letters) = std::str::from_utf8(&letters[..len]) else {
            return false;
        };
        *inserted = letters.into();
        self.version = next.version;
        self.selections[1] = next.selections[1].take();
        true
    }
}

impl Queue {
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

    /// Appends a commit. Its editor can no longer redo what it has undone.
    pub(super) fn push(&mut self, mut commit: Unrecorded) -> Unneeded {
        let mut unneeded = Unneeded::new();
        let ends_redo = commit.unit.is_some();
        while ends_redo && let Some(last) = self.commits.back() {
            if last.is_on || last.origin != commit.origin {
                break;
            }
            unneeded.extend(self.pop(VecDeque::pop_back));
        }
        // As long as nothing is recorded, there is nothing that the oldest commits could move.
        while !self.has_record && unneeded.len() < 2 && self.first_is_settled() {
            unneeded.extend(self.pop(VecDeque::pop_front));
        }
        let last = self.commits.back_mut();
        commit.follows_undone = last.as_ref().is_some_and(|last| !last.is_on);
        if last.is_some_and(|last| last.take_in(&mut commit)) {
            unneeded.push(commit);
        } else {
            self.bytes += commit.bytes();
            self.commits.push_back(commit);
        }
        unneeded
    }

    fn pop(
        &mut self,
        from: fn(&mut VecDeque<Unrecorded>) -> Option<Unrecorded>,
    ) -> Option<Unrecorded> {
        let popped = from(&mut self.commits)?;
        self.bytes = self.bytes.saturating_sub(popped.bytes());
        Some(popped)
    }

    /// Whether the oldest commit is in effect for good, and those after it do not need it.
    fn first_is_settled(&self) -> bool {
        let mut first = self.commits.iter().take(2);
        first.next().is_some_and(Unrecorded::is_settled) && first.all(|next| next.is_on)
    }

    pub(super) fn has_many(&self) -> bool {
        self.bytes >= MOST_BYTES || self.commits.len() >= MOST
    }

    /// Takes out all commits, and leaves this empty queue in their place.
    pub(super) fn take(&mut self, room: VecDeque<Unrecorded>) -> VecDeque<Unrecorded> {
        self.bytes = 0;
        let commits = std::mem::replace(&mut self.commits, room);
        self.has_record |= !commits.is_empty();
        commits
    }

    /// The first of the commits that were undone last, the newest first.
    fn first_undone(&self) -> usize {
        let mut first = self.commits.len();
        while let Some(before) = first.checked_sub(1)
            && !self.commits[before].is_on
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
    fn find_newest(&self, unit: &Arc<EditUnit>, on: bool) -> Option<Range<usize>> {
        let first_undone = self.first_undone();
        let is_own = |it: &&Unrecorded| it.is_on != on && it.is_of(unit);
        let range = match on {
            true => {
                let own = self.commits.range(first_undone..);
                first_undone..first_undone + own.take_while(is_own).count()
            }
            false => {
                let own = self.commits.range(..first_undone).rev();
                first_undone - own.take_while(is_own).count()..first_undone
            }
        };
        let first = self.commits.get(range.start).filter(|_| !range.is_empty())?;
        (first.first == unit.number()).then_some(range)
    }

    /// Whether the newest unit in effect is this one and waits here as a whole.
    pub(super) fn has_newest(&self, unit: &Arc<EditUnit>, on: bool) -> bool {
        self.find_newest(unit, on).is_some()
    }

    /// What an undo or a redo of the newest unit changes in the document.
    pub(super) fn changes_of_newest(&self, unit: &Arc<EditUnit>, on: bool) -> Option<Vec<Change>> {
        let commits = self.commits.range(self.find_newest(unit, on)?);
        let changes = commits.flat_map(Unrecorded::of_the_document);
        Some(match on {
            true => changes.cloned().collect(),
            false => changes.rev().map(Change::inverse).collect(),
        })
    }

    /// Takes the newest unit out of effect, or puts it into effect. Returns whether it waits here.
    pub(super) fn turn(&mut self, unit: &Arc<EditUnit>, on: bool) -> bool {
        let Some(range) = self.find_newest(unit, on) else {
            return false;
        };
        self.commits.range_mut(range).for_each(|it| it.is_on = on);
        true
    }
}
