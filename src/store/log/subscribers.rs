//! The subscribers of a store, as the log has them.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use slotmap::SlotMap;
use smallvec::SmallVec;

use super::Entry;
use crate::store::events::{CommitEvent, Filter, Reach};

slotmap::new_key_type! {
    /// The id of a subscriber.
    pub(in crate::store) struct SubscriberId;
}

#[derive(Debug, Default)]
pub(super) struct Subscribers {
    all: SlotMap<SubscriberId, Subscriber>,
    waiting: Waiting,
    /// Those that must not miss a commit, with the bytes that they may have to read.
    lossless: Vec<(SubscriberId, usize)>,
    /// The last version that subscribers may read.
    announced: u64,
}

/// The subscribers that have read everything, by their filters. A commit wakes those whose filter
/// it passes, and does nothing for the others.
type Waiting = HashMap<Filter, Vec<SubscriberId>>;

#[derive(Debug)]
struct Subscriber {
    filter: Filter,
    /// The version up to which it has read. While it waits, no later commit passes its filter.
    cursor: u64,
    waits: bool,
    /// Missed since the last event that it read.
    missed: u64,
    /// Has a message while there may be something to read. `None` after the end of the store.
    ready: Option<Sender<()>>,
}

impl Subscriber {
    fn wait(&mut self, id: SubscriberId, waiting: &mut Waiting) {
        self.waits = true;
        waiting.entry(self.filter.clone()).or_default().push(id);
    }

    /// Makes its channel ready, if it is not yet.
    fn notify(&self) {
        if let Some(ready) = &self.ready {
            let _ = ready.try_send(());
        }
    }
}

/// What a subscriber reads.
pub(in crate::store) enum Next {
    Event(CommitEvent),
    /// None of the commits so far, of which there are more.
    Further,
    Nothing,
    /// The store is gone.
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
        lossless: Option<usize>,
    ) -> (SubscriberId, Receiver<()>) {
        let (sender, ready) = crossbeam_channel::bounded(1);
        let id = self.all.insert(Subscriber {
            filter,
            cursor,
            waits: false,
            missed: 0,
            ready: Some(sender),
        });
        self.all[id].wait(id, &mut self.waiting);
        self.lossless.extend(lossless.map(|limit| (id, limit)));
        (id, ready)
    }

    /// Removes a subscriber, to be dropped with no mutex locked. Returns its filter too.
    #[must_use = "dropped under a mutex, it would hold up others"]
    pub(super) fn remove(&mut self, id: SubscriberId) -> Option<(Filter, impl Sized + use<>)> {
        let Subscriber { filter, ready, .. } = self.all.remove(id)?;
        self.lossless.retain(|(lossless, _)| *lossless != id);
        if let Some(waiting) = self.waiting.get_mut(&filter) {
            waiting.retain(|waits| *waits != id);
            if waiting.is_empty() {
                self.waiting.remove(&filter);
            }
        }
        Some((filter, ready))
    }

    /// The version up to which a subscriber has read, if it does not wait.
    pub(super) fn cursor(&self, id: SubscriberId) -> Option<u64> {
        let subscriber = self.all.get(id)?;
        (!subscriber.waits).then_some(subscriber.cursor)
    }

    /// The version up to which all have read.
    pub(super) fn read(&self) -> u64 {
        let behind = self.all.values().filter(|subscriber| !subscriber.waits);
        let cursors = behind.map(|subscriber| subscriber.cursor);
        cursors.min().unwrap_or(u64::MAX)
    }

    /// The cursors and limits of the lossless ones that do not wait.
    pub(super) fn lossless(&self) -> impl Iterator<Item = (u64, usize)> {
        let all = self.lossless.iter();
        all.filter_map(|(id, limit)| Some((self.cursor(*id)?, *limit)))
    }

    /// The version up to which all lossless ones have read.
    pub(super) fn read_by_lossless(&self) -> u64 {
        let cursors = self.lossless().map(|(cursor, _)| cursor);
        cursors.min().unwrap_or(u64::MAX)
    }

    /// The next of the unread commits that passes the filter. A subscriber that has read the last
    /// commit waits. One that has not has a message in its channel, or has just received it.
    pub(super) fn read_next<'a>(
        &mut self,
        id: SubscriberId,
        unread: impl Iterator<Item = &'a Entry>,
    ) -> Next {
        let Some(subscriber) = self.all.get_mut(id) else {
            return Next::End;
        };
        let announced = self.announced;
        let unread = unread.take_while(|entry| entry.version() <= announced);
        for (looked, entry) in unread.enumerate() {
            if looked == LOOKS {
                return Next::Further;
            }
            subscriber.cursor = entry.version();
            if let Some(commit) = entry.commit_for(&subscriber.filter) {
                let commit = Arc::clone(commit);
                let missed = std::mem::take(&mut subscriber.missed);
                if entry.version() < announced {
                    subscriber.notify();
                } else {
                    subscriber.wait(id, &mut self.waiting);
                }
                return Next::Event(CommitEvent { missed, commit });
            }
        }
        subscriber.wait(id, &mut self.waiting);
        Next::Nothing
    }

    /// Counts removed commits as missed.
    pub(super) fn miss(&mut self, removed: &[Entry]) {
        let Some(last) = removed.last().map(Entry::version) else {
            return;
        };
        let behind = self.all.values_mut().filter(|subscriber| !subscriber.waits);
        for subscriber in behind.filter(|subscriber| subscriber.cursor < last) {
            let read = removed.partition_point(|entry| entry.version() <= subscriber.cursor);
            let missed = removed[read..]
                .iter()
                .filter(|entry| entry.commit_for(&subscriber.filter).is_some());
            subscriber.missed += missed.count() as u64;
            subscriber.cursor = last;
        }
    }

    /// Lets subscribers read a commit. Returns what wakes those that waited for it.
    pub(super) fn announce(
        &mut self,
        version: u64,
        reach: Option<&Reach>,
    ) -> SmallVec<[Sender<()>; 4]> {
        self.announced = version;
        let Self { all, waiting, .. } = self;
        let mut woken = SmallVec::new();
        let mut wake = |filter: &Filter| {
            let Some(ids) = waiting.get_mut(filter) else {
                return;
            };
            ids.retain(|id| {
                let Some(subscriber) = all.get_mut(*id) else {
                    return false;
                };
                // One that has begun to follow after the commit was published waits for later ones.
                if subscriber.cursor >= version {
                    return true;
                }
                (subscriber.cursor, subscriber.waits) = (version - 1, false);
                woken.extend(subscriber.ready.clone());
                false
            });
        };
        wake(&Filter::All);
        reach
            .into_iter()
            .flat_map(Reach::filters)
            .for_each(|filter| wake(&filter));
        woken
    }

    /// Ends the channels, to be dropped with no mutex locked.
    #[must_use = "dropped under a mutex, it would hold up others"]
    pub(super) fn end(&mut self) -> impl Sized + use<> {
        let channels = self.all.values_mut().map(|it| it.ready.take());
        channels.collect::<Vec<_>>()
    }
}
