//! Operations on the document or the selection, as data: one type for each.
//!
//! The functions in [`dsl`](crate::dsl) create them and document each; the [page of
//! operations](crate::guide::operations) lists all of them in tables.

mod conditions;
mod nodes;
mod selection;
mod typing;

use super::Operation;
use super::list::{Edited, OperationOn, SizeCheck};

/// The target of these operations.
pub(in crate::transaction) struct DocumentTarget;

type Target = DocumentTarget;

operations! {
    /// An operation on the document or the selection.
    /// [`on_document`](crate::transaction::on_document) has the types of all of them.
    DocumentOperation;

    nodes {
        Create => create;
        JoinNeighbours => join_neighbours;
    }

    selection {
        SetSelection => set_selection;
        ClearSelection => clear_selection;
    }

    typing {
        ApplyInputRules => apply_input_rules, apply_input_rules_at;
    }

    conditions {
        IfUnchanged => if_unchanged;
        RequireLease => require_lease;
    }
}

impl From<DocumentOperation> for Operation {
    fn from(operation: DocumentOperation) -> Self {
        Self::OnDocument {
            operation,
            unit: None,
        }
    }
}

/// Makes the operation of a row of the list.
fn on_document(operation: impl Into<DocumentOperation>) -> Operation {
    operation.into().into()
}
