//! Changes that came one right after the other, and what others did after them.

use std::collections::VecDeque;

use arrayvec::ArrayString;
use smol_str::SmolStr;

use crate::document::{Change, Conflict, Since};
use crate::store::Transaction;
use crate::transaction::operation::Callback;

/// A piece of an entry.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) changes: Vec<Change>,
    /// Code that runs when they are undone, in the order of the operations that brought it.
    pub(super) inverses: Vec<Callback>,
    /// The versions that the commits made.
    pub(super) versions: Vec<u64>,
    /// What others did after them, until the next part or entry, in pieces, the oldest first, with the number of commits that
    /// each comes from. Each piece has more of them than the next, so a commit is put together with others as often as its
    /// number has digits, and not again with each that follows.
    older: Vec<(usize, Since)>,
    /// What they did last, commit by commit, by version. If they undo that, nothing has happened.
    recent: VecDeque<(u64, Since)>,
}

/// So many commits of others are kept apart.
const RECENT: usize = 32;

impl Part {
    pub(super) fn new(changes: Vec<Change>, inverses: Vec<Callback>, version: u64) -> Self {
        Self {
            changes,
            inverses,
            versions: vec![version],
            ..Self::default()
        }
    }

    /// Adds what came right after it. What was typed is kept in words instead of letters.
    pub(super) fn extend(&mut self, next: Self) {
        for change in next.changes {
            let last = self.changes.last_mut();
            match last.and_then(|last| Some((one(last, &change)?, last))) {
                Some((both, last)) => *last = both,
                None => self.changes.push(change),
            }
        }
        self.inverses.extend(next.inverses);
        self.versions.extend(next.versions);
        // If there are more of them than commits of others are kept apart, it does not matter which.
        let surplus = self.versions.len().saturating_sub(RECENT + 1);
        self.versions.drain(..surplus);
    }

    /// Whether nobody did anything after it.
    pub(super) fn is_last(&self) -> bool {
        self.older.is_empty() && self.recent.is_empty()
    }

    /// Takes in a commit of somebody else.
    pub(super) fn observe(&mut self, version: u64, changes: &[Change]) {
        let mut step = Since::default();
        changes.iter().for_each(|change| step.observe(change));
        self.recent.push_back((version, step));
        if self.recent.len() > RECENT
            && let Some((_, oldest)) = self.recent.pop_front()
        {
            self.settle(oldest);
        }
    }

    fn settle(&mut self, step: Since) {
        if step.is_empty() {
            return;
        }
        let mut piece = (1, step);
        while let Some((commits, mut whole)) = self.older.pop_if(|(commits, _)| *commits <= piece.0)
        {
            whole.append(piece.1);
            piece = (commits + piece.0, whole);
        }
        self.older.push(piece);
    }

    /// Takes in that somebody else undid the commits that made these versions. If they are the last, it is as if none of
    /// it had happened; `false` if they are not.
    pub(super) fn cancel(&mut self, versions: &[u64]) -> bool {
        let Some(kept) = self.recent.len().checked_sub(versions.len()) else {
            return false;
        };
        let last = self.recent.range(kept..).map(|(version, _)| version);
        let cancelled = !versions.is_empty() && last.eq(versions);
        if cancelled {
            self.recent.truncate(kept);
        }
        cancelled
    }

    /// Takes in what came after all that is known.
    pub(super) fn follow(&mut self, later: Since) {
        for (_, step) in std::mem::take(&mut self.recent) {
            self.settle(step);
        }
        self.settle(later);
    }

    /// All that others did after it.
    pub(super) fn since(&self) -> Since {
        let recent = self.recent.iter().map(|(_, step)| step);
        let older = self.older.iter().map(|(_, piece)| piece);
        older.chain(recent).fold(Since::default(), |mut all, step| {
            all.append(step.clone());
            all
        })
    }

    /// Undoes it, where `since` came after it, and tells what that comes to without it.
    pub(super) fn rewind(&self, since: Since, on: &mut Transaction) -> Result<Since, Conflict> {
        let mut since = since;
        let mut changes = self.changes.iter().rev();
        changes.try_for_each(|change| on.rewind(change, &mut since))?;
        Ok(since)
    }
}

/// The longest string that takes no memory of its own.
const INLINE: usize = 22;

/// Two insertions, the second right behind the first, as one, if that is short.
fn one(first: &Change, second: &Change) -> Option<Change> {
    let (
        Change::SpliceText {
            id,
            at,
            removed,
            inserted,
            marks: None,
        },
        Change::SpliceText {
            id: next_id,
            at: next,
            removed: next_removed,
            inserted: more,
            marks: None,
        },
    ) = (first, second)
    else {
        return None;
    };
    let plain = removed.is_empty() && next_removed.is_empty() && id == next_id;
    if !plain || inserted.len() + more.len() > INLINE || at + inserted.chars().count() != *next {
        return None;
    }
    let mut both = ArrayString::<INLINE>::new();
    both.push_str(inserted);
    both.push_str(more);
    Some(Change::SpliceText {
        id: id.clone(),
        at: *at,
        removed: SmolStr::default(),
        inserted: SmolStr::new(both),
        marks: None,
    })
}
