//! What is undone in one go.

use std::ops::Range;

use arrayvec::ArrayString;
use smol_str::SmolStr;

use crate::document::{Change, Conflict, Selection, Since};
use crate::id::NodeId;
use crate::store::Transaction;
use crate::time::Timestamp;
use crate::transaction::error::OperationError;
use crate::transaction::operation::Callback;
use crate::transaction::run::call;

/// Changes that came one right after the other.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) changes: Vec<Change>,
    /// Code that runs when they are undone, in the order of the operations that brought it.
    pub(super) inverses: Vec<Callback>,
    /// What others did after them, until the next part or entry.
    pub(super) since: Since,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Option<SmolStr>,
    /// What its last edit was, if another of the kind may join it.
    pub(super) kind: Option<Kind>,
    pub(super) last: Timestamp,
    /// What was selected before its first edit and after its last one.
    pub(super) before: Option<Selection>,
    pub(super) after: Option<Selection>,
    pub(super) parts: Vec<Part>,
    /// What was merged into it after other entries had come. In these, `since` is all that came after, by whomever.
    pub(super) late: Vec<Part>,
}

/// Why an entry could not be undone.
#[derive(Debug)]
pub(in crate::transaction) enum Failure {
    Conflict(Conflict),
    Inverse(OperationError),
}

impl From<Conflict> for Failure {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl Part {
    pub(super) fn new(changes: Vec<Change>, inverses: Vec<Callback>) -> Self {
        Self {
            changes,
            inverses,
            since: Since::default(),
        }
    }

    /// Adds what came right after it. What was typed is kept in words instead of letters.
    pub(super) fn extend(&mut self, changes: Vec<Change>, inverses: Vec<Callback>) {
        for change in changes {
            let last = self.changes.last_mut();
            match last.and_then(|last| Some((one(last, &change)?, last))) {
                Some((both, last)) => *last = both,
                None => self.changes.push(change),
            }
        }
        self.inverses.extend(inverses);
    }

    /// Undoes it, where `since` came after it, and tells what that comes to without it.
    fn rewind(&self, mut since: Since, on: &mut Transaction) -> Result<Since, Conflict> {
        let mut changes = self.changes.iter().rev();
        changes.try_for_each(|change| on.rewind(change, &mut since))?;
        Ok(since)
    }
}

impl Entry {
    /// Undoes it. Tells what others did since, as it would be if the entry had never been.
    pub(super) fn rewind(&self, on: &mut Transaction) -> Result<Since, Failure> {
        for late in self.late.iter().rev() {
            late.rewind(followed(&late.since, on.changes()), on)?;
        }
        let mut since = followed(&Since::default(), on.changes());
        for part in self.parts.iter().rev() {
            let mut after = part.since.clone();
            after.append(since);
            since = part.rewind(after, on)?;
        }
        if on.changes().is_empty() {
            let mut changes = self.parts.iter().flat_map(|part| &part.changes);
            if let Some(id) = changes.find_map(Change::node) {
                return Err(Conflict::NothingLeft { id: id.clone() }.into());
            }
        }
        let inverses = self.parts.iter().chain(&self.late);
        let mut inverses = inverses.flat_map(|part| &part.inverses).rev();
        inverses
            .try_for_each(|code| call(code, on))
            .map_err(Failure::Inverse)?;
        Ok(since)
    }
}

/// What came since, with these changes behind it.
fn followed(since: &Since, changes: &[Change]) -> Since {
    let mut since = since.clone();
    changes.iter().for_each(|change| since.observe(change));
    since
}

/// What an edit is, where more of the same may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Characters came to the end of `at`.
    Typing { id: NodeId, at: Range<usize> },
    /// Characters went from `at`.
    Deleting { id: NodeId, at: Range<usize> },
}

impl Kind {
    pub(super) fn of(changes: &[Change]) -> Option<Self> {
        let [
            Change::SpliceText {
                id,
                at,
                removed,
                inserted,
                ..
            },
        ] = changes
        else {
            return None;
        };
        let (id, at) = (id.clone(), *at);
        match (removed.is_empty(), inserted.is_empty()) {
            (true, false) => Some(Self::Typing {
                id,
                at: at..at + inserted.chars().count(),
            }),
            (false, true) => Some(Self::Deleting {
                id,
                at: at..at + removed.chars().count(),
            }),
            _ => None,
        }
    }

    /// Whether this edit goes on where the other one ended.
    pub(super) fn follows(&self, other: &Self) -> bool {
        match (other, self) {
            (
                Self::Typing {
                    id: one,
                    at: before,
                },
                Self::Typing { id, at },
            ) => one == id && before.end == at.start,
            // With the delete key the next character goes, with backspace the one before.
            (
                Self::Deleting {
                    id: one,
                    at: before,
                },
                Self::Deleting { id, at },
            ) => one == id && (before.start == at.start || before.start == at.end),
            _ => false,
        }
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
