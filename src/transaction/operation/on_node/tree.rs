//! Operations on the tree: attaching, removing, moving, copying, wrapping, lifting.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::blocks::siblings_up_to;
use super::fitting::{fits_block, fits_blocks, is_text, is_text_block, plain};
use super::range::{attached_at, place_of};
use super::{Edited, NodeOperation, OperationOn, SizeCheck};
use crate::document::fit::FitEdit;
use crate::document::order::{self, Move, Siblings};
use crate::document::plan::find;
use crate::document::{
    Budget, Change, ChildPosition, EditError, Limit, Node, NodeSpec, SplitPoint, View, cost,
};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::error::OperationError;
use crate::transaction::operation::unit;
use crate::transaction::operation::{Child, NodeRef};
use crate::transaction::run::resolve;

/// Deletes the node with its subtree.
pub fn delete_node() -> NodeOperation {
    Delete { fit: false }.into()
}

/// Deletes a block as a user who has selected it: a node around it that would be left without
/// required content goes as well, and what is missing at the top is filled in. Without a schema it
/// is [`delete_node`].
pub fn delete_block() -> NodeOperation {
    Delete { fit: true }.into()
}

/// See [`delete_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delete {
    /// Whether it deletes as [`delete_block`] does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fit: bool,
}

impl OperationOn<NodeId> for Delete {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        if self.fit && fits_block(on, id, &FitEdit::DeleteBlock)? {
            return Ok(());
        }
        Ok(on.delete(id)?)
    }
}

/// Attaches a child at an index, or as the last child for `None`. The child is a new node or an
/// existing one, which leaves its old position.
pub fn add_child(child: impl Into<Child>, index: impl Into<Option<usize>>) -> NodeOperation {
    AddChild {
        child: child.into(),
        index: index.into(),
    }
    .into()
}

/// See [`add_child`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddChild {
    /// The child.
    pub child: Child,
    /// Its index among the children; the end for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
}

impl OperationOn<NodeId> for AddChild {
    fn size(&self, budget: &Budget) -> SizeCheck {
        match &self.child {
            Child::New(node) => budget.spec(node),
            Child::Existing(_) => Ok(()),
        }
    }

    fn to_scalars(&mut self, on: &mut Draft, _: &NodeId) -> Edited {
        match &mut self.child {
            Child::New(node) => unit::of_new_node(on, node),
            Child::Existing(_) => Ok(()),
        }
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        match self.child {
            Child::New(node) => drop(on.insert(node, id, self.index)?),
            Child::Existing(child) => on.move_node(&resolve(on, &child)?, id, self.index)?,
        }
        Ok(())
    }
}

/// Detaches a child. It stays in the store without a parent.
pub fn remove_child(child_id: impl Into<NodeRef>) -> NodeOperation {
    RemoveChild {
        child_id: child_id.into(),
    }
    .into()
}

/// See [`remove_child`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoveChild {
    /// The child.
    pub child_id: NodeRef,
}

impl OperationOn<NodeId> for RemoveChild {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        Ok(on.remove_child(id, &resolve(on, &self.child_id)?)?)
    }
}

/// Detaches children. They stay in the store without a parent. It is an error if a node is named
/// twice or is no child of the node.
pub fn remove_children<R: Into<NodeRef>>(child_ids: impl IntoIterator<Item = R>) -> NodeOperation {
    RemoveChildren {
        child_ids: refs(child_ids),
    }
    .into()
}

/// See [`remove_children`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoveChildren {
    /// The children.
    pub child_ids: Vec<NodeRef>,
}

impl OperationOn<NodeId> for RemoveChildren {
    without!(positions);

    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.spend(Limit::Steps, self.child_ids.len())
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let children = resolve_all(on, &self.child_ids)?;
        distinct(on, id, &children)?;
        take_away(on, id, &children, |_| None)
    }
}

/// Moves the node under another. The node then has the index, or is the last child for `None`.
pub fn move_node(parent_id: impl Into<NodeRef>, index: impl Into<Option<usize>>) -> NodeOperation {
    MoveNode {
        parent_id: parent_id.into(),
        index: index.into(),
    }
    .into()
}

/// See [`move_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveNode {
    /// The new parent.
    pub parent_id: NodeRef,
    /// The index among its children after the move; the end for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
}

impl OperationOn<NodeId> for MoveNode {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        Ok(on.move_node(id, &resolve(on, &self.parent_id)?, self.index)?)
    }
}

/// Moves children of the node to another parent, or within the same one, in the order given. The
/// first of them then has the index; for `None` they are the last children. It is an error if a
/// node is named twice or is no child of the node.
pub fn move_children<R: Into<NodeRef>>(
    child_ids: impl IntoIterator<Item = R>,
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    MoveChildren {
        child_ids: refs(child_ids),
        parent_id: parent_id.into(),
        index: index.into(),
    }
    .into()
}

/// See [`move_children`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveChildren {
    /// The children, in their new order.
    pub child_ids: Vec<NodeRef>,
    /// The new parent.
    pub parent_id: NodeRef,
    /// The index of the first one after the move; the end for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
}

impl OperationOn<NodeId> for MoveChildren {
    without!(positions);

    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.spend(Limit::Steps, self.child_ids.len())
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let children = resolve_all(on, &self.child_ids)?;
        let parent = resolve(on, &self.parent_id)?;
        take_to(on, id, &children, &parent, self.index)
    }
}

/// Swaps the node and its previous sibling. The first sibling does not move. A node without a
/// parent is an error.
pub fn move_block_up() -> NodeOperation {
    MoveBlockUp {}.into()
}

/// See [`move_block_up`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveBlockUp {}

impl OperationOn<NodeId> for MoveBlockUp {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let ChildPosition { parent, index } = place_of(on, id)?;
        if let Some(before) = index.checked_sub(1) {
            on.move_node(id, &parent, before)?;
        }
        Ok(())
    }
}

/// Swaps the node and its next sibling. The last sibling does not move. A node without a parent is
/// an error.
pub fn move_block_down() -> NodeOperation {
    MoveBlockDown {}.into()
}

/// See [`move_block_down`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveBlockDown {}

impl OperationOn<NodeId> for MoveBlockDown {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let ChildPosition { parent, index } = place_of(on, id)?;
        if index + 1 < find(on, &parent)?.children().len() {
            on.move_node(id, &parent, index + 1)?;
        }
        Ok(())
    }
}

/// Reorders the children of the node. The new order must name each child exactly once and no other
/// node. The operation moves as few children as possible.
///
/// ```
/// use doclock::{DataStore, Editor, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let items = ["a", "b", "c"].map(|id| element("item", []).with_id(id));
/// transaction(&editor, [create(element("list", items).with_id("list"))]).commit()?;
/// transaction(&editor, [reorder_children(["c", "a", "b"]).on("list")]).commit()?;
/// let error = transaction(&editor, [reorder_children(["a", "b"]).on("list")]).commit().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "operation 0 (reorderChildren on node list): \
///      node c is a child of list, but the new order leaves it out",
/// );
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn reorder_children<R: Into<NodeRef>>(child_ids: impl IntoIterator<Item = R>) -> NodeOperation {
    ReorderChildren {
        child_ids: refs(child_ids),
    }
    .into()
}

/// See [`reorder_children`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReorderChildren {
    /// All children, in their new order.
    pub child_ids: Vec<NodeRef>,
}

impl OperationOn<NodeId> for ReorderChildren {
    without!(positions);

    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.spend(Limit::Steps, self.child_ids.len())
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let children = resolve_all(on, &self.child_ids)?;
        let named = distinct(on, id, &children)?;
        let all = find(on, id)?.children();
        on.spend(Limit::Steps, |_| cost::ARRANGED * all.len())?;
        let left_out = all.iter().find(|child| !named.contains(child)).cloned();
        match left_out {
            None => arrange(on, id, &children),
            Some(child) => Err(OperationError::LeftOut {
                parent: id.clone(),
                child,
            }),
        }
    }
}

/// Copies the node without its children: the copy has the type, attributes, text and marks, and a
/// new id. It becomes the next sibling of the original; [`copy_node_to`] sets another position. The
/// copy of a node without a parent has no parent.
pub fn copy_node() -> NodeOperation {
    CopyNode {
        parent_id: None,
        index: None,
    }
    .into()
}

/// Copies the node as [`copy_node`] does, to another parent at an index, or as the last child for
/// `None`.
pub fn copy_node_to(
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    CopyNode {
        parent_id: Some(parent_id.into()),
        index: index.into(),
    }
    .into()
}

/// See [`copy_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CopyNode {
    /// The parent of the copy; the original's parent for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<NodeRef>,
    /// The index of the copy. For `None`, right after the original, or the end of another
    /// parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
}

impl OperationOn<NodeId> for CopyNode {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let parent = resolve_some(on, self.parent_id.as_ref())?;
        on.spend(Limit::Steps, |on| {
            on.node(id).map_or(0, |node| cost::marks(node.marks()))
        })?;
        let copy = NodeSpec::copy_of(on, id, false)?;
        insert_copy(on, copy, id, parent.as_ref(), self.index)
    }
}

/// Copies the node with its subtree, under new ids. The copy becomes the next sibling of the
/// original; [`clone_node_with_children_to`] sets another position. The copy of a node without a
/// parent has no parent.
pub fn clone_node_with_children() -> NodeOperation {
    CloneNodeWithChildren {
        parent_id: None,
        index: None,
    }
    .into()
}

/// Copies the node as [`clone_node_with_children`] does, to another parent at an index, or as the
/// last child for `None`. The parent may be the node itself or one of its descendants.
pub fn clone_node_with_children_to(
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    CloneNodeWithChildren {
        parent_id: Some(parent_id.into()),
        index: index.into(),
    }
    .into()
}

/// See [`clone_node_with_children`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloneNodeWithChildren {
    /// The parent of the copy; the original's parent for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<NodeRef>,
    /// The index of the copy. For `None`, right after the original, or the end of another
    /// parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
}

impl OperationOn<NodeId> for CloneNodeWithChildren {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let parent = resolve_some(on, self.parent_id.as_ref())?;
        on.check_subtree(Limit::Nodes, 1, id)?;
        on.spend(Limit::Steps, |on| {
            let nodes = on.descendants(id);
            let steps = nodes.map(|node| cost::LOOKED_UP + cost::marks(node.marks()));
            steps.sum()
        })?;
        let copy = NodeSpec::copy_of(on, id, true)?;
        insert_copy(on, copy, id, parent.as_ref(), self.index)
    }
}

/// Replaces the node with a new one and makes the node its last child. If the node has no parent,
/// the new one has none either. The root cannot be wrapped.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [
///     create(element("page", [text_node("paragraph", "To be").with_id("line")])),
///     wrap_node(element("quote", []).with_id("quote")).on("line"),
/// ])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.parent("line"), Some(&"quote".into()));
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn wrap_node(node: NodeSpec) -> NodeOperation {
    WrapNode {
        node,
        last_id: None,
    }
    .into()
}

/// Wraps the siblings from the node up to another, as [`wrap_node`] does.
pub fn wrap_nodes_up_to(last_id: impl Into<NodeRef>, node: NodeSpec) -> NodeOperation {
    WrapNode {
        node,
        last_id: Some(last_id.into()),
    }
    .into()
}

/// See [`wrap_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrapNode {
    /// The new parent of the node.
    pub node: NodeSpec,
    /// The last sibling to be wrapped; only the node itself for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for WrapNode {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.spec(&self.node)
    }

    fn to_scalars(&mut self, on: &mut Draft, _: &NodeId) -> Edited {
        unit::of_new_node(on, &mut self.node)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let last = resolve_some(on, self.last_id.as_ref())?;
        if let Some((kind, attributes)) = plain(&self.node)
            && is_text_block(on, find(on, id)?.kind())
            && fits_blocks(on, id, last.as_ref(), &FitEdit::Wrap(kind, attributes))?
        {
            return Ok(());
        }
        let wrapped = siblings_up_to(on, id, last.as_ref())?;
        let around = insert_around(on, id, self.node)?;
        let mut wrapped = wrapped.iter();
        wrapped.try_for_each(|node| Ok(on.move_node(node, &around, None)?))
    }
}

/// Moves the node out of its parent, to a position among the siblings of the parent. The first
/// child moves before the parent and the last one after it. For another child, the parent is split,
/// and the node moves between the halves; the first half keeps the parent's text. An only child
/// replaces the parent, which is deleted; if the parent has text, the child moves after it instead.
/// A node without a grandparent is an error.
pub fn lift_node() -> NodeOperation {
    LiftNode { last_id: None }.into()
}

/// Lifts the blocks from the node up to another, as [`lift_node`] does under a schema.
pub fn lift_nodes_up_to(last_id: impl Into<NodeRef>) -> NodeOperation {
    let last_id = Some(last_id.into());
    LiftNode { last_id }.into()
}

/// See [`lift_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiftNode {
    /// The last block to be lifted, under a schema; only the node itself for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for LiftNode {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let last = resolve_some(on, self.last_id.as_ref())?;
        if is_text_block(on, find(on, id)?.kind())
            && fits_blocks(on, id, last.as_ref(), &FitEdit::Lift)?
        {
            return Ok(());
        }
        let (at, above) = position_and_parent_position(on, id)?;
        let parent = find(on, &at.parent)?;
        let first = at.index == 0;
        let last = at.index + 1 == parent.children().len();
        let instead = first && last && parent.text().is_empty();
        if !first && !last {
            split_children(on, &at.parent, at.index + 1)?;
        }
        let behind = !first || (last && !instead);
        on.move_node(id, &above.parent, above.index + usize::from(behind))?;
        if instead {
            on.delete(&at.parent)?;
        }
        Ok(())
    }
}

/// Moves the node to the end of its previous sibling. If the sibling's last child has the same type
/// as the node's parent, and not the node's own type, the node moves into that child (it extends a
/// nested list). Otherwise it moves directly into the sibling. The first sibling does not move. A
/// node without a parent is an error. For nested lists see [`indent_node_in`].
pub fn indent_node() -> NodeOperation {
    IndentNode {
        container: None,
        last_id: None,
    }
    .into()
}

/// Indents the list items from the node up to another, as [`indent_node`] does under a schema.
pub fn indent_nodes_up_to(last_id: impl Into<NodeRef>) -> NodeOperation {
    IndentNode {
        container: None,
        last_id: Some(last_id.into()),
    }
    .into()
}

/// Indents the node as [`indent_node`] does; if there is no nested list to extend, it moves the
/// node into a new one, `container`. A nested list of the same type as `container` is extended,
/// too, which matters if nested lists have another type than the outer one.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let items = ["one", "two", "three"].map(|id| text_node("item", id).with_id(id));
/// transaction(&editor, [
///     create(element("list", items).with_id("list")),
///     indent_node_in(element("list", []).with_id("nested")).on("two"),
///     indent_node_in(element("list", [])).on("three"),
/// ])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.parent("nested"), Some(&"one".into()));
/// assert_eq!(page.node("nested").unwrap().children().len(), 2);
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn indent_node_in(container: NodeSpec) -> NodeOperation {
    IndentNode {
        container: Some(container),
        last_id: None,
    }
    .into()
}

/// See [`indent_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IndentNode {
    /// A new container between the previous sibling and the node, used if no suitable one
    /// exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<NodeSpec>,
    /// The last item to be indented, under a schema; only the node itself for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for IndentNode {
    fn size(&self, budget: &Budget) -> SizeCheck {
        let mut container = self.container.iter();
        container.try_for_each(|node| budget.spec(node))
    }

    fn to_scalars(&mut self, on: &mut Draft, _: &NodeId) -> Edited {
        let mut container = self.container.iter_mut();
        container.try_for_each(|node| unit::of_new_node(on, node))
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let Self { container, last_id } = self;
        let last = resolve_some(on, last_id.as_ref())?;
        if container.is_none()
            && !is_text(on, id)?
            && fits_blocks(on, id, last.as_ref(), &FitEdit::SinkItem(id))?
        {
            return Ok(());
        }
        let ChildPosition { parent, index } = place_of(on, id)?;
        let siblings = find(on, &parent)?;
        let before = index.checked_sub(1);
        let Some(sibling) = before.and_then(|before| siblings.children().get(before)) else {
            return Ok(());
        };
        let sibling = sibling.clone();
        let containers = [
            Some(siblings.kind()),
            container.as_ref().map(NodeSpec::kind),
        ];
        let kind = find(on, id)?.kind();
        let nested = last_child(on, &sibling)
            .filter(|nested| nested.kind() != kind && containers.contains(&Some(nested.kind())));
        let into = match (nested, container) {
            (Some(nested), _) => nested.id().clone(),
            (None, Some(container)) => on.insert(container, &sibling, None)?,
            (None, None) => sibling,
        };
        Ok(on.move_node(id, &into, None)?)
    }
}

/// Reverses [`indent_node`]: the node becomes the next sibling of its parent. For an item of a
/// nested list, whose grandparent has the node's own type and whose parent does not, the node
/// becomes the next sibling of the grandparent instead. The siblings after the node move with it
/// and become its last children. If they were in a nested list, they move into a list of the same
/// type and attributes, or into a list of that type that is already the last child of the node. A
/// nested list that is left empty is deleted. A node without a grandparent is an error, and so is
/// an item of a nested list whose outer item has no parent.
pub fn outdent_node() -> NodeOperation {
    OutdentNode { last_id: None }.into()
}

/// Outdents the list items from the node up to another, as [`outdent_node`] does under a schema.
pub fn outdent_nodes_up_to(last_id: impl Into<NodeRef>) -> NodeOperation {
    let last_id = Some(last_id.into());
    OutdentNode { last_id }.into()
}

/// See [`outdent_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutdentNode {
    /// The last item to be outdented, under a schema; only the node itself for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for OutdentNode {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let last = resolve_some(on, self.last_id.as_ref())?;
        if !is_text(on, id)? && fits_blocks(on, id, last.as_ref(), &FitEdit::LiftItem(id))? {
            return Ok(());
        }
        let (at, above) = position_and_parent_position(on, id)?;
        let kind = find(on, id)?.kind();
        let parent = find(on, &at.parent)?;
        if parent.kind() != kind && find(on, &above.parent)?.kind() == kind {
            return outdent_item(on, id, &at, &above.parent);
        }
        let behind = children_from(parent, at.index + 1);
        take_to(on, &at.parent, &behind, id, None)?;
        Ok(on.move_node(id, &above.parent, above.index + 1)?)
    }
}

fn refs<R: Into<NodeRef>>(nodes: impl IntoIterator<Item = R>) -> Vec<NodeRef> {
    nodes.into_iter().map(Into::into).collect()
}

fn resolve_all(on: &Draft, nodes: &[NodeRef]) -> Result<Vec<NodeId>, OperationError> {
    nodes.iter().map(|node| resolve(on, node)).collect()
}

pub(super) fn resolve_some(
    on: &Draft,
    node: Option<&NodeRef>,
) -> Result<Option<NodeId>, OperationError> {
    node.map(|node| resolve(on, node)).transpose()
}

/// Moves children of a node to a parent, which may be the same one.
fn take_to(
    on: &mut Draft,
    id: &NodeId,
    children: &[NodeId],
    parent: &NodeId,
    index: Option<usize>,
) -> Edited {
    let moving = distinct(on, id, children)?;
    let within = id == parent;
    let there = find(on, parent)?.children();
    let len = there.len() - if within { moving.len() } else { 0 };
    let index = index.unwrap_or(len);
    if index > len {
        let parent = parent.clone();
        return Err(EditError::IndexOutOfRange { parent, index, len }.into());
    }
    if within {
        on.spend(Limit::Steps, |_| cost::ARRANGED * there.len())?;
        let others = there.iter().filter(|child| !moving.contains(child));
        let mut order: Vec<NodeId> = others.cloned().collect();
        order.splice(index..index, children.iter().cloned());
        return arrange(on, id, &order);
    }
    take_away(on, id, children, |nth| {
        Some(ChildPosition {
            parent: parent.clone(),
            index: index + nth,
        })
    })
}

fn insert_copy(
    on: &mut Draft,
    copy: NodeSpec,
    original: &NodeId,
    parent: Option<&NodeId>,
    index: Option<usize>,
) -> Edited {
    match (parent, index) {
        (Some(parent), index) => on.insert(copy, parent, index)?,
        (None, Some(index)) => {
            let parent = place_of(on, original)?.parent;
            on.insert(copy, &parent, index)?
        }
        (None, None) => match attached_at(on, original)? {
            Some(ChildPosition { parent, index }) => on.insert(copy, &parent, index + 1)?,
            None => on.create(copy)?,
        },
    };
    Ok(())
}

/// Puts an item of a nested list after the item that contains the list.
fn outdent_item(on: &mut Draft, id: &NodeId, at: &ChildPosition, item: &NodeId) -> Edited {
    let to = place_of(on, item)?;
    let list = find(on, &at.parent)?;
    let behind = children_from(list, at.index + 1);
    let nested = last_child(on, id).filter(|nested| nested.kind() == list.kind());
    if let Some(nested) = nested.map(|nested| nested.id().clone()) {
        take_to(on, &at.parent, &behind, &nested, None)?;
    } else if !behind.is_empty() {
        let rest = split_children(on, &at.parent, at.index + 1)?;
        on.move_node(&rest, id, None)?;
    }
    on.move_node(id, &to.parent, to.index + 1)?;
    let list = find(on, &at.parent)?;
    if list.children().is_empty() && list.text().is_empty() {
        on.delete(&at.parent)?;
    }
    Ok(())
}

/// Where a node is attached, and where its parent is.
pub(super) fn position_and_parent_position(
    on: &Draft,
    id: &NodeId,
) -> Result<(ChildPosition, ChildPosition), OperationError> {
    let at = attached_at(on, id)?;
    let above = match &at {
        Some(at) => attached_at(on, &at.parent)?,
        None => None,
    };
    at.zip(above)
        .ok_or_else(|| OperationError::NoGrandparent { id: id.clone() })
}

/// Creates a node that will contain another: right before it, or without a parent if it has none.
pub(super) fn insert_around(
    on: &mut Draft,
    id: &NodeId,
    node: NodeSpec,
) -> Result<NodeId, OperationError> {
    find(on, id)?;
    if on.root() == Some(id) {
        return Err(OperationError::RootWrapped { id: id.clone() });
    }
    Ok(match attached_at(on, id)? {
        Some(ChildPosition { parent, index }) => on.insert(node, &parent, index)?,
        None => on.create(node)?,
    })
}

/// Splits a node before the child at `index`. Its text stays.
pub(super) fn split_children(
    on: &mut Draft,
    id: &NodeId,
    index: usize,
) -> Result<NodeId, EditError> {
    let text = find(on, id)?.text().len();
    let children = index;
    on.split_node(id, SplitPoint { text, children }, None)
}

fn last_child<'a>(on: &'a Draft, id: &NodeId) -> Option<&'a Node> {
    on.node(on.node(id)?.children().iter().next_back()?)
}

fn children_from(node: &Node, index: usize) -> Vec<NodeId> {
    let children = node.children();
    children.range(index..children.len()).cloned().collect()
}

/// The given children as a set, after a check that each is a child of the node and named once.
fn distinct<'a>(
    on: &Draft,
    id: &NodeId,
    children: &'a [NodeId],
) -> Result<HashSet<&'a NodeId>, OperationError> {
    find(on, id)?;
    on.spend(Limit::Steps, |_| cost::LOOKED_UP * children.len())?;
    let mut distinct = HashSet::with_capacity(children.len());
    for child in children {
        if find(on, child)?.parent() != Some(id) {
            let (parent, child) = (id.clone(), child.clone());
            return Err(EditError::NotAChild { parent, child }.into());
        }
        if !distinct.insert(child) {
            return Err(OperationError::NamedTwice { id: child.clone() });
        }
    }
    Ok(distinct)
}

/// Reorders all children of a node with as few moves as possible.
fn arrange(on: &mut Draft, id: &NodeId, order: &[NodeId]) -> Edited {
    let at = |index| {
        let parent = id.clone();
        Some(ChildPosition { parent, index })
    };
    for Move { nth, from, to } in order::moves(&places(on, id, order)?) {
        let id = order[nth].clone();
        let (from, to) = (at(from), at(to));
        on.apply(Change::MoveNode { id, from, to })?;
    }
    Ok(())
}

/// Moves children of a node, in the order given, each to its target.
fn take_away(
    on: &mut Draft,
    id: &NodeId,
    children: &[NodeId],
    to: impl Fn(usize) -> Option<ChildPosition>,
) -> Edited {
    let places = places(on, id, children)?;
    let mut siblings = Siblings::new(find(on, id)?.children().len());
    for (nth, (child, place)) in children.iter().zip(places).enumerate() {
        let from = ChildPosition {
            parent: id.clone(),
            index: siblings.take(place),
        };
        on.apply(Change::MoveNode {
            id: child.clone(),
            from: Some(from),
            to: to(nth),
        })?;
    }
    Ok(())
}

/// The indexes of these children. One pass over all children instead of one for each.
fn places(on: &Draft, id: &NodeId, children: &[NodeId]) -> Result<Vec<usize>, EditError> {
    let all = find(on, id)?.children();
    on.spend(Limit::Steps, |_| cost::ARRANGED * all.len())?;
    let all = all.iter().enumerate();
    let places: HashMap<&NodeId, usize> = all.map(|(at, child)| (child, at)).collect();
    let places = children.iter().map(|child| places.get(child).copied());
    Ok(places.flatten().collect())
}
