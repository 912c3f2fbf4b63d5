//! The provenance of the document, as the histories of its editors need it.
//!
//! A commit only queues what is to be recorded. It is recorded when the next undo needs it, or when
//! the queue is long, by a thread that does not hold the lock. So one record serves all editors,
//! and a commit pays for none of it.
//!
//! The newest unit of edits can be undone without a record: the inverses of its changes lead back
//! to the document before it. As long as its commits wait in the queue, that is what an undo does,
//! and the queue notes that they are out of effect.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::log::{TakenCommits, UnrecordedCommit};
use super::{CommitRecord, DataStore, Draft, FollowerId};
use crate::document::{
    BlockedUndo, Change, EditUnit, Overlay, Provenance, RecordedCommit, ReversedRecords,
    SilentReversal, SilentReversals, Snapshot, Undoing,
};
use crate::hashing::Secret;
use crate::id::{NodeIds, OwnerId};
use crate::sync::MutexGuard;
use crate::sync::rank;

/// What is recorded since the first commit that can be undone.
#[derive(Debug, Default)]
pub(super) struct RecordedProvenance {
    /// The version before the first commit that is recorded.
    pub(super) since: u64,
    /// The version up to which commits are recorded.
    pub(super) version: u64,
    provenance: Provenance,
    /// The version up to which it was recorded from kept commits, undos and redos included.
    kept_until: u64,
    /// The empty queue that takes the place of the next recorded one.
    room: VecDeque<UnrecordedCommit>,
}

impl RecordedProvenance {
    /// Begins anew, after this version.
    fn beginning_after(version: u64) -> Self {
        Self {
            since: version,
            version,
            ..Self::default()
        }
    }

    /// Records commits in their order, and drops them soon after that, while the caches of the
    /// processor still have them. `forgets` is whether it forgets meanwhile what is no longer
    /// needed: without that, each commit would take longer than the one before.
    fn record(&mut self, taken: &mut TakenCommits, ids: &NodeIds, forgets: bool) {
        /// So many are dropped at once, which moves none of them.
        const DROPPED: usize = 64;
        let mut undone = taken.undone_runs().into_iter().peekable();
        let (mut nth, mut dropped) = (0, 0);
        let (mut end_of_unit, mut is_final) = (0, false);
        while let Some(commit) = taken.commits.get(nth - dropped) {
            if forgets {
                self.provenance.forget();
            }
            if let Some((run, after)) = undone.next_if(|(run, _)| run.start == nth) {
                nth = run.end;
                let run = run.start - dropped..run.end - dropped;
                let commits: Vec<_> = taken.commits.range(run).collect();
                self.record_undone(&commits, &after, ids);
                continue;
            }
            if nth >= end_of_unit {
                let count = taken.count_of_unit(nth - dropped);
                end_of_unit = nth + count;
                // A unit that is in no history any more can no longer be undone.
                is_final = commit.is_final(count);
            }
            nth += 1;
            // One that was queued before the present record began.
            if commit.version > self.version && commit.is_in_effect && !commit.is_undo {
                let unit = commit.unit.as_ref().filter(|_| !is_final);
                self.provenance.record(&commit.recorded_with(unit));
            }
            if nth - dropped >= DROPPED {
                taken.commits.drain(..nth - dropped);
                dropped = nth;
            }
        }
        taken.commits.clear();
        self.version = self.version.max(taken.version);
    }

    /// Records commits that were undone while they waited, and led to this document.
    fn record_undone(&mut self, commits: &[&UnrecordedCommit], after: &Snapshot, ids: &NodeIds) {
        // What can no longer be redone has left nothing behind.
        let units = || commits.chunk_by(|one, next| one.is_of_unit_of(next));
        if units().all(|unit| unit[0].is_final(unit.len())) {
            return;
        }
        let mut document = after.clone();
        for commit in commits {
            if document.repeat(&commit.changes).is_err() {
                return;
            }
            self.provenance
                .record(&commit.recorded_with(commit.unit.as_ref()));
        }
        for unit in units().rev() {
            let Some(of) = &unit[0].unit else {
                continue;
            };
            let changes = unit.iter().flat_map(|it| it.of_the_document());
            let inverses: Vec<Change> = changes.rev().map(Change::inverse).collect();
            let units = [(vec![Arc::clone(of)], false)];
            let provenance = &mut self.provenance;
            provenance.reverse(&units, &inverses, &mut document, ids);
        }
    }
}

impl TakenCommits {
    /// How many commits from an index on belong to the unit of the first one.
    fn count_of_unit(&self, index: usize) -> usize {
        let mut commits = self.commits.range(index..);
        let first = commits.next();
        let more = commits.take_while(|next| first.is_some_and(|first| first.is_of_unit_of(next)));
        1 + more.count()
    }

    /// The ranges of commits that are undone, each with the document after its undo.
    fn undone_runs(&self) -> Vec<(Range<usize>, Snapshot)> {
        let mut runs: Vec<(Range<usize>, Snapshot)> = Vec::new();
        let Some(mut document) = self.document.clone() else {
            return runs;
        };
        let mut is_apart = true;
        for (nth, commit) in self.commits.iter().enumerate().rev() {
            match runs.last_mut() {
                Some((run, _)) if !commit.is_in_effect && !is_apart => run.start = nth,
                _ if !commit.is_in_effect => runs.push((nth..nth + 1, document.clone())),
                _ => {
                    if document.take_back(&commit.changes).is_err() {
                        break;
                    }
                }
            }
            is_apart = commit.is_in_effect || commit.follows_undone;
        }
        runs.reverse();
        runs
    }
}

type LockedRecord<'a> = MutexGuard<'a, { rank::PROVENANCE }, RecordedProvenance>;

impl DataStore {
    /// Records the queued commits.
    pub(crate) fn record_commits(&self) {
        drop(self.recorded());
    }

    /// Whether a session can take over the kept commits of an earlier one, each as an entry.
    pub(crate) fn keeps_commits(&self) -> bool {
        self.0.log.keeps_commits()
    }

    fn recorded(&self) -> LockedRecord<'_> {
        let mut recorded = self.0.provenance.lock();
        self.record_queue(&mut recorded, true);
        recorded.provenance.forget();
        recorded
    }

    /// Records the queue. Unless it `forgets` anything, an undo in progress can still be applied
    /// when it is published.
    fn record_queue(&self, recorded: &mut RecordedProvenance, forgets: bool) {
        let room = std::mem::take(&mut recorded.room);
        if let Some(taken) = self.0.log.take_unrecorded(room, || self.snapshot()) {
            self.record_taken(recorded, taken, forgets);
        }
    }

    fn record_taken(
        &self,
        recorded: &mut RecordedProvenance,
        mut taken: TakenCommits,
        forgets: bool,
    ) {
        if taken.since != recorded.since {
            *recorded = RecordedProvenance::beginning_after(taken.since);
        }
        recorded.record(&mut taken, &self.0.document.ids, forgets);
        recorded.room = taken.commits;
    }

    /// Makes sure that the next undo or redo need not record many commits while it holds the lock.
    /// `newest` is the unit that it undoes or redoes, if it is one.
    pub(crate) fn prepare_undo(&self, newest: Option<&Arc<EditUnit>>, in_effect: bool) {
        if !newest.is_some_and(|unit| self.0.log.waits_as_newest(unit, in_effect)) {
            self.record_commits();
        }
    }

    /// Undoes or redoes the newest unit, if its commits wait to be recorded. Returns whether they
    /// do.
    pub(crate) fn undo_newest(
        &self,
        draft: &mut Draft,
        unit: &Arc<EditUnit>,
        in_effect: bool,
    ) -> Result<bool, BlockedUndo> {
        let recorded = self.0.provenance.lock();
        if recorded.provenance.has_left_over() {
            return Ok(false);
        }
        let Some(changes) = self.0.log.changes_of_newest(unit, in_effect) else {
            return Ok(false);
        };
        drop(recorded);
        for change in changes {
            draft.overlay.apply(change, &self.0.document.ids)?;
        }
        Ok(true)
    }

    /// Records the published undo or redo of a unit whose commits waited to be recorded.
    pub(super) fn apply_published_newest(
        &self,
        unit: &Arc<EditUnit>,
        in_effect: bool,
        changes: &[Change],
    ) {
        let mut recorded = self.0.provenance.lock();
        if self.0.log.waits_as_newest(unit, !in_effect) {
            return;
        }
        // Another thread has recorded them meanwhile.
        self.record_queue(&mut recorded, false);
        if recorded.provenance.is_in_effect(unit) == Some(!in_effect) {
            let mut document = self.snapshot();
            if document.take_back(changes).is_ok() {
                let units = [(vec![Arc::clone(unit)], in_effect)];
                let (provenance, ids) = (&mut recorded.provenance, &self.0.document.ids);
                provenance.reverse(&units, changes, &mut document, ids);
            }
        }
    }

    /// Undoes or redoes units of edits in a draft, after others that are published together with
    /// it. `code` gets the undo.
    pub(crate) fn undo_units<R>(
        &self,
        draft: &mut Draft,
        before: &mut SilentReversals,
        code: impl FnOnce(&mut Undoing<'_>) -> Result<R, BlockedUndo>,
    ) -> Result<(R, ReversedRecords), BlockedUndo> {
        let (overlay, ids) = (&mut draft.overlay, &self.0.document.ids);
        let mut recorded = self.recorded();
        let is_current = overlay.base().version() == recorded.version;
        let (since, provenance) = (recorded.since, &mut recorded.provenance);
        debug_assert!(!is_current || provenance.differs_from(&*overlay).is_none());
        before.repeat((provenance, since), overlay.base(), ids);
        let mut undoing = provenance.undoing_after(Some(before), overlay, ids);
        let outcome = code(&mut undoing)?;
        let mut reversed = undoing.end();
        reversed.since = since;
        Ok((outcome, reversed))
    }

    /// Records a published undo or redo, with what code changed in it and the schema required. It
    /// began after others, and with it they were published by a commit of this version.
    pub(crate) fn apply_published_undo(
        &self,
        (mut silent, mut undone): (SilentReversals, Option<ReversedRecords>),
        (version, changes): (u64, &[Change]),
        rest: Option<&RecordedCommit<'_>>,
    ) {
        let ids = &self.0.document.ids;
        let is_silent = !changes.iter().any(Change::is_of_the_document);
        if let Some(undone) = undone.take_if(|_| is_silent) {
            silent.add(undone, version);
        }
        if silent.is_empty() && undone.is_none() {
            return;
        }
        let mut recorded = self.0.provenance.lock();
        self.record_queue(&mut recorded, false);
        // It is among the kept commits if these were recorded after its publication.
        let is_kept = version <= recorded.kept_until;
        let since = recorded.since;
        if since != silent.since() && !silent.is_empty() {
            let mut before = self.snapshot();
            if !is_kept && before.take_back(changes).is_err() {
                return;
            }
            silent.repeat((&mut recorded.provenance, since), &before, ids);
        }
        recorded.provenance.apply_silent(silent);
        let Some(reversed) = undone else {
            return;
        };
        if since == reversed.since {
            recorded.provenance.apply_published(reversed);
        } else if is_kept {
            return;
        } else {
            let document = self.snapshot();
            let added = rest.map_or(0, |rest| rest.changes.len());
            let changes = changes.split_at(changes.len() - added);
            let provenance = &mut recorded.provenance;
            provenance.reverse_again(&reversed, changes, document, ids);
        }
        if let Some(rest) = rest {
            recorded.provenance.record(rest);
        }
    }

    /// Makes sure that the kept commits of an owner are recorded, of which a session takes over
    /// those that no other session has.
    pub(crate) fn record_kept(&self, id: FollowerId, owner: &OwnerId) -> KeptHistory {
        let mut recorded = self.0.provenance.lock();
        let room = std::mem::take(&mut recorded.room);
        // The later commits are queued until this is done.
        let (records, document, taken) = self.0.log.take_kept(id, owner, room, || self.snapshot());
        if let Some(taken) = taken {
            self.record_taken(&mut recorded, taken, false);
        }
        let mut joined: HashMap<u64, u64, Secret> = HashMap::default();
        for record in records.iter().filter(|record| record.in_history) {
            let pairs = record.edits.undone.windows(2);
            joined.extend(pairs.map(|pair| (pair[1], pair[0])));
        }
        let (units, before) = self.record_kept_in(&mut recorded, id, &records, &joined, &document);
        let silent = recorded.provenance.silent().to_vec();
        drop(recorded);
        drop(before);
        KeptHistory {
            records,
            joined,
            units,
            silent,
        }
    }

    /// Records kept commits that lead to a document, if the session needs one that is not recorded.
    /// Returns their units, and the record before, to be dropped with no mutex locked.
    fn record_kept_in(
        &self,
        recorded: &mut RecordedProvenance,
        id: FollowerId,
        records: &[CommitRecord],
        joined: &HashMap<u64, u64, Secret>,
        document: &Snapshot,
    ) -> (UnitsByVersion, Option<RecordedProvenance>) {
        let mut own = records.iter().filter(|record| record.is_entry_of(id));
        let Some(first_needed) = own.next().map(|record| record.edits.version) else {
            return (UnitsByVersion::default(), None);
        };
        let first = records.first().map_or(0, |record| record.edits.version);
        let is_known = recorded.since < first_needed && recorded.version >= document.version();
        if is_known {
            let known = records.iter().filter_map(|record| {
                let unit = record.unit.clone();
                let is_undo = !record.edits.undone.is_empty();
                let unit = unit.or_else(|| is_undo.then(|| EditUnit::new(0, OwnerId::default())));
                Some((record.edits.version, unit?))
            });
            return (known.collect(), None);
        }
        let silent = recorded.provenance.silent();
        let Some(rebuilt) = Rebuilding::of(records, joined, document, silent, self) else {
            return (UnitsByVersion::default(), None);
        };
        let Rebuilding {
            provenance, units, ..
        } = rebuilt;
        let rebuilt = RecordedProvenance {
            since: first.saturating_sub(1),
            version: document.version(),
            provenance,
            kept_until: document.version(),
            room: VecDeque::new(),
        };
        let before = std::mem::replace(recorded, rebuilt);
        self.0.log.set_units(&units, recorded);
        (units, Some(before))
    }

    /// The owner of the commit of an editor with this version, if it is recorded.
    pub(crate) fn owner_of_version(&self, version: u64) -> Option<OwnerId> {
        let recorded = self.0.provenance.lock();
        recorded.provenance.owner_of(version).cloned()
    }
}

/// The kept commits that lead to the document, and what is recorded of them.
pub(crate) struct KeptHistory {
    pub(crate) records: Vec<CommitRecord>,
    /// The version of a commit, and of the one before it that it is undone together with.
    pub(crate) joined: HashMap<u64, u64, Secret>,
    /// The units of the commits that are in histories. An undo or redo that would be another when
    /// it is repeated has none.
    pub(crate) units: UnitsByVersion,
    /// The undos and redos that changed nothing in the document, in their order.
    pub(crate) silent: Vec<SilentReversal>,
}

/// Units by the version of their commit.
pub(crate) type UnitsByVersion = HashMap<u64, Arc<EditUnit>, Secret>;

/// The provenance of kept commits, while it is recorded.
struct Rebuilding<'s> {
    store: &'s DataStore,
    provenance: Provenance,
    units: UnitsByVersion,
    /// The units that a commit put into effect or took out of it.
    reversed: HashMap<u64, Vec<Arc<EditUnit>>, Secret>,
}

impl<'s> Rebuilding<'s> {
    fn of(
        records: &[CommitRecord],
        joined: &HashMap<u64, u64, Secret>,
        document: &Snapshot,
        silent: &[SilentReversal],
        store: &'s DataStore,
    ) -> Option<Self> {
        let mut document = document.clone();
        for record in records.iter().rev() {
            document.take_back(record.changes()).ok()?;
        }
        let mut rebuilding = Self {
            store,
            provenance: Provenance::default(),
            units: UnitsByVersion::default(),
            reversed: HashMap::default(),
        };
        let (mut silent, ids) = (silent.iter().peekable(), &store.0.document.ids);
        for record in records {
            let before = document.clone();
            while let Some(reversal) = silent.next_if(|it| it.version < record.edits.version) {
                rebuilding.provenance.repeat_silent(reversal, &before, ids);
            }
            document.repeat(record.changes()).ok()?;
            let is_undo = !record.edits.undone.is_empty();
            if is_undo && rebuilding.repeat_undo(record, &before, &document) {
                continue;
            }
            rebuilding.record(record, joined, before, is_undo);
        }
        let provenance = &mut rebuilding.provenance;
        silent.for_each(|reversal| provenance.repeat_silent(reversal, &document, ids));
        Some(rebuilding)
    }

    fn record(
        &mut self,
        record: &CommitRecord,
        joined: &HashMap<u64, u64, Secret>,
        before: Snapshot,
        is_undo: bool,
    ) {
        let version = record.edits.version;
        let new = || EditUnit::new(version, record.owner.clone());
        let is_entry = record.in_history && !is_undo;
        let earlier = joined.get(&version).and_then(|it| self.units.get(it));
        // One that has code has it from a session that still exists.
        let unit = record.unit.clone();
        let unit = unit.or_else(|| is_entry.then(|| earlier.map_or_else(new, Arc::clone)));
        let mut overlay = Overlay::new(before);
        for change in record.changes() {
            // The document was led back by their inverses, so they apply.
            let _ = overlay.apply(change.clone(), &self.store.0.document.ids);
        }
        let commit = record.commit.as_deref();
        self.provenance.record(&RecordedCommit {
            version,
            changes: record.changes(),
            details: overlay.details(),
            unit: unit.as_ref(),
            selections: [
                commit.and_then(|commit| commit.selection_before.as_ref()),
                commit.and_then(|commit| commit.selection_after.as_ref()),
            ],
        });
        if let Some(unit) = unit {
            self.reversed.insert(version, vec![Arc::clone(&unit)]);
            self.units.insert(version, unit);
        }
    }

    /// The units that a recorded undo or redo took out of effect or put into effect, and which of
    /// the two.
    fn reversed_units_of(&self, record: &CommitRecord) -> Option<Vec<(Vec<Arc<EditUnit>>, bool)>> {
        let is_redo = record.is_redo()?;
        if let Some(reversed) = &record.reversed {
            return Some(reversed.units.clone());
        }
        let mut units: Vec<Arc<EditUnit>> = Vec::new();
        for version in &record.edits.undone {
            for unit in self.reversed.get(version)? {
                if !units.iter().any(|known| Arc::ptr_eq(known, unit)) {
                    units.push(Arc::clone(unit));
                }
            }
        }
        Some(vec![(units, is_redo)])
    }

    /// Repeats a recorded undo or redo. Returns whether the result is the recorded one.
    fn repeat_undo(&mut self, record: &CommitRecord, before: &Snapshot, after: &Snapshot) -> bool {
        let Some(units) = self.reversed_units_of(record) else {
            return false;
        };
        let ids = &self.store.0.document.ids;
        let added = record.reversed.as_ref().and_then(|it| it.added.as_ref());
        let changes = record.changes();
        let (changes, rest) = match added {
            Some((_, made)) => changes.split_at(changes.len().min(*made)),
            None => (changes, &[][..]),
        };
        let mut after = after.clone();
        if after.take_back(rest).is_err() {
            return false;
        }
        let provenance = &mut self.provenance;
        if !provenance.repeat(&units, [before, &after], changes, ids) {
            return false;
        }
        let version = record.edits.version;
        if let Some((unit, _)) = added {
            let mut overlay = Overlay::new(after);
            for change in rest {
                let _ = overlay.apply(change.clone(), ids);
            }
            self.provenance.record(&RecordedCommit {
                version,
                changes: rest,
                details: overlay.details(),
                unit: Some(unit),
                selections: [None, None],
            });
        }
        let units: Vec<_> = units.into_iter().flat_map(|(units, _)| units).collect();
        if let Some(unit) = units.first() {
            self.units.insert(version, Arc::clone(unit));
        }
        self.reversed.insert(version, units);
        true
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/unit/provenance.rs"]
mod tests;
