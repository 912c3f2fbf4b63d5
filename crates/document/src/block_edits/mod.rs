//! Edits of blocks that need no schema: deleting across nodes, pasting, and joining neighbours.

mod deleting;
mod joining;
mod pasting;

pub use deleting::delete_range;
pub(crate) use joining::join_with_previous;
pub use joining::{ChangedChildren, join_neighbours};
pub use pasting::paste;

use crate::{
    ChildPosition, EditError, Mark, Node, NodeId, NodeSpec, Position, Selection, SplitPoint,
    TextSelection, Value, View, cost, plan,
};

/// The edits of a draft. Those of the same name in `doclock::Draft` describe them.
pub trait BlockEdits: View {
    fn insert_node(
        &mut self,
        spec: NodeSpec,
        parent: &NodeId,
        index: usize,
    ) -> Result<NodeId, EditError>;
    fn delete_node(&mut self, id: &NodeId) -> Result<(), EditError>;
    fn move_to(&mut self, id: &NodeId, parent: &NodeId, index: usize) -> Result<(), EditError>;
    fn split(&mut self, id: &NodeId, at: SplitPoint) -> Result<NodeId, EditError>;
    fn join(&mut self, id: &NodeId, right: &NodeId) -> Result<(), EditError>;
    fn replace(
        &mut self,
        id: &NodeId,
        start: usize,
        end: usize,
        text: String,
    ) -> Result<(), EditError>;
    fn set_all_marks(&mut self, id: &NodeId, marks: Vec<Mark>) -> Result<(), EditError>;
    fn set_kind(&mut self, id: &NodeId, kind: &str) -> Result<(), EditError>;
    fn patch(&mut self, id: &NodeId, attributes: Vec<(String, Value)>) -> Result<(), EditError>;
    /// Spends steps of the budget, if there is one.
    fn spend_steps(&self, count: &dyn Fn(&Self) -> usize) -> Result<(), EditError>;
    /// The selection, if there is one.
    fn selected(&self) -> Option<&Selection>;
    fn select_text(&mut self, selection: Selection) -> Result<(), EditError>;
}

/// Whether the node's children are pieces of its text: it has childless children and no text of its
/// own.
fn is_text_block(on: &impl BlockEdits, node: &Node) -> Result<bool, EditError> {
    if !node.text().is_empty() || node.children().is_empty() {
        return Ok(false);
    }
    all_children(on, node.id(), |child| child.children().is_empty())
}

/// Whether all children of a node are like this. Visits those before the first that is not.
fn all_children(
    on: &impl BlockEdits,
    id: &NodeId,
    are: impl Fn(&Node) -> bool,
) -> Result<bool, EditError> {
    for child in on.children(id) {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        if !are(child) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two nodes are of the same type and have the same attributes.
fn are_alike(on: &impl BlockEdits, one: &Node, other: &Node) -> Result<bool, EditError> {
    on.spend_steps(&|_| one.attributes().steps())?;
    Ok(one.kind() == other.kind() && one.attributes() == other.attributes())
}

/// Where a node is attached. A node without a parent is an error.
fn place_of(on: &impl BlockEdits, id: &NodeId) -> Result<ChildPosition, EditError> {
    let node = plan::find(on, id)?;
    on.spend_steps(&|on| {
        let parent = node.parent().and_then(|parent| on.node(parent));
        parent.map_or(0, |parent| parent.children().len()) / cost::SIBLINGS
    })?;
    plan::place(on, node).ok_or_else(|| EditError::NoParent { id: id.clone() })
}

/// Moves those ends of the selected text that have a new position.
fn reselect<E: BlockEdits>(
    on: &mut E,
    other_place: impl Fn(&E, &Position) -> Option<Position>,
) -> Result<(), EditError> {
    let Some(Selection::Text(TextSelection { anchor, focus, .. })) = on.selected() else {
        return Ok(());
    };
    let place = |end: &Position| other_place(on, end).unwrap_or_else(|| end.clone());
    let selection = Selection::new(place(anchor), place(focus));
    on.select_text(selection)
}
