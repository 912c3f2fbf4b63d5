//! Reads the state of the log: followers and what they have not read yet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::records::CommitRecords;
use crate::store::DataStore;
use crate::store::diagnostics::{LogDiagnostics, SessionDiagnostics, SubscriberDiagnostics};
use crate::store::lease::table::LeaseTable;

/// Keeps the followers that are furthest behind, in constant memory. Of subscribers, those come
/// first that keep the lock closed.
struct Furthest<L: Ord, T: Ord>(BinaryHeap<Reverse<(L, T)>>);

impl<L: Ord, T: Ord> Furthest<L, T> {
    fn new() -> Self {
        Self(BinaryHeap::with_capacity(LogDiagnostics::LISTED + 1))
    }

    fn add(&mut self, lag: L, follower: T) {
        let Self(heap) = self;
        let is_full = heap.len() == LogDiagnostics::LISTED;
        if is_full && heap.peek().is_some_and(|Reverse((least, _))| *least >= lag) {
            return;
        }
        heap.push(Reverse((lag, follower)));
        if is_full {
            heap.pop();
        }
    }

    /// The furthest first.
    fn into_sorted(self) -> impl Iterator<Item = (L, T)> {
        let sorted = self.0.into_sorted_vec();
        sorted.into_iter().map(|Reverse(entry)| entry)
    }
}

impl CommitRecords {
    fn diagnostics(&self) -> LogDiagnostics {
        LogDiagnostics {
            commits: self.recent.len(),
            bytes: self.bytes(),
            lock_closed: self.closed_by.is_some(),
            subscribers: self.lagging_subscribers(),
            subscriber_count: self.subscribers.count(),
            sessions: self.lagging_sessions(),
            session_count: self.sessions.len(),
        }
    }

    fn lagging_sessions(&self) -> Vec<SessionDiagnostics> {
        let mut furthest = Furthest::new();
        for (id, session) in &self.sessions {
            furthest.add(self.unread_commits(session.cursor), id);
        }
        let sessions = furthest.into_sorted().filter_map(|(unread_commits, id)| {
            Some(SessionDiagnostics {
                owner_id: self.sessions.get(id)?.owner.clone(),
                unread_commits,
            })
        });
        sessions.collect()
    }

    fn lagging_subscribers(&self) -> Vec<SubscriberDiagnostics> {
        let mut furthest = Furthest::new();
        let keeps_closed: Vec<_> = match self.closed_by {
            Some(closer) => {
                let beyond = self.behind(|limit| limit).map(|(id, _)| id);
                beyond.chain([closer]).collect()
            }
            None => Vec::new(),
        };
        self.subscribers
            .each_lag(|id, lag| furthest.add((keeps_closed.contains(&id), lag), id));
        let unread_bytes = |cursor| self.unread_bytes(cursor);
        let subscribers = furthest.into_sorted().filter_map(|((closes, lag), id)| {
            let described = self.subscribers.describe(id, lag, unread_bytes)?;
            Some(SubscriberDiagnostics {
                closes_lock: closes,
                ..described
            })
        });
        subscribers.collect()
    }
}

impl DataStore {
    /// Reads the log, and the version and the leases that are published at the same moment.
    pub(in crate::store) fn read_log(&self) -> (LogDiagnostics, u64, LeaseTable) {
        let log = self.0.log.records.lock();
        let published = self.0.document.published.lock();
        let (version, leases) = (published.version(), published.leases.clone());
        drop(published);
        let diagnostics = log.as_ref().map(|records| records.diagnostics());
        (diagnostics.unwrap_or_default(), version, leases)
    }
}
