//! The commit log: what followers of the document have not read yet.
//!
//! A follower has a cursor: the version up to which it has read. A commit appends one record, and
//! each follower reads the log when it is next used. So a commit costs the same beside one follower
//! and beside a thousand.
//!
//! The log is limited in bytes. Beyond that, the oldest records are composed into stretches, which
//! followers share. A stretch never reaches over a cursor, so each follower finds where to go on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use slotmap::SlotMap;

use super::{DataStore, Published};
use crate::document::{Change, Changes, PieceMap, Snapshot};
use crate::id::{NodeId, OwnerId};
use crate::sync::{Mutex, MutexGuard, rank};

slotmap::new_key_type! {
    /// The id of a follower.
    pub(crate) struct FollowerId;
}

/// A commit, as the log keeps it.
#[derive(Debug)]
pub(crate) struct CommitRecord {
    pub(crate) version: u64,
    pub(crate) owner: OwnerId,
    /// The follower that made the commit.
    pub(crate) origin: Option<FollowerId>,
    pub(crate) changes: Changes,
    /// The versions whose commits it undid.
    pub(crate) undone: Vec<u64>,
}

/// What consecutive commits did to positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretch {
    pub(crate) commits: usize,
    pub(crate) map: PieceMap,
}

/// The commits after a cursor: first the stretches, then the records.
#[derive(Debug, Default)]
pub(crate) struct LaterCommits {
    pub(crate) stretches: Vec<Arc<Stretch>>,
    pub(crate) records: Vec<Arc<CommitRecord>>,
}

#[derive(Debug)]
pub(super) struct CommitLog {
    /// `None` while there is no follower.
    records: Mutex<{ rank::LOG }, Option<Box<Records>>>,
    /// How many followers there are. It changes only while both `records` and the published state
    /// are locked.
    followers: AtomicUsize,
    /// Whether the records may be over the limit.
    overfull: AtomicBool,
    /// The last version that was appended.
    head: AtomicU64,
    limit: Limit,
}

/// How much of the newer commits is not composed.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes: usize,
    commits: usize,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    /// The cursors of the followers. That of the only follower is too low if its own commits are
    /// not in the log. Nothing after the true one was taken out or composed with what is before it.
    cursors: SlotMap<FollowerId, u64>,
    /// The older commits, composed, each stretch with its last version.
    stretches: VecDeque<(u64, Arc<Stretch>)>,
    /// The newer commits, of consecutive versions, each with about how many bytes it takes.
    recent: VecDeque<(usize, Arc<CommitRecord>)>,
    /// Their size.
    bytes: usize,
    /// Whether a thread composes some of them.
    is_composing: bool,
}

/// The log, locked for a commit.
pub(super) type LockedLog<'a> = MutexGuard<'a, { rank::LOG }, Option<Box<Records>>>;

/// A follower that has more commits to read has the older ones composed first.
const READ_APART: usize = 128;

/// Consecutive commits that are still apart, so that commits which undo others cancel out.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentCommits(VecDeque<(u64, Changes)>);

impl RecentCommits {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The changes of all.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.0.iter().flat_map(|(_, changes)| changes)
    }

    /// Takes in a commit. If it undid exactly the last ones, nothing has happened.
    pub(crate) fn push(&mut self, version: u64, changes: &Changes, undone: &[u64]) {
        if let Some(kept) = self.0.len().checked_sub(undone.len())
            && !undone.is_empty()
            && self.0.range(kept..).map(|(version, _)| version).eq(undone)
        {
            self.0.truncate(kept);
        } else {
            self.0.push_back((version, changes.clone()));
        }
    }

    /// Composes the oldest ones, which are taken out.
    pub(crate) fn compose(&mut self, commits: usize) -> Stretch {
        let (_, stretch) = self.compose_while(|stretch| stretch.commits < commits);
        stretch
    }

    /// Composes as many of the oldest ones as are cheaper to compose at once than one by one. Takes
    /// them out, and returns the last version too.
    fn compose_some(&mut self) -> Option<(u64, Stretch)> {
        let (last, stretch) = self.compose_while(|stretch| !stretch.map.is_long());
        Some((last?, stretch))
    }

    fn compose_while(&mut self, more: impl Fn(&Stretch) -> bool) -> (Option<u64>, Stretch) {
        let mut last = None;
        let mut stretch = Stretch::default();
        while more(&stretch)
            && let Some((version, changes)) = self.0.pop_front()
        {
            stretch.map.extend(&changes);
            stretch.commits += 1;
            last = Some(version);
        }
        (last, stretch)
    }
}

impl Stretch {
    /// Whether it is merged with the one after it. So a commit is merged a logarithmic number of
    /// times, not once for each later commit.
    pub(crate) fn is_no_longer_than(&self, next: &Self) -> bool {
        self.commits <= next.commits
    }

    /// Merges it with the one after it.
    pub(crate) fn followed_by(self: Arc<Self>, next: &Self) -> Self {
        let mut whole = Arc::unwrap_or_clone(self);
        whole.map.append(&next.map);
        whole.commits += next.commits;
        whole
    }
}

impl LaterCommits {
    /// The records of the commits that this follower did not make.
    pub(crate) fn by_others(&self, id: FollowerId) -> impl Iterator<Item = &CommitRecord> {
        let records = self.records.iter().map(|record| &**record);
        records.filter(move |record| record.origin != Some(id))
    }
}

impl Records {
    /// Removes everything, to be dropped with no mutex locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn clear(&mut self) -> impl Sized + use<> {
        self.bytes = 0;
        let recent = std::mem::take(&mut self.recent);
        (recent, std::mem::take(&mut self.stretches))
    }

    /// The last version that it has.
    fn last(&self) -> Option<u64> {
        let recent = self.recent.back().map(|(_, record)| record.version);
        recent.or_else(|| self.stretches.back().map(|(last, _)| *last))
    }

    /// Appends a commit. Returns what is to be dropped with no mutex locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn push(&mut self, record: CommitRecord) -> impl Sized + use<> {
        // A commit of the only follower is not recorded. No cursor is before it.
        let gap = self.last().is_some_and(|last| last + 1 != record.version);
        let unneeded = gap.then(|| self.clear());
        let cursor = record.origin.and_then(|id| self.cursors.get_mut(id));
        if let Some(cursor) = cursor {
            *cursor = record.version;
        }
        let changes = record.changes.iter().map(Change::bytes);
        let undone = size_of_val(&record.undone[..]);
        let bytes = size_of::<CommitRecord>() + undone + changes.sum::<usize>();
        self.bytes += bytes;
        self.recent.push_back((bytes, Arc::new(record)));
        unneeded
    }

    fn later(&self, cursor: u64) -> LaterCommits {
        let read = self.stretches.partition_point(|(last, _)| *last <= cursor);
        let stretches = self.stretches.range(read..);
        let first = self.recent.front().map_or(0, |(_, record)| record.version);
        let read = (cursor + 1).saturating_sub(first) as usize;
        let records = self.recent.range(read.min(self.recent.len())..);
        LaterCommits {
            stretches: stretches.map(|(_, stretch)| Arc::clone(stretch)).collect(),
            records: records.map(|(_, record)| Arc::clone(record)).collect(),
        }
    }
}

/// Records to be composed.
struct Composition {
    /// The cursors, in order.
    cursors: Vec<u64>,
    stretches: VecDeque<(u64, Arc<Stretch>)>,
    oldest: Vec<Arc<CommitRecord>>,
}

impl Records {
    /// Takes out what no follower needs, and prepares the composition of the oldest records if the
    /// others are still more than the limit. Half of the limit remains.
    fn begin_composing(&mut self, limit: Limit) -> (impl Sized + use<>, Option<Composition>) {
        let read = self.cursors.values().min().copied().unwrap_or(u64::MAX);
        let unneeded = self.stretches.partition_point(|(last, _)| *last <= read);
        let stretches: Vec<_> = self.stretches.drain(..unneeded).collect();
        let unneeded = self
            .recent
            .partition_point(|(_, record)| record.version <= read);
        let unneeded = (stretches, self.take_oldest(unneeded));
        if self.bytes <= limit.bytes && self.recent.len() <= limit.commits {
            return (unneeded, None);
        }
        let mut cursors: Vec<u64> = self.cursors.values().copied().collect();
        cursors.sort_unstable();
        let (mut bytes, mut commits) = (self.bytes, self.recent.len());
        let oldest = self.recent.iter().take_while(|(size, _)| {
            let taken = bytes > limit.bytes / 2 || commits > limit.commits / 2;
            (bytes, commits) = (bytes - size, commits - 1);
            taken
        });
        let oldest = oldest.map(|(_, record)| Arc::clone(record)).collect();
        self.is_composing = true;
        let composition = Composition {
            cursors,
            stretches: self.stretches.clone(),
            oldest,
        };
        (unneeded, Some(composition))
    }

    fn take_oldest(&mut self, commits: usize) -> Vec<(usize, Arc<CommitRecord>)> {
        let oldest: Vec<_> = self.recent.drain(..commits).collect();
        self.bytes -= oldest.iter().map(|(bytes, _)| bytes).sum::<usize>();
        oldest
    }

    /// Replaces the oldest records by stretches. Returns what is to be dropped with no mutex
    /// locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn replace(
        &mut self,
        composition: &Composition,
        stretches: VecDeque<(u64, Arc<Stretch>)>,
    ) -> impl Sized + use<> {
        self.is_composing = false;
        let oldest = self.recent.front().zip(composition.oldest.first());
        // They are gone if the log was cleared meanwhile.
        if !oldest.is_some_and(|((_, now), composed)| Arc::ptr_eq(now, composed)) {
            return (stretches, Vec::new());
        }
        let composed = self.take_oldest(composition.oldest.len());
        (std::mem::replace(&mut self.stretches, stretches), composed)
    }
}

impl Composition {
    fn compose(&self) -> VecDeque<(u64, Arc<Stretch>)> {
        let is_cursor = |version: u64| self.cursors.binary_search(&version).is_ok();
        let between_cursors = self.oldest.chunk_by(|record, _| !is_cursor(record.version));
        let new = between_cursors.flat_map(|records| {
            let mut commits = RecentCommits::default();
            for record in records {
                commits.push(record.version, &record.changes, &record.undone);
            }
            let mut stretches: Vec<_> = std::iter::from_fn(|| commits.compose_some()).collect();
            // The last one ends at the cursor, also if the commits there cancelled out.
            let end = records.last().map_or(0, |record| record.version);
            match stretches.last_mut() {
                Some((last, _)) => *last = end,
                None => stretches.push((end, Stretch::default())),
            }
            stretches
        });
        let new = new.map(|(last, stretch)| (last, Arc::new(stretch)));
        let mut all: Vec<(u64, Arc<Stretch>)> = Vec::new();
        for (last, mut stretch) in self.stretches.iter().cloned().chain(new) {
            while let Some((_, before)) =
                all.pop_if(|(end, before)| before.is_no_longer_than(&stretch) && !is_cursor(*end))
            {
                stretch = Arc::new(before.followed_by(&stretch));
            }
            all.push((last, stretch));
        }
        all.into()
    }
}

impl CommitLog {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            records: Mutex::default(),
            followers: AtomicUsize::new(0),
            overfull: AtomicBool::new(false),
            head: AtomicU64::new(0),
            limit: Limit {
                bytes,
                commits: usize::MAX,
            },
        }
    }

    /// Composes the oldest records, up to half of a limit, if they are over it.
    #[cold]
    fn compose(&self, limit: Limit) {
        let mut log = self.records.lock();
        // A thread that composes already notes the size at its end.
        self.overfull.store(false, Ordering::Relaxed);
        let Some(records) = log.as_mut().filter(|records| !records.is_composing) else {
            return;
        };
        let (unneeded, composition) = records.begin_composing(limit);
        drop(log);
        drop(unneeded);
        let Some(composition) = composition else {
            return;
        };
        let stretches = composition.compose();
        let mut log = self.records.lock();
        let Some(records) = &mut *log else {
            return;
        };
        let replaced = records.replace(&composition, stretches);
        self.note_size(records);
        drop(log);
        drop(replaced);
    }

    /// Appends a commit.
    pub(super) fn push(&self, mut log: LockedLog<'_>, record: CommitRecord) {
        let Some(records) = &mut *log else {
            return;
        };
        self.head.store(record.version, Ordering::Relaxed);
        let unneeded = records.push(record);
        self.note_size(records);
        drop(log);
        drop(unneeded);
    }

    /// Notes whether the records are over the limit.
    fn note_size(&self, records: &Records) {
        if records.bytes > self.limit.bytes {
            self.overfull.store(true, Ordering::Relaxed);
        }
    }
}

impl DataStore {
    /// Begins to follow the document. Returns the id and the cursor.
    pub(crate) fn follow(&self) -> (FollowerId, u64) {
        let log = &self.0.log;
        let mut records = log.records.lock();
        let published = self.0.published.lock();
        log.followers.fetch_add(1, Ordering::Relaxed);
        let cursor = published.snapshot.version();
        drop(published);
        let records = records.get_or_insert_default();
        (records.cursors.insert(cursor), cursor)
    }

    /// Ends what [`follow`](Self::follow) began.
    pub(crate) fn stop_following(&self, id: FollowerId) {
        let log = &self.0.log;
        let mut kept = log.records.lock();
        let published = self.0.published.lock();
        log.followers.fetch_sub(1, Ordering::Relaxed);
        drop(published);
        if let Some(records) = &mut *kept {
            records.cursors.remove(id);
            // What only this follower had not read goes with the next commit.
            log.overfull.store(true, Ordering::Relaxed);
        }
        let unneeded = kept.take_if(|records| records.cursors.is_empty());
        drop(kept);
        drop(unneeded);
    }

    /// Reads the commits after a cursor, and moves the cursor of the follower to the latest
    /// version, which is returned too.
    pub(crate) fn later_commits(&self, id: FollowerId, cursor: u64) -> (Snapshot, LaterCommits) {
        let mut log = self.0.log.records.lock();
        let snapshot = self.snapshot();
        let mut later = LaterCommits::default();
        if let Some(records) = &mut *log
            && let Some(kept) = records.cursors.get_mut(id)
        {
            // Right after a commit of the follower, before it has taken note, the log is ahead.
            let cursor = cursor.max(std::mem::replace(kept, snapshot.version()));
            later = records.later(cursor);
        }
        (snapshot, later)
    }

    /// The latest commit by others that changed a node, as far as the log still has it.
    pub(crate) fn latest_change(
        &self,
        node: &NodeId,
        by_other_than: FollowerId,
    ) -> Option<(OwnerId, u64)> {
        let log = self.0.log.records.lock();
        let records = log.as_ref()?.recent.iter().rev().map(|(_, record)| record);
        let mut by_others = records.filter(|record| record.origin != Some(by_other_than));
        let found = by_others.find(|record| {
            record
                .changes
                .iter()
                .any(|change| change.node() == Some(node))
        })?;
        Some((found.owner.clone(), found.version))
    }

    /// Composes the oldest records of the log if they are over its limit. Takes time, so the caller
    /// has released the lock.
    #[inline]
    pub(crate) fn compose_log(&self) {
        let log = &self.0.log;
        if log.overfull.load(Ordering::Relaxed) {
            log.compose(log.limit);
        }
    }

    /// Prepares for a follower with this cursor. If it has many commits to read, the older ones are
    /// composed, for all followers. Returns whether it has many. Called without the lock.
    #[inline]
    pub(crate) fn compose_for(&self, cursor: u64) -> bool {
        let log = &self.0.log;
        let is_far_behind = log.head.load(Ordering::Relaxed) > cursor + READ_APART as u64;
        if is_far_behind {
            log.compose(Limit {
                commits: READ_APART,
                ..log.limit
            });
        }
        is_far_behind
    }

    /// Locks the published state for a commit, and before it the log if anyone but `origin` follows
    /// the document.
    pub(super) fn lock_for_commit(
        &self,
        origin: Option<FollowerId>,
    ) -> (
        Option<LockedLog<'_>>,
        MutexGuard<'_, { rank::PUBLISHED }, Published>,
    ) {
        let log = &self.0.log;
        let is_followed = || log.followers.load(Ordering::Relaxed) > usize::from(origin.is_some());
        let mut records = None;
        loop {
            if records.is_none() && is_followed() {
                records = Some(log.records.lock());
            }
            let published = self.0.published.lock();
            // A follower may have come before the published state was locked.
            if records.is_some() || !is_followed() {
                return (records, published);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
impl DataStore {
    /// Whether the end of the next transaction locks the log.
    pub(crate) fn log_is_overfull(&self) -> bool {
        self.0.log.overfull.load(Ordering::Relaxed)
    }

    /// The bytes of the records of the log, their number, and the number of stretches.
    pub(crate) fn log_sizes(&self) -> (usize, usize, usize) {
        let log = self.0.log.records.lock();
        let sizes = log.as_ref().map(|records| {
            let Records {
                recent, stretches, ..
            } = &**records;
            (records.bytes, recent.len(), stretches.len())
        });
        sizes.unwrap_or_default()
    }
}
