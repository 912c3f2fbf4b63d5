//! Commits composed into stretches, for followers that are far behind.

use std::collections::VecDeque;
use std::sync::Arc;

use super::CommitRecord;
use crate::document::{Change, Changes, PieceMap};

/// What consecutive commits did to positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretch {
    /// The version of the last one.
    pub(super) last: u64,
    pub(crate) commits: usize,
    pub(crate) map: PieceMap,
}

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
        self.compose_while(|stretch| stretch.commits < commits)
    }

    /// Composes as many of the oldest ones as are cheaper to compose at once than one by one, and
    /// takes them out.
    fn compose_some(&mut self) -> Option<Stretch> {
        let stretch = self.compose_while(|stretch| !stretch.map.is_long());
        (stretch.commits > 0).then_some(stretch)
    }

    fn compose_while(&mut self, more: impl Fn(&Stretch) -> bool) -> Stretch {
        let mut stretch = Stretch::default();
        while more(&stretch)
            && let Some((version, changes)) = self.0.pop_front()
        {
            stretch.map.extend(&changes);
            stretch.commits += 1;
            stretch.last = version;
        }
        stretch
    }
}

impl Stretch {
    /// Merges it with the one after it.
    fn followed_by(self: Arc<Self>, next: &Self) -> Self {
        let mut whole = Arc::unwrap_or_clone(self);
        whole.map.append(&next.map);
        whole.commits += next.commits;
        whole.last = next.last;
        whole
    }

    /// Merges the last stretch with the ones before it that have no more commits. So a commit is
    /// merged a logarithmic number of times, not once for each later commit.
    pub(crate) fn merge_last(
        stretches: &mut Vec<Arc<Self>>,
        may_merge: impl Fn(&Arc<Self>, &Arc<Self>) -> bool,
    ) {
        while let [.., one, next] = &stretches[..]
            && one.commits <= next.commits
            && may_merge(one, next)
            && let (Some(next), Some(one)) = (stretches.pop(), stretches.pop())
        {
            stretches.push(Arc::new(one.followed_by(&next)));
        }
    }
}

/// Older stretches and the records after them, to be composed.
pub(super) struct Composition {
    /// Where a stretch must not reach over, in order.
    pub(super) cursors: Vec<u64>,
    pub(super) stretches: VecDeque<Arc<Stretch>>,
    pub(super) records: Vec<Arc<CommitRecord>>,
    /// The version up to which the log removes records afterwards.
    pub(super) removed_through: u64,
}

impl Composition {
    pub(super) fn compose(&self) -> VecDeque<Arc<Stretch>> {
        let is_cursor = |version: u64| self.cursors.binary_search(&version).is_ok();
        let between_cursors = self
            .records
            .chunk_by(|record, _| !is_cursor(record.version));
        let new = between_cursors.flat_map(|records| {
            let mut commits = RecentCommits::default();
            for record in records {
                commits.push(record.version, &record.changes, &record.undone);
            }
            let mut stretches: Vec<_> = std::iter::from_fn(|| commits.compose_some()).collect();
            if stretches.is_empty() {
                stretches.push(Stretch::default());
            }
            // The last one ends at the cursor, also if the commits there cancelled out.
            if let (Some(stretch), Some(record)) = (stretches.last_mut(), records.last()) {
                stretch.last = record.version;
            }
            stretches
        });
        let mut all: Vec<Arc<Stretch>> = Vec::new();
        for stretch in self.stretches.iter().cloned().chain(new.map(Arc::new)) {
            all.push(stretch);
            Stretch::merge_last(&mut all, |one, _| !is_cursor(one.last));
        }
        all.into()
    }
}
