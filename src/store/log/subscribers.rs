//! The subscribers of a store, as the log has them.

use std::collections::HashMap;
use std::iter;
use std::panic::Location;
use std::sync::Arc;
use std::task::Waker;

use crossbeam_channel::{Receiver, Sender};
use slotmap::SlotMap;
use smallvec::SmallVec;

use super::records::LogEntry;
use crate::caught::wake;
use crate::document::Reach;
use crate::lock::CallSite;
use crate::store::TransactionResult;
use crate::store::diagnostics::SubscriberDiagnostics;
use crate::store::events::{CommitEvent, Filter};

slotmap::new_key_type! {
    /// The id of a subscriber.
    pub(in crate::store) struct SubscriberId;
}

#[derive(Debug, Default)]
pub(super) struct Subscribers {
    all: SlotMap<SubscriberId, Subscriber>,
    by_filter: HashMap<Filter, FilterSubscribers>,
    /// How many topics there have been.
    topics: u64,
    /// How many waits of tasks there have been.
    event_waits: u64,
    /// Those that must not miss a commit, with the bytes that they may have to read.
    lossless: Vec<(SubscriberId, usize)>,
    /// The last version that subscribers may read.
    announced: u64,
    /// The last version that is durable. `None` if there is no journal.
    durable: Option<u64>,
    /// The last version that there will be. `None` until the journal has ended.
    pub(super) last: Option<u64>,
}

/// The commits that pass one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Topic(u64);

impl Topic {
    /// All commits.
    pub(super) const ALL: Self = Self(0);
}

/// The subscribers with one filter.
#[derive(Debug)]
struct FilterSubscribers {
    topic: Topic,
    subscribers: usize,
    /// Those that have read everything. A commit wakes them if it passes their filter, and does
    /// nothing for them otherwise.
    waiting: Vec<SubscriberId>,
}

#[derive(Debug)]
struct Subscriber {
    filter: Filter,
    topic: Topic,
    /// Where it subscribed; `None` for a journal.
    call_site: Option<&'static Location<'static>>,
    /// The version up to which it has read. While it waits, no later commit passes its filter.
    cursor: u64,
    waits: bool,
    /// Whether it reads durable commits only. Then it never waits: each write of the journal makes
    /// its channel ready.
    reads_durable: bool,
    /// Missed since the last event that it read.
    missed: u64,
    /// The newest of those, from which it learns of them if no other commit follows.
    newest_missed: Option<Arc<TransactionResult>>,
    /// Has a message while there may be something to read. `None` for a journal, and after the end
    /// of the store or of its journal.
    ready: Option<Sender<()>>,
    /// The tasks that wait for something to read.
    tasks: Vec<(EventWait, Waker)>,
}

/// Identifies the wait of a task for something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct EventWait(u64);

/// What wakes a subscriber, with no mutex locked.
#[must_use]
#[derive(Debug, Default)]
pub(super) struct SubscriberWake {
    ready: Option<Sender<()>>,
    pub(super) tasks: Vec<(EventWait, Waker)>,
}

impl SubscriberWake {
    /// Wakes those that wait for something to read.
    pub(super) fn notify(self) {
        if let Some(ready) = &self.ready {
            // Full if it did not react to the message before.
            let _ = ready.try_send(());
        }
        self.wake();
    }

    /// Wakes those that wait, after the channel has ended.
    pub(super) fn end(mut self) {
        drop(self.ready.take());
        self.wake();
    }

    fn wake(self) {
        self.tasks.into_iter().for_each(|(_, task)| wake(task));
    }
}

impl Subscriber {
    /// How many commits it missed since its last event, and the newest of them.
    fn take_missed(&mut self) -> (u64, Option<Arc<TransactionResult>>) {
        (std::mem::take(&mut self.missed), self.newest_missed.take())
    }

    /// Takes what wakes it at the end of its channel.
    fn take_wake(&mut self) -> SubscriberWake {
        SubscriberWake {
            ready: self.ready.take(),
            tasks: std::mem::take(&mut self.tasks),
        }
    }

    /// Makes its channel ready, if it is not yet.
    fn notify(&self) {
        if let Some(ready) = &self.ready {
            let _ = ready.try_send(());
        }
    }
}

/// What a subscriber reads.
pub(super) enum NextEvent {
    Event(CommitEvent),
    /// None of the commits so far, of which there are more.
    Further,
    Nothing,
    /// The store is gone, or accepts no commits any more.
    End,
}

/// How many commits a subscriber looks at while the log is locked.
const LOOKS: usize = 64;

impl Subscribers {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn add(
        &mut self,
        filter: Filter,
        cursor: u64,
        call_site: Option<&'static Location<'static>>,
    ) -> (SubscriberId, Receiver<()>) {
        if self.is_empty() {
            // No commit was announced while there was no subscriber.
            self.announced = cursor;
        }
        let (sender, ready) = crossbeam_channel::bounded(1);
        let ready_sender = (!self.has_ended()).then_some(sender);
        let Self {
            by_filter, topics, ..
        } = self;
        let audience = by_filter.entry(filter.clone()).or_insert_with(|| {
            let topic = match filter {
                Filter::All => Topic::ALL,
                _ => {
                    *topics += 1;
                    Topic(*topics)
                }
            };
            FilterSubscribers {
                topic,
                subscribers: 0,
                waiting: Vec::new(),
            }
        });
        audience.subscribers += 1;
        let id = self.all.insert(Subscriber {
            filter,
            topic: audience.topic,
            call_site,
            cursor,
            waits: true,
            reads_durable: false,
            missed: 0,
            newest_missed: None,
            ready: ready_sender,
            tasks: Vec::new(),
        });
        audience.waiting.push(id);
        (id, ready)
    }

    /// Moves the cursor of a new subscriber back, to commits that the log has.
    pub(super) fn begin_after(&mut self, id: SubscriberId, version: u64) {
        if let Some(subscriber) = self.stop_waiting(id) {
            subscriber.cursor = version;
            subscriber.notify();
        }
    }

    /// Lets a subscriber miss no commit; it may have so many bytes to read.
    pub(super) fn read_losslessly(&mut self, id: SubscriberId, limit: usize) {
        self.lossless.retain(|(lossless, _)| *lossless != id);
        self.lossless.push((id, limit));
    }

    /// Adds a lossless one that never waits, because it reads [all records](super::JournalReader).
    pub(super) fn add_journal(&mut self, cursor: u64, limit: usize) -> SubscriberId {
        let (id, _) = self.add(Filter::All, cursor, None);
        self.read_losslessly(id, limit);
        if let Some(journal) = self.stop_waiting(id) {
            journal.ready = None;
        }
        self.durable = Some(cursor);
        id
    }

    /// Makes a subscriber read durable commits only, if there is a journal.
    pub(super) fn read_durable(&mut self, id: SubscriberId) {
        if self.durable.is_some()
            && let Some(subscriber) = self.stop_waiting(id)
        {
            subscriber.reads_durable = true;
            subscriber.notify();
        }
    }

    /// Ends the wait of a subscriber. It waits again when it has read everything, unless it reads
    /// durable commits only.
    fn stop_waiting(&mut self, id: SubscriberId) -> Option<&mut Subscriber> {
        let subscriber = self.all.get_mut(id)?;
        if std::mem::take(&mut subscriber.waits)
            && let Some(audience) = self.by_filter.get_mut(&subscriber.filter)
        {
            audience.waiting.retain(|other| *other != id);
        }
        Some(subscriber)
    }

    /// Lets subscribers read the commits that are durable now. Returns what wakes their tasks.
    pub(super) fn note_durable(&mut self, version: u64) -> SubscriberWake {
        self.durable = Some(version);
        self.notify_durable()
    }

    fn notify_durable(&mut self) -> SubscriberWake {
        let mut wake = SubscriberWake::default();
        for subscriber in self.all.values_mut().filter(|it| it.reads_durable) {
            subscriber.notify();
            wake.tasks.append(&mut subscriber.tasks);
        }
        wake
    }

    /// Lets a task wait until there may be something to read; `wait` is its wait so far. Returns
    /// the waker that is not needed.
    #[must_use = "dropped under a mutex, it would run code of users there"]
    pub(super) fn wait_in_task(
        &mut self,
        id: SubscriberId,
        wait: &mut Option<EventWait>,
        task: Waker,
    ) -> Option<Waker> {
        let Some(subscriber) = self.all.get_mut(id) else {
            return Some(task);
        };
        let mut tasks = subscriber.tasks.iter_mut();
        if let Some((_, known)) = tasks.find(|(other, _)| Some(*other) == *wait) {
            return Some(std::mem::replace(known, task));
        }
        self.event_waits += 1;
        let begun = EventWait(self.event_waits);
        subscriber.tasks.push((begun, task));
        *wait = Some(begun);
        None
    }

    /// Ends the wait of a task that is gone. Returns its waker.
    #[must_use = "dropped under a mutex, it would run code of users there"]
    pub(super) fn forget_task(&mut self, id: SubscriberId, wait: EventWait) -> Option<Waker> {
        let tasks = &mut self.all.get_mut(id)?.tasks;
        let at = tasks.iter().position(|(other, _)| *other == wait)?;
        Some(tasks.swap_remove(at).1)
    }

    /// Ends the channels with the journal: the last version is this one. They are dropped with no
    /// mutex locked.
    pub(super) fn end_journal(&mut self, last: u64) -> Vec<SubscriberWake> {
        self.last = Some(last);
        // Otherwise they end with the announcement of the last version.
        match self.has_ended() {
            true => self.end(),
            false => Vec::new(),
        }
    }

    /// Whether the last version was announced.
    pub(super) fn has_ended(&self) -> bool {
        self.last.is_some_and(|last| last <= self.announced)
    }

    /// Moves the cursor of a journal.
    pub(super) fn set_cursor(&mut self, id: SubscriberId, cursor: u64) {
        if let Some(journal) = self.all.get_mut(id) {
            journal.cursor = cursor;
        }
    }

    /// Removes a subscriber, to be dropped with no mutex locked. Returns its filter too.
    #[must_use = "dropped under a mutex, it would hold up others"]
    pub(super) fn remove(&mut self, id: SubscriberId) -> Option<(Filter, impl Sized + use<>)> {
        let Subscriber {
            filter,
            ready,
            waits,
            newest_missed,
            tasks,
            ..
        } = self.all.remove(id)?;
        self.lossless.retain(|(lossless, _)| *lossless != id);
        if let Some(audience) = self.by_filter.get_mut(&filter) {
            if waits {
                audience.waiting.retain(|other| *other != id);
            }
            audience.subscribers -= 1;
            if audience.subscribers == 0 {
                self.by_filter.remove(&filter);
            }
        }
        Some((filter, (ready, newest_missed, tasks)))
    }

    /// The version up to which a subscriber has read, if it does not wait.
    pub(super) fn cursor(&self, id: SubscriberId) -> Option<u64> {
        let subscriber = self.all.get(id)?;
        (!subscriber.waits).then_some(subscriber.cursor)
    }

    /// Calls `visit` with each subscriber and the number of announced commits that it has not
    /// looked at.
    pub(super) fn each_lag(&self, mut visit: impl FnMut(SubscriberId, u64)) {
        for (id, subscriber) in &self.all {
            let lag = match subscriber.waits {
                true => 0,
                false => self.announced.saturating_sub(subscriber.cursor),
            };
            visit(id, lag);
        }
    }

    /// Describes a subscriber for reports. `unread_bytes` computes the size of the commits after a
    /// cursor.
    pub(super) fn describe(
        &self,
        id: SubscriberId,
        lag: u64,
        unread_bytes: impl Fn(u64) -> usize,
    ) -> Option<SubscriberDiagnostics> {
        let subscriber = self.all.get(id)?;
        let lossless = self.lossless.iter().find(|(other, _)| *other == id);
        Some(SubscriberDiagnostics {
            call_site: subscriber.call_site.map(CallSite::from),
            filter: subscriber.filter.clone(),
            unread_commits: lag,
            unread_bytes: match subscriber.waits {
                true => 0,
                false => unread_bytes(subscriber.cursor),
            },
            missed: subscriber.missed,
            durable: subscriber.reads_durable,
            lossless_limit: lossless.map(|(_, limit)| *limit),
            closes_lock: false,
        })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// The version up to which all have read.
    pub(super) fn read(&self) -> u64 {
        let behind = self.all.values().filter(|subscriber| !subscriber.waits);
        let cursors = behind.map(|subscriber| subscriber.cursor);
        cursors.min().unwrap_or(u64::MAX)
    }

    /// Where a subscriber was made. `None` for a journal.
    pub(super) fn call_site(&self, id: SubscriberId) -> Option<&'static Location<'static>> {
        self.all.get(id)?.call_site
    }

    /// How many commits up to a version the slowest one has not read. A journal does not count.
    #[cfg(feature = "metrics")]
    pub(super) fn lag(&self, version: u64) -> u64 {
        let all = self.all.values();
        let behind = all.filter(|subscriber| !subscriber.waits && subscriber.call_site.is_some());
        let lags = behind.map(|subscriber| version.saturating_sub(subscriber.cursor));
        lags.max().unwrap_or_default()
    }

    /// The lossless ones that commits may wait for, with their cursors, `None` for one that waits,
    /// and their limits.
    pub(super) fn limits(&self) -> impl Iterator<Item = (SubscriberId, Option<u64>, usize)> {
        // Nothing follows the last version, and what never becomes durable is never read.
        let has_ended = |id| match self.all.get(id) {
            Some(durable) if durable.reads_durable => self.last.is_some(),
            _ => self.has_ended(),
        };
        let all = self.lossless.iter().filter(move |(id, _)| !has_ended(*id));
        all.map(|(id, limit)| (*id, self.cursor(*id), *limit))
    }

    /// The version up to which no commit has to stay: all lossless ones have read it, and it is
    /// durable. A subscriber to durable commits can begin with the durable version at any time.
    pub(super) fn needless(&self) -> u64 {
        let lossless = self.lossless.iter();
        let cursors = lossless.filter_map(|(id, _)| self.cursor(*id));
        cursors.chain(self.durable).min().unwrap_or(u64::MAX)
    }

    /// The next of the unread commits that passes the filter. A subscriber that has read the last
    /// commit waits. One that has not has a message in its channel, or has just received it.
    pub(super) fn read_next<'a>(
        &mut self,
        id: SubscriberId,
        unread: impl Iterator<Item = &'a LogEntry>,
    ) -> NextEvent {
        let Some(subscriber) = self.all.get_mut(id) else {
            return NextEvent::End;
        };
        let last = match (subscriber.reads_durable, self.durable) {
            (true, Some(durable)) => durable.min(self.announced),
            _ => self.announced,
        };
        let unread = unread.take_while(|entry| entry.version() <= last);
        for (looked, entry) in unread.enumerate() {
            if looked == LOOKS {
                return NextEvent::Further;
            }
            subscriber.cursor = entry.version();
            if let Some(commit) = entry.commit_for(subscriber.topic) {
                let commit = Arc::clone(commit);
                let missed = subscriber.take_missed().0;
                if entry.version() < last {
                    subscriber.notify();
                } else {
                    self.wait(id);
                }
                return NextEvent::Event(CommitEvent { missed, commit });
            }
        }
        let (missed, newest) = subscriber.take_missed();
        self.wait(id);
        match newest {
            Some(commit) => NextEvent::Event(CommitEvent {
                missed: missed - 1,
                commit,
            }),
            None => NextEvent::Nothing,
        }
    }

    fn wait(&mut self, id: SubscriberId) {
        let Some(subscriber) = self.all.get_mut(id).filter(|it| !it.reads_durable) else {
            return;
        };
        subscriber.waits = true;
        if let Some(audience) = self.by_filter.get_mut(&subscriber.filter) {
            audience.waiting.push(id);
        }
    }

    /// Counts removed commits as missed.
    pub(super) fn miss<'e>(
        &mut self,
        removed: impl DoubleEndedIterator<Item = &'e LogEntry> + Clone,
    ) {
        let Some(last) = removed.clone().next_back().map(LogEntry::version) else {
            return;
        };
        let behind = self.all.values_mut().filter(|subscriber| !subscriber.waits);
        for subscriber in behind.filter(|subscriber| subscriber.cursor < last) {
            let read = subscriber.cursor;
            let unread = removed.clone().skip_while(|entry| entry.version() <= read);
            for commit in unread.filter_map(|entry| entry.commit_for(subscriber.topic)) {
                subscriber.missed += 1;
                subscriber.newest_missed = Some(Arc::clone(commit));
            }
            subscriber.cursor = last;
        }
    }

    /// Lets the journal read a commit, if it is the only subscriber. It never waits. Returns
    /// whether it is the only one.
    #[inline]
    pub(super) fn announce_to_journal(&mut self, version: u64) -> bool {
        let is_alone = self.durable.is_some() && self.last.is_none() && self.all.len() == 1;
        if is_alone {
            self.announced = version;
        }
        is_alone
    }

    /// Lets subscribers read a commit. Returns its topics, and what wakes those that wait for it.
    pub(super) fn announce(
        &mut self,
        version: u64,
        reach: Option<&Reach>,
    ) -> (Vec<Topic>, SmallVec<[SubscriberWake; 1]>) {
        self.announced = version;
        let (mut topics, mut woken) = (Vec::new(), SmallVec::new());
        // The write was faster than this announcement.
        if self.durable >= Some(version) {
            woken.push(self.notify_durable());
        }
        let Self { all, by_filter, .. } = self;
        let mut tell = |audience: &mut FilterSubscribers| {
            if audience.topic != Topic::ALL {
                topics.push(audience.topic);
            }
            audience.waiting.retain(|id| {
                let Some(subscriber) = all.get_mut(*id) else {
                    return false;
                };
                // One that has begun to follow after the commit was published waits for later ones.
                if subscriber.cursor >= version {
                    return true;
                }
                (subscriber.cursor, subscriber.waits) = (version - 1, false);
                woken.push(SubscriberWake {
                    ready: subscriber.ready.clone(),
                    tasks: std::mem::take(&mut subscriber.tasks),
                });
                false
            });
        };
        // Whichever are fewer: the filters, or the nodes of the commit.
        match reach {
            Some(reach) if reach.touched.len() + reach.within.len() < by_filter.len() => {
                for filter in iter::once(Filter::All).chain(Filter::passed(reach)) {
                    by_filter.get_mut(&filter).map(&mut tell);
                }
            }
            Some(reach) => {
                let passed = by_filter.iter_mut();
                let passed = passed.filter(|(filter, _)| filter.passes(reach));
                passed.for_each(|(_, audience)| tell(audience));
            }
            // There are no filters.
            None => {
                let audiences = by_filter.values_mut();
                let mut all = audiences.filter(|audience| audience.topic == Topic::ALL);
                all.next().map(tell);
            }
        }
        if self.has_ended() {
            woken.extend(self.end());
        }
        (topics, woken)
    }

    /// Ends the channels, to be dropped with no mutex locked.
    pub(super) fn end(&mut self) -> Vec<SubscriberWake> {
        let all = self.all.values_mut();
        all.map(Subscriber::take_wake).collect()
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../../tests/unit/log_subscribers.rs"]
mod tests;
