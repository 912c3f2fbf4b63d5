//! The log, as the journal of a durable store begins and reads it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::records::{CommitRecords, UnwrittenCommits};
use super::subscribers::SubscriberWake;
use super::{CommitLog, SubscriberId};
use crate::document::Snapshot;
use crate::store::events::Filter;
use crate::store::{DataStore, SharedDocument};

/// Reads the log for a journal, as a lossless subscriber: all commits until a moment, with the
/// version that they made, announced or not.
pub(in crate::store) struct JournalReader {
    log: Arc<CommitLog>,
    document: Arc<SharedDocument>,
    id: SubscriberId,
}

impl JournalReader {
    /// All commits since the last call, and the document after them.
    pub(in crate::store) fn read(&self) -> (UnwrittenCommits, Snapshot) {
        let mut log = self.log.records.lock();
        let snapshot = self.document.published.lock().document.clone();
        let Some(records) = &mut *log else {
            return (UnwrittenCommits::default(), snapshot);
        };
        let unwritten = records.read_all(self.id, snapshot.version());
        let change = self.log.open_if_read(records);
        self.log.unlock_and(log, change);
        (unwritten, snapshot)
    }

    /// Lets subscribers read the commits that are durable now.
    pub(in crate::store) fn note_durable(&self, version: u64) {
        let mut log = self.log.records.lock();
        let wake = log
            .as_mut()
            .map(|records| records.subscribers.note_durable(version));
        drop(log);
        wake.into_iter().for_each(SubscriberWake::notify);
    }

    /// Frees what later commits would, when none may come for long.
    pub(in crate::store) fn free_unneeded(&self) {
        let mut log = self.log.records.lock();
        let unneeded = log.as_mut().map(|it| std::mem::take(&mut it.unneeded));
        drop(log);
        drop(unneeded);
    }

    /// The last version that was appended. Orders no other memory.
    pub(in crate::store) fn newest(&self) -> u64 {
        self.log.head.load(Ordering::Relaxed)
    }
}

impl Drop for JournalReader {
    fn drop(&mut self) {
        let mut log = self.log.records.lock();
        // The store refuses commits by now.
        let last = self.newest();
        let ended = log.as_mut().map(|it| {
            let unneeded = (it.unwritten.take(), std::mem::take(&mut it.unneeded));
            (it.subscribers.end_journal(last), unneeded)
        });
        drop(log);
        let (ended, unneeded) = ended.unzip();
        drop(unneeded);
        ended.into_iter().flatten().for_each(SubscriberWake::end);
        self.log.unsubscribe(self.id);
    }
}

impl DataStore {
    /// Begins with the commits of an earlier open, which end with the present version.
    pub(in crate::store) fn begin_log(&self, records: CommitRecords) {
        let log = &self.0.log;
        log.head.store(self.version(), Ordering::Relaxed);
        *log.records.lock() = Some(Box::new(records));
    }

    /// Begins to read commits for a journal, which may have so many bytes to write before requests
    /// wait.
    pub(in crate::store) fn read_for_journal(&self, limit: usize) -> JournalReader {
        let log = &self.0.log;
        let document = &self.0.document;
        let mut records = log.records.lock();
        let (records, cursor) = log.begin_following(&mut records, document, Some(&Filter::All));
        records.unwritten = Some(UnwrittenCommits::default());
        records.behind_from = 0;
        JournalReader {
            log: Arc::clone(&log.0),
            document: Arc::clone(document),
            id: records.subscribers.add_journal(cursor, limit),
        }
    }
}
