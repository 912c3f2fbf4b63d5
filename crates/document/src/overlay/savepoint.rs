//! Savepoints: moments within a transaction to which it can roll back.

use std::sync::Arc;

use super::{ChangeSource, DraftSizes, Overlay};
use crate::Selection;
use crate::id::NodeIds;

/// The state of an overlay, as lengths: later changes are undone by their inverses.
#[derive(Debug)]
pub struct OverlaySavepoint {
    changes: usize,
    touched: usize,
    sets_root: bool,
    selection: Option<Selection>,
    sizes: Option<Arc<DraftSizes>>,
}

impl Overlay {
    pub fn savepoint(&self) -> OverlaySavepoint {
        OverlaySavepoint {
            changes: self.changes.len(),
            touched: self.touched.len(),
            sets_root: self.sets_root(),
            selection: self.selection.clone(),
            sizes: self.sizes.clone(),
        }
    }

    /// Undoes the changes since a savepoint of this overlay that is still valid. No trace of them
    /// remains.
    pub fn return_to(&mut self, savepoint: &OverlaySavepoint, ids: &NodeIds) {
        let since = self.changes.split_off(savepoint.changes);
        self.details.retain(|it| it.change < savepoint.changes);
        for change in since.iter().rev().filter(|it| it.is_of_the_document()) {
            // D5. A transaction that cannot roll back must not continue.
            self.make(ChangeSource::Rollback, change.inverse(), ids)
                .expect("the inverse of the last change leads back");
        }
        // Nodes first touched later now equal those of the base.
        self.touched.truncate(savepoint.touched);
        if !savepoint.sets_root {
            self.root = None;
        }
        self.selection.clone_from(&savepoint.selection);
        self.sizes.clone_from(&savepoint.sizes);
    }
}
