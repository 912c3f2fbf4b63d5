//! While a lossless subscriber has too much to read, or the journal too much to write, the lock of
//! the store is closed: requests wait in its queue.
//!
//! The log decides under its mutex that the lock is closed or opened, and numbers its decisions.
//! They are carried out when the mutex is free again, because a lock that is opened wakes threads
//! and tasks.

use std::panic::Location;
use std::sync::atomic::Ordering;

use super::records::CommitRecords;
use super::subscribers::SubscriberId;
use super::{CommitLog, LockedLog};
use crate::id::OwnerId;

/// The owner that closes the lock for a subscriber.
const SUBSCRIBER: &str = "lossless subscriber";

/// The owner that closes the lock for the journal.
pub(in crate::store) const DISK: &str = "disk";

/// The decision to close the lock, or to open it.
#[must_use = "the lock must be closed or opened"]
pub(super) struct LockChange {
    number: u64,
    closed_by: Option<Closer>,
}

/// Where the subscriber was made that closes the lock. `None` for the journal.
type Closer = Option<&'static Location<'static>>;

impl CommitRecords {
    /// Whether none of them can be behind, because too little was appended.
    fn are_all_near(&self) -> bool {
        self.appended <= self.behind_from
    }

    /// Notes from when on one of them may be behind.
    fn note_behind_from(&mut self) {
        let all = self.subscribers.limits();
        // One that waits has read everything that concerns it.
        let left = all.map(|(_, at, limit)| limit - at.map_or(0, |it| self.unread_bytes(it)));
        let least = left.min().unwrap_or(usize::MAX);
        self.behind_from = self.appended.saturating_add(least as u64);
    }

    /// Returns the lossless subscriber that has the most to read beyond a part of its limit, or the
    /// journal.
    fn furthest_behind(&self, part: impl Fn(usize) -> usize) -> Option<SubscriberId> {
        let behind = self.behind(part);
        behind.max_by_key(|(_, beyond)| *beyond).map(|(id, _)| id)
    }

    /// Returns the lossless subscribers, and the journal, that have more to read than a part of
    /// their limit, each with how much more.
    pub(super) fn behind(
        &self,
        part: impl Fn(usize) -> usize,
    ) -> impl Iterator<Item = (SubscriberId, usize)> {
        let all = self.subscribers.limits();
        all.filter_map(move |(id, cursor, limit)| {
            let (unread, part) = (self.unread_bytes(cursor?), part(limit));
            (unread > part).then(|| (id, unread - part))
        })
    }
}

impl CommitLog {
    /// Closes the lock if a lossless subscriber has more to read than its limit, or the journal
    /// more to write. Each commit that is announced calls it.
    pub(super) fn close_if_behind(&self, records: &mut CommitRecords) -> Option<LockChange> {
        if records.closed_by.is_some() || records.are_all_near() {
            return None;
        }
        let behind = records.furthest_behind(|limit| limit);
        if behind.is_none() {
            records.note_behind_from();
        }
        behind.map(|behind| self.set_closed(records, Some(behind)))
    }

    /// Opens the lock if the one that closed it has read enough, unless another one is beyond its
    /// limit. Half of a limit is between closing and opening, so that not every commit waits until
    /// its predecessor is read.
    pub(super) fn open_if_read(&self, records: &mut CommitRecords) -> Option<LockChange> {
        let closer = records.closed_by?;
        let half = |limit| limit / 2;
        if records.behind(half).any(|(id, _)| id == closer) {
            return None;
        }
        let behind = records.furthest_behind(|limit| limit);
        if behind.is_none() {
            records.note_behind_from();
        }
        Some(self.set_closed(records, behind))
    }

    fn set_closed(&self, records: &mut CommitRecords, by: Option<SubscriberId>) -> LockChange {
        records.closed_by = by;
        // The log is locked.
        let number = self.closings.fetch_add(1, Ordering::Relaxed) + 1;
        let closed_by = by.map(|by| records.subscribers.call_site(by));
        LockChange { number, closed_by }
    }

    /// Releases the mutex of the log, and closes or opens the lock as the log has decided.
    #[inline]
    pub(super) fn unlock_and(&self, log: LockedLog<'_>, change: Option<LockChange>) {
        drop(log);
        if let Some(change) = change {
            self.carry_out(change);
        }
    }

    #[cold]
    fn carry_out(&self, LockChange { number, closed_by }: LockChange) {
        let closer = closed_by.map(|subscriber| match subscriber {
            Some(call_site) => (OwnerId::from(SUBSCRIBER), call_site),
            None => (OwnerId::from(DISK), Location::caller()),
        });
        let closer = closer
            .as_ref()
            .map(|(owner, call_site)| (owner, *call_site));
        if let Some(lock) = self.lock.upgrade() {
            lock.set_closed(number, closer);
        }
    }
}
