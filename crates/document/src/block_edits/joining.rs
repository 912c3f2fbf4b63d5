//! Joining siblings that an edit made neighbours: `autoJoin` of prosemirror-commands.

use std::collections::{HashMap, HashSet};

use super::BlockEdits;
use crate::hashing::Secret;
use crate::schema::Schema;
use crate::{Change, EditError, Node, NodeId, View, cost, plan};

/// The nodes whose children changes have changed.
#[derive(Debug, Default)]
pub struct ChangedChildren {
    parents: Vec<NodeId>,
    /// For each second half of a split and each node that took in another, the node at whose end
    /// it ended before.
    ends: HashMap<NodeId, NodeId>,
}

/// Joins changed children that are neighbours of one of these types, and were no neighbours of that
/// type in `base`, the version before the changes. The first of them keeps its attributes. Siblings
/// that the schema does not allow to be joined stay as they are: those that differ in a required
/// attribute, and those whose content would be invalid.
///
/// # Errors
///
/// An error of an edit.
pub fn join_neighbours<E: BlockEdits>(
    on: &mut E,
    schema: Option<&Schema>,
    base: &impl View,
    changed: &ChangedChildren,
    kinds: &[impl AsRef<str>],
) -> Result<(), EditError> {
    on.spend_steps(&|_| kinds.len())?;
    let kinds: HashSet<&str, Secret> = kinds.iter().map(AsRef::as_ref).collect();
    let mut pairs = Vec::new();
    for parent in &changed.parents {
        let mut before: Option<&Node> = None;
        for node in on.children(parent) {
            on.spend_steps(&|_| cost::LOOKED_UP)?;
            if let Some(before) = before.filter(|before| before.kind() == node.kind())
                && kinds.contains(node.kind())
                && !changed.were_neighbours(base, before, node)
            {
                pairs.push((before.id().clone(), node.id().clone()));
            }
            before = Some(node);
        }
    }
    // From the last to the first, so that the first of a run stays. A join of their parents moves
    // siblings to another parent.
    for (left, right) in pairs.into_iter().rev() {
        let parent = on.node(&left).and_then(Node::parent).cloned();
        if let Some(parent) = parent
            && can_join(on, schema, &parent, &left, &right)?
        {
            on.join(&left, &right)?;
        }
    }
    Ok(())
}

impl ChangedChildren {
    /// The nodes that have other children, or children of another type, after changes.
    pub fn of(on: &impl View, changes: &[Change]) -> Self {
        let (mut parents, mut ends) = (Vec::new(), HashMap::new());
        for change in changes {
            match change {
                Change::InsertSubtree { at, .. } | Change::RemoveSubtree { at, .. } => {
                    parents.extend(at.iter().map(|at| at.parent.clone()));
                }
                Change::MoveNode { from, to, .. } => {
                    let both = from.iter().chain(to);
                    parents.extend(both.map(|at| at.parent.clone()));
                }
                Change::SplitNode {
                    id, right, place, ..
                } => {
                    parents.push(place.parent.clone());
                    let end = ends.get(id).unwrap_or(id).clone();
                    ends.insert(right.id.clone(), end);
                }
                Change::JoinNodes {
                    id, right, place, ..
                } => {
                    parents.extend([id.clone(), place.parent.clone()]);
                    let end = ends.get(&right.id).unwrap_or(&right.id).clone();
                    ends.insert(id.clone(), end);
                }
                Change::SetType { id, .. } => {
                    let parent = on.node(id).and_then(|node| node.parent().cloned());
                    parents.extend(parent);
                }
                _ => {}
            }
        }
        let mut seen = HashSet::new();
        parents.retain(|parent| on.node(parent).is_some() && seen.insert(parent.clone()));
        Self { parents, ends }
    }

    /// Whether two siblings of one type were that before. What is behind the second half of a split
    /// was behind the node that was split, and what is behind a join was behind the second node.
    fn were_neighbours(&self, base: &impl View, left: &Node, right: &Node) -> bool {
        let id = self.ends.get(left.id()).unwrap_or(left.id());
        let is_same = |id| base.node(id).map(Node::kind) == Some(left.kind());
        let next = || base.next_sibling(id).map(Node::id) == Some(right.id());
        is_same(id) && is_same(right.id()) && next()
    }
}

/// Whether the schema allows two siblings of one type to be joined.
fn can_join<E: BlockEdits>(
    on: &E,
    schema: Option<&Schema>,
    parent: &NodeId,
    left: &NodeId,
    right: &NodeId,
) -> Result<bool, EditError> {
    let Some(schema) = schema else {
        return Ok(true);
    };
    let (one, other) = (plan::find(on, left)?, plan::find(on, right)?);
    let number = |node: &Node| schema.number_of(node.kind());
    let (Some(first), Some(second)) = (number(one), number(other)) else {
        return Ok(false);
    };
    if schema.is_empty_type(first)
        || !schema.are_one_kind((first, one.attributes()), (second, other.attributes()))
    {
        return Ok(false);
    }
    let content = on.children(left).chain(on.children(right));
    if !is_content(on, schema, one, content)? {
        return Ok(false);
    }
    let around = plan::find(on, parent)?;
    let rest = on.children(parent).filter(|child| child.id() != right);
    is_content(on, schema, around, rest)
}

/// Whether nodes are valid children of another.
fn is_content<'a, E: BlockEdits>(
    on: &E,
    schema: &Schema,
    of: &Node,
    children: impl Iterator<Item = &'a Node>,
) -> Result<bool, EditError> {
    let mut state = schema.first_state(of.kind());
    for child in children {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        state = state.and_then(|state| schema.next_state(of.kind(), state, child.kind()));
    }
    Ok(state.is_some_and(|state| schema.may_end_in(of.kind(), state)))
}
