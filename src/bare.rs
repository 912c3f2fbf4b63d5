//! A bare document for the benchmarks, without a lock, queue, owner, events or metrics. Its cost is
//! the minimum for an edit of such a document; a store adds the cost of the rest.

use std::ops::Range;

use crate::document::{EditError, NodeSpec, Overlay, Snapshot, plan};
use crate::id::{NodeId, NodeIds};
use crate::store::{DataStore, Transaction};
use crate::transaction::{IntoOperations, RunOperations, TransactionError};

/// A document of one thread.
#[derive(Debug)]
pub struct Bare {
    document: Snapshot,
    ids: NodeIds,
    /// Transactions belong to a store; this one is never locked and stays empty.
    store: DataStore,
}

impl Bare {
    /// Creates an empty document.
    pub fn new() -> Self {
        Self {
            document: Snapshot::default(),
            ids: NodeIds::after(1, 0),
            store: DataStore::new(),
        }
    }

    /// Returns the current document.
    pub fn document(&self) -> &Snapshot {
        &self.document
    }

    /// Runs an operation batch, all or nothing, as the next version.
    pub fn execute(&mut self, operations: impl IntoOperations) -> Result<(), TransactionError> {
        let mut transaction = Transaction::bare(&self.store, self.document.clone());
        transaction.run(operations)?;
        transaction.fold_into(&mut self.document);
        Ok(())
    }

    /// Creates a node in an overlay and folds it in.
    pub fn create(&mut self, spec: NodeSpec) -> Result<NodeId, EditError> {
        let nodes = spec.into_nodes(None, &self.ids)?;
        let id = nodes[0].id().clone();
        let mut overlay = Overlay::new(self.document.clone());
        if let Some(change) = plan::insert_subtree(&overlay, nodes, None)? {
            overlay.apply(change, &self.ids)?;
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
        if let Some(change) = plan::splice_text(&overlay, id, Some(range), text.into())? {
            overlay.apply(change, &self.ids)?;
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
