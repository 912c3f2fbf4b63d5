//! The records of the log, for cursors in them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use slotmap::SlotMap;
use smallvec::SmallVec;

use super::subscribers::{EventWait, NextEvent, SubscriberId, SubscriberWake, Subscribers, Topic};
use super::unrecorded::UnrecordedQueue;
use super::{CommitRecord, FollowerId, HistoryStep, LaterCommits};
use crate::document::{Reach, Stretch};
use crate::id::OwnerId;
use crate::store::TransactionResult;
use crate::store::events::MissingCommits;

/// How many records there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimit {
    /// The bytes that stay, whether they are needed or not.
    pub(super) kept: usize,
    /// The bytes beyond these.
    pub(super) more: usize,
}

/// How many bytes stay for sessions alone. They need only the edits of older records, and more
/// would not fit into the caches of a processor.
const FOR_SESSIONS: usize = 256 << 10;

/// With more commits to be freed, a commit frees two.
const MANY_UNNEEDED: usize = 1024;

impl LogLimit {
    /// From more bytes on, records are removed.
    pub(super) fn most(self) -> usize {
        self.kept.saturating_add(self.more)
    }

    /// How many bytes are left then.
    fn rest(self) -> usize {
        self.kept.saturating_add(self.more / 2)
    }
}

/// An editor session that follows the document.
#[derive(Debug)]
pub(super) struct FollowingSession {
    pub(super) cursor: u64,
    pub(super) owner: OwnerId,
}

#[derive(Debug, Default)]
pub(in crate::store) struct CommitRecords {
    /// The cursors of the sessions. That of the only follower is too low if its own commits are not
    /// in the log. Nothing after the true one was removed or merged with what is before it.
    pub(super) sessions: SlotMap<FollowerId, FollowingSession>,
    pub(super) subscribers: Subscribers,
    /// The older commits, for sessions.
    pub(super) stretches: VecDeque<Arc<Stretch>>,
    /// The newer commits, of consecutive versions. The first of them may be in a stretch already.
    pub(super) recent: VecDeque<LogEntry>,
    /// The version before the first one since which none is missing. Cursors of sessions may be
    /// before it.
    begins_after: u64,
    /// The size of all commits that were ever appended.
    pub(super) appended: u64,
    /// The size of those that were removed.
    removed: u64,
    /// From how many bytes on it may help to remove some.
    pub(super) overfull_from: usize,
    /// From so many bytes of `appended` on, a lossless subscriber may be too far behind.
    pub(super) behind_from: u64,
    /// What the journal has not read yet. `None` without a journal.
    pub(super) unwritten: Option<UnwrittenCommits>,
    /// Commits that were removed beside a journal, and are to be freed.
    pub(super) unneeded: Vec<Arc<TransactionResult>>,
    /// The tasks that are to be woken: commits were announced to them.
    pub(super) to_wake: Vec<(EventWait, Waker)>,
    /// Commits whose provenance is not recorded yet.
    pub(super) unrecorded: UnrecordedQueue,
    /// Whether the store is gone.
    pub(super) has_ended: bool,
    /// Who keeps the lock closed.
    pub(super) closed_by: Option<SubscriberId>,
}

/// The commits that a journal has to write, and which of them are in histories.
#[derive(Debug, Default)]
pub(in crate::store) struct UnwrittenCommits {
    pub(in crate::store) commits: Vec<Arc<TransactionResult>>,
    pub(in crate::store) steps: Vec<HistoryStep>,
}

#[derive(Debug)]
pub(super) struct LogEntry {
    /// The size of all commits up to this one.
    appended: u64,
    pub(super) record: CommitRecord,
    /// The topics that it belongs to. Known when the commit is announced.
    topics: Box<[Topic]>,
}

impl LogEntry {
    pub(super) fn version(&self) -> u64 {
        self.record.edits.version
    }

    /// The commit, if it belongs to the topic.
    pub(super) fn commit_for(&self, topic: Topic) -> Option<&Arc<TransactionResult>> {
        let belongs = topic == Topic::ALL || self.topics.contains(&topic);
        self.record.commit.as_ref().filter(|_| belongs)
    }
}

impl CommitRecords {
    /// Removes everything, to be dropped with no mutex locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn clear(&mut self) -> impl Sized + use<> {
        self.removed = self.appended;
        let recent = std::mem::take(&mut self.recent);
        (recent, std::mem::take(&mut self.stretches))
    }

    /// The size of the recent commits.
    pub(super) fn bytes(&self) -> usize {
        self.bytes_after(self.removed)
    }

    /// The size of the commits after some.
    fn bytes_after(&self, appended: u64) -> usize {
        (self.appended - appended) as usize
    }

    /// How many of the oldest commits can go while so many bytes remain.
    fn beyond(&self, bytes: usize) -> usize {
        self.recent
            .partition_point(|entry| self.bytes_after(entry.appended) >= bytes)
    }

    /// The last version of the stretches, or zero.
    fn merged(&self) -> u64 {
        self.stretches.back().map_or(0, |stretch| stretch.last)
    }

    /// The last version that it has.
    fn last(&self) -> Option<u64> {
        let recent = self.recent.back().map(LogEntry::version);
        recent.or_else(|| self.stretches.back().map(|stretch| stretch.last))
    }

    /// How many of the recent commits are not after this version.
    fn recent_until(&self, version: u64) -> usize {
        let first = self.recent.front().map_or(0, LogEntry::version);
        let count = version.saturating_add(1).saturating_sub(first);
        count.min(self.recent.len() as u64) as usize
    }

    /// Appends a commit. Returns what is to be dropped with no mutex locked.
    #[inline(always)]
    #[must_use = "dropped under a mutex, it would hold up others"]
    pub(super) fn push(&mut self, record: CommitRecord) -> impl Sized + use<> {
        // A commit of the only follower is not recorded. No cursor is before it.
        let last = self.last();
        let continues = last.is_some_and(|last| last + 1 == record.edits.version);
        if !continues {
            self.begins_after = record.edits.version.saturating_sub(1);
        }
        let gap = last.is_some() && !continues;
        let unneeded = gap.then(|| self.clear());
        let session = record.origin.and_then(|id| self.sessions.get_mut(id));
        if let Some(session) = session {
            session.cursor = record.edits.version;
        }
        let are_many = self.unneeded.len() > MANY_UNNEEDED;
        let freed = [self.unneeded.pop(), self.unneeded.pop_if(|_| are_many)];
        if let (Some(unwritten), Some(commit)) = (&mut self.unwritten, &record.commit) {
            unwritten.commits.push(Arc::clone(commit));
            unwritten.steps.extend(record.step());
        }
        self.appended += record.bytes() as u64;
        self.recent.push_back(LogEntry {
            appended: self.appended,
            record,
            topics: Box::default(),
        });
        (unneeded, freed)
    }

    /// Appends a stored commit, and removes the oldest ones beyond so many bytes.
    pub(in crate::store) fn keep(&mut self, record: CommitRecord, bytes: usize) {
        drop(self.push(record));
        drop(self.remove(bytes, 0));
    }

    pub(super) fn kept_mut(&mut self) -> impl Iterator<Item = &mut CommitRecord> {
        self.recent.iter_mut().map(|entry| &mut entry.record)
    }

    /// The recent commits, in order.
    pub(in crate::store) fn commits(&self) -> impl Iterator<Item = &Arc<TransactionResult>> {
        let commits = self.recent.iter();
        commits.filter_map(|entry| entry.record.commit.as_ref())
    }

    /// Lets subscribers read a commit. Returns what wakes those that wait for it.
    pub(super) fn announce(
        &mut self,
        version: u64,
        reach: Option<&Reach>,
    ) -> SmallVec<[SubscriberWake; 1]> {
        let (topics, woken) = self.subscribers.announce(version, reach);
        // A commit before the first other follower is not recorded.
        let newest = self.recent.back_mut();
        if let Some(newest) = newest.filter(|newest| newest.version() == version) {
            newest.topics = topics.into();
        }
        woken
    }

    /// The commits after the cursor of a session, without the recent ones of its own.
    pub(super) fn later(&self, cursor: u64, by_other_than: FollowerId) -> LaterCommits {
        let read = self
            .stretches
            .partition_point(|stretch| stretch.last <= cursor);
        let stretches = self.stretches.range(read..);
        let read = self.recent_until(cursor.max(self.merged()));
        let records = self.recent.range(read..).map(|entry| &entry.record);
        let by_others = records.filter(|record| record.origin != Some(by_other_than));
        LaterCommits {
            stretches: stretches.map(Arc::clone).collect(),
            apart: by_others.map(|record| record.edits.clone()).collect(),
        }
    }

    fn cursors(&self) -> impl Iterator<Item = u64> {
        self.sessions.values().map(|session| session.cursor)
    }

    /// The version up to which all sessions have read.
    fn read_by_sessions(&self) -> u64 {
        self.cursors().min().unwrap_or(u64::MAX)
    }

    /// Removes the oldest records that no follower needs, and beyond these the ones up to version
    /// `through`, which subscribers miss. Returns what is to be dropped with no mutex locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    fn remove(&mut self, kept: usize, through: u64) -> impl Sized + use<> {
        let sessions = self.read_by_sessions();
        let unneeded = self
            .stretches
            .partition_point(|stretch| stretch.last <= sessions);
        let until = sessions.max(self.merged());
        let until = until.min(self.subscribers.read().max(through));
        let until = until.min(self.subscribers.needless());
        let stretches: Vec<_> = self.stretches.drain(..unneeded).collect();
        let mut count = self.recent_until(until);
        if !self.subscribers.is_empty() {
            // A subscriber that misses commits still gets the newest, and reads of the gap there.
            // The newest may not be announced yet.
            count = count.min(self.recent.len().saturating_sub(1));
        }
        let count = count.min(self.beyond(kept));
        let oldest = self.recent.range(..count);
        let removed = oldest.clone().next_back();
        self.removed = removed.map_or(self.removed, |entry| entry.appended);
        self.subscribers.miss(oldest);
        let oldest = self.recent.range_mut(..count);
        let commits = oldest.filter_map(|entry| entry.record.commit.take());
        let mut unneeded = Vec::new();
        match self.unwritten {
            Some(_) => self.unneeded.extend(commits),
            None => unneeded.extend(commits),
        }
        self.recent.drain(..count);
        (stretches, unneeded)
    }

    /// Removes what no follower needs. If the rest is over the limit, or more than `most_apart`
    /// records are left, removes the oldest ones too, and sessions get a stretch in their place.
    ///
    /// Returns what is to be dropped, and a stretch that is to be composed, with no mutex locked.
    pub(super) fn trim(
        &mut self,
        limit: LogLimit,
        most_apart: usize,
    ) -> (impl Sized + use<>, Option<Arc<Stretch>>) {
        let limit = self.applied(limit);
        let unneeded = self.remove(limit.kept, 0);
        let too_large = self.bytes() > limit.most();
        let read = self.recent_until(self.read_by_sessions().max(self.merged()));
        let is_too_long = self.recent.len() - read > most_apart;
        let mut count = match is_too_long {
            true => self.recent.len() - most_apart / 2,
            false => 0,
        };
        let mut through = 0;
        if too_large {
            let oldest = (self.beyond(limit.rest() + 1) + 1).min(self.recent.len());
            through = self
                .recent
                .range(..oldest)
                .last()
                .map_or(0, LogEntry::version);
            count = count.max(oldest);
        }
        let full = self.merge(read.min(count)..count);
        ((unneeded, self.remove(limit.kept, through)), full)
    }

    /// The limit for the followers that there are.
    pub(super) fn applied(&self, limit: LogLimit) -> LogLimit {
        let for_sessions = self.subscribers.is_empty() && limit.kept == 0;
        let most = if for_sessions {
            FOR_SESSIONS
        } else {
            usize::MAX
        };
        LogLimit {
            more: limit.more.min(most),
            ..limit
        }
    }

    /// Makes stretches of records. They do not reach over the cursor of a session. Returns the last
    /// one if it has become too long.
    fn merge(&mut self, range: Range<usize>) -> Option<Arc<Stretch>> {
        let entries = self.recent.range(range);
        let first = entries.clone().next()?.version();
        let last = entries.clone().next_back()?.version();
        let mut cursors: Vec<u64> = self.cursors().collect();
        cursors.retain(|cursor| (first - 1..last).contains(cursor));
        cursors.sort_unstable();
        cursors.dedup();
        let begins_at_cursor = cursors.first() == Some(&(first - 1));
        cursors.push(last);
        let mut commits = entries.map(|entry| &entry.record.edits).peekable();
        for end in cursors.into_iter().filter(|end| *end >= first) {
            let until = || commits.next_if(|commit| commit.version <= end);
            let stretch = Stretch::of_commits(std::iter::from_fn(until), end);
            let continues =
                !begins_at_cursor && self.stretches.back().is_some_and(|it| it.last + 1 == first);
            let before = self.stretches.back_mut().filter(|_| continues);
            let before = before.and_then(Arc::get_mut);
            match before.and_then(|before| before.is_open().then_some(before)) {
                Some(before) => before.append(&stretch),
                None => self.stretches.push_back(Arc::new(stretch)),
            }
        }
        self.stretches.back().filter(|it| it.is_full()).cloned()
    }

    /// The size of the recent commits after a cursor.
    pub(super) fn unread_bytes(&self, cursor: u64) -> usize {
        let mut read = self.recent.range(..self.recent_until(cursor));
        let last = read.next_back();
        self.bytes_after(last.map_or(self.removed, |entry| entry.appended))
    }

    /// The number of commits after a cursor that the log still has, apart or merged.
    pub(super) fn unread_commits(&self, cursor: u64) -> u64 {
        let last = self.last().unwrap_or(0);
        last.saturating_sub(cursor.max(self.begins_after))
    }

    /// The next commit for a subscriber.
    pub(super) fn next(&mut self, id: SubscriberId) -> NextEvent {
        let next = match self.subscribers.cursor(id) {
            Some(cursor) => {
                let unread = self.recent.range(self.recent_until(cursor)..);
                self.subscribers.read_next(id, unread)
            }
            None => NextEvent::Nothing,
        };
        match next {
            NextEvent::Nothing if self.has_ended || self.subscribers.has_ended() => NextEvent::End,
            next => next,
        }
    }

    /// All commits that a journal has not read. The last of them made the published version.
    pub(super) fn read_all(&mut self, id: SubscriberId, published: u64) -> UnwrittenCommits {
        self.subscribers.set_cursor(id, published);
        self.unwritten
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// The commits up to a version, in order, as far as they are kept. Those of an owner become the
    /// session's own, if the session that made them does not exist any more.
    pub(super) fn take_over(
        &mut self,
        id: FollowerId,
        owner: &OwnerId,
        version: u64,
    ) -> Vec<CommitRecord> {
        let until = self.recent_until(version);
        let records = self.recent.range_mut(..until).rev();
        let records = records.map(|entry| &mut entry.record);
        let kept = records.take_while(|record| record.commit.is_some());
        let mut kept: Vec<_> = kept
            .map(|record| {
                let origin = record.origin.filter(|it| self.sessions.contains_key(*it));
                if record.in_history && record.owner == *owner {
                    record.origin = origin.or(Some(id));
                }
                record.clone()
            })
            .collect();
        kept.reverse();
        // The last ones may not have been recorded.
        let is_whole = kept.last().is_some_and(|it| it.edits.version == version);
        if is_whole { kept } else { Vec::new() }
    }

    /// The commits after a version.
    pub(super) fn commits_since(
        &self,
        version: u64,
        latest: u64,
    ) -> Result<Vec<Arc<TransactionResult>>, MissingCommits> {
        self.check_commits_since(version, latest)?;
        let since = self.recent.len() - (latest - version) as usize;
        let commits = self.recent.range(since..);
        Ok(commits
            .filter_map(|entry| entry.record.commit.clone())
            .collect())
    }

    /// Checks that all commits after a version are there.
    pub(super) fn check_commits_since(
        &self,
        version: u64,
        latest: u64,
    ) -> Result<(), MissingCommits> {
        if version > latest {
            return Err(MissingCommits::NotReached { version, latest });
        }
        let recent = self.recent.iter().rev().take((latest - version) as usize);
        let kept = match self.last() == Some(latest) {
            true => recent
                .take_while(|entry| entry.record.commit.is_some())
                .count() as u64,
            // A session that is the only follower has its own commits not recorded.
            false => 0,
        };
        let earliest = latest - kept;
        match version < earliest {
            true => Err(MissingCommits::Removed {
                version,
                earliest,
                latest,
            }),
            false => Ok(()),
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../../tests/unit/log_records.rs"]
mod tests;
