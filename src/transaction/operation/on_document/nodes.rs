//! Creating and joining nodes.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{DocumentTarget, Edited, Operation, OperationOn, SizeCheck, on_document};
use crate::document::{Budget, NodeSpec, block_edits};
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

/// Joins siblings that the transaction has made neighbours so far, if both have one of these types.
///
/// The first of them keeps its type and attributes. Siblings that were neighbours of one type
/// before the transaction stay apart. So do those that the schema does not allow to be joined, and
/// those that differ in an attribute that it requires.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let item = |text: &str| element("item", [text_node("text", text)]);
/// let page = element("page", [
///     element("list", [item("a")]).with_id("list"),
///     text_node("text", "between").with_id("between"),
///     element("list", [item("b")]),
/// ]);
/// transaction(&editor, [create(page)]).commit()?;
/// transaction(&editor, [delete_node().on("between"), join_neighbours(["list"])]).commit()?;
/// assert_eq!(editor.store().snapshot().children("list").count(), 2);
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn join_neighbours(types: impl IntoIterator<Item = impl Into<SmolStr>>) -> Operation {
    let types = types.into_iter().map(Into::into).collect();
    on_document(JoinNeighbours { types })
}

/// See [`join_neighbours`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinNeighbours {
    /// The types of the nodes.
    pub types: Vec<SmolStr>,
}

impl OperationOn<DocumentTarget> for JoinNeighbours {
    without!(positions);

    fn size(&self, budget: &Budget) -> SizeCheck {
        self.types.iter().try_for_each(|kind| budget.name(kind))
    }

    fn run(self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        let (schema, base) = (on.shared_schema(), on.base().clone());
        let changed = block_edits::ChangedChildren::of(on, on.changes());
        let schema = schema.as_deref();
        Ok(block_edits::join_neighbours(
            on,
            schema,
            &base,
            &changed,
            &self.types,
        )?)
    }
}
