//! Entries of the history.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use smol_str::SmolStr;

use super::{Direction, UndoScope};
use crate::document::schema::SchemaViolation;
use crate::document::{
    BlockedUndo, Change, ChangeDetail, EditUnit, ReversedRecords, Selection, SilentReversals, Typed,
};
use crate::id::OwnerId;
use crate::store::{DataStore, Draft, ReversedEntry};
use crate::time::MonotonicTime;
use crate::transaction::TransactionResult;
use crate::transaction::error::OperationError;
use crate::transaction::operation::Callback;
use crate::transaction::run::call;

#[derive(Clone, Debug)]
pub(super) struct HistoryEntry {
    /// The number of the entry in its history.
    pub(super) number: u64,
    /// The version of its first commit.
    pub(super) made: u64,
    pub(super) name: Option<SmolStr>,
    /// Whether an adjacent edit may join it.
    pub(super) open: bool,
    pub(super) last: MonotonicTime,
    /// The selection before its first edit, at the time of that edit.
    pub(super) before: Option<Selection>,
    /// The selection after its last edit, at the time of that edit.
    pub(super) after: Option<Selection>,
    /// What it consists of.
    pub(super) units: SmallVec<[Arc<EditUnit>; 1]>,
    /// What was added when it was undone, by its inverse code or because the schema requires it,
    /// and when it was redone. The first is in effect while the units are not.
    pub(super) added: [SmallVec<[Arc<EditUnit>; 1]>; 2],
    /// Whether inverse code changed the document when it was undone.
    pub(super) is_by_code: bool,
    /// Code that runs when it is undone, in the order of the operations that brought it. An undo
    /// takes it out.
    pub(super) inverses: Vec<Callback>,
    /// The versions of its commits.
    pub(super) versions: SmallVec<[u64; 2]>,
    /// Its last commit, if that replaced characters of one text.
    pub(super) typed: Option<Typed>,
    /// Whether an undo was refused because of it, and the idempotency key of that undo.
    pub(super) refused: Option<Option<SmolStr>>,
    /// The scope of the undo that reverted it, if that had one.
    // In a box, because few undos have one and each entry is moved.
    pub(super) undone_in: Option<Box<UndoScope>>,
}

/// Why an entry could not be undone.
#[derive(Debug)]
pub(in crate::transaction) enum UndoFailure {
    Conflict(BlockedUndo),
    Inverse(OperationError),
    Schema(SchemaViolation),
}

impl From<BlockedUndo> for UndoFailure {
    fn from(refusal: BlockedUndo) -> Self {
        Self::Conflict(refusal)
    }
}

/// What an undo or redo of an entry did in its transaction.
#[derive(Debug, Default)]
pub(in crate::transaction) struct Rewound {
    /// The unit, if all of its commits wait to be recorded, and whether it is to be in effect.
    pub(in crate::transaction) newest: Option<(Arc<EditUnit>, bool)>,
    /// What changes in the record. `None` if its commits waited to be recorded.
    pub(super) undone: Option<ReversedRecords>,
    /// The unit of what the code changed and what the schema requires, if that changed the
    /// document, and how many changes there were before.
    pub(super) added: Option<(Arc<EditUnit>, usize)>,
    /// What these changes do not tell.
    pub(super) added_details: Vec<ChangeDetail>,
}

impl Rewound {
    /// Whether it reversed units that are recorded.
    pub(in crate::transaction) fn is_recorded(&self) -> bool {
        self.undone.is_some()
    }
}

/// The most versions that an entry keeps.
const MOST_VERSIONS: usize = 256;

impl HistoryEntry {
    /// An entry of one commit, which has no number yet.
    pub(super) fn new(
        unit: Arc<EditUnit>,
        typed: Option<Typed>,
        at: MonotonicTime,
        inverses: Vec<Callback>,
        result: &TransactionResult,
    ) -> Self {
        Self {
            number: 0,
            made: result.version,
            name: None,
            open: false,
            last: at,
            typed,
            before: result.selection_before.clone(),
            after: result.selection_after.clone(),
            units: smallvec![unit],
            added: Default::default(),
            is_by_code: false,
            inverses,
            versions: smallvec![result.version],
            refused: None,
            undone_in: None,
        }
    }

    /// Adds a commit that is undone together with it.
    pub(super) fn join(&mut self, mut next: Self, open: bool) {
        self.open = open;
        self.last = next.last;
        self.typed = next.typed.take();
        self.after = next.after.take();
        self.merge(next);
    }

    /// Adds a commit that finished late.
    pub(super) fn merge(&mut self, next: Self) {
        let units = self.units.last().zip(next.units.last());
        if !units.is_some_and(|(last, next)| Arc::ptr_eq(last, next)) {
            self.units.extend(next.units);
        }
        self.inverses.extend(next.inverses);
        self.versions.extend(next.versions);
        // A long list of versions is cut short.
        if self.versions.len() > MOST_VERSIONS {
            self.versions.drain(..MOST_VERSIONS / 2);
            // No commit has this version. Otherwise it would be taken for an entry without them.
            self.versions.insert(0, 0);
        }
    }

    /// The unit that a commit of this version joins: that of the commit before it, if nothing came
    /// in between.
    pub(super) fn unit_before(&self, version: u64) -> Option<&Arc<EditUnit>> {
        let is_next = self.versions.last().is_some_and(|last| last + 1 == version);
        self.units.last().filter(|_| is_next)
    }

    /// The versions of its commits, if an undo of the entry undoes exactly those.
    pub(super) fn undone_versions(&self) -> Vec<u64> {
        match self.inverses.is_empty() && !self.is_by_code {
            true => self.versions.to_vec(),
            false => Vec::new(),
        }
    }

    /// Whether it has no code, and nothing was added when it was undone or redone.
    fn is_plain(&self) -> bool {
        self.inverses.is_empty() && self.added.iter().all(SmallVec::is_empty)
    }

    /// The units that an undo or a redo of it reversed, if the versions of its commits do not tell
    /// that.
    pub(super) fn reversed(&self, is_redo: bool, rewound: &Rewound) -> Option<ReversedEntry> {
        let is_cut = self.versions.first() == Some(&0);
        if !is_cut && self.is_plain() && rewound.added.is_none() {
            return None;
        }
        let units = self.in_order(is_redo);
        Some(ReversedEntry {
            units: units
                .map(|(units, in_effect)| (units.to_vec(), in_effect))
                .into(),
            added: rewound.added.clone(),
        })
    }

    /// The units that an undo or a redo of it reverses, and whether they come into effect.
    fn in_order(&self, is_redo: bool) -> [(&[Arc<EditUnit>], bool); 3] {
        let [by_undo, by_redo] = &self.added;
        let (before, after) = match is_redo {
            true => (by_undo, by_redo),
            false => (by_redo, by_undo),
        };
        [(before, false), (&self.units, is_redo), (after, true)]
    }

    /// What it consists of, if that is one unit of edits.
    pub(super) fn only_unit(&self) -> Option<&Arc<EditUnit>> {
        match &self.units[..] {
            [unit] if self.is_plain() => Some(unit),
            _ => None,
        }
    }

    /// Undoes or redoes it by the changes of its commits, if it is the newest unit of edits in
    /// effect. Returns whether it is.
    fn rewind_newest(
        &self,
        is_redo: bool,
        store: &DataStore,
        on: &mut Draft,
    ) -> Result<Option<&Arc<EditUnit>>, BlockedUndo> {
        let Some(unit) = self.only_unit() else {
            return Ok(None);
        };
        let is_newest = store.undo_newest(on, unit, is_redo)?;
        Ok(is_newest.then_some(unit))
    }

    /// Undoes or redoes it as it is recorded. Returns the selection, too.
    fn rewind_recorded(
        &self,
        is_redo: bool,
        (store, before): (&DataStore, &mut SilentReversals),
        on: &mut Draft,
    ) -> Result<(Option<Selection>, ReversedRecords), BlockedUndo> {
        store.undo_units(on, before, |undoing| {
            let [before, (units, _), after] = self.in_order(is_redo);
            undoing.set_in_effect(before.0, false, true)?;
            undoing.set_in_effect(units, is_redo, is_redo)?;
            undoing.set_in_effect(after.0, true, true)?;
            let (unit, then) = match is_redo {
                true => (self.units.last(), &self.after),
                false => (self.units.first(), &self.before),
            };
            let then = unit.zip(then.as_ref());
            Ok(then.map(|(unit, then)| undoing.selection(unit, is_redo, then)))
        })
    }

    /// Undoes or redoes it, after others without an effect. In a scope, it is recorded first: an
    /// edit outside of the scope removes what is undone in the queue of the commits that are not
    /// recorded, and keeps the entry.
    pub(super) fn rewind(
        &self,
        (direction, is_scoped): (Direction, bool),
        (store, owner, before): (&DataStore, &OwnerId, &mut SilentReversals),
        on: &mut Draft,
    ) -> Result<Rewound, UndoFailure> {
        let is_redo = direction == Direction::Redo;
        let newest = match is_scoped {
            true => None,
            false => self.rewind_newest(is_redo, store, on)?,
        };
        let (selection, undone) = match newest {
            // The document is the one that was there then.
            Some(_) if is_redo => (self.after.clone(), None),
            Some(_) => (self.before.clone(), None),
            None => {
                let (selection, undone) = self.rewind_recorded(is_redo, (store, before), on)?;
                (selection, Some(undone))
            }
        };
        let made = on.changes().len();
        if !is_redo && !self.inverses.is_empty() {
            let mut inverses = self.inverses.iter().rev();
            inverses
                .try_for_each(|code| call(code, on))
                .map_err(UndoFailure::Inverse)?;
        }
        // The selected node may no longer exist.
        let _ = on.select(selection);
        if let Err(violation) = on.check_schema() {
            // What the newest entry leads back to was valid.
            match newest.is_none() && on.complete().is_ok() {
                true => on.check_schema().map_err(UndoFailure::Schema)?,
                false => return Err(UndoFailure::Schema(violation)),
            }
        }
        let details = on.details().iter().filter_map(|detail| {
            let change = detail.change.checked_sub(made)?;
            let what = detail.what.clone();
            Some(ChangeDetail { change, what })
        });
        let changed = of_the_document(on.changes().get(made..).unwrap_or_default())
            .next()
            .is_some();
        // The version that is published next: only the holder of the lock publishes.
        let unit = || EditUnit::new(on.base().version() + 1, owner.clone());
        Ok(Rewound {
            newest: newest.map(|unit| (Arc::clone(unit), is_redo)),
            undone,
            added: changed.then(|| (unit(), made)),
            added_details: details.collect(),
        })
    }
}

/// The changes that are not of the selection.
pub(super) fn of_the_document(
    changes: &[Change],
) -> impl DoubleEndedIterator<Item = &Change> + Clone {
    changes.iter().filter(|change| change.is_of_the_document())
}
