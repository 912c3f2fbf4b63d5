//! The commit log: what followers of the document have not read yet.
//!
//! A follower has a cursor: the version up to which it has read. A commit appends one record, and
//! each follower reads the log when it is next used. So a commit costs the same beside one follower
//! and beside a thousand.
//!
//! The log is limited in bytes. Beyond that, the oldest records are removed. For sessions, their
//! edits are merged into stretches, which all sessions share. A stretch never reaches over the
//! cursor of a session, so each session finds where to go on. A subscriber misses the records, and
//! they are counted.

mod closing;
mod followers;
mod journal_reader;
mod records;
mod subscribers;
mod unrecorded;

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

use crossbeam_channel::{Receiver, TryRecvError};
use smallvec::SmallVec;

use super::events::{CommitEvent, Filter, MissingCommits, SubscriptionOptions};
use super::lazy::LazyParts;
use super::provenance::{RecordedProvenance, UnitsByVersion};
use super::publish::Publication;
use super::{DataStore, SharedDocument, TransactionResult};
use crate::caught::{dispose, wake};
use crate::document::{
    Change, ChangeDetail, CommitEdits, EditUnit, Reach, Selection, SequenceEdit, Snapshot, Stretch,
};
use crate::hashing::Secret;
use crate::id::{NodeId, OwnerId};
use crate::lock::{LeftWork, WeakLock};
use crate::steps::step;
use crate::sync::{Mutex, MutexGuard, rank};
pub(super) use closing::DISK;
use closing::LockChange;
pub(super) use journal_reader::JournalReader;
pub(super) use records::{CommitRecords, UnwrittenCommits};
use records::{FollowingSession, LogLimit};
pub(super) use subscribers::{EventWait, SubscriberId};
use subscribers::{NextEvent, SubscriberWake};
pub(crate) use unrecorded::UnrecordedCommit;
use unrecorded::UnrecordedQueue;

slotmap::new_key_type! {
    /// The id of an editor session that follows the document.
    pub(crate) struct FollowerId;
}

/// A commit, as the log keeps it.
#[derive(Clone, Debug)]
pub(crate) struct CommitRecord {
    /// What it did to positions, if a session of others reads it, or it is kept.
    pub(crate) edits: CommitEdits,
    pub(crate) owner: OwnerId,
    /// Whether the history of its editor has it.
    pub(crate) in_history: bool,
    /// The session that made the commit.
    pub(crate) origin: Option<FollowerId>,
    /// What is undone together with it, if it was made in this process.
    pub(crate) unit: Option<Arc<EditUnit>>,
    /// The units that it undid or redid, if its versions do not tell that.
    pub(crate) reversed: Option<Arc<ReversedEntry>>,
    /// What the committing call returns, if there are subscribers or commits are kept.
    pub(crate) commit: Option<Arc<TransactionResult>>,
}

/// The units that an undo or a redo reversed. They are stored if it added anything, or the entry
/// has inverse code, or if not all versions of its commits are kept.
#[derive(Debug)]
pub(crate) struct ReversedEntry {
    /// The units, and whether they came into effect, in their order.
    pub(crate) units: Vec<(Vec<Arc<EditUnit>>, bool)>,
    /// The unit of what code and the schema added, and how many changes were made before.
    pub(crate) added: Option<(Arc<EditUnit>, usize)>,
}

impl ReversedEntry {
    fn all_units(&self) -> impl Iterator<Item = &Arc<EditUnit>> {
        self.units.iter().flat_map(|(units, _)| units)
    }
}

/// A commit, the versions that it undid or redid, and whether it is a redo.
pub(super) type UndoingCommit = (Arc<TransactionResult>, Vec<u64>, bool);

/// What a commit was in the history of its editor: its version, and the versions that it undid.
pub(super) type HistoryStep = (u64, Box<[u64]>);

impl CommitRecord {
    /// The record of a stored commit.
    pub(super) fn stored(commit: Arc<TransactionResult>, step: Option<HistoryStep>) -> Self {
        Self {
            owner: commit.owner.clone(),
            in_history: step.is_some(),
            origin: None,
            unit: None,
            reversed: None,
            edits: CommitEdits {
                version: commit.version,
                edits: Change::sequence_edits(&commit.changes),
                undone: step.map_or(Box::default(), |(_, undone)| undone),
            },
            commit: Some(commit),
        }
    }

    /// Its changes, if they are kept.
    pub(crate) fn changes(&self) -> &[Change] {
        self.commit.as_ref().map_or(&[], |commit| &commit.changes)
    }

    /// Whether it is in the history of this session.
    pub(crate) fn is_entry_of(&self, id: FollowerId) -> bool {
        self.in_history && self.origin == Some(id)
    }

    /// Whether it is a redo; `None` if it is neither that nor an undo.
    pub(crate) fn is_redo(&self) -> Option<bool> {
        let operations = &self.commit.as_ref()?.operations;
        match operations.first()?.name.as_str() {
            "undo" => Some(false),
            "redo" => Some(true),
            _ => None,
        }
    }

    fn step(&self) -> Option<HistoryStep> {
        let CommitEdits {
            version, undone, ..
        } = &self.edits;
        // Most commits undo none.
        let undone = || match undone.is_empty() {
            true => Box::default(),
            false => undone.clone(),
        };
        self.in_history.then(|| (*version, undone()))
    }

    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        let CommitEdits { edits, undone, .. } = &self.edits;
        let spilled = match edits.spilled() {
            true => size_of_val(&edits[..]),
            false => 0,
        };
        let commit = self.commit.as_ref().map_or(0, |commit| commit.bytes());
        size_of::<Self>() + spilled + size_of_val(&undone[..]) + commit
    }
}

/// The commits that waited to be recorded.
#[derive(Debug)]
pub(super) struct TakenCommits {
    /// The version after which it was begun to record.
    pub(super) since: u64,
    /// The version of the newest commit.
    pub(super) version: u64,
    pub(super) commits: VecDeque<UnrecordedCommit>,
    /// The document of that version, if some of them are undone.
    pub(super) document: Option<Snapshot>,
}

/// The commits of others after a cursor: first the stretches, then those that are still apart.
#[derive(Debug, Default)]
pub(crate) struct LaterCommits {
    pub(crate) stretches: Vec<Arc<Stretch>>,
    pub(crate) apart: Vec<CommitEdits>,
}

impl LaterCommits {
    pub(crate) fn is_empty(&self) -> bool {
        self.stretches.is_empty() && self.apart.is_empty()
    }

    /// Moves a selection with them. Whether its nodes exist is not known here.
    pub(crate) fn move_selection(&self, selection: &mut Selection) {
        for stretch in &self.stretches {
            stretch.move_selection(selection);
        }
        selection.follow(self.apart.iter().flat_map(|commit| &commit.edits));
    }
}

#[derive(Debug)]
pub(super) struct CommitLog {
    /// `None` while no commit is recorded.
    pub(super) records: Mutex<{ rank::LOG }, Option<Box<CommitRecords>>>,
    /// How many sessions and subscribers there are, and one more if commits are kept. It and the
    /// next two grow only while both `records` and the published state are locked.
    followers: AtomicU32,
    subscribers: AtomicU32,
    /// How many of the subscribers have a filter.
    filters: AtomicU32,
    /// Whether there may be too many records.
    overfull: AtomicBool,
    /// Whether many commits wait to be recorded.
    has_many_unrecorded: AtomicBool,
    /// Whether there are tasks to wake, to which commits were announced.
    has_to_wake: AtomicBool,
    /// The last version that was appended.
    head: AtomicU64,
    limit: LogLimit,
    /// How often the lock was closed or opened, or closed by another. Written while `records` is
    /// locked.
    closings: AtomicU64,
    /// The lock of the store, which a subscription does not keep.
    lock: WeakLock,
    pub(super) lazy: LazyParts,
}

/// The log, locked for a commit.
pub(super) type LockedLog<'a> = MutexGuard<'a, { rank::LOG }, Option<Box<CommitRecords>>>;

/// A session that has more commits to read has the older ones merged into stretches first.
const READ_APART: usize = 128;

/// In how many commits the latest change of a node is looked for, which the error of an undo names.
const LATEST: usize = 1024;

/// The log of a store. Ends with it, also if subscriptions keep the log itself.
#[derive(Debug)]
pub(super) struct OwnLog(Arc<CommitLog>);

impl OwnLog {
    pub(super) fn new(kept: usize, limit: usize, lock: WeakLock) -> Self {
        let log = CommitLog::new(LogLimit { kept, more: limit }, lock);
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
        ended.into_iter().flatten().for_each(SubscriberWake::end);
        self.wake_tasks();
    }
}

impl CommitLog {
    fn new(limit: LogLimit, lock: WeakLock) -> Self {
        let keeps = limit.kept > 0;
        Self {
            records: Mutex::new(keeps.then(Box::default)),
            followers: AtomicU32::new(keeps.into()),
            subscribers: AtomicU32::new(0),
            filters: AtomicU32::new(0),
            overfull: AtomicBool::new(false),
            has_many_unrecorded: AtomicBool::new(false),
            has_to_wake: AtomicBool::new(false),
            head: AtomicU64::new(0),
            limit,
            closings: AtomicU64::new(0),
            lock,
            lazy: LazyParts::default(),
        }
    }

    /// Removes the records that no follower needs, and the oldest ones if the rest is over the
    /// limit or more than `most_apart` are left. Those that sessions need become stretches.
    ///
    /// With a journal, later commits free them, one each. An allocator is slow if many are freed at
    /// once, or by another thread than that which allocates.
    #[cold]
    fn trim(&self, most_apart: usize) {
        let mut log = self.records.lock();
        self.overfull.store(false, Ordering::Relaxed);
        let Some(records) = &mut *log else {
            return;
        };
        let (unneeded, full) = records.trim(self.limit, most_apart);
        self.note_overfull_from(records);
        self.note_size(records);
        drop(log);
        drop(unneeded);
        if let Some(stretch) = full {
            stretch.map();
        }
    }

    /// What is left is needed, so it does not help to look again at each commit.
    fn note_overfull_from(&self, records: &mut CommitRecords) {
        /// What all have read stays until so many bytes have been added.
        const READ: usize = 256 << 10;
        let limit = records.applied(self.limit);
        let (most, half) = (limit.most(), limit.more / 2);
        let bytes = records.bytes();
        records.overfull_from = match bytes > most {
            true => bytes.saturating_add(half),
            false => most.min(bytes + half.min(READ)),
        };
    }

    /// Appends a commit, and queues it to be recorded, from the first one on that can be undone. A
    /// follower need not read its own. Returns whether it is still to be
    /// [announced](DataStore::announce) to subscribers.
    #[inline]
    pub(super) fn push(
        &self,
        log: LockedLog<'_>,
        version: u64,
        result: &TransactionResult,
        details: Vec<ChangeDetail>,
        publication: &Publication<'_>,
    ) -> bool {
        // Dropped after the log is unlocked.
        let (_unneeded, _removed);
        let mut log = log;
        let Some(records) = &mut *log else {
            return false;
        };
        let queue = &mut records.unrecorded;
        if queue.since.is_none() && publication.unit.is_some() && !records.sessions.is_empty() {
            *queue = UnrecordedQueue::beginning_after(version - 1);
        }
        if queue.since.is_some() {
            _unneeded = queue.push(version, result, details, publication);
            if queue.has_many() {
                self.has_many_unrecorded.store(true, Ordering::Relaxed);
            }
        }
        // The session of a batch may have ended while another thread ran the batch.
        let origin = publication.session;
        let is_of_follower = origin.is_some_and(|id| records.sessions.contains_key(id));
        if self.followers.load(Ordering::Relaxed) <= u32::from(is_of_follower) {
            return false;
        }
        let has_subscribers = self.subscribers.load(Ordering::Relaxed) > 0;
        let is_kept = self.limit.kept > 0;
        // Of a kept commit, a later session reads what it changed.
        let has_sessions = is_kept || records.sessions.len() > usize::from(is_of_follower);
        let edits = has_sessions.then(|| Change::sequence_edits(&result.changes));
        let commit = || {
            Arc::new(TransactionResult {
                version,
                ..result.clone()
            })
        };
        self.head.store(version, Ordering::Relaxed);
        _removed = records.push(CommitRecord {
            edits: CommitEdits {
                version,
                edits: edits.unwrap_or_default(),
                undone: publication.undone.as_slice().into(),
            },
            owner: result.owner.clone(),
            in_history: publication.in_history,
            origin,
            // Only kept commits lead to the history of a later session.
            unit: publication.unit.filter(|_| is_kept).cloned(),
            reversed: publication.reversal.entry.clone(),
            commit: (is_kept || has_subscribers).then(commit),
        });
        self.note_size(records);
        // The announcement of an undo follows its provenance, and that for filters its reach.
        let reverses = publication.reversal.newest.is_some();
        let is_later = reverses || self.filters.load(Ordering::Relaxed) > 0;
        if has_subscribers && !is_later {
            self.announce_in(log, version, None);
        }
        has_subscribers && is_later
    }

    /// Whether a commit has to be recorded. With the published state locked, no follower comes.
    pub(super) fn is_followed(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// Whether commits stay when all have read them.
    pub(super) fn keeps_commits(&self) -> bool {
        self.limit.kept > 0
    }

    /// Takes the commits that wait to be recorded, and leaves this empty queue in their place.
    /// `latest` gets the document.
    pub(super) fn take_unrecorded(
        &self,
        room: VecDeque<UnrecordedCommit>,
        latest: impl FnOnce() -> Snapshot,
    ) -> Option<TakenCommits> {
        let mut log = self.records.lock();
        self.has_many_unrecorded.store(false, Ordering::Relaxed);
        // No commit is published while the log is locked.
        log.as_mut()?.unrecorded.take(room, latest)
    }

    /// Takes the commits that wait to be recorded, with the document that they lead to, and its
    /// kept commits. Those of an owner become the session's own, if the session that made them does
    /// not exist any more.
    pub(super) fn take_kept(
        &self,
        id: FollowerId,
        owner: &OwnerId,
        room: VecDeque<UnrecordedCommit>,
        latest: impl FnOnce() -> Snapshot,
    ) -> (Vec<CommitRecord>, Snapshot, Option<TakenCommits>) {
        let mut log = self.records.lock();
        self.has_many_unrecorded.store(false, Ordering::Relaxed);
        let document = latest();
        let Some(records) = &mut *log else {
            return (Vec::new(), document, None);
        };
        let taken = records.unrecorded.take(room, || document.clone());
        // What follows has to stay, because the record of the kept commits is made meanwhile.
        let since = records.unrecorded.since.unwrap_or(document.version());
        records.unrecorded.go_on_after(since);
        let kept = records.take_over(id, owner, document.version());
        (kept, document, taken)
    }

    /// Whether the newest unit in effect is this one, and all of its commits wait to be recorded.
    /// Or, if it is to come into effect again, whether it was undone last.
    pub(super) fn waits_as_newest(&self, unit: &Arc<EditUnit>, in_effect: bool) -> bool {
        let log = self.records.lock();
        log.as_ref()
            .is_some_and(|it| it.unrecorded.has_newest(unit, in_effect))
    }

    /// What an undo or a redo of the newest unit changes in the document, if all of its commits
    /// wait to be recorded.
    pub(super) fn changes_of_newest(
        &self,
        unit: &Arc<EditUnit>,
        in_effect: bool,
    ) -> Option<Vec<Change>> {
        let log = self.records.lock();
        log.as_ref()?.unrecorded.changes_of_newest(unit, in_effect)
    }

    /// Notes what is undone together with kept commits, which were recorded by other means.
    pub(super) fn set_units(&self, units: &UnitsByVersion, recorded: &RecordedProvenance) {
        let mut log = self.records.lock();
        let Some(records) = &mut *log else {
            return;
        };
        records.unrecorded.go_on_after(recorded.since);
        let kept = records.kept_mut();
        for record in kept.take_while(|record| record.edits.version <= recorded.version) {
            record.unit = units.get(&record.edits.version).cloned();
        }
    }

    /// Notes whether there may be too many records.
    fn note_size(&self, records: &CommitRecords) {
        if records.bytes() > records.overfull_from {
            self.overfull.store(true, Ordering::Relaxed);
        }
    }

    /// Begins to record commits for one more follower, a subscriber if it has a filter. Returns its
    /// cursor too. Both mutexes are locked meanwhile, so a commit either sees the follower or is
    /// before its cursor.
    fn begin_following<'a>(
        &self,
        records: &'a mut Option<Box<CommitRecords>>,
        document: &SharedDocument,
        filter: Option<&Filter>,
    ) -> (&'a mut CommitRecords, u64) {
        let published = document.published.lock();
        for count in self.counts(filter) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let cursor = published.version();
        drop(published);
        let records = records.get_or_insert_with(|| {
            let mut records = Box::<CommitRecords>::default();
            self.note_overfull_from(&mut records);
            records
        });
        (records, cursor)
    }

    /// Ends what [`begin_following`](Self::begin_following) began, after the follower was removed.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn end_following(
        &self,
        records: &mut Option<Box<CommitRecords>>,
        filter: Option<&Filter>,
    ) -> Option<Box<CommitRecords>> {
        for count in self.counts(filter) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        let unneeded = records.take_if(|records| {
            let CommitRecords {
                sessions,
                subscribers,
                ..
            } = &**records;
            let is_followed = !sessions.is_empty() || !subscribers.is_empty();
            // Later subscribers have to know of the end.
            !is_followed && self.limit.kept == 0 && subscribers.last.is_none()
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

    /// Lets subscribers read a commit, and wakes the threads that wait for it. Its tasks are woken
    /// [after the release](DataStore::after_release): a waker is code of users.
    fn announce_in(&self, mut log: LockedLog<'_>, version: u64, reach: Option<&Reach>) {
        let Some(records) = &mut *log else {
            return;
        };
        let is_for_journal = records.subscribers.announce_to_journal(version);
        let mut woken = match is_for_journal {
            true => SmallVec::new(),
            false => records.announce(version, reach),
        };
        let take_tasks = |it: &mut SubscriberWake| records.to_wake.append(&mut it.tasks);
        woken.iter_mut().for_each(take_tasks);
        let has_tasks = !records.to_wake.is_empty();
        self.has_to_wake.store(has_tasks, Ordering::Relaxed);
        let change = match records.subscribers.has_ended() {
            true => self.open_if_read(records),
            false => self.close_if_behind(records),
        };
        self.unlock_and(log, change);
        woken.into_iter().for_each(SubscriberWake::notify);
    }

    /// Wakes the tasks to which commits were announced.
    #[cold]
    fn wake_tasks(&self) {
        let mut log = self.records.lock();
        self.has_to_wake.store(false, Ordering::Relaxed);
        let records = log.as_mut();
        let tasks = records.map(|records| std::mem::take(&mut records.to_wake));
        drop(log);
        for (_, task) in tasks.into_iter().flatten() {
            wake(task);
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
        let change = log.as_mut().and_then(|records| self.open_if_read(records));
        let unneeded = self.end_following(&mut log, Some(&filter));
        self.unlock_and(log, change);
        drop(filter);
        // With the wakers of tasks.
        dispose((channel, unneeded));
    }

    /// Sets how a new subscriber reads. Requests wait while a lossless one has too much to read.
    fn read_with(
        &self,
        records: &mut CommitRecords,
        id: SubscriberId,
        options: SubscriptionOptions,
    ) -> Option<LockChange> {
        if options.is_durable {
            records.subscribers.read_durable(id);
        }
        let limit = options.lossless_limit?;
        records.subscribers.read_losslessly(id, limit);
        records.behind_from = 0;
        self.close_if_behind(records)
    }

    /// Lets a task wait until there may be a commit for the subscriber.
    pub(super) fn wait_in_task(&self, id: SubscriberId, wait: &mut Option<EventWait>, task: Waker) {
        let mut log = self.records.lock();
        let unneeded = match &mut *log {
            Some(records) => records.subscribers.wait_in_task(id, wait, task),
            None => Some(task),
        };
        drop(log);
        dispose(unneeded);
    }

    /// Ends the wait of a task that is gone.
    pub(super) fn forget_task(&self, id: SubscriberId, wait: EventWait) {
        let mut log = self.records.lock();
        let unneeded = log.as_mut().map(|records| {
            let announced = records.to_wake.iter().position(|(it, _)| *it == wait);
            let announced = announced.map(|at| records.to_wake.swap_remove(at).1);
            (announced, records.subscribers.forget_task(id, wait))
        });
        drop(log);
        dispose(unneeded);
    }

    /// The next commit for a subscriber.
    pub(super) fn next(&self, id: SubscriberId) -> Result<CommitEvent, TryRecvError> {
        loop {
            let mut log = self.records.lock();
            let Some(records) = &mut *log else {
                return Err(TryRecvError::Disconnected);
            };
            let next = records.next(id);
            let change = self.open_if_read(records);
            self.unlock_and(log, change);
            match next {
                NextEvent::Event(event) => return Ok(event),
                NextEvent::Nothing => return Err(TryRecvError::Empty),
                NextEvent::End => return Err(TryRecvError::Disconnected),
                // Others lock the log in between, however many commits the filter excludes.
                NextEvent::Further => {}
            }
        }
    }
}

impl DataStore {
    /// Begins to follow the document. Returns the id, and the version from which on it follows.
    pub(crate) fn follow(&self, owner: &OwnerId) -> (FollowerId, Snapshot) {
        let log = &self.0.log;
        let mut locked = log.records.lock();
        let (records, cursor) = log.begin_following(&mut locked, &self.0.document, None);
        // From now on, a commit would lock the log.
        let document = self.snapshot();
        debug_assert_eq!(document.version(), cursor);
        let owner = owner.clone();
        // The history of an earlier session may be restored.
        if records.unrecorded.since.is_none() && log.keeps_commits() {
            records.unrecorded = UnrecordedQueue::beginning_after(cursor);
        }
        let id = records.sessions.insert(FollowingSession { cursor, owner });
        (id, document)
    }

    /// Ends what [`follow`](Self::follow) began.
    pub(crate) fn stop_following(&self, id: FollowerId) {
        let log = &self.0.log;
        let mut records = log.records.lock();
        let session = records
            .as_mut()
            .and_then(|records| records.sessions.remove(id));
        let mut queue = None;
        if let Some(records) = &mut *records
            && records.sessions.is_empty()
            && !log.keeps_commits()
        {
            queue = Some(std::mem::take(&mut records.unrecorded));
        }
        let was_overfull = log.overfull.load(Ordering::Relaxed);
        let unneeded = log.end_following(&mut records, None);
        let head = log.head.load(Ordering::Relaxed);
        let is_near = |it: &FollowingSession| head - it.cursor.min(head) <= READ_APART as u64;
        if session.as_ref().is_some_and(is_near) {
            // It held back little. A batch of an editor on nodes begins and ends to follow.
            log.overfull.store(was_overfull, Ordering::Relaxed);
        }
        drop(records);
        drop((session, queue));
        // With the wakers of tasks.
        dispose(unneeded);
    }

    /// Reads the commits after a cursor, and moves the cursor of the session to the latest version,
    /// which is returned too.
    pub(crate) fn later_commits(&self, id: FollowerId, cursor: u64) -> (Snapshot, LaterCommits) {
        let mut log = self.0.log.records.lock();
        let snapshot = self.snapshot();
        let mut later = LaterCommits::default();
        if let Some(records) = &mut *log
            && let Some(session) = records.sessions.get_mut(id)
        {
            // Right after a commit of the session, before it has taken note, the log is ahead.
            let kept = std::mem::replace(&mut session.cursor, snapshot.version());
            let cursor = cursor.max(kept);
            later = records.later(cursor, id);
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
        let changes_it = |edit: &SequenceEdit| edit.changes(node);
        let found = by_others.find(|record| record.edits.edits.iter().any(changes_it))?;
        Some((found.owner.clone(), found.edits.version))
    }

    /// Wakes the tasks that wait for the commits, removes the oldest records of the log if they are
    /// over its limit, and records the provenance of many commits. That takes time and runs code of
    /// users, so the caller has released the lock, unless it is held by a guard or by id.
    #[inline]
    pub(crate) fn after_release(&self) {
        self.wake_tasks();
        let log = &self.0.log;
        if log.overfull.load(Ordering::Relaxed) {
            log.trim(usize::MAX);
        }
        if log.has_many_unrecorded.load(Ordering::Relaxed) {
            self.record_commits();
        }
    }

    /// Wakes the tasks that wait for commits. Also called before work that may take long, or may
    /// wait for such a task: then the lock is held.
    pub(crate) fn wake_tasks(&self) {
        if self.0.log.has_to_wake.load(Ordering::Relaxed) {
            self.0.log.wake_tasks();
        }
    }

    /// What the keeper does after it has run work of a task. It keeps no store, whose last handle
    /// waits for the journal when it is dropped. So the provenance of many commits is recorded by
    /// the next thread that releases the lock, or task that is polled after its batch.
    #[cold]
    pub(crate) fn after_keeper(&self) -> LeftWork {
        let log = Arc::clone(&self.0.log.0);
        Box::new(move |thread| {
            log.wake_tasks();
            if log.overfull.load(Ordering::Relaxed) {
                thread.hand_over();
                log.trim(usize::MAX);
            }
            dispose(log);
        })
    }

    /// Whether a session with this cursor has many commits to read.
    #[inline]
    pub(crate) fn is_far_behind(&self, cursor: u64) -> bool {
        self.0.log.head.load(Ordering::Relaxed) > cursor.saturating_add(READ_APART as u64)
    }

    /// Merges all but the latest commits into stretches, for all sessions. Called without the lock.
    pub(crate) fn merge_older_commits(&self) {
        self.0.log.trim(READ_APART);
    }

    /// Runs code while no commit can be published, and no lease or inbox changes.
    pub(super) fn without_changes(&self, code: impl FnOnce()) {
        let _bookkeeping = self.0.bookkeeping.lock();
        let _log = self.0.log.records.lock();
        let _published = self.0.document.published.lock();
        code();
    }

    /// Wakes the threads of subscribers that wait for this commit; their tasks are woken [after the
    /// release](Self::after_release). The caller excludes other commits meanwhile.
    ///
    /// The reach is computed without the log locked. The document is dropped before this returns:
    /// otherwise the next commit would have to copy what it changes.
    pub(super) fn announce(&self, commit: &TransactionResult) {
        let log = &self.0.log;
        let has_filters = log.filters.load(Ordering::Relaxed) > 0;
        let reach = has_filters.then(|| Reach::new(&commit.changes, &self.snapshot()));
        log.announce_in(log.records.lock(), commit.version, reach.as_ref());
    }

    /// Begins a subscription to later commits.
    pub(super) fn subscribe_with(
        &self,
        filter: Filter,
        options: SubscriptionOptions,
        call_site: &'static Location<'static>,
    ) -> (Arc<CommitLog>, SubscriberId, Receiver<()>) {
        let log = &self.0.log;
        let mut locked = log.records.lock();
        let (records, cursor) = log.begin_following(&mut locked, &self.0.document, Some(&filter));
        let (id, ready) = records.subscribers.add(filter, cursor, Some(call_site));
        let change = log.read_with(records, id, options);
        log.unlock_and(locked, change);
        (Arc::clone(&log.0), id, ready)
    }

    /// Begins a subscription to the commits after a version.
    pub(super) fn subscribe_after(
        &self,
        version: u64,
        options: SubscriptionOptions,
        call_site: &'static Location<'static>,
    ) -> Result<(Arc<CommitLog>, SubscriberId, Receiver<()>), MissingCommits> {
        let log = &self.0.log;
        let filter = Filter::All;
        let mut locked = log.records.lock();
        let (records, latest) = log.begin_following(&mut locked, &self.0.document, Some(&filter));
        if let Err(missing) = records.check_commits_since(version, latest) {
            let unneeded = log.end_following(&mut locked, Some(&filter));
            drop(locked);
            drop(unneeded);
            return Err(missing);
        }
        let subscribers = &mut records.subscribers;
        let (id, ready) = subscribers.add(filter, latest, Some(call_site));
        if version < latest {
            subscribers.begin_after(id, version);
        }
        let change = log.read_with(records, id, options);
        log.unlock_and(locked, change);
        Ok((Arc::clone(&log.0), id, ready))
    }

    /// How many commits the slowest subscriber has not read yet.
    #[cfg(feature = "metrics")]
    pub(super) fn subscriber_lag(&self) -> u64 {
        let log = self.0.log.records.lock();
        let version = self.version();
        log.as_ref()
            .map_or(0, |records| records.subscribers.lag(version))
    }

    /// See [`commits_since`](Self::commits_since).
    pub(super) fn recorded_since(
        &self,
        version: u64,
    ) -> Result<Vec<Arc<TransactionResult>>, MissingCommits> {
        let log = self.0.log.records.lock();
        let latest = self.version();
        match log.as_ref() {
            Some(records) => records.commits_since(version, latest),
            None => CommitRecords::default().commits_since(version, latest),
        }
    }

    /// The commits after a version up to another one, in order, each with what it undid.
    pub(super) fn undoing_since(
        &self,
        version: u64,
        to: u64,
    ) -> Result<Vec<UndoingCommit>, MissingCommits> {
        let log = self.0.log.records.lock();
        let none = CommitRecords::default();
        let (records, latest) = (log.as_deref().unwrap_or(&none), self.version());
        if to > latest {
            let version = to;
            return Err(MissingCommits::NotReached { version, latest });
        }
        records.check_commits_since(version, latest)?;
        let since = records.recent.len() - (latest - version) as usize;
        let newest = records.recent.range(since..).map(|entry| &entry.record);
        let until = newest.take_while(|record| record.edits.version <= to);
        let until: Vec<CommitRecord> = until.cloned().collect();
        // Other commits need not wait for what follows.
        drop(log);
        Ok(undoing(until))
    }
}

/// These commits, each with the versions of the earlier ones that it undid.
fn undoing(records: Vec<CommitRecord>) -> Vec<UndoingCommit> {
    let mut of_units: HashMap<*const EditUnit, Vec<u64>, Secret> = HashMap::default();
    let undoing = |record: &CommitRecord| {
        step();
        // Others than these name the version 0 if their code has an inverse.
        let is_redo = record.is_redo();
        let mut undone = is_redo.map_or(Vec::new(), |_| record.edits.undone.to_vec());
        for unit in record.reversed.iter().flat_map(|entry| entry.all_units()) {
            match of_units.get(&Arc::as_ptr(unit)) {
                Some(versions) => undone.extend(versions.iter().inspect(|_| step())),
                // An earlier one, of which the first is enough.
                None => undone.push(unit.number()),
            }
        }
        if let Some(unit) = &record.unit {
            let versions = of_units.entry(Arc::as_ptr(unit)).or_default();
            versions.push(record.edits.version);
        }
        Some((record.commit.clone()?, undone, is_redo == Some(true)))
    };
    // The records keep the units, so no two of these have one address.
    records.iter().filter_map(undoing).collect()
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/unit/log.rs"]
mod tests;
