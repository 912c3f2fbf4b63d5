//! The commit log: what followers of the document have not read yet.
//!
//! A follower has a cursor: the version up to which it has read. A commit appends one record, and
//! each follower reads the log when it is next used. So a commit costs the same beside one follower
//! and beside a thousand.
//!
//! The log is limited in bytes. Beyond that, the oldest records are removed. An editor session gets
//! them composed into stretches, which all sessions share. A stretch never reaches over the cursor
//! of a session, so each session finds where to go on. A subscriber misses them, and they are
//! counted.

mod stretches;
mod subscribers;

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use slotmap::SlotMap;

use super::admission::{Admission, Door};
use super::events::{Filter, MissingCommits, Reach};
use super::{DataStore, TransactionResult};
use crate::document::{Change, Changes, Snapshot};
use crate::id::{LockId, NodeId, OwnerId};
use crate::sync::{Mutex, MutexGuard, rank};
use stretches::Composition;
pub(crate) use stretches::{RecentCommits, Stretch};
pub(super) use subscribers::{Next, SubscriberId};
use subscribers::{Subscribers, Topic};

slotmap::new_key_type! {
    /// The id of an editor session that follows the document.
    pub(crate) struct FollowerId;
}

/// A commit, as the log keeps it.
#[derive(Debug)]
pub(crate) struct CommitRecord {
    pub(crate) version: u64,
    pub(crate) owner: OwnerId,
    /// The session that made the commit.
    pub(crate) origin: Option<FollowerId>,
    pub(crate) changes: Changes,
    /// The versions whose commits it undid.
    pub(crate) undone: Vec<u64>,
    /// What the committing call returns, if there are subscribers or commits are kept.
    pub(super) commit: Option<Arc<TransactionResult>>,
}

/// The commits after a cursor: first the stretches, then the records.
#[derive(Debug, Default)]
pub(crate) struct LaterCommits {
    pub(crate) stretches: Vec<Arc<Stretch>>,
    pub(crate) records: Vec<Arc<CommitRecord>>,
}

#[derive(Debug)]
pub(super) struct CommitLog {
    /// `None` while no commit is recorded.
    records: Mutex<{ rank::LOG }, Option<Box<Records>>>,
    /// How many sessions and subscribers there are, and one more if commits are kept. It and the
    /// next two grow only while both `records` and the published state are locked.
    followers: AtomicU32,
    subscribers: AtomicU32,
    /// How many of the subscribers have a filter.
    filters: AtomicU32,
    /// Whether there may be too many records.
    overfull: AtomicBool,
    /// The last version that was appended.
    head: AtomicU64,
    limit: Limit,
    pub(super) admission: Admission,
}

/// How many records there may be.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// The bytes that stay, whether they are needed or not.
    kept: usize,
    /// The bytes beyond these.
    more: usize,
}

impl Limit {
    /// From more bytes on, records are removed.
    fn most(self) -> usize {
        self.kept.saturating_add(self.more)
    }

    /// How many bytes are left then.
    fn half(self) -> usize {
        self.kept.saturating_add(self.more / 2)
    }
}

#[derive(Debug, Default)]
pub(super) struct Records {
    /// The cursors of the sessions. That of the only follower is too low if its own commits are not
    /// in the log. Nothing after the true one was removed or composed with what is before it.
    sessions: SlotMap<FollowerId, u64>,
    subscribers: Subscribers,
    /// The older commits, composed, each stretch with its last version.
    stretches: VecDeque<(u64, Arc<Stretch>)>,
    /// The newer commits, of consecutive versions. The first of them may be composed already.
    recent: VecDeque<Entry>,
    /// Their size.
    bytes: usize,
    /// The size of all commits that were ever appended.
    appended: u64,
    /// From how many bytes on it may help to remove some.
    overfull_from: usize,
    /// Whether a thread composes some of them.
    is_composing: bool,
    /// Whether the store is gone.
    has_ended: bool,
    door: Door,
}

#[derive(Debug)]
struct Entry {
    /// About how many bytes it takes.
    bytes: usize,
    /// The size of all commits up to this one.
    appended: u64,
    record: Arc<CommitRecord>,
    /// The topics that it belongs to. Known when the commit is announced.
    topics: Vec<Topic>,
}

impl Entry {
    fn version(&self) -> u64 {
        self.record.version
    }

    /// The commit, if it belongs to the topic.
    fn commit_for(&self, topic: Topic) -> Option<&Arc<TransactionResult>> {
        let belongs = topic == Topic::ALL || self.topics.contains(&topic);
        self.record.commit.as_ref().filter(|_| belongs)
    }
}

/// The log, locked for a commit.
pub(super) type LockedLog<'a> = MutexGuard<'a, { rank::LOG }, Option<Box<Records>>>;

/// A session that has more commits to read has the older ones composed first.
const READ_APART: usize = 128;

/// In how many commits the one is looked for that stands in the way of an undo.
const LATEST: usize = 1024;

impl LaterCommits {
    /// The records of the commits that this session did not make.
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

    /// The last version that is composed, or zero.
    fn composed(&self) -> u64 {
        self.stretches.back().map_or(0, |(last, _)| *last)
    }

    /// The last version that it has.
    fn last(&self) -> Option<u64> {
        let recent = self.recent.back().map(Entry::version);
        recent.or_else(|| self.stretches.back().map(|(last, _)| *last))
    }

    /// How many of the recent commits are not after this version.
    fn recent_until(&self, version: u64) -> usize {
        let first = self.recent.front().map_or(0, Entry::version);
        let count = version.saturating_add(1).saturating_sub(first);
        count.min(self.recent.len() as u64) as usize
    }

    /// Appends a commit. Returns what is to be dropped with no mutex locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn push(&mut self, record: CommitRecord) -> impl Sized + use<> {
        // A commit of the only follower is not recorded. No cursor is before it.
        let gap = self.last().is_some_and(|last| last + 1 != record.version);
        let unneeded = gap.then(|| self.clear());
        let cursor = record.origin.and_then(|id| self.sessions.get_mut(id));
        if let Some(cursor) = cursor {
            *cursor = record.version;
        }
        let changes = record.changes.iter().map(Change::bytes);
        let undone = size_of_val(&record.undone[..]);
        let commit = record.commit.as_ref().map_or(0, |commit| commit.bytes());
        let bytes = size_of::<CommitRecord>() + undone + changes.sum::<usize>() + commit;
        self.bytes += bytes;
        self.appended += bytes as u64;
        self.recent.push_back(Entry {
            bytes,
            appended: self.appended,
            record: Arc::new(record),
            topics: Vec::new(),
        });
        unneeded
    }

    /// Lets subscribers read a commit. Returns what wakes those that wait for it.
    fn announce(
        &mut self,
        version: u64,
        reach: Option<&Reach>,
    ) -> impl Iterator<Item = Sender<()>> + use<> {
        let (topics, woken) = self.subscribers.announce(version, reach);
        // A commit before the first other follower is not recorded.
        let newest = self.recent.back_mut();
        if let Some(newest) = newest.filter(|newest| newest.version() == version) {
            newest.topics = topics;
        }
        woken.into_iter()
    }

    fn later(&self, cursor: u64) -> LaterCommits {
        let read = self.stretches.partition_point(|(last, _)| *last <= cursor);
        let stretches = self.stretches.range(read..);
        let read = self.recent_until(cursor.max(self.composed()));
        let records = self.recent.range(read..);
        LaterCommits {
            stretches: stretches.map(|(_, stretch)| Arc::clone(stretch)).collect(),
            records: records.map(|entry| Arc::clone(&entry.record)).collect(),
        }
    }

    /// The version up to which all sessions have read.
    fn read_by_sessions(&self) -> u64 {
        self.sessions.values().min().copied().unwrap_or(u64::MAX)
    }

    /// Removes the oldest records that no follower needs, and beyond these the ones up to version
    /// `through`, which subscribers miss. Returns what is to be dropped with no mutex locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn remove(&mut self, kept: usize, through: u64) -> impl Sized + use<> {
        let sessions = self.read_by_sessions();
        let unneeded = self
            .stretches
            .partition_point(|(last, _)| *last <= sessions);
        let until = sessions.max(self.composed());
        let until = until.min(self.subscribers.read().max(through));
        let until = until.min(self.subscribers.read_by_lossless());
        let stretches: Vec<_> = self.stretches.drain(..unneeded).collect();
        let mut count = self.recent_until(until);
        if !self.subscribers.is_empty() {
            // A subscriber that misses commits still gets the newest, and reads of the gap there.
            count = count.min(self.recent.len().saturating_sub(1));
        }
        let mut bytes = self.bytes;
        let oldest = self.recent.range(..count).take_while(|entry| {
            bytes -= entry.bytes;
            bytes >= kept
        });
        let count = oldest.count();
        let oldest: Vec<_> = self.recent.drain(..count).collect();
        self.bytes -= oldest.iter().map(|entry| entry.bytes).sum::<usize>();
        self.subscribers.miss(&oldest);
        (stretches, oldest)
    }

    /// Removes what no follower needs. If the rest is over the limit, or more than `most_apart`
    /// records are not composed, returns up to which version it is to be removed, and what is to be
    /// composed before that. Half of the limit remains.
    fn begin_composing(
        &mut self,
        limit: Limit,
        most_apart: usize,
    ) -> (impl Sized + use<>, Option<Composition>) {
        let unneeded = self.remove(limit.kept, 0);
        let too_large = self.bytes > limit.most();
        let read = self.recent_until(self.read_by_sessions().max(self.composed()));
        let is_too_long = self.recent.len() - read > most_apart;
        if !too_large && !is_too_long {
            return (unneeded, None);
        }
        let mut count = match is_too_long {
            true => self.recent.len() - most_apart / 2,
            false => 0,
        };
        let mut through = 0;
        if too_large {
            let mut bytes = self.bytes;
            let oldest = self.recent.iter().take_while(|entry| {
                let is_too_much = bytes > limit.half();
                bytes -= entry.bytes;
                is_too_much
            });
            let oldest = oldest.count();
            through = self.recent.range(..oldest).last().map_or(0, Entry::version);
            count = count.max(oldest);
        }
        let mut cursors: Vec<u64> = self.sessions.values().copied().collect();
        cursors.sort_unstable();
        let records = self.recent.range(read.min(count)..count);
        self.is_composing = true;
        let composition = Composition {
            cursors,
            stretches: self.stretches.clone(),
            records: records.map(|entry| Arc::clone(&entry.record)).collect(),
            removed_through: through,
        };
        (unneeded, Some(composition))
    }

    /// Takes in composed stretches, and removes the records. Returns what is to be dropped with no
    /// mutex locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn end_composing(
        &mut self,
        limit: Limit,
        composition: &Composition,
        stretches: VecDeque<(u64, Arc<Stretch>)>,
    ) -> impl Sized + use<> {
        self.is_composing = false;
        let mut replaced = stretches;
        // The records are gone if the log was cleared meanwhile.
        if let Some(oldest) = composition.records.first()
            && self.recent_until(oldest.version) > 0
        {
            std::mem::swap(&mut self.stretches, &mut replaced);
        }
        (
            replaced,
            self.remove(limit.kept, composition.removed_through),
        )
    }

    /// Whether a lossless subscriber has more to read than a part of its limit.
    fn is_behind(&self, part: impl Fn(usize) -> usize) -> bool {
        let unread = |cursor| {
            let next = self.recent.get(self.recent_until(cursor));
            next.map_or(0, |next| self.appended - next.appended + next.bytes as u64)
        };
        let mut lossless = self.subscribers.lossless();
        lossless.any(|(cursor, limit)| unread(cursor) > part(limit) as u64)
    }

    /// The next commit for a subscriber.
    fn next(&mut self, id: SubscriberId) -> Next {
        let next = match self.subscribers.cursor(id) {
            Some(cursor) => {
                let unread = self.recent.range(self.recent_until(cursor)..);
                self.subscribers.read_next(id, unread)
            }
            None => Next::Nothing,
        };
        match next {
            Next::Nothing if self.has_ended => Next::End,
            next => next,
        }
    }

    /// The commits after a version.
    fn commits_since(
        &self,
        version: u64,
        latest: u64,
    ) -> Result<Vec<Arc<TransactionResult>>, MissingCommits> {
        // A session that is the only follower has its own commits not recorded.
        let wanted = match self.last() == Some(latest) {
            true => (latest - version) as usize,
            false => 0,
        };
        let recent = self.recent.iter().rev();
        let commits = recent.map_while(|entry| entry.record.commit.clone());
        let mut commits: Vec<_> = commits.take(wanted).collect();
        let earliest = latest - commits.len() as u64;
        if version < earliest {
            return Err(MissingCommits::Removed {
                version,
                earliest,
                latest,
            });
        }
        commits.reverse();
        Ok(commits)
    }
}

/// The log of a store. Ends with it, also if subscriptions keep the log itself.
#[derive(Debug)]
pub(super) struct OwnLog(Arc<CommitLog>);

impl OwnLog {
    pub(super) fn new(kept: usize, limit: usize) -> Self {
        let log = CommitLog::new(Limit { kept, more: limit });
        Self(Arc::new(log))
    }
}

impl Deref for OwnLog {
    type Target = CommitLog;

    #[inline]
    fn deref(&self) -> &CommitLog {
        &self.0
    }
}

impl Drop for OwnLog {
    fn drop(&mut self) {
        let mut log = self.records.lock();
        let ended = log.as_mut().map(|records| {
            records.has_ended = true;
            records.subscribers.end()
        });
        drop(log);
        drop(ended);
    }
}

impl CommitLog {
    fn new(limit: Limit) -> Self {
        let keeps = limit.kept > 0;
        Self {
            records: Mutex::new(keeps.then(Box::default)),
            followers: AtomicU32::new(keeps.into()),
            subscribers: AtomicU32::new(0),
            filters: AtomicU32::new(0),
            overfull: AtomicBool::new(false),
            head: AtomicU64::new(0),
            limit,
            admission: Admission::default(),
        }
    }

    /// Removes the records that no follower needs, and the oldest ones if the rest is over the
    /// limit. Composes the oldest ones if more than `most_apart` are left.
    #[cold]
    fn compose(&self, most_apart: usize) {
        let mut log = self.records.lock();
        // A thread that composes already notes the size at its end.
        self.overfull.store(false, Ordering::Relaxed);
        let Some(records) = log.as_mut().filter(|records| !records.is_composing) else {
            return;
        };
        let (unneeded, composition) = records.begin_composing(self.limit, most_apart);
        if composition.is_none() {
            self.note_overfull_from(records);
        }
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
        let replaced = records.end_composing(self.limit, &composition, stretches);
        self.note_overfull_from(records);
        self.note_size(records);
        drop(log);
        drop(replaced);
    }

    /// What is left is needed, so it does not help to look again at each commit.
    fn note_overfull_from(&self, records: &mut Records) {
        /// What all have read stays until so many bytes have been added.
        const READ: usize = 1 << 20;
        let (most, half) = (self.limit.most(), self.limit.more / 2);
        records.overfull_from = match records.bytes > most {
            true => records.bytes.saturating_add(half),
            false => most.min(records.bytes + half.min(READ)),
        };
    }

    /// Appends a commit.
    pub(super) fn push(&self, mut log: LockedLog<'_>, record: impl FnOnce(bool) -> CommitRecord) {
        let Some(records) = &mut *log else {
            return;
        };
        let has_readers = self.limit.kept > 0 || self.subscribers.load(Ordering::Relaxed) > 0;
        let record = record(has_readers);
        self.head.store(record.version, Ordering::Relaxed);
        let unneeded = records.push(record);
        self.note_size(records);
        drop(log);
        drop(unneeded);
    }

    /// Notes whether there may be too many records.
    fn note_size(&self, records: &Records) {
        if records.bytes > records.overfull_from {
            self.overfull.store(true, Ordering::Relaxed);
        }
    }

    /// Begins to record commits for one more follower, a subscriber if it has a filter. Returns its
    /// cursor too. Both mutexes are locked meanwhile, so a commit either sees the follower or is
    /// before its cursor.
    fn add<'a>(
        &self,
        records: &'a mut Option<Box<Records>>,
        published: &Mutex<{ rank::PUBLISHED }, Snapshot>,
        filter: Option<&Filter>,
    ) -> (&'a mut Records, u64) {
        let published = published.lock();
        for count in self.counts(filter) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let cursor = published.version();
        drop(published);
        let records = records.get_or_insert_with(|| {
            let mut records = Box::<Records>::default();
            self.note_overfull_from(&mut records);
            records
        });
        (records, cursor)
    }

    /// Ends what [`add`](Self::add) began, after the follower was removed.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn remove(
        &self,
        records: &mut Option<Box<Records>>,
        filter: Option<&Filter>,
    ) -> Option<Box<Records>> {
        for count in self.counts(filter) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        let unneeded = records.take_if(|records| {
            records.sessions.is_empty() && records.subscribers.is_empty() && self.limit.kept == 0
        });
        // What only this follower had not read goes with the next commit.
        self.overfull.store(records.is_some(), Ordering::Relaxed);
        unneeded
    }

    fn counts(&self, filter: Option<&Filter>) -> impl Iterator<Item = &AtomicU32> {
        let subscribers = filter.map(|_| &self.subscribers);
        let filters = filter.filter(|filter| **filter != Filter::All);
        let filters = filters.map(|_| &self.filters);
        [&self.followers]
            .into_iter()
            .chain(subscribers)
            .chain(filters)
    }

    /// Lets subscribers read a commit, and wakes those that wait for it.
    fn announce(&self, version: u64, reach: Option<Reach>) {
        let mut log = self.records.lock();
        let Some(records) = &mut *log else {
            return;
        };
        let woken = records.announce(version, reach.as_ref());
        if records.is_behind(|limit| limit) {
            self.admission.close(&mut records.door);
        }
        drop(log);
        for subscriber in woken {
            // Full if it did not react to the message before.
            let _ = subscriber.try_send(());
        }
    }

    /// Ends a subscription.
    pub(super) fn unsubscribe(&self, id: SubscriberId) {
        let mut log = self.records.lock();
        let removed = log
            .as_mut()
            .and_then(|records| records.subscribers.remove(id));
        let Some((filter, channel)) = removed else {
            return;
        };
        let door = log.as_mut().and_then(|records| self.reopen(records));
        let unneeded = self.remove(&mut log, Some(&filter));
        drop(log);
        self.admission.release(door);
        drop((filter, channel, unneeded));
    }

    /// Reopens admission if the lossless subscribers have read enough. Half of a limit is between
    /// closing and opening, so that not every commit waits until its predecessor is read.
    #[must_use = "the request at the door must go on"]
    fn reopen(&self, records: &mut Records) -> Option<LockId> {
        let reopens = records.door.is_closed && !records.is_behind(|limit| limit / 2);
        reopens
            .then(|| self.admission.open(&mut records.door))
            .flatten()
    }

    /// The state of admission.
    pub(super) fn door<R>(&self, use_it: impl FnOnce(&mut Door) -> R) -> R {
        let mut log = self.records.lock();
        match &mut *log {
            Some(records) => use_it(&mut records.door),
            // There is no subscriber.
            None => use_it(&mut Door::default()),
        }
    }

    /// The next commit for a subscriber.
    pub(super) fn next(&self, id: SubscriberId) -> Next {
        loop {
            let mut log = self.records.lock();
            let Some(records) = &mut *log else {
                return Next::End;
            };
            let next = records.next(id);
            let door = self.reopen(records);
            drop(log);
            self.admission.release(door);
            // Others lock the log in between, however many commits the filter excludes.
            match next {
                Next::Further => {}
                next => return next,
            }
        }
    }
}

impl DataStore {
    /// Begins to follow the document. Returns the id and the cursor.
    pub(crate) fn follow(&self) -> (FollowerId, u64) {
        let log = &self.0.log;
        let mut records = log.records.lock();
        let (records, cursor) = log.add(&mut records, &self.0.published, None);
        (records.sessions.insert(cursor), cursor)
    }

    /// Ends what [`follow`](Self::follow) began.
    pub(crate) fn stop_following(&self, id: FollowerId) {
        let log = &self.0.log;
        let mut records = log.records.lock();
        if let Some(records) = &mut *records {
            records.sessions.remove(id);
        }
        let unneeded = log.remove(&mut records, None);
        drop(records);
        drop(unneeded);
    }

    /// Reads the commits after a cursor, and moves the cursor of the session to the latest version,
    /// which is returned too.
    pub(crate) fn later_commits(&self, id: FollowerId, cursor: u64) -> (Snapshot, LaterCommits) {
        let mut log = self.0.log.records.lock();
        let snapshot = self.snapshot();
        let mut later = LaterCommits::default();
        if let Some(records) = &mut *log
            && let Some(kept) = records.sessions.get_mut(id)
        {
            // Right after a commit of the session, before it has taken note, the log is ahead.
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
        let recent = log.as_ref()?.recent.iter().rev().take(LATEST);
        let records = recent.map(|entry| &entry.record);
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
    /// has released the lock, unless it is held by a guard or by id.
    #[inline]
    pub(crate) fn compose_log(&self) {
        let log = &self.0.log;
        if log.overfull.load(Ordering::Relaxed) {
            log.compose(usize::MAX);
        }
    }

    /// Prepares for a session with this cursor. If it has many commits to read, the older ones are
    /// composed, for all sessions. Returns whether it has many. Called without the lock.
    #[inline]
    pub(crate) fn compose_for(&self, cursor: u64) -> bool {
        let log = &self.0.log;
        let is_far_behind = log.head.load(Ordering::Relaxed) > cursor + READ_APART as u64;
        if is_far_behind {
            log.compose(READ_APART);
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
        MutexGuard<'_, { rank::PUBLISHED }, Snapshot>,
    ) {
        let log = &self.0.log;
        let is_followed = || log.followers.load(Ordering::Relaxed) > u32::from(origin.is_some());
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

    /// Wakes the subscribers that wait for this commit. The caller holds the store's lock, so no
    /// other commit is published meanwhile.
    ///
    /// The reach is computed without the log locked. The document is dropped before this returns:
    /// otherwise the next commit would have to copy what it changes.
    #[inline]
    pub(super) fn announce(&self, commit: &TransactionResult) {
        let log = &self.0.log;
        if log.subscribers.load(Ordering::Relaxed) > 0 {
            let has_filters = log.filters.load(Ordering::Relaxed) > 0;
            let reach = has_filters.then(|| Reach::new(&commit.changes, &self.snapshot()));
            log.announce(commit.version, reach);
        }
    }

    /// Begins a subscription.
    pub(super) fn follow_with(
        &self,
        filter: Filter,
        lossless: Option<usize>,
    ) -> (Arc<CommitLog>, SubscriberId, Receiver<()>) {
        let log = &self.0.log;
        let mut records = log.records.lock();
        let (records, cursor) = log.add(&mut records, &self.0.published, Some(&filter));
        let (id, ready) = records.subscribers.add(filter, cursor, lossless);
        (Arc::clone(&log.0), id, ready)
    }

    /// See [`commits_since`](Self::commits_since).
    pub(super) fn recorded_since(
        &self,
        version: u64,
    ) -> Result<Vec<Arc<TransactionResult>>, MissingCommits> {
        let log = self.0.log.records.lock();
        let latest = self.version();
        if version > latest {
            return Err(MissingCommits::NotReached { version, latest });
        }
        match log.as_ref() {
            Some(records) => records.commits_since(version, latest),
            None => Records::default().commits_since(version, latest),
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
