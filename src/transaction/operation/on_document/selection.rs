//! The selection.

use serde::{Deserialize, Serialize};

use super::{DocumentTarget, Edited, Operation, OperationOn, SizeCheck, on_document};
use crate::document::{Budget, Selection};
use crate::store::Draft;

/// Sets the selection.
pub fn set_selection(selection: impl Into<Selection>) -> Operation {
    let selection = selection.into();
    on_document(SetSelection { selection })
}

/// See [`set_selection`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetSelection {
    /// The selection.
    pub selection: Selection,
}

impl OperationOn<DocumentTarget> for SetSelection {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.marks(self.selection.marks().unwrap_or_default())
    }

    fn to_scalars(&mut self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        self.selection = self.selection.to_scalar(on)?;
        Ok(())
    }

    fn run(self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        Ok(on.select(self.selection)?)
    }
}

/// Clears the selection.
pub fn clear_selection() -> Operation {
    on_document(ClearSelection {})
}

/// See [`clear_selection`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClearSelection {}

impl OperationOn<DocumentTarget> for ClearSelection {
    without!(size, positions);

    fn run(self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        Ok(on.select(None)?)
    }
}
