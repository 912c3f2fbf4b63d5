//! A bare document, without a lock, queue, owner, events or metrics. Its cost is the minimum for an
//! edit of such a document; a store adds the cost of the rest.

use std::ops::Range;

use doclock::document::{EditError, NodeSpec, SmolStr};
use doclock::transaction::on_node::{DeleteTextRange, InsertText};
use doclock::transaction::{NodeOperation, NodeRef, Operation, TransactionError};
use doclock::{NodeId, Snapshot};
use doclock_document::internal::{NodeIds, Overlay, plan};

/// A document of one thread.
pub struct Bare {
    document: Snapshot,
    ids: NodeIds,
}

impl Bare {
    /// Creates an empty document.
    pub fn new() -> Self {
        Self {
            document: Snapshot::default(),
            ids: NodeIds::after(1, 0),
        }
    }

    /// Returns the current document.
    pub fn document(&self) -> &Snapshot {
        &self.document
    }

    /// Runs operations that insert text or delete it, all or nothing, as the next version.
    pub fn execute(
        &mut self,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<(), TransactionError> {
        let mut overlay = Overlay::new(self.document.clone());
        for (index, operation) in operations.into_iter().enumerate() {
            let (id, range, text) = match operation {
                Operation::On {
                    node_id: NodeRef::Id(id),
                    operation: NodeOperation::InsertText(InsertText { offset, text }),
                    ..
                } => (id, offset..offset, text),
                Operation::On {
                    node_id: NodeRef::Id(id),
                    operation: NodeOperation::DeleteTextRange(DeleteTextRange { start, end }),
                    ..
                } => (id, start..end, SmolStr::default()),
                other => unreachable!("no benchmark has {other:?}"),
            };
            let edited = splice(&mut overlay, &self.ids, &id, range, text);
            edited.map_err(|error| TransactionError::Operation {
                index,
                name: "splice",
                node_id: Some(id),
                cause: error.into(),
            })?;
        }
        overlay.fold_into(&mut self.document);
        Ok(())
    }

    /// Creates a node.
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

    /// Replaces characters of a node.
    pub fn splice(
        &mut self,
        id: &NodeId,
        range: Range<usize>,
        text: &str,
    ) -> Result<(), EditError> {
        let mut overlay = Overlay::new(self.document.clone());
        splice(&mut overlay, &self.ids, id, range, text.into())?;
        overlay.fold_into(&mut self.document);
        Ok(())
    }
}

fn splice(
    overlay: &mut Overlay,
    ids: &NodeIds,
    id: &NodeId,
    range: Range<usize>,
    text: SmolStr,
) -> Result<(), EditError> {
    match plan::splice_text(plan::find(overlay, id)?, Some(range), text)? {
        Some(change) => overlay.apply(change, ids),
        None => Ok(()),
    }
}
