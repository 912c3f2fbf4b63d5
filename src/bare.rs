//! A bare document for the benchmarks, without a lock, queue, owner, events or metrics. Its cost is
//! the minimum for an edit of such a document; a store adds the cost of the rest.

use std::ops::Range;
use std::sync::Arc;

use crate::document::{EditError, NodeSpec, Overlay, Snapshot, plan};
use crate::id::NodeId;
use crate::store::{Draft, SharedDocument};
use crate::time::Clock;
use crate::transaction::{IntoOperations, RunOperations, TransactionError};

/// A document of one thread.
#[allow(missing_debug_implementations)]
pub struct Bare {
    document: Snapshot,
    /// The ids of its nodes. Its version stays the first.
    shared: Arc<SharedDocument>,
}

impl Bare {
    /// Creates an empty document.
    pub fn new() -> Self {
        Self {
            document: Snapshot::default(),
            shared: SharedDocument::new(Snapshot::default(), (1, 0), None, Clock::default()),
        }
    }

    /// Returns the current document.
    pub fn document(&self) -> &Snapshot {
        &self.document
    }

    /// Runs an operation batch, all or nothing, as the next version.
    pub fn execute(&mut self, operations: impl IntoOperations) -> Result<(), TransactionError> {
        let mut draft = Draft::under_no_lock(&self.shared, self.document.clone());
        draft.run(operations)?;
        draft.fold_into(&mut self.document);
        Ok(())
    }

    /// Creates a node in an overlay and folds it in.
    pub fn create(&mut self, spec: NodeSpec) -> Result<NodeId, EditError> {
        let nodes = spec.into_nodes(None, &self.shared.ids)?;
        let id = nodes[0].id().clone();
        let mut overlay = Overlay::new(self.document.clone());
        if let Some(change) = plan::insert_subtree(&overlay, nodes, None)? {
            overlay.apply(change, &self.shared.ids)?;
        }
        overlay.fold_into(&mut self.document);
        Ok(id)
    }

    /// Replaces characters of a node in an overlay and folds it in: only the overlay's part of a
    /// commit.
    pub fn splice(
        &mut self,
        id: &NodeId,
        range: Range<usize>,
        text: &str,
    ) -> Result<(), EditError> {
        let mut overlay = Overlay::new(self.document.clone());
        if let Some(change) =
            plan::splice_text(plan::find(&overlay, id)?, Some(range), text.into())?
        {
            overlay.apply(change, &self.shared.ids)?;
        }
        overlay.fold_into(&mut self.document);
        Ok(())
    }
}

impl Default for Bare {
    fn default() -> Self {
        Self::new()
    }
}
