//! Operations on the tree: removing, moving, copying, wrapping, lifting.

use std::collections::{HashMap, HashSet};

use super::Edited;
use super::order::{self, Move, Siblings};
use super::range::{attached_at, place_of};
use crate::document::plan::find;
use crate::document::{
    Change, ChildPosition, EditError, Limit, Node, NodeSpec, SplitPoint, View, cost,
};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::error::OperationError;

pub(super) fn remove_children(on: &mut Draft, id: &NodeId, children: &[NodeId]) -> Edited {
    distinct(on, id, children)?;
    take_away(on, id, children, |_| None)
}

pub(super) fn move_children(
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

pub(super) fn move_block_up(on: &mut Draft, id: &NodeId) -> Edited {
    let ChildPosition { parent, index } = place_of(on, id)?;
    if let Some(before) = index.checked_sub(1) {
        on.move_node(id, &parent, before)?;
    }
    Ok(())
}

pub(super) fn move_block_down(on: &mut Draft, id: &NodeId) -> Edited {
    let ChildPosition { parent, index } = place_of(on, id)?;
    if index + 1 < find(on, &parent)?.children().len() {
        on.move_node(id, &parent, index + 1)?;
    }
    Ok(())
}

pub(super) fn reorder_children(on: &mut Draft, id: &NodeId, children: &[NodeId]) -> Edited {
    let named = distinct(on, id, children)?;
    let all = find(on, id)?.children();
    on.spend(Limit::Steps, |_| cost::ARRANGED * all.len())?;
    let left_out = all.iter().find(|child| !named.contains(child)).cloned();
    match left_out {
        None => arrange(on, id, children),
        Some(child) => Err(OperationError::LeftOut {
            parent: id.clone(),
            child,
        }),
    }
}

pub(super) fn copy_node(
    on: &mut Draft,
    id: &NodeId,
    parent: Option<&NodeId>,
    index: Option<usize>,
) -> Edited {
    on.spend(Limit::Steps, |on| {
        on.node(id).map_or(0, |node| cost::marks(node.marks()))
    })?;
    let copy = NodeSpec::copy_of(on, id, false)?;
    insert_copy(on, copy, id, parent, index)
}

pub(super) fn clone_node_with_children(
    on: &mut Draft,
    id: &NodeId,
    parent: Option<&NodeId>,
    index: Option<usize>,
) -> Edited {
    on.check_subtree(Limit::Nodes, 1, id)?;
    on.spend(Limit::Steps, |on| {
        let nodes = on.descendants(id);
        let steps = nodes.map(|node| cost::LOOKED_UP + cost::marks(node.marks()));
        steps.sum()
    })?;
    let copy = NodeSpec::copy_of(on, id, true)?;
    insert_copy(on, copy, id, parent, index)
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

pub(super) fn wrap_node(on: &mut Draft, id: &NodeId, node: NodeSpec) -> Edited {
    let around = insert_around(on, id, node)?;
    Ok(on.move_node(id, &around, None)?)
}

pub(super) fn lift_node(on: &mut Draft, id: &NodeId) -> Edited {
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

pub(super) fn indent_node(on: &mut Draft, id: &NodeId, container: Option<NodeSpec>) -> Edited {
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

pub(super) fn outdent_node(on: &mut Draft, id: &NodeId) -> Edited {
    let (at, above) = position_and_parent_position(on, id)?;
    let kind = find(on, id)?.kind();
    let parent = find(on, &at.parent)?;
    if parent.kind() != kind && find(on, &above.parent)?.kind() == kind {
        return outdent_item(on, id, &at, &above.parent);
    }
    let behind = children_from(parent, at.index + 1);
    move_children(on, &at.parent, &behind, id, None)?;
    Ok(on.move_node(id, &above.parent, above.index + 1)?)
}

/// Puts an item of a nested list after the item that contains the list.
fn outdent_item(on: &mut Draft, id: &NodeId, at: &ChildPosition, item: &NodeId) -> Edited {
    let to = place_of(on, item)?;
    let list = find(on, &at.parent)?;
    let behind = children_from(list, at.index + 1);
    let nested = last_child(on, id).filter(|nested| nested.kind() == list.kind());
    if let Some(nested) = nested.map(|nested| nested.id().clone()) {
        move_children(on, &at.parent, &behind, &nested, None)?;
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
    node.children().iter().skip(index).cloned().collect()
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
