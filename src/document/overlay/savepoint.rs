//! Moments within a transaction, to which the changes since lead back.

use super::Overlay;
use crate::document::Selection;
use crate::id::NodeIds;

/// What an overlay was at some moment, as lengths: what came since is taken back by its inverses.
#[derive(Debug)]
pub(crate) struct Savepoint {
    changes: usize,
    touched: usize,
    sets_root: bool,
    selection: Option<Selection>,
}

impl Overlay {
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            changes: self.changes.len(),
            touched: self.touched.len(),
            sets_root: self.sets_root(),
            selection: self.selection.clone(),
        }
    }

    /// Takes back what was done since a savepoint, of this overlay and not behind one that was
    /// returned to. Afterwards it is unknown that it was ever done.
    pub(crate) fn return_to(&mut self, savepoint: &Savepoint, ids: &NodeIds) {
        let since = self.changes.split_off(savepoint.changes);
        for change in since.iter().rev().filter(|it| it.is_of_the_document()) {
            // D5. A transaction that cannot go back must not go on.
            self.make(&change.inverse(), ids)
                .expect("the inverse of the last change leads back");
        }
        // Nodes that were first touched since are again what they are in the base.
        self.touched.truncate(savepoint.touched);
        if !savepoint.sets_root {
            self.root = None;
        }
        self.selection.clone_from(&savepoint.selection);
    }
}
