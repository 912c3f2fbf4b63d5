//! The records of the log, for cursors in them.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_channel::Sender;
use slotmap::SlotMap;

use super::stretches::{Composition, Stretch};
use super::subscribers::{Next, SubscriberId, Subscribers, Topic};
use super::{CommitRecord, FollowerId, LaterCommits};
use crate::document::Change;
use crate::store::TransactionResult;
use crate::store::admission::Door;
use crate::store::events::{MissingCommits, Reach};

/// How many records there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// The bytes that stay, whether they are needed or not.
    pub(super) kept: usize,
    /// The bytes beyond these.
    pub(super) more: usize,
}

impl Limit {
    /// From more bytes on, records are removed.
    pub(super) fn most(self) -> usize {
        self.kept.saturating_add(self.more)
    }

    /// How many bytes are left then.
    fn half(self) -> usize {
        self.kept.saturating_add(self.more / 2)
    }
}

#[derive(Debug, Default)]
pub(in crate::store) struct Records {
    /// The cursors of the sessions. That of the only follower is too low if its own commits are not
    /// in the log. Nothing after the true one was removed or composed with what is before it.
    pub(super) sessions: SlotMap<FollowerId, u64>,
    pub(super) subscribers: Subscribers,
    /// The older commits, composed.
    pub(super) stretches: VecDeque<Arc<Stretch>>,
    /// The newer commits, of consecutive versions. The first of them may be composed already.
    pub(super) recent: VecDeque<Entry>,
    /// Their size.
    pub(super) bytes: usize,
    /// The size of all commits that were ever appended.
    appended: u64,
    /// From how many bytes on it may help to remove some.
    pub(super) overfull_from: usize,
    /// Whether a thread composes some of them.
    pub(super) is_composing: bool,
    /// Whether the store is gone.
    pub(super) has_ended: bool,
    pub(super) door: Door,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// About how many bytes it takes.
    bytes: usize,
    /// The size of all commits up to this one.
    appended: u64,
    pub(super) record: Arc<CommitRecord>,
    /// The topics that it belongs to. Known when the commit is announced.
    topics: Vec<Topic>,
}

impl Entry {
    pub(super) fn version(&self) -> u64 {
        self.record.version
    }

    /// The commit, if it belongs to the topic.
    pub(super) fn commit_for(&self, topic: Topic) -> Option<&Arc<TransactionResult>> {
        let belongs = topic == Topic::ALL || self.topics.contains(&topic);
        self.record.commit.as_ref().filter(|_| belongs)
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
        self.stretches.back().map_or(0, |stretch| stretch.last)
    }

    /// The last version that it has.
    fn last(&self) -> Option<u64> {
        let recent = self.recent.back().map(Entry::version);
        recent.or_else(|| self.stretches.back().map(|stretch| stretch.last))
    }

    /// How many of the recent commits are not after this version.
    fn recent_until(&self, version: u64) -> usize {
        let first = self.recent.front().map_or(0, Entry::version);
        let count = version.saturating_add(1).saturating_sub(first);
        count.min(self.recent.len() as u64) as usize
    }

    /// Appends a commit. Returns what is to be dropped with no mutex locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    pub(super) fn push(&mut self, record: CommitRecord) -> impl Sized + use<> {
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
    pub(super) fn announce(
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

    pub(super) fn later(&self, cursor: u64) -> LaterCommits {
        let read = self
            .stretches
            .partition_point(|stretch| stretch.last <= cursor);
        let stretches = self.stretches.range(read..);
        let read = self.recent_until(cursor.max(self.composed()));
        let records = self.recent.range(read..);
        LaterCommits {
            stretches: stretches.map(Arc::clone).collect(),
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
    fn trim(&mut self, kept: usize, through: u64) -> impl Sized + use<> {
        let sessions = self.read_by_sessions();
        let unneeded = self
            .stretches
            .partition_point(|stretch| stretch.last <= sessions);
        let until = sessions.max(self.composed());
        let until = until.min(self.subscribers.read().max(through));
        let until = until.min(self.subscribers.read_by_lossless());
        let stretches: Vec<_> = self.stretches.drain(..unneeded).collect();
        let mut count = self.recent_until(until);
        if !self.subscribers.is_empty() {
            // A subscriber that misses commits still gets the newest, and reads of the gap there.
            // The newest may not be announced yet.
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
    pub(super) fn begin_composing(
        &mut self,
        limit: Limit,
        most_apart: usize,
    ) -> (impl Sized + use<>, Option<Composition>) {
        let unneeded = self.trim(limit.kept, 0);
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
    pub(super) fn end_composing(
        &mut self,
        limit: Limit,
        composition: &Composition,
        stretches: VecDeque<Arc<Stretch>>,
    ) -> impl Sized + use<> {
        self.is_composing = false;
        let mut replaced = stretches;
        // The records are gone if the log was cleared meanwhile.
        if let Some(oldest) = composition.records.first()
            && self.recent_until(oldest.version) > 0
        {
            std::mem::swap(&mut self.stretches, &mut replaced);
        }
        (replaced, self.trim(limit.kept, composition.removed_through))
    }

    /// Whether a lossless subscriber has more to read than a part of its limit.
    pub(super) fn is_behind(&self, part: impl Fn(usize) -> usize) -> bool {
        let unread = |cursor| {
            let next = self.recent.get(self.recent_until(cursor));
            next.map_or(0, |next| self.appended - next.appended + next.bytes as u64)
        };
        let mut lossless = self.subscribers.lossless();
        lossless.any(|(cursor, limit)| unread(cursor) > part(limit) as u64)
    }

    /// The next commit for a subscriber.
    pub(super) fn next(&mut self, id: SubscriberId) -> Next {
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
    pub(super) fn commits_since(
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
