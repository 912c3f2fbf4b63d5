//! Undos and redos that are repeated, and those that change nothing in the document.

use std::sync::Arc;

use super::{EditUnit, Provenance, ReversedRecords};
use crate::id::NodeIds;
use crate::{Change, Overlay, Snapshot, View};

/// An undo or a redo that changed nothing in the document.
#[derive(Clone, Debug)]
pub struct SilentReversal {
    /// The version of the document.
    pub version: u64,
    /// The versions of the first commits of the units.
    pub units: Vec<u64>,
    /// Whether they went into effect again.
    pub is_redo: bool,
}

/// Undos and redos that change nothing in the document, before they are published.
#[derive(Debug, Default)]
pub struct SilentReversals {
    /// In their order.
    all: Vec<SilentReversal>,
    /// What all of them change in the recorded history.
    reversed: ReversedRecords,
}

impl SilentReversals {
    /// Adds one that began after these, in the document of this version.
    pub fn add(&mut self, later: ReversedRecords, version: u64) {
        for is_redo in [false, true] {
            let units = later.units.iter();
            let units = units.filter(|(_, in_effect)| *in_effect == is_redo);
            let units: Vec<u64> = units.map(|(unit, _)| *unit).collect();
            if !units.is_empty() {
                self.all.push(SilentReversal {
                    version,
                    units,
                    is_redo,
                });
            }
        }
        self.reversed.extend(later);
    }

    /// The version after which the record began.
    pub fn since(&self) -> u64 {
        self.reversed.since
    }

    /// Repeats them in this document, with another record of it, which began after this version.
    pub fn repeat(
        &mut self,
        (with, since): (&mut Provenance, u64),
        document: &Snapshot,
        ids: &NodeIds,
    ) {
        if self.is_empty() || self.since() == since {
            return;
        }
        let units = self.all.iter();
        let units = units.map(|it| (with.known_units(&it.units), it.is_redo));
        let units: Vec<_> = units.collect();
        let repeated = with.repeated(&units, [document; 2], &[], ids);
        self.reversed = repeated.unwrap_or_default();
        self.reversed.since = since;
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What all of them change, if there are any.
    pub(super) fn reversed(&self) -> Option<&ReversedRecords> {
        (!self.is_empty()).then_some(&self.reversed)
    }
}

impl ReversedRecords {
    /// Adds what a later undo or redo changes, which began after this one.
    fn extend(&mut self, later: Self) {
        let Self {
            changed,
            appeared,
            root,
            carets,
            units,
            since,
        } = later;
        self.changed.extend(changed);
        self.appeared.extend(appeared);
        self.root = root.or(self.root.take());
        self.carets.extend(carets);
        self.units.extend(units);
        self.since = since;
    }
}

impl Provenance {
    /// The undos and redos that changed nothing in the document, in their order.
    pub fn silent(&self) -> &[SilentReversal] {
        &self.silent
    }

    /// Applies published undos and redos that changed nothing in the document.
    pub fn apply_silent(&mut self, published: SilentReversals) {
        self.silent.extend(published.all);
        self.apply_published(published.reversed);
    }

    /// Repeats an undo or a redo that changes nothing in this document.
    pub fn repeat_silent(&mut self, reversal: &SilentReversal, document: &Snapshot, ids: &NodeIds) {
        let units = [(self.known_units(&reversal.units), reversal.is_redo)];
        self.repeat(&units, [document; 2], &[], ids);
        self.silent.push(reversal.clone());
    }

    /// Records an undo or a redo that was made with another record, before this one was made from
    /// kept commits. It led to this document by its own changes and then those that it added.
    pub fn reverse_again(
        &mut self,
        reversed: &ReversedRecords,
        (changes, added): (&[Change], &[Change]),
        mut document: Snapshot,
        ids: &NodeIds,
    ) {
        let before = document.take_back(added);
        if before.and_then(|()| document.take_back(changes)).is_ok() {
            let units = self.units_of(reversed);
            self.reverse(&units, changes, &mut document, ids);
        }
    }

    /// Records an undo or a redo of these units, which made these changes of the document.
    pub fn reverse(
        &mut self,
        units: &[(Vec<Arc<EditUnit>>, bool)],
        changes: &[Change],
        document: &mut Snapshot,
        ids: &NodeIds,
    ) {
        let before = document.clone();
        let is_same = document.repeat(changes).is_ok()
            && self.repeat(units, [&before, document], changes, ids);
        debug_assert!(is_same, "{changes:?} are not repeated");
        if !is_same {
            // A record that is not of the document would misplace what later undos bring back.
            *self = Self::default();
        }
    }

    /// Repeats an undo or a redo of these units, which led from one document to another by these
    /// changes. Returns whether it leads there again; nothing is repeated otherwise.
    pub fn repeat(
        &mut self,
        units: &[(Vec<Arc<EditUnit>>, bool)],
        documents: [&Snapshot; 2],
        changes: &[Change],
        ids: &NodeIds,
    ) -> bool {
        let repeated = self.repeated(units, documents, changes, ids);
        let is_same = repeated.is_some();
        self.apply_published(repeated.unwrap_or_default());
        is_same
    }

    /// What [`repeat`](Self::repeat) applies.
    fn repeated(
        &mut self,
        units: &[(Vec<Arc<EditUnit>>, bool)],
        [before, after]: [&Snapshot; 2],
        changes: &[Change],
        ids: &NodeIds,
    ) -> Option<ReversedRecords> {
        let mut overlay = Overlay::new(before.clone());
        let mut undoing = self.undoing(&mut overlay, ids);
        for (units, in_effect) in units {
            undoing.set_in_effect(units, *in_effect, true).ok()?;
        }
        let reversed = undoing.end();
        are_same(&overlay, after, [overlay.changes(), changes]).then_some(reversed)
    }

    /// The units with these numbers that are recorded.
    pub(super) fn known_units(&self, numbers: &[u64]) -> Vec<Arc<EditUnit>> {
        let known = numbers.iter().filter_map(|it| self.units.get(it));
        known.map(|known| Arc::clone(&known.unit)).collect()
    }
}

/// Whether two documents are the same after these changes of one document.
fn are_same(one: &impl View, other: &impl View, changes: [&[Change]; 2]) -> bool {
    let mut is_same = one.root() == other.root();
    for change in changes.into_iter().flatten() {
        change.each_stored_node(|id| is_same &= one.node(id) == other.node(id), |_| ());
    }
    is_same
}
