//! Creating nodes.

use serde::{Deserialize, Serialize};

use super::{DocumentTarget, Edited, Operation, OperationOn, SizeCheck, on_document};
use crate::document::{Budget, NodeSpec};
use crate::store::Draft;
use crate::transaction::operation::unit;

/// Creates a node with its subtree. It has no parent yet.
pub fn create(node: NodeSpec) -> Operation {
    on_document(Create { node })
}

/// See [`create`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Create {
    /// The node.
    pub node: NodeSpec,
}

impl OperationOn<DocumentTarget> for Create {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.spec(&self.node)
    }

    fn to_scalars(&mut self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        unit::of_new_node(on, &mut self.node)
    }

    fn run(self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        Ok(on.create(self.node).map(drop)?)
    }
}
